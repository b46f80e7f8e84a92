"""Journal and checkpoints lie below git's folder: `git clean -fdx` leaves them, older projects are moved."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from tests.app.command_line import Cli, command_line, enter_project
from tests.app.hooks.test_hook_process import RUN
from tests.app.test_moving_ground import PATIENCE_S, PROGRAM, Agent, saves
from tests.raw_session import MODERN

from scrimshaw.storage.place import find_place
from scrimshaw.storage.sqlite.database import Database, find_newest_migration

pytestmark = pytest.mark.slow

WHO = ("-c", "user.name=a", "-c", "user.email=a@b")
MOVES = """
import os, signal, sys
from pathlib import Path
from scrimshaw.storage.databases import move_journal
folder, at, seen = Path(sys.argv[1]), int(sys.argv[2]), 0
def hear(event, arguments):
    global seen
    if event in ("open", "os.rename", "os.mkdir", "os.rmdir", "os.remove"):
        if str(folder.parent) in str(arguments[0]):
            seen += 1
            if seen == at:
                os.kill(os.getpid(), signal.SIGKILL)
import scrimshaw.storage.git
sys.addaudithook(hear)
move_journal(folder)
"""


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *WHO, *arguments], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without git, with one memory."""
    return enter_project(tmp_path, monkeypatch)


@pytest.fixture
def cli(plain: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return command_line(capsys)


@pytest.fixture
def project(plain: Path, cli: Cli) -> Path:
    """A project in a repository, as `scrimshaw init` and a commit leave it."""
    git(plain, "init", "-q")
    assert cli("init", "--no-import").code == 0
    git(plain, "add", "-A")
    git(plain, "commit", "-qm", "x")
    return plain


@pytest.fixture
def older(plain: Path, cli: Cli) -> Path:
    """A project in a repository whose journal and checkpoint an older version left in its own folder."""
    assert cli("save", "The harbour of south closes at dusk.", "--id", "south").code == 0
    assert cli("checkpoint", "create", "one").code == 0
    git(plain, "init", "-q")
    return plain


def names(folder: Path) -> set[str]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix() for path in found if not path.name.endswith(("-wal", "-shm"))}


def place(project: Path) -> Path:
    return find_place(project / ".scrimshaw")


def is_whole(project: Path, cli: Cli) -> bool:
    return cli("ledger", "verify").code == 0 and saves(cli) == ["south"]


def test_clean_leaves_ledger_and_sessions_to_a_server_that_runs_and_to_a_new_one(project: Path, cli: Cli) -> None:
    event = {"session_id": "s1", "hook_event_name": "UserPromptSubmit", "prompt": "Where is the harbour?"}
    said = json.dumps({**event, "cwd": str(project)})
    hook = (sys.executable, "-c", RUN, "claude")
    agent = Agent(PROGRAM, MODERN, dict(os.environ))
    with agent:
        assert agent.save("south")[0]
        git(project, "add", "-A")
        git(project, "commit", "-qm", "y")
        assert agent.save("lost")[0]
        subprocess.run(hook, input=said, text=True, check=False)
        git(project, "clean", "-fdxq")
        assert not (project / ".scrimshaw/index.db").exists()
        worked, what = agent.save("east")
        assert worked, what
        until = time.monotonic() + PATIENCE_S
        while '"memories": 3' not in agent.call("memory_health")[1]:  # a search leaves out what the session was told
            assert time.monotonic() < until
            time.sleep(0.1)
    assert saves(cli) == ["east", "lost", "south"]
    assert cli("ledger", "verify").code == 0
    agent = Agent(PROGRAM, MODERN, dict(os.environ))
    with agent:
        assert agent.save("west")[0]
        assert agent.finds("west")
    assert saves(cli) == ["west", "east", "lost", "south"]
    with closing(apsw.Connection(str(place(project) / "journal.db"))) as journal:
        assert journal.execute("SELECT count(*) FROM sessions WHERE id LIKE '%s1%'").get == 1
    assert not list((project / ".scrimshaw").glob("journal.db*"))


