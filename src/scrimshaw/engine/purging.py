"""Erasing a secret, or memories, wherever Scrimshaw keeps them, and proving that nothing is left.

Every step looks at what is there, so a purge that was killed is completed by the next. Files outside of Scrimshaw's
folders are never touched: what stands there, and in git, is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.engine.core import GLOBAL, Engine
from scrimshaw.engine.indexing import scan
from scrimshaw.engine.purge_targets import Target, read_files
from scrimshaw.errors import StorageFailure, UnusableArchive
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Action, Entry
from scrimshaw.storage.durable import remove_file, storage_errors
from scrimshaw.storage.erasing_archives import count_in_archive, erase_in_archive
from scrimshaw.storage.erasing_files import (
    Kind,
    contents,
    erase_in_file,
    files_below,
    free_name,
    is_packed,
    kind_of,
    rename_away,
    search,
)
from scrimshaw.storage.files import content_hash
from scrimshaw.storage.git_traces import GitTraces, git_traces
from scrimshaw.storage.links import LINKS_FILE
from scrimshaw.storage.paths import SUFFIX
from scrimshaw.storage.ports import Wipe

OUTSIDE = (
    "exports and backups written elsewhere (scrimshaw export, scrimshaw backup)",
    "transcripts and settings of your clients, such as those of Claude Code or Codex",
    "journals of other projects that used the same global memory",
    "other clones and remotes, snapshots and backups of the disk, its unused blocks",
)
_GLOBAL_ONLY = "it is your own vault of all projects: add --global"
_SEALED = "a text cannot be cut out of a file of this kind"
_UNFINISHED = "it is being written, or was left by a killed process"


class Trace(Struct, frozen=True, kw_only=True):
    """A place where it stands, how often, and why it stays there, if it does."""

    place: str
    count: int
    why: str = ""


class Purged(Struct, frozen=True, kw_only=True):
    """What a purge found, and what a search of every byte found afterwards.

    `places` held it. `unreadable` are files that cannot be looked into, or not be cut; `removed` went as a whole.
    `searched_files` and `searched_bytes` were looked through at the end, `left` still hold it, `held` could not be
    written anew since another process reads them. `documents` are read but never written.
    """

    dry_run: bool
    places: tuple[Trace, ...]
    unreadable: tuple[Trace, ...] = ()
    removed: tuple[str, ...] = ()
    searched_files: int = 0
    searched_bytes: int = 0
    left: tuple[Trace, ...] = ()
    held: tuple[str, ...] = ()
    documents: tuple[Trace, ...] = ()
    git: GitTraces = GitTraces()
    outside: tuple[str, ...] = OUTSIDE

    @property
    def is_clean(self) -> bool:
        """Whether nothing of it is left in Scrimshaw's folders, as far as anybody can tell."""
        return not (self.left or self.held or self.unreadable)


class Erasure(NamedTuple):
    """Files that went as a whole, that could not be cleaned, and that another process keeps as they were."""

    removed: tuple[str, ...]
    unreadable: tuple[Trace, ...]
    held: tuple[str, ...]


class _Place(NamedTuple):
    path: Path
    root: Path
    kind: Kind


class _Looked(NamedTuple):
    found: tuple[Trace, ...]
    unreadable: tuple[Trace, ...]
    files: int
    bytes: int


def plan(engine: Engine, target: Target, *, include_global: bool = False) -> Purged:
    """Where it stands now; nothing is changed. Raises StorageFailure."""
    looked = _looked(engine, target, include_global)
    return Purged(
        dry_run=True,
        places=looked.found,
        unreadable=looked.unreadable,
        searched_files=looked.files,
        searched_bytes=looked.bytes,
        documents=_documents(engine, target),
        git=git_traces(engine.settings.project, target.traces, target.files),
    )


def purge(
    engine: Engine,
    target: Target,
    planned: Purged,
    *,
    include_global: bool = False,
    remove_unreadable: bool = False,
) -> Purged:
    """Erase what was planned, then look for it in every byte. Raises ReadOnly, VaultBusy, StorageFailure."""
    erasure = erase(engine, target, include_global=include_global, remove_unreadable=remove_unreadable)
    after = _looked(engine, target, include_global)
    return replace(
        planned,
        dry_run=False,
        unreadable=after.unreadable,
        removed=erasure.removed,
        held=erasure.held,
        left=after.found,
        searched_files=after.files,
        searched_bytes=after.bytes,
    )


