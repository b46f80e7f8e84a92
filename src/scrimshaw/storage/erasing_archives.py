"""Taking a text, or a memory, out of a checkpoint: the archive is written anew without it, checksums and all."""

from __future__ import annotations

import base64
import lzma
import os
import secrets
import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from scrimshaw.errors import StorageFailure, UnusableArchive
from scrimshaw.models import Redacted
from scrimshaw.storage import sqlite_erasing, sqlite_tables
from scrimshaw.storage.archive import Archive, Kept, open_archive, write_archive
from scrimshaw.storage.durable import TEMP_PREFIX, storage_errors, sync_folder
from scrimshaw.storage.ports import Traces, Wipe

# What zipfile and the database say of bytes that nobody wrote on purpose.
_ODD = (lzma.LZMAError, struct.error, OverflowError, UnicodeError)


def count_in_archive(path: Path, schema: int, wipe: Wipe, names: Collection[str] = ()) -> int:
    """How many rows, files and notes of an archive hold it; files of these `names` do. Raises UnusableArchive."""
    with _opened(path, schema) as archive:
        return sum(_finds(archive, wipe, names))


def is_in_archive(path: Path, schema: int, wipe: Wipe, names: Collection[str] = ()) -> bool:
    """Whether any does, read as far as the first of them. Raises UnusableArchive."""
    with _opened(path, schema) as archive:
        return any(name in names for name in archive.manifest.files) or any(_finds(archive, wipe, names))


def texts_in_archive(path: Path, schema: int, names: Collection[str]) -> list[str]:
    """The files of these names in an archive; raises UnusableArchive."""
    with _opened(path, schema) as archive:
        return [archive.text(name) for name in archive.manifest.files if name in names]


def erase_in_archive(
    path: Path, schema: int, wipe: Wipe, names: Collection[str], redact: Callable[[str], Redacted]
) -> None:
    """Write an archive anew without it, as new as it was. Raises UnusableArchive, StorageFailure; then it is as before.

    Its rows are laid in a database of their own, so that they are erased as those of the journal are.
    """
    info = path.stat()
    new = path.with_name(f"{TEMP_PREFIX}{secrets.token_hex(8)}")
    with TemporaryDirectory(dir=path.parent, prefix=TEMP_PREFIX) as scratch:
        with _opened(path, schema) as archive:
            rows = sqlite_tables.stage(Path(scratch) / "rows.db", archive.manifest.schema, archive.rows())
            try:
                with rows.write() as write:
                    sqlite_erasing.erase(write, wipe)
                notes = {_clean(key, wipe): _clean(text, wipe) for key, text in archive.manifest.metadata.items()}
                head = replace(
                    archive.manifest, schema=schema, name=_clean(archive.manifest.name, wipe), metadata=notes
                )
                write_archive(new, head, _files(archive, wipe, names, redact), sqlite_tables.dump(rows))
            finally:
                rows.close()
        with storage_errors("write", path):
            os.utime(new, ns=(info.st_atime_ns, info.st_mtime_ns))
            new.replace(path)
            sync_folder(path.parent)


@contextmanager
def _opened(path: Path, schema: int) -> Iterator[Archive]:
    """Open an archive; what its odd bytes raise is UnusableArchive."""
    try:
        with open_archive(path, schema) as archive:
            yield archive
    except _ODD as error:
        why = type(error).__name__
        raise UnusableArchive(f"{path.name} cannot be used: it is damaged ({why}).", path=str(path)) from error
    except StorageFailure as error:
        if error.details.get("errno", 0) is None:  # no word of the disk's: bz2 says so of damaged bytes
            raise UnusableArchive(f"{path.name} cannot be used: it is damaged.", path=str(path)) from error
        raise


def _finds(archive: Archive, wipe: Wipe, names: Collection[str]) -> Iterator[bool]:
    """Of every file, note and row whether it holds it."""
    for name in archive.manifest.files:
        yield name in names or wipe.traces.count(_file(archive, name)) > 0
    for text in _notes(archive):
        yield wipe.traces.count(text.encode()) > 0
    for table, row in archive.rows():
        yield _holds(table, row, wipe)


def _files(archive: Archive, wipe: Wipe, names: Collection[str], redact: Callable[[str], Redacted]) -> Iterator[Kept]:
    for name, part in archive.manifest.files.items():
        if name not in names:
            before = archive.text(name)
            after = _clean(before, wipe)
            original = part.original or part.sha256 if after == before else ""
            yield Kept(name=_clean(name, wipe), text=redact(after), content_hash=original)
    for name in archive.manifest.left_out:
        if name not in names:
            yield Kept(name=_clean(name, wipe), text=None, content_hash="")


def _file(archive: Archive, name: str) -> bytes:
    return f"{name}\n{archive.text(name)}".encode()


def _notes(archive: Archive) -> tuple[str, ...]:
    head = archive.manifest
    return (head.name, *head.metadata, *head.metadata.values(), *head.left_out)


def _clean(text: str, wipe: Wipe) -> str:
    return wipe.traces.erase(text.encode()).decode(errors="replace")


def _holds(table: str, row: Mapping[str, Any], wipe: Wipe) -> bool:
    return sqlite_erasing.is_owned(table, row, wipe) or any(
        _count(value, wipe.traces) for value in row.values() if isinstance(value, str)
    )


def _count(value: str, traces: Traces) -> int:
    """In a value, and in the bytes for which it may stand as base64."""
    found = traces.count(value.encode())
    if found or len(value) % 4:
        return found
    try:
        return traces.count(base64.b64decode(value, validate=True))
    except ValueError:  # binascii.Error is one; other letters than ASCII raise the plain one
        return 0
