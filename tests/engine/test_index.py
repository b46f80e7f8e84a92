"""Keeping up with the files: scans, the ledger of outside changes, vectors as durable work."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import OpenMemory
from tests.samples import WordEmbedder, keeping, write_memory

from scrimshaw.engine import Engine
from scrimshaw.engine.core import EMBED
from scrimshaw.engine.index import count_vectors, embed_pending, list_skipped_files, rebuild, run_embed_job, scan
from scrimshaw.engine.read import get, search, validate
from scrimshaw.engine.write import NewText, delete, save, update
from scrimshaw.ingest.quality import BANDS
from scrimshaw.models import Action, Filters, JobState, Memory, Retention, Tier
from scrimshaw.router.sync import compare_index
from scrimshaw.search.candidates import presence
from scrimshaw.search.embedders import EmbedderUnavailable
from scrimshaw.search.results import SearchRequest
from scrimshaw.storage import git as storage_git
from scrimshaw.storage.git import ask_git
from scrimshaw.storage.paths import Vault

LEASE_S = 60.0


def external(engine: Engine, memory_id: str) -> list[tuple[str, str]]:
    """(prior, new) hashes of the outside changes of a memory, oldest first."""
    rows = engine.journal.history(memory_id, 100)
    return [(row["prior_hash"], row["new_hash"]) for row in reversed(rows) if row["action"] == Action.EXTERNAL]


def ids(engine: Engine) -> list[str]:
    return [memory.id for memory in engine.index.select(Filters(), sort="id", limit=-1, offset=0)]


# Outside changes


def test_outside_changes_are_recorded_once(engine: Engine, vault: Path) -> None:
    path = write_memory(vault, "a", "one")
    first = scan(engine).changes[0].new_hash
    scan(engine)
    scan(engine, force=True)
    assert external(engine, "a") == [("", first)]
    path.write_text("two")
    second = scan(engine).changes[0].new_hash
    path.unlink()
    scan(engine)
    scan(engine)
    assert external(engine, "a") == [("", first), (first, second), (second, "")]
    assert engine.journal.verify()[1] == 0


def test_own_changes_are_not_outside_changes(engine: Engine) -> None:
    save(engine, NewText(content="one", id="a"))
    scan(engine)
    update(engine, "a", {}, content="two")
    scan(engine, force=True)
    delete(engine, ["a"])
    scan(engine)
    rebuild(engine)
    assert external(engine, "a") == []


def test_a_rebuild_records_nothing(engine: Engine, vault: Path) -> None:
    write_memory(vault, "a", "one")
    scan(engine)
    rows = engine.journal.verify()[0]
    report = rebuild(engine)
    assert (report.added, engine.journal.verify()[0]) == (1, rows)


def test_documents_are_read_and_not_recorded(open_memory: OpenMemory, project: Path) -> None:
    write_memory(project / "docs", "guide", "text")
    engine = open_memory()
    scan(engine)
    assert ids(engine) == ["docs/guide"]
    assert engine.journal.verify() == (0, 0)


def test_a_renamed_file_keeps_its_review_state(engine: Engine, vault: Path) -> None:
    save(engine, NewText(content="one", id="old/name"))
    validate(engine, "old/name", useful=True)
    (vault / "new").mkdir()
    (vault / "old/name.md").rename(vault / "new/name.md")
    scan(engine)
    reviews = engine.journal.reviews(["old/name", "new/name"])
    assert {name: state.useful for name, state in reviews.items()} == {"new/name": 1}


def test_review_state_survives_a_rebuild(engine: Engine, vault: Path) -> None:
    write_memory(vault, "a", "one")
    scan(engine)
    validate(engine, "a", useful=True)
    rebuild(engine)
    assert engine.journal.reviews(["a"])["a"].useful == 1


def test_a_broken_file_is_told_and_left_alone(engine: Engine, vault: Path) -> None:
    write_memory(vault, "good", "text")
    path = vault / "broken.md"
    path.write_bytes(b"\xff\xfebody")
    report = scan(engine)
    assert ids(engine) == ["good"]
    assert [os.path.basename(skip.path) for skip in report.skipped] == ["broken.md"]  # noqa: PTH119 - a path as text, as reports give it
    assert "line" in report.skipped[0].reason
    assert path.read_bytes() == b"\xff\xfebody"


def test_a_document_whose_title_is_not_filled_in_is_no_knowledge(open_memory: OpenMemory, project: Path) -> None:
    titles = {"spec": "Feature Specification: [FEATURE NAME]", "plan": "[PROJECT_NAME] Plan", "tasks": "[RFC] Tasks"}
    for name, title in titles.items():
        path = project / f"specs/001-till/{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {title}\n\n<!-- Example: every feature starts as a library -->\n")
    engine = open_memory()
    report = scan(engine)
    assert ids(engine) == ["specs/001-till/tasks"]
    assert [skip.reason.partition(": ")[2] for skip in report.skipped] == [
        "its title has [PROJECT_NAME], so it is a template.",
        "its title has [FEATURE NAME], so it is a template.",
    ]


def test_the_open_tasks_of_a_list_are_told_and_not_the_passage_nearest_to_the_question(
    open_memory: OpenMemory, project: Path
) -> None:
    path = project / "specs/001-till/tasks.md"
    path.parent.mkdir(parents=True)
    rows = (f"- [{'x' if n % 2 else ' '}] T{n:03} Weld beam {n} of the crane" for n in range(100))
    path.write_text("# Tasks: Crane\n\n## Phase 1\n" + "\n".join(rows))
    engine = open_memory()
    scan(engine)
    (hit,) = search(engine, SearchRequest(query="which tasks of the crane are open?")).hits
    assert hit.text.startswith("50 of 100 open:\n## Phase 1\n- [ ] T000 Weld")
    assert hit.text.endswith("T098 Weld beam 98 of the crane")
    assert hit.anchor == ""
    (named,) = search(engine, SearchRequest(query="tasks of beam 31 of the crane")).hits
    assert "- [x] T031" in named.text
    assert named.anchor == "phase-1"


@pytest.mark.parametrize(
    ("front", "fault", "place"),
    [
        ("title: Gate\ntier: [important\n", "broken_front_matter", "line 4, column 1"),
        (
            "title: Gate\n<<<<<<< HEAD\ntier: normal\n=======\ntier: important\n>>>>>>> theirs\n",
            "merge_conflict",
            "line 3",
        ),
    ],
)
def test_broken_front_matter_leaves_the_text_to_be_found(
    engine: Engine, vault: Path, front: str, fault: str, place: str
) -> None:
    path = write_memory(vault, "gate", "The lantern hangs at the gate.")
    path.write_text(f"---\n{front}---\nThe lantern hangs at the gate.\n")
    for report in (scan(engine), scan(engine)):
        assert [(skip.path, skip.is_found) for skip in report.skipped] == [(str(path), True)]
        assert place in report.skipped[0].reason
    assert list_skipped_files(engine) == list(report.skipped)
    (hit,) = search(engine, SearchRequest(query="lantern")).hits
    assert (hit.memory.tier, hit.memory.faults, hit.memory.provenance.trust) == ("normal", [fault], "agent")
    assert get(engine, "gate").body == "The lantern hangs at the gate.\n"
    path.write_text("---\ntitle: Gate\n---\nThe lantern hangs at the gate.\n")
    assert scan(engine).skipped == ()
    assert search(engine, SearchRequest(query="lantern")).hits[0].memory.faults == []


def test_a_merge_leaves_its_marks_in_a_text(engine: Engine, vault: Path, project: Path) -> None:
    marks = "Before.\n<<<<<<< HEAD\nThe gate is oak.\n=======\nThe gate is iron.\n>>>>>>> theirs\nAfter.\n"
    write_memory(vault, "gate", marks)
    write_memory(project / "docs", "merging", marks)  # which may explain them
    assert [skip.path for skip in scan(engine).skipped] == [str(vault / "gate.md")]
    assert search(engine, SearchRequest(query="iron gate")).hits[0].memory.faults == ["merge_conflict"]


@pytest.mark.parametrize(("quality", "is_hit"), [("quality: {score: 1.0, flags: []}\n", True), ("", True),
                                                ("quality: {score: 0.1, flags: []}\n", False)])  # fmt: skip
def test_what_an_agent_saved_stays_to_be_found_with_the_marks_of_a_merge(
    engine: Engine, vault: Path, quality: str, *, is_hit: bool
) -> None:
    marks = "<<<<<<< HEAD\nThe gate is oak.\n=======\nThe gate is iron.\n>>>>>>> theirs\n"
    (vault / "gate.md").write_text(f"---\nprovenance: {{source: agent, trust: agent}}\n{quality}---\n{marks}")
    scan(engine)
    found = search(engine, SearchRequest(query="iron gate")).hits
    assert [hit.memory.faults for hit in found] == ([["merge_conflict"]] if is_hit else [])


def test_a_vault_that_was_removed_leaves_nothing(engine: Engine, vault: Path) -> None:
    write_memory(vault, "a", "one")
    scan(engine)
    shutil.rmtree(vault)
    assert scan(engine).removed == 1
    assert ids(engine) == []


def test_what_no_source_reads_any_more_is_forgotten(open_memory: OpenMemory, project: Path) -> None:
    for name in ("private/plan", "plans/next", ".serena/memories/one", "specs/001/spec", ".venv/kept"):
        write_memory(project, name, f"The text of {name}.")
    own = '[[sources]]\nname = "plans"\nroot = "plans"\ninclude = ["**/*.md"]\n'
    included = '[index]\ninclude = ["private/**", ".venv/**"]\n'
    first = open_memory(included)
    scan(first)
    assert ids(first) == [".venv/kept", "one", "plans/next", "private/plan", "specs/001/spec"]
    open_memory(f"{included.replace('private/**', 'no/**')}{own}")
    scan(first)  # as by a server that was started before
    assert ids(first) == [".venv/kept", "one", "plans/next", "private/plan", "specs/001/spec"]
    second = open_memory(f"{included.replace('private/**', 'no/**')}{own}")
    assert compare_index(second).orphaned == ("one", "private/plan", "specs/001/spec")
    scan(second)
    assert ids(second) == [".venv/kept", "next"]
    shutil.rmtree(project / "specs")
    shutil.rmtree(project / ".serena")
    third = open_memory()
    assert [report.removed for report in (scan(third), scan(third))] == [1, 0]
    assert {memory.id: memory.source for memory in third.index.select(Filters())} == {
        "plans/next": "docs",
        "private/plan": "docs",
    }
    assert compare_index(third).exit_code == 0


# Vectors


def test_a_change_asks_for_vectors_once(open_memory: OpenMemory, vault: Path) -> None:
    engine = open_memory(embedder=WordEmbedder())
    scan(engine)
    assert engine.journal.jobs() == []
    for number in range(3):
        write_memory(vault, f"n{number}", f"text {number}")
        scan(engine)
    assert [(job.kind, job.state) for job in engine.journal.jobs()] == [(EMBED, JobState.QUEUED)]
    without = open_memory()
    write_memory(vault, "more", "text")
    scan(without)
    assert len(engine.journal.jobs()) == 1


def test_another_model_asks_for_its_vectors(open_memory: OpenMemory, vault: Path) -> None:
    write_memory(vault, "a", "text")
    engine = open_memory(embedder=WordEmbedder())
    scan(engine)
    embed_pending(engine)
    job = engine.journal.claim([EMBED], LEASE_S)
    assert job is not None
    engine.journal.finish(job, JobState.DONE)
    scan(engine)
    assert engine.journal.jobs([JobState.QUEUED]) == []
    changed = open_memory(embedder=WordEmbedder("other", 16))
    scan(changed)
    assert [job.kind for job in engine.journal.jobs([JobState.QUEUED])] == [EMBED]


def test_each_text_is_embedded_once_and_alone(open_memory: OpenMemory, vault: Path) -> None:
    embedder = WordEmbedder()
    engine = open_memory(embedder=embedder)
    for number in range(40):
        write_memory(vault, f"n{number}", f"text {number % 20}", "title: T")
    scan(engine)
    assert count_vectors(engine) == (0, 40)
    seen: list[tuple[int, int]] = []

    def keep_going(done: int, total: int) -> bool:
        seen.append((done, total))
        return True

    assert embed_pending(engine, keep_going) == 20
    assert len(embedder.calls) == len(set(embedder.calls)) == 20
    assert count_vectors(engine) == (40, 40)
    assert seen[-1] == (40, 40)
    assert embed_pending(engine) == 0


def test_an_edit_embeds_only_what_changed(open_memory: OpenMemory, vault: Path) -> None:
    embedder = WordEmbedder()
    engine = open_memory(embedder=embedder)
    sections = [f"# Part {number}\n\n" + f"word{number} " * 120 + "\n\n" for number in range(4)]
    path = write_memory(vault, "a", "".join(sections), "title: T")
    scan(engine)
    assert embed_pending(engine) == 4
    path.write_text(path.read_text().replace("word2 word2", "changed"))
    scan(engine)
    assert embed_pending(engine) == 1
    assert "changed" in embedder.calls[-1]
    path.rename(vault / "b.md")
    scan(engine)
    assert embed_pending(engine) == 0


def test_another_model_takes_over_when_it_is_complete(open_memory: OpenMemory, vault: Path) -> None:
    for number in range(20):
        write_memory(vault, f"n{number}", f"text {number}")
    engine = open_memory(embedder=WordEmbedder("first"))
    scan(engine)
    embed_pending(engine)
    changed = open_memory(embedder=WordEmbedder("second", 16))
    embed_pending(changed, lambda done, total: False)
    assert changed.index.vector_counts().by_model == {"first": 20, "second": 16}
    embed_pending(changed)
    assert changed.index.vector_counts().by_model == {"second": 20}
    result = search(changed, SearchRequest(query="text 7"))
    assert result.hits[0].memory.id == "n7"


def test_a_job_reports_progress_and_stops_when_cancelled(open_memory: OpenMemory, vault: Path) -> None:
    for number in range(40):
        write_memory(vault, f"n{number}", f"text {number}")
    engine = open_memory(embedder=WordEmbedder())
    scan(engine)
    job = engine.journal.claim([EMBED], LEASE_S)
    assert job is not None
    engine.journal.change_job(job.id, JobState.CANCELLED)
    run_embed_job(engine, job, keeping(engine.journal, job))
    assert 0 < count_vectors(engine)[0] < 40
    engine.journal.enqueue(EMBED, "", {})
    again = engine.journal.claim([EMBED], LEASE_S)
    assert again is not None
    assert run_embed_job(engine, again, keeping(engine.journal, again)) == ""
    (told,) = engine.journal.jobs(number=again.id)
    assert (told.done, told.total) == count_vectors(engine) == (40, 40)


def test_an_embedder_that_fails_keeps_what_it_did(open_memory: OpenMemory, vault: Path) -> None:
    class Failing(WordEmbedder):
        def embed(self, text: str) -> Any:
            if len(self.calls) == 20:
                raise EmbedderUnavailable("embedder_failed", "It stopped.", "Try again.")
            return super().embed(text)

    for number in range(40):
        write_memory(vault, f"n{number}", f"text {number}")
    engine = open_memory(embedder=Failing())
    scan(engine)
    with pytest.raises(EmbedderUnavailable):
        embed_pending(engine)
    assert count_vectors(engine) == (16, 40)


def test_without_an_embedder_nothing_is_embedded(engine: Engine, vault: Path) -> None:
    write_memory(vault, "a", "text")
    scan(engine)
    assert (embed_pending(engine), count_vectors(engine), engine.journal.jobs()) == (0, (0, 0), [])


def test_what_was_changed_last_gets_its_vector_first_and_the_smallest_of_a_day(engine: Engine, vault: Path) -> None:
    for name, day, text in (("a", 1, "Old."), ("b", 9, "New, and longer than the other."), ("c", 9, "New.")):
        at = day * 86_400
        os.utime(write_memory(vault, name, text), (at, at))
    scan(engine)
    waiting = engine.index.chunks_to_embed("words", after=0, limit=3)
    assert [chunk.text[0] for chunk in waiting] == ["c", "b", "a"]


# Records that another tool left among the documents

_RECORD = """\
---
title: "Session summary"
importance_tier: critical
contextType: decision
quality_score: 1.0
created: 2026-01-02
---
# Session summary

