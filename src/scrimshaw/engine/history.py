"""Taking changes back: one entry of the ledger, or all of a session, from the contents it kept."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from msgspec import Struct

from scrimshaw.engine.core import Engine
from scrimshaw.engine.index import ledger_file, scan
from scrimshaw.errors import Conflict, InvalidRequest, NotFound
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Action, Entry, Redacted, content_hash
from scrimshaw.storage.durable import storage_errors
from scrimshaw.storage.kept import Kept
from scrimshaw.storage.transaction import Change, atomic_file_changes

Row = Mapping[str, Any]
# How the marks begin that stand in the place of secrets.
_MARKER = "[REDACTED:"


class Step(Struct, frozen=True, kw_only=True):
    """An entry of the ledger and what becomes of it: `trouble` says why it stands, empty when it is taken back.

    `note` says how the file that comes back differs from what it was.
    """

    entry: int
    action: str
    memory_id: str
    reason: str
    trouble: str = ""
    note: str = ""


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
    """What a pass through the entries has found out; `standing` are those of the ledger that stand, newest first."""

    standing: Sequence[Row]
    files: dict[str, _File] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    undone: list[tuple[Row, Redacted | None]] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)

    @cached_property
    def by_file(self) -> Mapping[str, list[Row]]:
        """The standing entries of each file, newest first."""
        return _grouped((_name(row), row) for row in self.standing)

    @cached_property
    def appeared(self) -> Mapping[str, list[Row]]:
        """The standing entries of files that a person put there, by their hash, newest first."""
        by_hand = (row for row in self.standing if row["action"] == Action.EXTERNAL and not row["prior_hash"])
        return _grouped((row["new_hash"], row) for row in by_hand)

    def newest(self, rows: Iterable[Row], after: Row) -> Row | None:
        """The newest of `rows` that is later than an entry and still stands."""
        return next((row for row in rows if row["seq"] > after["seq"] and row["seq"] not in self.taken), None)


def _grouped(pairs: Iterable[tuple[str, Row]]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for key, row in pairs:
        found.setdefault(key, []).append(row)
    return found


def undo(engine: Engine, *, session: str = "", entry: int = 0, redo: bool = False, dry_run: bool = False) -> Undone:
    """Take back an entry, or the entries of a session that still stand, newest first and all at once.

    A file that was changed since keeps its change, and the entries behind it stand. An undo is an entry too and can
    be taken back: those of a session together with `redo`. Raises NotFound, InvalidRequest, Conflict, ReadOnly,
    VaultBusy, StorageFailure; then nothing was changed.
    """
    if bool(session) == bool(entry):
        raise InvalidRequest("An undo takes a session or an entry.", "Give exactly one.", parameter="entry")
    with engine.write_lock():
        rows = engine.journal.history()
        undone = _undone(rows)
        standing = [row for row in rows if row["seq"] not in undone]
        if entry:
            _demand_undoable(rows, undone, entry)
        done = _walked(engine, _chosen(standing, session, entry, redo=redo), _Pass(standing))
        if done.undone and not dry_run:
            _write(engine, done)
    if done.undone and not dry_run:
        scan(engine)
    return Undone(steps=tuple(done.steps), dry_run=dry_run)


def _demand_undoable(rows: Sequence[Row], undone: Mapping[int, int], entry: int) -> None:
    """Refuse an entry that does not stand, and one that stands for a restore or purge as a whole."""
    if entry in undone:
        raise Conflict(f"Entry {entry} is undone already, by entry {undone[entry]}.", "Undo that one instead.")
    row = next((row for row in rows if row["seq"] == entry), None)
    if row is None or row["memory_id"]:
        return
    mark = row["decision_meta"].get("mark")
    files = sorted(each["seq"] for each in rows if mark and each["memory_id"] and _mark(each) == mark)
    raise InvalidRequest(
        f"Entry {entry} stands for a {row['action']} as a whole.",
        f"Undo its files: entries {files[0]} to {files[-1]}." if files else "There is no entry of a file behind it.",
        parameter="entry",
    )


def _mark(row: Row) -> str:
    return str(row["decision_meta"].get("mark", ""))


def _chosen(standing: Sequence[Row], session: str, entry: int, *, redo: bool) -> list[Row]:
    """The entries to take back; with `redo` the undos of a session's entries."""
    if entry:
        chosen = [row for row in standing if row["seq"] == entry]
    else:
        whose = [row["decision_meta"].get("session", "") if redo else row["session"] for row in standing]
        chosen = [row for row, its in zip(standing, whose, strict=True) if its == session and row["memory_id"]]
    if not chosen:
        what = f"{'undo' if redo else 'change'} of the session {session!r} that stands" if session else f"entry {entry}"
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


