"""The Maintenance port in SQLite: whether the databases are intact, and dumping, restoring and erasing their rows.

Tables and columns are read from the database itself, so that tables of later migrations are included.
"""

import base64
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import apsw
from msgspec.structs import replace

from scrimshaw.errors import UnusableArchive
from scrimshaw.models import Entry, Traces, Wipe
from scrimshaw.storage.journal import append_entries, chain_again, verify_chain
from scrimshaw.storage.maintenance import LASTING, LEDGER, PURGED, SqlMaintenance, owners
from scrimshaw.storage.ports import CommitRows, DatabaseName, Row
from scrimshaw.storage.sql import marks
from scrimshaw.storage.sqlite.database import Database, newest_migration, open_file
from scrimshaw.storage.sqlite.index import BELONGING, SqliteIndex

SCHEMA = "journal"
# Readers hold the log for milliseconds; one that reads longer than this is reported.
PATIENCE_S = 3.0
_RETRY_S = 0.05
_BUSY_MS = 10_000

_HINT = "Use another checkpoint."
_TABLES = (
    "SELECT name, type, wr FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    " ORDER BY name"
)
_COLUMNS = "SELECT name, type, pk FROM pragma_table_info(?)"
_TYPES: Mapping[str, tuple[type, ...]] = {"INTEGER": (int,), "REAL": (float, int), "TEXT": (str,), "BLOB": (bytes,)}
_CONTENTS = "contents"
_OWN = ("migrations", "seals")  # a database's own bookkeeping
_TRIGGERS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'ledger'"
_OWNERLESS = " UNION ALL ".join(
    f"SELECT '{table}', count(*) FROM {table} WHERE memory NOT IN (SELECT row FROM memories)" for table in BELONGING
)


class SqliteMaintenance(SqlMaintenance):
    """The Maintenance port over the files of index and journal; a purge includes the journals of `find_others`."""

    _journal: Database

    def __init__(
        self, index: Database, journal: Database, find_others: Callable[[], Iterable[Database]] = tuple
    ) -> None:
        self._databases: Mapping[DatabaseName, Database] = {"index": index, "journal": journal}
        self._index = index
        self._journal = journal
        self._find_others, self._erased_others = find_others, list[Database]()
        self.version = f"SQLite {apsw.sqlite_lib_version()}"
        self.schema = newest_migration(SCHEMA)

    def check(self, database: DatabaseName, *, quick: bool = False) -> list[str]:
        if database == "index":
            return self._index.schema_faults() if quick else self._index.check() or self._index_faults()
        if not quick:
            return self._journal.check()
        with self._journal.lend() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute("INSERT INTO capabilities (name, status, at) VALUES ('', 'probe', 0)")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        return []

    def size_bytes(self, database: DatabaseName, *, tokens: bool = False) -> int:
        if tokens:
            return int(self._databases[database].value("SELECT total(length(packed)) FROM token_vectors"))
        return self._databases[database].size_bytes()

    def count_traces(self, database: DatabaseName, wipe: Wipe) -> dict[str, int]:
        counts = Counter[str]()
        with self._databases[database].lend() as connection:
            for table in list(_read_tables(connection, "table", "shadow")):
                counts[table.name] += sum(1 for _ in _changes(connection, table, wipe.traces))
                for condition, values in _conditions(table, wipe):
                    count = f'SELECT count(*) FROM "{table.name}" WHERE {condition}'
                    counts[table.name] += connection.execute(count, values).get
        return dict(+counts)

    def erase(self, wipe: Wipe, purge: Entry, files: Sequence[Entry] = ()) -> dict[str, int]:
        for other in self._find_others():  # this index has their sessions too
            with other.write() as write:
                if erased := erase(write, Wipe(wipe.traces)):
                    append_entries(write, [replace(purge, memory_id="", decision_meta=erased)], time.time())
                    self._erased_others.append(other)
        with self._journal.write() as write:
            erased = erase(write, wipe)
            whole = replace(purge, decision_meta={**purge.decision_meta, **erased})
            append_entries(write, [*files, whole], time.time())
        return dict(erased.get("rows", {}))

    def compact(self) -> list[Path]:
        with self._index.write() as write:
            write.execute("INSERT INTO memory_text (memory_text) VALUES ('optimize')")
        return [path for database in (*self._databases.values(), *self._erased_others) for path in _compact(database)]

    def dump_rows(self) -> Iterator[tuple[str, Row]]:
        return dump(self._journal)

    @contextmanager
    def stage_rows(self, path: Path, schema: int, rows: Iterable[tuple[str, Row]]) -> Iterator[CommitRows]:
        with closing(stage(path, schema, rows)) as staged:

            def commit(entries: Sequence[Entry], clear: bool) -> dict[str, int]:
                try:
                    with self._journal.write() as write:
                        counts = take_over(write, staged, clear=clear)
                        append_entries(write, entries, time.time())
                except apsw.ConstraintError as error:
                    message = f"Its rows do not go with those here: {error}."
                    raise UnusableArchive(message, "Use another one.") from error
                return counts

            yield commit

    def _index_faults(self) -> list[str]:
        """Faults of the full text and of memories' rows that the integrity check does not notice."""
        with self._index.lend() as connection:
            try:
                connection.execute("INSERT INTO memory_text (memory_text) VALUES ('integrity-check')")
            except apsw.CorruptError as error:
                return [f"full text: {error}"]
        found = self._index.rows(SqliteIndex.INCOMPLETE)
        faults = [f"{len(found)} files are not held whole, the first is {found[0][0]}"] if found else []
        orphans = self._index.rows(_OWNERLESS)
        return faults + [f"{many} rows of {table} belong to no memory" for table, many in orphans if many]