def erase(engine: Engine, target: Target, *, include_global: bool = False, remove_unreadable: bool = False) -> Erasure:
    """Erase it everywhere, without looking afterwards. Raises ReadOnly, VaultBusy, StorageFailure.

    The rows go first and the memories' files last: as long as these stand, the next purge knows what to look for.
    """
    engine.vault_of("")  # raises ReadOnly
    with engine.exclusive():
        places = list(_places(engine, _with_global(target, include_global)))
        texts = [place for place in places if place.kind is Kind.TEXT and _holds(place, target)]
        *files, whole = _entries(engine, target, texts)
        engine.journal.erase(target.wipe, whole, files)
        stubborn = [(place, why) for place in places if (why := _stubborn(engine, place, target))]
        doomed = [place for place in places if place.kind is Kind.SCRATCH and _is_suspect(place, target)]
        doomed += [place for place, _ in stubborn if remove_unreadable]
        for place in doomed:
            _remove(place)
        for place in sorted(texts, key=lambda place: place.path in target.files):
            _clean(place, target)
        for place in places:
            _rename(place, target)
    unreadable = () if remove_unreadable else tuple(_trace(place, 0, target, why) for place, why in stubborn)
    return Erasure(tuple(_shown(place, target) for place in doomed), unreadable, _written_anew(engine, target))


def demand_erased(erasure: Erasure) -> None:
    """Raise StorageFailure where something may be left."""
    left = [*erasure.held, *(trace.place for trace in erasure.unreadable)]
    if left:
        raise StorageFailure(
            f"It is erased, but for what may stand in {', '.join(left)}.",
            "Stop other servers of the project, then run `scrimshaw purge --memory ID`, which proves what is left.",
            left=left,
        )


# Where it may stand


def _places(engine: Engine, include_global: bool) -> Iterator[_Place]:
    home = engine.settings.home.resolve()
    for root in _roots(engine):
        for path in files_below(root) if include_global or root != home else ():
            yield _Place(path, root, kind_of(path, root))


def _roots(engine: Engine) -> list[Path]:
    """The folders that are Scrimshaw's: the project's, and the user's own."""
    folders = (engine.folder, engine.settings.folder, engine.settings.home)
    return list(dict.fromkeys(folder.resolve() for folder in folders))


def _with_global(target: Target, asked: bool) -> bool:
    return asked or any(memory_id.startswith(GLOBAL) for memory_id in target.memory_ids)


def _holds(place: _Place, target: Target) -> bool:
    if place.path in target.files:
        return place.path.is_file()
    return search(place.path, place.root, target.traces, place.kind).traces > 0


def _is_suspect(place: _Place, target: Target) -> bool:
    """What belongs to nobody goes even where it only may hold it."""
    return is_packed(place.path) or _holds(place, target)


def _looked(engine: Engine, target: Target, include_global: bool) -> _Looked:
    """Every byte of Scrimshaw's folders, and every row of its databases."""
    found, unreadable = [*_rows(engine, target)], []
    files = size = 0
    why = {engine.settings.home.resolve(): "" if _with_global(target, include_global) else _GLOBAL_ONLY}
    for place in _places(engine, include_global=True):
        seen = search(place.path, place.root, target.traces, place.kind, is_literal=target.traces.is_literal)
        packed, trouble = _packed(engine, place, target, seen.traces)
        count = seen.traces + packed + (place.path in target.files and place.path.is_file())
        files, size = files + 1, size + seen.size
        if trouble:
            unreadable.append(_trace(place, count, target, trouble))
        elif count:
            found.append(_trace(place, count, target, why.get(place.root, "")))
    return _Looked(tuple(found), tuple(unreadable), files, size)


def _rows(engine: Engine, target: Target) -> Iterator[Trace]:
    for table, count in engine.index.traces(Wipe(target.traces)).items():
        yield Trace(place=f"index.db: {table}", count=count)
    for table, count in engine.journal.traces(target.wipe).items():
        yield Trace(place=f"journal.db: {table}", count=count)


def _packed(engine: Engine, place: _Place, target: Target, seen: int) -> tuple[int, str]:
    """How many parts and rows of an archive hold it, and why nobody can tell, or take it out of a file."""
    if place.kind is Kind.SEALED and seen:
        return 0, _SEALED
    if place.kind is Kind.SCRATCH and is_packed(place.path):
        return 0, _UNFINISHED
    try:
        return _in_archive(engine, place, target), ""
    except UnusableArchive as error:
        return 0, error.message


