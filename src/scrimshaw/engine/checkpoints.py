"""Checkpoints: the whole memory in one file, made by hand, once a day, and before what destroys.

A checkpoint holds the vault with its relations and everything durable of the journal, redacted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.config import CONFIG_FILE
from scrimshaw.engine.core import CHECKPOINTS, GLOBAL, MEMORIES, Engine
from scrimshaw.engine.ledger import LedgerFile, hash_of
from scrimshaw.errors import (
    AlreadyExists,
    InvalidMemoryId,
    InvalidRequest,
    NotFound,
    StorageFailure,
    UnusableArchive,
)
from scrimshaw.ingest.redact import redact
from scrimshaw.models import SourceFile, content_hash
from scrimshaw.storage.archive import (
    FORMAT,
    LATEST,
    ArchivedFile,
    Manifest,
    open_archive,
    read_age,
    write_archive,
)
from scrimshaw.storage.durable import remove_file, storage_errors
from scrimshaw.storage.paths import SUFFIX, check_id, fault_of, locate, printable
from scrimshaw.storage.scan import IGNORED_FOLDERS, Source, scan
from scrimshaw.storage.toml_files import LINKS_FILE
from scrimshaw.storage.transaction import is_interrupted

EXTENSION = ".scrim"
AUTO, DAILY = "auto-", "auto-daily"
# The newest ten of each kind are kept; dailies follow upon each other, and three days are enough to notice.
KEPT, KEPT_DAILY = 10, 3
# Brought back where they are missing, never replaced: settings are no memory.
COMPANIONS = ("golden.toml", CONFIG_FILE)


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A checkpoint, by the name of its file."""

    name: str
    path: str
    #: Seconds since 1970; the time of the file where it cannot be used.
    created: float
    #: The name it was made under where that is another.
    made_as: str = ""
    bytes: int
    files: int = 0
    #: Number of rows by table.
    rows: Mapping[str, int] = {}
    metadata: Mapping[str, str] = {}
    #: Files that are no UTF-8 text or have a name that no restore takes.
    left_out: tuple[str, ...] = ()
    #: Older checkpoints that made room for it.
    dropped: tuple[str, ...] = ()
    #: Why it cannot be used.
    problem: str = ""


class _Age(NamedTuple):
    """What a checkpoint is ordered by: the length of its ledger, when it was made, else the time of the file."""

    entries: int
    created: float
    modified: float
    name: str
    is_dated: bool


def create(
    engine: Engine, name: str, *, metadata: Mapping[str, str] | None = None, include_global: bool = False
) -> Checkpoint:
    """Make a checkpoint; the oldest of more than ten goes. Raises InvalidRequest for its name, AlreadyExists."""
    path = path_of(engine, name)
    if name.startswith(AUTO):
        raise InvalidRequest(
            f"Names that begin with {AUTO} are given by Scrimshaw.", "Choose another.", parameter="name"
        )
    if _is_taken(path):
        raise AlreadyExists(f"There is a checkpoint {name!r} already.", "Choose another name, or delete it.")
    made = _write_undisturbed(engine, lambda: _write(engine, path, name, metadata or {}, include_global))
    return _drop_oldest(engine, made)


def backup(engine: Engine, file: Path, *, include_global: bool = False) -> Checkpoint:
    """Write the memory to a file anywhere; raises AlreadyExists, VaultBusy, StorageFailure."""
    if file.exists():
        raise AlreadyExists(f"{file} exists.", "Name a new file.")
    return _write_undisturbed(engine, lambda: _write(engine, file, _name_of(file), {}, include_global))


def backup_if_due(engine: Engine) -> Checkpoint | None:
    """The first call of a day (UTC) makes a checkpoint, if there is anything to keep."""
    name = f"{DAILY}-{_now(engine):%Y%m%d}"
    is_empty = not engine.journal.history(limit=1) and not engine.sessions.latest()
    if is_empty or _is_taken(path_of(engine, name)):
        return None
    return _write_undisturbed(engine, lambda: take(engine, name))


def checkpoint_before(engine: Engine, what: str) -> Checkpoint:
    """The automatic checkpoint before something that destroys, such as `delete`; raises VaultBusy, StorageFailure."""
    name = automatic_name(engine, what)
    return _write_undisturbed(engine, lambda: take(engine, name))


def take(engine: Engine, name: str, *, include_global: bool = False) -> Checkpoint:
    """Write a checkpoint while the vault's lock is held, and drop those it makes room for."""
    return _drop_oldest(engine, _write(engine, path_of(engine, name), name, {}, include_global))


def automatic_name(engine: Engine, what: str) -> str:
    """A free name for an automatic checkpoint of a kind."""
    stamp, number = f"{AUTO}{what}-{_now(engine):%Y%m%dT%H%M%SZ}", 1
    name = stamp
    while _is_taken(path_of(engine, name)):
        number += 1
        name = f"{stamp}.{number}"
    return name


