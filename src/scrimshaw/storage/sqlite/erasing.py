"""Erasing texts from a SQLite file: from its rows, its free pages and its log.

Tables and columns are read from the database itself, so that a table of a later migration is never forgotten.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from scrimshaw.models import Traces, Wipe
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
# They name a memory and hold nothing of it: the ledger that it existed, a draft that it is not made again.
_NAMING = (_LEDGER, "drafts")


class _Table(NamedTuple):
    name: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]


class ErasedRows(NamedTuple):
    """Rows changed or removed by table."""

    rows: dict[str, int]
    #: The ledger's last hash before it was rewritten, empty if it was not.
    chain_before: str = ""
    #: The row at which its chain was broken even then.
    broken_before: int = 0


def count_rows(database: Database, wipe: Wipe) -> dict[str, int]:
    """How many rows hold what is to go, by table; rows of a full-text index count too."""
    counts: dict[str, int] = {}
    with database.lend() as connection:
        for table in list(_tables(connection, ("table", "shadow"))):
            counts[table.name] = sum(1 for _ in _changes(connection, table, wipe.traces))
            for condition, values in _conditions(table, wipe):
                counts[table.name] += connection.execute(
                    f'SELECT count(*) FROM "{table.name}" WHERE {condition}', values
                ).get
    return {name: count for name, count in counts.items() if count}


def erase(write: apsw.Connection, wipe: Wipe) -> ErasedRows:
    """Remove rows that belong to the memory and put the marker in the place of every trace, in one transaction."""
    write.execute("PRAGMA defer_foreign_keys = ON")
    counts: dict[str, int] = {}
    before, broken = "", 0
    tables = list(_tables(write, ("table",)))
    for table in tables:
        counts[table.name] = 0
        for condition, values in _conditions(table, wipe):
            write.execute(f'DELETE FROM "{table.name}" WHERE {condition}', values)
            counts[table.name] += write.changes()
    for table in tables:
        if table.name != _LEDGER:
            counts[table.name] += _replace_traces(write, table, wipe.traces)
        elif any(_changes(write, table, wipe.traces)):
            before = str(write.execute("SELECT chain FROM ledger ORDER BY seq DESC LIMIT 1").get)
            broken = verify_chain(write)[1]
            with rewrite_ledger(write):
                counts[table.name] += _replace_traces(write, table, wipe.traces)
    return ErasedRows({name: count for name, count in counts.items() if count}, before, broken)


def compact(database: Database) -> list[Path]:
    """Write the file again without free pages and empty its log; the files that another process keeps as they were."""
    patience = time.monotonic() + PATIENCE_S
    with database.lend() as connection:
        while time.monotonic() <= patience:
            with suppress(apsw.BusyError):
                connection.execute("VACUUM")
                # A reader of an older state prevents that everything is in the file itself and the log is empty.
                if not connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()[0][0]:
                    return []
            time.sleep(_RETRY_S)
    log = database.path.with_name(database.path.name + "-wal")
    return [path for path in (database.path, log) if path.stat().st_size]


def is_owned(table: str, row: Mapping[str, Any], wipe: Wipe) -> bool:
    """Whether a row, as a checkpoint has it, is about a memory that goes."""
    return any(row.get(column) in values for column, values in _owners(table, wipe).items())


def _tables(connection: apsw.Connection, kinds: Sequence[str]) -> Iterator[_Table]:
    for name, kind, without_rowid in connection.execute(_TABLES).fetchall():
        if kind in kinds:
            rows = connection.execute("SELECT name, pk FROM pragma_table_info(?)", (name,)).fetchall()
            primary = sorted((int(place), str(column)) for column, place in rows if place)
            keys = tuple(column for _, column in primary) if without_rowid else ("rowid",)
            yield _Table(str(name), tuple(str(column) for column, _ in rows), keys)


def _changes(
    connection: apsw.Connection, table: _Table, traces: Traces
) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """(key, new values) of the rows that hold a trace."""
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


def _replace_traces(write: apsw.Connection, table: _Table, traces: Traces) -> int:
    """The number of rows changed; rows of which two become the same are one."""
    changes = list(_changes(write, table, traces))
    where = " AND ".join(f'"{key}" = ?' for key in table.keys)
    for key, new in changes:
        setting = ", ".join(f'"{name}" = ?' for name in new)
        write.execute(f'UPDATE OR REPLACE "{table.name}" SET {setting} WHERE {where}', (*new.values(), *key))
    return len(changes)


def _conditions(table: _Table, wipe: Wipe) -> Iterator[tuple[str, Sequence[str]]]:
    """The conditions under which rows of a table are about the memories that go."""
    for column, values in _owners(table.name, wipe).items():
        if column in table.columns and values:
            yield f'"{column}" IN ({marks(values)})', values


def _owners(table: str, wipe: Wipe) -> Mapping[str, Sequence[str]]:
    """The columns that name the memory a row is about, with the names that go."""
    if table in _NAMING:
        return {}
    return {"key": wipe.memory_ids} if table == "jobs" else {"memory_id": wipe.memory_ids, "path": wipe.paths}
