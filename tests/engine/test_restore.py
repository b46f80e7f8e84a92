"""What a restore never does: overwrite what nothing keeps, bring back what was purged, or follow another's marker."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import OpenMemory
from tests.samples import SECRET, write_memory

from scrimshaw.engine import Engine, checkpoints, write
from scrimshaw.engine import purge as purging
from scrimshaw.engine.checkpoints import backup, create, list_checkpoints, path_of
from scrimshaw.engine.history import undo
from scrimshaw.engine.index import scan
from scrimshaw.engine.purge import target_secret
from scrimshaw.engine.restore import restore
from scrimshaw.errors import Conflict, StorageFailure
from scrimshaw.storage import transaction

# Nothing that the redaction gate knows.
NEEDLE = "zanzibar-walrus-77-keel"


def save(engine: Engine, memory_id: str, text: str) -> None:
    write.save(engine, write.NewText(content=text, id=memory_id), force=True)


def update(engine: Engine, memory_id: str, text: str) -> None:
    write.update(engine, memory_id, {}, content=text)


def purge(engine: Engine, text: str = NEEDLE) -> None:
    scope = [(engine, target_secret(text))]
    purging.purge(scope, purging.find_traces(scope))


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def home(project: Path) -> Path:
    return project / ".scrimshaw"


@pytest.fixture
def notes(open_memory: OpenMemory, vault: Path) -> Engine:
    """A memory in a folder of its own, written by hand, and one of an agent."""
    write_memory(vault, "n/m1", "Harpoons are kept dry.\n")
    engine = open_memory()
    scan(engine)
    save(engine, "rope", "Ropes are coiled clockwise.")
    return engine


# A marker that came with a repository


@pytest.mark.parametrize("marker", ["", "{", "[]", "elsewhere", "climbing"])
def test_a_marker_of_another_is_refused_once(open_memory: OpenMemory, home: Path, tmp_path: Path, marker: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("x")
    move = {"path": str(tmp_path / "none"), "root": str(tmp_path), "new": str(victim), "new_hash": "", "old": ""}
    climbing = {**move, "path": "../../victim", "root": ".", "new": "", "old_hash": ""}
    moves = {"elsewhere": [move], "climbing": [climbing]}.get(marker)
    text = json.dumps({"mark": "x", "moves": moves}) if moves else marker
    (home / transaction.MARKER).write_text(text)
    with pytest.raises(StorageFailure, match="was not written by this memory"):
        open_memory()
    assert victim.read_text() == "x"
    assert [path.read_text() for path in home.glob("swap.json.refused-*")] == [text]
    open_memory()


# What is in the way


def a_file_for_a_folder(vault: Path) -> Path:
    shutil.rmtree(vault / "n")
    (vault / "n").write_text("mine")
    return vault / "n"


def a_folder_for_a_file(vault: Path) -> Path:
    (vault / "rope.md").unlink()
    (vault / "rope.md").mkdir()
    (vault / "rope.md/mine").write_text("mine")
    return vault / "rope.md"


@pytest.mark.parametrize("obstruct", [a_file_for_a_folder, a_folder_for_a_file])
def test_what_stands_in_the_way_is_named_and_nothing_changes(
    notes: Engine, vault: Path, home: Path, obstruct: Callable[[Path], Path]
) -> None:
    create(notes, "base")
    blocked = obstruct(vault)
    scan(notes)
    before = tree(vault)
    with pytest.raises((Conflict, StorageFailure)) as refused:
        restore(notes, path_of(notes, "base"))
    assert refused.value.details["path"].startswith(str(blocked))
    assert tree(vault) == before
    assert not transaction.is_interrupted(home)
    save(notes, "after", "Sails are patched in winter.")


# What a person types meanwhile


@pytest.mark.parametrize("name", ["rope", "gone"])
def test_an_edit_between_the_plan_and_the_change_is_kept(
    notes: Engine, vault: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    save(notes, "gone", "Anchors are painted black.")
    create(notes, "base")
    update(notes, "rope", "Ropes are coiled anticlockwise.")
    write.delete(notes, ["gone"])
    before = tree(vault)
    take = checkpoints.take

    def typed(*given: object, **named: object) -> object:
        made = take(*given, **named)  # type: ignore[arg-type]  # handed on
        (vault / f"{name}.md").write_text("Typed in the window.")
        return made

    monkeypatch.setattr(checkpoints, "take", typed)
    with pytest.raises(Conflict, match=rf"{name}\.md"):
        restore(notes, path_of(notes, "base"), clear_existing=True)
    assert tree(vault) == {**before, f"{name}.md": b"Typed in the window."}


def test_a_file_too_large_to_be_a_memory_is_not_overwritten(open_memory: OpenMemory, vault: Path) -> None:
    write_memory(vault, "log", "Short.\n")
    engine = open_memory("[index]\nmax_file_bytes = 1024\n")
    create(engine, "base")
    write_memory(vault, "log", "Whales. " * 1000)
    with pytest.raises(Conflict, match=r"log\.md is in the way"):
        restore(engine, path_of(engine, "base"))
    assert (vault / "log.md").read_text() == "Whales. " * 1000


# What no checkpoint can keep


@pytest.mark.parametrize("name", ["latin", "rope"])
def test_a_file_that_is_no_utf_8_is_never_removed(notes: Engine, vault: Path, name: str) -> None:
    create(notes, "base")
    (vault / f"{name}.md").write_bytes("Bärenfang".encode("latin-1"))
    before = tree(vault)
    for dry_run in (True, False):
        with pytest.raises(Conflict, match=rf"Not UTF-8.*memories/{name}\.md"):
            restore(notes, path_of(notes, "base"), clear_existing=True, overwrite_edits=True, dry_run=dry_run)
    assert tree(vault) == before
    (vault / f"{name}.md").unlink()
    restore(notes, path_of(notes, "base"), clear_existing=True)


# What was purged


@pytest.mark.parametrize("later", ["present", "updated", "deleted", "made anew"])
@pytest.mark.parametrize("kept", ["text", "older text"])
def test_a_purged_secret_stays_away_whatever_came_later(
    notes: Engine, vault: Path, tmp_path: Path, later: str, kept: str
) -> None:
    save(notes, "key", f"The key is {NEEDLE}.")
    backup(notes, tmp_path / "old.scrim")
    if kept == "older text":
        update(notes, "key", f"The key was {NEEDLE} until Monday.")
    purge(notes)
    if later == "updated":
        update(notes, "key", "The key is not told.")
    if later in ("deleted", "made anew"):
        write.delete(notes, ["key"])
    if later == "made anew":
        save(notes, "key", "The key is with the harbour master.")
    before = tree(vault)
    back = restore(notes, tmp_path / "old.scrim", clear_existing=True)
    assert tree(vault) == before
    assert back.purged == ("memories/key.md",)
    assert back.is_purged_since


def test_a_text_that_was_replaced_before_its_purge_stays_away(notes: Engine, vault: Path, tmp_path: Path) -> None:
    save(notes, "key", f"# Of keys\n\nThe key is {NEEDLE}.")
    backup(notes, tmp_path / "old.scrim")
    update(notes, "key", "# Of keys\n\nThe key is not told.")
    purge(notes)
    assert [row["action"] for row in notes.journal.history("key")] == ["update", "create"]
    back = restore(notes, tmp_path / "old.scrim", clear_existing=True)
    assert back.purged == ("memories/key.md",)
    assert NEEDLE not in (vault / "key.md").read_text()


def test_a_purged_text_of_a_version_that_nobody_recorded_stays_away(notes: Engine, vault: Path, tmp_path: Path) -> None:
    write_memory(vault, "key", f"The key is {NEEDLE}.\n")
    scan(notes)
    backup(notes, tmp_path / "old.scrim")
    write_memory(vault, "key", f"The key was {NEEDLE}.\n")
    scan(notes)
    purge(notes)
    assert restore(notes, tmp_path / "old.scrim", clear_existing=True).purged == ("memories/key.md",)
    assert NEEDLE not in (vault / "key.md").read_text()


@pytest.mark.parametrize("what", ["text", "memory"])
def test_a_backup_laid_among_the_checkpoints_brings_nothing_purged_back(
    notes: Engine, vault: Path, tmp_path: Path, what: str
) -> None:
    write_memory(vault, "key", f"The key is {NEEDLE}.\n")
    scan(notes)
    backup(notes, tmp_path / "old.scrim")
    if what == "text":
        purge(notes)
        write.delete(notes, ["key"])
    else:
        write_memory(vault, "key", "The key is with the harbour master.\n")
        scan(notes)
        write.delete(notes, ["key"], purge=True)
    path_of(notes, "old").parent.mkdir(exist_ok=True)
    shutil.copy(tmp_path / "old.scrim", path_of(notes, "old"))
    assert restore(notes, path_of(notes, "old")).purged == ("memories/key.md",)
    assert not (vault / "key.md").exists()


def test_a_purged_memory_stays_away_though_it_was_made_anew(notes: Engine, vault: Path, tmp_path: Path) -> None:
    backup(notes, tmp_path / "old.scrim")
    write.delete(notes, ["rope"], purge=True)
    save(notes, "rope", "Chains are better than ropes.")
    create(notes, "anew")
    update(notes, "rope", "Chains are worse than ropes.")
    back = restore(notes, tmp_path / "old.scrim", clear_existing=True)
    assert back.purged == ("memories/rope.md",)
    assert "Chains are worse" in (vault / "rope.md").read_text()
    back = restore(notes, path_of(notes, "anew"), clear_existing=True)
    assert (back.purged, back.is_purged_since) == ((), False)
    assert "Chains are better" in (vault / "rope.md").read_text()


def test_a_checkpoint_that_a_purge_cleaned_brings_the_clean_text_back(notes: Engine, vault: Path) -> None:
    save(notes, "key", f"The key is {NEEDLE}.")
    create(notes, "base")
    purge(notes)
    clean = (vault / "key.md").read_bytes()
    write.delete(notes, ["key"])
    back = restore(notes, path_of(notes, "base"))
    assert (back.purged, back.is_purged_since) == ((), False)
    assert (vault / "key.md").read_bytes() == clean


# What a killed process leaves

# What counts as an edit by hand


def edits(engine: Engine) -> tuple[str, ...]:
    return restore(engine, path_of(engine, "base"), clear_existing=True, dry_run=True).edits


def test_an_edit_that_went_into_a_later_change_is_guarded(notes: Engine, vault: Path) -> None:
    create(notes, "base")
    write_memory(vault, "rope", "An hour of work.\n")
    scan(notes)
    update(notes, "rope", "An hour of work. And a word.")
    update(notes, "rope", "An hour of work. And two words.")
    assert edits(notes) == ("memories/rope.md",)
    undo(notes, entry=notes.journal.history("rope", 1)[0]["seq"])
    assert edits(notes) == ("memories/rope.md",)


def test_a_checkpoint_as_advised_keeps_what_a_restore_would_replace(notes: Engine, vault: Path) -> None:
    create(notes, "base")
    write_memory(vault, "rope", "An hour of work.\n")
    scan(notes)
    with pytest.raises(Conflict, match="Make a checkpoint first"):
        restore(notes, path_of(notes, "base"), clear_existing=True)
    create(notes, "mine")
    assert edits(notes) == ()
    update(notes, "rope", "Said by an agent.")
    assert edits(notes) == ()
    restore(notes, path_of(notes, "base"), clear_existing=True)
    assert "clockwise" in (vault / "rope.md").read_text()
    restore(notes, path_of(notes, "mine"), clear_existing=True)
    assert "An hour of work." in (vault / "rope.md").read_text()
    checkpoints.delete(notes, "mine", "mine")
    for each in list_checkpoints(notes, 20):
        if each.name != "base":
            Path(each.path).unlink()
    assert edits(notes) == ("memories/rope.md",)


def test_an_edit_that_was_deleted_is_guarded_no_more(notes: Engine, vault: Path) -> None:
    create(notes, "base")
    write_memory(vault, "rope", "An hour of work.\n")
    scan(notes)
    write.delete(notes, ["rope"])
    save(notes, "rope", "Said by an agent.")
    assert edits(notes) == ()


# What the report says


def test_a_file_that_comes_back_redacted_is_named(notes: Engine, vault: Path) -> None:
    write_memory(vault, "token", f"The token is {SECRET}.\n")
    scan(notes)
    create(notes, "base")
    write.delete(notes, ["token", "rope"])
    back = restore(notes, path_of(notes, "base"))
    assert back.written == ("memories/rope.md", "memories/token.md")
    assert back.redacted == ("memories/token.md",)
    assert SECRET not in (vault / "token.md").read_text()


def test_an_edit_of_what_came_back_can_be_undone(notes: Engine, vault: Path) -> None:
    write_memory(vault, "key", f"The key is {SECRET}.\n")
    made = create(notes, "one")
    (vault / "key.md").unlink()
    scan(notes)
    assert restore(notes, Path(made.path)).redacted == ("memories/key.md",)
    came_back = (vault / "key.md").read_bytes()
    (vault / "key.md").write_text("By hand, over all of it.\n")
    scan(notes)
    (edit,) = notes.journal.history("key", 1)
    assert undo(notes, entry=edit["seq"]).undone == 1
    assert (vault / "key.md").read_bytes() == came_back
