"""Opens the databases of a project in SQLite files. Light to import: hooks use it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from scrimshaw.config import PROJECT_FOLDER
from scrimshaw.errors import DamagedDatabase, ScrimshawError, StorageFailure, UnreadableFile
from scrimshaw.storage.durable import storage_errors, sync_folder
from scrimshaw.storage.place import CHECKPOINTS, JOURNAL, claim_place, find_place, find_siblings, place_below_git
from scrimshaw.storage.sqlite.database import Database, find_newest_migration, open_file

if TYPE_CHECKING:
    from scrimshaw.storage.index import Index
    from scrimshaw.storage.journal import Journal
    from scrimshaw.storage.maintenance import Maintenance
    from scrimshaw.storage.ports import DatabaseName
    from scrimshaw.storage.sessions import Sessions
    from scrimshaw.storage.sqlite.vector_cache import VectorCache

INDEX, _ARCHIVES = "index.db", f"{CHECKPOINTS}/*.scrim"
# A larger journal is only read completely by `doctor`, `restore --newest` and the daily checkpoint, as a quick check
# takes 0.8 ms for a megabyte. Hooks have 60 ms in all and never check.
CHECKED_AT_OPEN_BYTES = 32 * 1024 * 1024

_SCHEMA = "journal"
_IS_USED = (  # the ledger's last number remains when its rows are removed
    "SELECT EXISTS (SELECT 1 FROM {0}.sqlite_sequence WHERE name = 'ledger') OR EXISTS (SELECT 1 FROM {0}.sessions)"
)
_NEWEST = "SELECT coalesce(max(seq), 0) FROM journal.ledger"
_NOTED = "SELECT value FROM meta WHERE key = 'journal'"
_NOTE = "INSERT INTO meta VALUES ('journal', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_RECENT_S = 5.0  # finding other work trees takes a few stats, and every call of a tool needs them
_HINT = "Run `scrimshaw restore --newest`."


class Storage:
    """The databases in a folder and their ports, each opened on first use."""

    def __init__(
        self, folder: Path, *, busy_timeout_ms: int, replace_lost_journal: bool = False, **scan_limits: int
    ) -> None:
        self.folder, self._busy_timeout_ms, self._replace_lost_journal = folder, busy_timeout_ms, replace_lost_journal
        self.has_index = (folder / INDEX).exists()  #: whether one was ever created
        self._scan_limits = scan_limits  #: of SqliteIndex
        self._siblings = dict[Path, Database]()
        self._recent: tuple[float, list[Database]] = (0.0, [])  #: the journals found, and until when they are valid

    @cached_property
    def index(self) -> Index:
        """The data derived from files."""
        from scrimshaw.storage.sqlite.index import SqliteIndex  # noqa: PLC0415 - most hooks need no index, and have 60 ms in all

        return SqliteIndex(self.index_database, **self._scan_limits)

    @cached_property
    def sessions(self) -> Sessions:
        """Sessions, in the files of this journal and of those of the repository's other work trees."""
        from scrimshaw.storage.sessions import Sessions  # noqa: PLC0415 - see above

        return Sessions(self.journal_database, self.open_siblings)

    @cached_property
    def journal(self) -> Journal:
        """Ledger and jobs."""
        from scrimshaw.storage.journal import Journal  # noqa: PLC0415 - most hooks need no ledger

        return Journal(self.journal_database, partial(read_ledger_end, self.folder))

    @cached_property
    def maintenance(self) -> Maintenance:
        """Maintenance of all files."""
        from scrimshaw.storage.sqlite.maintenance import SqliteMaintenance  # noqa: PLC0415 - see above

        return SqliteMaintenance(self.index_database, self.journal_database, partial(self.open_siblings, every=True))

    @cached_property
    def vectors(self) -> VectorCache | None:
        """The vectors that the work trees of the repository share; None without one, or if the file is unusable."""
        from scrimshaw.storage.sqlite.vector_cache import FILE, VectorCache  # noqa: PLC0415 - see above

        place = place_below_git(self.folder)
        with suppress(ScrimshawError):
            return VectorCache(place.with_name(FILE), self._busy_timeout_ms) if place else None
        return None

    @cached_property
    def index_database(self) -> Database:
        return Database(self.folder / INDEX, "index", durable=False, busy_timeout_ms=self._busy_timeout_ms)

    @cached_property
    def journal_database(self) -> Database:
        """The file of journal and sessions."""
        return open_journal(self.folder, busy_timeout_ms=self._busy_timeout_ms, replace_lost=self._replace_lost_journal)

    def name(self, database: DatabaseName) -> str:
        """The location of a database, for messages."""
        return str(self.folder / INDEX if database == "index" else self.place / JOURNAL)

    def open_siblings(self, *, every: bool = False) -> list[Database]:
        """The journals of other work trees, unchanged; except those that are unusable or have another schema."""
        if not every and time.monotonic() < self._recent[0]:
            return self._recent[1]
        found, timeout = list[Database](), self._busy_timeout_ms
        for place in find_siblings(self.folder, every=every):
            with suppress(ScrimshawError, OSError):
                known, path = self._siblings.get(place), place / JOURNAL
                database = known or Database(path, _SCHEMA, durable=True, busy_timeout_ms=timeout, through=0)
                if known or database.value("SELECT max(number) FROM migrations") == find_newest_migration(_SCHEMA):
                    found.append(self._siblings.setdefault(place, database))
        if not every:
            self._recent = (time.monotonic() + _RECENT_S, found)
        return found

    @property
    def place(self) -> Path:
        """The folder of the journal and checkpoints."""
        return self.journal_database.path.parent

    def demand_sound(self) -> None:
        """Open all, and check each page of a journal that is not too large; closes all if it raises."""
        try:
            _, journal = self.index_database, self.journal_database
            is_checked = journal.size_bytes() <= CHECKED_AT_OPEN_BYTES
            if is_checked and (fault := str(journal.value("PRAGMA quick_check(1)"))) != "ok":
                what = " ".join(fault.split())
                raise DamagedDatabase(f"{journal.path} is damaged: {what}.", _HINT, path=str(journal.path))
        except ScrimshawError:
            self.close()
            raise

    def demand_in_place(self) -> None:
        """Raise StorageFailure if a database file was moved or deleted."""
        for database in (self.journal_database, self.index_database):
            with database.lend():
                pass

    def close(self) -> None:
        """Release files and connections."""
        own = map(self.__dict__.get, ("index_database", "journal_database", "vectors"))
        for database in (*filter(None, own), *self._siblings.values()):
            database.close()


