"""A journal that is damaged, emptied or gone: noticed when it is opened, brought back, and what is lost is counted."""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import zipfile
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.app.command_line import Cli
from tests.samples import write_memory

from scrimshaw.app.hooks.record import handle_payload
from scrimshaw.config import load
from scrimshaw.engine import open_engine, restore
from scrimshaw.errors import DamagedDatabase, NewerDatabase, UnusableArchive
from scrimshaw.storage import databases
from scrimshaw.storage.sqlite.database import Database, find_newest_migration
from scrimshaw.storage.transaction import lock

LONG = "Ropes are coiled clockwise on every ship of the line, as the bosun has said since he came aboard"


@pytest.fixture
def journal(project: Path) -> Path:
    return project / ".scrimshaw/journal.db"


@pytest.fixture
def used(cli: Cli, project: Path) -> Cli:
    """A project with a checkpoint `one` of a and b; b was deleted since, c saved, and d written by hand."""
    for name in ("a", "b"):
        assert cli("save", f"{LONG}: {name * 9}.", "--id", name, "--force").code == 0
    assert cli("checkpoint", "create", "one").code == 0
    assert cli("delete", "b", "--yes").code == 0
    assert cli("save", f"{LONG}: {'c' * 9}.", "--id", "c", "--force").code == 0
    write_memory(project / ".scrimshaw/memories", "d", "Written by hand.\n")
    for later in project.glob(".scrimshaw/checkpoints/auto-*"):
        later.unlink()
    return cli


def hook(project: Path, name: str = "SessionStart") -> str:
    payload = {"session_id": "s", "cwd": str(project), "hook_event_name": name, "source": "startup"}
    return handle_payload(["claude"], json.dumps(payload).encode())


def memories(project: Path) -> list[str]:
    return sorted(path.stem for path in project.glob(".scrimshaw/memories/*.md"))


def ledger(project: Path) -> list[tuple[str, str]]:
    with open_engine(load(project)) as engine:
        return [(row["action"], row["memory_id"]) for row in engine.journal.history()]


def emptied(journal: Path) -> None:
    journal.write_bytes(b"")


def without_rows(journal: Path) -> None:
    """As if something had begun a new one."""
    journal.unlink()
    Database(journal, "journal", durable=True, busy_timeout_ms=1000).close()


