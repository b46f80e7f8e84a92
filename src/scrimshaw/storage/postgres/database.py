"""One vault on a PostgreSQL server: a pool of connections, transactions, numbered migrations."""

import re
from _thread import RLock
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from threading import BoundedSemaphore, local
from typing import Any

import psycopg
from psycopg import pq

from scrimshaw.errors import InvalidRequest, ScrimshawError, StorageFailure
from scrimshaw.storage.sql import SqlDatabase, read_migrations

_SCHEMAS = Path(__file__).with_name("schema")
_RECORD = "CREATE TABLE IF NOT EXISTS migrations (number bigint PRIMARY KEY, name text NOT NULL, at text NOT NULL)"
_NEWEST = "SELECT coalesce(max(number), 0) FROM migrations"
# For a process to the index or journal of a vault. More statements at once only slow each other down, and a server
# allows 100 connections by default.
MOST_CONNECTIONS = 8
# A client that dies in a transaction blocks all writers of its vault, so the server ends it. A search first takes 400
# vectors: with a shorter list the graph is walked again, which finds fewer of the nearest and takes as long.
_OPTIONS = (
    "-c search_path={vault},public -c lock_timeout={timeout} -c idle_in_transaction_session_timeout=60000"
    " -c synchronous_commit={commit} -c hnsw.iterative_scan=strict_order -c hnsw.ef_search=400 -c client_encoding=UTF8"
    " -c jit=off"
)
# PostgreSQL allows no NUL in a text: it is replaced by this character, which Unicode reserves for internal use.
_NUL, _STANDS_FOR_NUL = "\0", "\ufdd0"
_LIST = re.compile(r"\b(NOT )?IN \(\?(?:,\?)*\)")
_UNUSABLE = (psycopg.OperationalError, psycopg.InterfaceError, psycopg.errors.InsufficientPrivilege)
_FOREIGN = (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn, psycopg.errors.InvalidSchemaName)


class PostgresRows:
    """The result of a statement, as SQLite's driver returns it."""

    def __init__(self, cursor: psycopg.Cursor[Any]) -> None:
        self._cursor = cursor

    @property
    def get(self) -> Any:
        row = next(iter(self.fetchall()), None)
        return row[0] if row and len(row) == 1 else row

    def fetchall(self) -> list[Any]:
        """All rows with their original texts, NUL included; empty for a statement without a result."""
        rows = self._cursor.fetchall() if self._cursor.description else []
        if any(_STANDS_FOR_NUL in each for row in rows for each in row if each.__class__ is str):
            return [tuple(map(restore_nul, row)) for row in rows]
        return rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self.fetchall())


