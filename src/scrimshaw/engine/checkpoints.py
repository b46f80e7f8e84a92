"""Checkpoints: the whole memory in one file, made by hand, once a day, and before destructive changes.

A checkpoint holds the vault with its relations, Serena's memories, and everything durable of the journal, redacted.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.config import CONFIG_FILE
from scrimshaw.engine.core import GLOBAL, MEMORIES, Engine
from scrimshaw.engine.ledger import LedgerFile, hash_of
from scrimshaw.errors import AlreadyExists, InvalidMemoryId, InvalidRequest, NotFound, StorageFailure, UnusableArchive
from scrimshaw.ingest.redact import redact
from scrimshaw.models import SourceFile, content_hash
from scrimshaw.storage.archive import FORMAT, LATEST, ArchivedFile, Manifest, open_archive, read_age, write_archive
from scrimshaw.storage.durable import remove_file, storage_errors
from scrimshaw.storage.paths import SUFFIX, check_id, find_name_fault, locate, replace_undecodable
from scrimshaw.storage.place import CHECKPOINTS
from scrimshaw.storage.scan import IGNORED_FOLDERS, SERENA, Source, scan
from scrimshaw.storage.toml_files import LINKS_FILE
from scrimshaw.storage.transaction import is_interrupted

EXTENSION = ".scrim"
AUTO, DAILY = "auto-", "auto-daily"
KEPT, KEPT_DAILY = 10, 3  # the newest of each kind; of the daily ones enough days to notice a loss
COMPANIONS = ("golden.toml", CONFIG_FILE)  # restored if missing, never replaced: settings are not memories


class Checkpoint(Struct, frozen=True, kw_only=True):
    """A checkpoint, by the name of its file."""

    name: str
    path: str
    created: float  #: seconds since 1970; the time of the file where it cannot be used
    made_as: str = ""  #: the name it was made under, if different
    bytes: int
    files: int = 0
    rows: Mapping[str, int] = {}  #: number of rows by table
    metadata: Mapping[str, str] = {}
    left_out: tuple[str, ...] = ()  #: files that are not UTF-8 text or have a name that cannot be restored
    dropped: tuple[str, ...] = ()  #: older checkpoints deleted to make room for it
    problem: str = ""  #: why it is unusable


def create(engine: Engine, name: str, *, metadata: Mapping[str, str] = {}, include_global: bool = False) -> Checkpoint:
    """Make a checkpoint; of more than ten the oldest is deleted. Raises InvalidRequest for its name, AlreadyExists."""
    path = path_of(engine, name)
    if name.startswith(AUTO):
        message = f"Names that begin with {AUTO} are given by Scrimshaw."
        raise InvalidRequest(message, "Choose another.", parameter="name")
    if os.path.lexists(path):
        raise AlreadyExists(f"There is a checkpoint {name!r} already.", "Choose another name, or delete it.")
    return _drop_oldest(engine, _write(engine, path, name, metadata, include_global))


def backup(engine: Engine, file: Path, *, include_global: bool = False) -> Checkpoint:
    """Write the memory to a file anywhere; raises AlreadyExists, VaultBusy, StorageFailure."""
    if file.exists():
        raise AlreadyExists(f"{file} exists.", "Name a new file.")
    return _write(engine, file, _name_of(file), {}, include_global)


def backup_if_due(engine: Engine) -> Checkpoint | None:
    """The first call of a day (UTC) makes a checkpoint, if there is anything to keep."""
    name = f"{DAILY}-{datetime.fromtimestamp(engine.clock(), UTC):%Y%m%d}"
    is_empty = not engine.journal.history(limit=1) and not engine.sessions.latest()
    return None if is_empty or os.path.lexists(path_of(engine, name)) else take(engine, name)


def checkpoint_before(
    engine: Engine, what: str, *, include_global: bool = False, is_locked: bool = False
) -> Checkpoint:
    """The automatic checkpoint before something destructive, such as `delete`; raises VaultBusy, StorageFailure."""
    stamp = f"{AUTO}{what}-{datetime.fromtimestamp(engine.clock(), UTC):%Y%m%dT%H%M%SZ}"
    names = chain([stamp], (f"{stamp}.{number}" for number in count(2)))
    name = next(name for name in names if not os.path.lexists(path_of(engine, name)))
    return take(engine, name, include_global=include_global, is_locked=is_locked)


def take(engine: Engine, name: str, *, include_global: bool = False, is_locked: bool = False) -> Checkpoint:
    """Write a checkpoint and delete old ones; `is_locked` if the caller holds the vault's lock."""
    return _drop_oldest(engine, _write(engine, path_of(engine, name), name, {}, include_global, is_locked))