LOSSES = {"emptied": emptied, "deleted": Path.unlink, "without rows": without_rows}


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("remaining", ["index.db", "checkpoints"])
def test_a_lost_journal_is_no_new_project(
    used: Cli, project: Path, journal: Path, lose: object, remaining: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    used("list")
    assert callable(lose)
    lose(journal)
    gone = journal.with_name("checkpoints" if remaining == "index.db" else "index.db")
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    for command in (["list"], ["save", LONG], ["checkpoint", "list"], ["scan"]):
        refused = used(*command)
        assert (refused.code, "scrimshaw restore --newest" in refused.err) == (3, True), command
    assert "scrimshaw restore --newest" in used("doctor").out
    assert "scrimshaw restore --newest" in hook(project), "a start says so, as nothing is recorded"
    assert used("list").code == 3, "neither a command nor a hook has begun a new one"


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
def test_the_rows_come_back_and_the_files_stay(used: Cli, project: Path, journal: Path, lose: object) -> None:
    used("list")
    assert callable(lose)
    lose(journal)
    mended = used("restore", "--newest", "--yes")
    assert mended.code == 0
    assert memories(project) == ["a", "c", "d"], "what was deleted on purpose stays away"
    assert "In the checkpoint but deleted since, and not restored: memories/b.md" in mended.out
    assert "Files newer than the ledger, which recorded them as they are: 3" in mended.out
    assert "Entries of the ledger lost since: at least 3." in mended.out or lose is without_rows
    assert "The checkpoint is 0:00:" in mended.out
    assert sorted(ledger(project)[:4]) == [("external", "b"), ("external", "c"), ("external", "d"), ("restore", "")]
    assert (used("ledger", "verify").code, used("doctor").out.count("problem")) == (0, 0)


def test_without_a_checkpoint_it_is_said_what_is_lost(used: Cli, project: Path, journal: Path) -> None:
    used("list")
    shutil.rmtree(project / ".scrimshaw/checkpoints")
    journal.unlink()
    mended = used("restore", "--newest", "--yes")
    assert (mended.code, "No checkpoint could be used" in mended.out) == (0, True)
    assert "Entries of the ledger lost since: at least 5." in mended.out
    assert "The ledger recorded 3 files as found." in mended.out
    assert (used("list").code, memories(project)) == (0, ["a", "c", "d"])
    assert ledger(project)[-1] == ("restore", "")
    assert used("restore", "--newest", "--yes").code == 1, "by now it is sound, and there is still no checkpoint"


def test_a_clone_is_a_new_project(used: Cli, project: Path, journal: Path) -> None:
    for name in ("journal.db", "index.db"):
        journal.with_name(name).unlink()
    shutil.rmtree(project / ".scrimshaw/checkpoints")
    listed = used("list")
    assert (listed.code, listed.err) == (0, "")
    hook(project)


def test_a_checkpoint_of_nothing_makes_no_journal_lost(cli: Cli, project: Path) -> None:
    assert cli("checkpoint", "create", "empty").code == 0
    assert cli("list").code == 0
    hook(project)


def test_a_hook_may_begin_the_journal(project: Path, journal: Path) -> None:
    hook(project)
    with open_engine(load(project)) as engine:
        assert engine.sessions.latest()
    journal.unlink()
    with pytest.raises(DamagedDatabase, match="is missing"):
        open_engine(load(project)).close()


def test_a_killed_restore_can_be_run_again(used: Cli, project: Path, journal: Path) -> None:
    emptied(journal)
    settings = load(project)
    assert restore.set_aside(settings)
    open_engine(settings, replace_lost_journal=True).close()  # killed before a row came back
    assert used("list").code == 3
    assert used("restore", "--newest", "--yes").code == 0
    assert memories(project) == ["a", "c", "d"]
    assert len(list(journal.parent.glob("journal.db.damaged-*"))) >= 2, "nothing is written over"


def overwrite(journal: Path, find: bytes, put: bytes) -> None:
    data = journal.read_bytes()
    assert find in data
    journal.write_bytes(data.replace(find, put))


def test_rubbish_in_inner_pages_is_noticed_at_open(used: Cli, project: Path, journal: Path) -> None:
    with open_engine(load(project)) as engine:
        for number in range(300):
            engine.journal.enqueue("draft", f"s{number}", {"text": "x" * 500})
    data = bytearray(journal.read_bytes())
    page = 4096 * (len(data) // 4096 - 3)
    data[page : page + 64] = b"\xa5" * 64
    journal.write_bytes(data)
    refused = used("list")
    assert (refused.code, "scrimshaw restore --newest" in refused.err) == (3, True)
    assert "is damaged" in refused.err
    mended = used("restore", "--newest", "--yes", "--json").json["recovery"]
    assert mended["lost"] == 2


def test_a_large_journal_is_not_read_whole_at_open(journal: Path, used: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    database = databases.open_journal(journal.parent, busy_timeout_ms=1000)
    data = bytearray(journal.read_bytes())
    data[-4096:] = b"\xa5" * 4096
    database.close()
    journal.write_bytes(data)
    storage = databases.Storage(journal.parent, busy_timeout_ms=1000)
    with monkeypatch.context() as patched:
        patched.setattr(databases, "CHECKED_AT_OPEN_BYTES", 4096)
        storage.demand_sound()
    with pytest.raises(DamagedDatabase):
        storage.demand_sound()


def test_it_is_said_what_is_asked(used: Cli, journal: Path) -> None:
    refused = used("restore", "--newest", "--dry-run")
    assert (refused.code, "--dry-run" in refused.err) == (2, True)
    assert "Restore what is missing" in used("restore", "--newest").err
    emptied(journal)
    assert "The journal is damaged" in used("restore", "--newest").err
    assert journal.exists(), "nothing is moved before the answer"


def test_a_changed_row_of_the_ledger_is_damage_for_a_restore(used: Cli, project: Path, journal: Path) -> None:
    overwrite(journal, b"human", b"humen")
    assert used("ledger", "verify").code == 1
    mended = used("restore", "--newest", "--yes")
    assert (mended.code, "moved to" in mended.err) == (0, True)
    assert used("ledger", "verify").code == 0
    assert memories(project) == ["a", "c", "d"]


@pytest.mark.parametrize("harm", ["key = CAST(x'ff' AS TEXT)", "payload = 'no JSON'"])
def test_a_row_that_nobody_can_read_is_damage_for_a_restore(used: Cli, journal: Path, harm: str) -> None:
    connection = apsw.Connection(str(journal))
    connection.execute(
        "INSERT INTO jobs (kind, key, payload, state, due, created) VALUES ('draft', 's', '{}', '', 0, 0)"
    )
    connection.execute(f"UPDATE jobs SET {harm} WHERE kind = 'draft'")
    connection.close()
    mended = used("restore", "--newest", "--yes")
    assert (mended.code, "moved to" in mended.err) == (0, True)


def test_a_checkpoint_of_a_changed_ledger_comes_after_an_older_sound_one(
    used: Cli, project: Path, journal: Path
) -> None:
    overwrite(journal, b"human", b"humen")
    used("checkpoint", "create", "two")
    mended = used("restore", "--newest", "--yes", "--json")
    assert (mended.json["name"], "had been changed at entry" in mended.err) == ("one", True)
    assert used("ledger", "verify").code == 0


def test_a_checkpoint_of_a_changed_ledger_is_better_than_none(used: Cli, project: Path, journal: Path) -> None:
    overwrite(journal, b"human", b"humen")
    used("checkpoint", "create", "two")
    journal.with_name("checkpoints").joinpath("one.scrim").unlink()
    journal.unlink()
    mended = used("restore", "--newest", "--yes", "--json").json
    assert (mended["name"], mended["rows"]["ledger"]) == ("two", 5)


def test_the_journal_of_a_newer_version_is_not_set_aside(used: Cli, project: Path, journal: Path) -> None:
    connection = apsw.Connection(str(journal))
    connection.execute("INSERT INTO migrations VALUES (99, '0099_tomorrow.sql', '')")
    connection.close()
    with pytest.raises(NewerDatabase):
        restore.set_aside(load(project))
    assert journal.exists()


def test_the_damaged_journal_stays_as_it_is(used: Cli, project: Path, journal: Path) -> None:
    hook(project)
    settings = load(project)
    overwrite(journal, b"human", b"humen")
    aside = restore.set_aside(settings)
    assert aside
    before = aside.read_bytes()
    with open_engine(settings, replace_lost_journal=True) as engine:
        told = restore.restore_newest(engine, aside=aside)[0].recovery
    assert told is not None
    assert told.lost == 2
    assert (aside.read_bytes(), told.aside) == (before, str(aside))


def test_a_count_of_rows_that_is_no_number_is_damage(used: Cli, journal: Path) -> None:
    connection = apsw.Connection(str(journal))
    connection.execute("UPDATE sqlite_sequence SET seq = 'x' WHERE name = 'ledger'")
    connection.close()
    assert used("ledger", "verify").code == 1
    assert "moved to" in used("restore", "--newest", "--yes").err


def test_a_journal_that_another_brought_back_stays(
    used: Cli, project: Path, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emptied(journal)
    settings = load(project)

    def other_first(path: Path, timeout_s: float) -> AbstractContextManager[None]:
        monkeypatch.setattr(restore, "lock", lock)
        assert used("restore", "--newest", "--yes").code == 0
        return lock(path, timeout_s)

    monkeypatch.setattr(restore, "lock", other_first)
    assert restore.set_aside(settings) is None
    assert len(ledger(project)) > 1


def test_a_checkpoint_that_the_disk_refuses_is_passed_over(
    used: Cli, project: Path, journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used("checkpoint", "create", "two")
    emptied(journal)
    opened = zipfile.ZipFile

    def refusing(path: Path, *rest: Any) -> zipfile.ZipFile:
        if path.name == "two.scrim":
            raise OSError(errno.EIO, "Input/output error")
        return opened(path, *rest)

    monkeypatch.setattr(zipfile, "ZipFile", refusing)
    mended = used("restore", "--newest", "--yes", "--json")
    assert (mended.json["name"], "Input/output error" in mended.err) == ("one", True)
    journal.unlink()
    journal.with_name("checkpoints").joinpath("one.scrim").unlink()
    assert used("restore", "--newest", "--yes", "--json").json["name"] == ""


def test_a_damaged_number_in_a_checkpoint_is_named(used: Cli, project: Path) -> None:
    checkpoint = project / ".scrimshaw/checkpoints/one.scrim"
    with zipfile.ZipFile(checkpoint) as held:
        parts = {name: held.read(name) for name in held.namelist()}
    table = parts["tables/ledger.jsonl"]
    parts["tables/ledger.jsonl"] = table.replace(b'"seq"', b'"sgq"')
    with zipfile.ZipFile(checkpoint, "w") as made:
        for name, data in parts.items():
            made.writestr(name, data)
        made.comment = hashlib.sha256(parts["manifest.json"]).hexdigest().encode()
    with pytest.raises(UnusableArchive, match="is not what was written"):
        restore.demand_chained(checkpoint, find_newest_migration("journal"))
