"""One SQLite file: a pool of connections, transactions, numbered migrations.

apsw bundles a current SQLite, so the interpreter's own version and its missing extension loading do not matter.
"""

import os
import time
from _blake2 import blake2b  # `hashlib` and `threading` take a hook a millisecond each
from _thread import RLock, get_ident
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import apsw

from scrimshaw.errors import InvalidRequest, ScrimshawError, StorageFailure
from scrimshaw.storage.durable import make_private, storage_errors
from scrimshaw.storage.sql import SqlDatabase, read_migrations

_Identity = list[tuple[int, int] | None]
_RETRY_S = 0.01
_STATEMENTS = 500  # kept prepared; of the usual 100 a save finds two dropped again, and prepares them in 0.2 ms
_LONG_LOG_BYTES = 32 * 1024 * 1024  # to which SQLite shortens a log that it uses again from its start
# How SQLite says that the disk or its permissions are in the way, and not another process.
_UNUSABLE = (apsw.FullError, apsw.IOError, apsw.CantOpenError, apsw.ReadOnlyError, apsw.ProtocolError)
_DAMAGED = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, UnicodeDecodeError)
_OBJECTS = "SELECT type || ' ' || name, sql FROM sqlite_master"
# A seal is the sum of a table's rows; its 62 bits let SQLite add two.
_SEALS, _SEAL_BITS = "SELECT name, digest FROM seals WHERE digest <> 0", 2**62 - 1
_SEAL = f"INSERT INTO seals VALUES (?1, ?2) ON CONFLICT DO UPDATE SET digest = (digest + ?2) & {_SEAL_BITS}"
_HAS_SEALS = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'seals')"
_SEALED = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT IN ('seals', 'sqlite_sequence')"
_RECORD = "CREATE TABLE IF NOT EXISTS migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, at TEXT NOT NULL)"
_NEWEST = "SELECT coalesce(max(number), 0) FROM migrations"
_SCHEMAS = Path(__file__).with_name("schema")


