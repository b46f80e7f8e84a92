"""The Maintenance port in PostgreSQL: whether a vault is intact, and dumping, restoring and erasing its rows.

Rows have the same form as in SQLite, so each engine can read the other's dump. They are staged and checked in a
SQLite file, whose schema version archives state.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import psycopg

from scrimshaw.storage.journal import chain_again
from scrimshaw.storage.maintenance import DatabaseTable, Maintenance
from scrimshaw.storage.ports import DatabaseName, DumpedRow, Row
from scrimshaw.storage.postgres.database import PostgresConnection, PostgresDatabase, restore_nul
from scrimshaw.storage.sql import SqlConnection, SqlDatabase
from scrimshaw.storage.sqlite.database import find_newest_migration
from scrimshaw.storage.sqlite.maintenance import SCHEMA, SqliteMaintenance

_VERSION = "SELECT current_setting('server_version'), extversion FROM pg_extension WHERE extname = 'vector'"
_COLUMNS = """
SELECT table_name, column_name, data_type FROM information_schema.columns
WHERE table_schema = current_schema() AND column_name <> 'rowid'
AND table_name NOT IN ('migrations', 'sqlite_sequence', 'place')
ORDER BY table_name, ordinal_position"""
# Generated numbers continue after the inserted ones.
_RENUMBER = "SELECT setval(pg_get_serial_sequence('{0}', '{1}'), greatest((SELECT max({1}) FROM {0}), 1))"


class PostgresMaintenance(Maintenance):
    """The Maintenance port over a vault's index and journal."""

    DEFER, CONSTRAINT_ERROR = "SET CONSTRAINTS ALL DEFERRED", psycopg.IntegrityError
    CASTS: ClassVar[Mapping[str, str]] = {"boolean": "?::int::boolean"}  # SQLite's are 0 and 1
    _databases: Mapping[DatabaseName, PostgresDatabase]
    _journal: PostgresDatabase

    def __init__(self, index: PostgresDatabase, journal: PostgresDatabase) -> None:
        self._databases, self._journal = {"index": index, "journal": journal}, journal
        server, vectors = index.rows(_VERSION)[0]
        self.version = f"PostgreSQL {server}, pgvector {vectors}"
        self.schema = find_newest_migration(SCHEMA)

    def check(self, database: DatabaseName, *, quick: bool = False) -> list[str]:
        checked = self._databases[database]
        known = checked.rows("SELECT tablename FROM pg_tables WHERE schemaname = ?", (checked.vault,))
        missing = [f"the table {name} is missing" for name in checked.tables if (name,) not in known]
        if database == "journal" and not missing:
            with self._journal.write() as write:
                write.execute("INSERT INTO capabilities (name, status, at) VALUES ('', 'probe', 0)")
                raise psycopg.Rollback
        return missing

    def compact(self) -> list[Path]:
        for database in self._databases.values():
            with database.lend() as connection:
                for table in self.read_tables(connection):
                    connection.execute(f"VACUUM (FULL) {table.name}")
        return []

    def dump_rows(self) -> Iterator[DumpedRow]:
        with self._journal.lend() as connection, connection.raw.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            for table in self.read_tables(connection):
                order = " ORDER BY rowid" if table.name in ("sessions", "learnings") else ""  # as they were inserted
                with connection.raw.cursor(name="dump") as cursor:
                    cursor.execute(f"{table.rows}{order}".encode())
                    for row in cursor:
                        values = (int(each) if isinstance(each, bool) else restore_nul(each) for each in row)
                        yield table.name, dict(zip(table.columns, values, strict=True))

    stage_rows = SqliteMaintenance.stage_rows  # in a SQLite file, whatever the database

    @classmethod
    def insert_staged(cls, write: SqlConnection, staged: SqlDatabase, *, clear: bool) -> dict[str, int]:
        counts = super().insert_staged(write, staged, clear=clear)
        for table, column in (("jobs", "id"), ("capabilities", "seq")):
            write.execute(_RENUMBER.format(table, column))
        return counts

    @staticmethod
    def read_tables(connection: PostgresConnection, *, is_every: bool = False) -> list[DatabaseTable]:
        found = defaultdict[str, dict[str, str]](dict)
        for table, column, kind in connection.execute(_COLUMNS):
            found[table][column] = kind
        return [DatabaseTable(name, columns, ("ctid::text",)) for name, columns in found.items()]

    @staticmethod
    def replace_row(write: PostgresConnection, table: DatabaseTable, key: Sequence[Any], new: Row) -> None:
        setting = ", ".join(f'"{name}" = ?' for name in new)
        try:
            with write.raw.transaction():
                write.execute(f'UPDATE "{table.name}" SET {setting} WHERE ctid = ?::tid', (*new.values(), *key))
        except psycopg.errors.UniqueViolation:
            write.execute(f'DELETE FROM "{table.name}" WHERE ctid = ?::tid', key)

    @staticmethod
    @contextmanager
    def rewrite_ledger(write: PostgresConnection) -> Iterator[None]:
        write.execute("ALTER TABLE ledger DISABLE TRIGGER USER")
        yield
        chain_again(write)
        write.execute("ALTER TABLE ledger ENABLE TRIGGER USER")
