"""Taking a text out of files, whatever they are, and looking for it in every byte of a folder."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from scrimshaw.models import PURGED
from scrimshaw.storage.durable import TEMP_PREFIX, prune, replace_file, storage_errors, sync_folder
from scrimshaw.storage.ports import Traces

ARCHIVE_SUFFIX = ".scrim"
_DATABASES = frozenset(name + end for name in ("index.db", "journal.db") for end in ("", "-wal", "-shm", "-journal"))
_DERIVED = "index.db."
# SQLite, ZIP, gzip: a text cannot be cut out of them without breaking them.
_SEALED = (b"SQLite format 3\0", b"PK\x03\x04", b"\x1f\x8b")
# The first bytes of a write-ahead log of SQLite, whichever end its numbers begin with.
_LOG = b"7\x7f\x06"
_NAME = "redacted-purged"
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, ValueError)


class Kind(StrEnum):
    """How a text is taken out of a file: out of rows, parts or bytes, or with the file."""

    DATABASE = "database"
    ARCHIVE = "archive"
    TEXT = "text"
    SCRATCH = "scratch"
    SEALED = "sealed"


class Searched(NamedTuple):
    """A file that was searched: how large it is in bytes, and how often the text stands in it, its name included."""

    path: Path
    size: int
    traces: int


def files_below(root: Path) -> Iterator[Path]:
    """Every file below a folder, links to files as well; folders behind links are not entered."""
    for folder, inside, names in os.walk(root):
        inside.sort()
        yield from (Path(folder) / name for name in sorted(names))


def kind_of(path: Path, root: Path) -> Kind:
    """How a text is taken out of a file. Raises StorageFailure."""
    if path.parent == root and path.name in _DATABASES:
        return Kind.DATABASE
    if path.name.startswith(_DERIVED) or any(part.startswith(TEMP_PREFIX) for part in path.relative_to(root).parts):
        return Kind.SCRATCH
    if path.suffix == ARCHIVE_SUFFIX:
        return Kind.ARCHIVE
    is_sealed = path.is_symlink() or contents(path).startswith(_SEALED)
    return Kind.SEALED if is_sealed else Kind.TEXT


def contents(path: Path) -> bytes:
    """The bytes of a file, none of one that has gone; raises StorageFailure."""
    with storage_errors("read", path):
        try:
            return path.read_bytes() if path.is_file() else b""
        except FileNotFoundError:
            return b""


def is_packed(path: Path) -> bool:
    """Whether a text may stand in a file and not be found in its bytes: squeezed, or cut over its pages."""
    return contents(path).startswith((*_SEALED, _LOG))


def search(path: Path, root: Path, traces: Traces, kind: Kind, *, is_literal: bool = True) -> Searched:
    """Look through a file: its name, its bytes as they are, and those of the parts of a ZIP.

    What an expression describes is not looked for in an archive, where squeezed bytes look like anything.
    """
    data = contents(path)
    count = traces.count(path.relative_to(root).as_posix().encode(errors="replace"))
    if is_literal or kind is not Kind.ARCHIVE:
        count += traces.count(data) + (_in_parts(path, traces) if data.startswith(b"PK") else 0)
    return Searched(path, len(data), count)


def erase_in_file(path: Path, traces: Traces) -> None:
    """Put the marker in the place of every trace in a file, durably. Raises StorageFailure."""
    with storage_errors("write", path):
        replace_file(path, traces.erase(contents(path)))


def rename_away(path: Path, root: Path, traces: Traces) -> Path:
    """Give a file another name where the text stands in it; the name it has then. Raises StorageFailure."""
    new = free_name(path, root, traces)
    if new != path:
        with storage_errors("rename", path.parent):
            new.parent.mkdir(parents=True, exist_ok=True)
            path.rename(new)
            sync_folder(new.parent)
            prune(path.parent, root)
    return new


def free_name(path: Path, root: Path, traces: Traces) -> Path:
    """The path without the text, and with a number where that is taken; the same path where it is clean."""
    name = path.relative_to(root).as_posix()
    clean = traces.erase(name.encode(errors="replace")).decode(errors="replace")
    if clean == name:
        return path
    new = root / clean.replace(PURGED, _NAME)
    taken, number = new, 1
    while new.exists():
        number += 1
        new = taken.with_name(f"{taken.stem}-{number}{taken.suffix}")
    return new


def _in_parts(path: Path, traces: Traces) -> int:
    """In the parts of a ZIP; what is none, or broken, has no parts."""
    try:
        with zipfile.ZipFile(path) as opened:
            return sum(traces.count(name.encode()) + traces.count(opened.read(name)) for name in opened.namelist())
    except (*_BROKEN, OSError):
        return 0
