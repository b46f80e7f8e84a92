"""Several files changed as one, beside a database that has the last word.

A marker is written first: it tells a later process what a killed one was doing. Then new files are written beside their
places, so that the disk cannot be full later, and the places change by renames. If the database agreed, the rest is
tidied up, else every rename is taken back. Hold the vault's lock.

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
    TEMP_PREFIX,
    prune,
    replace_file,
    stage_file,
    storage_errors,
    sync_folder,
    temporary_of,
)
from scrimshaw.storage.private import PRIVATE_FOLDER

MARKER = TEMP_PREFIX + "swap.json"
SCRATCH = TEMP_PREFIX + "scratch"

_PathText = Annotated[str, Meta(pattern=r"\A[^\0]+\Z")]
_Beside = Annotated[str, Meta(pattern=r"\A(\.scrimshaw-tmp-[0-9a-f]+)?\Z")]


class Change(NamedTuple):
    """What shall stand at `path`, None for nothing; folders that this empties go, below `root`.

    `prior` is the hash of the bytes that may go, "" where nothing may stand; without it, those of the beginning.
    """

    path: Path
    root: Path
    text: Redacted | None
    prior: str | None = None


class _Move(NamedTuple):
    """A change as planned: `new` will hold what comes, `old` what goes, each with its hash; None for nothing."""

    path: Path
    root: Path
    new: Path | None
    new_hash: str
    old: Path | None
    old_hash: str


class _Noted(Struct, frozen=True, kw_only=True):
    """A move in a marker: `path` is below `root`, which is below the marker's folder if it can be; names beside it."""

    root: _PathText
    path: _PathText
    new: _Beside
    new_hash: str
    old: _Beside
    old_hash: str


class _Marker(Struct, frozen=True):
    mark: str
    moves: tuple[_Noted, ...]


@contextmanager
def atomic_file_changes(folder: Path, mark: str, changes: Iterable[Change]) -> Iterator[None]:
    """Files are changed while the block runs, and stay so if it ends; when it raises all is as before.

    The block commits `mark` where `recover` will ask for it. Raises Conflict naming a file that stands in the way or
    was changed meanwhile, StorageFailure.
    """
    changes = list(changes)
    demand_room(changes)
    with storage_errors("read files below", folder):
        moves = [_planned(change) for change in changes]
    try:
        with storage_errors("change files below", folder):
            noted = tuple(_noted(folder, move) for move in moves)
            replace_file(folder / MARKER, msgspec.json.encode(_Marker(mark, noted)))
            for change, move in zip(changes, moves, strict=True):
                _stage(change, move)
            for move in moves:
                _go(move)
        yield
    except BaseException:
        _end(folder, moves, _take_back)
        raise
    _end(folder, moves, _tidy)


def demand_room(changes: Iterable[Change]) -> None:
    """Raise Conflict naming what stands in the way of a change: a file for a folder, a folder for a file."""
    for change in changes:
        above = next(folder for folder in change.path.parents if os.path.lexists(folder))
        if not above.is_dir():
            raise _in_the_way(above, f"A folder is needed there for {change.path.name}")
        if os.path.lexists(change.path) and (change.prior == "" or not change.path.is_file()):
            raise _in_the_way(change.path, "It is no memory that could be read, and a file belongs there")


def recover(folder: Path, agreed: Callable[[str], bool], roots: Iterable[Path]) -> None:
    """End what a killed process left half done below `roots`; `agreed` tells whether a mark was committed.

    Raises StorageFailure for a marker that cannot be ours, which is set aside, and Conflict where a person wrote
    meanwhile, whose text stays; the next call finds nothing to do.
    """
    _clear(folder / SCRATCH)
    marker = folder / MARKER
    if not os.path.lexists(marker):
        return
    known = {os.path.realpath(root) for root in roots}
    try:
        found = msgspec.json.decode(_bytes(marker), type=_Marker)
        moves = [_move(folder, noted, known) for noted in found.moves]
    except (msgspec.MsgspecError, UnicodeError, ValueError) as error:
        raise _refused(marker, str(error)) from error
    _end(folder, moves, _tidy if agreed(found.mark) else _take_back)


