"""Files changed as one, beside a database that has the last word.

One file is replaced by a rename, which is atomic by itself. For several a marker is written first: it tells a later
process what a killed one was doing. New files are written beside their places, so that the disk cannot be full later,
then the places change by renames. If the database committed, the rest is tidied up, else every rename is taken back.
Hold the vault's lock.

A marker may have come with somebody's repository. So it is followed only inside folders that the caller knows, and
nothing is replaced or removed whose bytes it does not name.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta, Struct

from scrimshaw.errors import Conflict, ScrimshawError, StorageFailure
from scrimshaw.models import Redacted, content_hash
from scrimshaw.storage.durable import (
    PRIVATE_FOLDER,
    TEMP_PREFIX,
    prune,
    remove_file,
    replace_file,
    stage_file,
    storage_errors,
    sync_folder,
    temporary_of,
)

MARKER = TEMP_PREFIX + "swap.json"
SCRATCH = TEMP_PREFIX + "scratch"

_PathText = Annotated[str, Meta(pattern=r"\A[^\0]+\Z")]
_Beside = Annotated[str, Meta(pattern=r"\A(\.scrimshaw-tmp-[0-9a-f]+)?\Z")]


class FileChange(NamedTuple):
    """What a file becomes."""

    path: Path
    #: Folders that the change empties are removed, below this one.
    root: Path
    #: The bytes there now, None for no file: nothing else is replaced.
    before: bytes | None
    #: The new text, None to remove the file.
    text: Redacted | None

    @property
    def after(self) -> bytes | None:
        """The bytes to write, None to remove the file."""
        return None if self.text is None else self.text.text.encode(errors="replace")


class _Move(NamedTuple):
    """A change as planned: `new` will hold what comes, `old` what goes, each with its hash; None for nothing."""

    path: Path
    root: Path
    new: Path | None
    new_hash: str
    old: Path | None
    old_hash: str


class _MarkedMove(Struct, frozen=True, kw_only=True):
    """A move in a marker: `path` is below `root`, which is below the marker's folder if it can be; names beside it."""

    root: _PathText
    path: _PathText
    new: _Beside
    new_hash: str
    old: _Beside
    old_hash: str


class _Marker(Struct, frozen=True):
    mark: str
    moves: tuple[_MarkedMove, ...]


@contextmanager
def atomic_file_changes(folder: Path, mark: str, changes: Sequence[FileChange]) -> Iterator[None]:
    """Change files while the block runs; they stay so if it ends, and are as before when it raises.

    The block commits `mark` where `recover` will ask for it. A single file needs no mark. Raises Conflict naming a file
    that is in the way or was changed meanwhile, StorageFailure.
    """
    with _marked_changes(folder, mark, changes) if mark else _single_change(*changes):
        yield


@contextmanager
def _single_change(change: FileChange) -> Iterator[None]:
    before, after, is_touched = change.before, change.after, True
    try:
        try:
            _replace(change, before, after)
        except Conflict:
            is_touched = False
            raise
        yield
    except BaseException as error:
        note = "Nothing was changed."
        try:
            with suppress(Conflict):  # what somebody else wrote meanwhile stays
                if is_touched:
                    _replace(change, after, before)
        except StorageFailure:
            note = f"{change.path} could not be put back; the text before is in the journal: see `scrimshaw undo`."
        if isinstance(error, StorageFailure):
            error.message = f"{error.message} {note}"
        raise


def _replace(change: FileChange, old: bytes | None, new: bytes | None) -> None:
    """Replace a file's bytes, None for no file; raises Conflict where the old ones are not there any more."""
    path = change.path

    def demand_old() -> None:
        if (path.read_bytes() if path.is_file() else None) != old:
            raise _changed(path)

    with storage_errors("remove" if new is None else "write", path):
        if new is not None:
            replace_file(path, new, check=demand_old)
            return
        demand_old()
        if old is not None:
            remove_file(path, change.root)


