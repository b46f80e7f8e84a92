"""Bringing a checkpoint back: everything is checked, kept safe and laid ready before the first byte changes."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.config import Settings
from scrimshaw.engine import checkpoints
from scrimshaw.engine.checkpoints import COMPANIONS, Place, place
from scrimshaw.engine.core import LOCK_FILE, LOCK_TIMEOUT_S, Engine
from scrimshaw.engine.indexing import scan, unrecorded
from scrimshaw.engine.reading import search
from scrimshaw.errors import Conflict, DamagedDatabase, NotFound, UnusableArchive
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Action, Entry, Filters, Redacted
from scrimshaw.search.results import SearchRequest
from scrimshaw.storage.archive import Archive, Part, open_archive
from scrimshaw.storage.durable import TEMP_PREFIX, storage_errors
from scrimshaw.storage.files import content_hash, lock
from scrimshaw.storage.links import LINKS_FILE
from scrimshaw.storage.paths import SUFFIX
from scrimshaw.storage.sqlite_journal import SqliteJournal
from scrimshaw.storage.swap import Change, swapped

SAMPLE = 5
_QUERY_CHARACTERS = 500


class Restored(Struct, frozen=True, kw_only=True):
    """What a restore did, or would do in a dry run; files by their names in the checkpoint.

    `kept` counts files that stand as they are. `edits` are files changed by hand that were, or would be, replaced.
    `purged` were erased since and stay away. `rows` counts by table what came back. Of `sampled` restored memories
    `found` were found by a search, `missing` were not. `backup` names the checkpoint made before. `unrecorded` counts
    files that are not as the ledger says now: changes it does not know.
    """

    name: str
    clear_existing: bool
    written: tuple[str, ...]
    removed: tuple[str, ...]
    kept: int
    edits: tuple[str, ...] = ()
    purged: tuple[str, ...] = ()
    rows: Mapping[str, int] = {}
    backup: str = ""
    sampled: int = 0
    found: int = 0
    missing: tuple[str, ...] = ()
    unrecorded: int = 0
    dry_run: bool = False


class _Step(NamedTuple):
    """A file that changes: its bytes now and its text then, None where there is none."""

    name: str
    place: Place
    now: bytes | None
    then: Redacted | None


class _Plan(NamedTuple):
    steps: list[_Step]
    kept: int
    purged: list[str]
    edits: list[str]


def restore(
    engine: Engine,
    path: Path,
    *,
    clear_existing: bool = False,
    overwrite_edits: bool = False,
    dry_run: bool = False,
    rows_only: bool = False,
) -> Restored:
    """Bring a checkpoint back: what is missing, or with `clear_existing` exactly the state it holds.

    With `rows_only` the files are left as they are, and no checkpoint is made before: what stands there is newer.

    The ledger is never rewound. Raises UnusableArchive, NotFound, Conflict naming files changed by hand that would be
    replaced, ReadOnly, VaultBusy, StorageFailure; then everything is as it was.
    """
    engine.vault_of("")  # raises ReadOnly
    with open_archive(path, engine.journal.schema()) as archive, engine.exclusive():
        plan = _planned(engine, archive, clear_existing)
        plan = plan._replace(steps=[], edits=[]) if rows_only else plan
        if plan.edits and not (overwrite_edits or dry_run):
            raise Conflict(
                f"Changed by hand since: {', '.join(plan.edits)}.",
                "Commit or copy them, then add --overwrite-edits; or restore without --clear-existing.",
                edits=plan.edits,
            )
        outcome = _outcome(archive, plan, clear_existing, dry_run)
        outcome = _carried_out(engine, archive, plan, outcome, backup=not rows_only)
    return outcome if dry_run else _looked_up(engine, plan, outcome)


def restore_newest(engine: Engine, *, rows_only: bool = False) -> tuple[Restored, tuple[UnusableArchive, ...]]:
    """Bring back what is missing from the newest checkpoint that is sound; and what was wrong with newer ones.

    Raises NotFound where there is none that is sound.
    """
    unusable: list[UnusableArchive] = []
    for path in checkpoints.newest_first(engine):
        try:
            return restore(engine, path, rows_only=rows_only), tuple(unusable)
        except UnusableArchive as error:
            unusable.append(error)
    raise NotFound(
        f"There is no checkpoint that can be used, and {len(unusable)} that cannot.",
        "Name a backup file; the memories themselves are files and not lost.",
    )


def set_aside(settings: Settings, clock: Callable[[], float] = time.time) -> Path | None:
    """Move a damaged journal out of the way, so that a new one is begun; where it is now, None if it is sound.

    Raises VaultBusy, StorageFailure.
    """
    path = settings.folder / "journal.db"
    if not path.exists() or not _is_damaged(path, settings.index.busy_timeout_ms):
        return None
    aside = path.with_name(f"{path.name}.damaged-{datetime.fromtimestamp(clock(), UTC):%Y%m%dT%H%M%SZ}")
    with lock(settings.folder / LOCK_FILE, LOCK_TIMEOUT_S), storage_errors("move", path):
        for suffix in ("", "-wal", "-shm"):
            companion = path.with_name(path.name + suffix)
            if companion.exists():
                companion.rename(aside.with_name(aside.name + suffix))
    return aside


def _is_damaged(path: Path, busy_timeout_ms: int) -> bool:
    try:
        journal = SqliteJournal(path, busy_timeout_ms=busy_timeout_ms)
    except DamagedDatabase:
        return True
    try:
        return bool(journal.check())
    except DamagedDatabase:
        return True
    finally:
        journal.close()


def _planned(engine: Engine, archive: Archive, clear: bool) -> _Plan:
    """What has to change; every file of the archive is read, so that a broken one is met now."""
    parts = archive.manifest.files
    texts = {name: archive.text(name) for name in parts}
    places = {name: place(engine, name) for name in texts}
    include_global = any(name.startswith("global/") for name in texts)
    present = dict(checkpoints.present(engine, include_global=include_global))
    purged = [name for name in texts.keys() - present.keys() if _is_purged(engine, places[name].key)]
    steps = [
        _step(engine, name, texts.get(name), present.get(name))
        for name in sorted(texts.keys() | present.keys())
        if name not in purged and _changes(name, parts.get(name), present.get(name), clear)
    ]
    known = engine.journal.last_hashes()
    edits = [step.name for step in steps if _is_edit(engine, step, known)]
    return _Plan(steps, len(present.keys() - {step.name for step in steps}), sorted(purged), edits)


def _changes(name: str, part: Part | None, path: Path | None, clear: bool) -> bool:
    """Whether a file differs from the checkpoint in a way that this restore mends."""
    if path is None:
        return True
    if not clear or name in COMPANIONS:
        return False
    return part is None or content_hash(_bytes(path)) not in (part.sha256, part.original)


def _step(engine: Engine, name: str, text: str | None, path: Path | None) -> _Step:
    then = None if text is None else redact(text)
    return _Step(name, place(engine, name), None if path is None else _bytes(path), then)


def _is_purged(engine: Engine, key: str) -> bool:
    newest = engine.journal.history(key, 1) if key else []
    return bool(newest) and newest[0]["action"] == Action.PURGE


def _is_edit(engine: Engine, step: _Step, known: Mapping[str, str]) -> bool:
    """Whether the file that would go holds what a person wrote and nothing else keeps."""
    if step.now is None:
        return False
    current = content_hash(step.now)
    if known.get(step.place.key) != current:
        return True
    newest = engine.journal.history(step.place.key, 1)
    return bool(newest) and newest[0]["action"] == Action.EXTERNAL and newest[0]["new_hash"] == current


def _outcome(archive: Archive, plan: _Plan, clear: bool, dry_run: bool) -> Restored:
    return Restored(
        name=archive.manifest.name,
        clear_existing=clear,
        written=tuple(step.name for step in plan.steps if step.then is not None),
        removed=tuple(step.name for step in plan.steps if step.then is None),
        kept=plan.kept,
        edits=tuple(plan.edits),
        purged=tuple(plan.purged),
        dry_run=dry_run,
    )


def _carried_out(engine: Engine, archive: Archive, plan: _Plan, outcome: Restored, *, backup: bool) -> Restored:
    """The vault's lock is held. Rows are checked, a checkpoint is made, files and rows change as one."""
    with TemporaryDirectory(dir=engine.folder, prefix=TEMP_PREFIX) as scratch:
        manifest = archive.manifest
        staged = engine.journal.stage(Path(scratch) / "rows.db", manifest.schema, archive.rows())
        try:
            if outcome.dry_run:
                return replace(outcome, rows=manifest.rows)
            kept = _backed_up(engine, outcome) if backup else ""
            mark = secrets.token_hex(16)
            changes = [Change(step.place.path, step.place.root, step.then) for step in plan.steps]
            with swapped(engine.folder, mark, changes):
                rows = staged.commit(_entries(plan.steps, outcome, mark), clear=outcome.clear_existing)
        finally:
            staged.close()
    engine.index.retire([str(step.place.path) for step in plan.steps])
    return replace(outcome, rows={table: count for table, count in rows.items() if count}, backup=kept)


