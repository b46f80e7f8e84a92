"""Taking texts out of a SQLite file for good: out of its rows, its free pages and its log.

Tables and columns are read from the database itself, so that a table of a later migration is never forgotten.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from scrimshaw.storage.ports import Traces, Wipe
from scrimshaw.storage.sql import marks
from scrimshaw.storage.sqlite.database import Database
from scrimshaw.storage.sqlite.journal import rewrite_ledger, verify_chain

# Readers hold the log for milliseconds; whoever reads longer than this is reported.
PATIENCE_S = 3.0
_RETRY_S = 0.05
_TABLES = (
    "SELECT name, type, wr FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
)
_LEDGER = "ledger"
# They name a memory and hold nothing of it: the ledger says that it was, and a draft that it shall not be made again.
_NAMING = (_LEDGER, "drafts")


class _Table(NamedTuple):
    name: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]


class Erased(NamedTuple):
    """Rows changed or removed by table. `chain_before` was the ledger's last hash if the ledger was rewritten, and
    `broken_before` the row at which its chain was broken even then."""

    rows: dict[str, int]
    chain_before: str = ""
    broken_before: int = 0


def found(database: Database, wipe: Wipe) -> dict[str, int]:
    """How many rows hold what shall go, by table; what stands in a full-text index counts too."""
    with database.lend() as connection:
        counts = {
            table.name: sum(1 for _ in _changes(connection, table, wipe.traces)) + _owned(connection, table, wipe)
            for table in _tables(connection, ("table", "shadow"))
        }
    return {name: count for name, count in counts.items() if count}


def erase(write: apsw.Connection, wipe: Wipe) -> Erased:
    """Remove rows that belong to the memory and put the marker in the place of every trace, in one transaction."""
    write.execute("PRAGMA defer_foreign_keys = ON")
    tables = _tables(write, ("table",))
    counts = {table.name: _removed(write, table, wipe) for table in tables}
    for table in tables:
        if table.name != _LEDGER:
            counts[table.name] += _changed(write, table, wipe.traces)
    ledger = [table for table in tables if table.name == _LEDGER and any(_changes(write, table, wipe.traces))]
    before, broken = "", 0
    for table in ledger:
        before = str(write.execute("SELECT chain FROM ledger ORDER BY seq DESC LIMIT 1").get)
        broken = verify_chain(write)[1]
        with rewrite_ledger(write):
            counts[table.name] += _changed(write, table, wipe.traces)
    return Erased({name: count for name, count in counts.items() if count}, before, broken)


def compact(database: Database) -> list[Path]:
    """Write the file anew without free pages and empty its log; the files that another process keeps as they were."""
    with database.lend() as connection:
        patience = time.monotonic() + PATIENCE_S
        while not (_is_vacuumed(connection) and _is_log_empty(connection)):
            if time.monotonic() > patience:
                log = database.path.with_name(database.path.name + "-wal")
                return [path for path in (database.path, log) if path.stat().st_size]
            time.sleep(_RETRY_S)
    return []


def _is_vacuumed(connection: apsw.Connection) -> bool:
    try:
        connection.execute("VACUUM")
    except apsw.BusyError:
        return False
    return True


def _is_log_empty(connection: apsw.Connection) -> bool:
    """Whether everything is in the file itself and the log has no byte; a reader of an older state prevents it."""
    busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0]
    return not busy


def _tables(connection: apsw.Connection, kinds: Sequence[str]) -> list[_Table]:
    rows = connection.execute(_TABLES).fetchall()
    return [_table(connection, str(name), bool(without_rowid)) for name, kind, without_rowid in rows if kind in kinds]


def _table(connection: apsw.Connection, name: str, without_rowid: bool) -> _Table:
    rows = connection.execute("SELECT name, pk FROM pragma_table_info(?)", (name,)).fetchall()
    columns: dict[str, int] = {str(column): int(place or 0) for column, place in rows}
    primary = sorted((column for column, place in columns.items() if place), key=columns.__getitem__)
    return _Table(name, tuple(columns), tuple(primary) if without_rowid else ("rowid",))


def _changes(
    connection: apsw.Connection, table: _Table, traces: Traces
) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """(key, new values) of the rows in which a trace stands."""
    names = ", ".join(f'"{name}"' for name in (*table.keys, *table.columns))
    for row in connection.execute(f'SELECT {names} FROM "{table.name}"'):
        key, values = row[: len(table.keys)], row[len(table.keys) :]
        clean = {name: _clean(value, traces) for name, value in zip(table.columns, values, strict=True)}
        new = {name: clean[name] for name, value in zip(table.columns, values, strict=True) if clean[name] != value}
        if new:
            yield key, new


def _clean(value: Any, traces: Traces) -> Any:
    if isinstance(value, str):
        return traces.erase(value.encode()).decode(errors="replace")
    return traces.erase(value) if isinstance(value, bytes) else value


def _changed(write: apsw.Connection, table: _Table, traces: Traces) -> int:
    """Rows of which two become the same are one."""
    changes = list(_changes(write, table, traces))
    where = " AND ".join(f'"{key}" = ?' for key in table.keys)
    for key, new in changes:
        setting = ", ".join(f'"{name}" = ?' for name in new)
        write.execute(f'UPDATE OR REPLACE "{table.name}" SET {setting} WHERE {where}', (*new.values(), *key))
    return len(changes)


def _owned(connection: apsw.Connection, table: _Table, wipe: Wipe) -> int:
    return sum(
        int(connection.execute(f'SELECT count(*) FROM "{table.name}" WHERE {condition}', values).get)
        for condition, values in _belongs(table, wipe)
    )


def _removed(write: apsw.Connection, table: _Table, wipe: Wipe) -> int:
    removed = 0
    for condition, values in _belongs(table, wipe):
        write.execute(f'DELETE FROM "{table.name}" WHERE {condition}', values)
        removed += write.changes()
    return removed


def is_owned(table: str, row: Mapping[str, Any], wipe: Wipe) -> bool:
    """Whether a row, as a checkpoint has it, is about a memory that goes."""
    return any(row.get(column) in values for column, values in _owners(table, wipe).items())


def _belongs(table: _Table, wipe: Wipe) -> Iterator[tuple[str, Sequence[str]]]:
    """The conditions under which rows of a table are about the memories that go."""
    for column, values in _owners(table.name, wipe).items():
        if column in table.columns and values:
            yield f'"{column}" IN ({marks(values)})', values


def _owners(table: str, wipe: Wipe) -> Mapping[str, Sequence[str]]:
    """The columns that name the memory a row is about, with the names that go."""
    if table in _NAMING:
        return {}
    return {"key": wipe.memory_ids} if table == "jobs" else {"memory_id": wipe.memory_ids, "path": wipe.paths}
