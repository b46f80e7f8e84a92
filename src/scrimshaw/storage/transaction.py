"""Change several files atomically, together with a database that decides; the caller holds the vault's lock.

One file is replaced by a rename, which is atomic by itself. For several, a marker is written first, which tells a later
process what a killed one was doing, and the new files are staged, so that the disk cannot be full later. Then all
files are renamed. If the database commits, the rest is cleaned up; otherwise every rename is reverted.

A marker may have come with somebody's repository. So it is only followed inside folders that the caller names, and
only files with exactly the stated bytes are replaced or removed.
"""

import os
import secrets
import time
from _thread import LockType, allocate_lock  # a hook has no time for `threading`
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from filelock import FileLock, Timeout
from msgspec import Meta, Struct
from msgspec.structs import replace

from scrimshaw.errors import AlreadyExists, Conflict, ScrimshawError, StorageFailure, VaultBusy
from scrimshaw.models import Redacted, content_hash
from scrimshaw.storage import durable
from scrimshaw.storage.durable import TEMP_PREFIX, storage_errors

MARKER = TEMP_PREFIX + "swap.json"
LOCK_POLL_S = 0.002  # shorter than the pause between two saves of one writer, so that others get the lock in between
# The locks by process and path: for the threads of a process one, so that only one thread polls the file lock.
_LOCKS = dict[tuple[int, str], tuple[LockType, FileLock]]()

_PathText = Annotated[str, Meta(pattern=r"\A[^\0]+\Z")]
_Beside = Annotated[str, Meta(pattern=r"\A(\.scrimshaw-tmp-[0-9a-f]+)?\Z")]


class FileChange(NamedTuple):
    path: Path
    root: Path  #: folders that the change empties are removed, below this one
    before: bytes | None  #: the expected bytes, None for no file: anything else is not replaced
    text: Redacted | None  #: the new text, None to remove the file
    name: str = ""  #: its name in errors, its path if empty

    @property
    def after(self) -> bytes | None:
        """The bytes to write, None to remove the file."""
        return None if self.text is None else self.text.text.encode(errors="replace")


class _Move(Struct, frozen=True):
    """A move in a marker: `path` is relative to `root`, and `root` to the marker's folder if possible."""

    root: _PathText
    path: _PathText
    new: _Beside  #: the new file's name next to `path`; empty for no file, like the hash of its bytes
    new_hash: str
    old: _Beside  #: the old file's temporary name next to `path`
    old_hash: str


class _Marker(Struct, frozen=True):
    mark: _PathText
    moves: tuple[_Move, ...]


@contextmanager
def lock(path: Path, timeout_s: float, *, makes_folder: bool = False) -> Iterator[None]:
    """Hold a vault's writer lock; not re-entrant. Raises VaultBusy after `timeout_s` seconds, StorageFailure."""
    name, until = (os.getpid(), str(path)), time.monotonic() + timeout_s
    line, guard = _LOCKS.get(name) or _LOCKS.setdefault(name, (allocate_lock(), FileLock(path)))
    busy = VaultBusy(f"Another writer held {path} for {timeout_s:g} s.", "Try again in a moment.", path=str(path))
    if not line.acquire(timeout=timeout_s):
        raise busy
    try:
        with storage_errors("lock", path):
            if not makes_folder:
                path.parent.stat()  # FileLock would make the folder of a project again that was moved meanwhile
            try:
                guard.acquire(timeout=max(0.0, until - time.monotonic()), poll_interval=LOCK_POLL_S)
            except Timeout as error:
                raise busy from error
        yield
    finally:
        guard.release()
        line.release()