@contextmanager
def _marked_changes(folder: Path, mark: str, changes: Sequence[FileChange]) -> Iterator[None]:
    demand_room(changes)
    moves = [_plan_move(change) for change in changes]
    try:
        with storage_errors("change files below", folder):
            marked = tuple(_mark_move(folder, move) for move in moves)
            replace_file(folder / MARKER, msgspec.json.encode(_Marker(mark, marked)))
            for change, move in zip(changes, moves, strict=True):
                if (data := change.after) is not None:
                    stage_file(change.path, data, temporary=move.new)
            for move in moves:
                _go(move)
        yield
    except BaseException as error:
        _finish(folder, moves, _take_back)
        if isinstance(error, StorageFailure):
            error.message = f"{error.message} Nothing was changed."
        raise
    _finish(folder, moves, _tidy)


def demand_room(changes: Iterable[FileChange]) -> None:
    """Raise Conflict naming what is in the way of a change: a file for a folder, a folder for a file."""
    for change in changes:
        above = next(folder for folder in change.path.parents if os.path.lexists(folder))
        if not above.is_dir():
            raise _in_the_way(above, f"A folder is needed there for {change.path.name}")
        if os.path.lexists(change.path) and (change.before is None or not change.path.is_file()):
            raise _in_the_way(change.path, "It is no memory that could be read, and a file belongs there")


def recover(folder: Path, is_committed: Callable[[str], bool], roots: Iterable[Path]) -> None:
    """End what a killed process left half done below `roots`; `is_committed` tells whether a mark was committed.

    Raises StorageFailure for a marker that cannot be ours, which is set aside, and Conflict where a person wrote
    meanwhile, whose text stays; the next call finds nothing to do.
    """
    _clear(folder / SCRATCH)
    marker = folder / MARKER
    if not os.path.lexists(marker):
        return
    known = {os.path.realpath(root) for root in roots}
    try:
        if not marker.is_file():
            raise ValueError("it is no file")
        with storage_errors("read", marker):
            data = marker.read_bytes()
        found = msgspec.json.decode(data, type=_Marker)
        moves = [_read_move(folder, marked, known) for marked in found.moves]
    except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
        raise _refuse_marker(marker, str(error)) from error
    _finish(folder, moves, _tidy if is_committed(found.mark) else _take_back)


def is_interrupted(folder: Path) -> bool:
    """Whether several files are being changed, or were left half done."""
    return os.path.lexists(folder / MARKER)


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """An empty folder for whoever holds the vault's lock; it goes, at the latest when the lock is taken again."""
    path = folder / SCRATCH
    with storage_errors("make", path):
        _clear(path)
        path.mkdir(PRIVATE_FOLDER)
    try:
        yield path
    finally:
        _clear(path)


def _clear(path: Path) -> None:
    with suppress(OSError):
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.exists():
            shutil.rmtree(path)


# The marker


def _mark_move(folder: Path, move: _Move) -> _MarkedMove:
    root, home = Path(os.path.realpath(move.root)), os.path.realpath(folder)
    return _MarkedMove(
        root=(root.relative_to(home) if root.is_relative_to(home) else root).as_posix(),
        path=move.path.relative_to(move.root).as_posix(),
        new=move.new.name if move.new else "",
        new_hash=move.new_hash,
        old=move.old.name if move.old else "",
        old_hash=move.old_hash,
    )


def _read_move(folder: Path, marked: _MarkedMove, known: set[str]) -> _Move:
    """A move that stays inside a known folder, links resolved; raises ValueError for any other."""
    root = os.path.realpath(folder / marked.root)
    inside = Path(root, marked.path)
    parent = Path(os.path.realpath(inside.parent))
    if root not in known or not parent.is_relative_to(root) or inside.name in ("", ".", ".."):
        raise ValueError(f"it names {marked.path!r} in {marked.root!r}, which is no place of ours")
    return _Move(
        path=parent / inside.name,
        root=Path(root),
        new=parent / marked.new if marked.new else None,
        new_hash=marked.new_hash,
        old=parent / marked.old if marked.old else None,
        old_hash=marked.old_hash,
    )


