"""Sessions are one set for all work trees of a repository: real work trees, hooks as processes, the command line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.app.command_line import Cli, command_line, enter_project
from tests.app.hooks.events import context_of, handle, payload_of

from scrimshaw.storage.place import find_place

pytestmark = pytest.mark.slow

SECRET = "Zanzibar-Walrus-77-Keel"
ASKED = "Write the parser of tide tables for the harbour office, and choose how numbers are read."
DECIDED = "I decided to read the numbers with a hand-written scanner, because the table mixes commas and points."
Report = Callable[..., str]


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def report(tree: Path, session: str, event: str, **fields: Any) -> str:
    """Send one event of Claude Code through the hook; what the model is told."""
    payload = payload_of(tree, event, session, **fields)
    return context_of(handle(tree, payload, home=Path(os.environ["SCRIMSHAW_HOME"])))


def work(tree: Path, session: str, asked: str, *, said: str = DECIDED, end: bool = False) -> None:
    """A session that is asked for something, runs the tests, edits a file and says what it decided."""
    report(tree, session, "SessionStart", source="startup")
    report(tree, session, "UserPromptSubmit", prompt=asked)
    edit = {"file_path": str(tree / "tides.py"), "old_string": "a", "new_string": "b"}
    report(tree, session, "PostToolUse", tool_use_id="t1", tool_name="Edit", tool_input=edit, tool_response={})
    ran = {"stdout": "12 passed in 0.2s", "stderr": "", "interrupted": False}
    command = {"command": "pytest -q"}
    report(tree, session, "PostToolUse", tool_use_id="t2", tool_name="Bash", tool_input=command, tool_response=ran)
    report(tree, session, "Stop", last_assistant_message=said)
    if end:
        report(tree, session, "SessionEnd", reason="exit")


def journal_rows(tree: Path, sql: str) -> list[Any]:
    with closing(apsw.Connection(str(find_place(tree / ".scrimshaw") / "journal.db"))) as journal:
        return journal.execute(sql).fetchall()


@pytest.fixture
def trees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A project in a repository, and a work tree of it on the branch `tides`."""
    project = enter_project(tmp_path, monkeypatch)
    git(project, "init", "-q", "-b", "trunk")
    (project / ".scrimshaw/.gitignore").write_text("*\n!memories/**\n")
    git(project, "add", "-A", "-f", ".scrimshaw/memories")
    git(project, "commit", "-qm", "x")
    git(project, "worktree", "add", "-q", "-b", "tides", str(tmp_path / "second"))
    return project, tmp_path / "second"


