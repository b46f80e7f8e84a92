"""Erasing a secret, or memories, wherever Scrimshaw keeps them, and proving that nothing is left.

Every step looks at what is there, so a purge that was killed is completed by the next. Files outside of Scrimshaw's
folders are never touched: what stands there, and in git, is told.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.engine.core import GLOBAL, Engine
from scrimshaw.engine.index import scan
from scrimshaw.engine.purge_targets import Target, read_files
from scrimshaw.errors import StorageFailure, UnusableArchive
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Action, Entry, Redacted
from scrimshaw.storage.durable import prune, remove_file, storage_errors
from scrimshaw.storage.erasing_archives import count_in_archive, erase_in_archive, is_in_archive
from scrimshaw.storage.erasing_files import (
    Kind,
    Searched,
    contents,
    erase_in_file,
    files_below,
    free_name,
    kind_of,
    rename_away,
    search,
    search_outside,
)
from scrimshaw.storage.files import content_hash
from scrimshaw.storage.git_traces import GitTraces, git_traces
from scrimshaw.storage.links import LINKS_FILE
from scrimshaw.storage.packed import is_packed
from scrimshaw.storage.paths import SUFFIX
from scrimshaw.storage.ports import Wipe

OUTSIDE = (
    "exports and backups written elsewhere (scrimshaw export, scrimshaw backup)",
    "transcripts and settings of your clients, such as those of Claude Code or Codex",
    "journals of other projects that used the same global memory",
    "git, where it keeps another folder than this project, such as that of your own vault",
    "other clones and remotes, snapshots and backups of the disk, its unused blocks",
)
_GLOBAL_ONLY = "it is your own vault of all projects: add --global"
_SEALED = "a text cannot be cut out of a file of this kind"
_UNFINISHED = "it is being written, or was left by a killed process"
_CLOSED = "cannot be looked into: "
_GIT = "it is git's, which alone may change it"


class Trace(Struct, frozen=True, kw_only=True):
    """A place where it stands, how often, and why it stays there, if it does."""

    place: str
    count: int
    why: str = ""


class Purged(Struct, frozen=True, kw_only=True):
    """What a purge found, and what a search of every byte found afterwards.

    `places` held it. `unreadable` are files that cannot be looked into, or not be cut; `removed` went as a whole.
    `forms` are those that were looked for. `searched_files` and `searched_bytes` were looked through at the end, `left`
    still hold it, `held` could not be written anew since another process reads them. `foreign` hold it, or may, and are
    not Scrimshaw's: links lead to them, or git keeps them. `documents` are read but never written.
    """

    dry_run: bool
    places: tuple[Trace, ...]
    forms: tuple[str, ...] = ()
    unreadable: tuple[Trace, ...] = ()
    removed: tuple[str, ...] = ()
    searched_files: int = 0
    searched_bytes: int = 0
    left: tuple[Trace, ...] = ()
    held: tuple[str, ...] = ()
    foreign: tuple[Trace, ...] = ()
    documents: tuple[Trace, ...] = ()
    git: GitTraces = GitTraces()
    outside: tuple[str, ...] = OUTSIDE

    @property
    def is_clean(self) -> bool:
        """Whether nothing of it is left in Scrimshaw's folders, as far as anybody can tell."""
        return not (self.left or self.held or self.unreadable or self.foreign)


class Erasure(NamedTuple):
    """Files that went as a whole, that could not be cleaned, and that another process keeps as they were."""

    removed: tuple[str, ...]
    unreadable: tuple[Trace, ...]
    held: tuple[str, ...]


class _Place(NamedTuple):
    path: Path
    root: Path
    kind: Kind


class _Stubborn(NamedTuple):
    """A file that holds it, or may, if it `is_closed`, and why it is as it was."""

    place: _Place
    why: str
    is_closed: bool = False


class _Looked(NamedTuple):
    found: tuple[Trace, ...]
    unreadable: tuple[Trace, ...]
    foreign: tuple[Trace, ...]
    files: int
    bytes: int