class PostgresConnection:
    """A connection that accepts SQLite's statements."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.raw = connection
        self._changed = 0

    def execute(self, statements: str, bindings: Any = (), /) -> PostgresRows:
        """Run a statement with `?` for each argument, or several without arguments."""
        sql, lists = _translate(statements)
        arguments = [_adapt(each) for each in bindings]
        for first, end in lists:
            arguments[first:end] = [arguments[first:end]]
        cursor = self.raw.execute(sql, arguments or None)
        self._changed = max(cursor.rowcount, 0)
        return PostgresRows(cursor)

    def executemany(self, statements: str, bindings: Iterable[Sequence[Any]], /) -> None:
        with self.raw.cursor() as cursor:
            cursor.executemany(_translate(statements)[0], [[_adapt(each) for each in row] for row in bindings])
            self._changed = max(cursor.rowcount, 0)

    def copy(self, columns: str, rows: Iterable[Sequence[Any]], /) -> None:
        """Add many rows to a table, given as `table (column, ...)`, faster than statements can."""
        with self.raw.cursor() as cursor, cursor.copy(f"COPY {columns} FROM STDIN".encode()) as copy:
            for row in rows:
                copy.write_row(row)

    def changes(self) -> int:
        return self._changed


class PostgresDatabase(SqlDatabase):
    """The tables of a vault of one kind, which migrate themselves when they are opened.

    A `durable` commit is on the server's disk before it returns. The name of the vault is part of its schemas' names.
    """

    REPAIR = "Restore the server's backup."

    def __init__(self, url: str, vault: str, schema: str, *, durable: bool, busy_timeout_ms: int) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,40}", vault):
            message = f"{vault!r} cannot be the name of a vault."
            raise InvalidRequest(message, "Set [storage] vault: small letters, digits and underscores, a letter first.")
        known = psycopg.conninfo.conninfo_to_dict(url)
        host, name = known.get("host") or "localhost", known.get("dbname") or "postgres"
        self.path = Path(f"postgresql:{host}/{name}/{vault}")  # for error messages; never with the password
        self.openings = 1  # a server has no file that could be replaced
        self.schema, self.vault = schema, f"scrimshaw_{vault}_{schema}"
        self._connect = partial(
            psycopg.connect,
            url,
            autocommit=True,
            connect_timeout=5,  # seconds
            application_name="scrimshaw",
            options=_OPTIONS.format(vault=self.vault, timeout=busy_timeout_ms, commit="on" if durable else "off"),
        )
        self._idle: list[PostgresConnection] = []
        self._guard, self._turns, self._held = RLock(), BoundedSemaphore(MOST_CONNECTIONS), local()
        self._patience_s = busy_timeout_ms / 1000
        self._is_closed = False
        self.migrate()

    @contextmanager
    def lend(self) -> Iterator[PostgresConnection]:
        try:
            with self._take_turn():
                with self._guard:
                    known = self._idle.pop() if self._idle else None
                connection = known or PostgresConnection(self._connect())
                try:
                    yield connection
                finally:
                    is_idle = connection.raw.info.transaction_status == pq.TransactionStatus.IDLE
                    with self._guard:
                        if is_idle and not self._is_closed:
                            self._idle.append(connection)
                        else:
                            connection.raw.close()
        except (psycopg.Error, UnicodeDecodeError) as error:
            raise self.explain(error) or error from error

    @contextmanager
    def _take_turn(self) -> Iterator[None]:
        """Wait until fewer than MOST_CONNECTIONS are lent; a thread that already has one gets another at once."""
        has_one = getattr(self._held, "has_one", False)
        if not has_one and not self._turns.acquire(timeout=self._patience_s):
            message = f"All {MOST_CONNECTIONS} connections to {self.path} were busy for {self._patience_s:g} s."
            raise StorageFailure(message, "Try again when less is asked at once.", path=str(self.path))
        self._held.has_one = True
        try:
            yield
        finally:
            self._held.has_one = has_one
            if not has_one:
                self._turns.release()

    def rows(self, sql: str, arguments: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query, as tuples; repeated if the connection turns out to be dead."""
        with self._guard:
            had = len(self._idle)
        for is_last in (*[False] * had, True):
            try:
                with self.lend() as connection:
                    return connection.execute(sql, arguments).fetchall()
            except StorageFailure as error:
                if is_last or not isinstance(error.__cause__, psycopg.OperationalError):
                    raise
        return []

    @contextmanager
    def write(self) -> Iterator[PostgresConnection]:
        """A transaction, alone among the writers of its vault: committed when the block ends, undone when it raises."""
        with self.lend() as connection, connection.raw.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(?, 0))", (self.vault,))
            yield connection

    def close(self) -> None:
        """Close unused connections now, others when they are returned."""
        with self._guard:
            self._is_closed = True
            while self._idle:
                self._idle.pop().raw.close()

    @property
    def tables(self) -> list[str]:
        """The names of the tables of this kind, as the migrations create them."""
        statements = (sql for _, _, sql in read_migrations(_SCHEMAS / self.schema))
        return re.findall(r"^CREATE TABLE (\w+)", "".join(statements), re.MULTILINE)

    def size_bytes(self) -> int:
        total = "SELECT sum(pg_total_relation_size(to_regclass(name))) FROM unnest(?::text[]) AS name"
        return int(self.value(total, (self.tables,)) or 0)

    def migrate(self) -> None:
        """Run every migration that is not recorded yet, all in one transaction."""
        migrations = read_migrations(_SCHEMAS / self.schema)
        known = migrations[-1][0]
        done = self.value(_NEWEST) if self.value("SELECT to_regclass(?)::text", (f"{self.vault}.migrations",)) else 0
        if done < known:
            with self.write() as connection:  # if several processes create a vault at once, all but one wait here
                # Two vaults created at once must not both create shared objects.
                connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('scrimshaw', 0))")
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector SCHEMA public")
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {self.vault}")
                connection.execute(_RECORD)
                done = connection.execute(_NEWEST).get
                for number, name, sql in migrations:
                    if number > done:
                        connection.raw.execute(sql.encode())
                        connection.execute("INSERT INTO migrations VALUES (?, ?, now()::text)", (number, name))
        elif done > known:
            self.close()
            raise self.explain_newer(done, known, "Update Scrimshaw.")

    def explain(self, error: Exception) -> ScrimshawError | None:
        """The failure for an error of the server; None for violated constraints, which callers explain."""
        if isinstance(error, psycopg.errors.NumericValueOutOfRange):
            return InvalidRequest("A number has more than 64 bits.", "Give a smaller one.")
        if isinstance(error, _UNUSABLE):
            hint = "Check that the server runs and lets this user in, then try again."
            what = " ".join(str(error).split())
            return StorageFailure(f"{self.path} could not be used: {what}.", hint, path=str(self.path))
        return self.explain_damage(error) if isinstance(error, (*_FOREIGN, UnicodeDecodeError)) else None


@lru_cache(maxsize=1000)
def _translate(sql: str) -> tuple[bytes, Sequence[tuple[int, int]]]:
    """A statement with `?` for each argument in the driver's form, and which arguments become lists, last first.

    With a list for `IN (?,?)` the statement is the same for any number, so the server plans it once. An empty
    list matches nothing. LIKE ignores case, as in SQLite.
    """
    lists = [(first, first + found[0].count("?")) for found in _LIST.finditer(sql)
             for first in [sql.count("?", 0, found.start())]]  # fmt: skip
    taken = _LIST.sub(lambda found: "<> ALL (?)" if found[1] else "= ANY (?)", sql)
    alike = taken.replace("%", "%%").replace("?", "%s").replace("IN ()", "IN (NULL)").replace(" LIKE ", " ILIKE ")
    return alike.encode(), lists[::-1]


def restore_nul(value: Any) -> Any:
    """The original value, with the NULs that PostgreSQL cannot store."""
    return value.replace(_STANDS_FOR_NUL, _NUL) if isinstance(value, str) else value


def _adapt(value: Any) -> Any:
    return str(value).replace(_NUL, _STANDS_FOR_NUL) if isinstance(value, str) else value