def _write(
    engine: Engine, path: Path, name: str, notes: Mapping[str, str], include_global: bool, is_locked: bool = False
) -> Checkpoint:
    """Write without blocking other writers; if one changed something meanwhile, write again while they wait."""
    before, schema, now = engine.journal.history(limit=1), engine.maintenance.schema, engine.clock()
    if is_locked or not is_interrupted(engine.folder):
        metadata = {redact(key).text: redact(text).text for key, text in notes.items()}
        head = Manifest(format=FORMAT, schema=schema, name=name, created=now, metadata=metadata, parts={})
        made = write_archive(path, head, _read_files(engine, include_global), engine.maintenance.dump_rows())
        if is_locked or (engine.journal.history(limit=1) == before and not is_interrupted(engine.folder)):
            return _describe(path, made)
    with engine.write_lock():
        return _write(engine, path, name, notes, include_global, is_locked=True)


def _read_files(engine: Engine, include_global: bool) -> Iterator[ArchivedFile]:
    """The files with their texts, except those that are not text or whose name cannot be restored."""
    for name, path in _list_files(engine, include_global):
        with storage_errors("read", path), suppress(FileNotFoundError):
            raw, text = path.read_bytes(), None
            with suppress(UnicodeDecodeError):
                text = None if _name_fault(name) else redact(raw.decode())
            yield ArchivedFile(name=name, text=text, content_hash=content_hash(raw))


def list_checkpoints(engine: Engine, limit: int = KEPT) -> list[Checkpoint]:
    """The newest checkpoints, newest first; one that cannot be used says why."""
    found = []
    for path in list_newest_first(engine)[:limit]:
        try:
            with open_archive(path, engine.maintenance.schema) as opened:
                found.append(_describe(path, opened.manifest))
        except (NotFound, UnusableArchive, StorageFailure) as error:
            found.append(replace(_describe(path), problem=replace_undecodable(error.message)))
    return found


def list_newest_first(engine: Engine) -> list[Path]:
    """The files of all checkpoints, those that cannot be read first: nobody knows how new they are."""
    ages = {path: (*read_age(path), path.name) for path in _list_paths(engine)}
    return sorted(ages, key=lambda path: (not ages[path][0], ages[path]), reverse=True)


def delete(engine: Engine, name: str, confirm_name: str) -> None:
    """Delete a checkpoint permanently; raises InvalidRequest unless the name is given twice, NotFound."""
    if confirm_name != name:
        message = f"{confirm_name!r} is not {name!r}."
        raise InvalidRequest(message, "Repeat the name to delete it.", parameter="confirm_name")
    path = find_checkpoint(engine, name)
    with storage_errors("remove", path):
        remove_file(path, engine.storage.place)


def find_checkpoint(engine: Engine, name: str) -> Path:
    """The file of a checkpoint that is there; raises InvalidRequest, NotFound."""
    path = path_of(engine, name)
    if not os.path.lexists(path):
        raise NotFound(f"There is no checkpoint {name!r}.", "List the checkpoints.", name=name)
    return path


def path_of(engine: Engine, name: str) -> Path:
    """The file of a checkpoint; raises InvalidRequest for a name that cannot be a file's."""
    try:
        rule = "" if check_id(name) == name else "it is not in Unicode form NFC"
    except InvalidMemoryId as error:
        rule = str(error.details["rule"])
    rule = rule or ("it holds a slash" if "/" in name else "it looks like a secret" if redact(name).classes else "")
    if rule:
        hint = "Use letters, digits and dashes, such as before-cleanup."
        raise InvalidRequest(f"{name!r} cannot name a checkpoint: {rule}.", hint, parameter="name", rule=rule)
    return engine.storage.place / CHECKPOINTS / f"{name}{EXTENSION}"