def plan(engine: Engine, target: Target, *, include_global: bool = False) -> Purged:
    """Where it stands now; nothing is changed. Raises StorageFailure."""
    looked = _looked(engine, target, include_global)
    return Purged(
        dry_run=True,
        places=looked.found,
        forms=target.traces.forms,
        unreadable=looked.unreadable,
        foreign=looked.foreign,
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
    remove_closed: bool = False,
) -> Purged:
    """Erase what was planned, then look for it in every byte. Raises ReadOnly, VaultBusy, StorageFailure.

    `remove_unreadable` takes as a whole what holds it and cannot be cut, and checkpoints that nobody can read;
    `remove_closed` whatever else cannot be looked into.
    """
    erasure = erase(
        engine,
        target,
        include_global=include_global,
        remove_unreadable=remove_unreadable,
        remove_closed=remove_closed,
    )
    after = _looked(engine, target, include_global)
    # A link that went for the name in it leads nowhere any more: what it led to is as it was.
    known = {trace.place for trace in after.foreign}
    return replace(
        planned,
        dry_run=False,
        unreadable=after.unreadable,
        removed=erasure.removed,
        held=erasure.held,
        left=after.found,
        foreign=(*after.foreign, *(trace for trace in planned.foreign if trace.place not in known)),
        searched_files=after.files,
        searched_bytes=after.bytes,
    )


def erase(
    engine: Engine,
    target: Target,
    *,
    include_global: bool = False,
    remove_unreadable: bool = False,
    remove_closed: bool = False,
) -> Erasure:
    """Erase it everywhere, without looking afterwards. Raises ReadOnly, VaultBusy, StorageFailure.

    The rows go first and the memories' files last: as long as these stand, the next purge knows what to look for.
    """
    engine.vault_of("")  # raises ReadOnly
    with engine.write_lock():
        places = list(_places(engine, _with_global(target, include_global)))
        texts = [place for place in places if _is_written(place, target) and _holds(place, target)]
        *files, whole = _entries(engine, target, texts)
        engine.journal.erase(target.wipe, whole, files)
        stubborn = _all_stubborn(engine, places, target)
        going = [each for each in stubborn if (remove_closed if each.is_closed else remove_unreadable)]
        doomed = [place for place in places if _is_doomed(place, target)]
        doomed += [each.place for each in going]
        for place in doomed:
            _remove(place)
        for place in sorted(texts, key=lambda place: place.path in target.files):
            _clean(place, target)
        for place in places:
            _rename(place, target)
    stay = tuple(_trace(each.place, 0, target, each.why) for each in stubborn if each not in going)
    return Erasure(tuple(_shown(place, target) for place in doomed), stay, _written_anew(engine, target))


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


def _is_written(place: _Place, target: Target) -> bool:
    """Whether the text may be taken out of its bytes, or the file is a memory that goes whatever it is."""
    return place.kind is Kind.TEXT or (place.path in target.files and place.kind is not Kind.LINK)


def _is_doomed(place: _Place, target: Target) -> bool:
    """What belongs to nobody goes even where it only may hold it; a link for the path in it, or its memory."""
    if place.kind is Kind.SCRATCH:
        return is_packed(contents(place.path)) or _holds(place, target)
    if place.kind is Kind.LINK:
        is_memory = Path(os.path.realpath(place.path)) in target.files  # resolve() fails in a circle
        return is_memory or _seen(place, target).inside > 0
    return place.kind is Kind.NAME and place.path.is_dir() and _holds(place, target)


def _seen(place: _Place, target: Target) -> Searched:
    return search(place.path, place.root, target.traces, place.kind, is_literal=target.traces.is_literal)


def _looked(engine: Engine, target: Target, include_global: bool) -> _Looked:
    """Every byte of Scrimshaw's folders, and every row of its databases."""
    found, unreadable, foreign = [*_rows(engine, target)], list[Trace](), list[Trace]()
    files = size = 0
    why = {engine.settings.home.resolve(): "" if _with_global(target, include_global) else _GLOBAL_ONLY}
    for place in _places(engine, include_global=True):
        seen = _seen(place, target)
        packed, trouble = _packed(engine, place, target, seen)
        count = seen.traces + packed + (place.path in target.files and place.path.is_file())
        files, size = files + 1, size + seen.size
        foreign += _foreign(engine, place, target, seen)
        if trouble:
            unreadable.append(_trace(place, count, target, trouble))
        elif count and place.kind is not Kind.FOREIGN:
            found.append(_trace(place, count, target, why.get(place.root, "")))
    return _Looked(tuple(found), tuple(unreadable), tuple(foreign), files, size)


