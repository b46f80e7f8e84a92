"""Restoring a checkpoint, even after the journal was lost.

Everything is checked, backed up and staged before the first byte changes. A damaged journal is moved away, never
deleted. The memory files stay as they are; the checkpoint restores what only the journal had.
"""

import secrets
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import chain, count, takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.config import Settings
from scrimshaw.engine import checkpoints
from scrimshaw.engine.core import GLOBAL, LOCK_FILE, LOCK_TIMEOUT_S, MEMORIES, Engine
from scrimshaw.engine.degradations import INDEX
from scrimshaw.engine.index import catch_up, list_skipped_files
from scrimshaw.engine.ledger import IN_VAULT, LedgerFile, hash_of, redact_text
from scrimshaw.engine.read import search
from scrimshaw.engine.trust import demand_changeable
from scrimshaw.errors import Conflict, InvalidRequest, NotFound, StorageFailure, UnusableArchive
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Action, Entry, Filters, Redacted
from scrimshaw.search.results import SearchRequest
from scrimshaw.storage.archive import Archive, open_archive
from scrimshaw.storage.databases import is_damaged, move_journal, note_ledger_end, read_ledger_end
from scrimshaw.storage.durable import TEMP_PREFIX, storage_errors
from scrimshaw.storage.journal import LEDGER, find_break
from scrimshaw.storage.paths import SUFFIX
from scrimshaw.storage.place import CHECKPOINTS, JOURNAL, find_place
from scrimshaw.storage.ports import Row, StoredText
from scrimshaw.storage.toml_files import LINKS_FILE
from scrimshaw.storage.transaction import FileChange, atomic_file_changes, lock

SAMPLE = 10  # restored memories that are searched for by their titles
_COMPANIONS = ("", "-wal", "-shm")
_NEW_LEDGER = "the journal was lost and no checkpoint could be used; this is the start of a new ledger"


class Recovery(Struct, frozen=True, kw_only=True):
    """What was lost with a journal."""

    aside: str  #: where the damaged one is now, "" if nothing was left of it
    age_s: float | None = None  #: age of the restored checkpoint in seconds, None without one
    lost: int = 0  #: how many entries the ledger had that are gone, as far as the index knows
    absent: tuple[str, ...] = ()  #: files of the checkpoint that were deleted since and not restored


class Restored(Struct, frozen=True, kw_only=True):
    """What a restore did, or would do in a dry run; files by their names in the checkpoint."""

    name: str  #: empty if no checkpoint could be used after a journal was lost
    clear_existing: bool
    written: tuple[str, ...]
    removed: tuple[str, ...]
    kept: int  #: how many files stay as they are
    edits: tuple[str, ...] = ()  #: files changed by hand that were, or would be, replaced
    purged: tuple[str, ...] = ()  #: files that were erased since the checkpoint was made and stay as they are
    is_purged_since: bool = False  #: the backup's rows and other files may still contain what was purged since
    closed: tuple[str, ...] = ()  #: Serena's files that cannot be written here, for her settings or without her folder
    redacted: tuple[str, ...] = ()  #: files restored without the secrets that were redacted in the backup
    rows: Mapping[str, int] = {}  #: by table, how many rows were restored
    backup: str = ""  #: the checkpoint made before
    sampled: int = 0  #: how many restored memories were looked for
    found: int = 0  #: of these
    missing: tuple[str, ...] = ()  #: of these, by id
    unrecorded: int = 0  #: how many files differed from the ledger and were recorded as they are
    recovery: Recovery | None = None
    dry_run: bool = False


class _Step(NamedTuple):
    """A file to change, by its name in the archive: its state now and its text afterwards, None for no file."""

    name: str
    now: LedgerFile
    then: Redacted | None

    @property
    def change(self) -> FileChange:
        return FileChange(self.now.path, self.now.root, self.now.data, self.then)


