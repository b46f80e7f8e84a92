"""A checkpoint in one file: files and table rows in a ZIP, each with its SHA-256 in a manifest.

The manifest's own SHA-256 is the comment of the ZIP. `files/NAME` are files, `tables/NAME.jsonl` rows, one a line.
"""

import errno
import hashlib
import lzma
import os
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from scrimshaw.errors import NotFound, StorageFailure, UnusableArchive
from scrimshaw.models import Redacted, content_hash
from scrimshaw.storage import durable
from scrimshaw.storage.durable import storage_errors

FORMAT = 1
LATEST = 253_402_300_799.0  # the last second of the year 9999, the limit of `datetime`

_MANIFEST = "manifest.json"
_FILES, _TABLES, _JSONL = "files/", "tables/", ".jsonl"
_UNREADABLE = (
    zipfile.BadZipFile, zlib.error, struct.error, lzma.LZMAError, msgspec.MsgspecError, EOFError, KeyError,
    OverflowError, RuntimeError, ValueError,
)  # fmt: skip
# Limits for parts read as a whole. A few bytes can unpack to a thousand times as many, so sizes are checked first.
_LARGEST_LINE = 64 * 1024 * 1024  # of a table; of the manifest: a larger one names more than a hundred thousand files
_LARGEST_TEXTS = 512 * 1024 * 1024  # all files together, which a restore keeps in memory: 200,000 memories


