"""Bringing a checkpoint back: everything is checked, kept safe and laid ready before the first byte changes."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.engine import checkpoints
from scrimshaw.engine.checkpoints import COMPANIONS, Place, place
from scrimshaw.engine.core import CHECKPOINTS, Engine
from scrimshaw.engine.index import scan
from scrimshaw.engine.read import search
from scrimshaw.engine.recovery import Recovery, counted, demand_chained
from scrimshaw.engine.trust import demand_changeable
from scrimshaw.errors import Conflict, NotFound, UnusableArchive
from scrimshaw.ingest.memory_file import MemoryFile, parse_memory_file
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Action, Entry, Filters, Redacted, content_hash
from scrimshaw.search.results import SearchRequest
from scrimshaw.storage.archive import Archive, Part, open_archive
from scrimshaw.storage.durable import storage_errors
from scrimshaw.storage.files import is_text
from scrimshaw.storage.journal_file import remembered
from scrimshaw.storage.kept import Kept
from scrimshaw.storage.links import LINKS_FILE
from scrimshaw.storage.paths import SUFFIX
from scrimshaw.storage.transaction import FileChange, atomic_file_changes, demand_room, scratch

Row = Mapping[str, Any]

SAMPLE = 5
_QUERY_CHARACTERS = 500
_BEGUN_ANEW = Entry(
    action=Action.RESTORE,
    memory_id="",
    reason="the journal was lost and no checkpoint could be used; it begins anew",
    prior_hash="",
    new_hash="",
    actor="human",
)


class Restored(Struct, frozen=True, kw_only=True):
    """What a restore did, or would do in a dry run; files by their names in the checkpoint.

    `kept` counts files that stand as they are. `edits` are files changed by hand that were, or would be, replaced.
    `purged` were erased since the checkpoint was made and stay as they are; `is_purged_since` says that something was,
    and that rows and other files of this backup may still hold it. `redacted` come back without what was hidden when
    they were kept. `rows` counts by table what came back. Of `sampled` restored memories
    `found` were found by a search, `missing` were not. `backup` names the checkpoint made before. `unrecorded` counts
    files that were not as the ledger said, and that it took as they are. `recovery` tells what was lost with a damaged
    journal; `name` is empty if no checkpoint could be used then.
    """

    name: str
    clear_existing: bool
    written: tuple[str, ...]
    removed: tuple[str, ...]
    kept: int
    edits: tuple[str, ...] = ()
    purged: tuple[str, ...] = ()
    is_purged_since: bool = False
    redacted: tuple[str, ...] = ()
    rows: Mapping[str, int] = {}
    backup: str = ""
    sampled: int = 0
    found: int = 0
    missing: tuple[str, ...] = ()
    unrecorded: int = 0
    recovery: Recovery | None = None
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
    is_purged_since: bool

    @property
    def changes(self) -> list[FileChange]:
        """The files to change, each only if it holds what was planned with."""
        return [FileChange(step.place.path, step.place.root, step.now, step.then) for step in self.steps]

    @property
    def files(self) -> Iterator[tuple[str, MemoryFile]]:
        """The name and content of each file that changes, as it is and as it will be."""
        for step in self.steps:
            yield step.name, parse_memory_file((step.now or b"").decode(errors="replace"))
            yield step.name, parse_memory_file(step.then.text if step.then else "")


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
    """Bring a checkpoint back: what is missing, or with `clear_existing` exactly the state it holds.

    With `rows_only` the files are left as they are, and no checkpoint is made before: what stands there is newer.

    The ledger is never rewound. Raises UnusableArchive, NotFound, Conflict naming files changed by hand that would be
    replaced, that no backup can keep, or that stand in the way, ReadOnly, VaultBusy, StorageFailure; then everything is
    as it was. InvalidRequest names a constitutional memory that `actor`, who is no person, would change.
    """
    engine.vault_of("")  # raises ReadOnly
    with open_archive(path, engine.journal.schema()) as archive, engine.write_lock():
        plan = _planned(engine, archive, clear_existing)
        plan = plan._replace(steps=[], edits=[]) if rows_only else plan
        _demand_kept(plan)
        demand_changeable(plan.files, actor, f"checkpoint restore {path.stem}")
        demand_room(plan.changes)
        if plan.edits and not (overwrite_edits or dry_run):
            raise Conflict(
                f"Changed by hand, and in no checkpoint: {', '.join(plan.edits)}.",
                "Make a checkpoint first, or add --overwrite-edits; or restore without --clear-existing.",
                edits=plan.edits,
            )
        outcome = _outcome(archive, plan, clear_existing, dry_run)
        outcome = _carried_out(engine, archive, plan, outcome, actor, backup=not rows_only)
    return outcome if dry_run else _looked_up(engine, plan, outcome)


def restore_newest(engine: Engine, *, aside: Path | None = None) -> tuple[Restored, tuple[UnusableArchive, ...]]:
    """Bring back what is missing from the newest checkpoint that is sound; and what was wrong with newer ones.

    With `aside`, where a damaged journal went, only its rows come back into the one begun anew; the files are newer
    than any checkpoint, stay as they are and are recorded as edits by hand. Then nothing to restore is no error: the
    ledger begins with a row that says so. Raises NotFound where no checkpoint is sound, VaultBusy, StorageFailure.
    """
    if aside is not None:
        return _into_new_journal(engine, aside)
    unusable: list[UnusableArchive] = []
    for path in checkpoints.newest_first(engine):
        try:
            return restore(engine, path), tuple(unusable)
        except UnusableArchive as error:
            unusable.append(error)
    raise NotFound(
        f"There is no checkpoint that can be used, and {len(unusable)} that cannot.",
        "Name a backup file; the memories themselves are files and not lost.",
    )


def _into_new_journal(engine: Engine, aside: Path) -> tuple[Restored, tuple[UnusableArchive, ...]]:
    seen = remembered(engine.folder) or 0
    unusable: list[UnusableArchive] = []
    doubtful: list[Path] = []
    for path in checkpoints.newest_first(engine):
        try:
            demand_chained(path, engine.journal.schema())
            outcome = restore(engine, path, rows_only=True)
        except UnusableArchive as error:
            unusable.append(error)
            if "errno" not in error.details:
                doubtful.append(path)
        except NotFound:  # a folder of such a name
            continue
        else:
            return replace(outcome, recovery=counted(engine, aside, seen, path)), tuple(unusable)
    return _without_a_sound_one(engine, aside, seen, doubtful), tuple(unusable)


def _without_a_sound_one(engine: Engine, aside: Path, seen: int, doubtful: Sequence[Path]) -> Restored:
    """From a checkpoint whose ledger had been changed, which holds all else; or from none."""
    for path in doubtful:
        with suppress(UnusableArchive):
            outcome = restore(engine, path, rows_only=True)
            return replace(outcome, recovery=counted(engine, aside, seen, path))
    with engine.write_lock():
        engine.journal.record([(_BEGUN_ANEW, None)])
    _, strange = _caught_up(engine)
    nothing = Restored(name="", clear_existing=False, written=(), removed=(), kept=0, unrecorded=strange)
    return replace(nothing, recovery=counted(engine, aside, seen, None))


def _planned(engine: Engine, archive: Archive, clear: bool) -> _Plan:
    """What has to change; every file of the archive is read, so that a broken one is met now."""
    parts = archive.manifest.files
    texts = {name: archive.text(name) for name in parts}
    include_global = any(name.startswith("global/") for name in texts)
    present = dict(checkpoints.present(engine, include_global=include_global))
    steps = [
        _step(engine, name, texts.get(name), present.get(name))
        for name in sorted(texts.keys() | present.keys())
        if _changes(name, parts.get(name), present.get(name), clear)
    ]
    history = engine.journal.history()
    erased = _Erased(engine, archive, _purges_since(history, archive))
    purged = [step.name for step in steps if step.then is not None and erased.concerns(step)]
    steps = [step for step in steps if step.name not in purged]
    return _Plan(
        steps=steps,
        kept=len(present.keys() - {step.name for step in steps}),
        purged=purged,
        edits=_edits(engine, steps, history),
        is_purged_since=bool(erased.rows) and erased.is_elsewhere,
    )


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


def _purges_since(history: Sequence[Row], archive: Archive) -> list[Row]:
    """The rows of purges that the archive's own ledger does not know."""
    purges = [row for row in history if row["action"] == Action.PURGE]
    rows = archive.rows() if purges else ()
    known = {row.get("at") for table, row in rows if table == "ledger" and row.get("action") == Action.PURGE}
    return [row for row in purges if row["at"] not in known]


