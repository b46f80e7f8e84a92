"""A session that is purged leaves nothing of its words, and is recorded again by nobody."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.app.command_line import Cli, command_line
from tests.app.hooks.events import handle, payload_of
from tests.app.test_importing_sessions import DAY, START, put_session, session_rows
from tests.app.test_purge_everywhere import _contents
from tests.git_folders import run_git

from scrimshaw.config import load
from scrimshaw.engine import open_engine
from scrimshaw.models import Drafted, Item, RecordedEvent

WORD = "walrusivor"  # the stem of the word that only the first session has
GONE, OTHER = "aaaa-1111", "bbbb-2222"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "user"


@pytest.fixture
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two earlier sessions, and a second work tree; the working folder."""
    folder = tmp_path / "project"
    folder.mkdir()
    run_git(folder, "init", "-q", "-b", "main")
    run_git(folder, "commit", "-q", "--allow-empty", "-m", "begin")
    put_session(home, folder, GONE, rows=session_rows(GONE, folder, START, "walrusivory"))
    put_session(home, folder, OTHER, rows=session_rows(OTHER, folder, START + DAY, "till"))
    monkeypatch.chdir(folder)
    monkeypatch.setattr(Path, "home", lambda: home)
    monkeypatch.setenv("SCRIMSHAW_HOME", str(home / ".scrimshaw"))
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "none")
    return folder


@pytest.fixture
def cli(project: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    run = command_line(capsys)
    assert run("init", "--import").code == 0
    with open_engine(load(project)) as engine:
        engine.sessions.mark_shown(GONE, {"sessions/any": "hash"}, now=START)
    assert run("checkpoint", "create", "before").code == 0
    return run


def holders(root: Path) -> list[str]:
    """The files of Scrimshaw's folders that hold the word."""
    folders = (root / "project/.scrimshaw", root / "project/.git/scrimshaw", root / "user/.scrimshaw")
    files = (path for folder in folders for path in folder.rglob("*"))
    return [str(path) for path in files if any(WORD.encode() in data.lower() for data in _contents(path))]


def snapshot(project: Path, session: str) -> tuple[list[RecordedEvent], list[Item], Drafted | None, str]:
    """What is kept of a session."""
    with open_engine(load(project)) as engine:
        (record,) = engine.sessions.records(session)
        path = Path(engine.memory(record.memory_id).path)
        return engine.sessions.events(session), engine.sessions.items(session), record.draft, path.read_text("utf-8")


def memory_of(project: Path, session: str) -> str:
    drafted = snapshot(project, session)[2]
    assert drafted
    return drafted.memory_id


@pytest.mark.parametrize("name", [GONE, f"session:{GONE}", "aaaa", "its memory"])
def test_a_purged_session_is_gone_with_all_that_names_it(cli: Cli, project: Path, tmp_path: Path, name: str) -> None:
    before, memory = snapshot(project, OTHER), memory_of(project, GONE)
    name = memory if name == "its memory" else name
    assert len(holders(tmp_path)) > 3
    planned = cli("purge", "--session", name, "--dry-run")
    assert planned.code == 0
    assert {"index.db:", "journal.db:", "before.scrim", f"{memory}.md"} <= {
        part.rpartition("/")[2] if part.endswith((":", ".scrim")) else part.partition("memories/")[2] or part
        for part in planned.out.split()
    }
    assert snapshot(project, GONE)[0]
    done = cli("purge", "--session", name, "--yes")
    assert "Nothing is left in Scrimshaw's folders." in done.out
    assert f"{GONE}.jsonl" in done.out  # the client's own, which is only named
    assert holders(tmp_path) == []
    assert snapshot(project, OTHER) == before
    assert "walrus" not in cli("search", "walrusivory receipt").out
    assert cli("get", f"session:{GONE}#e1").code == 1
    assert cli("get", memory).code == 1
    assert cli("ledger", "verify").code == 0
    assert cli("purge", "--session", GONE, "--dry-run").out.startswith("Nothing is found")


def test_a_purged_session_comes_back_by_no_import_and_no_hook(
    cli: Cli, project: Path, home: Path, tmp_path: Path
) -> None:
    cli("purge", "--session", GONE, "--yes")
    for more in ((), ("--dry-run",)):
        again = cli("import", "claude", *more)
        assert "it was purged" in again.out
    for event, fields in (
        ("SessionStart", {"source": "resume"}),
        ("UserPromptSubmit", {"prompt": "More of the walrusivory, please."}),
        ("Stop", {"last_assistant_message": "I decided to polish the walrusivory."}),
        ("SessionEnd", {"reason": "exit"}),
    ):
        handle(project, payload_of(project, event, GONE, **fields), home=home / ".scrimshaw")
    assert cli("drafts", "make").code == 0
    assert holders(tmp_path) == []
    assert cli("resume").out.count("till")
    assert cli("checkpoint", "restore", "before").code == 0
    assert holders(tmp_path) == []


def test_another_work_tree_forgets_it_too(cli: Cli, project: Path, tmp_path: Path) -> None:
    run_git(project, "add", "-A")
    run_git(project, "commit", "-q", "-m", "memories")
    other = tmp_path / "other"
    run_git(project, "worktree", "add", "-q", str(other))
    assert cli("scan", "--project", str(other)).code == 0
    assert f"session:{GONE}" in cli("search", "gettext receipt", "--project", str(other)).out
    cli("purge", "--session", GONE, "--yes")
    folders = (other / ".scrimshaw", project / ".git/scrimshaw")
    files = (path for folder in folders for path in folder.rglob("*"))
    assert [path for path in files if any(WORD.encode() in data.lower() for data in _contents(path))] == []


def test_what_removes_a_memory_alone_tells_of_the_record(cli: Cli, project: Path) -> None:
    memory, record = memory_of(project, GONE), f"session:{GONE}"
    told = f"`scrimshaw purge --session {GONE}` removes it."
    assert told in cli("purge", "--memory", memory, "--dry-run").err
    assert told in cli("delete", memory, "--yes").err
    for refused in (
        cli("delete", record, "--yes"),
        cli("edit", record, "--title", "Another"),
    ):
        assert refused.code == 1
        assert f"`scrimshaw purge --session {GONE}` erases it." in refused.err
    assert cli("purge", "--memory", record, "--dry-run").out == cli("purge", "--session", GONE, "--dry-run").out
    assert cli("purge", "--session", "nobody", "--dry-run").code == 1
    assert cli("purge", "--session", GONE, "--memory", memory).code == 2


KILLED = """
import os, signal, sys
from pathlib import Path
from scrimshaw.config import load
from scrimshaw.engine import open_engine, purge, query_log
from scrimshaw.engine.drafts import target_session
from scrimshaw.storage import erasing
from scrimshaw.storage.sqlite.maintenance import SqliteMaintenance

def killed(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

places = {"remake_archive": erasing, "forget_session": query_log}
setattr(places.get(sys.argv[3], SqliteMaintenance), sys.argv[3], killed)
with open_engine(load(Path(sys.argv[1]))) as engine:
    purge.erase(engine, target_session(engine, sys.argv[2]))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("where", ["remake_archive", "forget_session", "erase", "compact"])
def test_a_killed_purge_is_completed_by_the_next(cli: Cli, project: Path, tmp_path: Path, where: str) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, str(project), GONE, where], timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert holders(tmp_path) != []
    cli("purge", "--session", GONE, "--yes")
    assert holders(tmp_path) == []
    assert cli("ledger", "verify").code == 0