## Decisions

No specific decisions were made during this session.

## Next

[TBD]

## Metadata

session_id: session-1767312000-abc
"""


def test_a_poor_record_of_a_session_among_the_documents_is_temporary_and_fades(
    open_memory: OpenMemory, project: Path
) -> None:
    place = project / "specs/001-till/memory"
    place.mkdir(parents=True)
    (place / "poor.md").write_text(_RECORD)
    (place / "note.md").write_text("---\nimportance_tier: critical\n---\n# Till\n\nThe till prints in two languages.\n")
    engine = open_memory()
    scan(engine)
    poor, note = (engine.memory(f"specs/001-till/memory/{name}") for name in ("poor", "note"))
    assert (poor.tier, note.tier) == (Tier.TEMPORARY, Tier.CRITICAL)
    assert poor.quality
    assert poor.quality.score < BANDS["C"]
    assert "has_placeholders" in poor.quality.flags
    now = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    assert presence(poor, None, now, engine.settings.forgetting)[1] is Retention.ARCHIVED


# Dates of what states none

_AT = 1_790_000_000  # 2026-09-21T14:13:20Z


def test_documents_without_dates_have_those_of_git_then_of_name_or_text_then_of_the_disk(
    open_memory: OpenMemory, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {
        "committed": "# Committed\n",
        "2026-05-01-named": "# Named\n",
        "01-05-26_13-30__record": "# Record\n",
        "adr/0001-queue": "# Use the foo queue\n\n* Status: accepted\n* Date: 2025-02-03\n",
        "spec": "# Till\n\n| Field | Value |\n|---|---|\n| **Created** | 2026-02-20 |\n",
        "plain": "# Plain\n",
        "no-date-20269999": "# No date\n",
        "stated": "---\ndate: 2024-03-04\n---\n# Stated\n",
    }
    for name, text in texts.items():
        path = project / "docs" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (_AT, _AT))
    commands = ["init -q", "add docs/committed.md docs/stated.md", "-c user.name=A -c user.email=a@b.org commit -qm x"]
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2026-01-02T03:04:05Z")
    for command in commands:
        subprocess.run(["git", *command.split()], cwd=project, check=True)
    engine = open_memory()
    scan(engine)
    disk = "2026-09-21T14:13:20Z"
    found = {memory.id.removeprefix("docs/"): (memory.created, memory.updated) for memory in _all(engine)}
    assert found == {
        "committed": ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        "2026-05-01-named": ("2026-05-01", "2026-05-01"),
        "01-05-26_13-30__record": ("2026-05-01", "2026-05-01"),
        "adr/0001-queue": ("2025-02-03", "2025-02-03"),
        "spec": ("2026-02-20", "2026-02-20"),
        "plain": (disk, disk),
        "no-date-20269999": (disk, disk),
        "stated": ("2024-03-04", ""),
    }
    since = {memory.id for memory in engine.index.select(Filters(since="2026-04-30"), sort="id", limit=-1, offset=0)}
    assert since == {
        f"docs/{name}" for name in ("2026-05-01-named", "01-05-26_13-30__record", "plain", "no-date-20269999")
    }
    # What changes now keeps when it began; what is read again unchanged keeps both.
    changed = project / "docs/committed.md"
    changed.write_text("# Changed since\n")
    os.utime(changed, (_AT, _AT))
    scan(engine, force=True)
    again = {memory.id.removeprefix("docs/"): (memory.created, memory.updated) for memory in _all(engine)}
    assert again == found | {"committed": ("2026-01-02T03:04:05Z", disk)}


def _all(engine: Engine) -> list[Memory]:
    return engine.index.select(Filters(), sort="id", limit=-1, offset=0)


def test_git_is_asked_once_for_a_scan_and_not_for_files_that_state_their_time(
    open_memory: OpenMemory, project: Path, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[tuple[str, ...]]()

    def ask(folder: Path, *arguments: str, **more: Any) -> str:
        asked.append(arguments)
        return ask_git(folder, *arguments, **more)

    monkeypatch.setattr(storage_git, "ask_git", ask)
    (project / ".git").mkdir()
    (vault / "stated.md").write_text("---\ncreated: 2026-01-01\n---\n# Stated\n")
    engine = open_memory()
    scan(engine)
    before = len([each for each in asked if "log" in each or "rev-parse" in each])
    subprocess.run(["git", "init", "-q"], cwd=project, check=True)
    for number in range(5):
        (vault / f"{number}.md").write_text(f"# Note {number}\n")
    subprocess.run(["git", "add", "-A"], cwd=project, check=True)
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@b.org", "commit", "-qm", "x"]
    subprocess.run(command, cwd=project, check=True)
    asked.clear()
    scan(engine)
    assert (before, sum(each[0] == "log" for each in asked)) == (0, 1)


def test_a_file_that_changes_while_it_is_read_for_the_index_is_read_again(
    engine: Engine, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_memory(vault, "note", "The harbour closes at one.")
    read = Vault.read

    def read_and_change(self: Vault, name: str) -> bytes:
        raw = read(self, name)
        write_memory(vault, "note", "The harbour closes at two.")
        return raw

    monkeypatch.setattr(Vault, "read", read_and_change)
    engine.memory("note")
    monkeypatch.undo()
    scan(engine)
    assert "at two" in engine.index.bodies(["note"])["note"]