def _backed_up(engine: Engine, outcome: Restored) -> str:
    include_global = any(name.startswith("global/") for name in (*outcome.written, *outcome.removed))
    name = checkpoints.automatic_name(engine, "restore")
    return checkpoints.take(engine, name, include_global=include_global).name


def _entries(steps: Sequence[_Step], outcome: Restored, mark: str) -> list[tuple[Entry, Redacted | None]]:
    """A row for every file, and one for the restore itself."""
    meta = {"checkpoint": outcome.name, "mark": mark}
    whole = _entry("", "", "", {**meta, "files": len(steps), "clear_existing": outcome.clear_existing})
    return [(whole, None), *(_recorded(step, meta) for step in steps if step.place.key)]


def _recorded(step: _Step, meta: Mapping[str, Any]) -> tuple[Entry, Redacted | None]:
    if step.place.key == LINKS_FILE:
        meta = {**meta, "file": LINKS_FILE}
    prior = "" if step.now is None else content_hash(step.now)
    new = "" if step.then is None else content_hash(step.then.text.encode())
    text = None if step.now is None else redact(step.now.decode(errors="replace"))
    return _entry(step.place.key, prior, new, meta), text


def _entry(key: str, prior_hash: str, new_hash: str, meta: Mapping[str, Any]) -> Entry:
    return Entry(
        action=Action.RESTORE,
        memory_id=key,
        reason=f"restored from checkpoint {meta['checkpoint']}",
        prior_hash=prior_hash,
        new_hash=new_hash,
        actor="human",
        decision_meta=meta,
    )


