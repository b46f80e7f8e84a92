"""What git still has of a text: found in every kind of object, and gone once the user ran the commands told."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from scrimshaw.ingest.traces import of_passages, of_secret
from scrimshaw.storage import git_traces as module
from scrimshaw.storage.git_traces import GitTraces, git_traces

NEEDLE = "zanzibar-walrus-77-keel"
NOTE = ".scrimshaw/memories/note.md"


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a note that never held it."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    for name, text in (("user.name", "A"), ("user.email", "a@example.org"), ("commit.gpgsign", "false")):
        git(folder, "config", name, text)
    commit(folder, "plain", "A note.\n")
    return folder


def commit(folder: Path, message: str, text: str, name: str = NOTE) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def look(folder: Path, *paths: Path) -> GitTraces:
    return git_traces(folder, of_secret(NEEDLE), paths)


def test_a_clean_history_is_read_and_nothing_found(repository: Path) -> None:
    told = look(repository)
    assert (told.found, told.places, told.commands, told.degradation) == (0, (), (), None)
    assert told.objects >= 5


def test_a_file_of_the_past_is_found_with_its_commit(repository: Path) -> None:
    commit(repository, "brought", f"It is {NEEDLE}.\n")
    later = commit(repository, "taken away", "A note.\n")
    told = look(repository)
    assert told.found == 1
    assert [(place.kind, place.path) for place in told.places] == [("blob", NOTE)]
    assert told.places[0].commit == later


def test_what_no_commit_has_any_more_is_found(repository: Path) -> None:
    (repository / "loose.md").write_text(NEEDLE)
    git(repository, "add", "-A")
    git(repository, "rm", "-q", "--cached", "loose.md")
    assert [(place.kind, place.commit, place.path) for place in look(repository).places] == [("blob", "", "")]


def test_messages_and_names_are_found_and_never_told(repository: Path) -> None:
    head = commit(repository, f"about {NEEDLE}", "x\n", name=f"{NEEDLE}.md")
    told = look(repository)
    assert {place.kind for place in told.places} == {"commit", "tree"}
    assert head in {place.commit for place in told.places}
    assert NEEDLE not in repr(told)


def test_the_file_of_a_memory_is_told_by_its_path(repository: Path) -> None:
    path = repository / NOTE
    told = git_traces(repository, of_passages([]), [path, repository / "never.md"])
    assert [(place.kind, place.path) for place in told.places] == [("file", NOTE)]


def test_the_commands_told_remove_it(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_has_filter_repo", lambda top: False)
    monkeypatch.setenv("FILTER_BRANCH_SQUELCH_WARNING", "1")
    commit(repository, "brought", f"It is {NEEDLE}.\n")
    commit(repository, "taken away", "It is [REDACTED:purged].\n")
    commit(repository, "another", "Another.\n", name="other.md")
    *commands, push = look(repository).commands
    assert push.startswith("git push")
    for command in commands:
        subprocess.run(command, shell=True, cwd=repository, check=True, capture_output=True)
    told = look(repository)
    assert (told.found, told.degradation) == (0, None)
    assert (repository / NOTE).read_text() == "It is [REDACTED:purged].\n"
    assert (repository / "other.md").read_text() == "Another.\n"
    assert git(repository, "status", "--porcelain") == ""


def test_without_a_repository_there_is_nothing_to_tell(tmp_path: Path) -> None:
    assert look(tmp_path) == GitTraces()


def test_without_git_it_says_so(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    told = look(repository)
    assert told.degradation
    assert "not searched" in told.degradation.fallback_mode


class Slow:
    """Traces that take their time."""

    def count(self, data: bytes) -> int:
        time.sleep(0.3)
        return 0

    def erase(self, data: bytes) -> bytes:
        return data


def test_a_search_that_takes_too_long_says_so(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(repository, "more than a pipe takes", "x" * 1_000_000, name="large.md")
    monkeypatch.setattr(module, "TIMEOUT_S", 0.1)
    assert git_traces(repository, Slow()).degradation