def _write_undisturbed(engine: Engine, write: Callable[[], Checkpoint]) -> Checkpoint:
    """Write without keeping other writers waiting; if one came in between, once more while they wait."""
    before = engine.journal.history(limit=1)
    if not is_interrupted(engine.folder):
        made = write()
        if engine.journal.history(limit=1) == before and not is_interrupted(engine.folder):
            return made
    with engine.write_lock():
        return write()


def _write(engine: Engine, path: Path, name: str, metadata: Mapping[str, str], include_global: bool) -> Checkpoint:
    head = Manifest(
        format=FORMAT,
        schema=engine.maintenance.schema,
        name=name,
        created=engine.clock(),
        metadata={redact(key).text: redact(value).text for key, value in metadata.items()},
        parts={},
    )
    found = _all_files(engine, include_global)
    files = (file for name, path in found if (file := _read_file(name, path)))
    return _describe(path, write_archive(path, head, files, engine.maintenance.dump_rows()))


def _read_file(name: str, path: Path) -> ArchivedFile | None:
    """A file with its text, None if it is gone; without a text that is none or could not be restored by its name."""
    with storage_errors("read", path):
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return None
    try:
        text = None if _name_fault(name) else redact(raw.decode())
    except UnicodeDecodeError:
        text = None
    return ArchivedFile(name=name, text=text, content_hash=content_hash(raw))


def list_checkpoints(engine: Engine, limit: int = KEPT) -> list[Checkpoint]:
    """The newest checkpoints, newest first; one that cannot be used says why."""
    found = []
    for path in newest_first(engine)[:limit]:
        try:
            with open_archive(path, engine.maintenance.schema) as opened:
                found.append(_describe(path, opened.manifest))
        except (NotFound, UnusableArchive, StorageFailure) as error:
            found.append(replace(_describe(path), problem=printable(error.message)))
    return found


def newest_first(engine: Engine) -> list[Path]:
    """The files of all checkpoints by the length of their ledgers, since clocks jump; of equal ones by their age."""
    ages = _read_ages(_files_of(engine))
    return sorted(ages, key=lambda path: ages[path], reverse=True)


def delete(engine: Engine, name: str, confirm_name: str) -> Path:
    """Delete a checkpoint for good; raises InvalidRequest unless the name is given twice, NotFound."""
    if confirm_name != name:
        raise InvalidRequest(
            f"{confirm_name!r} is not {name!r}.", "Repeat the name to delete it.", parameter="confirm_name"
        )
    path = find_checkpoint(engine, name)
    with storage_errors("remove", path):
        remove_file(path, engine.folder)
    return path


def find_checkpoint(engine: Engine, name: str) -> Path:
    """The file of a checkpoint that is there; raises InvalidRequest, NotFound."""
    path = path_of(engine, name)
    if not _is_taken(path):
        raise NotFound(f"There is no checkpoint {name!r}.", "See checkpoint_list.", name=name)
    return path


def path_of(engine: Engine, name: str) -> Path:
    """The file of a checkpoint; raises InvalidRequest for a name that cannot be a file's."""
    try:
        rule = "" if check_id(name) == name else "it is not in Unicode form NFC"
    except InvalidMemoryId as error:
        rule = str(error.details["rule"])
    if not rule and "/" in name:
        rule = "it holds a slash"
    if not rule and redact(name).classes:
        rule = "it looks like a secret"
    if rule:
        hint = "Use letters, digits and dashes, such as before-cleanup."
        raise InvalidRequest(f"{name!r} cannot name a checkpoint: {rule}.", hint, parameter="name", rule=rule)
    return engine.folder / CHECKPOINTS / f"{name}{EXTENSION}"


def locate_file(engine: Engine, name: str, data: bytes | None) -> LedgerFile:
    """Where a file of an archive belongs, with the bytes there; its name is empty if the ledger does not record it.

    Raises UnusableArchive for a name that leads elsewhere or that no memory can have, InvalidMemoryId, StorageFailure.
    """
    if name in (*COMPANIONS, LINKS_FILE):
        folder, key = engine.settings.folder, name if name == LINKS_FILE else ""
        return LedgerFile(key, folder / name, folder, data, hash_of(data))
    top, _, inside = name.partition("/")
    source = _vaults(engine, include_global=True).get(top)
    fault = _name_fault(name) if source and inside.endswith(SUFFIX) else "it is no file of a memory"
    if source is None or fault:
        hint = "Use another one; nothing was changed."
        raise UnusableArchive(f"It holds {name!r}, which has no place here: {fault}.", hint)
    memory_id = inside.removesuffix(SUFFIX)
    path = locate(source.root, memory_id)
    with storage_errors("write", path), suppress(FileNotFoundError, NotADirectoryError):
        path.lstat()  # a name too long for the system is refused here
    return LedgerFile(f"{source.id_prefix}{memory_id}", path, source.root.resolve(), data, hash_of(data))


