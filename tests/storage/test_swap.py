"""Files changed as one: kept when the block ends, taken back when it does not, as often as it takes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from scrimshaw.models import Redacted
from scrimshaw.storage.swap import MARKER, Change, is_interrupted, recover, swapped


def changes(folder: Path) -> list[Change]:
    """One file is replaced, one comes into a new folder, one goes with its folder."""
    (folder / "old").mkdir()
    (folder / "a.md").write_text("a")
    (folder / "old/b.md").write_text("b")
    texts = {"a.md": Redacted(text="new a"), "new/c.md": Redacted(text="c"), "old/b.md": None}
    return [Change(folder / name, folder, text) for name, text in texts.items()]


def tree(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def interrupted(folder: Path, *, agreed: bool) -> bytes:
    """The marker of changes that were kept, or taken back."""
    marker = b""
    with suppress(KeyboardInterrupt), swapped(folder, "m", changes(folder)):
        marker = (folder / MARKER).read_bytes()
        if not agreed:
            raise KeyboardInterrupt
    return marker


BEFORE, AFTER = {"a.md": "a", "old/b.md": "b"}, {"a.md": "new a", "new/c.md": "c"}


def test_all_changes_stand_when_the_block_ends(tmp_path: Path) -> None:
    with swapped(tmp_path, "m", changes(tmp_path)):
        assert is_interrupted(tmp_path)
    assert tree(tmp_path) == AFTER
    assert not (tmp_path / "old").exists()
    assert not is_interrupted(tmp_path)


def test_no_change_stands_when_it_raises(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), swapped(tmp_path, "m", changes(tmp_path)):
        raise KeyboardInterrupt
    assert tree(tmp_path) == BEFORE
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("agreed", [False, True])
def test_a_recovery_that_was_killed_itself_is_done_again(tmp_path: Path, agreed: bool) -> None:
    marker = interrupted(tmp_path, agreed=agreed)
    for _ in range(2):
        (tmp_path / MARKER).write_bytes(marker)
        recover(tmp_path, lambda mark: agreed and mark == "m")
        assert tree(tmp_path) == (AFTER if agreed else BEFORE)


def test_a_file_that_a_person_put_there_meanwhile_is_left(tmp_path: Path) -> None:
    marker = interrupted(tmp_path, agreed=False)
    (tmp_path / "new").mkdir()
    (tmp_path / "new/c.md").write_text("by hand")
    (tmp_path / MARKER).write_bytes(marker)
    recover(tmp_path, lambda _: False)
    assert tree(tmp_path) == {**BEFORE, "new/c.md": "by hand"}


def test_there_is_usually_nothing_to_recover(tmp_path: Path) -> None:
    recover(tmp_path, lambda _: False)
    assert tree(tmp_path) == {}