def test_a_project_of_before_is_moved_with_a_sentence(older: Path, caplog: pytest.LogCaptureFixture, cli: Cli) -> None:
    assert is_whole(older, cli)
    assert f"Journal and checkpoints of {older / '.scrimshaw'} are now in {place(older)}" in caplog.text
    assert {"journal.db", "checkpoints/one.scrim"} <= names(place(older))
    left = {path.name for path in (older / ".scrimshaw").iterdir()}
    assert left.isdisjoint({"journal.db", "journal.db-wal", "journal.db-shm", "checkpoints"})
    if os.name == "posix":
        assert (place(older) / "journal.db").stat().st_mode & 0o077 == place(older).stat().st_mode & 0o077 == 0
    caplog.clear()
    assert is_whole(older, cli)
    assert caplog.text == ""
    assert [each["name"] for each in cli("checkpoint", "list", "--json").json] == ["one"]


@pytest.mark.parametrize("schema", range(1, find_newest_migration("journal")))
def test_a_journal_of_an_older_schema_is_moved(plain: Path, cli: Cli, schema: int) -> None:
    Database(plain / ".scrimshaw/journal.db", "journal", durable=True, busy_timeout_ms=1000, through=schema).close()
    git(plain, "init", "-q")
    assert cli("save", "The harbour of south closes at dusk.", "--id", "south").code == 0
    assert place(plain) != plain / ".scrimshaw"
    assert is_whole(plain, cli)


def test_a_journal_that_somebody_has_open_stays(older: Path, cli: Cli) -> None:
    (older / ".git").rename(older / "aside")
    agent = Agent(PROGRAM, MODERN, dict(os.environ))
    with agent:
        assert agent.save("east")[0]
        (older / "aside").rename(older / ".git")
        assert saves(cli) == ["east", "south"]
        assert place(older) == older / ".scrimshaw"
        assert agent.save("west")[0]
    assert saves(cli) == ["west", "east", "south"]
    assert place(older) != older / ".scrimshaw"
    assert cli("ledger", "verify").code == 0


def test_a_kill_at_any_step_of_the_move_loses_nothing(older: Path, cli: Cli, tmp_path: Path) -> None:
    source, killed = older.rename(tmp_path / "source"), 0
    for step in range(1, 200):
        subprocess.run(["cp", "-a", str(source), str(older)], check=True)
        command = [sys.executable, "-c", MOVES, str(older / ".scrimshaw"), str(step)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        os.chdir(older)
        assert is_whole(older, cli), step
        assert place(older) != older / ".scrimshaw"
        assert "checkpoints/one.scrim" in names(place(older)), step
        assert not (older / ".scrimshaw/journal.db").exists()
        subprocess.run(["rm", "-rf", str(older)], check=True)
        os.chdir(source)
        if done.returncode == 0:
            break
        killed += 1
    assert done.returncode == 0, done.stderr
    assert killed > 5


def test_many_processes_move_it_once(older: Path, cli: Cli) -> None:
    program = "from scrimshaw.app.cli.main import run; run()"

    def save(number: int) -> subprocess.CompletedProcess[str]:
        arguments = ["save", f"The harbour of number {number} closes at {number}.", "--id", f"n{number}", "--force"]
        return subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, cwd=older
        )

    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(save, range(4)))
    kept = {f"n{number}" for number, each in enumerate(done) if each.returncode == 0}
    assert saves(cli)[-1] == "south"
    assert set(saves(cli)) == {"south", *kept}, [each.stderr for each in done]
    assert len(kept) == 4, [each.stderr for each in done]
    assert cli("ledger", "verify").code == 0
    assert place(older) != older / ".scrimshaw"


@pytest.mark.parametrize("what", ["journal.db", "checkpoints/one.scrim", "JOURNAL.DB"])
def test_what_git_holds_is_left_and_named(older: Path, cli: Cli, what: str) -> None:
    with (older / ".scrimshaw" / what).open("ab"):  # of another spelling too, which is the same file on some systems
        git(older, "add", "-f", f".scrimshaw/{what}")
    assert is_whole(older, cli)
    assert place(older) == older / ".scrimshaw"
    said = {each["name"]: each for each in cli("doctor", "--json").json["findings"]}
    assert what in said["git"]["detail"] or what != "journal.db"
    assert said["journal"]["verdict"] == "note"
    git(older, "rm", "-qf", "--cached", f".scrimshaw/{what}")
    assert is_whole(older, cli)
    assert place(older) != older / ".scrimshaw"


