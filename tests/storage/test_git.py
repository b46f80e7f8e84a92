"""What git remembers of deleted files, asked of real repositories."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scrimshaw.errors import StorageFailure
from scrimshaw.storage import git as asking
from scrimshaw.storage.git import (
    Commit,
    CommitDates,
    list_deleted_notes,
    list_visible_files,
    read_before,
    work_tree,
)


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def commit(folder: Path, message: str) -> str:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", message)
    return git(folder, "rev-parse", "HEAD").strip()


def found(folder: Path) -> list[Commit]:
    return list_deleted_notes(folder)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with three notes and a program."""
    folder = tmp_path / "project"
    (folder / "docs").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    for name in ("one.md", "docs/two words.md", "docs/drei ü.md", "code.py"):
        (folder / name).write_text(f"# {name}\n\nWhat was decided about {name}.\n", encoding="utf-8")
    commit(folder, "all")
    return folder


def test_a_listing_without_deletions_is_empty(repository: Path) -> None:
    assert found(repository) == []


def test_deleted_files_come_newest_first_with_their_text(repository: Path) -> None:
    (repository / "one.md").unlink()
    (repository / "code.py").unlink()
    first = commit(repository, "one")
    (repository / "docs/two words.md").unlink()
    (repository / "docs/drei ü.md").unlink()
    second = commit(repository, "two and three")
    names = [(each.path, each.commit) for each in found(repository)]
    assert sorted(names[:2]) == [("docs/drei ü.md", second), ("docs/two words.md", second)]
    assert names[2:] == [("one.md", first)]
    assert read_before(repository, first, "one.md") == "# one.md\n\nWhat was decided about one.md.\n"
    assert found(repository)[2].at.startswith("20")


def test_a_file_that_was_renamed_or_came_back_is_not_deleted(repository: Path) -> None:
    (repository / "one.md").rename(repository / "uno.md")
    commit(repository, "renamed")
    (repository / "docs/two words.md").unlink()
    commit(repository, "deleted")
    (repository / "docs/two words.md").write_text("again")
    assert found(repository) == []


def test_a_file_that_was_deleted_twice_is_told_with_the_last_time(repository: Path) -> None:
    for text in ("first", "second"):
        (repository / "one.md").write_text(text)
        commit(repository, f"{text} text")
        (repository / "one.md").unlink()
        last = commit(repository, f"{text} end")
    (deleted,) = found(repository)
    assert deleted.commit == last
    assert read_before(repository, last, "one.md") == "second"


def test_without_a_repository_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(StorageFailure, match="not a git repository"):
        found(tmp_path)


def test_without_git_it_says_so(repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StorageFailure, match="git could not be asked"):
        found(repository)


def test_a_git_that_does_not_answer_is_given_up(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "TIMEOUT_S", 1e-9)
    with pytest.raises(StorageFailure, match="timed out"):
        found(repository)


def test_a_commit_that_git_does_not_know_has_no_text(repository: Path) -> None:
    with pytest.raises(StorageFailure, match="git could not be asked"):
        read_before(repository, "0" * 40, "one.md")


def test_a_project_below_the_top_of_its_repository_finds_its_own(repository: Path) -> None:
    (repository / "docs/two words.md").unlink()
    (repository / "one.md").unlink()
    last = commit(repository, "less")
    (deleted,) = found(repository / "docs")
    assert (deleted.path, deleted.commit) == ("two words.md", last)
    text = read_before(repository / "docs", deleted.commit, deleted.path)
    assert text == "# docs/two words.md\n\nWhat was decided about docs/two words.md.\n"


# Dates


def test_files_are_dated_by_their_first_and_last_commits_under_earlier_names_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(f"line {number}\n" for number in range(20))
    project = tmp_path / "shop"
    project.mkdir()
    git(tmp_path, "init", "-q")
    for day, (name, content) in enumerate((("a", text), ("a", text + "more\n"), ("c", "c\n")), start=1):
        (project / f"{name}.md").write_text(content)
        monkeypatch.setenv("GIT_AUTHOR_DATE", f"2026-01-0{day}T10:00:00+02:00")
        commit(tmp_path, name)
    git(project, "mv", "a.md", "b.md")
    monkeypatch.setenv("GIT_AUTHOR_DATE", "2026-01-04T10:00:00+02:00")
    commit(tmp_path, "moved")
    (project / "c.md").write_text("changed\n")
    (project / "new.md").write_text("new\n")
    dates = CommitDates(project)
    assert dates.find(str(project / "b.md")) == ("2026-01-01T10:00:00+02:00", "2026-01-04T10:00:00+02:00")
    assert dates.find(str(project / "c.md")) == ("2026-01-03T10:00:00+02:00", "")
    assert dates.find(str(project / "new.md")) == ("", "")
    assert dates.find(str(tmp_path / "elsewhere.md")) == ("", "")


def test_without_git_no_file_has_dates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.md").write_text("a")
    assert CommitDates(tmp_path).find(str(tmp_path / "a.md")) == ("", "")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "a.md")
    assert CommitDates(tmp_path).find(str(tmp_path / "a.md")) == ("", "")
    monkeypatch.setenv("PATH", "")
    assert CommitDates(tmp_path).find(str(tmp_path / "a.md")) == ("", "")


def test_a_repository_of_another_account_is_named_and_its_ignored_files_stay_unread(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / ".gitignore").write_text("private/\n")
    (repository / ".git/info/exclude").write_text("docs/own.md\n")
    (repository / "private").mkdir()
    for name in ("private/secret.md", "docs/own.md", "docs/new.md"):
        (repository / name).write_text("# Note\n")
    ran = repository.parent / "ran"
    git(repository, "config", "core.fsmonitor", f"touch {ran}; false")  # the settings of a stranger run nothing
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    visible = ["docs/drei ü.md", "docs/new.md", "docs/two words.md", "one.md"]
    assert list_visible_files(repository, [".md"], [""]) == visible
    assert list_visible_files(repository / "docs", [".md"], [""]) == [name[5:] for name in visible[:3]]
    assert not ran.exists()
    with pytest.raises(StorageFailure, match="dubious ownership") as refusal:
        work_tree(repository)
    assert f"git config --global --add safe.directory {repository}" in refusal.value.hint