def _foreign(engine: Engine, place: _Place, target: Target, seen: Searched) -> Iterator[Trace]:
    """What a link leads to, and what git keeps, as far as it holds it or nobody can tell."""
    if place.kind is Kind.FOREIGN and (seen.traces or seen.closed):
        yield _trace(place, seen.traces, target, f"{_CLOSED}{seen.closed}; {_GIT}" if seen.closed else _GIT)
    if place.kind is not Kind.LINK:
        return
    for other in search_outside(place.path, _roots(engine), target.traces, is_literal=target.traces.is_literal):
        link = f"not Scrimshaw's, {_shown(place, target)} leads there"
        why = f"{_CLOSED}{other.closed}; {link}" if other.closed else link
        yield Trace(place=target.traces.masked(str(other.path)), count=other.traces, why=why)


def _rows(engine: Engine, target: Target) -> Iterator[Trace]:
    for table, count in engine.index.traces(Wipe(target.traces)).items():
        yield Trace(place=f"index.db: {table}", count=count)
    for table, count in engine.journal.traces(target.wipe).items():
        yield Trace(place=f"journal.db: {table}", count=count)


def _packed(engine: Engine, place: _Place, target: Target, seen: Searched) -> tuple[int, str]:
    """How many parts and rows of an archive hold it, and why nobody can tell, or take it out of a file."""
    if place.kind is Kind.SEALED and (seen.inside or seen.closed):
        return 0, _SEALED if seen.inside else _CLOSED + seen.closed
    if place.kind is Kind.SCRATCH and is_packed(contents(place.path)):
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
    if os.fsencode(clean).decode(errors="replace") != str(clean):
        return ""  # a name that is no UTF-8 is none of a memory
    for source in engine.sources:
        root = source.root.resolve()
        if source.writable and clean.suffix == SUFFIX and clean.is_relative_to(root):
            return source.id_prefix + clean.relative_to(root).as_posix().removesuffix(SUFFIX)
    return ""


def _all_stubborn(engine: Engine, places: Sequence[_Place], target: Target) -> list[_Stubborn]:
    """Clean the files that are packed; those where that cannot be done.

    Checkpoints hold much the same files, so each text is redacted once.
    """
    redact_once = cache(redact)
    found = (_stubborn(engine, place, target, redact_once) for place in places)
    return [each for each in found if each]


def _stubborn(
    engine: Engine, place: _Place, target: Target, redact_once: Callable[[str], Redacted]
) -> _Stubborn | None:
    if place.kind is Kind.SEALED:
        seen = _seen(place, target)
        if seen.inside:
            return _Stubborn(place, _SEALED)
        return _Stubborn(place, _CLOSED + seen.closed, is_closed=True) if seen.closed else None
    if place.kind is not Kind.ARCHIVE:
        return None
    about = (place.path, engine.journal.schema(), target.wipe, target.names)
    try:
        if is_in_archive(*about):
            erase_in_archive(*about, redact_once)
    except UnusableArchive as error:
        return _Stubborn(place, error.message)
    return None


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
        if place.kind is Kind.NAME and place.path.is_dir():
            prune(place.path, floor)
        elif place.path.is_file() or place.path.is_symlink():
            remove_file(place.path, floor)


def _rename(place: _Place, target: Target) -> None:
    if place.kind not in (Kind.DATABASE, Kind.FOREIGN) and os.path.lexists(place.path):
        rename_away(place.path, place.root, target.traces)


def _written_anew(engine: Engine, target: Target) -> tuple[str, ...]:
    """Read every file into the index again and give up free pages and logs; the files that others hold."""
    scan(engine)
    engine.index.merge_text()
    if engine.index.traces(Wipe(target.traces)):
        engine.index.clear()
        scan(engine)
    return tuple(str(path) for path in (*engine.index.compact(), *engine.journal.compact()))