def test_doctor_and_capabilities_show_the_place(project: Path, cli: Cli) -> None:
    said = {each["name"]: each for each in cli("doctor", "--json").json["findings"]}
    assert said["journal"]["verdict"] == "ok"
    assert str(place(project)) in said["journal"]["detail"]
    assert str(place(project)) in cli("capabilities", "--json").out


def damage(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 500)


@pytest.mark.parametrize("hurt", [damage, Path.unlink])
@pytest.mark.parametrize("is_moved", [False, True])
def test_a_lost_journal_is_brought_back(older: Path, cli: Cli, is_moved: bool, hurt: Callable[[Path], None]) -> None:
    if is_moved:
        assert cli("list").code == 0
    path = place(older) / "journal.db"
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)
    hurt(path)
    assert cli("list").code != 0
    assert cli("restore", "--newest", "--yes").code == 0
    assert "south" in saves(cli)
    assert place(older) != older / ".scrimshaw"


def test_purge_knows_the_place(project: Path, cli: Cli) -> None:
    secret = "harbourmaster-19-seventeen"
    assert cli("save", f"The word is {secret} today.", "--id", "word").code == 0
    assert cli("checkpoint", "create", "one").code == 0
    (project / "secret").write_text(secret, encoding="utf-8")
    done = cli("purge", "--secret-file", "secret", "--yes", "--json")
    (project / "secret").unlink()
    found = b"".join(path.read_bytes() for path in project.rglob("*") if path.is_file())
    assert secret.encode() not in found, done


def test_purge_knows_the_places_of_the_other_work_trees(project: Path, cli: Cli, tmp_path: Path) -> None:
    secret, trees = "harbourmaster-19-seventeen", [tmp_path / "one", tmp_path / "gone"]
    for tree in trees:
        git(project, "worktree", "add", "-q", str(tree))
        os.chdir(tree)
        assert cli("save", f"The word is {secret} today.", "--id", "word").code == 0
    one, gone = map(place, trees)
    subprocess.run(["rm", "-rf", str(trees[0] / ".scrimshaw")], check=True)  # as `git clean` does without a commit
    git(project, "worktree", "remove", "--force", str(trees[1]))
    os.chdir(project)
    done = cli("purge", "--secret", secret, "--yes", "--json")
    files = [path for tree in (one, gone) for path in tree.rglob("*") if path.is_file()]
    assert secret.encode() not in b"".join(path.read_bytes() for path in files)
    assert done.json["git"]["unsearched"] == []