def open_journal(folder: Path, *, busy_timeout_ms: int, replace_lost: bool = False) -> Database:
    """Open or create a journal at its place; raises DamagedDatabase if one was lost, unless `replace_lost`."""
    path = find_place(folder) / JOURNAL
    try:
        database, is_new = _open_journal_at(path, folder, busy_timeout_ms, replace_lost)
        if not is_new or find_place(folder) == path.parent:  # one with rows is not moved while it is open
            return database
        database.close()
    except StorageFailure as error:
        if find_place(folder) == path.parent:
            if isinstance(error, DamagedDatabase) or path.exists() or path.parent == folder:
                raise
            return _open_journal_at(folder / JOURNAL, folder, busy_timeout_ms, replace_lost)[0]  # `.git` is closed
    return open_journal(folder, busy_timeout_ms=busy_timeout_ms, replace_lost=replace_lost)  # moved meanwhile


def _open_journal_at(path: Path, folder: Path, busy_timeout_ms: int, replace_lost: bool) -> tuple[Database, bool]:
    """The journal at a path, and whether it is still empty."""
    if not (replace_lost or _has_bytes(path)) and _had_journal(folder, path.parent) and not _has_bytes(path):
        from scrimshaw.storage.place import find_former  # noqa: PLC0415 - few projects move

        former = list[Path]()
        with suppress(OSError, ValueError):
            former = find_former(path.parent, folder) if path.parent != folder else []
            if len(former) == 1:
                former.pop().rename(path.parent)
        if not _has_bytes(path):
            raise _loss_error(path, "is empty" if path.exists() else "is missing", former)
    if path.parent != folder:
        with storage_errors("make", path.parent):
            claim_place(path.parent, folder)
    database, is_used = Database(path, _SCHEMA, durable=True, busy_timeout_ms=busy_timeout_ms), _IS_USED.format("main")
    try:  # checked again after the proof: a process that creates the journal leaves the proof after its first rows
        is_new = not database.value(is_used)
        if is_new and not replace_lost and _had_journal(folder, path.parent) and not database.value(is_used):
            raise _loss_error(path, "has no rows")
    except StorageFailure:
        database.close()
        raise
    return database, is_new


def move_journal(folder: Path) -> None:
    """Move a journal, then its checkpoints, out of a Scrimshaw folder, unless git tracks one or cannot be asked.

    A journal moves by one rename, if nobody else has it open. A link, or one on another disk, stays.
    """
    place, here = place_below_git(folder), [name for name in (JOURNAL, CHECKPOINTS) if os.path.lexists(folder / name)]
    names = [name for name in here if place and not os.path.lexists(place / name)]
    if place is None or not names or any((folder / name).is_symlink() for name in names):
        return
    import logging  # noqa: PLC0415 - hooks move nothing

    from scrimshaw.storage.git import ask_git  # noqa: PLC0415 - see above

    with suppress(apsw.Error, OSError, StorageFailure):
        if ask_git(folder, "ls-files", "--", *(f":(icase){name}" for name in names)):  # it came with a clone
            return
        claim_place(place, folder)
        with _lock_out(folder / JOURNAL) if JOURNAL in names else nullcontext():
            for name in names:
                (folder / name).replace(place / name)
            sync_folder(place)
            sync_folder(folder)
        logging.getLogger(__name__).warning("Journal and checkpoints of %s are now in %s.", folder, place)