class _Table(NamedTuple):
    name: str
    columns: dict[str, str]  #: with their declared types
    keys: tuple[str, ...]

    @property
    def names(self) -> str:
        """The columns quoted for SQL, whatever their names."""
        return ", ".join(f'"{name}"' for name in self.columns)

    @property
    def rows(self) -> str:
        """The statement that reads all rows."""
        return f'SELECT {self.names} FROM "{self.name}"'


def _read_tables(connection: apsw.Connection, *kinds: str) -> Iterator[_Table]:
    for name, kind, without_rowid in connection.execute(_TABLES).fetchall():
        if kind in (kinds or ("table",)):
            columns: list[Any] = connection.execute(_COLUMNS, (name,)).fetchall()
            keys = sorted((place, column) for column, _, place in columns if place)
            named = tuple(column for _, column in keys) if without_rowid else ("rowid",)
            yield _Table(str(name), {column: declared for column, declared, _ in columns}, named)


def _durable_tables(connection: apsw.Connection) -> list[_Table]:
    return [table for table in _read_tables(connection) if table.name not in _OWN]


# Dumped and taken over


def dump(database: Database) -> Iterator[tuple[str, Row]]:
    """(table, row) of everything, table after table, in one snapshot."""
    with database.lend() as connection:
        connection.execute("BEGIN")
        try:
            for table in _durable_tables(connection):
                for row in connection.execute(table.rows):
                    yield table.name, dict(zip(table.columns, row, strict=True))
        finally:
            connection.execute("ROLLBACK")


def stage(path: Path, schema: int, rows: Iterable[tuple[str, Row]]) -> Database:
    """Make a database at `path` with these rows, checked against the schema they were written for and migrated.

    BLOBs come as base64. Raises UnusableArchive for an unknown table or column, a wrong type, or a violated constraint.
    """
    with closing(Database(path, SCHEMA, durable=False, busy_timeout_ms=_BUSY_MS, through=schema)) as database:
        try:
            with database.write() as write:
                write.execute("PRAGMA defer_foreign_keys = ON")
                known = {table.name: table for table in _durable_tables(write)}
                for name, row in rows:
                    table = known.get(name)
                    if table is None or set(row) != set(table.columns):
                        raise UnusableArchive(f"Its table {name!r} has not the columns of this schema.", _HINT)
                    values = [_check_type(f"{name}.{each}", kind, row[each]) for each, kind in table.columns.items()]
                    write.execute(f'INSERT INTO "{table.name}" ({table.names}) VALUES ({marks(values)})', values)
        except apsw.ConstraintError as error:
            raise UnusableArchive(f"Its rows contradict the schema: {error}.", _HINT) from error
    return Database(path, SCHEMA, durable=False, busy_timeout_ms=_BUSY_MS)


def _check_type(place: str, declared: str, value: Any) -> Any:
    """The value in the database's form; raises UnusableArchive for one of another type."""
    if declared == "BLOB" and isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except ValueError as error:
            raise UnusableArchive(f"{place} holds broken base64.", _HINT) from error
    if value is not None and (isinstance(value, bool) or not isinstance(value, _TYPES[declared])):
        raise UnusableArchive(f"{place} holds {type(value).__name__}, not {declared}.", _HINT)
    return value


def take_over(write: apsw.Connection, staged: Database, *, clear: bool) -> dict[str, int]:
    """Insert the staged rows that are missing, after clearing the tables if asked; rows inserted per table.

    The ledger is inserted only if there is none; the contents of purged memories never are.
    """
    write.execute("PRAGMA defer_foreign_keys = ON")
    has_ledger = write.execute("SELECT 1 FROM ledger").get is not None
    purged = {row[0] for row in write.execute(PURGED)}
    counts: dict[str, int] = {}
    for table in _durable_tables(write):
        if clear and table.name not in LASTING:
            write.execute(f'DELETE FROM "{table.name}"')
        if table.name == LEDGER and has_ledger:
            continue
        rows = staged.rows(table.rows)
        if table.name == _CONTENTS:
            place = list(table.columns).index("memory_id")
            rows = [row for row in rows if row[place] not in purged]
        before = write.total_changes()
        insert = f'INSERT OR IGNORE INTO "{table.name}" ({table.names}) VALUES ({marks(table.columns)})'
        write.executemany(insert, rows)
        counts[table.name] = write.total_changes() - before
    return counts