def _in_archive(engine: Engine, place: _Place, target: Target) -> int:
    if place.kind is not Kind.ARCHIVE:
        return 0
    return count_in_archive(place.path, engine.journal.schema(), target.wipe, target.names)


def _documents(engine: Engine, target: Target) -> tuple[Trace, ...]:
    """Documents of the project, which are read and never written, that hold it."""
    roots = _roots(engine)
    ours = (path for path in read_files(engine) if not any(path.resolve().is_relative_to(root) for root in roots))
    counts = {path: target.traces.count(contents(path)) for path in ours}
    return tuple(Trace(place=target.traces.masked(str(path)), count=count) for path, count in counts.items() if count)


def _trace(place: _Place, count: int, target: Target, why: str = "") -> Trace:
    return Trace(place=_shown(place, target), count=count, why=why)


def _shown(place: _Place, target: Target) -> str:
    return target.traces.masked(str(place.path))


# Taking it out


def _entries(engine: Engine, target: Target, texts: Sequence[_Place]) -> list[Entry]:
    """The ledger's rows: one for each memory whose file changes or goes, the last one for the whole."""
    keys = {place.path: key for place in texts if (key := _key(engine, place, target))}
    rows = [_entry(engine, target, key, path) for path, key in keys.items() if path not in target.files]
    if not target.memory_ids:
        return [*rows, _entry(engine, target, "", None)]
    gone = zip(target.memory_ids, target.files, strict=True)
    return [*rows, *(_entry(engine, target, memory_id, path) for memory_id, path in gone)]


def _entry(engine: Engine, target: Target, key: str, path: Path | None) -> Entry:
    data = contents(path) if path else b""
    stays = bool(data) and path not in target.files
    return Entry(
        action=Action.PURGE,
        memory_id=key,
        reason=target.reason,
        prior_hash=content_hash(data) if data else "",
        new_hash=content_hash(target.traces.erase(data)) if stays else "",
        actor=target.actor,
        session=target.session,
        decision_meta={"file": LINKS_FILE} if key == LINKS_FILE else {},
    )


def _key(engine: Engine, place: _Place, target: Target) -> str:
    """What the ledger calls a file once it is clean, empty for one it does not know."""
    if place.path == engine.settings.folder.resolve() / LINKS_FILE:
        return LINKS_FILE
    clean = free_name(place.path, place.root, target.traces)
    for source in engine.sources:
        root = source.root.resolve()
        if source.writable and clean.suffix == SUFFIX and clean.is_relative_to(root):
            return source.id_prefix + clean.relative_to(root).as_posix().removesuffix(SUFFIX)
    return ""


def _stubborn(engine: Engine, place: _Place, target: Target) -> str:
    """Clean a file that is packed; why that cannot be done."""
    if place.kind is Kind.SEALED:
        return _SEALED if _holds(place, target) else ""
    try:
        if _in_archive(engine, place, target):
            erase_in_archive(place.path, engine.journal.schema(), target.wipe, target.names, redact)
    except UnusableArchive as error:
        return error.message
    return ""


def _clean(place: _Place, target: Target) -> None:
    if place.path in target.files:
        _remove(place)
    elif place.path.is_file():
        erase_in_file(place.path, target.traces)


def _remove(place: _Place) -> None:
    """The file goes, and the folders this empties, but not the folder of all of its kind."""
    inside = place.path.relative_to(place.root).parts
    floor = place.root / inside[0] if len(inside) > 1 else place.root
    with storage_errors("remove", place.path):
        if place.path.is_file() or place.path.is_symlink():
            remove_file(place.path, floor)


def _rename(place: _Place, target: Target) -> None:
    if place.kind is not Kind.DATABASE and place.path.is_file():
        rename_away(place.path, place.root, target.traces)


def _written_anew(engine: Engine, target: Target) -> tuple[str, ...]:
    """Read every file into the index again and give up free pages and logs; the files that others hold."""
    engine.index.reread()
    scan(engine)
    if engine.index.traces(Wipe(target.traces)):
        engine.index.clear()
        scan(engine)
    return tuple(str(path) for path in (*engine.index.compact(), *engine.journal.compact()))
