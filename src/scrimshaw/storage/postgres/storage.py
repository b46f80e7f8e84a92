"""The ports of a vault on a PostgreSQL server, as `databases.py` has them for SQLite's files."""

from functools import cached_property
from pathlib import Path

from scrimshaw.config import StorageSettings
from scrimshaw.errors import StorageFailure
from scrimshaw.storage.databases import Storage
from scrimshaw.storage.index import Index
from scrimshaw.storage.journal import Journal
from scrimshaw.storage.maintenance import Maintenance
from scrimshaw.storage.postgres.database import PostgresDatabase, Server
from scrimshaw.storage.postgres.index import PostgresIndex
from scrimshaw.storage.postgres.maintenance import PostgresMaintenance
from scrimshaw.storage.sessions import Sessions


class PostgresStorage(Storage):
    """The databases of a vault, each opened on first use; it belongs to one checkout, whose files its index follows."""

    def __init__(self, folder: Path, server: Server, *, busy_timeout_ms: int) -> None:
        super().__init__(folder, busy_timeout_ms=busy_timeout_ms)
        self._server, self.has_index = server, True

    @cached_property
    def index_database(self) -> PostgresDatabase:  # type: ignore[override]  # what uses it is overridden too
        return PostgresDatabase(self._server, "index", durable=False, busy_timeout_ms=self._busy_timeout_ms)

    @cached_property
    def journal_database(self) -> PostgresDatabase:  # type: ignore[override]  # see above
        return PostgresDatabase(self._server, "journal", durable=True, busy_timeout_ms=self._busy_timeout_ms)

    @property
    def journal_name(self) -> str:
        """The server and the journal's schema, for messages."""
        return f"{self.journal_database.path.parent}/{self.journal_database.vault}"

    @cached_property
    def index(self) -> Index:
        return PostgresIndex(self.index_database)

    @cached_property
    def sessions(self) -> Sessions:
        return Sessions(self.journal_database)

    @cached_property
    def journal(self) -> Journal:
        return Journal(self.journal_database)

    @cached_property
    def maintenance(self) -> Maintenance:
        return PostgresMaintenance(self.index_database, self.journal_database)

    @property
    def place(self) -> Path:
        return self.folder

    def demand_sound(self, most_bytes: int = 0) -> None:
        """Open both; the server looks after its pages itself."""
        _ = self.index_database, self.journal_database

    def demand_in_place(self) -> None:
        """Raise StorageFailure if the server cannot be reached."""
        self.journal_database.value("SELECT 1")


def open_vault(folder: Path, settings: StorageSettings, *, busy_timeout_ms: int) -> PostgresStorage:
    """The vault that the settings name; raises StorageFailure for another checkout's, whose index has other files."""
    storage = PostgresStorage(folder, Server(settings.url, settings.vault), busy_timeout_ms=busy_timeout_ms)
    journal, here = storage.journal_database, str(folder.resolve())
    if (known := journal.value("SELECT folder FROM place")) is None:
        with journal.write() as write:
            write.execute("INSERT INTO place VALUES (?) ON CONFLICT DO NOTHING", (here,))
        known = journal.value("SELECT folder FROM place")
    if known != here:
        storage.close()
        hint = "Give this checkout a vault of its own; where it moved, DELETE FROM place in that schema."
        raise StorageFailure(f"The vault {storage.journal_name} belongs to {known}, not to {here}.", hint, path=here)
    return storage
