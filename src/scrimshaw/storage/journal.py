"""The journal: ledger, prior contents, review state and jobs, each commit forced to disk."""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any

import msgspec
from msgspec.structs import asdict

from scrimshaw.models import Entry, Job, JobState
from scrimshaw.storage.ports import Review, ReviewState, Row, StoredText
from scrimshaw.storage.sql import SqlConnection, SqlDatabase, insert, make_struct, marks

LEDGER = (
    "seq, at, action, memory_id, reason, prior_hash, new_hash, linked_memory_ids, decision_meta, actor, session, chain"
)
_APPENDED = LEDGER.removeprefix("seq, ")
_APPEND = f"INSERT INTO ledger ({_APPENDED}) VALUES (?,?,?,?,?,?,?,?,?,?,?) RETURNING seq"
MOST_ROWS = 2**63 - 1  # for no limit
_PUT_CONTENT = "INSERT INTO contents (content_hash, memory_id, content, at) VALUES (?,?,?,?) ON CONFLICT DO NOTHING"
KEPT_DONE_S = 30 * 86_400.0  # how long a finished job is kept

# The file of an entry: the memory's own, unless it names another.
_FILE = "coalesce(json_extract(decision_meta, '$.file'), memory_id)"
_MARKED = " AND json_extract(decision_meta, '$.mark') = ?"
_REVIEW = Review.__struct_fields__
_JOB = ", ".join(Job.__struct_fields__)
_NO_ROWS = ("", 0, dict[str, str]())  # the chain and number of the last ledger row read, and the newest hash by file
# Every claim counts as an attempt, so a worker whose job another one has taken over no longer matches.
_CLAIMED = "id = ? AND state = 'running' AND attempts = ?"
_DUE = (
    "(state = 'running' AND lease_until < ?) OR (state = 'queued' AND due <= ? AND NOT EXISTS ("
    "SELECT 1 FROM jobs AS other WHERE other.state = 'running' AND other.lease_until >= ?"
    " AND other.kind = jobs.kind AND other.key = jobs.key))"
)
_REPLACE_WAITING = (
    "DELETE FROM jobs WHERE state = 'queued' AND kind = ? AND key = ?"
    f" AND EXISTS (SELECT 1 FROM jobs AS own WHERE {_CLAIMED})"
)
_CANCEL = "UPDATE jobs SET state = 'cancelled' WHERE id = ? AND state IN ('queued', 'running', 'failed')"
_CANCEL_EARLIER = "UPDATE jobs SET state = 'cancelled' WHERE state = 'failed' AND kind = ? AND key = ? AND id < ?"
_REQUEUE = (
    "UPDATE jobs SET state = 'queued', attempts = 0, error = '', due = ?"
    " WHERE id = ? AND state IN ('failed', 'cancelled') AND NOT EXISTS ("
    "SELECT 1 FROM jobs AS other WHERE other.state = 'queued' AND other.kind = jobs.kind AND other.key = jobs.key)"
)