def test_a_git_hook_s_environment_hides_no_journal_that_git_holds(
    older: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(older, "add", "-f", ".scrimshaw/journal.db")
    with monkeypatch.context() as hook:
        hook.setenv("GIT_DIR", str(older / ".git"))
        assert is_whole(older, cli)
    assert place(older) == older / ".scrimshaw"


def test_a_linked_journal_stays(older: Path, cli: Cli) -> None:
    (older / ".scrimshaw/journal.db").rename(older / "elsewhere.db")
    (older / ".scrimshaw/journal.db").symlink_to("../elsewhere.db")
    assert is_whole(older, cli)
    assert place(older) == older / ".scrimshaw"


def test_a_copied_work_tree_does_not_write_the_journal_of_the_first(project: Path, cli: Cli, tmp_path: Path) -> None:
    tree, copy = tmp_path / "tree", tmp_path / "copy"
    git(project, "worktree", "add", "-q", str(tree))
    os.chdir(tree)
    assert cli("save", "The harbour of south closes at dusk.", "--id", "south").code == 0
    subprocess.run(["cp", "-a", str(tree), str(copy)], check=True)
    os.chdir(copy)
    said = cli("save", "The harbour of west closes at dusk.", "--id", "west")
    assert said.code != 0
    assert "restore --newest" in said.err
    assert cli("restore", "--newest", "--yes").code == 0
    assert cli("save", "The harbour of west closes at dusk.", "--id", "west").code == 0
    assert place(copy) == copy / ".scrimshaw"
    os.chdir(tree)
    assert is_whole(tree, cli)


def test_a_project_that_moves_in_its_repository_takes_its_journal_along(plain: Path, cli: Cli) -> None:
    git(plain.parent, "init", "-q")
    assert cli("save", "The harbour of south closes at dusk.", "--id", "south").code == 0
    assert cli("checkpoint", "create", "one").code == 0
    before = place(plain)
    moved = plain.rename(plain.with_name("services"))
    os.chdir(moved)
    assert is_whole(moved, cli)
    assert [each["name"] for each in cli("checkpoint", "list", "--json").json] == ["one"]
    assert not before.exists()


def test_of_two_projects_that_move_each_is_told_where_its_journal_is(plain: Path, cli: Cli) -> None:
    git(plain.parent, "init", "-q")
    shutil.copytree(plain, plain.with_name("other"))
    for name in ("other", "project"):
        os.chdir(plain.with_name(name))
        assert cli("save", "The harbour of south closes at dusk.", "--id", "south").code == 0
        plain.with_name(name).rename(plain.with_name(f"new-{name}"))
    before, moved = place(plain), plain.with_name("new-project")
    os.chdir(moved)
    said = cli("list")
    assert said.code != 0
    names = " or ".join(sorted((before.name, place(plain.with_name("other")).name)))
    assert f"rename its folder ({names}) in {before.parent} to {place(moved).name}" in said.err.replace("\n", " ")
    assert "Otherwise run `scrimshaw restore --newest`" in said.err
    before.rename(place(moved))
    assert is_whole(moved, cli)
    os.chdir(plain.with_name("new-other"))
    assert is_whole(plain.with_name("new-other"), cli)


def test_projects_below_a_folder_that_is_renamed_take_their_journals_along(plain: Path, cli: Cli) -> None:
    git(plain.parent, "init", "-q")
    packages, names = plain.with_name("packages"), ("shop/api", "shop/web", "bank/api")
    for name in names:
        shutil.copytree(plain, packages / name)
        os.chdir(packages / name)
        assert cli("save", f"The harbour of {name} closes at dusk.", "--id", "south").code == 0
    moved = packages.rename(plain.with_name("modules"))
    for name in names:
        os.chdir(moved / name)
        assert is_whole(moved / name, cli)
        with closing(apsw.Connection(str(place(moved / name) / "journal.db"))) as journal:
            assert f"harbour of {name}" in str(journal.execute("SELECT content FROM contents").fetchall())


def test_without_its_repository_the_journal_is_missed_and_said_so(project: Path, cli: Cli) -> None:
    assert cli("save", "The harbour of south closes at dusk.", "--id", "south").code == 0
    subprocess.run(["rm", "-rf", str(project / ".git")], check=True)
    assert "restore --newest" in cli("list").err
    assert cli("restore", "--newest", "--yes").code == 0
    assert cli("list").code == 0


def test_a_clone_begins_its_own(project: Path, cli: Cli, tmp_path: Path) -> None:
    assert cli("save", "The harbour of south closes at dusk.", "--id", "south").code == 0
    git(project, "add", "-A")
    git(project, "commit", "-qm", "y")
    git(tmp_path, "clone", "-q", str(project), str(tmp_path / "clone"))
    os.chdir(tmp_path / "clone")
    assert saves(cli) == []
    assert place(tmp_path / "clone").is_relative_to(tmp_path / "clone/.git/scrimshaw")


def run_closed(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command line in a sandbox that closes git's folder; skips the test where the system has none."""
    outside = ":".join((str(project / ".scrimshaw"), os.environ["SCRIMSHAW_HOME"], "/dev/null"))
    sandbox = [sys.executable, str(Path(__file__).with_name("sandbox.py")), outside]
    probe = subprocess.run([*sandbox, sys.executable, "-c", ""], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("no Landlock here")
    run = "import sys; from scrimshaw.app.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [*sandbox, sys.executable, "-c", run, *arguments]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)


def test_a_save_in_a_sandbox_without_git_s_folder_begins_the_journal_beside_it(plain: Path, cli: Cli) -> None:
    git(plain, "init", "-q")
    Path(os.environ["SCRIMSHAW_HOME"]).mkdir()
    done = run_closed(plain, "save", "The harbour of south closes at dusk.", "--id", "south")
    assert done.returncode == 0, done.stderr
    assert run_closed(plain, "ledger", "verify").returncode == 0
    assert not (plain / ".git/scrimshaw").exists()
    assert is_whole(plain, cli)  # and outside of it the journal moves
    assert (place(plain) / "journal.db").exists()
    assert place(plain) != plain / ".scrimshaw"
    refused = run_closed(plain, "save", "The harbour of east closes at noon.", "--id", "east")
    assert (refused.returncode, "journal.db" in refused.stderr) == (3, True)
    assert is_whole(plain, cli)
