"""Databases that other versions left: older ones lose nothing, newer ones are left alone, a killed upgrade is none."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.conftest import OpenMemory
from tests.samples import write_memory

from scrimshaw.app.cli.main import main
from scrimshaw.app.hooks.record import handle_payload
from scrimshaw.engine import Engine, drafts, history, index, read, sessions, write
from scrimshaw.engine.checkpoints import create
from scrimshaw.errors import NewerDatabase
from scrimshaw.ingest.redact import redact
from scrimshaw.models import EventKind, Observation
from scrimshaw.search.results import SearchRequest
from scrimshaw.storage.ports import Row
from scrimshaw.storage.sqlite.database import Database, find_newest_migration
from scrimshaw_lab.proving.proof import rewind

JOURNAL, INDEX = "journal.db", "index.db"
OLDER = range(1, find_newest_migration("journal"))
LABEL_TOKENS = "ALTER TABLE memories ADD COLUMN label_tokens INTEGER NOT NULL DEFAULT 0"  # as in an older index
WAL = "# The log is reset\n\nWe chose apsw because the interpreter's SQLite loses its log: see the wal reset.\n"

# A process that dies where the migration has changed many pages of the file and is not done.
DIES_IN_THE_MIDST = """
import os, signal, sys
from pathlib import Path
import apsw
from scrimshaw.storage.sqlite import database

def die():
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))