def count_lost_rows(damaged: Path, sound: Database) -> tuple[dict[str, int], list[str]]:
    """(rows by table that a damaged journal has and an intact one lacks, tables that could not be read to their end).

    A row changed since counts too. The damaged file stays as it is.
    """
    counts: dict[str, int] = {}
    unread: list[str] = []
    log = damaged.with_name(f"{damaged.name}-wal")
    has_log = log.exists() and log.stat().st_size > 0
    with sound.lend() as connection:
        for table in _durable_tables(connection):
            hashes: set[int] = set()
            try:
                with closing(open_file(damaged, immutable=not has_log)) as readable:
                    hashes.update(map(hash, readable.execute(table.rows)))
            except (apsw.Error, UnicodeDecodeError, OverflowError):
                unread.append(table.name)
            if lost := hashes.difference(map(hash, connection.execute(table.rows))):
                counts[table.name] = len(lost)
    return counts, unread


# Erased


def erase(write: apsw.Connection, wipe: Wipe) -> dict[str, Any]:
    """Remove rows that belong to the memory and replace every trace by the marker, in one transaction.

    Returns `rows` by table and, if the ledger was rewritten, its last hash before, with the row
    at which its chain was already broken.
    """
    write.execute("PRAGMA defer_foreign_keys = ON")
    counts, facts, tables = Counter[str](), dict[str, Any](), list(_read_tables(write))
    for table in tables:
        for condition, values in _conditions(table, wipe):
            write.execute(f'DELETE FROM "{table.name}" WHERE {condition}', values)
            counts[table.name] += write.changes()
    for table in tables:
        if table.name != LEDGER:
            counts[table.name] += _replace_traces(write, table, wipe.traces)
        elif any(_changes(write, table, wipe.traces)):
            last = write.execute("SELECT chain FROM ledger ORDER BY seq DESC LIMIT 1").get
            facts = {"chain_before": str(last), "broken_before": verify_chain(write)[1]}
            with rewrite_ledger(write):
                counts[table.name] += _replace_traces(write, table, wipe.traces)
    return {name: value for name, value in {"rows": dict(+counts), **facts}.items() if value}


@contextmanager
def rewrite_ledger(write: apsw.Connection) -> Iterator[None]:
    """Let the block change rows of the ledger, inside the transaction of `write`, and recompute the chain after it.

    Only a purge does this, and it records that it did. Raises StorageFailure if the new chain is not sound.
    """
    triggers = {str(name): str(sql) for name, sql in write.execute(_TRIGGERS).fetchall()}
    for name in triggers:
        write.execute(f'DROP TRIGGER "{name}"')
    yield
    chain_again(write)
    for sql in triggers.values():
        write.execute(sql)


def _compact(database: Database) -> list[Path]:
    """Rewrite the file without free pages and empty its log; returns the files that another process prevents."""
    patience = time.monotonic() + PATIENCE_S
    with database.lend() as connection:
        while time.monotonic() <= patience:
            with suppress(apsw.BusyError):
                connection.execute("VACUUM")
                # A reader of an older state keeps the log from being merged into the file and emptied.
                if not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]:
                    return []
            time.sleep(_RETRY_S)
    return [path for path in (database.path, database.log) if path.stat().st_size]


def _changes(
    connection: apsw.Connection, table: _Table, traces: Traces
) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """(key, new values) of the rows that contain a trace."""
    names = ", ".join(f'"{name}"' for name in (*table.keys, *table.columns))
    cleaners: Mapping[type, Callable[[Any], Any]] = {str: traces.mask, bytes: traces.erase}
    for row in connection.execute(f'SELECT {names} FROM "{table.name}"'):
        values = [each for each in zip(table.columns, row[len(table.keys) :], strict=True) if type(each[1]) in cleaners]
        if new := {name: clean for name, value in values if (clean := cleaners[type(value)](value)) != value}:
            yield row[: len(table.keys)], new


def _replace_traces(write: apsw.Connection, table: _Table, traces: Traces) -> int:
    """The number of rows changed; rows that become identical are merged."""
    changes = list(_changes(write, table, traces))
    where = " AND ".join(f'"{key}" = ?' for key in table.keys)
    for key, new in changes:
        setting = ", ".join(f'"{name}" = ?' for name in new)
        write.execute(f'UPDATE OR REPLACE "{table.name}" SET {setting} WHERE {where}', (*new.values(), *key))
    return len(changes)


def _conditions(table: _Table, wipe: Wipe) -> Iterator[tuple[str, Sequence[str]]]:
    """The conditions for rows of a table that belong to the erased memories."""
    for column, values in owners(table.name, wipe).items():
        if column in table.columns and values:
            yield f'"{column}" IN ({marks(values)})', values