class Database(SqlDatabase):
    """A database file that migrates itself when opened. `durable` commits reach the disk before they return.

    Only its owner can read a new file and its companions, which SQLite creates with the same mode.
    With `through` it stops at the migration of that number, like an older version.
    Raises NewerDatabase for the file of a later version, and leaves it unchanged.
    Safe to use from many short-lived threads: connections are lent from a pool, not kept by a thread.
    """

    REPAIR = "Run `scrimshaw restore --newest`."

    def __init__(
        self, path: Path, schema: str, *, durable: bool, busy_timeout_ms: int, through: int | None = None
    ) -> None:
        self.path, self.schema, self._through = path, schema, through
        self._durable, self._busy_timeout_ms = durable, busy_timeout_ms
        self._idle: list[apsw.Connection] = []
        self._borrowers: list[int] = []  #: the thread of every connection on loan
        self.log = path.with_name(f"{path.name}-wal")  #: the write-ahead log, which may not exist
        self._names = (str(path), str(self.log))
        self._identity: _Identity = []  #: of the open files
        self._guard = RLock()
        self.openings = 0  #: how many files were opened here, one after the other
        path.parent.mkdir(parents=True, exist_ok=True)
        make_private(path)
        with self.lend():
            pass

    @contextmanager
    def lend(self) -> Iterator[apsw.Connection]:
        own, patience = get_ident(), time.monotonic() + self._busy_timeout_ms / 1000
        try:
            with self._guard:
                while (is_moved := self._identify() != self._identity) and self._borrowers:
                    # SQLite must not have both logs open. Other threads return theirs, this one cannot meanwhile.
                    if own in self._borrowers or time.monotonic() > patience:
                        raise _absence_error(self.path)
                    self._guard.release()
                    time.sleep(_RETRY_S)
                    self._guard.acquire()
                if is_moved:
                    self._open()
                connection = self._idle.pop() if self._idle else self._connect()
                self._borrowers.append(own)
            try:
                yield connection
            finally:
                with self._guard:
                    self._borrowers.remove(own)
                    if connection.readonly("main"):  # a read-only connection sees no changes, so it is used once
                        connection.close()
                    else:
                        self._idle.append(connection)
        except (apsw.Error, OverflowError, UnicodeDecodeError) as error:
            raise self.explain(error) or error from error

    def rows(self, sql: str, arguments: Sequence[Any] = ()) -> list[Any]:
        with self.lend() as connection:
            return connection.execute(sql, tuple(arguments)).fetchall()

    @contextmanager
    def write(self) -> Iterator[apsw.Connection]:
        """An immediate transaction: committed when the block ends, rolled back when it raises."""
        with self.lend() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                with update_seals(connection) if self._durable else nullcontext():
                    yield connection
                if self._identify() != self._identity:
                    raise _absence_error(self.path)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    def check(self) -> list[str]:
        """Faults that SQLite's integrity check reports, a wrong schema, and rows that were not written here."""
        found = [str(row[0]) for row in self.rows("PRAGMA integrity_check") if row[0] != "ok"] + self.schema_faults()
        if self._durable and not found:
            with self.lend() as connection, connection:  # one snapshot for both
                differences = {*connection.execute(_SEALS).fetchall()} ^ {*_sum_rows(connection).items()}
            tables = {str(name) for name, _ in differences}
            found = [f"the rows of {table} are not what was written" for table in tables]
        return found

    def schema_faults(self) -> list[str]:
        """Tables, indexes and triggers that are missing, changed or foreign."""
        with closing(apsw.Connection(":memory:")) as scratch:
            for sql in (_RECORD, *(sql for _, _, sql in read_migrations(_SCHEMAS / self.schema))):
                scratch.execute(sql)
            differences = {*scratch.execute(_OBJECTS).fetchall()} ^ {*self.rows(_OBJECTS)}
        return [f"the {each} is missing or not ours" for each in sorted({str(name) for name, _ in differences})]

    def explain(self, error: Exception) -> ScrimshawError | None:
        """The failure for an error of SQLite; None for violated constraints of the journal, which callers explain."""
        if isinstance(error, OverflowError):
            return InvalidRequest("A number has more than 64 bits.", "Give a smaller one.")
        if isinstance(error, _UNUSABLE):
            with storage_errors("write", self.path):  # SQLite does not say why the system lets nobody write
                if self.path.exists():
                    self.path.open("r+b").close()
                else:
                    os.utime(self.path.parent)
        if isinstance(error, (apsw.BusyError, *_UNUSABLE)):
            hint = "Check free space and permissions, then try again."
            return StorageFailure(f"{self.path} could not be used: {error}.", hint, path=str(self.path))
        if isinstance(error, _DAMAGED) or (isinstance(error, apsw.ConstraintError) and self.schema == "index"):
            return self.explain_damage(error)
        return None

    def size_bytes(self) -> int:
        return sum(file.stat().st_size for file in (self.path, self.log) if file.exists())

    def compact(self) -> list[Path]:
        """Rewrite the file without free pages and empty its log; returns the files that another process prevents."""
        with self.lend() as connection, suppress(apsw.BusyError):
            connection.execute("VACUUM")
            # A reader of an older state keeps the log from being merged into the file and emptied.
            if not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]:
                return []
        return [path for path in (self.path, self.log) if path.stat().st_size]

    def close(self) -> None:
        """Close unused connections."""
        with self._guard:
            while self._idle:
                self._idle.pop().close()

    def _open(self) -> None:
        """Open the file at the path; after the first time only one that somebody else put there."""
        self.close()  # which merges what was left in a log that lost its name
        if self.openings:
            if not self._durable and self.path.parent.is_dir():
                make_private(self.path)
            if not self.path.exists() or (self._durable and not self.path.stat().st_size):
                raise _absence_error(self.path)
        before = self._identify()[:1]
        self._idle.append(self._connect())
        self._identity = self._identify()
        try:
            if before != self._identity[:1]:
                raise _absence_error(self.path)
            self.openings += 1
            self.migrate()
        except BaseException:
            self._identity = []  # to be opened again
            raise

    def migrate(self) -> None:
        """Run every migration that is not recorded yet, all in one transaction with their records."""
        self.rows(_RECORD)
        migrations = read_migrations(_SCHEMAS / self.schema)
        newest, known = self.value(_NEWEST), migrations[-1][0]
        if newest > known:
            remedy = ", or run `scrimshaw rebuild` to read the files again." if self.schema == "index" else "."
            raise self.explain_newer(newest, known, f"Update Scrimshaw{remedy}")
        last = self._through or known
        if newest < last:
            with self.write() as write:
                write.preupdate_hook(None)  # all rows are summed at the end
                newest = write.execute(_NEWEST).get  # another process may have been first
                for number, name, sql in migrations:
                    if newest < number <= last:
                        write.execute(sql)
                        write.execute("INSERT INTO migrations VALUES (?, ?, datetime('now'))", (number, name))
                if write.execute(_HAS_SEALS).get:
                    write.execute("DELETE FROM seals")
                    write.executemany(_SEAL, _sum_rows(write).items())

    def _identify(self) -> _Identity:
        """Device and inode of the database and its log, as they are at the path now."""
        found: list[tuple[int, int] | None] = []
        for name in self._names:
            try:
                info = os.stat(name)  # noqa: PTH116 - twice as fast as that of a Path, before each statement
                found.append((info.st_dev, info.st_ino))
            except OSError:
                found.append(None)
        return found

    def _connect(self) -> apsw.Connection:
        try:
            connection = apsw.Connection(str(self.path), apsw.SQLITE_OPEN_READWRITE, statementcachesize=_STATEMENTS)
            connection.set_busy_timeout(self._busy_timeout_ms)
            # Otherwise SQLite plans a statement with `LIMIT ?` again for each number.
            connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            # If two processes switch a new file to a write-ahead log at once, SQLite refuses one without waiting.
            patience = time.monotonic() + self._busy_timeout_ms / 1000
            while True:
                try:
                    connection.pragma("journal_mode", "wal")
                    break
                except apsw.BusyError:
                    if time.monotonic() > patience:
                        raise
                    time.sleep(_RETRY_S)
            connection.pragma("synchronous", "full" if self._durable else "normal")
            connection.pragma("foreign_keys", True)
            connection.pragma("secure_delete", True)
            connection.pragma("journal_size_limit", _LONG_LOG_BYTES)
            return connection
        except _UNUSABLE:
            if not self.path.exists() or (self.log.exists() and self.log.stat().st_size):
                raise
            # On a full or read-only disk the file alone can be read: it has everything committed.
            return open_file(self.path, immutable=True)