apsw.connection_hooks.append(lambda connection: connection.create_scalar_function("die", die))
shipped = database.read_migrations(database._SCHEMAS / "journal")
number = shipped[-1][0] + 1
sql = (
    "ALTER TABLE ledger ADD COLUMN more TEXT NOT NULL DEFAULT ''; CREATE TABLE many (x);"
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
    " INSERT INTO many SELECT randomblob(500) FROM n; DROP TABLE events; SELECT die(); CREATE TABLE rest (x)"
)
database.read_migrations = lambda _: [*shipped, (number, f"{number:04}_many.sql", sql)]
database.Database(Path(sys.argv[1]), "journal", durable=True, busy_timeout_ms=1000)
"""


def hook(project: Path, event: str, **fields: Any) -> str:
    payload = {"session_id": "S1", "cwd": str(project), "hook_event_name": event, "transcript_path": "", **fields}
    return handle_payload(["claude"], json.dumps(payload).encode())


def bash(project: Path, call_id: str, command: str, output: str) -> None:
    response = {"stdout": output, "stderr": "", "interrupted": False}
    tool: Mapping[str, Any] = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_response": response}
    hook(project, "PostToolUse", tool_use_id=call_id, **tool)


def live_through(engine: Engine, project: Path) -> None:
    """What a week leaves behind: memories saved, changed, removed and read, and a session with its draft."""
    hook(project, "SessionStart", source="startup")
    hook(project, "UserPromptSubmit", prompt="We decided to use apsw; make the deploy work")
    bash(project, "t1", "git commit -m 'fix: use apsw'", "[main 1a2b3c4] fix: use apsw\n 1 file changed")
    bash(project, "t2", "make deploy", "Error: port 8443 in use")
    write.save(engine, write.NewText(content=WAL, id="storage/wal", triggers=("wal reset",), session="S1"))
    write.save(engine, write.NewText(content="# Old\n\nThis goes away again.\n", id="old"), force=True)
    write.update(engine, "storage/wal", {"tier": "important"}, content=f"{WAL}\nMore.\n", session="S1")
    write.delete(engine, ["old"])
    read.search(engine, SearchRequest(query="why apsw"))
    hook(project, "SessionEnd", reason="exit")
    drafts.make_draft(engine, "S1")


def dumped(engine: Engine) -> dict[str, list[Row]]:
    tables: dict[str, list[Row]] = {}
    for table, row in engine.maintenance.dump_rows():
        tables.setdefault(table, []).append(row)
    return tables


def columns(path: Path) -> dict[str, set[str]]:
    connection = apsw.Connection(str(path))
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    found = {name: {row[1] for row in connection.execute(f'PRAGMA table_info("{name}")')} for name in names}
    connection.close()
    return found


def of_columns(rows: list[Row], names: set[str]) -> list[Row]:
    """The rows in any order, with the columns that an older version had."""
    return sorted(({name: row[name] for name in row if name in names} for row in rows), key=repr)


@pytest.mark.parametrize("schema", OLDER)
def test_a_journal_of_an_older_version_loses_nothing(open_memory: OpenMemory, project: Path, schema: int) -> None:
    folder = project / ".scrimshaw"
    with open_memory() as engine:
        live_through(engine, project)
        before, rows = dumped(engine), list(engine.maintenance.dump_rows())
    rewind(folder, schema, rows)
    kept = columns(folder / JOURNAL)
    engine = open_memory()
    after = dumped(engine)
    for table in kept.keys() & before.keys():
        assert of_columns(after[table], kept[table]) == of_columns(before[table], kept[table]), table
    assert {"ledger", "contents", "jobs"} <= kept.keys() & before.keys()


@pytest.mark.parametrize("schema", OLDER)
def test_a_journal_of_an_older_version_can_be_worked_with(open_memory: OpenMemory, project: Path, schema: int) -> None:
    folder = project / ".scrimshaw"
    with open_memory() as engine:
        live_through(engine, project)
        rows = list(engine.maintenance.dump_rows())
    rewind(folder, schema, rows)
    engine = open_memory()
    checked, broken = engine.journal.verify()
    assert (checked, broken) == (len([row for table, row in rows if table == "ledger"]), 0)
    undone = next(row["seq"] for row in engine.journal.history() if row["action"] == "retire")
    assert history.undo(engine, entry=undone).undone == 1
    assert read.get(engine, "old").body.endswith("This goes away again.\n")
    assert read.search(engine, SearchRequest(query="apsw log")).hits[0].memory.id == "storage/wal"
    write.save(engine, write.NewText(content="# New\n\nSaved by the version of today.\n", id="new"), force=True)
    bash(project, "t9", "git commit -m 'fix: later'", "[main 2b3c4d5] fix: later\n 1 file changed")
    assert any("fix: later" in item.text for item in engine.sessions.items("S1"))
    assert create(engine, f"after-{schema}").name == f"after-{schema}"


def test_an_index_of_every_older_version_is_usable(open_memory: OpenMemory, project: Path, vault: Path) -> None:
    write_memory(vault, "wal", WAL)
    for schema in range(1, find_newest_migration("index") + 1):
        for path in (project / ".scrimshaw").glob(f"{INDEX}*"):
            path.unlink()
        Database(project / ".scrimshaw" / INDEX, "index", durable=False, busy_timeout_ms=1000, through=schema).close()
        with open_memory() as engine:
            index.scan(engine)
            assert read.search(engine, SearchRequest(query="apsw")).hits


def test_the_words_of_an_older_index_are_numbered_as_those_of_a_new_one(
    open_memory: OpenMemory, project: Path, vault: Path
) -> None:
    write_memory(vault, "one", "A short note about the log.")
    write_memory(vault, "many", "\n\n".join(f"# Part {part}\n\n{'word ' * 300}" for part in range(3)))
    with open_memory() as engine:
        index.scan(engine)
    connection = apsw.Connection(str(project / ".scrimshaw" / INDEX))
    numbers = "SELECT id FROM memory_text_docsize ORDER BY id"
    expected = list(connection.execute(numbers))
    connection.execute(
        "DELETE FROM migrations WHERE number > 3; DROP TABLE vector_blocks; DROP TABLE token_vectors;DROP TABLE renames"
    )
    connection.execute("ALTER TABLE memories DROP COLUMN questions; ALTER TABLE chunks DROP COLUMN worth")
    connection.execute(LABEL_TOKENS)
    open_memory().close()
    assert list(connection.execute(numbers)) == expected
    connection.close()


def test_an_older_index_reads_the_questions_of_its_files(open_memory: OpenMemory, project: Path, vault: Path) -> None:
    write_memory(vault, "tide", "High water is at noon.", "questions: [When does the sea rise?]")
    with open_memory() as engine:
        index.scan(engine)
    connection = apsw.Connection(str(project / ".scrimshaw" / INDEX))
    connection.execute(
        "DELETE FROM migrations WHERE number > 5; DROP TABLE vector_blocks; DROP TABLE renames;"
        "ALTER TABLE memories DROP COLUMN questions"
    )
    connection.execute("DELETE FROM chunks WHERE ordinal > 0; ALTER TABLE chunks DROP COLUMN worth")
    connection.execute(LABEL_TOKENS)
    connection.close()
    with open_memory() as engine:
        index.scan(engine)
        assert engine.memory("tide").questions == ("When does the sea rise?",)


def test_an_older_index_rates_the_passages_of_sessions_that_are_over(open_memory: OpenMemory, project: Path) -> None:
    with open_memory() as engine:
        for kind, text in ((EventKind.PROMPT, WAL), (EventKind.TOOL, "wal.py\n+apsw")):
            seen = Observation(session="old", kind=kind, text=redact(text), tool="Edit", call_id=text)
            sessions.record_event(engine, seen, at=engine.clock())
        drafts.make_draft(engine, "old")
        index.scan(engine)
    connection = apsw.Connection(str(project / ".scrimshaw" / INDEX))
    worths = "SELECT worth FROM chunks JOIN memories ON memory = memories.row WHERE source = 'record'"
    expected = list(connection.execute(worths))
    connection.execute(
        "DELETE FROM migrations WHERE number > 11; DROP TABLE vector_blocks; ALTER TABLE chunks DROP COLUMN worth"
    )
    connection.execute(LABEL_TOKENS)
    with open_memory() as engine:
        index.scan(engine)
    assert list(connection.execute(worths)) == expected
    assert None not in map(itemgetter(0), expected)
    connection.close()


def of_a_later_version(path: Path) -> bytes:
    """Record a migration of tomorrow; the bytes of the file."""
    connection = apsw.Connection(str(path))
    connection.execute("INSERT INTO migrations VALUES (99, '0099_tomorrow.sql', datetime('now')); CREATE TABLE t (x)")
    connection.pragma("wal_checkpoint", "truncate")
    connection.close()
    return path.read_bytes()


@pytest.mark.parametrize("name", [JOURNAL, INDEX])
def test_a_database_of_a_newer_version_is_refused_and_left_alone(
    open_memory: OpenMemory, project: Path, name: str
) -> None:
    path = project / ".scrimshaw" / name
    open_memory().close()
    before = of_a_later_version(path)
    with pytest.raises(NewerDatabase, match="newer version of Scrimshaw") as caught:
        open_memory()
    assert path.read_bytes() == before
    assert caught.value.hint.startswith("Update Scrimshaw")
    assert ("scrimshaw rebuild" in caught.value.hint) is (name == INDEX)
    assert caught.value.details["path"] == str(path)


def test_rebuild_makes_an_index_of_a_newer_version_anew(
    engine: Engine, project: Path, vault: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIMSHAW_HOME", str(project.parent / "home"))
    write_memory(vault, "wal", WAL)
    engine.close()
    of_a_later_version(project / ".scrimshaw" / INDEX)
    assert main(["search", "apsw", "--project", str(project)]) == 3
    assert "scrimshaw rebuild" in " ".join(capsys.readouterr().err.split())
    assert main(["rebuild", "--yes", "--project", str(project)]) == 0
    assert main(["search", "apsw", "--project", str(project)]) == 0
    assert "wal" in capsys.readouterr().out


def test_nothing_sets_a_journal_of_a_newer_version_aside(
    engine: Engine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIMSHAW_HOME", str(project.parent / "home"))
    create(engine, "good")
    engine.close()
    path = project / ".scrimshaw" / JOURNAL
    before = of_a_later_version(path)
    for command in (["rebuild", "--yes"], ["scan"], ["restore", "--newest", "--yes"], ["checkpoint", "list"]):
        assert main([*command, "--project", str(project)]) != 0, command
        assert path.read_bytes() == before, command
    assert hook(project, "UserPromptSubmit", prompt="hello") == ""
    assert path.read_bytes() == before


def test_a_killed_migration_leaves_the_version_before(open_memory: OpenMemory, project: Path) -> None:
    with open_memory() as engine:
        live_through(engine, project)
        before = dumped(engine)
    path = project / ".scrimshaw" / JOURNAL
    shape = columns(path)
    killed = subprocess.run([sys.executable, "-c", DIES_IN_THE_MIDST, str(path)], capture_output=True, check=False)
    assert killed.returncode == (-signal.SIGKILL if os.name == "posix" else signal.SIGTERM), killed.stderr.decode()
    copy = path.with_name("copy.db")
    for companion in ("", "-wal"):  # a copy, since whoever opens the file first mends it
        if path.with_name(path.name + companion).exists():
            shutil.copyfile(path.with_name(path.name + companion), copy.with_name(copy.name + companion))
    assert columns(copy) == shape
    engine = open_memory()
    assert dumped(engine) == before
    assert engine.journal.verify()[1] == 0
