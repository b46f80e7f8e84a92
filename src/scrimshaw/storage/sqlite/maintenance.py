"""The Maintenance port in SQLite: whether the databases are sound, what they hold, and taking rows out and in."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw
from msgspec.structs import replace

from scrimshaw.errors import DamagedDatabase, UnusableArchive
from scrimshaw.models import Entry, Wipe
from scrimshaw.storage.ports import CommitRows, DatabaseName, LedgerEntry, Row, StatusChange
from scrimshaw.storage.sqlite import tables
from scrimshaw.storage.sqlite.database import Database, newest_migration
from scrimshaw.storage.sqlite.index import BELONGING, find_incomplete
from scrimshaw.storage.sqlite.journal import append_entries

_OWNERLESS = " UNION ALL ".join(
    f"SELECT '{table}', count(*) FROM {table} WHERE memory NOT IN (SELECT row FROM memories)" for table in BELONGING
)
# The last change of every part, and the status before it.
_LAST = """
SELECT name, status, was, at FROM (
    SELECT seq, name, status, coalesce(lag(status) OVER parts, '') AS was, at, lead(seq) OVER parts AS later
    FROM capabilities WINDOW parts AS (PARTITION BY name ORDER BY seq))
WHERE later IS NULL ORDER BY seq"""
# So that a part that comes and goes does not fill the disk.
_MOST_CHANGES = 100
_TRIM = """
DELETE FROM capabilities WHERE name = ?1 AND seq <= (
    SELECT seq FROM capabilities WHERE name = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)"""


class SqliteMaintenance:
    """The Maintenance port over the files of the index and of the journal."""

    def __init__(self, index: Database, journal: Database) -> None:
        self._databases: Mapping[DatabaseName, Database] = {"index": index, "journal": journal}
        self._index = index
        self._journal = journal
        self.version = f"SQLite {apsw.sqlite_lib_version()}"
        self.schema = newest_migration(tables.SCHEMA)

    def check(self, database: DatabaseName, *, quick: bool = False) -> list[str]:
        if database == "index":
            return self._index.absent_tables() if quick else self._index.check() or self._index_faults()
        if not quick:
            return self._journal.check()
        with self._journal.lend() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute("INSERT INTO capabilities (name, status, at) VALUES ('', 'probe', 0)")
                read = connection.execute("SELECT status FROM capabilities WHERE name = ''").get
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        if read != "probe":
            message = f"{self._journal.path} does not give back what was written."
            raise DamagedDatabase(message, "Run `scrimshaw restore --newest`.", path=str(self._journal.path))
        return []

    def size_bytes(self, database: DatabaseName) -> int:
        return self._databases[database].size_bytes()

    def count_traces(self, database: DatabaseName, wipe: Wipe) -> dict[str, int]:
        return tables.count_rows(self._databases[database], wipe)

    def erase(self, wipe: Wipe, purge: Entry, files: Sequence[Entry] = ()) -> dict[str, int]:
        with self._journal.write() as write:
            erased = tables.erase(write, wipe)
            facts = {"rows": erased.rows, "chain_before": erased.chain_before, "broken_before": erased.broken_before}
            meta = {**purge.decision_meta, **{name: value for name, value in facts.items() if value}}
            entries = [*files, replace(purge, decision_meta=meta)]
            append_entries(write, [(entry, None) for entry in entries], time.time())
        return erased.rows

    def compact(self) -> list[Path]:
        with self._index.write() as write:
            write.execute("INSERT INTO memory_text (memory_text) VALUES ('optimize')")
        return [*tables.compact(self._index), *tables.compact(self._journal)]

    def dump_rows(self) -> Iterator[tuple[str, Row]]:
        return tables.dump(self._journal)

    @contextmanager
    def stage_rows(self, path: Path, schema: int, rows: Iterable[tuple[str, Row]]) -> Iterator[CommitRows]:
        with closing(tables.stage(path, schema, rows)) as staged:

            def commit(entries: Sequence[LedgerEntry], clear: bool) -> dict[str, int]:
                try:
                    with self._journal.write() as write:
                        counts = tables.take_over(write, staged, clear=clear)
                        append_entries(write, entries, time.time())
                except apsw.ConstraintError as error:
                    message = f"Its rows do not go with those here: {error}."
                    raise UnusableArchive(message, "Use another one.") from error
                return counts

            yield commit

    def record_statuses(self, seen: Mapping[str, str], *, now: float) -> dict[str, StatusChange]:
        known = _last_changes(self._journal.rows(_LAST))
        if all(name in known and known[name].status == status for name, status in seen.items()):
            return known
        with self._journal.write() as write:
            # Another process may have been first.
            known = _last_changes(write.execute(_LAST))
            for name, status in seen.items():
                if name not in known or known[name].status != status:
                    write.execute("INSERT INTO capabilities (name, status, at) VALUES (?, ?, ?)", (name, status, now))
                    write.execute(_TRIM, (name, _MOST_CHANGES))
            return _last_changes(write.execute(_LAST))

    def _index_faults(self) -> list[str]:
        """Faults of the full text and of the rows of memories, of which the integrity check knows nothing."""
        with self._index.lend() as connection:
            try:
                connection.execute("INSERT INTO memory_text (memory_text) VALUES ('integrity-check')")
            except apsw.CorruptError as error:
                return [f"full text: {error}"]
        found = find_incomplete(self._index)
        faults = [f"{len(found)} files are not held whole, the first is {found[0]}"] if found else []
        orphans = self._index.rows(_OWNERLESS)
        return faults + [f"{many} rows of {table} belong to no memory" for table, many in orphans if many]


def _last_changes(rows: Iterable[tuple[Any, ...]]) -> dict[str, StatusChange]:
    return {name: StatusChange(status=status, was=was, at=at) for name, status, was, at in rows}
