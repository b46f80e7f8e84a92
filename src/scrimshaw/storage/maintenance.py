"""Maintenance in SQL: statuses of parts, rows to erase, and rows taken over from a dump.

Tables and columns are read from the database itself, so that tables of later migrations are included.
"""

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from msgspec.structs import replace

from scrimshaw.errors import UnusableArchive
from scrimshaw.models import Entry, SessionState, Wipe
from scrimshaw.storage.journal import append_entries, verify_chain
from scrimshaw.storage.ports import CommitRows, DatabaseName, DumpedRow, Row, StatusChange
from scrimshaw.storage.sql import SqlConnection, SqlDatabase, marks

_LEDGER, _CONTENTS, _SESSIONS = "ledger", "contents", "sessions"
# Its row stays, so that nothing of the session is recorded again, in no work tree.
_BLANK = f"UPDATE sessions SET state = '{SessionState.PURGED}', task = '', continues = '', context_used = NULL WHERE id"
# The last change of every part, and the status before it.
_LAST = """
SELECT name, status, was, at FROM (
    SELECT seq, name, status, coalesce(lag(status) OVER parts, '') AS was, at, lead(seq) OVER parts AS later
    FROM capabilities WINDOW parts AS (PARTITION BY name ORDER BY seq)) AS changes
WHERE later IS NULL ORDER BY seq"""
_MOST_CHANGES = 100  # so that a part which often changes does not fill the disk
_TRIM = """
DELETE FROM capabilities WHERE name = ? AND seq <= (
    SELECT seq FROM capabilities WHERE name = ? ORDER BY seq DESC LIMIT 1 OFFSET ?)"""


class DatabaseTable(NamedTuple):
    name: str
    columns: dict[str, str]  #: with their types
    keys: tuple[str, ...]  #: what identifies a row

    @property
    def names(self) -> str:
        """The columns quoted for SQL, whatever their names."""
        return ", ".join(f'"{name}"' for name in self.columns)

    @property
    def rows(self) -> str:
        """The statement that reads all rows."""
        return f'SELECT {self.names} FROM "{self.name}"'


