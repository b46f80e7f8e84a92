"""Checkpoints: the whole memory in one file, made by hand, once a day, and before what destroys.

A checkpoint holds the vault with its relations and everything durable of the journal, redacted. A purge takes what it
erases out of those in the project's folder too, never out of a backup elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.config import CONFIG_FILE
from scrimshaw.engine.core import CHECKPOINTS, GLOBAL, MEMORIES, Engine
from scrimshaw.errors import AlreadyExists, InvalidRequest, NotFound, UnusableArchive
from scrimshaw.ingest.redact import redact
from scrimshaw.models import SourceFile
from scrimshaw.storage import archive
from scrimshaw.storage.archive import Kept, Manifest, open_archive, write_archive
from scrimshaw.storage.durable import remove_file, storage_errors
from scrimshaw.storage.files import content_hash
from scrimshaw.storage.links import LINKS_FILE
from scrimshaw.storage.paths import SUFFIX, check_id, locate
from scrimshaw.storage.scan import Source, scan

EXTENSION = ".scrim"
AUTO, DAILY = "auto-", "auto-daily"
# spec-kit keeps the newest ten; dailies follow upon each other and three days are enough to notice.
KEPT, KEPT_DAILY = 10, 3
# Brought back where they are missing, never replaced: settings are no memory.
COMPANIONS = ("golden.toml", CONFIG_FILE)


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A checkpoint: `created` in seconds since 1970, counts of files and of rows by table.

    `left_out` are files that are no UTF-8 text, `dropped` older checkpoints that made room for it, `problem` says why
    it cannot be used.
    """

    name: str
    path: str
    created: float
    bytes: int
    files: int = 0
    rows: Mapping[str, int] = {}
    metadata: Mapping[str, str] = {}
    left_out: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    problem: str = ""


class Place(NamedTuple):
    """Where a file of an archive belongs; `key` is its name in the ledger, empty for what is not recorded there."""

    path: Path
    root: Path
    key: str


def create(
    engine: Engine, name: str, *, metadata: Mapping[str, str] | None = None, include_global: bool = False
) -> Checkpoint:
    """Make a checkpoint; the oldest of more than ten goes.

    Raises InvalidRequest for a name that cannot be used, AlreadyExists, VaultBusy, StorageFailure.
    """
    path = path_of(engine, name)
    if name.startswith(AUTO):
        raise InvalidRequest(
            f"Names that begin with {AUTO} are given by Scrimshaw.", "Choose another.", parameter="name"
        )
    if path.exists():
        raise AlreadyExists(f"There is a checkpoint {name!r} already.", "Choose another name, or delete it.")
    return _undisturbed(engine, lambda: take(engine, name, metadata=metadata, include_global=include_global))


def backup(engine: Engine, file: Path, *, include_global: bool = False) -> Checkpoint:
    """Write the memory to a file anywhere; raises AlreadyExists, VaultBusy, StorageFailure."""
    if file.exists():
        raise AlreadyExists(f"{file} exists.", "Name a new file.")
    return _undisturbed(engine, lambda: _write(engine, file, file.stem, {}, include_global))


def backup_if_due(engine: Engine) -> Checkpoint | None:
    """The first call of a day (UTC) makes a checkpoint, if there is anything to keep, any other does nothing.

    Raises VaultBusy, StorageFailure.
    """
    name = f"{DAILY}-{_moment(engine):%Y%m%d}"
    is_empty = not engine.journal.history(limit=1) and not engine.sessions.latest()
    if is_empty or path_of(engine, name).exists():
        return None
    return _undisturbed(engine, lambda: take(engine, name))


def before(engine: Engine, what: str) -> Checkpoint:
    """The automatic checkpoint before something that destroys, such as `delete`; raises VaultBusy, StorageFailure."""
    name = automatic_name(engine, what)
    return _undisturbed(engine, lambda: take(engine, name))


def _undisturbed(engine: Engine, write: Callable[[], Checkpoint]) -> Checkpoint:
    """Write without keeping other writers waiting; if one came in between, once more while they wait."""
    before_it = engine.journal.history(limit=1)
    made = write()
    if engine.journal.history(limit=1) == before_it:
        return made
    with engine.exclusive():
        return write()


def take(
    engine: Engine, name: str, *, metadata: Mapping[str, str] | None = None, include_global: bool = False
) -> Checkpoint:
    """Write a checkpoint and drop those it makes room for."""
    made = _write(engine, path_of(engine, name), name, metadata or {}, include_global)
    return replace(made, dropped=tuple(_drop_oldest(engine, name)))


def listed(engine: Engine, limit: int = KEPT) -> list[Checkpoint]:
    """The newest checkpoints, newest first; one that cannot be used says why."""
    return [_looked_at(engine, path) for path in newest_first(engine)[:limit]]


def newest_first(engine: Engine) -> list[Path]:
    """The files of all checkpoints."""
    found = engine.folder.joinpath(CHECKPOINTS).glob(f"*{EXTENSION}")
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name), reverse=True)


