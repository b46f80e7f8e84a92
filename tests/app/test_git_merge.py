"""Two branches change one memory, and real git merges them through the driver."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.app.command_line import Cli, command_line
from tests.git_folders import write_gate

from scrimshaw.app.cli.operate import ATTRIBUTES

MEMORY = write_gate("The gate is oak.", "tier: normal\n")


def run_git(folder: Path, *arguments: str, code: int = 0) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder, programs = tmp_path / "project", tmp_path / "bin"
    folder.mkdir()
    programs.mkdir()
    program = programs / "scrimshaw"
    program.write_text(f"#!{sys.executable}\nfrom scrimshaw.app.cli.main import run\nrun()\n")
    program.chmod(0o755)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "none")
    run_git(folder, "init", "-q", "-b", "trunk")
    return folder


@pytest.fixture
def cli(project: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    run = command_line(capsys)
    run("init")
    return run


def branch(project: Path, name: str, *replacements: tuple[str, str]) -> None:
    """Commit a changed memory on a branch of its own."""
    run_git(project, "switch", "-q", "-c", name, "trunk")
    path, text = project / ".scrimshaw/memories/gate.md", MEMORY
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    run_git(project, "commit", "-qam", name)


def start(project: Path) -> Path:
    path = project / ".scrimshaw/memories/gate.md"
    path.write_text(MEMORY)
    run_git(project, "add", "-A")
    run_git(project, "commit", "-qm", "start")
    return path


OURS = (("topics: [tide]", "topics: [tide, oak]"), ("2026-01-01", "2026-01-02"), ("oak.", "oak and iron."))
THEIRS = (
    ("tier: normal", "tier: important"),
    ("topics: [tide]", "topics: [tide, keeper]"),
    ("2026-01-01", "2026-01-03"),
)


def test_both_sides_are_in_the_merge(cli: Cli, project: Path) -> None:
    assert cli("git", "install").code == 0
    path = start(project)
    branch(project, "one", *OURS)
    branch(project, "two", *THEIRS, ("The keeper lives beside it.", "The keeper lives in the tower."))
    run_git(project, "merge", "one")
    expected = MEMORY.replace("tier: normal", "tier: important").replace("[tide]", "[tide, keeper, oak]")
    expected = expected.replace("2026-01-01", "2026-01-03").replace("oak.", "oak and iron.")
    assert path.read_text() == expected.replace("lives beside it", "lives in the tower")


@pytest.mark.parametrize("has_some", [True, False])
def test_two_people_may_each_add_a_golden_query(cli: Cli, project: Path, has_some: bool) -> None:
    (project / ".scrimshaw/.gitattributes").write_text("".join(ATTRIBUTES.splitlines(keepends=True)[:2]))
    assert cli("git", "install").code == 0  # also where an earlier version did
    start(project)
    if has_some:
        cli("golden", "add", "what is the gate made of", "gate")
        run_git(project, "add", "-A")
        run_git(project, "commit", "-qm", "query")
    for name, question in (("one", "where does the keeper live"), ("two", "who lives at the gate")):
        run_git(project, "switch", "-q", "-c", name, "trunk")
        cli("golden", "add", question, "gate")
        run_git(project, "add", "-A")
        run_git(project, "commit", "-qm", name)
    run_git(project, "merge", "one")
    queries = [each["text"] for each in cli("golden", "list", "--json").json]
    asked = ["what is the gate made of"] * has_some
    assert queries == [*asked, "who lives at the gate", "where does the keeper live"]
    path = project / ".scrimshaw/golden.toml"
    changed = path.read_text().replace("who lives at", "who sleeps at")
    run_git(project, "switch", "-q", "-c", "three")
    path.write_text(path.read_text().replace("who lives at", "who is at"))
    run_git(project, "commit", "-qam", "three")
    run_git(project, "switch", "-q", "two")
    path.write_text(changed)
    run_git(project, "commit", "-qam", "two")
    run_git(project, "merge", "three", code=1)


def test_without_the_driver_the_same_merge_is_a_conflict(cli: Cli, project: Path) -> None:
    assert cli("git", "install").code == 0
    assert "does not know how" not in cli("doctor").out
    said = cli("git", "uninstall")
    assert (said.code, "left, as all clones share it" in said.out) == (0, True)
    assert "merge=scrimshaw" in (project / ".scrimshaw/.gitattributes").read_text()
    assert "does not know how\n         -> Run `scrimshaw git install`." in cli("doctor").out
    assert "scrimshaw" not in run_git(project, "config", "--local", "--list")
    start(project)
    branch(project, "one", *OURS)
    branch(project, "two", *THEIRS)
    run_git(project, "merge", "one", code=1)


def test_a_conflict_stands_in_the_text_alone_and_is_found(cli: Cli, project: Path) -> None:
    cli("git", "install")
    path = start(project)
    branch(project, "one", *OURS)
    branch(project, "two", *THEIRS, ("The gate is oak.", "The gate is bronze."))
    run_git(project, "merge", "one", code=1)
    head, _, body = path.read_text().partition("---\nThe")[0], "", path.read_text()
    assert "<<<<<<<" not in head.split("---\n")[1]
    assert "oak and iron" in body
    assert "bronze" in body
    assert "topics: [tide, keeper, oak]" in body
    assert "merge_conflict" in cli("search", "gate bronze").out


def test_lint_and_edit_say_of_a_conflict_what_doctor_says(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = start(project)
    branch(project, "one", ("tier: normal", "tier: important"), ("The gate is oak.", "The gate is iron."))
    branch(project, "two", ("tier: normal", "tier: critical"), ("The gate is oak.", "The gate is bronze."))
    run_git(project, "merge", "one", code=1)
    line = path.read_text().partition("<<<<<<<")[0].count("\n") + 1
    said = f"line {line}, column 1: a merge left both sides between its marks; keep one"
    assert said in cli("doctor").out
    assert said in cli("edit", "gate", "--add-topic", "water").err
    assert f"line {line}: a merge left both sides between its marks; keep one" in cli("lint").out
    path.write_text(MEMORY.replace("The gate is oak.", "<<<<<<< ours\nOak.\n=======\nIron.\n>>>>>>> theirs"))
    assert "a merge left both sides between its marks; keep one" in cli("edit", "gate", "--add-topic", "water").err
    monkeypatch.setenv("EDITOR", f"{sys.executable} -c \"import sys; open(sys.argv[1], 'a').write('x')\"")
    assert "a merge left both sides between its marks; keep one" in cli("edit", "gate").err


@pytest.mark.parametrize("key", ["tier: normal", "title: Gate"])
def test_a_key_that_both_sides_changed_is_a_conflict_of_its_line_alone(cli: Cli, project: Path, key: str) -> None:
    cli("git", "install")
    path, name = start(project), key.partition(":")[0]
    assert f"\n{key}\n" in MEMORY
    branch(project, "one", (key, f"{name}: important"), *OURS)
    branch(project, "two", (key, f"{name}: deprecated"), ("topics: [tide]", "topics: [tide, keeper]"))
    run_git(project, "merge", "one", code=1)
    sides = f"<<<<<<< ours\n{name}: deprecated\n=======\n{name}: important\n>>>>>>> theirs\n"
    expected = MEMORY.replace(f"{key}\n", sides).replace("[tide]", "[tide, keeper, oak]")
    assert path.read_text() == expected.replace("2026-01-01", "2026-01-02").replace("oak.", "oak and iron.")
    assert "a merge left both sides between its marks" in cli("lint").out


def test_a_program_that_is_gone_leaves_the_merge_to_git(
    cli: Cli, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("git", "install")
    path = start(project)
    branch(project, "one", ("oak.", "oak and iron."))
    branch(project, "two", ("beside it", "in the tower"))
    monkeypatch.setenv("PATH", os.pathsep.join(os.environ["PATH"].split(os.pathsep)[1:]))
    if b"scrimshaw" in subprocess.run(["sh", "-c", "command -v scrimshaw"], capture_output=True, check=False).stdout:
        pytest.skip("another scrimshaw is on the PATH")
    run_git(project, "merge", "one")
    assert "oak and iron" in path.read_text()
    assert "in the tower" in path.read_text()


def test_doctor_runs_and_names_the_merge_that_tore_the_settings(cli: Cli, project: Path) -> None:
    (project / ".scrimshaw/config.toml").write_text("<<<<<<< a\n[search]\n=======\n[index]\n>>>>>>> b\n")
    said = cli("doctor")
    assert (said.code, "config.toml cannot be read: git left both sides of a merge in it" in said.out) == (1, True)
    assert "the databases are hidden from git" in said.out
    assert "remove it" not in said.out + cli("search", "gate").err


def test_doctor_says_how_sessions_come_back_that_hooks_missed(cli: Cli, project: Path) -> None:
    (project / ".scrimshaw/hook.log").write_text("2026-12-01T01:00:00 ConfigError in config.py:1\n")
    assert "`scrimshaw import CLIENT` brings what they missed" in cli("doctor").out


def test_a_memory_that_a_sparse_checkout_leaves_out_is_not_made_again(cli: Cli, project: Path) -> None:
    start(project)
    (project / "src").mkdir()
    (project / "src/a.py").write_text("a = 1\n")
    run_git(project, "add", "-A")
    run_git(project, "commit", "-qm", "code")
    run_git(project, "sparse-checkout", "set", "src")
    shutil.rmtree(project / ".scrimshaw", ignore_errors=True)
    for command in (["init"], ["search", "gate"], ["setup", "claude", "--yes"]):
        assert "Run `git sparse-checkout add .scrimshaw` there." in cli(*command).err
    assert not (project / ".scrimshaw").exists()
    run_git(project, "sparse-checkout", "add", ".scrimshaw")
    assert cli("search", "gate").code == 0


def test_what_is_installed_already_is_not_said_to_be_written(cli: Cli, project: Path) -> None:
    answers = [cli("git", "install", "--json", *flags).json for flags in (["--dry-run"], [], [])]
    assert [len(each["steps"]) for each in answers] == [3, 3, 0]
    run_git(project, "config", "--local", "merge.scrimshaw.name", "another")
    assert list(cli("git", "install", "--dry-run", "--json").json["steps"]) == ["merge.scrimshaw.name"]
    assert list(cli("git", "install", "--json").json["steps"]) == ["merge.scrimshaw.name"]
    assert cli("git", "install", "--dry-run").out == "Nothing to change.\n"


def test_a_file_of_the_user_is_left_alone(cli: Cli, project: Path) -> None:
    (project / ".scrimshaw/.gitattributes").write_text("* text\n")
    refused = cli("git", "install")
    assert (refused.code, "/memories/** merge=scrimshaw" in refused.err) == (1, True)
    cli("git", "uninstall")
    assert (project / ".scrimshaw/.gitattributes").read_text() == "* text\n"