class Maintenance(ABC):
    """The health, size and bytes of the databases: `index` for the index, `journal` for journal and sessions."""

    version: str  #: the database engine, by name and version
    schema: int  #: the schema version of the rows from `dump_rows`; it only grows
    DEFER: ClassVar[str]  #: puts off the check of foreign keys to the end of a transaction
    CONSTRAINT_ERROR: ClassVar[type[Exception]]  #: how the driver reports a violated constraint
    CASTS: ClassVar[Mapping[str, str]] = {}  #: placeholders by the type of a column, where a plain one is refused
    _databases: Mapping[DatabaseName, SqlDatabase]
    _journal: SqlDatabase

    @abstractmethod
    def check(self, database: DatabaseName, *, quick: bool = False) -> list[str]:
        """Faults that the database's own integrity check finds.

        A quick check reports missing tables; in the journal it writes a row and undoes it. Raises StorageFailure.
        """

    @abstractmethod
    def compact(self) -> list[Path]:
        """Release the space of erased rows and words; returns the files not rewritten because others hold them open."""

    @abstractmethod
    def dump_rows(self) -> Iterator[DumpedRow]:
        """(table, row) of everything durable, including sessions, in one snapshot."""

    @abstractmethod
    def stage_rows(self, path: Path, schema: int, rows: Iterable[DumpedRow]) -> AbstractContextManager[CommitRows]:
        """Check dumped rows (bytes as base64) in a database at `path`; raises UnusableArchive naming what is wrong."""

    @staticmethod
    @abstractmethod
    def read_tables(connection: Any, *, is_every: bool = False) -> list[DatabaseTable]:
        """The tables with rows of memories, or every one, with those that the database made for itself."""

    @staticmethod
    @abstractmethod
    def replace_row(write: Any, table: DatabaseTable, key: Sequence[Any], new: Row) -> None:
        """Change values of a row; a row that becomes identical to another one is merged with it."""

    @staticmethod
    @abstractmethod
    def rewrite_ledger(write: Any) -> AbstractContextManager[None]:
        """For a purge: let the block change rows of the ledger in the transaction of `write`, then chain them again."""

    def size_bytes(self, database: DatabaseName, *, tokens: bool = False) -> int:
        """Bytes on disk, or only those of token vectors, which the index has."""
        if tokens:
            return int(self._databases[database].value("SELECT coalesce(sum(length(packed)), 0) FROM token_vectors"))
        return self._databases[database].size_bytes()

    def count_traces(self, database: DatabaseName, wipe: Wipe) -> dict[str, int]:
        """The number of rows with text that a purge is to erase, by table."""
        counts = Counter[str]()
        with self._databases[database].lend() as connection:
            for table in self.read_tables(connection, is_every=True):
                counts[table.name] += sum(1 for _ in _changes(connection, table, wipe))
                for condition, values in _conditions(table, wipe):
                    count = f'SELECT count(*) FROM "{table.name}" WHERE {condition}'
                    counts[table.name] += connection.execute(count, values).get
        return dict(+counts)

    def erase(self, wipe: Wipe, purge: Entry, files: Sequence[Entry] = ()) -> dict[str, int]:
        """Erase it from the journal and append `purge` and `files`, in one transaction; returns rows by table.

        Ledger rows that have it are rewritten, and so is the chain; the decision_meta of `purge` records the rows, the
        last hash of the old chain, and where that was broken, if it was.
        """
        with self._journal.write() as write:
            erased = self.erase_rows(write, wipe)
            whole = replace(purge, decision_meta={**purge.decision_meta, **erased})
            append_entries(write, [*files, whole], time.time())
        return dict(erased.get("rows", {}))

    @classmethod
    def erase_rows(cls, write: SqlConnection, wipe: Wipe) -> dict[str, Any]:
        """Remove rows of the memories and sessions, and replace every trace by the marker, in one transaction.

        Returns `rows` by table and, of a rewritten ledger, its last hash before, and the row that broke its chain.
        """
        write.execute(cls.DEFER)
        counts, facts, tables = Counter[str](), dict[str, Any](), cls.read_tables(write)
        for table in tables:
            for condition, values in _conditions(table, wipe):
                write.execute(f'DELETE FROM "{table.name}" WHERE {condition}', values)
                counts[table.name] += write.changes()
            if table.name == _SESSIONS and wipe.sessions:
                write.execute(f"{_BLANK} IN ({marks(wipe.sessions)})", wipe.sessions)
        for table in tables:
            changes = list(_changes(write, table, wipe))
            counts[table.name] += len(changes)
            if table.name == _LEDGER and changes:
                last = write.execute("SELECT chain FROM ledger ORDER BY seq DESC LIMIT 1").get
                facts = {"chain_before": str(last), "broken_before": verify_chain(write)[1]}
            with cls.rewrite_ledger(write) if table.name == _LEDGER and changes else nullcontext():
                for key, new in changes:
                    cls.replace_row(write, table, key, new)
        return {name: value for name, value in {"rows": dict(+counts), **facts}.items() if value}

    @classmethod
    def insert_staged(cls, write: SqlConnection, staged: SqlDatabase, *, clear: bool) -> dict[str, int]:
        """Insert the missing staged rows, in cleared tables if asked, by the rules of `CommitRows`; rows per table."""
        write.execute(cls.DEFER)
        has_ledger = write.execute("SELECT 1 FROM ledger LIMIT 1").get is not None
        purged = {row[0] for row in write.execute("SELECT DISTINCT memory_id FROM ledger WHERE action = 'purge'")}
        counts, tables = dict[str, int](), cls.read_tables(write)
        for table in tables if clear else ():
            if table.name not in (_LEDGER, _CONTENTS):  # undo and the chain need them
                write.execute(f'DELETE FROM "{table.name}"')
        for table in tables:
            if table.name == _LEDGER and has_ledger:
                continue
            rows = staged.rows(table.rows)
            if table.name == _CONTENTS:
                place = list(table.columns).index("memory_id")
                rows = [row for row in rows if row[place] not in purged]
            count = f'SELECT count(*) FROM "{table.name}"'
            before = write.execute(count).get
            values = ",".join(cls.CASTS.get(kind, "?") for kind in table.columns.values())
            put = f'INSERT INTO "{table.name}" ({table.names}) VALUES ({values}) ON CONFLICT DO NOTHING'
            write.executemany(put, rows)
            counts[table.name] = write.execute(count).get - before
        return counts

    def commit_rows(self, staged: SqlDatabase, entries: Sequence[Entry], clear: bool) -> dict[str, int]:
        """Take over staged rows and append entries to the ledger, in one transaction; raises UnusableArchive."""
        try:
            with self._journal.write() as write:
                counts = self.insert_staged(write, staged, clear=clear)
                append_entries(write, entries, time.time())
        except self.CONSTRAINT_ERROR as error:
            raise UnusableArchive(f"Its rows contradict those in the journal: {error}.", "Use another one.") from error
        return counts

    def record_statuses(self, seen: Mapping[str, str], *, now: float) -> dict[str, StatusChange]:
        """Store the statuses of parts that changed; returns the last change of every part, by name."""
        known = _last_changes(self._journal.rows(_LAST))
        if all(name in known and known[name].status == status for name, status in seen.items()):
            return known
        with self._journal.write() as write:
            known = _last_changes(write.execute(_LAST))  # another process may have been first
            for name, status in seen.items():
                if name not in known or known[name].status != status:
                    write.execute("INSERT INTO capabilities (name, status, at) VALUES (?, ?, ?)", (name, status, now))
                    write.execute(_TRIM, (name, name, _MOST_CHANGES))
            return _last_changes(write.execute(_LAST))