@pytest.fixture
def cli(trees: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> Cli:
    return command_line(capsys)


def test_the_next_session_in_another_work_tree_is_told_what_was_decided_and_where(trees: tuple[Path, Path]) -> None:
    project, second = trees
    work(second, "A", ASKED, end=True)
    told = report(project, "B", "SessionStart", source="startup")
    assert f"in work tree second, branch tides: {ASKED}" in told
    assert "hand-written scanner" in told
    assert "session:A#e" in told
    git(second, "switch", "-qc", "later")
    assert "in work tree second, branch later: " in report(project, "C", "SessionStart", source="startup")
    here = report(second, "D", "SessionStart", source="startup")  # not another one for this session
    assert "hand-written scanner" in here
    assert "work tree" not in here


def test_sessions_side_by_side_in_two_work_trees_are_both_told(trees: tuple[Path, Path]) -> None:
    project, second = trees
    report(project, "A", "SessionStart", source="startup")
    report(project, "A", "UserPromptSubmit", prompt="Draw the map of the lighthouses along the northern coast.")
    work(second, "B", ASKED)
    work(project, "A", "Draw the map of the buoys too.", said="The map shows every lighthouse.")
    told = report(project, "C", "SessionStart", source="startup")
    assert "map of the lighthouses" in told
    assert f"beside it (session:B#e2, trust file): in work tree second, branch tides: {ASKED}" in told


def test_a_start_tells_first_of_its_own_work_tree(trees: tuple[Path, Path]) -> None:
    project, second = trees
    work(second, "A", ASKED, end=True)
    work(project, "B", "Paint the scanner room.", said="The scanner room is painted in grey now.", end=True)
    lines = report(second, "C", "SessionStart", source="startup").splitlines()
    assert f"): {ASKED}" in lines[1]
    assert any("beside it (session:B" in line and "Paint the scanner room." in line for line in lines)


def test_a_search_finds_what_was_said_in_another_work_tree(trees: tuple[Path, Path], cli: Cli) -> None:
    work(trees[1], "A", ASKED)
    work(trees[0], "B", "Paint the scanner room.", said="The scanner room is painted in grey now.")
    found = cli("search", "how are the numbers of the tide table scanner read", "--json").json
    ids = {hit["memory"]["id"].partition("#")[0] for hit in found["hits"]}
    assert ids >= {"session:A", "session:B"}
    one = next(hit["memory"]["id"] for hit in found["hits"] if hit["memory"]["id"].startswith("session:A#"))
    read = cli("get", one, "--json").json
    assert "second, branch tides" in read["memory"]["title"]


def test_a_session_that_enters_another_work_tree_goes_on_as_one(trees: tuple[Path, Path], cli: Cli) -> None:
    project, second = trees
    work(second, "A", ASKED)
    report(project, "A", "UserPromptSubmit", prompt="Now merge it into the trunk, and tell the harbour office.")
    numbers = [number for (number,) in journal_rows(second, "SELECT number FROM events ORDER BY number")]
    assert numbers == list(range(1, len(numbers) + 1))
    assert journal_rows(project, "SELECT count(*) FROM sessions") == [(0,)]
    told = report(project, "B", "SessionStart", source="startup")
    assert "hand-written scanner" in told
    assert "merge it into the trunk" in told
    report(project, "A", "SessionEnd", reason="exit")
    made = [path.name for path in project.glob(".scrimshaw/memories/sessions/*.md")]
    assert not made  # its draft is made in the work tree where it began, once
    assert cli("drafts", "make", "--json").json == []
    (drafted,) = cli("drafts", "make", "--project", str(second), "--json").json
    assert (drafted["session"], drafted["status"]) == ("A", "accepted")
    assert cli("drafts", "make", "A", "--json").json[0]["status"] == "unchanged"


@pytest.mark.parametrize("is_named", [True, False])
def test_what_a_removed_work_tree_left_is_told_and_purged(trees: tuple[Path, Path], cli: Cli, is_named: bool) -> None:
    project, second = trees
    work(second, "A", f"{ASKED} The word of the door is {SECRET}.")
    if not is_named:  # as on a disk that was full when the journal began
        (find_place(second / ".scrimshaw") / "project").unlink()
    git(project, "worktree", "remove", "--force", str(second))
    told = report(project, "B", "SessionStart", source="startup")
    assert "in work tree second, which is removed: " in told
    assert SECRET in told
    assert any(
        hit["memory"]["id"].startswith("session:A") for hit in cli("search", "tide tables", "--json").json["hits"]
    )
    purged = cli("purge", "--secret", SECRET, "--yes", "--json")
    assert purged.code == 0, purged.out
    assert not [path for path in (project / ".git/scrimshaw").rglob("*.db*") if SECRET.encode() in path.read_bytes()]
    assert SECRET not in cli("search", "tide tables", "--json").out


def test_a_session_of_a_removed_work_tree_becomes_a_memory_of_those_that_stay(
    trees: tuple[Path, Path], cli: Cli
) -> None:
    project, second = trees
    work(second, "A", ASKED, said=f"{DECIDED} It is done, and all tests pass.")
    assert cli("drafts", "make").out == "No session is waiting for a draft.\n"  # whoever works there makes it
    git(project, "worktree", "remove", "--force", str(second))
    age = 10 * 3600
    with closing(apsw.Connection(str(next((project / ".git/scrimshaw").glob("second-*/journal.db"))))) as journal:
        journal.execute(f"UPDATE sessions SET last_event = last_event - {age}")
    assert "accepted" in cli("drafts", "make").out
    (memory,) = (project / ".scrimshaw/memories/sessions").rglob("*.md")
    assert "hand-written scanner" in memory.read_text()
    assert cli("drafts", "make").out == "No session is waiting for a draft.\n"


@pytest.mark.parametrize("is_committed", [False, True])
def test_a_memory_that_went_with_its_work_tree_is_made_again(
    trees: tuple[Path, Path], cli: Cli, is_committed: bool
) -> None:
    project, second = trees
    work(second, "A", ASKED, said=f"{DECIDED} It is done, and all tests pass.")
    report(second, "A", "SessionEnd", reason="exit")
    assert "accepted" in cli("drafts", "make", "--project", str(second)).out
    if is_committed:  # a merge brings it, and would fail on a file that is there already
        git(second, "add", ".scrimshaw")
        git(second, "commit", "-qm", "The memory of the tide tables")
    git(project, "worktree", "remove", "--force", str(second))
    made = cli("drafts", "make").out
    memories = [path.read_text() for path in (project / ".scrimshaw/memories/sessions").rglob("*.md")]
    assert ("accepted" in made, len(memories)) == (not is_committed, not is_committed)
    assert all("hand-written scanner" in text for text in memories)
    for path in (project / ".scrimshaw/memories/sessions").rglob("*.md"):
        path.unlink()  # a person wants none
    cli("index", "scan")
    assert cli("drafts", "make").out == "No session is waiting for a draft.\n"


@pytest.mark.parametrize("fault", ["damaged", "empty", "newer"])
def test_a_journal_of_another_work_tree_that_cannot_be_read_hinders_nothing(
    trees: tuple[Path, Path], cli: Cli, fault: str
) -> None:
    project, second = trees
    work(second, "A", ASKED)
    path = find_place(second / ".scrimshaw") / "journal.db"
    if fault == "newer":
        with closing(apsw.Connection(str(path))) as journal:
            journal.execute("INSERT INTO migrations VALUES (9999, '9999_later', '')")
    else:
        path.write_bytes(b"" if fault == "empty" else b"damage " * 4096)
    before = path.read_bytes()
    work(project, "B", "Paint the scanner room.")
    assert "Paint the scanner room." in report(project, "C", "SessionStart", source="startup")
    assert cli("search", "scanner", "--json").code == 0
    assert cli("doctor").code == 0
    assert path.read_bytes() == before