class _Erased(NamedTuple):
    """What was purged since an archive was made, by the ledger's rows."""

    engine: Engine
    archive: Archive
    rows: list[Row]

    @property
    def is_elsewhere(self) -> bool:
        """Whether no purge looked into the archive, since it lies outside of the project's checkpoints."""
        return self.archive.path.parent.resolve() != (self.engine.folder / CHECKPOINTS).resolve()

    def concerns(self, step: _Step) -> bool:
        """Whether a file of the archive holds, or may hold, what was purged; content once kept tells by its marker."""
        key, part = step.place.key, self.archive.manifest.files[step.name]
        hashes = {part.sha256, part.original} - {""}
        about = [row for row in self.rows if key and row["memory_id"] == key]
        if any(not row["new_hash"] or row["prior_hash"] in hashes or self.is_elsewhere for row in about):
            return True
        kept = [self.engine.journal.prior(key, each) for each in hashes] if self.rows and key else []
        return any(text is not None and redact(text) != step.then for text in kept)


def _edits(engine: Engine, steps: Sequence[_Step], history: Sequence[Row]) -> list[str]:
    """The files that would go and hold what a person wrote and no checkpoint keeps."""
    known, rows = engine.journal.last_hashes(), _by_file(history)
    by_hand = {step.name: found for step in steps if (found := _since_edit(step, known, rows.get(step.place.key, [])))}
    held = _held(engine) if by_hand else {}
    return [name for name, hashes in by_hand.items() if held.get(name, set()).isdisjoint(hashes)]


