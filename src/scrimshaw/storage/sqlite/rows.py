"""The journal's tables as rows: dumped as of one moment, checked in a database of their own, taken over at once.

Tables and columns are read from the database itself, so that a table of a later migration is never forgotten.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import apsw

from scrimshaw.errors import UnusableArchive
from scrimshaw.storage.ports import Row
from scrimshaw.storage.sql import marks
from scrimshaw.storage.sqlite.database import Database

SCHEMA = "journal"

_HINT = "Use another checkpoint."
_TABLES = (
    "SELECT name FROM sqlite_master WHERE type = 'table' AND substr(name, 1, 7) <> 'sqlite_' AND name <> 'migrations'"
    " ORDER BY name"
)
_TYPES: Mapping[str, tuple[type, ...]] = {"INTEGER": (int,), "REAL": (float, int), "TEXT": (str,), "BLOB": (bytes,)}
# What happened and what it replaced is never cleared: undo and the chain live from it.
_LEDGER, _CONTENTS = "ledger", "contents"
_PURGED = "SELECT DISTINCT memory_id FROM ledger WHERE action = 'purge'"
_BUSY_MS = 10_000
_UNREADABLE = (apsw.Error, UnicodeDecodeError, OverflowError)


def dump(database: Database) -> Iterator[tuple[str, Row]]:
    """(table, row) of everything, table after table, as it was at one moment."""
    with database.lend() as connection:
        connection.execute("BEGIN")
        try:
            for table, columns in columns_by_table(connection).items():
                for row in connection.execute(f'SELECT {quote_names(columns)} FROM "{table}"'):
                    yield table, dict(zip(columns, row, strict=True))
        finally:
            connection.execute("ROLLBACK")


def stage(path: Path, schema: int, rows: Iterable[tuple[str, Row]]) -> Database:
    """A database at `path` with these rows, checked against the schema they were written for and brought up to date.

    BLOBs come as base64. Raises UnusableArchive for an unknown table or column, a wrong type, and what keys forbid.
    """
    database = Database(path, SCHEMA, durable=False, busy_timeout_ms=_BUSY_MS, through=schema)
    try:
        with database.write() as write:
            _load(write, rows)
    except apsw.ConstraintError as error:
        raise UnusableArchive(f"Its rows contradict the schema: {error}.", _HINT) from error
    finally:
        database.close()
    return Database(path, SCHEMA, durable=False, busy_timeout_ms=_BUSY_MS)


def rewind(path: Path, schema: int, rows: Iterable[tuple[str, Row]]) -> None:
    """A database at `path` as the version of an older schema left it, with those rows that it has a place for."""
    database = Database(path, SCHEMA, durable=True, busy_timeout_ms=_BUSY_MS, through=schema)
    with database.write() as write:
        known = columns_by_table(write)
        _load(write, ((table, {name: row[name] for name in known[table]}) for table, row in rows if table in known))
    database.close()


def take_over(write: apsw.Connection, staged: Database, *, clear: bool) -> dict[str, int]:
    """Insert the staged rows that are missing, after clearing the tables if asked; rows inserted per table.

    The ledger is taken only where there is none; the contents of purged memories stay away.
    """
    write.execute("PRAGMA defer_foreign_keys = ON")
    has_ledger = write.execute("SELECT 1 FROM ledger").get is not None
    purged = {row[0] for row in write.execute(_PURGED)}
    counts: dict[str, int] = {}
    for table, columns in columns_by_table(write).items():
        if clear and table not in (_LEDGER, _CONTENTS):
            write.execute(f'DELETE FROM "{table}"')
        if table == _LEDGER and has_ledger:
            continue
        rows = staged.rows(f'SELECT {quote_names(columns)} FROM "{table}"')
        if table == _CONTENTS:
            place = list(columns).index("memory_id")
            rows = [row for row in rows if row[place] not in purged]
        before = write.total_changes()
        write.executemany(f'INSERT OR IGNORE INTO "{table}" ({quote_names(columns)}) VALUES ({marks(columns)})', rows)
        counts[table] = write.total_changes() - before
    return counts


def count_lost_rows(damaged: Path, sound: Database) -> tuple[dict[str, int], list[str]]:
    """(rows by table that a damaged journal holds and a sound one lacks, tables that could not be read to their end).

    A row that was changed since counts as one. The damaged file stays as it is.
    """
    counts: dict[str, int] = {}
    unread: list[str] = []
    with sound.lend() as connection:
        for table, columns in columns_by_table(connection).items():
            sql = f'SELECT {quote_names(columns)} FROM "{table}"'
            hashes: set[int] = set()
            if not _collect_hashes(damaged, sql, hashes):
                unread.append(table)
            lost = hashes.difference(map(hash, connection.execute(sql)))
            if lost:
                counts[table] = len(lost)
    return counts, unread


def columns_by_table(connection: apsw.Connection) -> dict[str, dict[str, str]]:
    """The columns of every durable table, with their declared types."""
    return {
        str(name): {row[1]: row[2] for row in connection.execute("SELECT * FROM pragma_table_info(?)", (name,))}
        for (name,) in connection.execute(_TABLES).fetchall()
    }


def quote_names(columns: Iterable[str]) -> str:
    """The names of columns as SQL takes them, whatever they are."""
    return ", ".join(f'"{name}"' for name in columns)


def _load(write: apsw.Connection, rows: Iterable[tuple[str, Row]]) -> None:
    write.execute("PRAGMA defer_foreign_keys = ON")
    known = columns_by_table(write)
    for table, row in rows:
        columns = known.get(table)
        if columns is None or set(row) != set(columns):
            raise UnusableArchive(f"Its table {table!r} has not the columns of this schema.", _HINT)
        values = [_check_type(table, name, declared, row[name]) for name, declared in columns.items()]
        write.execute(f'INSERT INTO "{table}" ({quote_names(columns)}) VALUES ({marks(values)})', values)


def _check_type(table: str, column: str, declared: str, value: Any) -> Any:
    """The value as the database takes it; raises UnusableArchive for one of another type."""
    if value is None:
        return None
    if declared == "BLOB" and isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except ValueError as error:
            raise UnusableArchive(f"{table}.{column} holds broken base64.", _HINT) from error
    if isinstance(value, bool) or not isinstance(value, _TYPES[declared]):
        raise UnusableArchive(f"{table}.{column} holds {type(value).__name__}, not {declared}.", _HINT)
    return value


def _collect_hashes(damaged: Path, sql: str, hashes: set[int]) -> bool:
    """Add the hash of every row that can be read; whether all could."""
    # For reading only; without a log the file is read as it lies, so that nothing is made beside it.
    log = damaged.with_name(damaged.name + "-wal")
    alone = "" if log.exists() and log.stat().st_size else "?immutable=1"
    try:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(f"{damaged.absolute().as_uri()}{alone}", flags=flags)
        try:
            for row in connection.execute(sql):
                hashes.add(hash(row))
        finally:
            connection.close()
    except _UNREADABLE:
        return False
    return True
