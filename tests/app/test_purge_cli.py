"""The command that erases for good: where the secret comes from, what is asked, what is printed, how it ends."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from tests.app.command_line import Cli, Run, command_line

from scrimshaw.app.cli import output, recover
from scrimshaw.config import NO_PROJECT, load
from scrimshaw.engine import open_engine
from scrimshaw.engine.index import scan

NEEDLE = "zanzibar-walrus-77-keel"


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A note that holds it, in the project around the working folder."""
    folder = tmp_path / "project"
    (folder / ".scrimshaw/memories").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "none")
    path = folder / ".scrimshaw/memories/note.md"
    path.write_text(f"It is {NEEDLE}.\n")
    return path


@pytest.fixture
def cli(note: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    plain = command_line(capsys)

    def run(*arguments: str) -> Run:
        said = plain(*arguments)
        assert NEEDLE not in said.out + said.err
        return said

    return run


def feed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))


def answer(monkeypatch: pytest.MonkeyPatch, *, secret: str = "", yes: bool = True) -> list[bool]:
    """A person who types a secret and says yes or no; whether what was typed was hidden."""
    hidden: list[bool] = []

    def prompt(text: str, *, hide_input: bool, err: bool) -> str:
        hidden.append(hide_input)
        return secret

    def confirm(text: str, *, abort: bool = False, err: bool) -> bool:
        if abort and not yes:
            raise typer.Abort
        return yes

    for place in (output, recover):
        monkeypatch.setattr(place, "is_interactive", lambda: True)
    monkeypatch.setattr(typer, "prompt", prompt)
    monkeypatch.setattr(typer, "confirm", confirm)
    return hidden


def test_purge_reads_the_secret_from_standard_input(cli: Cli, note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, f"{NEEDLE}\n")
    run = cli("purge", "--secret", "-", "--yes")
    assert (run.code, run.err) == (0, "")
    assert note.read_text() == "It is [REDACTED:purged].\n"
    assert "Nothing is left in Scrimshaw's folders." in run.out
    assert "Scrimshaw cannot reach it" in run.out


