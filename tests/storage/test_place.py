"""Where the journal of a project lies, in every layout of a repository."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from scrimshaw.storage.place import claim_place, find_place, parse_reflog, place_below_git

WHO = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *WHO, *arguments], cwd=folder, check=True, capture_output=True)


def place(project: Path) -> Path:
    return find_place(project / ".scrimshaw")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with a commit."""
    folder = tmp_path / "repository"
    (folder / "api").mkdir(parents=True)
    (folder / "api/README.md").write_text("read me\n", encoding="utf-8")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "x")
    return folder


def test_without_git_it_is_the_project_s_own_folder(tmp_path: Path) -> None:
    assert place(tmp_path) == tmp_path / ".scrimshaw"
    (tmp_path / ".git").mkdir()  # which git passes over
    assert place(tmp_path) == tmp_path / ".scrimshaw"


def test_each_project_of_each_work_tree_has_its_own(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", str(tmp_path / "main"))
    git(repository, "worktree", "add", "-q", str(tmp_path / "feature"))
    projects = [repository, *(tmp_path / name for name in ("main", "feature"))]
    projects += [project / "api" for project in projects]
    places = [place(project) for project in projects]
    assert len(set(places)) == len(places)
    assert {each.parent for each in places} == {repository / ".git/scrimshaw"}
    assert [each.name.rpartition("-")[0] for each in places] == [
        "main", "main", "feature", "main-api", "main-api", "feature-api"
    ]  # fmt: skip


def test_a_work_tree_that_moves_keeps_its_place(repository: Path, tmp_path: Path) -> None:
    git(repository, "worktree", "add", "-q", str(tmp_path / "feature"))
    before = place(tmp_path / "feature")
    git(repository, "worktree", "move", str(tmp_path / "feature"), str(tmp_path / "moved"))
    assert place(tmp_path / "moved") == before
    names = place(repository).name
    moved = repository.rename(tmp_path / "elsewhere")
    assert place(moved) == moved / ".git/scrimshaw" / names


def test_a_submodule_has_its_place_in_its_own_repository(repository: Path, tmp_path: Path) -> None:
    outer = tmp_path / "outer"
    outer.mkdir()
    git(outer, "init", "-q")
    git(outer, "submodule", "--quiet", "add", str(repository), "inner")
    assert place(outer / "inner").parent == outer / ".git/modules/inner/scrimshaw"
    assert place(outer).parent == outer / ".git/scrimshaw"


def test_a_bare_repository_with_work_trees(repository: Path, tmp_path: Path) -> None:
    top = tmp_path / "top"
    git(tmp_path, "clone", "-q", "--bare", str(repository), str(top / ".bare"))
    (top / ".git").write_text("gitdir: ./.bare\n", encoding="utf-8")
    git(top, "worktree", "add", "-q", "tree", "-b", "tree")
    places = [place(top), place(top / "tree"), place(top / "tree/api")]
    assert len(set(places)) == 3
    assert {each.parent for each in places} == {top / ".bare/scrimshaw"}


def test_a_link_to_a_project_leads_to_its_place(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(repository / "api", target_is_directory=True)
    assert place(tmp_path / "link") == place(repository / "api")


@pytest.mark.parametrize("text", ["gitdir: /nowhere/at/all\n", "nonsense", "", "gitdir: \0\n"])
def test_a_work_tree_without_its_repository_has_it_in_its_own_folder(repository: Path, text: str) -> None:
    (repository / "api/.git").write_text(text, encoding="utf-8")
    assert place(repository / "api") == repository / "api/.scrimshaw"


@pytest.mark.skipif(os.name == "nt" or not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write it")
def test_where_git_s_folder_cannot_be_written_it_is_the_project_s(repository: Path) -> None:
    (repository / ".git").chmod(0o555)
    try:
        assert place(repository) == repository / ".scrimshaw"
    finally:
        (repository / ".git").chmod(0o755)


def test_names_are_portable(repository: Path) -> None:
    folder = repository / ("ü" * 100 + " : *")
    folder.mkdir()
    assert len(place(folder).name) <= 50
    assert place(folder).name.isascii()


def test_a_copy_of_a_work_tree_has_no_place_while_the_first_is_there(repository: Path, tmp_path: Path) -> None:
    first, copy = tmp_path / "first", tmp_path / "copy"
    git(repository, "worktree", "add", "-q", str(first))
    (first / ".scrimshaw").mkdir()
    before = place(first)
    claim_place(before, first / ".scrimshaw")
    subprocess.run(["cp", "-a", str(first), str(copy)], check=True)
    assert place(copy) == copy / ".scrimshaw"
    assert place(first) == before
    first.rename(tmp_path / "aside")
    assert place(copy) == before
    claim_place(before, copy / ".scrimshaw")
    assert place(copy) == before
    assert place(tmp_path / "aside") == tmp_path / "aside/.scrimshaw"


def test_a_copied_repository_has_its_own(repository: Path, tmp_path: Path) -> None:
    claim_place(place(repository), repository / ".scrimshaw")
    subprocess.run(["cp", "-a", str(repository), str(tmp_path / "copy")], check=True)
    assert place(tmp_path / "copy").parent == tmp_path / "copy/.git/scrimshaw"


def test_a_linked_scrimshaw_folder_is_that_of_its_project(repository: Path, tmp_path: Path) -> None:
    (repository / ".scrimshaw").mkdir()
    git(repository, "worktree", "add", "-q", str(tmp_path / "feature"))
    (tmp_path / "feature/.scrimshaw").symlink_to(repository / ".scrimshaw")
    assert place(tmp_path / "feature") == place(repository)
    (tmp_path / "feature/.scrimshaw").unlink()
    (tmp_path / "notes").mkdir()
    (tmp_path / "feature/.scrimshaw").symlink_to(tmp_path / "notes")
    assert place_below_git(tmp_path / "feature/.scrimshaw") is None


def test_the_environment_of_a_git_hook_changes_nothing(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = place(repository / "api")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    assert place(repository / "api") == before


def test_an_odd_line_of_the_reflog_hides_no_other(repository: Path) -> None:
    git(repository, "checkout", "-qb", "feature")
    git(repository, "commit", "-q", "--allow-empty", "-m", "one\u2028two")
    log = repository / ".git/logs/HEAD"
    log.write_text(f"{log.read_text(encoding='utf-8')}no line of git\n", encoding="utf-8")
    git(repository, "checkout", "-q", "-")
    assert [what.partition(":")[0] for _, _, _, what in parse_reflog(log, 0)] == [
        "commit (initial)", "checkout", "commit", "checkout"
    ]  # fmt: skip
