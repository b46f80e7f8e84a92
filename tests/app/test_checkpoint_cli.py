"""The commands and tools of checkpoints: what they name, and what they say of what is not there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.app.command_line import Cli
from tests.engine.breaking import make_read_only, small_disk
from tests.samples import write_memory

from scrimshaw.app.mcp.protocol import Dispatcher
from scrimshaw.app.mcp.tools import choose
from scrimshaw.config import load
from scrimshaw.engine import open_engine
from scrimshaw.engine.sessions import record_event
from scrimshaw.models import EventKind, Observation, Redacted
from scrimshaw.storage.archive import FORMAT, ArchivedFile, Manifest, write_archive

EVIL = "x\x1b[2J\nDeleted everything\x9b31m"


def test_what_is_not_there_is_not_deleted_in_a_dry_run_either(cli: Cli) -> None:
    refused = cli("checkpoint", "delete", "nope", "--dry-run")
    assert (refused.code, refused.out, "no checkpoint 'nope'" in refused.err) == (1, "", True)


def test_a_dry_run_deletes_nothing(project: Path, cli: Cli) -> None:
    cli("checkpoint", "create", "one")
    assert "Would delete" in cli("checkpoint", "delete", "one", "--dry-run").out
    assert (project / ".scrimshaw/checkpoints/one.scrim").exists()


def test_a_copy_is_listed_and_restored_by_its_own_name(project: Path, cli: Cli) -> None:
    cli("checkpoint", "create", "one")
    folder = project / ".scrimshaw/checkpoints"
    shutil.copy(folder / "one.scrim", folder / "two.scrim")
    lines = cli("checkpoint", "list").out.splitlines()
    assert ["(made as one)" in line for line in lines if " two " in line] == [True]
    assert ["made as" in line for line in lines if " one " in line] == [False]
    assert cli("checkpoint", "delete", "one", "--yes").code == 0
    assert cli("checkpoint", "restore", "two").code == 0


def test_an_odd_entry_breaks_neither_list_nor_create(project: Path, cli: Cli) -> None:
    assert cli("list").code == 0
    folder = project / ".scrimshaw/checkpoints"
    folder.mkdir()
    (folder / "folder.scrim").mkdir()
    (folder / "gone.scrim").symlink_to("nowhere")
    (folder / "old.scrim").write_bytes(b"nothing of the kind")
    os.utime(folder / "old.scrim", (1e12, 1e12))
    assert cli("checkpoint", "create", "one").code == 0
    listed = cli("checkpoint", "list")
    assert (listed.code, len(listed.out.splitlines()), listed.out.count("cannot be used")) == (0, 2, 1)
    assert cli("checkpoint", "list", "--json").code == 0
    assert cli("purge", "--secret", "nothing-of-the-kind", "--dry-run").code == 0


def test_names_of_an_archive_are_harmless(project: Path, cli: Cli) -> None:
    assert cli("list").code == 0
    file = project / ".scrimshaw/checkpoints/evil.scrim"
    head = Manifest(format=FORMAT, schema=1, name=EVIL, created=1.0, metadata={EVIL: EVIL}, parts={})
    write_archive(file, head, [ArchivedFile(name="memories/b.md", text=Redacted(text="x"), content_hash="")], [])
    for command in (("checkpoint", "list"), ("checkpoint", "restore", "evil"), ("restore", str(file), "--dry-run")):
        said = cli(*command)
        assert said.code == 0
        assert "Deleted everything" in said.out
        assert "\x1b" not in said.out
        assert "\x9b" not in said.out
        assert not [line for line in said.out.splitlines() if line.startswith("Deleted")]


def test_a_refused_name_is_shown_harmless(project: Path, cli: Cli) -> None:
    file = project / "evil.scrim"
    head = Manifest(format=FORMAT, schema=1, name="evil", created=1.0, metadata={}, parts={})
    name = f"memories/{EVIL}.md"
    write_archive(file, head, [ArchivedFile(name=name, text=Redacted(text="x"), content_hash="")], [])
    refused = cli("restore", str(file))
    assert (refused.code, repr(name) in refused.err) == (1, True)


def test_a_file_that_is_left_out_is_named_on_one_line(project: Path, cli: Cli) -> None:
    write_memory(project / ".scrimshaw/memories", EVIL, "Ropes are coiled clockwise.\n")
    said = cli("checkpoint", "create", "one")
    assert ["Deleted everything" in line for line in said.out.splitlines() if line.startswith("left out")] == [True]
    assert "\x1b" not in said.out


@pytest.mark.parametrize("name", ["../x", "con"])
def test_a_tool_refuses_a_bad_name_with_an_example_of_a_good_one(project: Path, name: str) -> None:
    with open_engine(load(project)) as engine:
        refused = Dispatcher(choose("all"), engine).dispatch("checkpoint_create", {"name": name})
    said = str(refused)
    assert "cannot name a checkpoint" in said
    assert "before-cleanup" in said
    assert "memory id" not in said


@pytest.fixture
def read_only(project: Path, cli: Cli) -> Iterator[None]:
    """The project on a disk that was used, changed once more by hand, and can no longer be written."""
    with small_disk(project / ".scrimshaw", "4m") as mounted:
        if not mounted:
            pytest.skip("this user may not mount a file system")
        write_memory(project / ".scrimshaw/memories", "a", "Harpoons are kept dry.\n")
        assert cli("list").code == 0
        write_memory(project / ".scrimshaw/memories", "b", "Ropes are coiled clockwise.\n")
        make_read_only(project / ".scrimshaw")
        yield


@pytest.mark.usefixtures("read_only")
def test_a_disk_that_cannot_be_written_is_backed_up(cli: Cli, tmp_path: Path) -> None:
    made = cli("backup", str(tmp_path / "safe.scrim"))
    assert (made.code, "2 files" in made.out, "index_behind" in made.err) == (0, True, True)
    (tmp_path / "other/.scrimshaw/memories").mkdir(parents=True)
    back = cli("--project", str(tmp_path / "other"), "restore", str(tmp_path / "safe.scrim"), "--json")
    assert back.json["written"] == ["memories/a.md", "memories/b.md"]


@pytest.mark.usefixtures("read_only")
@pytest.mark.parametrize("command", ["list", "status", "stats", "freshness"])
def test_what_only_reads_answers_on_a_disk_that_cannot_be_written(cli: Cli, command: str) -> None:
    done = cli(command)
    assert (done.code, done.out != "", done.err.count("index_behind")) == (int(command == "freshness"), True, 1)


def test_the_exact_state_is_asked_for_even_if_only_the_journal_would_change(project: Path, cli: Cli) -> None:
    cli("checkpoint", "create", "one")
    with open_engine(load(project)) as engine:
        record_event(engine, Observation(session="S1", kind=EventKind.PROMPT, text=Redacted(text="mend the lights")))
    refused = cli("checkpoint", "restore", "one", "--clear-existing")
    assert (refused.code, "--yes" in refused.err, "sessions" in refused.err) == (1, True, True)
    assert cli("resume").code == 0
    assert cli("checkpoint", "restore", "one", "--clear-existing", "--yes").code == 0
    assert "no session" in cli("resume").err
