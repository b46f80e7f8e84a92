"""References to a memory whose file somebody renamed, also where its last name changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import OpenMemory
from tests.samples import write_memory

from scrimshaw.engine import Engine
from scrimshaw.engine.index import rebuild, scan
from scrimshaw.engine.links import explain_drift, link
from scrimshaw.engine.read import get
from scrimshaw.engine.write import NewText, delete, save, update
from scrimshaw.errors import NotFound
from scrimshaw.models import Relation

TEXT = (
    "# Walrus\n\n"
    + " ".join(f"Sentence {number} tells how the walrus index is rebuilt." for number in range(20))
    + "\n"
)


@pytest.fixture
def linked(engine: Engine, vault: Path) -> Engine:
    """A memory that others name in a text, in front matter, in the links file, and by its last name alone."""
    write_memory(vault, "topic/old", TEXT)
    write_memory(vault, "text", "See `mem:topic/old`.\n")
    write_memory(vault, "short", "See [[old]].\n")
    write_memory(vault, "cause", "It came to this.\n", "relations: {caused: [topic/old]}")
    scan(engine)
    return engine


def move(vault: Path, old: str, new: str, change: Callable[[str], str] = str) -> None:
    """Rename a memory's file as `git mv` does, and edit it before anybody looks."""
    (vault / new).parent.mkdir(exist_ok=True)
    (vault / f"{old}.md").rename(vault / f"{new}.md")
    (vault / f"{new}.md").write_text(change((vault / f"{new}.md").read_text()))


def meanings(engine: Engine) -> dict[str, str]:
    """What the reference of each memory means."""
    return {edge.source: meant for edge, meant in engine.index.edges() if edge.source in ("text", "short", "cause")}


def everywhere(name: str) -> dict[str, str]:
    return dict.fromkeys(("text", "short", "cause"), name)


@pytest.mark.parametrize(
    "change",
    [str, lambda text: text.replace("Walrus", "Seal"), lambda text: f"{text}\nOne thing more was found.\n"],
    ids=["as it was", "its title changed", "its text grew"],
)
@pytest.mark.parametrize("new", ["topic/new", "elsewhere/old", "new"])
def test_references_follow_a_renamed_file(linked: Engine, vault: Path, new: str, change: Callable[[str], str]) -> None:
    assert meanings(linked) == everywhere("topic/old")
    move(vault, "topic/old", new, change)
    scan(linked)
    assert meanings(linked) == everywhere(new)
    assert get(linked, "topic/old").memory.id == new
    assert [step.source for step in explain_drift(linked, new, direction="incoming").chain["caused"]] == ["cause"]
    assert {step.place for step in linked.index.neighbors([new], hops=1, direction="incoming")} == {*everywhere(new)}
    (out,) = linked.index.neighbors(["text"], hops=1, direction="outgoing")
    assert out.target == new
    rebuild(linked)
    assert meanings(linked) == everywhere(new)


def test_a_change_under_the_old_name_is_one_of_the_new(linked: Engine, vault: Path) -> None:
    move(vault, "topic/old", "topic/new")
    scan(linked)
    assert update(linked, "topic/old", {"title": "Another"}).id == "topic/new"
    assert link(linked, "cause", "topic/old", Relation.SUPPORTS).target == "topic/new"


def test_a_delete_under_the_old_name_is_refused_with_the_new_one(linked: Engine, vault: Path) -> None:
    move(vault, "topic/old", "topic/new")
    scan(linked)
    with pytest.raises(NotFound) as refused:
        delete(linked, ["topic/old"])
    assert refused.value.hint == "Its id is 'topic/new'."
    assert (vault / "topic/new.md").exists()


def test_references_follow_one_rename_after_another(linked: Engine, vault: Path) -> None:
    for old, new in (("topic/old", "topic/second"), ("topic/second", "third")):
        move(vault, old, new, lambda text: f"{text}\nMoved.\n")
        scan(linked)
    assert meanings(linked) == everywhere("third")


def test_a_memory_that_takes_an_old_name_is_what_the_name_means(linked: Engine, vault: Path) -> None:
    move(vault, "topic/old", "new")
    scan(linked)
    write_memory(vault, "topic/old", "Something else.\n")
    scan(linked)
    assert meanings(linked) == everywhere("topic/old")


def test_a_reference_by_last_name_means_whatever_has_that_name_before_and_after_a_rebuild(
    linked: Engine, vault: Path
) -> None:
    move(vault, "topic/old", "new")
    scan(linked)
    write_memory(vault, "other/old", "Something else.\n")
    scan(linked)
    expected = {"text": "new", "cause": "new", "short": "other/old"}
    assert meanings(linked) == expected
    rebuild(linked)
    assert meanings(linked) == expected


def test_a_file_that_says_something_else_is_no_renamed_one(linked: Engine, vault: Path) -> None:
    (vault / "topic/old.md").unlink()
    write_memory(vault, "topic/new", "# Gulls\n\nThe gulls came back in March, two weeks early.\n")
    scan(linked)
    assert meanings(linked) == everywhere("")


def test_of_two_files_that_are_alike_each_follows_its_nearest(linked: Engine, vault: Path) -> None:
    write_memory(vault, "twin", TEXT.replace("Sentence 3", "Paragraph 3"))
    write_memory(vault, "both", "See `mem:twin`.\n")
    scan(linked)
    move(vault, "topic/old", "b", lambda text: f"{text}\nMore of the first.\n")
    move(vault, "twin", "a", lambda text: f"{text}\nMore of the second.\n")
    scan(linked)
    assert meanings(linked) == everywhere("b")
    assert get(linked, "twin").memory.id == "a"


def test_a_text_saved_later_may_name_the_old_name(linked: Engine, vault: Path) -> None:
    move(vault, "topic/old", "new")
    scan(linked)
    save(linked, NewText(content="Later, see `mem:topic/old`.\n", id="later"))
    assert [meant for _, meant in linked.index.edges("later")] == ["new"]


def test_the_links_file_follows_too(project: Path, vault: Path, open_memory: OpenMemory) -> None:
    (project / "docs").mkdir()
    (project / "docs/guide.md").write_text("# Guide\n")
    write_memory(vault, "old", TEXT)
    engine = open_memory()
    scan(engine)
    link(engine, "docs/guide", "old", Relation.SUPPORTS)
    move(vault, "old", "new", lambda text: f"{text}\nMoved.\n")
    scan(engine)
    assert [meant for _, meant in engine.index.edges("docs/guide")] == ["new"]
