"""Bringing files in: one at a time, and many as a job that may be run twice."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.conftest import OpenMemory
from tests.samples import keeping, write_memory

from scrimshaw.app.mcp.protocol import Dispatcher
from scrimshaw.app.mcp.tools import choose
from scrimshaw.engine import Engine
from scrimshaw.engine.importers import INGEST, find_ingest_job, run_ingest_job, save_file, start_ingest
from scrimshaw.engine.write import update
from scrimshaw.errors import InvalidRequest, NotFound, ScrimshawError, StorageFailure, UnreadableFile
from scrimshaw.ingest.memory_file import is_private, parse_memory_file
from scrimshaw.models import Filters, Job, JobState

LEASE_S = 60.0


@pytest.fixture
def outside(project: Path) -> Path:
    """A folder that no source reads."""
    return project / ".outside"


def ids(engine: Engine) -> list[str]:
    return [memory.id for memory in engine.index.select(Filters(), sort="id", limit=-1, offset=0)]


def claimed(engine: Engine, lease_s: float = LEASE_S) -> Job:
    job = engine.journal.claim([INGEST], lease_s)
    assert job is not None
    return job


def run(engine: Engine, job: Job) -> str:
    return run_ingest_job(engine, job, keeping(engine.journal, job))


def test_a_copy_is_saved_and_the_original_left_alone(engine: Engine, outside: Path) -> None:
    head = "title: Carving\ntier: important\ntriggerPhrases: [carve it]\ntags: [ivory]\nown: key\n"
    head += "questions: Who carves, and when?\ncreated: 2024-01-02"
    path = write_memory(outside, "note", "Walrus ivory.\n", head)
    raw = path.read_bytes()
    saved = save_file(engine, path)
    memory = engine.memory(saved.id)
    assert (saved.id, saved.status, memory.title, memory.tier) == ("carving", "saved", "Carving", "important")
    assert (memory.triggers, memory.topics, memory.provenance.source) == (("carve it",), ("ivory",), "import")
    assert (memory.questions, memory.created[:10]) == (("Who carves, and when?",), "2024-01-02")
    assert engine.index.bodies([saved.id])[saved.id] == "Walrus ivory.\n"
    assert engine.journal.history(saved.id, 1)[0]["reason"] == "imported from note.md"
    assert path.read_bytes() == raw
    assert save_file(engine, path).status == "duplicate"
    assert save_file(engine, path, force=True).id == "carving-2"


@pytest.mark.parametrize(
    ("stated", "expected"),
    [("visibility: private", True), ("Visibility: [ana]", True), ("visibility: team", False), ("own: key", False)],
)
def test_a_copy_is_as_private_as_the_original(engine: Engine, outside: Path, stated: str, expected: bool) -> None:
    saved = save_file(engine, write_memory(outside, "note", "Walrus ivory.\n", stated))
    assert is_private(parse_memory_file(Path(saved.path).read_bytes())) is expected
    change = update(engine, saved.id, {"title": "Ivory"})
    assert is_private(parse_memory_file(Path(change.path).read_bytes())) is expected


def test_a_file_of_a_source_is_indexed_where_it_stands(open_memory: OpenMemory, project: Path, vault: Path) -> None:
    document = write_memory(project / "docs", "guide", "A guide.")
    memory = write_memory(vault, "a", "text")
    engine = open_memory()
    assert save_file(engine, Path("docs/guide.md")).id == "docs/guide"
    saved = save_file(engine, memory)
    assert (saved.id, saved.status, saved.path) == ("a", "indexed", str(memory.resolve()))
    assert (ids(engine), document.exists()) == (["a", "docs/guide"], True)


def test_a_broken_file_of_a_source_is_named(engine: Engine, vault: Path) -> None:
    path = vault / "broken.md"
    path.write_bytes(b"\xff")
    with pytest.raises(UnreadableFile, match=r"broken\.md"):
        save_file(engine, path)


def test_what_cannot_be_imported_is_told(open_memory: OpenMemory, outside: Path) -> None:
    engine = open_memory("[index]\nmax_file_bytes = 1024\n")
    outside.mkdir()
    cases: list[tuple[bytes | None, type[ScrimshawError]]] = [
        (None, NotFound), (b"\xff\xfe", UnreadableFile), (b"x" * 2000, UnreadableFile), (b"  \n", InvalidRequest),
        (b"---\na: [\n---\ntext", UnreadableFile),
    ]  # fmt: skip
    for number, (raw, error) in enumerate(cases):
        path = outside / f"{number}.md"
        if raw is not None:
            path.write_bytes(raw)
        with pytest.raises(error):
            save_file(engine, path)
    with pytest.raises(NotFound):
        save_file(engine, outside)
    assert ids(engine) == []


def test_a_dry_run_imports_nothing(engine: Engine, outside: Path) -> None:
    path = write_memory(outside, "note", "text")
    assert save_file(engine, path, dry_run=True).status == "dry_run"
    assert (ids(engine), engine.journal.verify()) == ([], (0, 0))


# Jobs


def test_a_job_imports_files_and_folders(engine: Engine, outside: Path) -> None:
    for number in range(3):
        write_memory(outside, f"deep/n{number}", f"text {number}")
    write_memory(outside, "single", "single text")
    (outside / "deep/broken.md").write_bytes(b"\xff")
    (outside / "deep/not-markdown.txt").write_text("text")
    number = start_ingest(engine, [str(outside / "deep"), str(outside / "single.md"), str(outside / "absent.md")])
    assert find_ingest_job(engine, number).state == JobState.QUEUED
    errors = run(engine, claimed(engine)).splitlines()
    assert [error.partition(":")[0] for error in errors] == [
        str(outside / "deep/broken.md"), str(outside / "absent.md"),
    ]  # fmt: skip
    assert len(ids(engine)) == 4
    told = find_ingest_job(engine, number)
    assert (told.done, told.total) == (6, 6)


def test_a_job_run_again_after_a_crash_saves_nothing_twice(engine: Engine, outside: Path) -> None:
    for number in range(4):
        write_memory(outside, f"n{number}", f"the text of {number}")
    start_ingest(engine, [str(outside)])
    job = claimed(engine, lease_s=-1.0)
    save_file(engine, outside / "n0.md")
    save_file(engine, outside / "n1.md")  # here the worker is killed; its lease runs out
    again = claimed(engine)
    assert (again.id, again.attempts) == (job.id, 2)
    assert run(engine, again) == "files that say what a memory says already: 2 of 4"
    assert run(engine, again) == "files that say what a memory says already: 4 of 4"
    assert len(ids(engine)) == 4
    assert engine.journal.verify() == (4, 0)


def test_a_cancelled_job_stops(engine: Engine, outside: Path) -> None:
    for number in range(4):
        write_memory(outside, f"n{number}", f"the text of {number}")
    number = start_ingest(engine, [str(outside)])
    job = claimed(engine)
    engine.journal.change_job(number, JobState.CANCELLED)
    run(engine, job)
    assert len(ids(engine)) == 1
    assert find_ingest_job(engine, number).state == JobState.CANCELLED


def test_a_job_without_files_says_so(engine: Engine, outside: Path) -> None:
    outside.mkdir()
    start_ingest(engine, [str(outside)])
    assert "no Markdown file" in run(engine, claimed(engine))


def test_only_imports_are_imports(engine: Engine) -> None:
    other = engine.journal.enqueue("embed", "", {})
    for number in (other, 999):
        with pytest.raises(NotFound, match=f"no import {number}"):
            find_ingest_job(engine, number)


def test_two_imports_of_the_same_paths_are_one_job_while_it_waits(engine: Engine, outside: Path) -> None:
    outside.mkdir()
    number = start_ingest(engine, [str(outside)])
    assert start_ingest(engine, [str(outside)]) == number
    job = claimed(engine)
    run(engine, job)
    engine.journal.finish(job, JobState.DONE)
    assert start_ingest(engine, [str(outside)]) != number


def test_a_job_that_was_stopped_goes_on_where_it_was(engine: Engine, outside: Path) -> None:
    for number in range(4):
        write_memory(outside, f"n{number}", f"the text of {number}")
    start_ingest(engine, [str(outside)])
    job = claimed(engine)
    run_ingest_job(engine, job, lambda done, total: engine.journal.renew_lease(job, done, total, LEASE_S) and done < 2)
    engine.journal.finish(job, JobState.QUEUED, "its worker was stopped", retry_in_s=0.0)
    again = claimed(engine)
    assert (again.done, again.attempts, len(ids(engine))) == (2, 2, 2)
    assert run(engine, again) == ""
    assert len(ids(engine)) == 4


def test_what_was_not_taken_is_told(engine: Engine, outside: Path) -> None:
    write_memory(outside, "todo", "TODO")
    secret = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
    (outside / f"{secret}.md").write_text("# Tides\n\nThe tide turns at noon in this harbour.\n")
    start_ingest(engine, [str(outside)])
    told = run(engine, claimed(engine))
    assert "todo.md: rejected: " in told
    assert secret not in str(engine.journal.history(limit=9)) + told


@pytest.mark.parametrize("name", ["notes.txt", "passwd"])
def test_what_is_not_markdown_is_refused(engine: Engine, outside: Path, name: str) -> None:
    outside.mkdir()
    (outside / name).write_text("text")
    with pytest.raises(InvalidRequest, match="not a Markdown"):
        save_file(engine, outside / name)


def test_an_empty_path_is_refused(engine: Engine) -> None:
    with pytest.raises(InvalidRequest, match="empty"):
        start_ingest(engine, ["docs", " "])


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="only Linux has a file that never lets itself be read")
def test_a_file_that_cannot_be_read_is_refused_and_stops_no_other(engine: Engine, outside: Path) -> None:
    write_memory(outside, "whole", "Walrus ivory was carved aboard, with a needle and much patience.")
    (outside / "refusing.md").symlink_to("/proc/self/mem")
    with pytest.raises(StorageFailure, match="Cannot read"):
        save_file(engine, outside / "refusing.md")
    start_ingest(engine, [str(outside)])
    assert "outside of the project" in run(engine, claimed(engine))
    assert ids(engine) == ["whole"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_file_whose_name_is_no_text_is_refused_and_stops_no_other(engine: Engine, outside: Path) -> None:
    write_memory(outside, "whole", "Walrus ivory was carved aboard, with a needle and much patience.")
    (outside / os.fsdecode(b"a\xff.md")).write_text("Whales were seen off the cape at dawn, three of them.")
    start_ingest(engine, [str(outside)])
    assert "its name is not UTF-8" in run(engine, claimed(engine))
    assert ids(engine) == ["whole"]


def test_an_agents_paths_stay_in_the_project_and_its_sources(engine: Engine, tmp_path: Path, outside: Path) -> None:
    secret = write_memory(tmp_path / "other", "diary", "The captain keeps a diary that nobody reads.")
    write_memory(outside, "whole", "Walrus ivory was carved aboard, with a needle and much patience.")
    (outside / "linked.md").symlink_to(secret)
    (outside / "way").symlink_to(secret.parent)
    for path in (str(secret), "../other", "..", "/", str(outside / "way"), str(outside / "way/diary.md"), "a\0b"):
        with pytest.raises(InvalidRequest, match="outside of the project"):
            start_ingest(engine, ["docs", path])
        call = Dispatcher(choose("all"), engine).dispatch("memory_save", {"file_path": path})
        assert (call.error, "outside of the project" in call.text) == ("invalid", True)
    start_ingest(engine, [str(outside)])
    assert f"{outside / 'linked.md'}: " in run(engine, claimed(engine))
    assert ids(engine) == ["whole"]
    home = write_memory(engine.settings.home / "memories", "mine", "A note in the vault of all projects.")
    start_ingest(engine, [str(home)])  # a configured source
    assert run(engine, claimed(engine)) == ""
    assert save_file(engine, secret).status == "saved"  # what a person names