def delete(engine: Engine, name: str, confirm_name: str) -> Path:
    """Delete a checkpoint for good; raises InvalidRequest unless the name is given twice, NotFound."""
    path = path_of(engine, name)
    if confirm_name != name:
        raise InvalidRequest(
            f"{confirm_name!r} is not {name!r}.", "Repeat the name to delete it.", parameter="confirm_name"
        )
    if not path.exists():
        raise NotFound(f"There is no checkpoint {name!r}.", "See checkpoint_list.", name=name)
    with storage_errors("remove", path):
        remove_file(path, engine.folder)
    return path


def path_of(engine: Engine, name: str) -> Path:
    """The file of a checkpoint; raises InvalidMemoryId for a name that cannot be a file's."""
    if check_id(name) != name or "/" in name or redact(name).classes:
        raise InvalidRequest(f"{name!r} cannot name a checkpoint.", "Use letters, digits and dashes.", parameter="name")
    return engine.folder / CHECKPOINTS / f"{name}{EXTENSION}"


def automatic_name(engine: Engine, what: str) -> str:
    """A free name for an automatic checkpoint of a kind."""
    stamp, number = f"{AUTO}{what}-{_moment(engine):%Y%m%dT%H%M%SZ}", 1
    name = stamp
    while path_of(engine, name).exists():
        number += 1
        name = f"{stamp}.{number}"
    return name


def place(engine: Engine, name: str) -> Place:
    """Where a file of an archive belongs; raises UnusableArchive for a name that leads elsewhere, InvalidMemoryId."""
    if name in COMPANIONS:
        return Place(engine.settings.folder / name, engine.settings.folder, "")
    if name == LINKS_FILE:
        return Place(engine.settings.folder / name, engine.settings.folder, LINKS_FILE)
    top, _, inside = name.partition("/")
    source = _vaults(engine, include_global=True).get(top)
    if source is None or not inside.endswith(SUFFIX):
        raise UnusableArchive(f"It holds {name!r}, which has no place here.", "Use another one; nothing was changed.")
    memory_id = inside.removesuffix(SUFFIX)
    return Place(locate(source.root, memory_id), source.root.resolve(), f"{source.id_prefix}{memory_id}")


def present(engine: Engine, *, include_global: bool) -> Iterator[tuple[str, Path]]:
    """(name in an archive, path) of the files that a checkpoint would hold now."""
    for name in (LINKS_FILE, *COMPANIONS):
        if (path := engine.settings.folder / name).is_file():
            yield name, path
    for top, source in _vaults(engine, include_global=include_global).items():
        for file in scan(source, engine.limits()):
            if isinstance(file, SourceFile):
                yield f"{top}/{file.memory_id.removeprefix(source.id_prefix)}{SUFFIX}", Path(file.path)


def _vaults(engine: Engine, *, include_global: bool) -> dict[str, Source]:
    """The vaults by their folder in an archive."""
    project, user = engine.sources[0], engine.sources[-1]
    found = {MEMORIES: project}
    if include_global and user.id_prefix == GLOBAL:
        found["global"] = user
    return found


def _write(engine: Engine, path: Path, name: str, metadata: Mapping[str, str], include_global: bool) -> Checkpoint:
    clean = {redact(key).text: redact(value).text for key, value in metadata.items()}
    head = Manifest(
        format=archive.FORMAT,
        schema=engine.journal.schema(),
        name=name,
        created=engine.clock(),
        metadata=clean,
        parts={},
    )
    found = present(engine, include_global=include_global)
    files = (file for name, path in found if (file := _kept(name, path)))
    return _described(path, write_archive(path, head, files, engine.journal.dump()))


def _kept(name: str, path: Path) -> Kept | None:
    """A file with its text, redacted since a person may have written a secret; None if it is gone by now."""
    with storage_errors("read", path):
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
    try:
        return Kept(name=name, text=redact(raw.decode()), content_hash=content_hash(raw))
    except UnicodeDecodeError:
        return Kept(name=name, text=None, content_hash=content_hash(raw))


def _looked_at(engine: Engine, path: Path) -> Checkpoint:
    try:
        with open_archive(path, engine.journal.schema()) as opened:
            return _described(path, opened.manifest)
    except UnusableArchive as error:
        info = path.stat()
        name = path.name.removesuffix(EXTENSION)
        return Checkpoint(name=name, path=str(path), created=info.st_mtime, bytes=info.st_size, problem=error.message)


def _described(path: Path, manifest: Manifest) -> Checkpoint:
    return Checkpoint(
        name=manifest.name,
        path=str(path),
        created=manifest.created,
        bytes=path.stat().st_size,
        files=len(manifest.files),
        rows=manifest.rows,
        metadata=manifest.metadata,
        left_out=manifest.left_out,
    )


def _drop_oldest(engine: Engine, name: str) -> list[str]:
    """Remove the oldest checkpoints of the same kind; the names of those that went."""
    kind = _kind(name)
    names = [path.name.removesuffix(EXTENSION) for path in newest_first(engine)]
    same = [each for each in names if _kind(each) == kind]
    dropped = same[KEPT_DAILY if kind == DAILY else KEPT :]
    for each in dropped:
        with suppress(FileNotFoundError, PermissionError):  # gone, or being read: then the next one drops it
            path_of(engine, each).unlink()
    return dropped


def _kind(name: str) -> str:
    return name.rpartition("-")[0] if name.startswith(AUTO) else ""


def _moment(engine: Engine) -> datetime:
    return datetime.fromtimestamp(engine.clock(), UTC)
