"""The engines that keep the ports' contracts: the suites `test_*_contract*.py` run once for each line below."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import apsw
import numpy as np
from numpy.typing import NDArray

from scrimshaw.config import SessionSettings
from scrimshaw.models import ItemKind, NewItem, Redacted
from scrimshaw.session import working_memory
from scrimshaw.storage.ports import Index, Journal, Sessions
from scrimshaw.storage.sqlite import Database
from scrimshaw.storage.sqlite_index import SqliteIndex
from scrimshaw.storage.sqlite_journal import SqliteJournal
from scrimshaw.storage.sqlite_sessions import SqliteSessions

BUSY_MS = 20_000
LEASE_S = 60.0


def _index(ram_scan_max: int) -> Callable[[Path], Index]:
    return lambda folder: SqliteIndex(folder / "index.db", busy_timeout_ms=BUSY_MS, ram_scan_max=ram_scan_max)


INDEXES: Mapping[str, Callable[[Path], Index]] = {
    "sqlite": _index(ram_scan_max=1_000_000),
    "sqlite-disk-scan": _index(ram_scan_max=0),
}

JOURNALS: Mapping[str, Callable[[Path], Journal]] = {
    "sqlite": lambda folder: SqliteJournal(folder / "journal.db", busy_timeout_ms=BUSY_MS),
}


@contextmanager
def _sqlite_sessions(folder: Path) -> Iterator[Sessions]:
    database = Database(folder / "journal.db", "journal", durable=True, busy_timeout_ms=BUSY_MS)
    try:
        yield SqliteSessions(database)
    finally:
        database.close()


SESSIONS: Mapping[str, Callable[[Path], AbstractContextManager[Sessions]]] = {"sqlite": _sqlite_sessions}

Tamper = Callable[[Path, str], None]


def _sqlite_tamper(folder: Path, sql: str) -> None:
    connection = apsw.Connection(str(folder / "journal.db"))
    try:
        connection.execute(sql)
    finally:
        connection.close()


# How somebody with the database's own tools gets past the journal, and how they lift its guards first.
TAMPER: Mapping[str, Tamper] = {"sqlite": _sqlite_tamper}
LIFT_GUARDS: Mapping[str, str] = {"sqlite": "DROP TRIGGER ledger_no_update; DROP TRIGGER ledger_no_delete;"}
REFUSALS: Mapping[str, type[Exception]] = {"sqlite": apsw.ConstraintError}


def vector(*numbers: float) -> NDArray[np.float32]:
    """A float32 array of length 1."""
    array = np.array(numbers, dtype=np.float32)
    unit: NDArray[np.float32] = array / np.linalg.norm(array)
    return unit


def claim_all(engine: str, folder: str) -> list[int]:
    """Claim jobs until none is left; their ids. A function at the top, so that another process can run it."""
    journal = JOURNALS[engine](Path(folder))
    try:
        claimed = []
        while job := journal.claim(["work"], LEASE_S):
            claimed.append(job.id)
        return claimed
    finally:
        journal.close()


def open_and_enqueue(engine: str, folder: str) -> int:
    """Open a journal that may not exist yet and ask for the same work as everybody else; the id of the job."""
    journal = JOURNALS[engine](Path(folder))
    try:
        return journal.enqueue("work", "the same", {})
    finally:
        journal.close()


def tick_many(engine: str, folder: str, session: str, times: int) -> list[int]:
    """What the counter said after each of this process's ticks."""
    with SESSIONS[engine](Path(folder)) as sessions:
        return [sessions.tick(session, now=float(count), modulus=2**31) for count in range(times)]


def remember_many(engine: str, folder: str, session: str, attentions: list[float]) -> tuple[list[int], int]:
    """The numbers of the items this process recorded, and the most items it ever saw held."""
    settings = SessionSettings()
    admit = partial(working_memory.admit, now=0.0, settings=settings, event_decay=True)
    numbers, most = [], 0
    with SESSIONS[engine](Path(folder)) as sessions:
        for attention in attentions:
            item = NewItem(text=Redacted(text="x"), kind=ItemKind.RESULT, attention=attention)
            sessions.tick(session, now=0.0, modulus=settings.counter_modulus)
            kept = sessions.remember(session, item, admit, now=0.0, modulus=settings.counter_modulus)
            numbers.append(kept.number)
            most = max(most, len(sessions.items(session, held=True)))
    return numbers, most


def open_session(engine: str, folder: str, session: str) -> bool:
    """Open a session that several processes open at once; whether it was new to this one."""
    with SESSIONS[engine](Path(folder)) as sessions:
        return sessions.open(session, now=1.0)[1]
