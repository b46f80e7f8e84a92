"""Taking changes back: one entry of the ledger, or all of a session, from the contents it kept."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct

from scrimshaw.engine.core import Engine
from scrimshaw.engine.indexing import ledger_file, scan
from scrimshaw.errors import Conflict, InvalidRequest, NotFound
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Action, Entry, Redacted
from scrimshaw.storage.durable import storage_errors
from scrimshaw.storage.files import content_hash
from scrimshaw.storage.swap import Change, swapped

Row = Mapping[str, Any]


class Step(Struct, frozen=True, kw_only=True):
    """An entry of the ledger and what becomes of it: `trouble` says why it stands, empty when it is taken back."""

    entry: int
    action: str
    memory_id: str
    reason: str
    trouble: str = ""


class Undone(Struct, frozen=True, kw_only=True):
    """The entries asked for, newest first."""

    steps: tuple[Step, ...]
    dry_run: bool

    @property
    def undone(self) -> int:
        """How many were, or would be, taken back."""
        return sum(not step.trouble for step in self.steps)


@dataclass
class _File:
    """A file on its way back: what the ledger calls its text after the entries undone so far, and that text."""

    path: Path
    root: Path
    first: str
    stands: str
    text: Redacted | None
    is_stuck: bool = False

    @property
    def is_changed(self) -> bool:
        """Whether the file has to be written."""
        return self.stands != self.first


@dataclass
class _Pass:
    """What a pass through the entries has found out."""

    files: dict[str, _File] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    undone: list[tuple[Row, Redacted | None]] = field(default_factory=list)


def undo(engine: Engine, *, session: str = "", entry: int = 0, dry_run: bool = False) -> Undone:
    """Take back an entry, or the entries of a session that still stand, newest first and all at once.

    A file that was changed since keeps its change, and the entries behind it stand. An undo is an entry too and can
    be taken back. Raises NotFound, InvalidRequest, ReadOnly, VaultBusy, StorageFailure; then nothing was changed.
    """
    with engine.exclusive():
        done = _walked(engine, _chosen(engine, session, entry))
        if done.undone and not dry_run:
            _write(engine, done)
    if done.undone and not dry_run:
        scan(engine)
    return Undone(steps=tuple(done.steps), dry_run=dry_run)


def _chosen(engine: Engine, session: str, entry: int) -> list[Row]:
    if bool(session) == bool(entry):
        raise InvalidRequest("An undo takes a session or an entry.", "Give exactly one.", parameter="entry")
    rows = engine.journal.history()
    undone = _undone(rows)
    if entry in undone:
        raise Conflict(f"Entry {entry} is undone already, by entry {undone[entry]}.", "Undo that one instead.")
    # What names no memory stands for a restore as a whole; each of its files has an entry of its own.
    found = [
        row for row in rows if row["memory_id"] and (row["session"] == session if session else row["seq"] == entry)
    ]
    chosen = [row for row in found if row["seq"] not in undone]
    if not chosen:
        what = f"change of the session {session!r} that stands" if session else f"entry {entry} of a memory"
        raise NotFound(f"The ledger has no {what}.", "See `scrimshaw ledger show`.")
    return chosen


def _undone(rows: Iterable[Row]) -> dict[int, int]:
    """Entries that do not stand, with those that took them back; `rows` come newest first."""
    found: dict[int, int] = {}
    for row in rows:
        undoes = row["decision_meta"].get("undoes")
        if undoes and row["seq"] not in found:
            found[undoes] = row["seq"]
    return found


def _walked(engine: Engine, rows: Sequence[Row]) -> _Pass:
    done = _Pass()
    for row in rows:
        name = _name(row)
        if name not in done.files:
            done.files[name] = _file(engine, name)
        file = done.files[name]
        before, trouble = file.text, _trouble(engine, row, file)
        if trouble:
            file.is_stuck = True
        else:
            _take_back(engine, row, file)
            done.undone.append((row, before))
        done.steps.append(_step(row, trouble))
    return done


def _name(row: Row) -> str:
    return str(row["decision_meta"].get("file") or row["memory_id"])


def _file(engine: Engine, name: str) -> _File:
    path, root = ledger_file(engine, name)
    with storage_errors("read", path):
        raw = path.read_bytes() if path.is_file() else None
    if raw is None:
        return _File(path, root, first="", stands="", text=None)
    digest = content_hash(raw)
    return _File(path, root, first=digest, stands=digest, text=redact(raw.decode(errors="replace")))


def _take_back(engine: Engine, row: Row, file: _File) -> None:
    """Take an entry back, in mind."""
    if row["prior_hash"] != row["new_hash"]:
        file.text = _prior(engine, row)
        file.stands = row["prior_hash"]


def _prior(engine: Engine, row: Row) -> Redacted | None:
    prior = engine.journal.prior(row["memory_id"], row["prior_hash"]) if row["prior_hash"] else None
    return None if prior is None else redact(prior)


def _trouble(engine: Engine, row: Row, file: _File) -> str:
    if file.is_stuck:
        return "a later change of the same file stands"
    if file.stands != row["new_hash"]:
        return "the file was changed since"
    if row["prior_hash"] in ("", row["new_hash"]):
        return ""
    if _prior(engine, row) is None:
        return "the text before was not kept"
    return ""


def _step(row: Row, trouble: str) -> Step:
    return Step(
        entry=row["seq"], action=row["action"], memory_id=row["memory_id"], reason=row["reason"], trouble=trouble
    )


def _write(engine: Engine, done: _Pass) -> None:
    """Files and journal as one; the index follows."""
    changed = [file for file in done.files.values() if file.is_changed]
    mark = secrets.token_hex(16)
    with swapped(engine.folder, mark, [Change(file.path, file.root, file.text) for file in changed]):
        engine.journal.record(_entries(done, mark))
    engine.index.retire([str(file.path) for file in changed])


def _entries(done: _Pass, mark: str) -> list[tuple[Entry, Redacted | None]]:
    """A row for each entry taken back, with the text it had brought; the last row of a file has its hash now."""
    last = {_name(row): row["seq"] for row, _ in done.undone}
    return [
        (_entry(row, mark, done.files[_name(row)] if last[_name(row)] == row["seq"] else None), before)
        for row, before in done.undone
    ]


def _entry(row: Row, mark: str, file: _File | None) -> Entry:
    kept = {name: value for name, value in row["decision_meta"].items() if name in ("file", "relation")}
    return Entry(
        action=Action.RESTORE,
        memory_id=row["memory_id"],
        reason=f"undo of {row['action']} {row['seq']}",
        prior_hash=row["new_hash"],
        new_hash=row["prior_hash"] if file is None else _hash_now(file),
        actor="human",
        linked_memory_ids=tuple(row["linked_memory_ids"]),
        decision_meta={**kept, "undoes": row["seq"], "mark": mark},
    )


def _hash_now(file: _File) -> str:
    if not file.is_changed:
        return file.stands
    return "" if file.text is None else content_hash(file.text.text.encode())
