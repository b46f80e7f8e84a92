"""The databases, the folder or the whole project are taken away from under a server that runs."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.app.command_line import Cli, enter_project
from tests.raw_session import MODERN, RawSession, request

from scrimshaw.errors import StorageFailure
from scrimshaw.storage.sqlite.database import Database

pytestmark = pytest.mark.slow

PROGRAM = (sys.executable, "-W", "error", "-c", "from scrimshaw.app.cli.main import run; run()", "serve")
MOVED = "was deleted, moved or replaced while it was open"
PATIENCE_S = 60.0


class Agent(RawSession):
    """A client of a server process that calls tools."""

    def call(self, tool: str, **arguments: object) -> tuple[bool, str]:
        """Whether it worked, and what the tool said."""
        asked = request(tool, "tools/call", name=tool, arguments=arguments, **self.meta)
        (answer,) = self.ask(asked, 1)
        result: Any = answer["result"]
        return not result.get("isError"), json.dumps(result)

    def save(self, name: str) -> tuple[bool, str]:
        return self.call("memory_save", id=name, title=name, content=f"The harbour of {name} closes at dusk.")

    def finds(self, name: str) -> bool:
        return f'"{name}"' in self.call("memory_search", query=f"harbour of {name}")[1]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a home of its own, with one memory."""
    return enter_project(tmp_path, monkeypatch)


@pytest.fixture
def agent(project: Path) -> Iterator[Agent]:
    agent = Agent(PROGRAM, MODERN, dict(os.environ))
    with agent:
        assert agent.save("south")[0]
        yield agent


def saves(cli: Cli) -> list[str]:
    """What the ledger of the project around the working folder says was saved, newest first."""
    return [row["id"] for row in cli("ledger", "show", "--json").json if row["action"] == "create"]


def remove_databases(project: Path, *names: str) -> None:
    """What `git clean -fdx` does to files that git ignores."""
    for name in names:
        for path in (project / ".scrimshaw").glob(f"{name}.db*"):
            path.unlink()


def remove_tree(folder: Path) -> None:
    """Remove a folder into which the server may write while it is removed: its first checkpoint comes when it will."""
    until = time.monotonic() + PATIENCE_S
    while folder.exists():
        assert time.monotonic() < until, f"{folder} comes back"
        shutil.rmtree(folder, ignore_errors=True)


def remove_folder(project: Path) -> None:
    remove_tree(project / ".scrimshaw")


def move_project(project: Path) -> None:
    project.rename(project.with_name("moved"))


@pytest.mark.parametrize("happen", [remove_folder, move_project])
def test_where_the_project_was_nothing_is_written(agent: Agent, project: Path, happen: Callable[[Path], None]) -> None:
    happen(project)
    for worked, said in (agent.save("east"), agent.call("memory_search", query="harbour")):
        assert not worked
        assert MOVED in said
    worked, said = agent.call("memory_health")
    assert '"broken"' in said
    assert MOVED in said
    time.sleep(2.0)  # the server's threads look again
    assert not (project / ".scrimshaw").exists()
    agent.hang_up()
    assert not (project / ".scrimshaw").exists()


def test_a_moved_project_has_all_that_was_acknowledged(
    agent: Agent, project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    move_project(project)
    assert not agent.save("east")[0]
    monkeypatch.chdir(project.with_name("moved"))
    assert cli("ledger", "verify").code == 0
    assert saves(cli) == ["south"]


def test_a_journal_that_is_gone_is_not_begun_anew_by_the_server(agent: Agent, project: Path, cli: Cli) -> None:
    remove_databases(project, "index", "journal")
    worked, said = agent.save("east")
    assert (worked, MOVED in said) == (False, True)
    assert "journal.db " in agent.call("memory_health")[1]
    assert not (project / ".scrimshaw/journal.db").exists()
    assert not (project / ".scrimshaw/memories/east.md").exists()
    cli("restore", "--newest", "--yes")  # which puts another in its place, with or without a checkpoint
    worked, said = agent.save("east")
    assert worked, said
    assert saves(cli)[0] == "east"
    assert cli("ledger", "verify").code == 0


def test_an_index_that_is_gone_is_made_again(agent: Agent, project: Path) -> None:
    remove_databases(project, "index")
    until = time.monotonic() + PATIENCE_S
    while not (agent.finds("north") and agent.finds("south")):
        assert time.monotonic() < until, agent.call("memory_search", query="harbour of north")
        time.sleep(0.1)
    worked, said = agent.save("east")
    assert worked, said
    assert agent.finds("east")


def test_a_journal_in_the_place_of_the_old_one_is_written(agent: Agent, project: Path, cli: Cli) -> None:
    remove_databases(project, "journal")
    remove_tree(project / ".scrimshaw/checkpoints")
    remove_databases(project, "index")
    assert cli("save", "Another journal.", "--id", "theirs").code == 0
    worked, said = agent.save("east")
    assert worked, said
    assert saves(cli) == ["east", "theirs"]


def test_what_was_in_a_log_that_is_gone_comes_into_the_file(agent: Agent, project: Path, cli: Cli) -> None:
    for end in ("wal", "shm"):
        (project / f".scrimshaw/journal.db-{end}").unlink()
    worked, said = agent.save("east")
    assert worked, said
    assert saves(cli) == ["east", "south"]
    assert cli("ledger", "verify").code == 0


@pytest.mark.parametrize("remains", ["nothing", "another file", "no log"])
@pytest.mark.parametrize("schema", ["journal", "index"])
def test_what_moves_in_a_transaction_takes_no_commit(tmp_path: Path, schema: str, remains: str) -> None:
    path = tmp_path / f"{schema}.db"
    database = open_database(path)
    note(database, -1)
    with pytest.raises(StorageFailure, match=MOVED):
        note(database, -2, meanwhile=lambda: move_away(database, remains))
    if remains == "nothing" and schema == "journal":
        with pytest.raises(StorageFailure, match=MOVED):
            notes(database)
        assert not path.exists()
    else:
        assert notes(database) == (remains == "no log")


@pytest.mark.parametrize("schema", ["journal", "index"])
def test_another_file_is_opened_once_all_have_returned_the_old_one(tmp_path: Path, schema: str) -> None:
    database = open_database(tmp_path / f"{schema}.db")
    with ThreadPoolExecutor() as pool, database.lend():  # as a server's thread that reads while a tool is called
        move_away(database, "another file")
        with pytest.raises(StorageFailure, match=MOVED):
            note(database, -1)  # which would wait for itself
        waiting = pool.submit(note, database, -2)
        time.sleep(0.1)
        assert not waiting.done()
    waiting.result()
    assert notes(database) == 1


def open_database(path: Path) -> Database:
    return Database(path, path.stem, durable=path.stem == "journal", busy_timeout_ms=60_000)


def note(database: Database, number: int, meanwhile: Callable[[], None] = lambda: None) -> None:
    with database.write() as write:
        write.execute("INSERT INTO migrations VALUES (?, 'x', 'now')", (number,))
        meanwhile()


def notes(database: Database) -> int:
    return int(database.value("SELECT count(*) FROM migrations WHERE name = 'x'"))


def move_away(database: Database, remains: str) -> None:
    if remains == "no log":
        database.log.unlink()
        return
    database.path.rename(database.path.with_name("old.db"))
    if remains == "another file":
        open_database(database.path).close()
