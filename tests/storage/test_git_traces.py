"""What git still has of a text: found in every kind of object, and gone once the user ran the commands told."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from scrimshaw.ingest.traces import of_passages, of_secret
from scrimshaw.storage import git_traces as module
from scrimshaw.storage.git_commands import FILE
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
    assert {place.kind for place in told.places} == {"commit", "tree", "file of git"}
    assert head in {place.commit for place in told.places}
    assert NEEDLE not in repr(told)


def test_the_file_of_a_memory_is_told_by_its_path(repository: Path) -> None:
    path = repository / NOTE
    told = git_traces(repository, of_passages([]), [path, repository / "never.md"])
    assert [(place.kind, place.path) for place in told.places] == [("file", NOTE)]


def run(folder: Path, commands: Sequence[str], secret: Path) -> None:
    """What a person does with the commands told: all but the last one, which pushes."""
    assert commands[-1].startswith("git push")
    for command in commands[:-1]:
        assert NEEDLE not in command
        subprocess.run(command.replace(FILE, str(secret)), shell=True, cwd=folder, check=True, capture_output=True)


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that holds it, and a git without filter-repo."""
    monkeypatch.setattr(module, "_has_filter_repo", lambda top: False)
    monkeypatch.setenv("FILTER_BRANCH_SQUELCH_WARNING", "1")
    path = tmp_path / "secret"
    path.write_text(f"{NEEDLE}\n")
    return path


def test_the_commands_told_remove_it(repository: Path, secret: Path) -> None:
    commit(repository, "brought", f"It is {NEEDLE}.\n")
    commit(repository, "taken away", "It is [REDACTED:purged].\n")
    commit(repository, "another", "Another.\n", name="other.md")
    run(repository, look(repository).commands, secret)
    told = look(repository)
    assert (told.found, told.degradation) == (0, None)
    assert (repository / NOTE).read_text() == "It is [REDACTED:purged].\n"
    assert (repository / "other.md").read_text() == "Another.\n"
    assert git(repository, "status", "--porcelain") == ""


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
    (in_message, "commit"), (in_branch_name, "branch"), (in_name_of_this_branch, "branch"), (in_tag_name, "tag name"),
    (in_tag_message, "tag"), (in_ref_name, "ref"), (in_file_name, "tree"), (in_named_file, "blob"),
    (in_stash, "blob"), (in_log, "file of git"), (in_begun_message, "file of git"),
)  # fmt: skip


@pytest.mark.parametrize(("plant", "kind"), PLACES, ids=lambda value: getattr(value, "__name__", ""))
def test_the_commands_told_remove_it_from(
    repository: Path, secret: Path, plant: Callable[[Path], None], kind: str
) -> None:
    plant(repository)
    told = look(repository)
    assert kind in {place.kind for place in told.places}
    assert told.found >= 1
    assert NEEDLE not in repr(told)
    run(repository, told.commands, secret)
    assert look(repository) == GitTraces(objects=look(repository).objects)
    assert git(repository, "fsck") == ""
    assert (repository / NOTE).read_text() == "A note.\n"


def test_from_everywhere_at_once_and_the_rest_stays(repository: Path, secret: Path) -> None:
    for plant, _ in PLACES:
        plant(repository)
    run(repository, look(repository).commands, secret)
    assert look(repository).places == ()
    told = git(repository, "log", "--all", "--format=%B")
    assert "about [REDACTED:purged] and [REDACTED:purged]\n\nIt was [REDACTED:purged].\nEnd & \\\\ *" in told
    assert git(repository, "tag") == "kept"
    assert sorted(git(repository, "branch", "--format=%(refname:short)").splitlines()) == [
        "main",
        "purged-branch-1",
        "purged-branch-2",
        "purged-branch-3",
    ]


def test_what_the_commands_leave_is_told(repository: Path, secret: Path) -> None:
    git(repository, "config", "remote.origin.url", f"https://a:{NEEDLE}@example.org/")
    git(repository, "-c", f"user.name={NEEDLE}", "commit", "-q", "--allow-empty", "-m", "x", f"--author={NEEDLE} <a@b>")
    told = look(repository)
    assert {place.path for place in told.places if place.kind == "file of git"} >= {"config"}
    assert any("config" in text for text in told.stays)
    assert any("head of commits" in text for text in told.stays)
    run(repository, told.commands, secret)
    assert {place.kind for place in look(repository).places} == {"commit", "file of git"}


