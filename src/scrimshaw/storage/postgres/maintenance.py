"""The Maintenance port in PostgreSQL: whether a vault is intact, and dumping, restoring and erasing its rows.

Rows have the same form as in SQLite, so each engine can read the other's dump. They are staged and checked in a
SQLite file, whose schema version archives state.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from msgspec.structs import replace

from scrimshaw.errors import UnusableArchive
from scrimshaw.models import Entry, Traces, Wipe
from scrimshaw.storage.journal import append_entries, chain_again, verify_chain
from scrimshaw.storage.maintenance import LASTING, LEDGER, PURGED, SqlMaintenance, owners
from scrimshaw.storage.ports import CommitRows, DatabaseName, Row
from scrimshaw.storage.postgres.database import PostgresConnection, PostgresDatabase, restore_nul
from scrimshaw.storage.postgres.index import PostgresIndex
from scrimshaw.storage.sql import marks
from scrimshaw.storage.sqlite.database import newest_migration
from scrimshaw.storage.sqlite.maintenance import SCHEMA, stage

_VERSION = "SELECT current_setting('server_version'), extversion FROM pg_extension WHERE extname = 'vector'"
_COLUMNS = """
SELECT table_name, column_name, data_type FROM information_schema.columns
WHERE table_schema = current_schema() AND column_name <> 'rowid'
AND table_name NOT IN ('migrations', 'sqlite_sequence', 'place')
ORDER BY table_name, ordinal_position"""
_ORDERED = ("sessions", "learnings")  # read newest first, by order of insertion
# Generated numbers continue after the inserted ones.
_RENUMBER = "SELECT setval(pg_get_serial_sequence('{0}', '{1}'), greatest((SELECT max({1}) FROM {0}), 1))"
_NUMBERED = {"jobs": "id", "capabilities": "seq"}
_Columns = Mapping[str, Mapping[str, str]]  # the type of each column of each table


class PostgresMaintenance(SqlMaintenance):
    """The Maintenance port over a vault's index and journal."""

    _journal: PostgresDatabase

    def __init__(self, index: PostgresDatabase, journal: PostgresDatabase) -> None:
        self._databases: Mapping[DatabaseName, PostgresDatabase] = {"index": index, "journal": journal}
        self._index, self._journal = index, journal
        server, vectors = index.rows(_VERSION)[0]
        self.version = f"PostgreSQL {server}, pgvector {vectors}"
        self.schema = newest_migration(SCHEMA)

    def check(self, database: DatabaseName, *, quick: bool = False) -> list[str]:
        missing = self._databases[database].missing_tables()
        if database == "index" and not missing and not quick:
            found = self._index.rows(PostgresIndex.INCOMPLETE)
            return [f"{len(found)} files are not held whole, the first is {found[0][0]}"] if found else []
        if database == "journal" and not missing:
            with self._journal.write() as write:
                write.execute("INSERT INTO capabilities (name, status, at) VALUES ('', 'probe', 0)")
                raise psycopg.Rollback
        return missing

    def size_bytes(self, database: DatabaseName, *, tokens: bool = False) -> int:
        if tokens:
            total = "SELECT coalesce(sum(length(packed)), 0) FROM token_vectors"
            return int(self._databases[database].value(total)) if database == "index" else 0
        return self._databases[database].size_bytes()

    def count_traces(self, database: DatabaseName, wipe: Wipe) -> dict[str, int]:
        counts = Counter[str]()
        with self._databases[database].lend() as connection:
            for table, columns in _read_columns(connection).items():
                counts[table] += sum(1 for _ in _changes(connection, table, columns, wipe.traces))
                for condition, values in _conditions(table, columns, wipe):
                    counts[table] += connection.execute(f"SELECT count(*) FROM {table} WHERE {condition}", values).get
        return dict(+counts)

    def erase(self, wipe: Wipe, purge: Entry, files: Sequence[Entry] = ()) -> dict[str, int]:
        with self._journal.write() as write:
            write.execute("SET CONSTRAINTS ALL DEFERRED")
            counts, facts, tables = Counter[str](), dict[str, Any](), _read_columns(write)
            for table, columns in tables.items():
                for condition, values in _conditions(table, columns, wipe):
                    write.execute(f"DELETE FROM {table} WHERE {condition}", values)
                    counts[table] += write.changes()
            for table, columns in tables.items():
                if table != LEDGER:
                    counts[table] += _replace_traces(write, table, columns, wipe.traces)
                elif any(_changes(write, table, columns, wipe.traces)):
                    last = write.execute("SELECT chain FROM ledger ORDER BY seq DESC LIMIT 1").get
                    facts = {"chain_before": str(last), "broken_before": verify_chain(write)[1]}
                    write.execute("ALTER TABLE ledger DISABLE TRIGGER USER")
                    counts[table] += _replace_traces(write, table, columns, wipe.traces)
                    chain_again(write)
                    write.execute("ALTER TABLE ledger ENABLE TRIGGER USER")
            erased = {name: value for name, value in {"rows": dict(+counts), **facts}.items() if value}
            whole = replace(purge, decision_meta={**purge.decision_meta, **erased})
            append_entries(write, [*files, whole], time.time())
        return dict(+counts)

    def compact(self) -> list[Path]:
        for database in self._databases.values():
            with database.lend() as connection:
                for table in _read_columns(connection):
                    connection.execute(f"VACUUM (FULL) {table}")
        return []

    def dump_rows(self) -> Iterator[tuple[str, Row]]:
        with self._journal.lend() as connection, connection.raw.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            for table, columns in _read_columns(connection).items():
                order = " ORDER BY rowid" if table in _ORDERED else ""
                with connection.raw.cursor(name="dump") as cursor:
                    cursor.execute(f"SELECT {', '.join(columns)} FROM {table}{order}".encode())
                    for row in cursor:
                        values = (int(each) if isinstance(each, bool) else restore_nul(each) for each in row)
                        yield table, dict(zip(columns, values, strict=True))

    @contextmanager
    def stage_rows(self, path: Path, schema: int, rows: Iterable[tuple[str, Row]]) -> Iterator[CommitRows]:
        with closing(stage(path, schema, rows)) as staged:

            def commit(entries: Sequence[Entry], clear: bool) -> dict[str, int]:
                try:
                    with self._journal.write() as write:
                        counts = take_over(write, staged.rows, clear=clear)
                        append_entries(write, entries, time.time())
                except psycopg.IntegrityError as error:
                    message = f"Its rows do not go with those here: {error}."
                    raise UnusableArchive(message, "Use another one.") from error
                return counts

            yield commit


