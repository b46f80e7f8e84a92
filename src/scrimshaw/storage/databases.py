"""Opens the databases of a project: the only place that names an engine. Light to import: hooks use it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from types import TracebackType

from scrimshaw.errors import ScrimshawError
from scrimshaw.storage.ports import Index, Journal, Maintenance, Row, Sessions
from scrimshaw.storage.sqlite.database import Database
from scrimshaw.storage.sqlite.journal_file import INDEX as INDEX
from scrimshaw.storage.sqlite.journal_file import JOURNAL as JOURNAL
from scrimshaw.storage.sqlite.journal_file import check_pages, open_journal
from scrimshaw.storage.sqlite.journal_file import is_damaged as is_damaged
from scrimshaw.storage.sqlite.journal_file import note_ledger_end as note_ledger_end
from scrimshaw.storage.sqlite.journal_file import read_ledger_end as read_ledger_end


class Storage:
    """The databases in a folder, each opened when it is first asked for, and its ports."""

    def __init__(
        self, folder: Path, *, busy_timeout_ms: int, ram_scan_max: int = 0, replace_lost_journal: bool = False
    ) -> None:
        self._folder = folder
        self._busy_timeout_ms = busy_timeout_ms
        self._ram_scan_max = ram_scan_max
        self._replace_lost_journal = replace_lost_journal

    # Each port loads its own modules, for a hook has 60 ms in all.

    @cached_property
    def index(self) -> Index:
        """What was derived from files."""
        from scrimshaw.storage.sqlite.index import SqliteIndex  # noqa: PLC0415 - most hooks need no index

        return SqliteIndex(self.index_database, ram_scan_max=self._ram_scan_max)

    @cached_property
    def sessions(self) -> Sessions:
        """Sessions, in the journal's file. Raises DamagedDatabase for a journal that is lost."""
        from scrimshaw.storage.sqlite.sessions import SqliteSessions  # noqa: PLC0415 - see above

        return SqliteSessions(self.journal_database)

    @cached_property
    def journal(self) -> Journal:
        """Ledger and jobs. Raises DamagedDatabase for a journal that is lost."""
        from scrimshaw.storage.sqlite.journal import SqliteJournal  # noqa: PLC0415 - most hooks need no ledger

        return SqliteJournal(self.journal_database)

    @cached_property
    def maintenance(self) -> Maintenance:
        """What looks after the files of all of them."""
        from scrimshaw.storage.sqlite.maintenance import SqliteMaintenance  # noqa: PLC0415 - see above

        return SqliteMaintenance(self.index_database, self.journal_database)

    @cached_property
    def index_database(self) -> Database:
        """The file of the index."""
        return Database(self._folder / INDEX, "index", durable=False, busy_timeout_ms=self._busy_timeout_ms)

    @cached_property
    def journal_database(self) -> Database:
        """The file of journal and sessions."""
        path, is_replaced = self._folder / JOURNAL, self._replace_lost_journal
        return open_journal(path, busy_timeout_ms=self._busy_timeout_ms, replace_lost=is_replaced)

    def count_lost_rows(self, damaged: Path) -> tuple[dict[str, int], list[str]]:
        """(rows by table that only a damaged journal holds, tables that could not be read to their end)."""
        from scrimshaw.storage.sqlite.rows import count_lost_rows  # noqa: PLC0415 - only after a loss

        return count_lost_rows(damaged, self.journal_database)

    def close(self) -> None:
        """Release files and connections."""
        for name in ("index_database", "journal_database"):
            if name in self.__dict__:
                getattr(self, name).close()

    def __enter__(self) -> Storage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_storage(
    folder: Path, *, busy_timeout_ms: int, ram_scan_max: int, replace_lost_journal: bool = False
) -> Storage:
    """Open all databases of a folder. Up to `ram_scan_max` vectors are held in memory for searching.

    With `replace_lost_journal` a journal is begun in the place of one that was lost. Raises DamagedDatabase for a
    journal that is lost or not sound, NewerDatabase, StorageFailure.
    """
    storage = Storage(
        folder, busy_timeout_ms=busy_timeout_ms, ram_scan_max=ram_scan_max, replace_lost_journal=replace_lost_journal
    )
    try:
        _, journal = storage.index_database, storage.journal_database
        check_pages(journal)
    except ScrimshawError:
        storage.close()
        raise
    return storage


def find_broken_entry(rows: Iterable[Row]) -> int:
    """The number of the first of these rows of a ledger that breaks its chain, 0 when none does."""
    from scrimshaw.storage.sqlite.journal import LEDGER, find_break  # noqa: PLC0415 - only for checkpoints

    values = ([row.get(name) for name in LEDGER.split(", ")] for row in rows)
    # A damaged row may have no number.
    return find_break([row[0] if isinstance(row[0], int) else 0, *row[1:]] for row in values)[2]
