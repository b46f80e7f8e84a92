"""The Maintenance port in SQLite: whether the databases are intact, and dumping, staging and erasing their rows."""

import base64
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw
from msgspec.structs import replace

from scrimshaw.errors import UnusableArchive
from scrimshaw.models import Entry, Wipe
from scrimshaw.storage.journal import append_entries, chain_again
from scrimshaw.storage.maintenance import DatabaseTable, Maintenance
from scrimshaw.storage.ports import CommitRows, DatabaseName, DumpedRow, Row
from scrimshaw.storage.sql import marks
from scrimshaw.storage.sqlite.database import Database, find_newest_migration
from scrimshaw.storage.sqlite.index import MERGE_WORDS

SCHEMA = "journal"
_BUSY_MS = 10_000

_HINT = "Use another checkpoint."
_TABLES = (
    "SELECT name, type, wr FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    " ORDER BY name"
)
_COLUMNS = "SELECT name, type, pk FROM pragma_table_info(?)"
_TYPES: Mapping[str, tuple[type, ...]] = {"INTEGER": (int,), "REAL": (float, int), "TEXT": (str,), "BLOB": (bytes,)}
_OWN = ("migrations", "seals")  # a database's own bookkeeping
_TRIGGERS = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'ledger'"


class SqliteMaintenance(Maintenance):
    """The Maintenance port over the files of index and journal; a purge includes the journals of `find_others`."""

    DEFER, CONSTRAINT_ERROR = "PRAGMA defer_foreign_keys = ON", apsw.ConstraintError
    _databases: Mapping[DatabaseName, Database]
    _journal: Database

    def __init__(self, index: Database, journal: Database, find_others: Callable[[], Iterable[Database]]) -> None:
        self._databases = {"index": index, "journal": journal}
        self._index, self._journal = index, journal
        self._find_others, self._erased_others = find_others, list[Database]()
        self.version = f"SQLite {apsw.sqlite_lib_version()}"
        self.schema = find_newest_migration(SCHEMA)

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

    def erase(self, wipe: Wipe, purge: Entry, files: Sequence[Entry] = ()) -> dict[str, int]:
        for other in self._find_others():  # this index has their sessions too
            with other.write() as write:
                if erased := self.erase_rows(write, Wipe(wipe.traces, sessions=wipe.sessions)):
                    append_entries(write, [replace(purge, memory_id="", decision_meta=erased)], time.time())
                    self._erased_others.append(other)
        return super().erase(wipe, purge, files)

    def compact(self) -> list[Path]:
        with self._index.write() as write:
            write.execute(MERGE_WORDS)
        return [path for each in (*self._databases.values(), *self._erased_others) for path in each.compact()]

    def dump_rows(self) -> Iterator[DumpedRow]:
        return dump(self._journal)

    @contextmanager
    def stage_rows(self: Maintenance, path: Path, schema: int, rows: Iterable[DumpedRow]) -> Iterator[CommitRows]:
        with closing(stage(path, schema, rows)) as staged:
            yield partial(self.commit_rows, staged)

    @staticmethod
    def read_tables(connection: apsw.Connection, *, is_every: bool = False) -> list[DatabaseTable]:
        found = list[DatabaseTable]()
        for name, kind, without_rowid in connection.execute(_TABLES).fetchall():
            has_memories = kind == "table" and name not in _OWN
            if has_memories or (is_every and kind in ("table", "shadow")):
                columns: list[Any] = connection.execute(_COLUMNS, (name,)).fetchall()
                keys = sorted((place, f'"{column}"') for column, _, place in columns if place)
                named = tuple(column for _, column in keys) if without_rowid else ("rowid",)
                found.append(DatabaseTable(str(name), {column: declared for column, declared, _ in columns}, named))
        return found

    @staticmethod
    def replace_row(write: apsw.Connection, table: DatabaseTable, key: Sequence[Any], new: Row) -> None:
        setting = ", ".join(f'"{name}" = ?' for name in new)
        where = " AND ".join(f"{name} = ?" for name in table.keys)
        write.execute(f'UPDATE OR REPLACE "{table.name}" SET {setting} WHERE {where}', (*new.values(), *key))

    @staticmethod
    @contextmanager
    def rewrite_ledger(write: apsw.Connection) -> Iterator[None]:
        triggers = {str(name): str(sql) for name, sql in write.execute(_TRIGGERS).fetchall()}
        for name in triggers:
            write.execute(f'DROP TRIGGER "{name}"')
        yield
        chain_again(write)
        for sql in triggers.values():
            write.execute(sql)

    def _index_faults(self) -> list[str]:
        """Faults of the full text that the integrity check does not notice."""
        with self._index.lend() as connection:
            try:
                connection.execute("INSERT INTO memory_text (memory_text) VALUES ('integrity-check')")
            except apsw.CorruptError as error:
                return [f"full text: {error}"]
        return []


def dump(database: Database) -> Iterator[DumpedRow]:
    """(table, row) of everything, table after table, in one snapshot."""
    with database.lend() as connection, connection:
        for table in SqliteMaintenance.read_tables(connection):
            for row in connection.execute(table.rows):
                yield table.name, dict(zip(table.columns, row, strict=True))


def stage(path: Path, schema: int, rows: Iterable[DumpedRow]) -> Database:
    """Make a database at `path` with these rows, checked against the schema they were written for and migrated.

    BLOBs come as base64. Raises UnusableArchive for an unknown table or column, a wrong type, or a violated constraint.
    """
    with closing(Database(path, SCHEMA, durable=False, busy_timeout_ms=_BUSY_MS, through=schema)) as database:
        try:
            with database.write() as write:
                write.execute("PRAGMA defer_foreign_keys = ON")
                known = {table.name: table for table in SqliteMaintenance.read_tables(write)}
                for name, row in rows:
                    if (table := known.get(name)) is None or set(row) != set(table.columns):
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