def _read_columns(connection: PostgresConnection) -> _Columns:
    found: dict[str, dict[str, str]] = {}
    for table, column, kind in connection.execute(_COLUMNS):
        found.setdefault(table, {})[column] = kind
    return found


def take_over(write: PostgresConnection, read: Callable[[str], list[Any]], *, clear: bool) -> dict[str, int]:
    """Insert the staged rows that are missing, after clearing the tables if asked; rows inserted per table.

    The ledger is inserted only if there is none; the contents of purged memories never are.
    """
    write.execute("SET CONSTRAINTS ALL DEFERRED")
    has_ledger = write.execute("SELECT 1 FROM ledger LIMIT 1").get is not None
    purged = {row[0] for row in write.execute(PURGED)}
    counts: dict[str, int] = {}
    tables = _read_columns(write)
    for table in tables if clear else ():
        if table not in LASTING:
            write.execute(f"DELETE FROM {table}")
    for table, columns in tables.items():
        if table == LEDGER and has_ledger:
            continue
        order = " ORDER BY rowid" if table in (*_ORDERED, LEDGER) else ""
        rows = read(f"SELECT {', '.join(columns)} FROM {table}{order}")
        if table == "contents":
            place = list(columns).index("memory_id")
            rows = [row for row in rows if row[place] not in purged]
        makers = [bool if kind == "boolean" else None for kind in columns.values()]
        made = [[make(v) if make and v is not None else v for make, v in zip(makers, row, strict=True)] for row in rows]
        before = write.execute(f"SELECT count(*) FROM {table}").get
        put = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks(columns)}) ON CONFLICT DO NOTHING"
        write.executemany(put, made)
        counts[table] = write.execute(f"SELECT count(*) FROM {table}").get - before
    for table, column in _NUMBERED.items():
        write.execute(_RENUMBER.format(table, column))
    return counts


def _changes(
    connection: PostgresConnection, table: str, columns: Mapping[str, str], traces: Traces
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(row id, new values) of the rows that contain a trace."""
    cleaners: Mapping[type, Callable[[Any], Any]] = {str: traces.mask, bytes: traces.erase}
    for place, *row in connection.execute(f"SELECT ctid::text, {', '.join(map(_quote, columns))} FROM {table}"):
        values = [each for each in zip(columns, row, strict=True) if type(each[1]) in cleaners]
        if new := {name: clean for name, value in values if (clean := cleaners[type(value)](value)) != value}:
            yield place, new


def _replace_traces(write: PostgresConnection, table: str, columns: Mapping[str, str], traces: Traces) -> int:
    """The number of rows changed; rows that become identical are merged."""
    changes = list(_changes(write, table, columns, traces))
    for place, new in changes:
        setting = ", ".join(f"{_quote(name)} = ?" for name in new)
        try:
            with write.raw.transaction():
                write.execute(f"UPDATE {table} SET {setting} WHERE ctid = ?::tid", (*new.values(), place))
        except psycopg.errors.UniqueViolation:
            write.execute(f"DELETE FROM {table} WHERE ctid = ?::tid", (place,))
    return len(changes)


def _conditions(table: str, columns: Mapping[str, str], wipe: Wipe) -> Iterator[tuple[str, Sequence[str]]]:
    """The conditions for rows of a table that belong to the erased memories."""
    for column, values in owners(table, wipe).items():
        if column in columns and values:
            yield f"{column} IN ({marks(values)})", values


def _quote(name: str) -> str:
    return f'"{name}"'