class Journal:
    """Durable: ledger, prior contents, review state and jobs."""

    def __init__(self, database: SqlDatabase, read_end: Callable[[], int | None] = int) -> None:
        self._database, self._read_end = database, read_end
        self._last = _NO_ROWS

    def record(
        self, entries: Sequence[Entry], jobs: Sequence[tuple[str, str]] = (), texts: Sequence[StoredText] = ()
    ) -> list[int]:
        """Append entries, enqueue (kind, key) jobs, store texts for undo, in one transaction; the new numbers."""
        now = time.time()
        with self._database.write() as write:
            numbers = append_entries(write, entries, now)
            for file, digest, text in texts:
                write.execute(_PUT_CONTENT, (digest, file, text.text.encode(), now))
            for kind, key in jobs:
                _enqueue(write, kind, key)
        return numbers

    def history(
        self, memory_id: str = "", limit: int = -1, *, session: str = "", mark: str = "", new_hash: str = ""
    ) -> list[Row]:
        """Ledger rows, newest first: of a memory, a session, a `mark` in decision_meta, a new hash, or all."""
        columns = {" AND memory_id = ?": memory_id, " AND session = ?": session, " AND new_hash = ?": new_hash}
        wanted = dict(filter(itemgetter(1), (columns | {_MARKED: mark}).items()))
        where = "".join(wanted)
        sql = f"SELECT {LEDGER} FROM ledger WHERE true{where} ORDER BY seq DESC LIMIT ?"
        return self._database.read(sql, (*wanted.values(), limit if limit >= 0 else MOST_ROWS), _ledger_row)

    def last_hashes(self) -> dict[str, str]:
        """The newest hash of every file, "" if removed, by memory id or the `file` in the entry's decision_meta."""
        chain, seq, known = self._last
        sql = f"SELECT {_FILE}, new_hash, chain, seq FROM ledger WHERE seq >= ? ORDER BY seq"
        rows = self._database.rows(sql, (seq,))
        if seq and (not rows or rows[0][2] != chain):  # it was rewritten: a purge chains all rows again
            rows, known = self._database.rows(sql, (0,)), {}
        self._last = (*rows[-1][2:], known | dict(map(itemgetter(0, 1), rows))) if rows else _NO_ROWS
        return self._last[2].copy()

    def prior_text(self, memory_id: str, content_hash: str) -> str | None:
        """A present or past content of the file of this name, by the hash of its bytes; redacted."""
        sql = "SELECT content FROM contents WHERE memory_id = ? AND content_hash = ?"
        found = self._database.read(sql, (memory_id, content_hash), lambda row: str(row[0], "utf-8"))
        return found[0] if found else None

    def verify(self) -> tuple[int, int]:
        """(rows checked, number of the first row that breaks the chain or was cut off its end, 0 if intact)."""
        noted = self._read_end() or 0  # before the rows, as another process may add more
        with self._database.lend() as connection:
            checked, broken = verify_chain(connection)
        return checked, broken or (checked + 1 if checked < noted else 0)

    def reviews(self, ids: Sequence[str]) -> dict[str, Review]:
        """Review states of these memories; an unreviewed one is absent."""
        found = self._database.structs(Review, f"reviews WHERE memory_id IN ({marks(ids)})", ids)
        return dict(zip(map(attrgetter("memory_id"), found), found, strict=True))

    def update_review(self, memory_id: str, change: Callable[[Review | None], ReviewState]) -> ReviewState:
        """Replace a review state, None for none, by the result of `change`, in one transaction.

        The result may belong to another memory. `change` must not call the port.
        """
        with self._database.write() as write:
            take = f"DELETE FROM reviews WHERE memory_id = ? RETURNING {', '.join(_REVIEW)}"
            found = write.execute(take, (memory_id,)).fetchall()
            if state := change(make_struct(Review, found[0]) if found else None):
                write.execute("DELETE FROM reviews WHERE memory_id = ?", (state.memory_id,))
                insert(write, "reviews", asdict(state))
        return state

    def enqueue(self, kind: str, key: str, payload: Mapping[str, Any], total: int = 0) -> int:
        """Add a job and return its id; if one of the same kind and key waits, that one's id."""
        with self._database.write() as write:
            return _enqueue(write, kind, key, payload, total)

    def claim(self, kinds: Sequence[str], lease_s: float) -> Job | None:
        """Take the oldest due job of the first kind that has one, also after its lease; of a key one runs at a time."""
        order, now = "".join("kind <> ?, " for _ in kinds), time.time()
        find = f"SELECT id FROM jobs WHERE kind IN ({marks(kinds)}) AND ({_DUE}) ORDER BY {order}due, id LIMIT 1"
        arguments = (*kinds, now, now, now, *kinds)
        if self._database.value(find, arguments) is None:
            return None
        with self._database.write() as write:
            claim = f"UPDATE jobs SET state = 'running', attempts = attempts + 1, lease_until = ? WHERE id = ({find})"
            claimed = write.execute(f"{claim} RETURNING {_JOB}", (now + lease_s, *arguments)).fetchall()
        return _job(claimed[0]) if claimed else None

    def renew_lease(self, job: Job, done: int, total: int, lease_s: float) -> bool:
        """Report progress and keep the lease; False when the job was cancelled or lost to another worker."""
        with self._database.write() as write:
            renew = f"UPDATE jobs SET done = ?, total = ?, lease_until = ? WHERE {_CLAIMED}"
            write.execute(renew, (done, total, time.time() + lease_s, job.id, job.attempts))
            return write.changes() > 0

    def finish(self, job: Job, state: JobState, error: str = "", retry_in_s: float | None = None) -> None:
        """End a claimed job, or queue it again after `retry_in_s` seconds; no effect if another worker has it now.

        Queued without `retry_in_s` it is due at once, and the attempt does not count. A done job is deleted after 30
        days, and cancels earlier failed ones like it.
        """
        now = time.time()
        is_given_back = state == JobState.QUEUED and retry_in_s is None
        state = state if retry_in_s is None else JobState.QUEUED
        due = now + (retry_in_s or 0.0)
        with self._database.write() as write:
            if state == JobState.QUEUED:  # an identical waiting job is replaced
                write.execute(_REPLACE_WAITING, (job.kind, job.key, job.id, job.attempts))
            end = f"UPDATE jobs SET state = ?, error = ?, due = ?, attempts = attempts - ? WHERE {_CLAIMED}"
            write.execute(end, (state, error, due, int(is_given_back), job.id, job.attempts))
            write.execute("DELETE FROM jobs WHERE state = 'done' AND due < ?", (now - KEPT_DONE_S,))
            if state == JobState.DONE:
                write.execute(_CANCEL_EARLIER, (job.kind, job.key, job.id))

    def jobs(self, states: Sequence[str] = (), *, number: int | None = None) -> list[Job]:
        """Jobs, newest first, of these states or of all; with `number` only the one of this id."""
        where = f"state IN ({marks(states)})" if states else "true"
        sql = f"SELECT {_JOB} FROM jobs WHERE {where} AND id = coalesce(?, id) ORDER BY id DESC"
        return self._database.read(sql, (*states, number), _job)

    def change_job(self, number: int, state: JobState) -> bool:
        """Cancel an unfinished job, or queue one that ended unfinished; False if that is not possible."""
        with self._database.write() as write:
            write.execute(*((_CANCEL, (number,)) if state is JobState.CANCELLED else (_REQUEUE, (time.time(), number))))
            return write.changes() > 0