@contextmanager
def _lock_out(path: Path) -> Iterator[None]:
    """Lock all others out of a database and merge its log; raises apsw.Error while another has it open."""
    with closing(open_file(path, writable=True)) as connection:
        connection.pragma("locking_mode", "exclusive")
        if connection.pragma("journal_mode", "delete") != "delete":
            raise apsw.BusyError
        connection.execute("BEGIN EXCLUSIVE")
        if os.name == "nt":  # an open file cannot be moved there
            connection.close()
        yield


def is_damaged(folder: Path, *, busy_timeout_ms: int) -> bool:
    """Whether a journal is lost, unreadable or has a broken chain; raises NewerDatabase for a later one."""
    from scrimshaw.storage.journal import Journal  # noqa: PLC0415 - hooks have no use for it

    try:
        with closing(open_journal(folder, busy_timeout_ms=busy_timeout_ms)) as database:
            return bool(Journal(database, partial(read_ledger_end, folder)).verify()[1] or database.check())
    except DamagedDatabase:
        return True


def note_ledger_end(folder: Path, *, is_restored: bool = False) -> None:
    """Note in the index of a folder how long its ledger is, or was before a loss, if both are usable."""
    journal = find_place(folder) / JOURNAL
    with suppress(apsw.Error), closing(open_file(folder / INDEX, writable=True)) as index:
        if not _has_bytes(journal):
            return
        index.execute("ATTACH ? AS journal", (f"{journal.absolute().as_uri()}?mode=rw",))
        newest, noted = index.execute(_NEWEST).get, index.execute(_NOTED).get
        is_later = is_restored or not isinstance(noted, int) or noted < newest
        if is_later and index.execute(_IS_USED.format("journal")).get:
            index.execute(_NOTE, (newest,))


def read_ledger_end(folder: Path) -> int | None:
    """The newest number of the ledger that the index noted, 0 for sessions alone; None without a note."""
    with suppress(apsw.Error, TypeError, ValueError), closing(open_file(folder / INDEX, writable=True)) as index:
        return int(index.execute(_NOTED).get)
    return None


def read_foreign_rows(path: Path, sql: str, *arguments: str, hint: str) -> list[tuple[Any, ...]]:
    """The rows of a query on another program's SQLite database; raises UnreadableFile with `hint`."""
    try:
        with closing(open_file(path, busy_timeout_ms=3000)) as connection:
            return connection.execute(sql, arguments).fetchall()
    except apsw.Error as error:
        raise UnreadableFile(f"{path} cannot be read: {error}.", hint) from error


def read_foreign_tables(path: Path, names: Iterable[str], *, hint: str) -> dict[str, list[dict[str, Any]]]:
    """All rows of tables in another program's database, none of one it lacks; raises UnreadableFile if it lacks all."""
    ask = partial(read_foreign_rows, path, hint=hint)
    columns = {name: [str(row[0]) for row in ask("SELECT name FROM pragma_table_info(?)", name)] for name in names}
    if not any(columns.values()):
        raise UnreadableFile(f"{path} has no table {', '.join(columns)}.", hint)
    rows = {name: ask(f'SELECT * FROM "{name}" ORDER BY rowid') if known else [] for name, known in columns.items()}
    return {name: [dict(zip(columns[name], row, strict=True)) for row in found] for name, found in rows.items()}


def _has_bytes(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _had_journal(folder: Path, place: Path) -> bool:
    """Whether the index or a checkpoint proves that a journal was used; an unreadable checkpoint proves nothing."""
    if read_ledger_end(folder) is not None:
        return True
    for checkpoint in place.glob(_ARCHIVES):
        from scrimshaw.storage.archive import open_archive  # noqa: PLC0415 - of no use to the hook that begins a journal

        with suppress(ScrimshawError), open_archive(checkpoint, find_newest_migration(_SCHEMA)) as archive:
            if any(archive.manifest.rows.values()):
                return True
    return False


def _loss_error(path: Path, what: str, former: Sequence[Path] = ()) -> DamagedDatabase:
    message, hint = f"{path} {what}, but this project had a journal: its index or a checkpoint remembers it.", _HINT
    if (place := path.parent).name != PROJECT_FOLDER:
        names = f" ({' or '.join(each.name for each in former)})" if former else ""
        rename = f"rename its folder{names} in {place.parent} to {place.name}"
        hint = f"If the project has another path in git now, {rename}. Otherwise run `scrimshaw restore --newest`."
    return DamagedDatabase(message, hint, path=str(path))
