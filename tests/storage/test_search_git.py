"""What git still has of a text is found in every kind of object, with the commands that remove it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scrimshaw.ingest.secret_encodings import traces_of_passages, traces_of_secret
from scrimshaw.storage import git as module
from scrimshaw.storage.git import SECRET_FILE, GitTraces, list_other_work_trees, search_git

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
    return search_git(folder, traces_of_secret(NEEDLE), paths)


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


def test_a_file_not_committed_is_found_by_a_name_that_is_not_utf_8(repository: Path) -> None:
    commit(repository, "once", f"It is {NEEDLE}.\n")
    (repository / NOTE).write_text("A note.\n")
    Path(os.fsdecode(os.fsencode(repository) + b"/caf\xe9.txt")).write_text(NEEDLE)
    found = [place.path for place in look(repository).places if place.kind == "file not committed"]
    assert found == ["caf\N{REPLACEMENT CHARACTER}.txt"]


def test_what_no_commit_has_any_more_is_found(repository: Path) -> None:
    (repository / "loose.md").write_text(NEEDLE)
    git(repository, "add", "-A")
    git(repository, "rm", "-q", "-f", "loose.md")
    assert [(place.kind, place.commit, place.path) for place in look(repository).places] == [("blob", "", "")]


def test_messages_and_names_are_found_and_never_told(repository: Path) -> None:
    head = commit(repository, f"about {NEEDLE}", "x\n", name=f"{NEEDLE}.md")
    told = look(repository)
    assert {place.kind for place in told.places} == {"commit", "tree", "file of git"}
    assert head in {place.commit for place in told.places}
    assert NEEDLE not in repr(told)


def test_the_file_of_a_memory_is_told_by_its_path(repository: Path) -> None:
    path = repository / NOTE
    told = search_git(repository, traces_of_passages([]), [path, repository / "never.md"])
    assert [(place.kind, place.path) for place in told.places] == [("file", NOTE)]
    assert [SECRET_FILE in command for command in told.commands] == [False] * 4
    assert f"--invert-paths --path {NOTE}" in told.commands[0]


def in_message(folder: Path) -> None:
    git(folder, "commit", "-q", "--allow-empty", "-m", f"about {NEEDLE} and {NEEDLE}\n\nIt was {NEEDLE}.\nEnd & \\\\ *")


def in_branch_name(folder: Path) -> None:
    git(folder, "branch", f"fix-{NEEDLE}")
    git(folder, "branch", f"feature/{NEEDLE}/two")


def in_name_of_this_branch(folder: Path) -> None:
    git(folder, "checkout", "-q", "-b", f"on-{NEEDLE}")


def in_tag_name(folder: Path) -> None:
    git(folder, "tag", f"v-{NEEDLE}")
    git(folder, "tag", "-a", "-m", "fine", f"w-{NEEDLE}")


def in_tag_message(folder: Path) -> None:
    git(folder, "tag", "-a", "-m", f"because of {NEEDLE}", "told-one's")
    git(folder, "tag", "-a", "-m", "fine", "kept")


def in_ref_name(folder: Path) -> None:
    git(folder, "update-ref", f"refs/remotes/origin/{NEEDLE}", "HEAD")


def in_file_name(folder: Path) -> None:
    commit(folder, "named", "Fine.\n", name=f"docs/a {NEEDLE}.md")
    git(folder, "mv", f"docs/a {NEEDLE}.md", "docs/renamed.md")
    git(folder, "commit", "-q", "-m", "renamed")


def in_named_file(folder: Path) -> None:
    commit(folder, "named", f"It is {NEEDLE}.\n", name=f"{NEEDLE}.md")
    git(folder, "rm", "-q", f"{NEEDLE}.md")
    git(folder, "commit", "-q", "-m", "gone")


def in_stash(folder: Path) -> None:
    (folder / NOTE).write_text(f"Not yet: {NEEDLE}\n")
    git(folder, "stash", "-q", "-m", f"with {NEEDLE}")


def in_log(folder: Path) -> None:
    in_message(folder)
    git(folder, "reset", "-q", "--hard", "HEAD~1")


def in_begun_message(folder: Path) -> None:
    (folder / ".git/COMMIT_EDITMSG").write_text(f"about {NEEDLE}")
    (folder / ".git/MERGE_MSG").write_text(f"about {NEEDLE}")


PLACES: tuple[tuple[Callable[[Path], None], str], ...] = (
    (in_message, "commit"), (in_branch_name, "ref"), (in_name_of_this_branch, "ref"), (in_tag_name, "ref"),
    (in_tag_message, "tag"), (in_ref_name, "ref"), (in_file_name, "tree"), (in_named_file, "blob"),
    (in_stash, "blob"), (in_log, "file of git"), (in_begun_message, "file of git"),
)  # fmt: skip


@pytest.mark.parametrize(("plant", "kind"), PLACES, ids=lambda value: getattr(value, "__name__", ""))
def test_every_kind_of_place_is_found_and_never_printed(
    repository: Path, plant: Callable[[Path], None], kind: str
) -> None:
    plant(repository)
    found = look(repository)
    assert kind in {place.kind for place in found.places}
    assert found.found >= 1
    assert found.commands[-1].startswith("git push")
    assert NEEDLE not in repr(found)


@pytest.mark.skipif(shutil.which("git-filter-repo") is None, reason="git-filter-repo is not installed")
@pytest.mark.parametrize("plant", [in_message, in_named_file, in_tag_message], ids=lambda plant: plant.__name__)
def test_the_commands_remove_it(repository: Path, tmp_path: Path, plant: Callable[[Path], None]) -> None:
    plant(repository)
    fresh = tmp_path / "fresh"
    git(tmp_path, "clone", "-q", "--mirror", str(repository), str(fresh / ".git"))
    git(fresh, "config", "core.bare", "false")
    git(fresh, "reset", "-q", "--hard")
    path = tmp_path / "secret"
    path.write_text(f"{NEEDLE}\n")
    for command in look(fresh).commands[:-1]:
        subprocess.run(command.replace(SECRET_FILE, str(path)), shell=True, cwd=fresh, check=True, capture_output=True)
    assert not [place for place in look(fresh).places if place.kind in ("blob", "commit", "tag")]


def test_what_the_commands_leave_is_named(repository: Path) -> None:
    git(repository, "config", "remote.origin.url", f"https://a:{NEEDLE}@example.org/")
    git(repository, "-c", f"user.name={NEEDLE}", "commit", "-q", "--allow-empty", "-m", "x", f"--author={NEEDLE} <a@b>")
    in_branch_name(repository)
    found = look(repository)
    assert {place.path for place in found.places if place.kind == "file of git"} >= {"config"}
    for word in ("settings", "made a commit", "branches", "stashes"):
        assert any(word in text for text in found.stays)


def test_repositories_within_are_told_as_not_searched(repository: Path) -> None:
    (repository / ".git/modules/inner").mkdir(parents=True)
    assert [Path(name).name for name in look(repository).unsearched] == ["modules"]


def test_the_log_of_a_branch_with_any_name_is_searched(repository: Path) -> None:
    for name in ("objects", "refs", "packed-refs"):
        git(repository, "update-ref", "--create-reflog", "-m", f"for {NEEDLE}", f"refs/heads/{name}", "HEAD")
    logs = ["logs/refs/heads/objects", "logs/refs/heads/packed-refs", "logs/refs/heads/refs"]
    assert [place.path for place in look(repository).places] == logs


def test_other_work_trees_are_listed(repository: Path, tmp_path: Path) -> None:
    (repository / "below").mkdir()
    other = tmp_path / "another tree"
    git(repository, "worktree", "add", "-q", "--detach", str(other))
    assert list_other_work_trees(repository) == [other]
    assert list_other_work_trees(repository / "below") == [other / "below"]
    assert list_other_work_trees(other) == [repository]
    assert list_other_work_trees(tmp_path) == []


def test_without_a_repository_there_is_nothing_to_search(tmp_path: Path) -> None:
    assert look(tmp_path) == GitTraces()


def test_without_git_it_says_so(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    told = look(repository)
    assert told.degradation
    assert "not searched" in told.degradation.fallback_mode


def test_a_repository_that_git_refuses_is_told(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    (repository / "below").mkdir()
    for folder in (repository, repository / "below"):
        told = look(folder)
        assert told.degradation
        assert "dubious ownership" in told.degradation.failure_mode


class Slow:
    """Traces that take their time."""

    def count(self, data: bytes) -> int:
        time.sleep(0.3)
        return 0

    def erase(self, data: bytes) -> bytes:
        return data

    def mask(self, text: str) -> str:
        return text


def test_a_search_that_takes_too_long_says_so(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(repository, "more than a pipe takes", "x" * 1_000_000, name="large.md")
    monkeypatch.setattr(module, "SEARCH_S", 0.1)
    assert search_git(repository, Slow()).degradation