def _last_changes(rows: Iterable[tuple[Any, ...]]) -> dict[str, StatusChange]:
    return {name: StatusChange(status=status, was=was, at=at) for name, status, was, at in rows}


def owners(table: str, wipe: Wipe) -> Mapping[str, Sequence[str]]:
    """The columns that name a row's memory or session, with the names to erase."""
    if table == _LEDGER:  # that a memory existed
        return {}
    if table == "jobs":
        return {"key": (*wipe.memory_ids, *wipe.sessions)}
    # The drafts of other sessions stay, so that they are not made again.
    memories = {} if table == "drafts" else {"memory_id": wipe.memory_ids, "path": wipe.paths}
    return {**memories, "session": wipe.sessions}


def _changes(connection: SqlConnection, table: DatabaseTable, wipe: Wipe) -> Iterator[tuple[Any, dict[str, Any]]]:
    """(key, new values) of the rows that contain a trace, except those that are erased as a whole."""
    cleaners: Mapping[type, Callable[[Any], Any]] = {str: wipe.traces.mask, bytes: wipe.traces.erase}
    owned = [*_conditions(table, wipe)]
    where = "".join(f" AND NOT coalesce({condition}, false)" for condition, _ in owned)
    rows = f'SELECT {", ".join(table.keys)}, {table.names} FROM "{table.name}" WHERE true{where}'
    for row in connection.execute(rows, tuple(chain.from_iterable(values for _, values in owned))):
        values = [each for each in zip(table.columns, row[len(table.keys) :], strict=True) if type(each[1]) in cleaners]
        if new := {name: clean for name, value in values if (clean := cleaners[type(value)](value)) != value}:
            yield row[: len(table.keys)], new


def _conditions(table: DatabaseTable, wipe: Wipe) -> Iterator[tuple[str, Sequence[str]]]:
    """The conditions for rows of a table that belong to the erased memories and sessions."""
    for column, values in owners(table.name, wipe).items():
        if column in table.columns and values:
            yield f'"{column}" IN ({marks(values)})', values