def restore(
    engine: Engine,
    path: Path,
    *,
    clear_existing: bool = False,
    overwrite_edits: bool = False,
    dry_run: bool = False,
    rows_only: bool = False,
    actor: str = "human",
) -> Restored:
    """Restore a checkpoint: what is missing, or with `clear_existing` its exact state; all or nothing."""
    # The ledger is never rewound. With `rows_only` files stay as they are, and no checkpoint is made before.
    engine.vault_of("")  # raises ReadOnly
    with open_archive(path, engine.maintenance.schema) as archive, engine.write_lock():
        present, steps = _plan_steps(engine, archive, clear_existing)
        history, parts = engine.journal.history(), archive.manifest.files
        # A purge does not search archives outside the project's checkpoints.
        is_elsewhere = archive.path.parent.resolve() != (engine.storage.place / CHECKPOINTS).resolve()
        is_purged_since, purged = _find_purged(engine, archive, steps, history, is_elsewhere)
        steps = [step for step in steps if step.name not in purged]
        unchanged = present - {step.name for step in steps}
        steps = [] if rows_only else steps
        edits = _find_edits(engine, steps, history)
        present_data = [(step.name, step.now.data or b"") for step in steps]
        if unkept := [name for name, data in present_data if data.decode(errors="replace").encode() != data]:
            hint = "Move them out of the vault, then try again; nothing was changed."
            raise Conflict(f"Not UTF-8, so that no checkpoint can keep them: {', '.join(unkept)}.", hint, unkept=unkept)
        texts = chain(present_data, ((step.name, step.change.after or b"") for step in steps))
        files = ((name, parse_memory_file(text.decode(errors="replace"))) for name, text in texts)
        demand_changeable(files, actor, f"checkpoint restore {path.stem}")
        if edits and not (overwrite_edits or dry_run):
            hint = "Make a checkpoint first, or add --overwrite-edits; or restore without --clear-existing."
            raise Conflict(f"Changed by hand, and in no checkpoint: {', '.join(edits)}.", hint, edits=edits)
        planned = Restored(
            name=archive.manifest.name,
            clear_existing=clear_existing,
            written=tuple(step.name for step in steps if step.then is not None),
            removed=tuple(step.name for step in steps if step.then is None),
            kept=len(unchanged),
            edits=tuple(edits),
            purged=tuple(purged),
            is_purged_since=is_purged_since and is_elsewhere,
            closed=tuple(name for name in parts if not checkpoints.is_open(engine, name)),
            redacted=tuple(step.name for step in steps if step.name in parts and parts[step.name].original),
            dry_run=dry_run,
        )
        outcome = _carry_out(engine, archive, steps, planned, actor, with_backup=not rows_only)
    if not dry_run:
        with engine.degradations.note_failure(INDEX):
            outcome = _check_found(engine, steps, outcome)
    return outcome


def _plan_steps(engine: Engine, archive: Archive, clear: bool) -> tuple[set[str], list[_Step]]:
    """The current files, and what has to change; reads every file of the archive, so that a broken one is noticed."""
    parts = archive.manifest.files
    texts = {name: archive.text(name) for name in parts if checkpoints.is_open(engine, name)}
    # Another vault of which the archive has nothing was not meant by it, as of the archives of earlier versions.
    vaults = {MEMORIES, *(name.partition("/")[0] for name in texts)}
    here = checkpoints.list_current_files(engine)
    present = {name: here[name] for name in here if "/" not in name or name.partition("/")[0] in vaults}
    steps = []
    for name in sorted(texts.keys() | present.keys()):
        path, data, part = present.get(name), None, parts.get(name)
        if path is not None:
            if not clear or name in checkpoints.COMPANIONS:
                continue
            with storage_errors("read", path):
                data = path.read_bytes()
            if part and hash_of(data) in (part.sha256, part.original):
                continue
        then = redact(texts[name]) if name in texts else None
        steps.append(_Step(name, checkpoints.locate_file(engine, name, data), then))
    return set(present), steps


def _find_purged(
    engine: Engine, archive: Archive, steps: Sequence[_Step], history: Sequence[Row], is_elsewhere: bool
) -> tuple[bool, list[str]]:
    """(whether the archive's ledger lacks a purge, the files that may contain purged text)."""
    purges = [row for row in history if row["action"] == Action.PURGE]
    rows = archive.rows() if purges else ()
    known = {row.get("at") for table, row in rows if table == "ledger" and row.get("action") == Action.PURGE}
    by_memory = defaultdict[str, list[Row]](list)
    for row in purges:
        if row["at"] not in known:
            by_memory[row["memory_id"]].append(row)
    parts, found = archive.manifest.files, []
    for step in steps if by_memory else ():
        if (key := step.now.name) and step.then is not None:
            hashes = {parts[step.name].sha256, parts[step.name].original} - {""}
            about = by_memory.get(key, ())
            is_erased = any(not row["new_hash"] or row["prior_hash"] in hashes or is_elsewhere for row in about)
            texts = () if is_erased else [engine.journal.prior_text(key, each) for each in hashes]
            if is_erased or any(text is not None and redact(text) != step.then for text in texts):
                found.append(step.name)
    return bool(by_memory), found