def test_repositories_within_are_told_as_not_searched(repository: Path) -> None:
    (repository / ".git/modules/inner").mkdir(parents=True)
    assert [Path(name).name for name in look(repository).unsearched] == ["modules"]


def test_the_log_of_a_branch_with_any_name_is_searched(repository: Path) -> None:
    for name in ("objects", "refs", "packed-refs"):
        git(repository, "update-ref", "--create-reflog", "-m", f"for {NEEDLE}", f"refs/heads/{name}", "HEAD")
    logs = ["logs/refs/heads/objects", "logs/refs/heads/packed-refs", "logs/refs/heads/refs"]
    assert [place.path for place in look(repository).places] == logs


def test_what_is_packed_in_an_object_is_found(repository: Path, secret: Path) -> None:
    (repository / "notes.gz").write_bytes(gzip.compress(NEEDLE.encode() * 3))
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", "packed")
    git(repository, "rm", "-q", "notes.gz")
    git(repository, "commit", "-q", "-m", "gone")
    told = look(repository)
    assert [(place.kind, place.path) for place in told.places] == [("blob", "notes.gz")]
    run(repository, told.commands, secret)
    assert look(repository).found == 0


def test_objects_that_cannot_be_looked_into_are_told(repository: Path) -> None:
    for name in ("a", "b"):
        (repository / f"{name}.zst").write_bytes(b"\x28\xb5\x2f\xfd" + name.encode() * 30)
    git(repository, "add", "-A")
    first, *rest = look(repository).unsearched
    assert (first.split()[0], "Zstandard" in first, rest) == ("2", True, [])


def test_other_work_trees_are_told_as_not_searched(repository: Path, secret: Path, tmp_path: Path) -> None:
    commit(repository, "brought", f"It is {NEEDLE}.\n")
    other, named = tmp_path / "another tree", tmp_path / f"tree-{NEEDLE}"
    git(repository, "worktree", "add", "-q", "--detach", str(other))
    git(repository, "worktree", "add", "-q", "-b", "two", str(named))
    commit(repository, "taken away", "It is nothing of the kind.\n")
    told = look(repository)
    assert [name.partition(",")[0] for name in told.unsearched] == [
        str(other),
        str(tmp_path / "tree-[REDACTED:purged]"),
    ]
    assert any("work trees" in text for text in told.stays)
    assert NEEDLE not in repr(told)
    assert str(repository) in " ".join(look(other).unsearched)
    # They keep it indeed: once they have gone, so has it.
    run(repository, told.commands, secret)
    assert look(repository).found > 0
    for tree in (other, named):
        git(repository, "worktree", "remove", "--force", str(tree))
    run(repository, look(repository).commands, secret)
    assert look(repository).found == 0


def test_a_large_file_of_git_is_told_as_not_searched(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 100)
    (repository / ".git/large").write_text(NEEDLE * 10)
    assert "large" in {Path(name).name for name in look(repository).unsearched}


@pytest.mark.skipif(shutil.which("git-filter-repo") is None, reason="git-filter-repo is not installed")
@pytest.mark.parametrize("plant", [in_message, in_file_name, in_named_file, in_branch_name], ids=lambda p: p.__name__)
def test_with_filter_repo_too(repository: Path, tmp_path: Path, plant: Callable[[Path], None]) -> None:
    plant(repository)
    fresh = tmp_path / "fresh"
    git(tmp_path, "clone", "-q", "--mirror", str(repository), str(fresh / ".git"))
    git(fresh, "config", "core.bare", "false")
    git(fresh, "reset", "-q", "--hard")
    path = tmp_path / "secret"
    path.write_text(f"{NEEDLE}\n")
    run(fresh, look(fresh).commands, path)
    assert look(fresh).places == ()


def test_without_a_repository_there_is_nothing_to_tell(tmp_path: Path) -> None:
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


def test_a_search_that_takes_too_long_says_so(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(repository, "more than a pipe takes", "x" * 1_000_000, name="large.md")
    monkeypatch.setattr(module, "TIMEOUT_S", 0.1)
    assert git_traces(repository, Slow()).degradation
