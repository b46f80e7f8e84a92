"""What a damaged journal holds that its restored one does not, as far as SQLite can still read it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw

from scrimshaw.storage import sqlite_tables
from scrimshaw.storage.sqlite import Database
from scrimshaw.storage.sqlite_tables import quoted

_UNREADABLE = (apsw.Error, UnicodeDecodeError, OverflowError)


def rows_beyond(damaged: Path, kept: Database) -> tuple[dict[str, int], list[str]]:
    """(rows by table that stand in the damaged file and not in `kept`, tables that could not be read to their end).

    A row that was changed since counts as one. The damaged file stays as it is.
    """
    counts: dict[str, int] = {}
    unread: list[str] = []
    with kept.lend() as sound:
        for table, columns in sqlite_tables.columns_by_table(sound).items():
            sql = f'SELECT {quoted(columns)} FROM "{table}"'
            found, is_whole = _readable(damaged, sql)
            counts[table] = len(found.difference(map(hash, sound.execute(sql))))
            if not is_whole:
                unread.append(table)
    return {table: count for table, count in counts.items() if count}, unread


def _readable(damaged: Path, sql: str) -> tuple[set[int], bool]:
    """Hashes of the rows from the first on, and where one cannot be read from the last back too; whether all could."""
    found: set[int] = set()
    try:
        found.update(_hashes(damaged, sql))
    except _UNREADABLE:
        try:
            for each in _hashes(damaged, f"{sql} ORDER BY rowid DESC"):
                found.add(each)
        except _UNREADABLE:
            pass
        return found, False
    return found, True


def _hashes(damaged: Path, sql: str) -> Iterator[int]:
    connection = _opened(damaged)
    try:
        yield from map(hash, connection.execute(sql))
    finally:
        connection.close()


def _opened(damaged: Path) -> apsw.Connection:
    """For reading only; without a log it is looked at as it lies, so that nothing is made beside it."""
    log = damaged.with_name(damaged.name + "-wal")
    alone = "" if log.exists() and log.stat().st_size else "?immutable=1"
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return apsw.Connection(f"{damaged.absolute().as_uri()}{alone}", flags=flags)