def _find_edits(engine: Engine, steps: Sequence[_Step], history: Sequence[Row]) -> list[str]:
    """The files to be replaced that contain edits by hand which no checkpoint has."""
    recorded, rows = engine.journal.last_hashes(), dict[str, list[Row]]()
    for row in history:
        rows.setdefault(row["decision_meta"].get("file") or row["memory_id"], []).append(row)
    edited = {}
    for step in steps:
        key, current = step.now.name, step.now.hash
        if current and (hashes := _list_hashes_since_edit(current, recorded.get(key), rows.get(key, []))):
            edited[step.name] = hashes
    archived: dict[str, set[str]] = {}
    for path in checkpoints.list_newest_first(engine) if edited else ():
        with suppress(UnusableArchive, NotFound), open_archive(path, engine.maintenance.schema) as archive:
            for name, part in archive.manifest.files.items():
                archived.setdefault(name, set()).update((part.sha256, part.original or part.sha256))
    return [name for name, hashes in edited.items() if archived.get(name, set()).isdisjoint(hashes)]


def _list_hashes_since_edit(current: str, recorded: str | None, rows: Sequence[Row]) -> list[str]:
    """The hashes of a file back to its last edit by hand, newest first; empty without one."""
    found = [current]
    if recorded != current:
        return found
    for row in rows:
        if row["new_hash"] != found[-1] or not found[-1]:
            continue
        if row["action"] == Action.EXTERNAL:
            return found
        if row["action"] != Action.RESTORE:
            found.append(row["prior_hash"])
    return []


def _carry_out(
    engine: Engine, archive: Archive, steps: Sequence[_Step], planned: Restored, actor: str, *, with_backup: bool
) -> Restored:
    """With the vault locked, check the rows, make a checkpoint, and change files and rows together."""
    with (
        TemporaryDirectory(dir=engine.folder, prefix=TEMP_PREFIX, ignore_cleanup_errors=True) as folder,
        engine.maintenance.stage_rows(Path(folder, "rows.db"), archive.manifest.schema, archive.rows()) as commit,
    ):
        if planned.dry_run:
            return replace(planned, rows=archive.manifest.rows)
        backup = ""
        if with_backup:
            include_global = any(step.name.startswith(GLOBAL) for step in steps)
            before = checkpoints.checkpoint_before(engine, "restore", include_global=include_global, is_locked=True)
            backup = before.name
        recorded = [step for step in steps if step.now.name]
        # Rows of an archive may lack the texts, and an edit by hand may be the next change.
        texts = [StoredText(step.now.name, hash_of(step.change.after), step.then) for step in recorded if step.then]
        files = [(step.now, step.now.data) for step in recorded if step.now.data is not None]
        texts += (redact_text(now.name, now.hash, data) for now, data in files)
        engine.journal.record((), (), texts)
        meta = {"checkpoint": planned.name, "mark": secrets.token_hex(16)}
        reason = f"restored from checkpoint {planned.name}"
        about = {**meta, "files": len(steps), "clear_existing": planned.clear_existing}
        whole = Entry(action=Action.RESTORE, memory_id="", reason=reason, actor=actor, decision_meta=about)
        entries = [whole]
        for step in recorded:
            details = {"file": LINKS_FILE} if step.now.name == LINKS_FILE else IN_VAULT.get(step.now.source, {})
            hashes = {"prior_hash": step.now.hash, "new_hash": hash_of(step.change.after)}
            entries.append(replace(whole, memory_id=step.now.name, **hashes, decision_meta=meta | details))
        with atomic_file_changes(engine.folder, meta["mark"], [step.change for step in steps]):
            rows = commit(entries, planned.clear_existing)
    with engine.degradations.note_failure(INDEX):
        engine.index.retire([str(step.now.path) for step in steps])
    return replace(planned, rows={table: number for table, number in rows.items() if number}, backup=backup)


