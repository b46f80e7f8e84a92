"""The journal as a file: a lost one differs from a new one by what stands beside it. Light to import: hooks use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import apsw

from scrimshaw.errors import DamagedDatabase, NewerDatabase, NotFound, StorageFailure, UnusableArchive
from scrimshaw.storage.sqlite.database import Database, newest_migration

SCHEMA = "journal"
JOURNAL, INDEX, CHECKPOINTS = "journal.db", "index.db", "checkpoints/*.scrim"
# A larger journal is read whole only by `doctor`, `restore --newest` and the checkpoint of the day, for a quick check
# takes 0.8 ms for a megabyte. Hooks have 60 ms in all and never check.
CHECKED_AT_OPEN_BYTES = 32 * 1024 * 1024

# The number that the ledger last gave stays behind when its rows are taken out.
_IS_USED = (
    "SELECT EXISTS (SELECT 1 FROM {0}.sqlite_sequence WHERE name = 'ledger') OR EXISTS (SELECT 1 FROM {0}.sessions)"
)
_NEWEST = "SELECT coalesce(max(seq), 0) FROM journal.ledger"
_NOTED = "SELECT value FROM meta WHERE key = 'journal'"
_NOTE = "INSERT INTO meta VALUES ('journal', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_NO_JSON = (
    "SELECT EXISTS (SELECT 1 FROM jobs WHERE NOT json_valid(payload))"
    " OR EXISTS (SELECT 1 FROM learnings WHERE NOT json_valid(gaps))"
)
# Milliseconds; a note that could not be written is written after the next scan.
_PATIENCE_MS = 100
_HINT = "Run `scrimshaw restore --newest`."


def open_journal(path: Path, *, busy_timeout_ms: int, replace_lost: bool = False) -> Database:
    """Open the journal, or begin that of a new project; with `replace_lost` also one in the place of a lost one.

    Raises DamagedDatabase where it is missing or empty while the index or a checkpoint proves that there was one,
    NewerDatabase, StorageFailure.
    """
    if not (replace_lost or _has_bytes(path)) and _had_journal(path.parent) and not _has_bytes(path):
        raise _loss_error(path, "is empty" if path.exists() else "is missing")
    database, is_used = Database(path, SCHEMA, durable=True, busy_timeout_ms=busy_timeout_ms), _IS_USED.format("main")
    try:
        # Asked again after the proof, which a process that begins the journal leaves after its first rows.
        if not (replace_lost or database.value(is_used)) and _had_journal(path.parent) and not database.value(is_used):
            raise _loss_error(path, "has no rows")
    except StorageFailure:
        database.close()
        raise
    return database


def check_pages(journal: Database, most_bytes: int = CHECKED_AT_OPEN_BYTES) -> None:
    """Look at every page of a journal that is not too large for it; raises DamagedDatabase."""
    if journal.size_bytes() > most_bytes:
        return
    fault = str(journal.value("PRAGMA quick_check(1)"))
    if fault != "ok":
        what = " ".join(fault.split())
        raise DamagedDatabase(f"{journal.path} is damaged: {what}.", _HINT, path=str(journal.path))


def is_damaged(path: Path, *, busy_timeout_ms: int) -> bool:
    """Whether a journal is not what was written: lost, with rows nobody can read, or a ledger whose chain breaks.

    Raises NewerDatabase for a sound one of a later version, StorageFailure.
    """
    from scrimshaw.storage.sqlite.journal import verify_chain  # noqa: PLC0415 - hooks have no use for it
    from scrimshaw.storage.sqlite.rows import dump  # noqa: PLC0415 - hooks have no use for it

    try:
        journal = open_journal(path, busy_timeout_ms=busy_timeout_ms)
    except DamagedDatabase:
        return True
    except NewerDatabase:
        # Damage can change the number of the schema too.
        with suppress(apsw.Error), _open_file(path) as connection:
            if connection.execute("PRAGMA integrity_check(1)").get == "ok":
                raise
        return True
    try:
        with journal.lend() as connection:
            chain_breaks = bool(verify_chain(connection)[1])
        for table, row in dump(journal):  # raises where a text is no UTF-8
            if table == "contents":
                str(row["content"], "utf-8")
        return chain_breaks or bool(journal.check()) or bool(journal.value(_NO_JSON))
    except (DamagedDatabase, UnicodeDecodeError, TypeError):
        return True
    finally:
        journal.close()


def note_ledger_end(folder: Path) -> None:
    """Note in the index how far the ledger beside it goes; without effect while either cannot be used."""
    journal = folder / JOURNAL
    with suppress(apsw.Error), _open_file(folder / INDEX) as index:
        if not _has_bytes(journal):
            return
        index.execute("ATTACH ? AS journal", (f"{journal.absolute().as_uri()}?mode=rw",))
        newest = index.execute(_NEWEST).get
        if index.execute(_IS_USED.format("journal")).get and index.execute(_NOTED).get != newest:
            index.execute(_NOTE, (newest,))


def read_ledger_end(folder: Path) -> int | None:
    """The newest number of the ledger that the index noted, 0 for sessions alone; None without a note."""
    with suppress(apsw.Error, TypeError, ValueError), _open_file(folder / INDEX) as index:
        noted = index.execute(_NOTED).get
        return None if noted is None else int(noted)
    return None


def _has_bytes(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _had_journal(folder: Path) -> bool:
    """Whether the index or a checkpoint proves that a journal was used; a checkpoint nobody can read proves nothing."""
    if read_ledger_end(folder) is not None:
        return True
    for checkpoint in folder.glob(CHECKPOINTS):
        from scrimshaw.storage.archive import open_archive  # noqa: PLC0415 - of no use to the hook that begins a journal

        with (
            suppress(NotFound, UnusableArchive, StorageFailure),
            open_archive(checkpoint, newest_migration(SCHEMA)) as archive,
        ):
            if any(archive.manifest.rows.values()):
                return True
    return False


@contextmanager
def _open_file(path: Path) -> Iterator[apsw.Connection]:
    """A database file as it is, without migrations; it is not made where there is none."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_URI)
    try:
        connection.set_busy_timeout(_PATIENCE_MS)
        yield connection
    finally:
        connection.close()


def _loss_error(path: Path, what: str) -> DamagedDatabase:
    message = f"{path} {what}, but this project had a journal: its index or a checkpoint remembers it."
    return DamagedDatabase(message, _HINT, path=str(path))