def append_entries(write: SqlConnection, entries: Sequence[Entry], now: float) -> list[int]:
    """Append entries to the ledger; returns their numbers."""
    chain = write.execute("SELECT chain FROM ledger ORDER BY seq DESC LIMIT 1").get or ""
    numbers = []
    for entry in entries:
        texts = (entry.action, entry.memory_id, entry.reason, entry.prior_hash, entry.new_hash)
        meta = (json.dumps(entry.linked_memory_ids), json.dumps(entry.decision_meta, sort_keys=True))
        values = (now, *texts, *meta, entry.actor, entry.session)
        chain = _chain(chain, values)
        numbers.append(int(write.execute(_APPEND, (*values, chain)).get))
    return numbers


def find_break(rows: Iterable[Sequence[Any]]) -> tuple[int, int]:
    """(rows checked, number of the first entry that was changed or removed, 0 if there is none)."""
    last, checked = "", 0
    for checked, row in enumerate(rows, start=1):
        last = _chain(last, row[1:-1])
        if (checked, last) != (row[0], row[-1]):
            return checked, checked
    return checked, 0


def verify_chain(connection: SqlConnection) -> tuple[int, int]:
    """(rows checked, number of the first entry that was changed, removed or cut off the end, 0 if intact)."""
    checked, broken = find_break(connection.execute(f"SELECT {LEDGER} FROM ledger ORDER BY seq"))
    given = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'ledger'").get or 0
    return checked, broken or (checked + 1 if given != checked else 0)


def chain_again(write: SqlConnection) -> None:
    """Recompute the chain of a ledger whose rows were changed."""
    last = ""
    for row in write.execute(f"SELECT {LEDGER} FROM ledger ORDER BY seq").fetchall():
        last = _chain(last, row[1:-1])
        write.execute("UPDATE ledger SET chain = ? WHERE seq = ?", (last, row[0]))


def _chain(before: str, values: Sequence[Any]) -> str:
    """The hash that chains a row, given without its number and own hash, to the hash of the row before."""
    # A value of a type that is never written comes from damage; the hash then differs.
    return hashlib.sha256(json.dumps([before, *values], default=repr).encode()).hexdigest()


def _enqueue(write: SqlConnection, kind: str, key: str, payload: Mapping[str, Any] = {}, total: int = 0) -> int:
    waiting = write.execute("SELECT id FROM jobs WHERE kind = ? AND key = ? AND state = 'queued'", (kind, key)).get
    if waiting is not None:
        return int(waiting)
    now, encoded = time.time(), msgspec.json.encode(payload).decode()
    values: dict[str, Any] = {"kind": kind, "key": key, "payload": encoded, "state": "queued"}
    values |= {"total": total, "due": now, "created": now}
    return int(insert(write, "jobs", values, "RETURNING id").get)


def _ledger_row(row: Sequence[Any]) -> Row:
    found = dict(zip(LEDGER.split(", "), row, strict=True))
    found["linked_memory_ids"] = json.loads(found["linked_memory_ids"])
    found["decision_meta"] = json.loads(found["decision_meta"])
    return found


def _job(row: Sequence[Any]) -> Job:
    return make_struct(Job, (*row[:3], json.loads(row[3]), *row[4:]))  # the payload is JSON