def _check_found(engine: Engine, steps: Sequence[_Step], outcome: Restored) -> Restored:
    """The outcome with a check: some of the restored memories are searched for by title."""
    unreadable, unrecorded = _scan_restored(engine)
    restored = [step for step in steps if step.then is not None and step.name.endswith(SUFFIX)]
    ids = [step.now.name for step in restored if str(step.now.path) not in unreadable]
    sample = ids[:: max(1, len(ids) // SAMPLE)][:SAMPLE]
    memories, missing = engine.index.get(sample), []
    for memory_id in sample:
        title = memories[memory_id].title if memory_id in memories else ""
        filters = Filters(only=(memory_id,), include_deprecated=True)
        result = search(engine, SearchRequest(query=f"{title} {memory_id}"[:500], filters=filters))
        if memory_id not in {hit.memory.id for hit in (*result.hits, *result.always_on)}:
            missing.append(memory_id)
    found = len(sample) - len(missing)
    return replace(outcome, sampled=len(sample), found=found, missing=tuple(missing), unrecorded=unrecorded)


def _scan_restored(engine: Engine) -> tuple[set[str], int]:
    """The paths that a scan skipped, and how many files the ledger recorded as changed by hand."""
    before = next((row["seq"] for row in engine.journal.history(limit=1)), 0)
    catch_up(engine)
    unreadable = {skip.path for skip in list_skipped_files(engine)}
    rows = takewhile(lambda row: row["seq"] > before, engine.journal.history())
    return unreadable, sum(row["action"] == Action.EXTERNAL for row in rows)


def is_lost(settings: Settings) -> bool:
    """Whether the journal is missing or damaged; raises NewerDatabase for one of a later version."""
    if settings.storage.engine != "sqlite":
        raise InvalidRequest("The journal is on a server.", "Restore the server's own backup (`pg_dump --schema`).")
    move_journal(settings.folder)
    return is_damaged(settings.folder, busy_timeout_ms=settings.index.busy_timeout_ms)


def set_aside(settings: Settings) -> Path | None:
    """Move a lost or damaged journal out of the way; returns its new place, None if it is intact."""
    with lock(settings.folder / LOCK_FILE, LOCK_TIMEOUT_S), storage_errors("move", settings.folder / JOURNAL):
        if not is_lost(settings):  # under the lock: another process may have restored it meanwhile
            return None
        path = find_place(settings.folder) / JOURNAL
        stamp = f"{path.name}.damaged-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
        names = chain([stamp], (f"{stamp}.{number}" for number in count(2)))
        free = next(name for name in names if not any(path.with_name(name + end).exists() for end in _COMPANIONS))
        for end in _COMPANIONS:
            with suppress(FileNotFoundError):
                path.with_name(path.name + end).rename(path.with_name(free + end))
    return path.with_name(free)


def restore_newest(engine: Engine, *, aside: Path | None = None) -> tuple[Restored, tuple[UnusableArchive, ...]]:
    """Restore what is missing from the newest intact checkpoint; also returns what was wrong with newer ones."""
    # With `aside`, the place of a damaged journal, only rows are restored: the files are newer than any checkpoint. The
    # second choice is a checkpoint with a changed ledger, which has the rest; the last, a new ledger that says so.
    seen = read_ledger_end(engine.folder) or 0
    unusable, changed_ledgers = list[UnusableArchive](), list[Path]()
    for path in checkpoints.list_newest_first(engine):
        try:
            if aside is None:
                return restore(engine, path), tuple(unusable)
            demand_chained(path, engine.maintenance.schema)
            return _restore_rows(engine, path, aside, seen), tuple(unusable)
        except UnusableArchive as error:
            unusable.append(error)
            changed_ledgers += [] if "errno" in error.details else [path]
    if aside is None:
        hint = "Name a backup file; the memories themselves are files and not lost."
        raise NotFound(f"There is no checkpoint that can be used, and {len(unusable)} that cannot.", hint)
    for path in changed_ledgers:
        with suppress(UnusableArchive):
            return _restore_rows(engine, path, aside, seen), tuple(unusable)
    return _restore_rows(engine, None, aside, seen), tuple(unusable)


def demand_chained(path: Path, schema: int) -> None:
    """Read all rows of a checkpoint; raises UnusableArchive if the chain is broken or reading fails."""
    try:
        with open_archive(path, schema) as archive:
            rows, names = archive.rows(), LEDGER.split(", ")
            _, broken = find_break([row.get(name) for name in names] for table, row in rows if table == "ledger")
            deque(rows, maxlen=0)  # to its end, so that it is closed
    except StorageFailure as error:
        raise UnusableArchive(error.message, "Use another one.", **error.details) from error
    if broken:
        message = f"{path.name} was made of a ledger that had been changed at entry {broken}."
        raise UnusableArchive(message, "An older one may be sound.", path=str(path))


def _restore_rows(engine: Engine, checkpoint: Path | None, aside: Path, seen: int) -> Restored:
    """Restore the rows of a checkpoint, or begin a new ledger; count the entries lost up to number `seen`."""
    age_s, absent = None, tuple[str, ...]()
    if checkpoint:
        outcome = restore(engine, checkpoint, rows_only=True)
        with open_archive(checkpoint, engine.maintenance.schema) as archive:
            age_s = max(0.0, engine.clock() - archive.manifest.created)
            absent = tuple(sorted(archive.manifest.files.keys() - checkpoints.list_current_files(engine).keys()))
            seen -= archive.manifest.rows.get("ledger", 0)
    else:
        with engine.write_lock():
            engine.journal.record([Entry(action=Action.RESTORE, memory_id="", reason=_NEW_LEDGER, actor="human")])
        _, unrecorded = _scan_restored(engine)
        outcome = Restored(name="", clear_existing=False, written=(), removed=(), kept=0, unrecorded=unrecorded)
    note_ledger_end(engine.folder, is_restored=True)
    place = str(aside) if aside.exists() else ""
    return replace(outcome, recovery=Recovery(aside=place, age_s=age_s, lost=max(0, seen), absent=absent))