def _walked(engine: Engine, rows: Sequence[Row], done: _Pass) -> _Pass:
    for row in rows:
        name = _name(row)
        if name not in done.files:
            done.files[name] = _file(engine, name)
        file = done.files[name]
        before, prior = file.text, _prior(engine, row)
        trouble = _trouble(row, file, prior, done)
        if trouble:
            file.is_stuck = True
        else:
            _take_back(row, file, prior)
            done.undone.append((row, before))
            done.taken.add(row["seq"])
        done.steps.append(_step(row, trouble, "" if trouble else _note(row, prior)))
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


def _take_back(row: Row, file: _File, prior: Redacted | None) -> None:
    """Take an entry back, in mind."""
    if row["prior_hash"] != row["new_hash"]:
        file.text = prior
        file.stands = row["prior_hash"]


def _prior(engine: Engine, row: Row) -> Redacted | None:
    """The text before an entry; older versions kept that of the links file under the memory."""
    texts = (engine.journal.prior(name, row["prior_hash"]) for name in (_name(row), row["memory_id"]))
    found = next((text for text in texts if text is not None), None) if row["prior_hash"] else None
    return None if found is None else redact(found)


def _trouble(row: Row, file: _File, prior: Redacted | None, done: _Pass) -> str:
    if file.is_stuck:
        return "a later change of the same file stands"
    if row["action"] == Action.EXTERNAL and not row["prior_hash"]:
        return "Scrimshaw knows nothing from before the file was there; delete it if it shall go"
    if file.stands != row["new_hash"]:
        return _changed_since(row, file, done)
    if row["prior_hash"] in ("", row["new_hash"]):
        return ""
    if prior is None:
        return "the text before was not kept"
    if _differs(row, prior) and "\ufffd" in prior.text:
        return "the file before held bytes that are no UTF-8 text, which were not kept"
    return ""


def _changed_since(row: Row, file: _File, done: _Pass) -> str:
    """Why a file is not as an entry left it, and what to do where the ledger knows."""
    elsewhere = None if file.stands else done.newest(done.appeared.get(row["new_hash"], ()), row)
    if elsewhere:
        return f"the file was renamed to {_name(elsewhere)!r} since"
    newest = done.newest(done.by_file.get(_name(row), ()), row)
    if newest and newest["new_hash"] == file.stands:
        return f"the file was changed since, by entry {newest['seq']}: undo that one first"
    return "the file was changed since"


def _differs(row: Row, prior: Redacted) -> bool:
    """Whether a text that was kept is not what the file held, byte for byte."""
    return content_hash(prior.text.encode(errors="replace")) != str(row["prior_hash"])


def _note(row: Row, prior: Redacted | None) -> str:
    if prior is None or row["prior_hash"] == row["new_hash"] or not _differs(row, prior):
        return ""
    count = prior.text.count(_MARKER)
    return f"the file will differ from what it was: {count} secrets in it were never kept, {_MARKER}...] stands there"


def _step(row: Row, trouble: str, note: str) -> Step:
    return Step(
        entry=row["seq"],
        action=row["action"],
        memory_id=row["memory_id"],
        reason=row["reason"],
        trouble=trouble,
        note=note,
    )


def _write(engine: Engine, done: _Pass) -> None:
    """Files and journal as one; the index follows."""
    changed = [file for file in done.files.values() if file.is_changed]
    mark = secrets.token_hex(16)
    with atomic_file_changes(
        engine.folder, mark, [Change(file.path, file.root, file.text, file.first) for file in changed]
    ):
        engine.journal.record(_entries(done, mark), (), _texts(done))
    engine.index.retire([str(file.path) for file in changed])


def _entries(done: _Pass, mark: str) -> list[tuple[Entry, None]]:
    """A row for each entry taken back; the last row of a file has its hash now."""
    last = {_name(row): row["seq"] for row, _ in done.undone}
    return [
        (_entry(row, mark, done.files[_name(row)] if last[_name(row)] == row["seq"] else None), None)
        for row, _ in done.undone
    ]


def _texts(done: _Pass) -> list[Kept]:
    """What the entries had brought, and what stands in the files now."""
    brought = [Kept(_name(row), row["new_hash"], text) for row, text in done.undone if text]
    return brought + [Kept(name, _hash_now(file), file.text) for name, file in done.files.items() if file.text]


def _entry(row: Row, mark: str, file: _File | None) -> Entry:
    kept = {name: value for name, value in row["decision_meta"].items() if name in ("file", "relation")}
    whose = {"session": row["session"]} if row["session"] else {}
    return Entry(
        action=Action.RESTORE,
        memory_id=row["memory_id"],
        reason=f"undo of {row['action']} {row['seq']}",
        prior_hash=row["new_hash"],
        new_hash=row["prior_hash"] if file is None else _hash_now(file),
        actor="human",
        linked_memory_ids=tuple(row["linked_memory_ids"]),
        decision_meta={**kept, **whose, "undoes": row["seq"], "mark": mark},
    )


def _hash_now(file: _File) -> str:
    if not file.is_changed:
        return file.stands
    return "" if file.text is None else content_hash(file.text.text.encode())