class ArchivePart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An entry of an archive; `size` is in bytes."""

    sha256: str
    size: int
    rows: int = 0  #: the number of a table's rows
    original: str = ""  #: a file's hash before it was redacted


class Manifest(Struct, frozen=True, kw_only=True):
    """What an archive holds. `created` is seconds since 1970, `schema` that of the rows, `left_out` names files."""

    format: int
    schema: int
    created: Annotated[float, Meta(ge=0, le=LATEST)]
    name: str
    metadata: Mapping[str, str]
    parts: Mapping[str, ArchivePart]
    left_out: tuple[str, ...] = ()

    @property
    def files(self) -> dict[str, ArchivePart]:
        return {name.removeprefix(_FILES): part for name, part in self.parts.items() if name.startswith(_FILES)}

    @property
    def rows(self) -> dict[str, int]:
        """The number of rows by table."""
        found = {name: part.rows for name, part in self.parts.items() if name.startswith(_TABLES)}
        return {name.removeprefix(_TABLES).removesuffix(_JSONL): rows for name, rows in found.items()}


class ArchivedFile(Struct, frozen=True, kw_only=True):
    """A file for an archive: its name, its text (None: left out, only named), and its hash on disk."""

    name: str
    text: Redacted | None
    content_hash: str


class Archive(NamedTuple):
    """An open archive whose manifest is intact; parts are checked when they are read."""

    path: Path
    manifest: Manifest
    zip: zipfile.ZipFile

    def text(self, name: str) -> str:
        """A file; raises UnusableArchive."""
        part = self.manifest.parts[_FILES + name]
        with _refusals(self.path), self.zip.open(_FILES + name) as stream:
            data = stream.read(part.size + 1)
            if content_hash(data) != part.sha256:
                raise _unusable(self.path, f"{name!r} is not what was written")
            return data.decode()

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """(table, row) of all tables, bytes as base64; raises UnusableArchive, at the latest at the end of a table."""
        for table, expected in self.manifest.rows.items():
            name = f"{_TABLES}{table}{_JSONL}"
            digest, count = hashlib.sha256(), 0
            with _refusals(self.path), self.zip.open(name) as stream:
                while line := stream.readline(_LARGEST_LINE):
                    if len(line) >= _LARGEST_LINE:
                        raise _unusable(self.path, f"the table {table} has a row that is far too large")
                    digest.update(line)
                    count += 1
                    yield table, msgspec.json.decode(line, type=dict[str, Any])
            if (digest.hexdigest(), count) != (self.manifest.parts[name].sha256, expected):
                raise _unusable(self.path, f"the table {table} is not what was written")


def write_archive(
    path: Path, head: Manifest, files: Iterable[ArchivedFile], rows: Iterable[tuple[str, Mapping[str, Any]]]
) -> Manifest:
    """Write an archive durably, all or nothing, readable by its owner only; returns its manifest, with the parts."""
    temporary, parts, left_out = durable.temporary_of(path), dict[str, ArchivePart](), list[str]()
    with storage_errors("write", path):
        # Only this one: a checkpoint of a project that was just moved must not make the old folders again.
        path.parent.mkdir(durable.PRIVATE_FOLDER, exist_ok=True)
        durable.sync_folder(path.parent.parent)
        try:
            durable.make_private(temporary)
            with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as opened:
                for file in files:
                    if file.text is None:
                        left_out.append(file.name)
                        continue
                    part = _write_part(opened, _FILES + file.name, [file.text.text.encode()])
                    original = "" if part.sha256 == file.content_hash else file.content_hash
                    parts[_FILES + file.name] = replace(part, rows=0, original=original)
                for table, group in groupby(rows, key=itemgetter(0)):
                    lines = (msgspec.json.encode(row) + b"\n" for _, row in group)
                    parts[f"{_TABLES}{table}{_JSONL}"] = _write_part(opened, f"{_TABLES}{table}{_JSONL}", lines)
                manifest = replace(head, parts=parts, left_out=tuple(left_out))
                part = _write_part(opened, _MANIFEST, [msgspec.json.encode(manifest)])
                opened.comment = part.sha256.encode()
            with temporary.open("rb+") as file_on_disk:
                os.fsync(file_on_disk.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        durable.sync_folder(path.parent)
    return manifest


def _write_part(opened: zipfile.ZipFile, name: str, chunks: Iterable[bytes]) -> ArchivePart:
    """Write an entry without a time: the manifest has it, and ZIP times begin in 1980."""
    member, digest, size, count = zipfile.ZipInfo(name), hashlib.sha256(), 0, 0
    member.compress_type = zipfile.ZIP_DEFLATED
    with opened.open(member, "w", force_zip64=name.startswith(_TABLES)) as stream:
        for count, chunk in enumerate(chunks, start=1):  # noqa: B007 - the last number is the count
            size += stream.write(chunk)
            digest.update(chunk)
    return ArchivePart(sha256=digest.hexdigest(), size=size, rows=count)


@contextmanager
def open_archive(path: Path, schema: int) -> Iterator[Archive]:
    """Open an archive of at most this schema; raises NotFound, UnusableArchive."""
    with _open_zip(path) as (opened, manifest):
        if manifest.format > FORMAT or manifest.schema > schema:
            raise _unusable(path, "it was made by a newer version", "Update Scrimshaw, then try again.")
        if sorted(opened.namelist()) != sorted([_MANIFEST, *manifest.parts]):
            raise _unusable(path, "it does not hold what its manifest names")
        if sum(each.file_size for each in opened.infolist() if each.filename.startswith(_FILES)) > _LARGEST_TEXTS:
            raise _unusable(path, f"its files would unpack to more than {_LARGEST_TEXTS >> 20} MB")
        yield Archive(path, manifest, opened)


def read_age(path: Path) -> tuple[bool, int, float]:
    """Whether an archive, even of a newer version, can be read, the length of its ledger, and when it was made."""
    with suppress(NotFound, UnusableArchive, StorageFailure), _open_zip(path) as (_, manifest):
        return True, manifest.rows.get("ledger", 0), manifest.created
    return False, 0, 0.0


@contextmanager
def _open_zip(path: Path) -> Iterator[tuple[zipfile.ZipFile, Manifest]]:
    if not path.is_file():
        raise NotFound(f"There is no {path}.", "See `scrimshaw checkpoint list`.", path=str(path))
    with _refusals(path):
        opened = zipfile.ZipFile(path)
    with opened:
        with _refusals(path):
            if opened.getinfo(_MANIFEST).file_size > _LARGEST_LINE:
                raise _unusable(path, "its manifest is far too large")
            data = opened.read(_MANIFEST)
            if content_hash(data).encode() != opened.comment:
                raise _unusable(path, "its manifest does not have the checksum it was written with")
            manifest = msgspec.json.decode(data, type=Manifest)
        yield opened, manifest


@contextmanager
def _refusals(path: Path) -> Iterator[None]:
    """Turn errors of unpacking or decoding into UnusableArchive, and those of the disk into StorageFailure."""
    try:
        with storage_errors("read", path):
            yield
    except _UNREADABLE as error:
        raise _unusable(path, f"it is damaged or cut off ({error})") from error
    except StorageFailure as error:
        if error.details["errno"] in (errno.EINVAL, None):  # an impossible position in the file; damaged bytes
            raise _unusable(path, "it is damaged or cut off") from error
        raise


def _unusable(path: Path, why: str, hint: str = "Use another one; nothing was changed.") -> UnusableArchive:
    return UnusableArchive(f"{path.name} cannot be used: {why}.", hint, path=str(path))
