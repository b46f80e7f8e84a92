"""Undo: take back one ledger entry, or all of a session, from the texts that the journal keeps."""

import secrets
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from msgspec import Struct

from scrimshaw.engine.core import Engine
from scrimshaw.engine.degradations import INDEX
from scrimshaw.engine.index import catch_up
from scrimshaw.engine.ledger import LedgerFile, hash_of, read_file
from scrimshaw.errors import Conflict, InvalidRequest, NotFound
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Action, Entry, Redacted, format_count
from scrimshaw.storage.ports import Row, StoredText
from scrimshaw.storage.transaction import FileChange, atomic_file_changes

_MARKER = "[REDACTED:"  # how the marks begin that replace secrets


class UndoStep(Struct, frozen=True, kw_only=True, rename={"memory_id": "id"}):
    """An entry of the ledger and how it is undone."""

    entry: int
    action: str
    memory_id: str
    reason: str
    trouble: str = ""  #: why the entry cannot be undone; empty when it is
    note: str = ""  #: how the file that comes back differs from what it was


class Undone(Struct, frozen=True, kw_only=True):
    """The entries asked for, newest first."""

    steps: tuple[UndoStep, ...]
    dry_run: bool

    @property
    def undone(self) -> int:
        """How many were, or would be, undone."""
        return sum(not step.trouble for step in self.steps)


@dataclass
class _File:
    """A file being restored: its text after the entries undone so far, and the hash that the ledger has for it."""

    now: LedgerFile
    hash: str
    text: Redacted | None
    is_stuck: bool = False

    @property
    def final_hash(self) -> str:
        """The hash of the bytes to be written; a stored text may lack secrets and so have another hash."""
        return self.hash if self.hash == self.now.hash else hash_of(self.text.text.encode() if self.text else None)


class _Undo:
    """A plan of the undo, newest entry first, made before anything is written; `valid` are entries not undone yet."""

    def __init__(self, engine: Engine, valid: Sequence[Row]) -> None:
        self.engine, self.valid = engine, valid
        self.files: dict[str, _File] = {}
        self.steps: list[UndoStep] = []
        self.undone: dict[int, tuple[Row, Redacted | None]] = {}  #: by entry, with the text that the entry had written
        # The valid entries of each file, newest first, and by hash those of files that a person put there.
        self._by_file, self._appeared = defaultdict[str, list[Row]](list), defaultdict[str, list[Row]](list)
        for row in valid:
            self._by_file[_name(row)].append(row)
            if row["action"] == Action.EXTERNAL and not row["prior_hash"]:
                self._appeared[row["new_hash"]].append(row)

    def add(self, row: Row) -> None:
        """Add one entry to the plan, or say why it cannot be undone."""
        name, prior, note = _name(row), None, ""
        if name not in self.files:
            now = read_file(self.engine, name)
            current = None if now.data is None else redact(now.data.decode(errors="replace"))
            self.files[name] = _File(now, now.hash, current)
        file = self.files[name]
        if row["prior_hash"] and (text := self.engine.journal.prior_text(name, row["prior_hash"])) is not None:
            prior = redact(text)
        if trouble := self._find_trouble(row, file, prior):
            file.is_stuck = True
        else:
            self.undone[row["seq"]] = row, file.text
            if row["prior_hash"] != row["new_hash"]:
                file.text, file.hash = prior, row["prior_hash"]
                if prior and _differs(row, prior):
                    lost = f"{format_count(prior.text.count(_MARKER), 'secret')}, never stored, will read {_MARKER}...]"
                    note = f"the file will differ from its earlier content: {lost}"
        values = {key: row[key] for key in ("action", "memory_id", "reason")}
        self.steps.append(UndoStep(entry=row["seq"], trouble=trouble, note=note, **values))

    def _find_trouble(self, row: Row, file: _File, prior: Redacted | None) -> str:
        if file.is_stuck:
            return "a later change of the same file cannot be undone"
        if row["action"] == Action.EXTERNAL and not row["prior_hash"]:
            return "Scrimshaw knows no state before the file appeared; delete the file if you do not want it"
        if row["decision_meta"].get("commit"):
            return f"{row['reason']}: undo that with git"
        if file.hash != row["new_hash"]:
            return self._describe_later_change(row, file)
        if row["prior_hash"] in ("", row["new_hash"]):
            return ""
        if prior is None:
            return "the previous text was not stored"
        is_lossy = "\ufffd" in prior.text and _differs(row, prior)
        return "the previous file had bytes that are not UTF-8 text, which were not stored" if is_lossy else ""

    def _describe_later_change(self, row: Row, file: _File) -> str:
        """Why a file is not as an entry left it, and what to do, if the ledger knows."""

        def newest(rows: Iterable[Row]) -> Row | None:
            return next((each for each in rows if each["seq"] > row["seq"] and each["seq"] not in self.undone), None)

        if not file.hash and (elsewhere := newest(self._appeared[row["new_hash"]])) and _name(elsewhere) != _name(row):
            return f"the file was renamed to {_name(elsewhere)!r} since"
        later = newest(self._by_file[_name(row)])
        if later and later["new_hash"] == file.hash:
            if "commit" in later["decision_meta"]:
                return f"since then {later['reason']}: undo that with git"
            return f"the file was changed since, by entry {later['seq']}: undo that one first"
        return "the file was changed since"


