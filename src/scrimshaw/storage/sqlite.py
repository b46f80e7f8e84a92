"""One SQLite file: connections lent from a pool, transactions, numbered migrations.

apsw bundles a current SQLite, so neither the interpreter's own version nor its missing extension loading matters.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from scrimshaw.errors import DamagedDatabase, StorageFailure

_RETRY_S = 0.01
_SCHEMAS = Path(__file__).with_name("schema")


class Database:
    """A database file that migrates itself when opened. `durable` commits reach the disk before they return.

    Safe to use from many short-lived threads: connections are lent from a pool, not kept by a thread.
    """

    def __init__(self, path: Path, schema: str, *, durable: bool, busy_timeout_ms: int) -> None:
        self.path = path
        self._durable = durable
        self._busy_timeout_ms = busy_timeout_ms
        self._idle: queue.LifoQueue[apsw.Connection] = queue.LifoQueue()
        path.parent.mkdir(parents=True, exist_ok=True)
        with refusals(path):
            _migrate(self, schema)

    @contextmanager
    def lend(self) -> Iterator[apsw.Connection]:
        """A connection for one piece of work; what SQLite refuses is raised as StorageFailure."""
        with refusals(self.path):
            try:
                connection = self._idle.get_nowait()
            except queue.Empty:
                connection = self._connect()
            try:
                yield connection
            finally:
                self._idle.put(connection)

    def rows(self, sql: str, arguments: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        with self.lend() as connection:
            return connection.execute(sql, tuple(arguments)).fetchall()

    def value(self, sql: str, arguments: Sequence[Any] = ()) -> Any:
        """The first column of the first row, or None."""
        with self.lend() as connection:
            return connection.execute(sql, tuple(arguments)).get

    @contextmanager
    def write(self) -> Iterator[apsw.Connection]:
        """An immediate transaction: committed when the block ends, undone when it raises."""
        with self.lend() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def drop_log(self) -> None:
        """Empty the write-ahead log, which holds what was deleted until it is overwritten."""
        self.rows("PRAGMA wal_checkpoint(TRUNCATE)")

    def check(self) -> list[str]:
        """Faults that SQLite's integrity check reports."""
        return [str(row[0]) for row in self.rows("PRAGMA integrity_check") if row[0] != "ok"]

    def size_bytes(self) -> int:
        """Bytes of the database and its write-ahead log."""
        companions = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(file.stat().st_size for file in companions if file.exists())

    def close(self) -> None:
        """Close the connections that nobody is using."""
        while not self._idle.empty():
            self._idle.get_nowait().close()

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(str(self.path))
        connection.set_busy_timeout(self._busy_timeout_ms)
        self._log_ahead(connection)
        connection.pragma("synchronous", "full" if self._durable else "normal")
        connection.pragma("foreign_keys", True)
        connection.pragma("secure_delete", True)
        return connection

    def _log_ahead(self, connection: apsw.Connection) -> None:
        """Switch to a write-ahead log. Of two processes that switch a new file at once SQLite refuses one unheard."""
        patience = time.monotonic() + self._busy_timeout_ms / 1000
        while True:
            try:
                connection.pragma("journal_mode", "wal")
                return
            except apsw.BusyError:
                if time.monotonic() > patience:
                    raise
                time.sleep(_RETRY_S)


@contextmanager
def refusals(path: Path) -> Iterator[None]:
    """Turns what SQLite refuses into StorageFailure."""
    try:
        yield
    except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError) as error:
        raise DamagedDatabase(
            f"{path} is damaged, or was made by another version: {error}.",
            "If it is index.db, run `scrimshaw rebuild`; otherwise restore the file from a backup.",
            path=str(path),
        ) from error
    except (apsw.BusyError, apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError) as error:
        raise StorageFailure(
            f"{path} could not be used: {error}.", "Check free space and permissions, then try again.", path=str(path)
        ) from error


def _migrate(database: Database, schema: str) -> None:
    """Run every migration that is not recorded yet, each in one transaction with its record."""
    database.rows(
        "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, at TEXT NOT NULL)"
    )
    for number, name, sql in _migrations(schema):
        if database.value("SELECT 1 FROM migrations WHERE number = ?", (number,)):
            continue
        with database.write() as write:
            if not write.execute("SELECT 1 FROM migrations WHERE number = ?", (number,)).get:
                write.execute(sql)
                write.execute("INSERT INTO migrations VALUES (?, ?, datetime('now'))", (number, name))


def _migrations(schema: str) -> list[tuple[int, str, str]]:
    """(number, name, SQL) of the numbered files of a schema, in order."""
    files = sorted((_SCHEMAS / schema).glob("*.sql"))
    return [(int(file.name.split("_")[0]), file.name, file.read_text(encoding="utf-8")) for file in files]