def _looked_up(engine: Engine, plan: _Plan, outcome: Restored) -> Restored:
    """The outcome with the proof: a sample of the restored memories is searched for."""
    strange = len(unrecorded(engine))
    unreadable = {skip.path for skip in scan(engine).skipped}
    restored = [step for step in plan.steps if step.then is not None and step.name.endswith(SUFFIX)]
    ids = [step.place.key for step in restored if str(step.place.path) not in unreadable]
    sample = ids[:: max(1, len(ids) // SAMPLE)][:SAMPLE]
    missing = tuple(memory_id for memory_id in sample if not _is_found(engine, memory_id))
    found = len(sample) - len(missing)
    return replace(outcome, sampled=len(sample), found=found, missing=missing, unrecorded=strange)


def _is_found(engine: Engine, memory_id: str) -> bool:
    memory = engine.index.get([memory_id]).get(memory_id)
    if memory is None:
        return False
    asked = SearchRequest(
        query=f"{memory.title} {memory_id}"[:_QUERY_CHARACTERS],
        filters=Filters(only=(memory_id,), include_deprecated=True),
        include_archived=True,
    )
    result = search(engine, asked)
    return any(hit.memory.id == memory_id for hit in (*result.hits, *result.always_on))


def _bytes(path: Path) -> bytes:
    with storage_errors("read", path):
        return path.read_bytes()