def _by_file(history: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in history:
        found.setdefault(row["decision_meta"].get("file") or row["memory_id"], []).append(row)
    return found


def _since_edit(step: _Step, known: Mapping[str, str], rows: Sequence[Row]) -> list[str]:
    """The hashes of a file from now back to the edit by hand that went into it, empty without one; `rows` newest first.

    What was brought back is as old as the row that it was first written by.
    """
    current = _hash(step.now)
    if not current:
        return []
    found = [current]
    if known.get(step.place.key) != current:
        return found
    for row in rows:
        if row["new_hash"] != found[-1] or not found[-1]:
            continue
        if row["action"] == Action.EXTERNAL:
            return found
        if row["action"] != Action.RESTORE:
            found.append(row["prior_hash"])
    return []


def _held(engine: Engine) -> dict[str, set[str]]:
    """The hashes of every file in the project's checkpoints, by its name there."""
    found: dict[str, set[str]] = {}
    for path in checkpoints.newest_first(engine):
        with suppress(UnusableArchive, NotFound), open_archive(path, engine.journal.schema()) as archive:
            for name, part in archive.manifest.files.items():
                found.setdefault(name, set()).update((part.sha256, part.original or part.sha256))
    return found


def _demand_kept(plan: _Plan) -> None:
    """Refuse to replace what no backup can hold."""
    strange = [step.name for step in plan.steps if step.now is not None and not is_text(step.now)]
    if strange:
        raise Conflict(
            f"Not UTF-8, so that no checkpoint can keep them: {', '.join(strange)}.",
            "Move them out of the vault, then try again; nothing was changed.",
            unkept=strange,
        )


def _hash(data: bytes | None) -> str:
    return "" if data is None else content_hash(data)


def _outcome(archive: Archive, plan: _Plan, clear: bool, dry_run: bool) -> Restored:
    parts = archive.manifest.files
    return Restored(
        name=archive.manifest.name,
        clear_existing=clear,
        written=tuple(step.name for step in plan.steps if step.then is not None),
        removed=tuple(step.name for step in plan.steps if step.then is None),
        kept=plan.kept,
        edits=tuple(plan.edits),
        purged=tuple(plan.purged),
        is_purged_since=plan.is_purged_since,
        redacted=tuple(name for step in plan.steps if (name := step.name) in parts and parts[name].original),
        dry_run=dry_run,
    )


def _carried_out(
    engine: Engine, archive: Archive, plan: _Plan, outcome: Restored, actor: str, *, backup: bool
) -> Restored:
    """The vault's lock is held. Rows are checked, a checkpoint is made, files and rows change as one."""
    with scratch(engine.folder) as folder:
        manifest = archive.manifest
        staged = engine.journal.stage(folder / "rows.db", manifest.schema, archive.rows())
        try:
            if outcome.dry_run:
                return replace(outcome, rows=manifest.rows)
            kept = _backed_up(engine, outcome) if backup else ""
            mark = secrets.token_hex(16)
            engine.journal.record((), (), _texts(plan.steps))
            with atomic_file_changes(engine.folder, mark, plan.changes):
                rows = staged.commit(_entries(plan.steps, outcome, mark, actor), clear=outcome.clear_existing)
        finally:
            staged.close()
    engine.index.retire([str(step.place.path) for step in plan.steps])
    return replace(outcome, rows={table: count for table, count in rows.items() if count}, backup=kept)


def _backed_up(engine: Engine, outcome: Restored) -> str:
    include_global = any(name.startswith("global/") for name in (*outcome.written, *outcome.removed))
    name = checkpoints.automatic_name(engine, "restore")
    return checkpoints.take(engine, name, include_global=include_global).name


def _texts(steps: Sequence[_Step]) -> list[Kept]:
    """What the files will hold. Rows of an archive need not have it, and an edit by hand may be the next change."""
    coming = [(step.place.key, step.then) for step in steps if step.place.key]
    return [Kept(key, content_hash(then.text.encode()), then) for key, then in coming if then is not None]


def _entries(steps: Sequence[_Step], outcome: Restored, mark: str, actor: str) -> list[tuple[Entry, Redacted | None]]:
    """A row for every file, and one for the restore itself."""
    meta = {"checkpoint": outcome.name, "mark": mark}
    whole = _entry("", ("", ""), {**meta, "files": len(steps), "clear_existing": outcome.clear_existing}, actor)
    return [(whole, None), *(_recorded(step, meta, actor) for step in steps if step.place.key)]


def _recorded(step: _Step, meta: Mapping[str, Any], actor: str) -> tuple[Entry, Redacted | None]:
    if step.place.key == LINKS_FILE:
        meta = {**meta, "file": LINKS_FILE}
    new = "" if step.then is None else content_hash(step.then.text.encode())
    text = None if step.now is None else redact(step.now.decode(errors="replace"))
    return _entry(step.place.key, (_hash(step.now), new), meta, actor), text


def _entry(key: str, hashes: tuple[str, str], meta: Mapping[str, Any], actor: str) -> Entry:
    return Entry(
        action=Action.RESTORE,
        memory_id=key,
        reason=f"restored from checkpoint {meta['checkpoint']}",
        prior_hash=hashes[0],
        new_hash=hashes[1],
        actor=actor,
        decision_meta=meta,
    )


def _looked_up(engine: Engine, plan: _Plan, outcome: Restored) -> Restored:
    """The outcome with the proof: a sample of the restored memories is searched for."""
    unreadable, strange = _caught_up(engine)
    restored = [step for step in plan.steps if step.then is not None and step.name.endswith(SUFFIX)]
    ids = [step.place.key for step in restored if str(step.place.path) not in unreadable]
    sample = ids[:: max(1, len(ids) // SAMPLE)][:SAMPLE]
    missing = tuple(memory_id for memory_id in sample if not _is_found(engine, memory_id))
    found = len(sample) - len(missing)
    return replace(outcome, sampled=len(sample), found=found, missing=missing, unrecorded=strange)


def _caught_up(engine: Engine) -> tuple[set[str], int]:
    """The paths that a scan passed over, and how many files the ledger took as changed by hand."""
    before = _newest_entry(engine)
    unreadable = {skip.path for skip in scan(engine).skipped}
    rows = engine.journal.history(limit=_newest_entry(engine) - before)
    return unreadable, sum(row["action"] == Action.EXTERNAL for row in rows)


def _newest_entry(engine: Engine) -> int:
    newest = engine.journal.history(limit=1)
    return int(newest[0]["seq"]) if newest else 0


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