def open_file(
    path: Path, *, writable: bool = False, immutable: bool = False, busy_timeout_ms: int = 100
) -> apsw.Connection:
    """Open a database file as it is, without migrations; it is not created if missing.

    For an `immutable` one, which nobody may be writing, no companion files are made. Raises apsw.Error.
    """
    flags = (apsw.SQLITE_OPEN_READWRITE if writable else apsw.SQLITE_OPEN_READONLY) | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(f"{path.absolute().as_uri()}{'?immutable=1' if immutable else ''}", flags=flags)
    connection.set_busy_timeout(busy_timeout_ms)
    return connection


@contextmanager
def update_seals(write: apsw.Connection) -> Iterator[None]:
    """Keep the seals in step with the rows that the block changes."""
    changed = Counter[str]()

    def count_change(update: apsw.PreUpdate) -> None:
        name = update.table_name
        changed[name] = (changed[name] + _digest(update.new) - _digest(update.old)) & _SEAL_BITS

    write.preupdate_hook(count_change)
    try:
        yield
    finally:
        write.preupdate_hook(None)
    if changed and write.execute(_HAS_SEALS).get:
        write.executemany(_SEAL, changed.items())


def _sum_rows(connection: apsw.Connection) -> dict[str, int]:
    """The seals of the tables that have rows."""
    tables = connection.execute(_SEALED)
    sums = {name: map(_digest, connection.execute(f'SELECT * FROM "{name}"')) for (name,) in tables}
    return {str(name): total for name, digests in sums.items() if (total := sum(digests) & _SEAL_BITS)}


def _digest(row: Sequence[Any] | None) -> int:
    return int.from_bytes(blake2b(repr(tuple(row)).encode(), digest_size=8).digest()) if row else 0


def _absence_error(path: Path) -> StorageFailure:
    message = f"{path} was deleted, moved or replaced while it was open; nothing was written to it."
    hint = "Try again, restart the server where the project is now, or run `scrimshaw doctor`."
    return StorageFailure(message, hint, path=str(path))


def find_newest_migration(schema: str) -> int:
    return read_migrations(_SCHEMAS / schema)[-1][0]