def current_files(engine: Engine, *, include_global: bool) -> Iterator[tuple[str, Path]]:
    """(name in an archive, path) of the files that a checkpoint would hold now, if they are text."""
    return ((name, path) for name, path in _all_files(engine, include_global) if not _name_fault(name))


def _all_files(engine: Engine, include_global: bool) -> Iterator[tuple[str, Path]]:
    for name in (LINKS_FILE, *COMPANIONS):
        if (path := engine.settings.folder / name).is_file():
            yield name, path
    for top, source in _vaults(engine, include_global=include_global).items():
        for file in scan(source, engine.limits()):
            if isinstance(file, SourceFile):
                yield f"{top}/{file.memory_id.removeprefix(source.id_prefix)}{SUFFIX}", Path(file.path)


def _name_fault(name: str) -> str:
    """Why a name in an archive could not be restored as that of a memory, as a scan judges it; usually empty."""
    _, slash, inside = name.partition("/")
    if not IGNORED_FOLDERS.isdisjoint(inside.split("/")[:-1]):
        return "no memory is looked for in such a folder"
    return fault_of(inside.removesuffix(SUFFIX)) if slash else ""


def _vaults(engine: Engine, *, include_global: bool) -> dict[str, Source]:
    """The vaults by their folder in an archive."""
    project, user = engine.sources[0], engine.sources[-1]
    found = {MEMORIES: project}
    if include_global and user.id_prefix == GLOBAL:
        found["global"] = user
    return found


def _drop_oldest(engine: Engine, made: Checkpoint) -> Checkpoint:
    """Remove the oldest checkpoints of the same kind, never the one just made; it, naming those that went."""
    kind, now, dropped = _kind(made.name), engine.clock(), []
    others = [path for path in _files_of(engine) if path.name != f"{made.name}{EXTENSION}" and path.is_file()]
    ages = _read_ages(path for path in others if _kind(_name_of(path)) == kind)

    def worth(path: Path) -> tuple[bool, int, bool, _Age]:
        # One that cannot be read says nothing true of its age and goes first, and of those with equal ledgers one that
        # a clock dated ahead of now: else ten of them would push out what an operation that is still going on made.
        age = ages[path]
        return age.is_dated, age.entries, age.created <= now, age

    for path in sorted(ages, key=worth, reverse=True)[(KEPT_DAILY if kind == DAILY else KEPT) - 1 :]:
        with suppress(FileNotFoundError, PermissionError):  # gone, or being read: then the next one drops it
            path.unlink()
            dropped.append(_name_of(path))
    return replace(made, dropped=tuple(dropped))


def _read_ages(paths: Iterable[Path]) -> dict[Path, _Age]:
    """How old checkpoints are; one that does not say the length of its ledger has that of the one before."""
    found = []
    for path in paths:
        modified, age = _stat(path)[0], read_age(path)
        found.append((modified if age is None else age.created, modified, path.name, path, age))
    ages, entries = {}, -1
    for created, modified, name, path, age in sorted(found, key=itemgetter(0, 1, 2)):
        if age and age.entries is not None:
            entries = age.entries
        ages[path] = _Age(entries, created, modified, name, is_dated=age is not None)
    return ages


def _describe(path: Path, manifest: Manifest | None = None) -> Checkpoint:
    name, (modified, size) = _name_of(path), _stat(path)
    made = Checkpoint(name=name, path=printable(str(path)), created=modified, bytes=size)
    if manifest is None:
        return made
    return replace(
        made,
        created=manifest.created,
        made_as="" if manifest.name == name else manifest.name,
        files=len(manifest.files),
        rows=manifest.rows,
        metadata=manifest.metadata,
        left_out=manifest.left_out,
    )


def _stat(path: Path) -> tuple[float, int]:
    """When a file was changed, and its bytes; zeros for one that is gone by now."""
    try:
        info = path.lstat()
    except OSError:
        return 0.0, 0
    return min(max(info.st_mtime, 0.0), LATEST), info.st_size


def _files_of(engine: Engine) -> Iterator[Path]:
    return engine.folder.joinpath(CHECKPOINTS).glob(f"*{EXTENSION}")


def _is_taken(path: Path) -> bool:
    """Whether anything has this name, a link to nothing too."""
    return path.exists() or path.is_symlink()


def _name_of(path: Path) -> str:
    return printable(path.name.removesuffix(EXTENSION))


def _kind(name: str) -> str:
    return name.rpartition("-")[0] if name.startswith(AUTO) else ""


def _now(engine: Engine) -> datetime:
    return datetime.fromtimestamp(engine.clock(), UTC)