def is_interrupted(folder: Path) -> bool:
    """Whether a swap is going on, or was left half done."""
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


def _noted(folder: Path, move: _Move) -> _Noted:
    root, home = Path(os.path.realpath(move.root)), os.path.realpath(folder)
    return _Noted(
        root=(root.relative_to(home) if root.is_relative_to(home) else root).as_posix(),
        path=move.path.relative_to(move.root).as_posix(),
        new=move.new.name if move.new else "",
        new_hash=move.new_hash,
        old=move.old.name if move.old else "",
        old_hash=move.old_hash,
    )


def _move(folder: Path, noted: _Noted, known: set[str]) -> _Move:
    """A move that stays inside a known folder, links resolved; raises ValueError for any other."""
    root = os.path.realpath(folder / noted.root)
    inside = Path(root, noted.path)
    parent = Path(os.path.realpath(inside.parent))
    if root not in known or not parent.is_relative_to(root) or inside.name in ("", ".", ".."):
        raise ValueError(f"it names {noted.path!r} in {noted.root!r}, which is no place of ours")
    return _Move(
        path=parent / inside.name,
        root=Path(root),
        new=parent / noted.new if noted.new else None,
        new_hash=noted.new_hash,
        old=parent / noted.old if noted.old else None,
        old_hash=noted.old_hash,
    )


def _bytes(marker: Path) -> bytes:
    if not marker.is_file():
        raise ValueError("it is no file")
    with storage_errors("read", marker):
        return marker.read_bytes()


def _refused(marker: Path, why: str) -> StorageFailure:
    """Set a marker aside that was damaged, or that another wrote."""
    aside = marker.with_name(f"swap.json.refused-{secrets.token_hex(4)}")
    with storage_errors("move", marker):
        marker.rename(aside)
    return StorageFailure(
        f"{marker} is not of this memory's making ({why}). It was not followed, and is kept as {aside.name}.",
        "Try again. If a restore was cut off here, its checkpoint auto-restore-* holds what stood before.",
        path=str(aside),
    )


# The moves


def _planned(change: Change) -> _Move:
    path = change.path
    prior = change.prior
    if prior is None:
        prior = content_hash(path.read_bytes()) if path.is_file() else ""
    return _Move(
        path=path,
        root=change.root,
        new=None if change.text is None else temporary_of(path),
        new_hash="" if change.text is None else content_hash(_data(change.text)),
        old=temporary_of(path) if prior else None,
        old_hash=prior,
    )


def _data(text: Redacted) -> bytes:
    return text.text.encode(errors="replace")


def _stage(change: Change, move: _Move) -> None:
    if change.text is not None:
        stage_file(change.path, _data(change.text), temporary=move.new)


def _go(move: _Move) -> None:
    """The bytes are looked at when nobody can change them any more by the file's name."""
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


def _end(folder: Path, moves: Sequence[_Move], step: Callable[[_Move], None]) -> None:
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
    kept = None
    if move.old and os.path.lexists(move.old):
        is_theirs = os.path.lexists(move.path) and not _holds(move.path, move.new_hash)
        kept = move.path.with_name(f"{move.path.name}.before-{secrets.token_hex(4)}") if is_theirs else None
        move.old.replace(kept or move.path)
    elif not move.old and _holds(move.path, move.new_hash):
        move.path.unlink()
    _leave_nothing(move.new, move)
    if kept:
        raise Conflict(
            f"{move.path} was written meanwhile and stays; what stood there before is kept as {kept.name}.",
            "Compare the two. Everything else is as it was before.",
            path=str(kept),
        )


def _holds(path: Path, new_hash: str) -> bool:
    """Whether the new file came to its place; not one that a person put there meanwhile."""
    return path.is_file() and content_hash(path.read_bytes()) == new_hash


def _tidy(move: _Move) -> None:
    _leave_nothing(move.old, move)


def _leave_nothing(temporary: Path | None, move: _Move) -> None:
    """Remove a temporary file and empty folders. Those that cannot go harm nobody: a sweep takes them later."""
    with suppress(OSError):
        if temporary:
            temporary.unlink(missing_ok=True)
    with suppress(OSError):
        prune(move.path.parent, move.root)