@contextmanager
def atomic_file_changes(folder: Path, mark: str, changes: Sequence[FileChange]) -> Iterator[None]:
    """Change files for the block, permanently if it ends without raising. Raises Conflict, StorageFailure."""
    if mark:  # the block commits it where `recover` will look; a single file needs none
        with _mark_changes(folder, mark, changes):
            yield
        return
    # The old file stays next to the new one until the block ends, since the disk may be full by then.
    (change,) = changes
    path, before, after = change.path, change.before, change.after
    action, aside = "remove" if after is None else "write", durable.temporary_of(path)
    with storage_errors(action, path):
        _demand_before(change, path)
    try:
        with storage_errors(action, path):
            _replace(change, aside)
        yield
    except BaseException as error:
        note = "Nothing was changed."
        try:
            if durable.read_if_there(path) == after:  # otherwise unchanged, or written by somebody else meanwhile
                path.unlink() if before is None else aside.replace(path)
        except OSError:
            note = f"{path} could not be restored; its previous text is in the journal, and the file is {aside}."
        else:
            _tidy(change, aside)
            with suppress(OSError):
                durable.sync_folder(path.parent)
        if isinstance(error, StorageFailure):
            error.message = f"{error.message} {note}"
        raise
    if before is not None:
        _tidy(change, aside)


def _replace(change: FileChange, aside: Path) -> None:
    """Replace a file by the new bytes and keep the old one at `aside`; raises Conflict, OSError."""
    path, after = change.path, change.after
    if after is None:
        path.replace(aside)
        durable.sync_folder(path.parent)
        _demand_before(change, aside)  # nobody can change it by name any more
    else:
        if change.before is not None:
            try:
                os.link(path, aside)
            except OSError:  # a file system without hard links
                durable.stage_file(path, change.before, temporary=aside)
        durable.replace_file(path, after, check=partial(_demand_before, change, path), root=change.root)


def _tidy(change: FileChange, aside: Path) -> None:
    """Remove the copy next to a file, and empty folders; what cannot be removed now is removed later."""
    with suppress(OSError):
        aside.unlink(missing_ok=True)
        if not os.path.lexists(change.path):
            durable.prune(change.path.parent, change.root)


def _demand_before(change: FileChange, place: Path) -> None:
    current, before = durable.read_if_there(place), change.before
    if current != before:
        hashes = ["" if data is None else content_hash(data) for data in (current, before)]
        raise make_conflict(change.name or str(change.path), *hashes)


@contextmanager
def _mark_changes(folder: Path, mark: str, changes: Sequence[FileChange]) -> Iterator[None]:
    marked = tuple(_plan_move(folder, change) for change in changes)
    known = {os.path.realpath(change.root) for change in changes}
    moves = [_locate_move(folder, move, known) for move in marked]
    try:
        with storage_errors("change files below", folder):
            durable.replace_file(folder / MARKER, msgspec.json.encode(_Marker(mark, marked)))
            for change, move in zip(changes, moves, strict=True):
                if (data := change.after) is not None:
                    with storage_errors("write", change.path):
                        durable.stage_file(change.path, data, temporary=Path(move.new))
            for move in moves:
                _apply_move(move)
        yield
    except BaseException as error:
        _finish(folder, moves, is_committed=False)
        if isinstance(error, StorageFailure):
            error.message = f"{error.message} Nothing was changed."
        raise
    with suppress(StorageFailure):  # it is done: the next to lock the vault removes a remaining marker
        _finish(folder, moves, is_committed=True)


def make_conflict(memory_id: str, current_hash: str, expected_hash: str) -> Conflict:
    """The error for a file that is not the expected one, with `current_hash`; the hash "" means no file."""
    details = {"id": memory_id, "current_hash": current_hash}
    if not expected_hash:  # whoever asks may not read that file, and a hash gives away a short text
        return AlreadyExists(f"{memory_id!r} exists.", "Update it if you can, or choose another id.", id=memory_id)
    what = "changed" if current_hash else "was removed"
    return Conflict(f"{memory_id!r} {what} since it was read.", "Read it again, then repeat the change.", **details)


def recover(folder: Path, is_committed: Callable[[str], bool], roots: Iterable[Path]) -> None:
    """Finish or revert what a killed process left half done; raises StorageFailure for a foreign marker, Conflict."""
    marker = folder / MARKER
    if not os.path.lexists(marker):
        return
    known = {os.path.realpath(root) for root in roots}
    try:
        if not marker.is_file():
            raise ValueError("it is not a file")
        with storage_errors("read", marker):
            data = marker.read_bytes()
        found = msgspec.json.decode(data, type=_Marker)
        moves = [_locate_move(folder, move, known) for move in found.moves]
    except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
        aside = marker.with_name(f"swap.json.refused-{secrets.token_hex(4)}")
        with storage_errors("move", marker):
            marker.rename(aside)
        message = f"{marker} was not written by this memory ({error})."
        hint = "Try again. If a restore was interrupted here, its checkpoint auto-restore-* has the state before it."
        fate = f"It was not followed, and is now called {aside.name}."
        raise StorageFailure(f"{message} {fate}", hint, path=str(aside)) from error
    _finish(folder, moves, is_committed=is_committed(found.mark))


