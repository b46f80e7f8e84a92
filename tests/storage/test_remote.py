"""What was committed here and there comes together by real git, beside the work tree, and nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.git_folders import IDENTITY, run_git, write_gate

from scrimshaw.app.http.commits import DRIVER
from scrimshaw.errors import ConfigError, StorageFailure
from scrimshaw.storage.git import commit_files
from scrimshaw.storage.remote import Remote

MEMORIES = ".scrimshaw/memories"
GATE = write_gate("The gate is oak.")


def git(folder: Path, *arguments: str) -> str:
    return run_git(folder, *IDENTITY, *arguments)


class Side:
    """A clone, and what happens in it."""

    def __init__(self, clone: Path, *, is_reviewed: bool = False) -> None:
        self.clone = clone
        self.remote = Remote(clone, str(clone.parent / "shared.git"), DRIVER, is_reviewed)

    def write(self, name: str, text: str) -> Path:
        path = self.clone / MEMORIES / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def edit(self, *replacements: tuple[str, str]) -> None:
        text = self.read("gate")
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new)
        self.write("gate", text)

    def read(self, name: str) -> str:
        return (self.clone / MEMORIES / f"{name}.md").read_text()

    def commit(self, name: str = "gate", author: str = "ana@example.org") -> str:
        """Commit a file as a server does."""
        commit_files(self.clone, [str(self.clone / MEMORIES / f"{name}.md")], author, f"memory_save: {name}")
        return git(self.clone, "rev-parse", "HEAD")

    def push(self) -> None:
        git(self.clone, "add", "--all")
        git(self.clone, "commit", "-qm", "By hand")
        git(self.clone, "push", "-q", "origin", "HEAD:main")

    def show(self, revision: str, name: str = "gate") -> str:
        return git(self.clone.parent / "shared.git", "show", f"{revision}:{MEMORIES}/{name}.md")


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Side, Side]:
    """A server's clone and a person's, of one bare repository."""
    git(tmp_path, "init", "-q", "--bare", "-b", "main", "shared.git")
    for name in ("server", "person"):
        git(tmp_path, "clone", "-q", "shared.git", name)
        if name == "server":
            git(tmp_path / name, "checkout", "-q", "-b", "main")
            Side(tmp_path / name).write("gate", GATE)
            Side(tmp_path / name).push()
    return Side(tmp_path / "server"), Side(tmp_path / "person")


def review(side: Side) -> Side:
    """The same clone, whose changes are for review."""
    return Side(side.clone, is_reviewed=True)


def test_what_is_only_there_comes_here_and_what_is_only_here_goes_there(sides: tuple[Side, Side]) -> None:
    server, person = sides
    server.remote.fetch()
    server.write("quay", "The quay is dry.\n")
    commit = server.commit("quay")
    assert server.remote.rebase() == {}
    assert server.remote.push({"refs/heads/main": commit}) == {}
    assert server.show("main", "quay") == "The quay is dry."
    git(person.clone, "pull", "-q", "origin", "main")
    person.write("pier", "The pier is new.\n")
    person.push()
    server.remote.fetch()
    server.remote.rebase()
    assert server.read("pier") == "The pier is new.\n"
    assert git(server.clone, "status", "--porcelain") == ""


def test_both_sides_of_a_memory_are_merged_by_keys_and_lines(sides: tuple[Side, Side]) -> None:
    server, person = sides
    person.edit(("[tide]", "[tide, oak]"), ("2026-01-01", "2026-01-02"), ("oak.", "oak and iron."))
    person.push()
    server.edit(("[tide]", "[tide, keeper]"), ("2026-01-01", "2026-01-03"), ("beside it", "in the tower"))
    commit = server.commit()
    server.remote.fetch()
    assert server.remote.push({"refs/heads/main": commit}) == {"refs/heads/main": "[rejected] (non-fast-forward)"}
    assert server.remote.rebase() == {}
    head = git(server.clone, "rev-parse", "HEAD")
    assert server.remote.push({"refs/heads/main": head}) == {}
    merged = server.show("main")
    for part in ("oak and iron.", "in the tower", "updated: 2026-01-03"):
        assert part in merged
    assert {"tide", "oak", "keeper"} == set(merged.partition("[")[2].partition("]")[0].split(", "))
    assert git(server.clone, "log", "-1", "--format=%an <%ae> %cn %s") == (
        "ana@example.org <ana@example.org> Scrimshaw memory_save: gate"
    )
    assert git(server.clone, "log", "--merges", "--format=%h") == ""


def test_a_conflict_stands_aside_and_the_rest_goes_on(sides: tuple[Side, Side]) -> None:
    server, person = sides
    person.edit(("oak.", "bronze."))
    person.push()
    server.edit(("oak.", "steel."))
    conflict = server.commit()
    server.write("quay", "The quay is dry.\n")
    server.commit("quay", "bo")
    server.remote.fetch()
    branch = f"refs/heads/scrimshaw/conflict-{conflict[:12]}"
    assert server.remote.rebase() == {conflict: branch}
    assert "bronze" in server.read("gate")
    assert server.read("quay") == "The quay is dry.\n"
    assert server.remote.push(server.remote.list_refs("refs/heads/")) == {}
    assert "steel" in server.show(branch)
    assert server.show("main", "quay") == "The quay is dry."
    mirrors = server.remote.list_refs("refs/remotes/scrimshaw/scrimshaw/")
    assert [*mirrors.values()] == [conflict]
    git(person.clone, "push", "-q", "origin", f":{branch}")
    server.remote.fetch()
    assert server.remote.list_refs("refs/remotes/scrimshaw/scrimshaw/") == {}


def test_what_was_taken_out_of_the_remotes_history_is_not_brought_back(sides: tuple[Side, Side]) -> None:
    server, person = sides
    person.write("secret", "The key is under the mat.\n")
    person.push()
    server.remote.fetch()
    server.remote.rebase()
    server.write("quay", "The quay is dry.\n")
    server.commit("quay")
    git(person.clone, "reset", "-q", "--hard", "HEAD^")
    person.write("pier", "The pier is new.\n")
    git(person.clone, "add", "--all")
    git(person.clone, "commit", "-qm", "Without the secret")
    git(person.clone, "push", "-q", "--force", "origin", "HEAD:main")
    server.remote.fetch()
    assert server.remote.rebase() == {}
    assert server.read("quay") == "The quay is dry.\n"
    assert server.read("pier") == "The pier is new.\n"
    assert git(server.clone, "log", "--format=%s", "-1", "--skip=1") == "Without the secret"
    assert not (server.clone / MEMORIES / "secret.md").exists()


@pytest.mark.parametrize("is_tracked", [True, False])
def test_a_file_that_somebody_changed_is_not_replaced(sides: tuple[Side, Side], is_tracked: bool) -> None:
    server, person = sides
    name = "gate" if is_tracked else "pier"
    person.write(name, "There.\n")
    person.push()
    server.write(name, "Here, and not committed.\n")
    server.remote.fetch()
    before = git(server.clone, "rev-parse", "HEAD")
    with pytest.raises(StorageFailure, match=rf"{name}\.md"):
        server.remote.rebase()
    assert server.read(name) == "Here, and not committed.\n"
    assert git(server.clone, "rev-parse", "HEAD") == before


def test_a_file_that_git_ignores_is_not_replaced(sides: tuple[Side, Side]) -> None:
    server, person = sides
    person.write("own", "There.\n")
    person.push()
    (server.clone / ".git/info/exclude").write_text("own.md\n")
    server.write("own", "Here.\n")
    server.remote.fetch()
    with pytest.raises(StorageFailure, match=r"own\.md"):
        server.remote.rebase()
    assert server.read("own") == "Here.\n"


def test_other_changes_in_the_work_tree_stay_while_it_moves(sides: tuple[Side, Side]) -> None:
    server, person = sides
    person.write("pier", "The pier is new.\n")
    person.push()
    server.edit(("oak.", "elm."))
    server.write("draft", "In the midst of this.\n")
    server.remote.fetch()
    server.remote.rebase()
    assert "elm." in server.read("gate")
    assert server.read("draft") == "In the midst of this.\n"
    assert server.read("pier") == "The pier is new.\n"


def test_a_change_for_review_is_on_a_branch_and_not_here(sides: tuple[Side, Side]) -> None:
    server, _ = sides
    server = review(server)
    server.remote.fetch()
    server.write("quay", "The quay is dry.\n")
    first = server.commit("quay")
    branch = "refs/heads/scrimshaw/ana-example-org"
    assert server.remote.rebase() == {first: branch}
    server.edit(("oak.", "elm."))
    second = server.commit()
    assert server.remote.rebase() == {second: branch}
    assert "oak." in server.read("gate")
    assert not (server.clone / MEMORIES / "quay.md").exists()
    assert git(server.clone, "rev-parse", "HEAD") == server.remote.base
    assert server.remote.push(server.remote.list_refs("refs/heads/scrimshaw/")) == {}
    assert "elm." in server.show(branch)
    assert server.show(branch, "quay") == "The quay is dry."
    assert "oak." in server.show("main")
    assert server.remote.list_refs("refs/heads/scrimshaw/") == {}


def propose_quay(server: Side) -> None:
    """Save a memory at the server, and push it on its branch for review."""
    server.remote.fetch()
    server.write("quay", "The quay is dry.\n")
    server.commit("quay")
    server.remote.rebase()
    server.remote.push(server.remote.list_refs("refs/heads/scrimshaw/"))


@pytest.mark.parametrize("how", ["merge", "squash", "delete"])
def test_after_a_review_the_next_change_begins_anew(sides: tuple[Side, Side], how: str) -> None:
    server, person = sides
    server = review(server)
    propose_quay(server)
    git(person.clone, "fetch", "-q")
    if how == "merge":
        git(person.clone, "merge", "-q", "--no-ff", "-m", "Merge", "origin/scrimshaw/ana-example-org")
        git(person.clone, "push", "-q", "origin", "HEAD:main")
    elif how == "squash":
        git(person.clone, "merge", "-q", "--squash", "origin/scrimshaw/ana-example-org")
        person.push()
    if how != "merge":
        git(person.clone, "push", "-q", "origin", ":scrimshaw/ana-example-org")
    server.remote.fetch()
    server.remote.rebase()
    assert (server.clone / MEMORIES / "quay.md").exists() == (how != "delete")
    server.write("pier", "The pier is new.\n")
    server.commit("pier")
    server.remote.rebase()
    assert server.remote.push(server.remote.list_refs("refs/heads/scrimshaw/")) == {}
    base = git(person.clone.parent / "shared.git", "merge-base", "main", "scrimshaw/ana-example-org")
    assert base == git(person.clone.parent / "shared.git", "rev-parse", "main")


def test_a_branch_for_review_that_somebody_added_to_is_not_forced(sides: tuple[Side, Side]) -> None:
    server, person = sides
    server, branch = review(server), "refs/heads/scrimshaw/ana-example-org"
    propose_quay(server)
    git(person.clone, "fetch", "-q")
    git(person.clone, "switch", "-q", "scrimshaw/ana-example-org")
    person.write("quay", "The quay is wet.\n")
    git(person.clone, "commit", "-qam", "Correct")
    git(person.clone, "push", "-q", "origin", f"HEAD:{branch}")
    server.write("pier", "The pier is new.\n")
    server.commit("pier")
    server.remote.rebase()
    assert server.remote.push(server.remote.list_refs("refs/heads/scrimshaw/"))
    assert server.remote.push(server.remote.list_refs("refs/heads/scrimshaw/")) == {}
    assert server.show(branch, "quay") == "The quay is wet."
    heads = git(person.clone.parent / "shared.git", "for-each-ref", "--format=%(refname)").split()
    (other,) = (each for each in heads if each.startswith(f"{branch}-"))
    assert server.show(other, "pier") == "The pier is new."


def test_what_is_checked_out_is_no_branch_for_review(sides: tuple[Side, Side]) -> None:
    server, _ = sides
    git(server.clone, "switch", "-q", "-c", "scrimshaw/mine")
    with pytest.raises(ConfigError, match="for review"):
        server.remote.fetch()


def test_a_clone_is_whole_or_not_there(sides: tuple[Side, Side], tmp_path: Path) -> None:
    server, _ = sides
    folder = tmp_path / "below/shop"
    with pytest.raises(StorageFailure):
        server.remote._replace(project=folder, url=str(tmp_path / "nowhere.git")).clone("")
    assert not [*folder.parent.iterdir()]
    server.remote._replace(project=folder).clone("")
    assert (folder / MEMORIES / "gate.md").read_text() == GATE
    assert [*folder.parent.iterdir()] == [folder]


def test_a_link_in_a_clone_leads_nowhere(sides: tuple[Side, Side], tmp_path: Path) -> None:
    server, person = sides
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/key.md").write_text("Secret.\n")
    (person.clone / MEMORIES / "out").symlink_to(tmp_path / "secrets")
    person.push()
    folder = tmp_path / "shop"
    remote = server.remote._replace(project=folder)
    remote.clone("")
    remote.fetch()
    assert remote.rebase() == {}
    assert (folder / MEMORIES / "out").is_file()
    assert git(folder, "status", "--porcelain") == ""
