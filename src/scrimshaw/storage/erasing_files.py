"""Taking a text out of files, whatever they are, and looking for it in every byte of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from scrimshaw.models import PURGED
from scrimshaw.storage.durable import TEMP_PREFIX, prune, replace_file, storage_errors, sync_folder
from scrimshaw.storage.packed import MOST_BYTES, Closed, is_packed, is_squeezed, unpacked
from scrimshaw.storage.ports import Traces

ARCHIVE_SUFFIX = ".scrim"
_DATABASES = frozenset(name + end for name in ("index.db", "journal.db") for end in ("", "-wal", "-shm", "-journal"))
_DERIVED = "index.db."
# Moved away by a recovery. A long text in it is cut over pages, and only a sound one says which.
_DAMAGED, _SHARED = "journal.db.damaged-", "-shm"
_GIT = ".git"
_NAME = "redacted-purged"
# Behind links that lead elsewhere no more is searched: somebody may have linked a whole disk.
MOST_LINKED = 2_000


class Kind(StrEnum):
    """How a text is taken out of a file: out of rows, parts or bytes, with the file, out of its name, or by nobody."""

    DATABASE = "database"
    ARCHIVE = "archive"
    TEXT = "text"
    SCRATCH = "scratch"
    SEALED = "sealed"
    LINK = "link"
    NAME = "name"
    FOREIGN = "foreign"


class Searched(NamedTuple):
    """A file that was searched: its size in bytes, how often the text stands in its name and inside, packed or not.

    `closed` says why it could not be looked into, empty where it was.
    """

    path: Path
    size: int
    named: int
    inside: int
    closed: str = ""

    @property
    def traces(self) -> int:
        """In its name and inside."""
        return self.named + self.inside


def files_below(root: Path) -> Iterator[Path]:
    """Every file below a folder, every link, which is not followed, and every empty folder. Raises StorageFailure."""
    with storage_errors("look into", root):
        for folder, inside, names in os.walk(root, onerror=_refused):
            inside.sort()
            links = [name for name in inside if Path(folder, name).is_symlink()]
            yield from (Path(folder) / name for name in sorted([*names, *links]))
            if not inside and not names and Path(folder) != root:
                yield Path(folder)


def _refused(error: OSError) -> None:
    """A folder that has gone holds nothing; one that cannot be read may."""
    if not isinstance(error, FileNotFoundError):
        raise error


def kind_of(path: Path, root: Path) -> Kind:
    """How a text is taken out of a file. Raises StorageFailure."""
    parts = path.relative_to(root).parts
    if path.parent == root and path.name in _DATABASES:
        return Kind.DATABASE
    if _GIT in parts:
        return Kind.FOREIGN
    if path.is_symlink():
        return Kind.LINK
    if not path.is_file():
        return Kind.NAME
    if path.name.startswith(_DERIVED) or any(part.startswith(TEMP_PREFIX) for part in parts):
        return Kind.SCRATCH
    if path.suffix == ARCHIVE_SUFFIX:
        return Kind.ARCHIVE
    data = contents(path)
    return Kind.SEALED if is_packed(data) or _is_torn(path, data) else Kind.TEXT


def _is_torn(path: Path, data: bytes) -> bool:
    """Whether these are pages of a damaged journal that does not begin as a database any more."""
    is_journal = path.name.startswith(_DAMAGED) and not path.name.endswith(_SHARED)
    return is_journal and bool(data.strip(b"\0")) and not is_packed(data)


def contents(path: Path) -> bytes:
    """The bytes of a file, none of one that has gone; raises StorageFailure."""
    with storage_errors("read", path):
        try:
            return path.read_bytes() if path.is_file() else b""
        except FileNotFoundError:
            return b""


def search(path: Path, root: Path, traces: Traces, kind: Kind, *, is_literal: bool = True) -> Searched:
    """Look through a file: its name, its bytes as they are, and what is packed in it, unless it is an archive of ours.

    Of a link this is the path it leads to. What an expression describes is not looked for in squeezed bytes, which look
    like anything. Raises StorageFailure.
    """
    named = traces.count(os.fsencode(path.relative_to(root)))
    if kind is Kind.LINK:
        leads = _leads(path)
        return Searched(path, len(leads), named, traces.count(leads))
    if kind is Kind.NAME:
        return Searched(path, 0, named, 0)
    return _searched(path, contents(path), named, traces, kind, is_literal=is_literal)


def search_outside(link: Path, roots: Sequence[Path], traces: Traces, *, is_literal: bool = True) -> Iterator[Searched]:
    """Look through what a link leads to outside of these folders, following further links; nothing where that is clean.

    What cannot be read, is too large, or comes after the first MOST_LINKED is told as closed.
    """
    waiting, seen = [Path(os.path.realpath(link))], set[Path]()
    while waiting:
        path = waiting.pop()
        if path in seen or any(path.is_relative_to(root) for root in roots):
            continue
        if len(seen) == MOST_LINKED:
            yield Searched(
                path, 0, 0, 0, f"more than {MOST_LINKED} files are linked: this and others were not searched"
            )
            return
        seen.add(path)
        found = _outside(path, traces, waiting, is_literal=is_literal)
        if found.traces or found.closed:
            yield found


def _outside(path: Path, traces: Traces, waiting: list[Path], *, is_literal: bool) -> Searched:
    named = traces.count(os.fsencode(path))
    try:
        if path.is_dir():
            waiting += (Path(os.path.realpath(each)) for each in sorted(path.iterdir(), reverse=True))
            return Searched(path, 0, named, 0)
        if not path.is_file():
            return Searched(path, 0, named if path.exists() else 0, 0)
        if path.stat().st_size > MOST_BYTES:
            return Searched(path, 0, named, 0, f"it has more than {MOST_BYTES} bytes")
        return _searched(path, path.read_bytes(), named, traces, Kind.FOREIGN, is_literal=is_literal)
    except OSError as error:
        return Searched(path, 0, named, 0, f"it cannot be read: {error.strerror}")


def _searched(path: Path, data: bytes, named: int, traces: Traces, kind: Kind, *, is_literal: bool) -> Searched:
    inside, closed = 0, ""
    if is_literal or not (kind is Kind.ARCHIVE or is_squeezed(data)):
        inside += traces.count(data)
    if kind in (Kind.SEALED, Kind.FOREIGN, Kind.SCRATCH):
        try:
            for part in unpacked(data):
                inside += traces.count(part)
        except Closed as error:
            closed = str(error)
    if kind is Kind.SEALED and _is_torn(path, data):
        closed = "it is damaged"
    return Searched(path, len(data), named, inside, closed)


def _leads(link: Path) -> bytes:
    """The path that a link leads to, as it is written."""
    with storage_errors("read", link):
        return os.fsencode(link.readlink())


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
    name = os.fsencode(path.relative_to(root))
    clean = traces.erase(name)
    if clean == name:
        return path
    new = root / os.fsdecode(clean.replace(PURGED.encode(), _NAME.encode()))
    taken, number = new, 1
    while os.path.lexists(new):
        number += 1
        new = taken.with_name(f"{taken.stem}-{number}{taken.suffix}")
    return new