def locate_file(engine: Engine, name: str, data: bytes | None) -> LedgerFile:
    """Where a file of an archive belongs; its name is empty if no ledger records it. Raises UnusableArchive."""
    if name in (*COMPANIONS, LINKS_FILE):
        folder, key = engine.settings.folder, name if name == LINKS_FILE else ""
        return LedgerFile(key, folder / name, folder, data, hash_of(data))
    top, _, inside = name.partition("/")
    source = _list_vaults(engine, include_global=True).get(top)
    fault = _name_fault(name) if source and inside.endswith(SUFFIX) else "it is not a file of a memory"
    if source is None or fault:
        hint = "Use another one; nothing was changed."
        raise UnusableArchive(f"It holds {name!r}, which has no place here: {fault}.", hint)
    memory_id = inside.removesuffix(SUFFIX)
    path = locate(source.root, memory_id)
    with storage_errors("write", path), suppress(FileNotFoundError, NotADirectoryError):
        path.lstat()  # raises for a name too long for the system
    return LedgerFile(f"{source.id_prefix}{memory_id}", path, source.root.resolve(), data, hash_of(data), source.name)


def list_current_files(engine: Engine) -> dict[str, Path]:
    """The files that a checkpoint would hold now, if they are text, by their names in it."""
    return {name: path for name, path in _list_files(engine, include_global=True) if not _name_fault(name)}


def is_open(engine: Engine, name: str) -> bool:
    """Whether a file of an archive may be written here: one of Serena's only if its folder is there and takes it."""
    top, _, inside = name.partition("/")
    return top != SERENA or bool(engine.serena and engine.serena.takes(inside.removesuffix(SUFFIX)))


def _list_files(engine: Engine, include_global: bool) -> Iterator[tuple[str, Path]]:
    for name in (LINKS_FILE, *COMPANIONS):
        if (path := engine.settings.folder / name).is_file():
            yield name, path
    for top, source in _list_vaults(engine, include_global=include_global).items():
        for file in scan(source, engine.settings.index.max_file_bytes):
            if isinstance(file, SourceFile) and (top != SERENA or source.takes(file.memory_id)):
                yield f"{top}/{file.memory_id.removeprefix(source.id_prefix)}{SUFFIX}", Path(file.path)


def _name_fault(name: str) -> str:
    """Why a name in an archive could not be restored as that of a memory, as a scan judges it; usually empty."""
    _, slash, inside = name.partition("/")
    if not IGNORED_FOLDERS.isdisjoint(inside.split("/")[:-1]):
        return "no memory is looked for in such a folder"
    return find_name_fault(inside.removesuffix(SUFFIX)) if slash else ""


def _list_vaults(engine: Engine, *, include_global: bool) -> dict[str, Source]:
    """The vaults by their folder in an archive."""
    project, user = engine.sources[0], engine.sources[-1]
    vaults = {MEMORIES: project} | ({SERENA: engine.serena} if engine.serena else {})
    return vaults | ({"global": user} if include_global and user.id_prefix == GLOBAL else {})


def _drop_oldest(engine: Engine, made: Checkpoint) -> Checkpoint:
    """Delete the oldest checkpoints of the same kind, never the new one; returns it, naming those deleted."""
    kind, dropped = _find_kind(made.name), list[str]()
    names = {path: _name_of(path) for path in _list_paths(engine)}
    others = [path for path, name in names.items() if name != made.name and _find_kind(name) == kind]
    # By the length of the ledger, since clocks jump; one that cannot be read goes first.
    others.sort(key=lambda path: (*read_age(path), path.name), reverse=True)
    for path in others[(KEPT_DAILY if kind == DAILY else KEPT) - 1 :]:
        with suppress(FileNotFoundError, PermissionError):  # gone, or being read: then the next checkpoint deletes it
            path.unlink()
            dropped.append(_name_of(path))
    return replace(made, dropped=tuple(dropped))


def _list_paths(engine: Engine) -> list[Path]:
    return [path for path in engine.storage.place.joinpath(CHECKPOINTS).glob(f"*{EXTENSION}") if path.is_file()]


def _describe(path: Path, manifest: Manifest | None = None) -> Checkpoint:
    name, info = _name_of(path), path.lstat()
    modified = min(max(info.st_mtime, 0.0), LATEST)
    made = Checkpoint(name=name, path=replace_undecodable(str(path)), created=modified, bytes=info.st_size)
    if manifest is None:
        return made
    same = {field: getattr(manifest, field) for field in ("created", "rows", "metadata", "left_out")}
    made_as = "" if manifest.name == name else manifest.name
    return replace(made, made_as=made_as, files=len(manifest.files), **same)


def _name_of(path: Path) -> str:
    return replace_undecodable(path.name.removesuffix(EXTENSION))


def _find_kind(name: str) -> str:
    return name.rpartition("-")[0] if name.startswith(AUTO) else ""