def test_purge_reads_the_secret_from_a_file(cli: Cli, note: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{NEEDLE}\r\n")
    run = cli("purge", "--secret-file", str(tmp_path / "secret"), "--yes", "--json")
    assert run.code == 0
    assert (run.json["left"], run.json["held"], run.json["dry_run"]) == ([], [], False)
    assert NEEDLE not in note.read_text()


def test_from_a_person_unseen(cli: Cli, note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = answer(monkeypatch, secret=NEEDLE)
    assert cli("purge").code == 0
    assert hidden == [True]
    assert NEEDLE not in note.read_text()


def test_as_an_argument_with_a_warning(cli: Cli, note: Path) -> None:
    run = cli("purge", "--secret", NEEDLE, "--yes")
    assert run.code == 0
    assert "shell's history" in run.err


def test_purge_by_a_pattern_erases_what_matches(cli: Cli, note: Path) -> None:
    assert cli("purge", "--secret", r"zanzibar-\w+-\d+-keel", "--pattern", "--yes").code == 0
    assert note.read_text() == "It is [REDACTED:purged].\n"


def test_purge_of_a_memory_deletes_its_file(cli: Cli, note: Path) -> None:
    assert cli("purge", "--memory", "note", "--yes").code == 0
    assert not note.exists()


def test_a_dry_run_changes_nothing(cli: Cli, note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, NEEDLE)
    run = cli("purge", "--secret", "-", "--dry-run")
    assert run.code == 0
    assert "note.md" in run.out
    assert NEEDLE in note.read_text()


def test_without_a_yes_nothing_is_done(cli: Cli, note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli("purge", "--memory", "note").code == 1
    answer(monkeypatch, secret=NEEDLE, yes=False)
    assert cli("purge").code == 1
    assert NEEDLE in note.read_text()


def test_what_is_left_makes_the_exit_code_1(cli: Cli, note: Path, tmp_path: Path) -> None:
    shared = tmp_path / "home/memories/shared.md"
    shared.parent.mkdir(parents=True)
    shared.write_text(NEEDLE)
    run = cli("purge", "--secret", NEEDLE, "--yes")
    assert run.code == 1
    assert "Something is left." in run.out
    assert "add --global" in run.out
    assert cli("purge", "--secret", NEEDLE, "--yes", "--global").code == 0


def test_an_archive_nobody_can_read_goes_with_a_yes(cli: Cli, note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torn = note.parents[1] / "checkpoints/torn.scrim"
    torn.parent.mkdir()
    torn.write_bytes(b"PK torn")
    answer(monkeypatch, secret=NEEDLE)
    run = cli("purge")
    assert run.code == 0
    assert "removed as a whole" in run.out
    assert not torn.exists()


def test_what_cannot_be_looked_into_stays_and_makes_the_exit_code_1(cli: Cli, note: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(NEEDLE)
    asked = ("purge", "--secret-file", str(tmp_path / "secret"), "--yes")
    closed = note.parents[1] / "journal.db.damaged-20261121T080000Z"
    closed.write_bytes(b"\1" * 50)
    run = cli(*asked)
    assert run.code == 1
    assert "Nothing is left" not in run.out
    assert "Cannot be read or edited" in " ".join(run.out.split())
    assert closed.exists()
    run = cli(*asked, "--remove")
    assert (run.code, closed.exists()) == (0, False)
    assert "removed as a whole" in run.out


def test_no_more_is_claimed_than_was_done(cli: Cli, note: Path) -> None:
    out = " ".join(cli("purge", "--secret", NEEDLE, "--yes").out.split())
    assert "Looked for: as it is; in small and capital letters" in out
    assert "UTF-16 and UTF-32" in out
    assert "rows of databases, checkpoints" in out
    assert "what the expression describes" in cli("purge", "--secret", "zan[a-z]+-w", "--pattern", "--dry-run").out


def commit(folder: Path, message: str) -> None:
    for command in (
        ("init", "-q"),
        ("add", "-A"),
        ("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", message),
    ):
        subprocess.run(("git", *command), cwd=folder, check=True)


def test_what_git_holds_is_named_with_commands_that_never_show_it(cli: Cli, note: Path) -> None:
    commit(note.parents[2], f"about {NEEDLE}")
    run = cli("purge", "--secret", NEEDLE, "--yes")
    assert run.code == 1
    assert "Nothing is left in Scrimshaw's folders." in run.out
    assert "--replace-message" in run.out
    assert "FILE_WITH_THE_SECRET" in run.out


def test_the_memories_of_other_work_trees_are_purged_too(cli: Cli, note: Path, tmp_path: Path) -> None:
    commit(note.parents[2], "a note")
    other = tmp_path / "other"
    subprocess.run(("git", "worktree", "add", "-q", "--detach", str(other)), cwd=note.parents[2], check=True)
    assert NEEDLE in (other / ".scrimshaw/memories/note.md").read_text()
    run = cli("purge", "--secret", NEEDLE, "--yes")
    assert run.code == 1  # git has it still
    assert "Nothing is left in Scrimshaw's folders." in run.out
    assert NEEDLE not in (other / ".scrimshaw/memories/note.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--secret", "x" * 9, "--memory", "note"), 2),
        (("--memory", "note", "--pattern"), 2),
        (("--secret", "-", "--secret-file", "pyproject.toml"), 2),
        (("--secret", "tiny", "--yes"), 1),
        (("--secret", "(", "--pattern", "--yes"), 1),
        (("--memory", "nobody", "--yes"), 1),
        ((), 1),
    ],
)
def test_what_cannot_be_meant_is_refused(cli: Cli, note: Path, arguments: tuple[str, ...], code: int) -> None:
    assert cli("purge", *arguments).code == code
    assert NEEDLE in note.read_text()


def test_an_empty_secret_is_refused(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, "\n")
    assert "empty" in cli("purge", "--secret", "-", "--yes").err


def test_what_a_server_without_a_memory_keeps_is_searched_and_cleaned_too(cli: Cli, note: Path, tmp_path: Path) -> None:
    shared = tmp_path / "home/memories/shared.md"
    shared.parent.mkdir(parents=True)
    shared.write_text("Nothing here.\n")
    alone = tmp_path / "home" / NO_PROJECT
    (alone / ".scrimshaw").mkdir(parents=True)

    def serve() -> bytes:
        with open_engine(load(alone)) as engine:
            scan(engine)
        return b"".join(path.read_bytes() for path in alone.rglob("*") if path.is_file())

    serve()
    clean = cli("purge", "--secret", NEEDLE, "--yes")
    assert (clean.code, "Nothing is left" in clean.out) == (0, True)
    shared.write_text(f"It is {NEEDLE} here.\n")
    assert NEEDLE.encode() in serve()
    assert cli("purge", "--secret", NEEDLE, "--yes", "--global").code == 0
    assert NEEDLE.encode() not in serve()


def test_a_dry_run_names_each_place_once_or_says_that_there_is_none(cli: Cli, note: Path) -> None:
    nowhere = cli("purge", "--secret", "harpoon-88-keel", "--dry-run").out
    assert nowhere.startswith("Nothing is found in Scrimshaw's folders.")
    subprocess.run(["git", "init", "-q", str(note.parents[2])], check=True)
    cli("init")
    shown = cli("purge", "--secret", NEEDLE, "--dry-run")
    rows = [line for line in shown.out.splitlines() if "index.db" in line]
    assert rows
    assert all("index.db: " in line for line in rows)
    assert "Files that git does not have yet: 1;" in shown.out
    assert "Nothing is" not in shown.out