def undo(engine: Engine, *, session: str = "", entry: int = 0, redo: bool = False, dry_run: bool = False) -> Undone:
    """Undo an entry, or the valid ones of a session, newest first and all or nothing; with `redo` its undos."""
    if not (session or entry):
        hint = "`scrimshaw ledger show` lists the entries; name one, or a session."
        raise InvalidRequest("It is not said what to undo.", hint, parameter="entry")
    with engine.write_lock():  # a file that was changed since keeps its change, and the entries behind it stay
        rows = engine.journal.history()
        undone_by: dict[int, int] = {}
        for row in rows:
            if row["seq"] not in undone_by and (undoes := row["decision_meta"].get("undoes")):
                undone_by[undoes] = row["seq"]
        work = _Undo(engine, [row for row in rows if row["seq"] not in undone_by])
        for row in _choose(work.valid, rows, undone_by, session, entry, redo=redo):
            work.add(row)
        if is_written := bool(work.undone) and not dry_run:
            _write(engine, work)
    if is_written:
        catch_up(engine)
    return Undone(steps=tuple(work.steps), dry_run=dry_run)


def _choose(
    valid: Sequence[Row], rows: Sequence[Row], undone_by: Mapping[int, int], session: str, entry: int, *, redo: bool
) -> list[Row]:
    """The entries to undo, with `redo` the undos of a session's; refuses an entry of a restore or purge."""
    if entry in undone_by:
        raise Conflict(f"Entry {entry} is undone already, by entry {undone_by[entry]}.", "Undo that one instead.")
    if entry:
        chosen, what = [row for row in valid if row["seq"] == entry], f"entry {entry}"
    else:
        whose = [row["decision_meta"].get("session", "") if redo else row["session"] for row in valid]
        chosen = [row for row, its in zip(valid, whose, strict=True) if its == session and row["memory_id"]]
        what = f"{'undo' if redo else 'change'} of the session {session!r} left to undo"
    if not chosen:
        raise NotFound(f"The ledger has no {what}.", "See `scrimshaw ledger show`.")
    if chosen[0]["memory_id"]:
        return chosen
    mark = chosen[0]["decision_meta"].get("mark")
    seqs = [each["seq"] for each in rows if mark and each["memory_id"] and each["decision_meta"].get("mark") == mark]
    hint = f"Undo its files: entries {min(seqs)} to {max(seqs)}." if seqs else "It has no entries of files."
    raise InvalidRequest(f"Entry {entry} records a whole {chosen[0]['action']}.", hint, parameter="entry")


def _name(row: Row) -> str:
    return str(row["decision_meta"].get("file") or row["memory_id"])


def _differs(row: Row, prior: Redacted) -> bool:
    """Whether a stored text differs from the bytes of the file."""
    return hash_of(prior.text.encode(errors="replace")) != str(row["prior_hash"])


def _write(engine: Engine, work: _Undo) -> None:
    """Change the files and record all changes in one commit; then update the index."""
    mark, entries, texts = secrets.token_hex(16), list[Entry](), list[StoredText]()
    last = {_name(row): seq for seq, (row, _) in work.undone.items()}
    for seq, (row, text) in work.undone.items():
        name, known = _name(row), row["decision_meta"]
        meta = {key: known[key] for key in ("file", "relation", "vault") if key in known}
        if row["session"]:
            meta["session"] = row["session"]
        entry = Entry(
            action=Action.RESTORE,
            memory_id=row["memory_id"],
            reason=f"undo of {row['action']} {seq}",
            prior_hash=row["new_hash"],
            # The last row of a file has the hash of its bytes now.
            new_hash=work.files[name].final_hash if last[name] == seq else row["prior_hash"],
            actor="human",
            linked_memory_ids=tuple(row["linked_memory_ids"]),
            decision_meta={**meta, "undoes": seq, "mark": mark},
        )
        entries.append(entry)
        # The texts that the entries had written; then those to be written now.
        texts += [StoredText(name, row["new_hash"], text)] if text else []
    texts += [StoredText(name, file.final_hash, file.text) for name, file in work.files.items() if file.text]
    changed = [file for file in work.files.values() if file.hash != file.now.hash]
    changes = [FileChange(file.now.path, file.now.root, file.now.data, file.text) for file in changed]
    with atomic_file_changes(engine.folder, mark, changes):
        engine.journal.record(entries, (), texts)
    with engine.degradations.note_failure(INDEX):
        # Unwritten files too: what a person vouches for may have changed.
        engine.index.retire([str(file.now.path) for file in work.files.values()])
