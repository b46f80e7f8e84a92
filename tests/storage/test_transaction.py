"""Files changed as one: kept when the block ends, taken back when it does not, as often as it takes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from filelock import FileLock

from scrimshaw.errors import Conflict, StorageFailure, VaultBusy
from scrimshaw.models import Redacted, content_hash
from scrimshaw.storage import transaction
from scrimshaw.storage.transaction import (
    MARKER,
    FileChange,
    atomic_file_changes,
    is_interrupted,
    recover,
)


def changes(folder: Path) -> list[FileChange]:
    """One file is replaced, one comes into a new folder, one goes with its folder."""
    (folder / "old").mkdir()
    (folder / "a.md").write_text("a")
    (folder / "old/b.md").write_text("b")
    texts = {"a.md": Redacted(text="new a"), "new/c.md": Redacted(text="c"), "old/b.md": None}
    before = {name: path.read_bytes() if (path := folder / name).exists() else None for name in texts}
    return [FileChange(folder / name, folder, before[name], text) for name, text in texts.items()]


def tree(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def interrupted(folder: Path, *, agreed: bool) -> bytes:
    """The marker of changes that were kept, or taken back."""
    marker = b""
    with suppress(KeyboardInterrupt), atomic_file_changes(folder, "m", changes(folder)):
        marker = (folder / MARKER).read_bytes()
        if not agreed:
            raise KeyboardInterrupt
    return marker


BEFORE, AFTER = {"a.md": "a", "old/b.md": "b"}, {"a.md": "new a", "new/c.md": "c"}


def test_all_changes_stand_when_the_block_ends(tmp_path: Path) -> None:
    with atomic_file_changes(tmp_path, "m", changes(tmp_path)):
        assert is_interrupted(tmp_path)
    assert tree(tmp_path) == AFTER
    assert not (tmp_path / "old").exists()
    assert not is_interrupted(tmp_path)


def test_no_change_stands_when_it_raises(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), atomic_file_changes(tmp_path, "m", changes(tmp_path)):
        raise KeyboardInterrupt
    assert tree(tmp_path) == BEFORE
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("agreed", [False, True])
def test_a_recovery_that_was_killed_itself_is_done_again(tmp_path: Path, agreed: bool) -> None:
    marker = interrupted(tmp_path, agreed=agreed)
    for _ in range(2):
        (tmp_path / MARKER).write_bytes(marker)
        recover(tmp_path, lambda mark: agreed and mark == "m", [tmp_path])
        assert tree(tmp_path) == (AFTER if agreed else BEFORE)


def test_a_file_that_a_person_put_there_meanwhile_is_left(tmp_path: Path) -> None:
    marker = interrupted(tmp_path, agreed=False)
    (tmp_path / "new").mkdir()
    (tmp_path / "new/c.md").write_text("by hand")
    (tmp_path / MARKER).write_bytes(marker)
    recover(tmp_path, lambda _: False, [tmp_path])
    assert tree(tmp_path) == {**BEFORE, "new/c.md": "by hand"}


def test_there_is_usually_nothing_to_recover(tmp_path: Path) -> None:
    recover(tmp_path, lambda _: False, [tmp_path])
    assert tree(tmp_path) == {}


def cut_off(folder: Path, planned: list[FileChange], does: Callable[[], object]) -> None:
    """Something happens to files that were changed, then the change is taken back."""
    with atomic_file_changes(folder, "m", planned):
        does()
        raise RuntimeError("cut off")


def test_a_file_written_over_what_was_left_half_done_stays(tmp_path: Path) -> None:
    marker: list[bytes] = []

    def write() -> None:
        marker.append((tmp_path / MARKER).read_bytes())
        (tmp_path / "a.md").write_text("by hand")

    with pytest.raises(Conflict, match=r"a\.md was written in the meantime"):
        cut_off(tmp_path, changes(tmp_path), write)
    kept = next(path for path in tmp_path.iterdir() if path.name.startswith("a.md.before-"))
    assert kept.read_text() == "a"
    kept.unlink()
    assert tree(tmp_path) == {**BEFORE, "a.md": "by hand"}
    (tmp_path / MARKER).write_bytes(*marker)
    recover(tmp_path, lambda _: False, [tmp_path])
    assert not is_interrupted(tmp_path)


def test_a_recovery_goes_on_where_a_folder_became_a_file(tmp_path: Path) -> None:
    marker = interrupted(tmp_path, agreed=False)
    shutil.rmtree(tmp_path / "old")
    (tmp_path / "old").write_text("a file by now")
    (tmp_path / "new").write_text("another")
    (tmp_path / MARKER).write_bytes(marker)
    recover(tmp_path, lambda _: False, [tmp_path])
    assert tree(tmp_path) == {"a.md": "a", "old": "a file by now", "new": "another"}


def test_what_the_system_refuses_to_put_back_is_named_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(path: Path, to: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    planned = changes(tmp_path)
    with monkeypatch.context() as patch, pytest.raises(StorageFailure, match=r"a\.md: Permission denied"):
        cut_off(tmp_path, planned, lambda: patch.setattr(Path, "replace", refused))
    assert is_interrupted(tmp_path)
    recover(tmp_path, lambda _: False, [tmp_path])
    assert tree(tmp_path) == BEFORE


def late(monkeypatch: pytest.MonkeyPatch, does: Callable[[], object]) -> None:
    """Something happens after all was planned and before the first file is atomic_file_changes."""
    go = transaction._apply_move

    def going(move: transaction._Move) -> None:
        monkeypatch.setattr(transaction, "_apply_move", go)
        does()
        go(move)

    monkeypatch.setattr(transaction, "_apply_move", going)


@pytest.mark.parametrize(
    ("name", "text"), [("a.md", "typed late"), ("old/b.md", "typed late"), ("new/c.md", "typed late"), ("a.md", None)]
)
def test_what_a_person_types_meanwhile_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str | None
) -> None:
    file = tmp_path / name
    planned = changes(tmp_path)
    late(monkeypatch, file.unlink if text is None else lambda: file.write_text(text))
    with pytest.raises(Conflict) as refused, atomic_file_changes(tmp_path, "m", planned):
        pass
    assert refused.value.details["path"] == str(file)
    wanted = {**BEFORE, name: text}
    assert tree(tmp_path) == {name: text for name, text in wanted.items() if text is not None}
    assert not is_interrupted(tmp_path)


def test_only_what_was_planned_with_is_replaced(tmp_path: Path) -> None:
    change, *_ = changes(tmp_path)
    for before in (None, b"another"):
        with (
            pytest.raises(Conflict, match=r"a\.md"),
            atomic_file_changes(tmp_path, "m", [change._replace(before=before)]),
        ):
            pass
        assert tree(tmp_path) == BEFORE
    with atomic_file_changes(tmp_path, "m", [change._replace(before=b"a")]):
        pass
    assert tree(tmp_path) == {**BEFORE, "a.md": "new a"}


@pytest.mark.parametrize("name", ["a.md/x/y.md", "old"])
def test_what_stands_in_the_way_is_named_and_nothing_changes(tmp_path: Path, name: str) -> None:
    planned = [*changes(tmp_path), FileChange(tmp_path / name, tmp_path, None, Redacted(text="x"))]
    with pytest.raises((Conflict, StorageFailure)) as refused, atomic_file_changes(tmp_path, "m", planned):
        pass
    assert refused.value.details["path"] == str(tmp_path / name)
    assert tree(tmp_path) == BEFORE


# A marker that another wrote

NOTED = {"root": ".", "path": "a.md", "new": "", "new_hash": content_hash(b"a"), "old": "", "old_hash": ""}


def marker_of(**fields: str) -> bytes:
    return json.dumps({"mark": "x", "moves": [NOTED | fields]}).encode()


@pytest.mark.parametrize(
    "marker",
    [
        b"",
        b'{"mark": "x", "mo',
        b"\xff\xfe",
        b"[]",
        marker_of(path="../victim.md"),
        marker_of(root="..", path="victim.md"),
        marker_of(root="/", path="victim.md"),
        marker_of(path="link/victim.md"),
        marker_of(path="vault/.."),
        marker_of(path="nul\0l"),
        marker_of(path="none.md", new="a.md"),
        marker_of(path="none.md", old="a.md"),
        marker_of(path="none.md", old=".scrimshaw-tmp-1/../../victim.md"),
        marker_of(path="none.md", new=".scrimshaw-tmp-1\n"),
    ],
)
@pytest.mark.parametrize("agreed", [False, True])
def test_a_marker_that_leads_elsewhere_does_nothing(tmp_path: Path, marker: bytes, agreed: bool) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "victim.md").write_text("a")
    (folder / "a.md").write_text("a")
    (folder / "link").symlink_to(tmp_path)
    (folder / MARKER).write_bytes(marker)
    with pytest.raises(StorageFailure, match="was not written by this memory"):
        recover(folder, lambda _: agreed, [folder])
    recover(folder, lambda _: agreed, [folder])
    (kept,) = folder.glob("swap.json.refused-*")
    assert kept.read_bytes() == marker
    kept.unlink()
    (folder / "link").unlink()
    assert tree(tmp_path) == {"victim.md": "a", "project/a.md": "a"}


def test_an_absolute_path_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim.md"
    victim.write_text("a")
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / MARKER).write_bytes(marker_of(root=str(tmp_path), path="victim.md"))
    with pytest.raises(StorageFailure, match="which is not in this memory"):
        recover(folder, lambda _: False, [folder])
    (folder / MARKER).write_bytes(marker_of(path=str(victim)))
    with pytest.raises(StorageFailure, match="which is not in this memory"):
        recover(folder, lambda _: False, [folder])
    assert victim.exists()


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_a_marker_that_is_no_file_is_set_aside(tmp_path: Path, kind: str) -> None:
    if kind == "folder":
        (tmp_path / MARKER / "inside").mkdir(parents=True)
    else:
        (tmp_path / MARKER).symlink_to("nowhere")
    assert is_interrupted(tmp_path)
    with pytest.raises(StorageFailure, match="it is not a file"):
        recover(tmp_path, lambda _: False, [tmp_path])
    assert not is_interrupted(tmp_path)


def test_a_foreign_marker_replaces_nothing_whose_bytes_it_does_not_name(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("an hour of work")
    (tmp_path / ".scrimshaw-tmp-1").write_text("theirs")
    (tmp_path / MARKER).write_bytes(marker_of(old=".scrimshaw-tmp-1"))
    with pytest.raises(Conflict):
        recover(tmp_path, lambda _: False, [tmp_path])
    assert (tmp_path / "a.md").read_text() == "an hour of work"


# A folder for whoever holds the lock


def test_of_the_threads_of_a_process_one_asks_for_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, real, entered = list[object](), FileLock.acquire, list[int]()

    def note(guard: FileLock, timeout: float, poll_interval: float) -> object:
        asked.append(guard)
        return real(guard, timeout, poll_interval)

    def fail_to_lock(number: int) -> str:
        with pytest.raises(VaultBusy) as refusal, transaction.lock(tmp_path / "vault.lock", 0.05):
            entered.append(number)
        return refusal.value.message

    monkeypatch.setattr(FileLock, "acquire", note)
    with transaction.lock(tmp_path / "vault.lock", 1.0), ThreadPoolExecutor(5) as pool:
        messages = set(pool.map(fail_to_lock, range(5)))
    assert messages == {f"Another writer held {tmp_path / 'vault.lock'} for 0.05 s."}
    assert (len(asked), entered) == (1, [])
    with transaction.lock(tmp_path / "vault.lock", 1.0):  # who gave up left nothing behind
        assert len(asked) == 2
