"""The engines that keep the ports' contracts: the suites `test_*_contract.py` run once for each line below."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol, cast

import apsw
import numpy as np
import pytest
from numpy.typing import NDArray
from tests.storage import postgres_server
from tests.storage.memory_engine import MemoryStorage

from scrimshaw.config import SessionSettings
from scrimshaw.models import EventKind, Filters, Item, ItemKind, NewItem, Observation, Redacted, Session
from scrimshaw.session import working_memory
from scrimshaw.storage.databases import Storage
from scrimshaw.storage.index import Index
from scrimshaw.storage.journal import Journal
from scrimshaw.storage.maintenance import Maintenance
from scrimshaw.storage.ports import Admit, Query
from scrimshaw.storage.sessions import Sessions
from scrimshaw.storage.sqlite.index import SqliteIndex

BUSY_MS = 20_000
MODULUS = 2**31
LEASE_S = 60.0


class OpenStorage(Protocol):
    """The ports over one folder."""

    @property
    def index(self) -> Index: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def sessions(self) -> Sessions: ...
    @property
    def maintenance(self) -> Maintenance: ...
    def close(self) -> None: ...


def _sqlite(ram_scan_max: int) -> Callable[[Path], OpenStorage]:
    return partial(Storage, busy_timeout_ms=BUSY_MS, ram_scan_max=ram_scan_max)


def _sqlite_with_word_lists(folder: Path) -> OpenStorage:
    storage = Storage(folder, busy_timeout_ms=BUSY_MS, word_lists_mb=64)
    assert isinstance(storage.index, SqliteIndex)
    storage.index.few_chunks = 0
    storage.index.match_text(Query((("first",),)), Filters(), 1)  # which is FTS5's
    return storage


def _postgres_with_graph(folder: Path) -> OpenStorage:
    from scrimshaw.storage.postgres.index import PostgresIndex

    storage = postgres_server.open_vault(folder)
    assert isinstance(storage.index, PostgresIndex)
    storage.index.graph_from = 0
    return storage


STORAGES: Mapping[str, Callable[[Path], OpenStorage]] = {
    "sqlite": _sqlite(ram_scan_max=1_000_000),
    "sqlite-word-lists": _sqlite_with_word_lists,
    "sqlite-disk-scan": _sqlite(ram_scan_max=0),
    # Its classes have the methods of the ports, and nothing of their SQL.
    "memory": cast(Callable[[Path], OpenStorage], MemoryStorage.open),
    "postgres": postgres_server.open_vault,
    "postgres-graph": _postgres_with_graph,
}
# What starts a server is for `make test-all`, where the wheel that brings one is installed.
_SERVED = (pytest.mark.slow, pytest.mark.skipif(not postgres_server.IS_HERE, reason="there is no PostgreSQL"))
_ON_SERVER = ("postgres", "postgres-graph")
ENGINES = [pytest.param(name, marks=_SERVED if name in _ON_SERVER else ()) for name in STORAGES]
# The scan makes no difference to what is durable.
DURABLE = [each for each in ENGINES if each.values[0] in ("sqlite", "memory", "postgres")]
# Engines whose rows are on a disk, where other processes and the database's own tools reach them.
SHARED = ("sqlite", "postgres")


@contextmanager
def open_storage(engine: str, folder: Path) -> Iterator[OpenStorage]:
    """The ports of an engine over a folder."""
    with closing(STORAGES[engine](folder)) as storage:
        yield storage


Tamper = Callable[[Path, str], None]


def _sqlite_tamper(folder: Path, sql: str) -> None:
    connection = apsw.Connection(str(folder / "journal.db"))
    try:
        connection.execute(sql)
    finally:
        connection.close()


def _postgres_tamper(folder: Path, sql: str) -> None:
    import psycopg

    with closing(postgres_server.open_vault(folder)) as storage:
        vault = storage.name("journal").rpartition("/")[2]
    with psycopg.connect(postgres_server.start(), autocommit=True, options=f"-c search_path={vault}") as connection:
        connection.execute(sql.encode())


# How somebody with the database's own tools gets past the journal, and how they lift its guards first.
TAMPER: Mapping[str, Tamper] = {"sqlite": _sqlite_tamper, "postgres": _postgres_tamper}
LIFT_GUARDS: Mapping[str, str] = {
    "sqlite": "DROP TRIGGER ledger_no_update; DROP TRIGGER ledger_no_delete;",
    "postgres": "DROP TRIGGER ledger_stays ON ledger;",
}
REFUSALS: Mapping[str, type[Exception]] = {"sqlite": apsw.ConstraintError, "postgres": Exception}


def vector(*numbers: float) -> NDArray[np.float32]:
    """A float32 array of length 1."""
    array = np.array(numbers, dtype=np.float32)
    unit: NDArray[np.float32] = array / np.linalg.norm(array)
    return unit


def claim_all(engine: str, folder: str) -> list[int]:
    """Claim jobs until none is left; their ids. A function at the top, so that another process can run it."""
    with open_storage(engine, Path(folder)) as storage:
        claimed = []
        while job := storage.journal.claim(["work"], LEASE_S):
            claimed.append(job.id)
        return claimed


def open_and_enqueue(engine: str, folder: str) -> int:
    """Open a journal that may not exist yet and ask for the same work as everybody else; the id of the job."""
    with open_storage(engine, Path(folder)) as storage:
        return storage.journal.enqueue("work", "the same", {})


def tick_many(engine: str, folder: str, session: str, times: int) -> list[int]:
    """What the counter said after each of this process's ticks."""
    with open_storage(engine, Path(folder)) as storage:
        return [storage.sessions.tick(session, now=float(count), modulus=2**31) for count in range(times)]


def remember(sessions: Sessions, item: NewItem, admit: Admit, session: str = "s", now: float = 1.0) -> Item:
    """Record what an event brought that is not counted; a text that working memory holds would be a mention."""
    seen = Observation(session=session, kind=EventKind.STOP, text=Redacted(text=""), item=item)
    sessions.observe(seen, admit, now=now, modulus=MODULUS)
    return sessions.items(session)[-1]


def remember_many(engine: str, folder: str, session: str, attentions: list[float]) -> tuple[list[int], int]:
    """The numbers of the items this process recorded, and the most items it ever saw held."""
    settings = SessionSettings()
    admit = partial(working_memory.admit, now=0.0, settings=settings, event_decay=True)
    numbers, most = list[int](), 0
    with open_storage(engine, Path(folder)) as storage:
        sessions = storage.sessions
        for attention in attentions:
            text = Redacted(text=f"{os.getpid()}-{len(numbers)}")
            item = NewItem(text=text, kind=ItemKind.RESULT, attention=attention)
            sessions.tick(session, now=0.0, modulus=settings.counter_modulus)
            remember(sessions, item, admit, session, now=0.0)
            numbers += [each.number for each in sessions.items(session) if each.text == text.text]
            most = max(most, len(sessions.items(session, held=True)))
    return numbers, most


def open_session(engine: str, folder: str, session: str) -> Session:
    """Open a session that several processes open at once."""
    with open_storage(engine, Path(folder)) as storage:
        return storage.sessions.open(session, now=1.0)