def _refuse_marker(marker: Path, why: str) -> StorageFailure:
    """Set a marker aside that was damaged, or that another wrote."""
    aside = marker.with_name(f"swap.json.refused-{secrets.token_hex(4)}")
    with storage_errors("move", marker):
        marker.rename(aside)
    return StorageFailure(
        f"{marker} is not of this memory's making ({why}). It was not followed, and is kept as {aside.name}.",
        "Try again. If a restore was cut off here, its checkpoint auto-restore-* holds what was there before.",
        path=str(aside),
    )


# The moves


def _plan_move(change: FileChange) -> _Move:
    before, after = change.before, change.after
    return _Move(
        path=change.path,
        root=change.root,
        new=None if after is None else temporary_of(change.path),
        new_hash="" if after is None else content_hash(after),
        old=None if before is None else temporary_of(change.path),
        old_hash="" if before is None else content_hash(before),
    )


def _go(move: _Move) -> None:
    """Change one place. The old bytes are checked after the rename: from then on nobody can change them by name."""
    if move.old:
        try:
            move.path.replace(move.old)
        except FileNotFoundError as error:
            raise _changed(move.path) from error
        if content_hash(move.old.read_bytes()) != move.old_hash:
            raise _changed(move.path)
    if os.path.lexists(move.path):
        raise _changed(move.path)
    if move.new:
        move.new.replace(move.path)
    sync_folder(move.path.parent)


def _changed(path: Path) -> Conflict:
    return Conflict(
        f"{path} was changed while it was about to be replaced.", "Nothing was replaced; try again.", path=str(path)
    )


def _in_the_way(path: Path, why: str) -> Conflict:
    return Conflict(
        f"{path} stands in the way. {why}.", "Move or rename it, then try again; nothing was changed.", path=str(path)
    )


def _finish(folder: Path, moves: Sequence[_Move], step: Callable[[_Move], None]) -> None:
    """Do a step for every move, whatever becomes of the others, and remove the marker; raises the first trouble.

    The marker stays where the system refused: then the next process tries again.
    """
    troubles: list[ScrimshawError] = []
    for move in moves:
        try:
            with storage_errors("put back", move.path):
                step(move)
        except (StorageFailure, Conflict) as error:
            troubles.append(error)
    if not any(isinstance(trouble, StorageFailure) for trouble in troubles):
        with storage_errors("remove", folder / MARKER):
            (folder / MARKER).unlink(missing_ok=True)
    if troubles:
        raise troubles[0]


def _take_back(move: _Move) -> None:
    """Undo what was done of a move, as many times as it takes; what a person wrote at its place stays."""
    aside = None
    if move.old and os.path.lexists(move.old):
        is_theirs = os.path.lexists(move.path) and not _holds(move.path, move.new_hash)
        aside = move.path.with_name(f"{move.path.name}.before-{secrets.token_hex(4)}") if is_theirs else None
        move.old.replace(aside or move.path)
    elif not move.old and _holds(move.path, move.new_hash):
        move.path.unlink()
    _clean_up(move.new, move)
    if aside:
        raise Conflict(
            f"{move.path} was written meanwhile and stays; what was there before is kept as {aside.name}.",
            "Compare the two. Everything else is as it was before.",
            path=str(aside),
        )


def _holds(path: Path, new_hash: str) -> bool:
    """Whether the new file came to its place; not one that a person put there meanwhile."""
    return path.is_file() and content_hash(path.read_bytes()) == new_hash


def _tidy(move: _Move) -> None:
    _clean_up(move.old, move)


def _clean_up(temporary: Path | None, move: _Move) -> None:
    """Remove a temporary file and empty folders; what cannot be removed now is swept later."""
    with suppress(OSError):
        if temporary:
            temporary.unlink(missing_ok=True)
    with suppress(OSError):
        prune(move.path.parent, move.root)