def is_interrupted(folder: Path) -> bool:
    """Whether several files are being changed, or were left half changed."""
    return os.path.lexists(folder / MARKER)


def _plan_move(folder: Path, change: FileChange) -> _Move:
    root, home, names = Path(os.path.realpath(change.root)), os.path.realpath(folder), list[str]()
    for data in (change.after, change.before):
        names += ("", "") if data is None else (durable.temporary_of(change.path).name, content_hash(data))
    base = root.relative_to(home) if root.is_relative_to(home) else root
    return _Move(base.as_posix(), change.path.relative_to(change.root).as_posix(), *names)


def _locate_move(folder: Path, move: _Move, known: set[str]) -> _Move:
    """The move with real paths, inside a known folder; raises ValueError for any other."""
    root = os.path.realpath(folder / move.root)
    inside = Path(root, move.path)
    parent = Path(os.path.realpath(inside.parent))
    if root not in known or not parent.is_relative_to(root) or inside.name in ("", ".", ".."):
        raise ValueError(f"it names {move.path!r} in {move.root!r}, which is not in this memory")
    new, old = (name and str(parent / name) for name in (move.new, move.old))
    return replace(move, root=root, path=str(parent / inside.name), new=new, old=old)


def _apply_move(move: _Move) -> None:
    """Move one file. The old bytes are checked after the rename: from then on nobody can change them by name."""
    path, old, is_ours = Path(move.path), Path(move.old), True
    if move.old:
        with suppress(FileNotFoundError):
            path.replace(old)
        is_ours = old.is_file() and content_hash(old.read_bytes()) == move.old_hash
    if not is_ours or os.path.lexists(path):
        message = f"{path} is in the way, or was changed while it was about to be replaced."
        raise Conflict(message, "Nothing was replaced. Look at it, then try again.", path=str(path))
    if move.new:
        Path(move.new).replace(path)
    durable.sync_folder(path.parent)


def _finish(folder: Path, moves: Sequence[_Move], *, is_committed: bool) -> None:
    """Clean up or revert every move and remove the marker, unless the system refuses: then the next process tries."""
    troubles: list[ScrimshawError] = []
    for move in moves:
        path = Path(move.path)
        try:
            with storage_errors("put back", path):
                if not is_committed:
                    _revert_move(path, move)
        except (StorageFailure, Conflict) as error:
            troubles.append(error)
        with suppress(OSError):  # what cannot be removed now is removed later
            if temporary := move.old if is_committed else move.new:
                Path(temporary).unlink(missing_ok=True)
            durable.prune(path.parent, Path(move.root))
    if not any(isinstance(trouble, StorageFailure) for trouble in troubles):
        with storage_errors("remove", folder / MARKER):
            (folder / MARKER).unlink(missing_ok=True)
    if troubles:
        raise troubles[0]


def _revert_move(path: Path, move: _Move) -> None:
    """Revert a move, however far it got; repeatable. A file that a person put there meanwhile stays."""
    # Whether the new file is in place; not one that a person put there meanwhile.
    is_ours = path.is_file() and content_hash(path.read_bytes()) == move.new_hash
    if move.old and os.path.lexists(move.old):
        aside = path
        if not is_ours and os.path.lexists(path):
            aside = path.with_name(f"{path.name}.before-{secrets.token_hex(4)}")
        Path(move.old).replace(aside)
        if aside != path:
            message = f"{path} was written in the meantime and was not replaced; the previous file is now {aside.name}."
            raise Conflict(message, "Compare the two. Everything else was restored.", path=str(aside))
    elif not move.old and is_ours:
        path.unlink()
