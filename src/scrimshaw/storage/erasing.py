"""Finding a text in files of any kind, and removing it: from their bytes, their names, and rewritten checkpoints."""

import base64
import os
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, suppress
from enum import StrEnum
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from msgspec.structs import replace

from scrimshaw.config import NO_PROJECT, PROJECT_FOLDER, TEAM
from scrimshaw.models import PURGED, Redacted, Traces, Wipe
from scrimshaw.storage.archive import Archive, ArchivedFile, open_archive, write_archive
from scrimshaw.storage.durable import TEMP_PREFIX, prune, read_if_there, storage_errors, sync_folder, temporary_of
from scrimshaw.storage.maintenance import owners
from scrimshaw.storage.sqlite.maintenance import SqliteMaintenance, dump, stage

_DATABASES = frozenset(name + end for name in ("index.db", "journal.db") for end in ("", "-wal", "-shm", "-journal"))
_SPLIT = "cannot be searched: a text may be split over the pages of a database"
_SQLITE, _ZIP = b"SQLite format 3\0", b"PK"
_Redact = Callable[[str], Redacted]


class Kind(StrEnum):
    """How a text is removed from a file."""

    DATABASE = "database"  # row by row, through its port
    ARCHIVE = "archive"  # rewritten without it
    TEXT = "text"  # cut out of its bytes
    SCRATCH = "scratch"  # with the file, which is not needed
    DAMAGED = "damaged"  # with the file: a text may be split over its pages
    LINK = "link"  # with the link, if the path in it contains the text
    NAME = "name"  # from the name: a folder, or anything but a file
    GIT = "git"  # never: only git may change it


class SearchedFile(NamedTuple):
    """A file below a root folder: its size in bytes, how often the text is in its name and in its bytes."""

    path: Path
    root: Path
    kind: Kind
    size: int
    named: int
    inside: int
    doubt: str = ""  #: why the search is inconclusive, otherwise empty

    @property
    def traces(self) -> int:
        """How often the text is in it."""
        return self.named + self.inside


def search_folder(root: Path, traces: Traces) -> Iterator[SearchedFile]:
    """Search names and bytes of the files below a folder, and the paths in links. Raises StorageFailure."""
    for path in list_files_below(root):
        with storage_errors("read", path):
            data = os.fsencode(path.readlink()) if path.is_symlink() else read_bytes(path)
        kind, doubt = _classify(path, root, data)
        named = traces.count(os.fsencode(path.relative_to(root)))
        inside = 0 if kind is Kind.ARCHIVE else traces.count(data)  # packed bytes look like anything
        yield SearchedFile(path, root, kind, len(data), named, inside, doubt)


def _classify(path: Path, root: Path, data: bytes) -> tuple[Kind, str]:
    """How the text is removed from a file, and why a search of it is inconclusive."""
    parts, name = path.relative_to(root).parts, path.name
    is_packed, is_sqlite = data.startswith((_SQLITE, _ZIP)), data.startswith(_SQLITE)
    is_journal = name.startswith("journal.db.damaged-") and not name.endswith("-shm")
    is_scratch = any(part.startswith(TEMP_PREFIX) for part in parts)
    folders = (root, root / TEAM, root / NO_PROJECT / PROJECT_FOLDER)
    kinds = (
        (path.parent in folders and name in _DATABASES, Kind.DATABASE, ""),
        (".git" in parts, Kind.GIT, ""),
        (path.is_symlink(), Kind.LINK, ""),
        (not path.is_file(), Kind.NAME, ""),
        (is_scratch, Kind.SCRATCH, "it is being written, or was left by a killed process" if is_packed else ""),
        (path.suffix == ".scrim", Kind.ARCHIVE, ""),
        (is_sqlite or (is_journal and data.strip(b"\0")), Kind.DAMAGED, _SPLIT),
    )
    return next(((kind, doubt) for applies, kind, doubt in kinds if applies), (Kind.TEXT, ""))


