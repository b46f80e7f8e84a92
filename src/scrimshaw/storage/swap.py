"""Several files changed as one, beside a database that has the last word.

A marker is written first: it tells a later process what a killed one was doing. Then new files are written beside their
places, so that the disk cannot be full later, and the places change by renames. If the database agreed, the rest is
tidied up, else every rename is taken back. Hold the vault's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from scrimshaw.models import Redacted
from scrimshaw.storage.durable import (
    TEMP_PREFIX,
    prune,
    replace_file,
    stage_file,
    storage_errors,
    sync_folder,
    temporary_of,
)
from scrimshaw.storage.files import content_hash

MARKER = TEMP_PREFIX + "swap.json"


class Change(NamedTuple):
    """What shall stand at `path`, None for nothing; folders that this empties go, below `root`."""

    path: Path
    root: Path
    text: Redacted | None


class _Move(Struct, frozen=True):
    """A change as planned: `new` will hold what comes, with its hash, `old` what goes; each is "" for nothing."""

    path: str
    root: str
    new: str
    new_hash: str
    old: str


class _Marker(Struct, frozen=True):
    mark: str
    moves: tuple[_Move, ...]


@contextmanager
def swapped(folder: Path, mark: str, changes: Iterable[Change]) -> Iterator[None]:
    """Files are changed while the block runs, and stay so if it ends; when it raises all is as before.

    The block commits `mark` where `recover` will ask for it. Raises StorageFailure.
    """
    planned = [(change, _planned(change)) for change in changes]
    moves = tuple(move for _, move in planned)
    try:
        with storage_errors("change files below", folder):
            replace_file(folder / MARKER, msgspec.json.encode(_Marker(mark, moves)))
            for change, move in planned:
                _stage(change, move)
            for move in moves:
                _go(move)
        yield
    except BaseException:
        _take_back(moves)
        (folder / MARKER).unlink(missing_ok=True)
        raise
    _tidy(moves)
    (folder / MARKER).unlink(missing_ok=True)


def recover(folder: Path, agreed: Callable[[str], bool]) -> None:
    """End what a killed process left half done; `agreed` tells whether a mark was committed."""
    try:
        found = msgspec.json.decode((folder / MARKER).read_bytes(), type=_Marker)
    except FileNotFoundError:
        return
    with storage_errors("recover files below", folder):
        (_tidy if agreed(found.mark) else _take_back)(found.moves)
        (folder / MARKER).unlink(missing_ok=True)


def is_interrupted(folder: Path) -> bool:
    """Whether a swap is going on, or was left half done."""
    return (folder / MARKER).exists()


def _planned(change: Change) -> _Move:
    path = change.path
    return _Move(
        path=str(path),
        root=str(change.root),
        new="" if change.text is None else str(temporary_of(path)),
        new_hash="" if change.text is None else content_hash(_data(change.text)),
        old=str(temporary_of(path)) if path.exists() else "",
    )


def _data(text: Redacted) -> bytes:
    return text.text.encode(errors="replace")


def _stage(change: Change, move: _Move) -> None:
    if change.text is not None:
        stage_file(change.path, _data(change.text), temporary=Path(move.new))


def _go(move: _Move) -> None:
    path = Path(move.path)
    if move.old:
        path.replace(move.old)
    if move.new:
        Path(move.new).replace(path)
    sync_folder(path.parent)


def _take_back(moves: Sequence[_Move]) -> None:
    """Undo what was done of the moves, as many times as it takes."""
    for move in moves:
        path = Path(move.path)
        if move.old and Path(move.old).exists():
            Path(move.old).replace(path)
        elif not move.old and _holds(path, move.new_hash):
            path.unlink()
        if move.new:
            Path(move.new).unlink(missing_ok=True)
        prune(path.parent, Path(move.root))


def _holds(path: Path, new_hash: str) -> bool:
    """Whether the new file came to its place; not one that a person put there meanwhile."""
    return path.is_file() and content_hash(path.read_bytes()) == new_hash


def _tidy(moves: Sequence[_Move]) -> None:
    for move in moves:
        if move.old:
            Path(move.old).unlink(missing_ok=True)
        prune(Path(move.path).parent, Path(move.root))
