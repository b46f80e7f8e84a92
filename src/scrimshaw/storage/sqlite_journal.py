"""The journal in SQLite: ledger, prior contents, review state and jobs, each commit forced to disk."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw
from msgspec.structs import replace

from scrimshaw.errors import UnusableArchive
from scrimshaw.models import Entry, Job, JobState, Redacted
from scrimshaw.storage import sqlite_erasing, sqlite_ledger, sqlite_tables
from scrimshaw.storage.journal_file import open_journal
from scrimshaw.storage.kept import Kept, Recorded
from scrimshaw.storage.ports import Review, Wipe
from scrimshaw.storage.sql import marks
from scrimshaw.storage.sqlite import Database, newest_migration
from scrimshaw.storage.sqlite_jobs import enqueue
from scrimshaw.storage.sqlite_ledger import LEDGER

# How long a done job can be asked for.
KEPT_DONE_S = 30 * 86_400.0

_JOB = "id, kind, key, payload, state, attempts, done, total, error"
# Which file an entry is about: a memory's own, unless it names another.
_FILE = "coalesce(json_extract(decision_meta, '$.file'), memory_id)"
# Every claim is another attempt, so a worker that lost its job to another is told so.
_CLAIMED = "id = ? AND state = 'running' AND attempts = ?"


_DUE = (
    "(state = 'running' AND lease_until < ?) OR (state = 'queued' AND due <= ? AND NOT EXISTS ("
    "SELECT 1 FROM jobs AS other WHERE other.state = 'running' AND other.lease_until >= ?"
    " AND other.kind = jobs.kind AND other.key = jobs.key))"
)


class SqliteJournal:
    """The Journal port over one file."""

    def __init__(self, path: Path, *, busy_timeout_ms: int, anew: bool = False) -> None:
        self._database = open_journal(path, busy_timeout_ms=busy_timeout_ms, anew=anew)

    @property
    def database(self) -> Database:
        """The file, for the other durable ports that live in it; closed with the journal."""
        return self._database

    # Ledger

    def record(
        self, entries: Sequence[Recorded], jobs: Sequence[tuple[str, str]] = (), kept: Sequence[Kept] = ()
    ) -> list[int]:
        """See Journal."""
        now = time.time()
        with self._database.write() as write:
            numbers = _record(write, entries, now)
            for text in kept:
                _keep(write, text, now)
            for kind, key in jobs:
                enqueue(write, kind, key, now=now)
        return numbers

    def history(self, memory_id: str = "", limit: int = -1, *, session: str = "") -> list[Mapping[str, Any]]:
        """See Journal."""
        given = {"memory_id": memory_id, "session": session}
        wanted = {column: value for column, value in given.items() if value}
        where = " AND ".join([f"{column} = ?" for column in wanted]) or "1"
        sql = f"SELECT {LEDGER} FROM ledger WHERE {where} ORDER BY seq DESC LIMIT ?"
        return self._database.read(sql, (*wanted.values(), limit), _ledger_row)

    def last_hashes(self) -> dict[str, str]:
        """See Journal."""
        return dict(
            self._database.rows(f"SELECT {_FILE} AS file, new_hash FROM ledger GROUP BY file HAVING seq = max(seq)")
        )

    def prior(self, memory_id: str, content_hash: str) -> str | None:
        """See Journal."""
        sql = "SELECT content FROM contents WHERE memory_id = ? AND content_hash = ?"
        found = self._database.read(sql, (memory_id, content_hash), lambda row: str(row[0], "utf-8"))
        return found[0] if found else None

    def traces(self, wipe: Wipe) -> dict[str, int]:
        """See Journal."""
        return sqlite_erasing.found(self._database, wipe)

    def erase(self, wipe: Wipe, purge: Entry, files: Sequence[Entry] = ()) -> dict[str, int]:
        """See Journal."""
        with self._database.write() as write:
            erased = sqlite_erasing.erase(write, wipe)
            told = {"rows": erased.rows, "chain_before": erased.chain_before, "broken_before": erased.broken_before}
            meta = {**purge.decision_meta, **{name: value for name, value in told.items() if value}}
            entries = [*files, replace(purge, decision_meta=meta)]
            _record(write, [(entry, None) for entry in entries], time.time())
        return erased.rows

    def compact(self) -> list[Path]:
        """See Journal."""
        return sqlite_erasing.compact(self._database)

    def verify(self) -> tuple[int, int]:
        """See Journal."""
        with self._database.lend() as connection:
            return sqlite_ledger.verify(connection)

    # Everything, for checkpoints

    def schema(self) -> int:
        """See Journal."""
        return newest_migration(sqlite_tables.SCHEMA)

    def dump(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """See Journal."""
        return sqlite_tables.dump(self._database)

    def stage(self, path: Path, schema: int, rows: Iterable[tuple[str, Mapping[str, Any]]]) -> _Staged:
        """See Journal."""
        return _Staged(self._database, sqlite_tables.stage(path, schema, rows))

    def transaction_committed(self, mark: str) -> bool:
        """See Journal."""
        found = "SELECT 1 FROM ledger WHERE json_extract(decision_meta, '$.mark') = ?"
        return self._database.value(found, (mark,)) is not None

    # Review state

    def reviews(self, ids: Sequence[str]) -> dict[str, Review]:
        """See Journal."""
        names = Review.__struct_fields__
        sql = f"SELECT {', '.join(names)} FROM reviews WHERE memory_id IN ({marks(ids)})"
        return {row[0]: Review(**dict(zip(names, row, strict=True))) for row in self._database.rows(sql, ids)}

    def review(self, memory_id: str, change: Callable[[Review | None], Review]) -> Review:
        """See Journal. `change` runs while other writers wait: it may compute, and must not come back here."""
        names = Review.__struct_fields__
        with self._database.write() as write:
            sql = f"SELECT {', '.join(names)} FROM reviews WHERE memory_id = ?"
            found = write.execute(sql, (memory_id,)).fetchone()
            state = change(Review(**dict(zip(names, found, strict=True))) if found else None)
            values = tuple(getattr(state, name) for name in names)
            write.execute(f"INSERT OR REPLACE INTO reviews ({', '.join(names)}) VALUES ({marks(names)})", values)
        return state

    def rename(self, old: str, new: str) -> None:
        """See Journal."""
        with self._database.write() as write:
            write.execute("UPDATE OR REPLACE reviews SET memory_id = ? WHERE memory_id = ?", (new, old))

    # Jobs

    def enqueue(self, kind: str, key: str, payload: Mapping[str, Any], total: int = 0) -> int:
        """See Journal."""
        with self._database.write() as write:
            return enqueue(write, kind, key, now=time.time(), payload=payload, total=total)

    def claim(self, kinds: Sequence[str], lease_s: float) -> Job | None:
        """See Journal."""
        find = f"SELECT id FROM jobs WHERE kind IN ({marks(kinds)}) AND ({_DUE}) ORDER BY due, id LIMIT 1"
        now = time.time()
        if self._database.value(find, (*kinds, now, now, now)) is None:
            return None
        with self._database.write() as write:
            number = write.execute(find, (*kinds, now, now, now)).get
            if number is None:
                return None
            write.execute(
                "UPDATE jobs SET state = 'running', attempts = attempts + 1, lease_until = ? WHERE id = ?",
                (now + lease_s, number),
            )
        return self.job(number)

    def heartbeat(self, job: Job, done: int, total: int, lease_s: float) -> bool:
        """See Journal."""
        with self._database.write() as write:
            write.execute(
                f"UPDATE jobs SET done = ?, total = ?, lease_until = ? WHERE {_CLAIMED}",
                (done, total, time.time() + lease_s, job.id, job.attempts),
            )
            return write.changes() > 0

    def finish(self, job: Job, state: str, error: str = "", retry_in_s: float | None = None) -> None:
        """See Journal."""
        again = retry_in_s is not None
        due = time.time() + (retry_in_s or 0.0) * random.uniform(0.8, 1.2)
        with self._database.write() as write:
            write.execute(
                f"UPDATE OR REPLACE jobs SET state = ?, error = ?, due = ? WHERE {_CLAIMED}",
                (JobState.QUEUED if again else state, error, due, job.id, job.attempts),
            )
            write.execute("DELETE FROM jobs WHERE state = 'done' AND due < ?", (time.time() - KEPT_DONE_S,))
            if state == JobState.DONE:
                write.execute(
                    "UPDATE jobs SET state = 'cancelled' WHERE state = 'failed' AND kind = ? AND key = ? AND id < ?",
                    (job.kind, job.key, job.id),
                )

    def release(self, job: Job, why: str) -> None:
        """See Journal."""
        with self._database.write() as write:
            write.execute(
                "UPDATE OR REPLACE jobs SET state = 'queued', attempts = attempts - 1, error = ?, due = ?"
                f" WHERE {_CLAIMED}",
                (why, time.time(), job.id, job.attempts),
            )

    def job(self, job: int) -> Job | None:
        """See Journal."""
        found = self._database.read(f"SELECT {_JOB} FROM jobs WHERE id = ?", (job,), _job)
        return found[0] if found else None

    def jobs(self, states: Sequence[str] = ()) -> list[Job]:
        """See Journal."""
        where = f"WHERE state IN ({marks(states)})" if states else ""
        return self._database.read(f"SELECT {_JOB} FROM jobs {where} ORDER BY id DESC", states, _job)

    def cancel(self, job: int) -> bool:
        """See Journal."""
        with self._database.write() as write:
            write.execute(
                "UPDATE jobs SET state = 'cancelled' WHERE id = ? AND state IN ('queued', 'running', 'failed')", (job,)
            )
            return write.changes() > 0

    def retry(self, job: int) -> bool:
        """See Journal."""
        with self._database.write() as write:
            write.execute(
                "UPDATE OR IGNORE jobs SET state = 'queued', attempts = 0, error = '', due = ?"
                " WHERE id = ? AND state IN ('failed', 'cancelled')",
                (time.time(), job),
            )
            return write.changes() > 0

    # Condition

    def check(self) -> list[str]:
        """See Journal."""
        return self._database.check()

    def size_bytes(self) -> int:
        """See Journal."""
        return self._database.size_bytes()

    def close(self) -> None:
        """See Journal."""
        self._database.close()


class _Staged:
    """See Staged."""

    def __init__(self, live: Database, staged: Database) -> None:
        self._live = live
        self._staged = staged

    def commit(self, entries: Sequence[tuple[Entry, Redacted | None]], *, clear: bool) -> dict[str, int]:
        """See Staged."""
        try:
            with self._live.write() as write:
                taken = sqlite_tables.take_over(write, self._staged, clear=clear)
                _record(write, entries, time.time())
        except apsw.ConstraintError as error:
            raise UnusableArchive(f"Its rows do not go with those here: {error}.", "Use another one.") from error
        return taken

    def close(self) -> None:
        """See Staged."""
        self._staged.close()


def _record(write: apsw.Connection, entries: Sequence[tuple[Entry, Redacted | None]], now: float) -> list[int]:
    chain = write.execute("SELECT chain FROM ledger ORDER BY seq DESC LIMIT 1").get or ""
    numbers = []
    for entry, prior in entries:
        chain = _append(write, entry, now, chain)
        numbers.append(int(write.last_insert_rowid()))
        if prior is not None:
            _keep(write, Kept(entry.memory_id, entry.prior_hash, prior), now)
    return numbers


def _append(write: apsw.Connection, entry: Entry, now: float, chain: str) -> str:
    values = (
        now,
        entry.action,
        entry.memory_id,
        entry.reason,
        entry.prior_hash,
        entry.new_hash,
        json.dumps(entry.linked_memory_ids),
        json.dumps(entry.decision_meta, sort_keys=True),
        entry.actor,
        entry.session,
    )
    chain = sqlite_ledger.chain(chain, values)
    columns = LEDGER.partition(", ")[2]
    write.execute(f"INSERT INTO ledger ({columns}) VALUES ({marks((*values, chain))})", (*values, chain))
    return chain


def _keep(write: apsw.Connection, kept: Kept, now: float) -> None:
    write.execute(
        "INSERT OR IGNORE INTO contents (content_hash, memory_id, content, at) VALUES (?,?,?,?)",
        (kept.content_hash, kept.memory_id, kept.text.text.encode(), now),
    )


def _ledger_row(row: Sequence[Any]) -> Mapping[str, Any]:
    found = dict(zip(LEDGER.split(", "), row, strict=True))
    return found | {name: json.loads(found[name]) for name in ("linked_memory_ids", "decision_meta")}


def _job(row: Sequence[Any]) -> Job:
    values = dict(zip(_JOB.split(", "), row, strict=True))
    values["payload"], values["state"] = json.loads(values["payload"]), JobState(values["state"])
    return Job(**values)