def list_files_below(root: Path) -> Iterator[Path]:
    """Every file below a folder, every link, which is not followed, and every empty folder. Raises StorageFailure."""
    with storage_errors("look into", root):
        for folder, inside, names in os.walk(root, onerror=_raise_unless_gone):
            inside.sort()
            links = [name for name in inside if Path(folder, name).is_symlink()]
            yield from (Path(folder) / name for name in sorted([*names, *links]))
            if not inside and not names and Path(folder) != root:
                yield Path(folder)


def _raise_unless_gone(error: OSError) -> None:
    """A missing folder contains nothing; an unreadable one may."""
    if not isinstance(error, FileNotFoundError):
        raise error


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, empty if it is gone; raises StorageFailure."""
    with storage_errors("read", path):
        return (read_if_there(path) if path.is_file() else None) or b""


def rename_clean(path: Path, root: Path, traces: Traces) -> None:
    """Rename a file if the text is in its name. Raises StorageFailure."""
    if (new := clean_path(path, root, traces)) != path:
        with storage_errors("rename", path.parent):
            new.parent.mkdir(parents=True, exist_ok=True)
            path.rename(new)
            sync_folder(new.parent)
            prune(path.parent, root)


def clean_path(path: Path, root: Path, traces: Traces) -> Path:
    """The path without the text, numbered if that is taken; the same path if it is clean."""
    name = os.fsencode(path.relative_to(root))
    if (clean := traces.erase(name)) == name:
        return path
    new = root / os.fsdecode(clean.replace(PURGED.encode(), b"redacted-purged"))
    names = chain([new], (new.with_name(f"{new.stem}-{number}{new.suffix}") for number in count(2)))
    return next(path for path in names if not os.path.lexists(path))


def count_in_archive(path: Path, schema: int, wipe: Wipe, names: Collection[str] = ()) -> int:
    """How many rows, files and notes of an archive have it; files of these `names` count. Raises UnusableArchive."""
    with open_archive(path, schema) as archive:
        head = archive.manifest
        notes = (head.name, *head.metadata, *head.metadata.values(), *head.left_out)
        found = sum(wipe.traces.count(text.encode()) > 0 for text in notes)
        for name in head.files:
            found += name in names or wipe.traces.count(f"{name}\n{archive.text(name)}".encode()) > 0
        for table, row in archive.rows():
            texts = [value.encode() for value in row.values() if isinstance(value, str)]
            for text in tuple(texts):
                with suppress(ValueError):  # it may be bytes in base64
                    texts.append(base64.b64decode(text, validate=True))
            owned = any(row.get(column) in values for column, values in owners(table, wipe).items())
            found += owned or any(map(wipe.traces.count, texts))
        return found


def remake_archive(path: Path, schema: int, wipe: Wipe, names: Collection[str], redact: _Redact) -> None:
    """Rewrite an archive without the text, keeping its age; it stays as it was if this raises."""
    info, new, mask = path.stat(), temporary_of(path), wipe.traces.mask
    with TemporaryDirectory(dir=path.parent, prefix=TEMP_PREFIX) as scratch, open_archive(path, schema) as archive:
        head = archive.manifest
        with closing(stage(Path(scratch) / "rows.db", head.schema, archive.rows())) as rows:
            with rows.write() as write:
                SqliteMaintenance.erase_rows(write, wipe)
            notes = {mask(key): mask(text) for key, text in head.metadata.items()}
            head = replace(head, schema=schema, name=mask(head.name), metadata=notes)
            write_archive(new, head, _clean_files(archive, wipe, names, redact), dump(rows))
    with storage_errors("write", path):
        os.utime(new, ns=(info.st_atime_ns, info.st_mtime_ns))
        new.replace(path)
        sync_folder(path.parent)


def _clean_files(archive: Archive, wipe: Wipe, names: Collection[str], redact: _Redact) -> Iterator[ArchivedFile]:
    parts = archive.manifest.files
    for name in (each for each in (*parts, *archive.manifest.left_out) if each not in names):
        text, original = None, ""
        if part := parts.get(name):
            before = archive.text(name)
            text = redact(after := wipe.traces.mask(before))
            original = part.original or part.sha256 if after == before else ""
        yield ArchivedFile(name=wipe.traces.mask(name), text=text, content_hash=original)
