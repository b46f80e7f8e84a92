"""The ports of a vault on a PostgreSQL server, as `databases.py` has them for SQLite's files."""

import os
import re
import secrets
from functools import cached_property
from pathlib import Path

from scrimshaw.config import StorageSettings
from scrimshaw.errors import StorageFailure
from scrimshaw.storage.databases import Storage
from scrimshaw.storage.durable import PRIVATE_FOLDER, make_folders, replace_file, storage_errors
from scrimshaw.storage.index import Index
from scrimshaw.storage.journal import Journal
from scrimshaw.storage.maintenance import Maintenance
from scrimshaw.storage.place import find_place
from scrimshaw.storage.ports import DatabaseName
from scrimshaw.storage.postgres.database import PostgresDatabase
from scrimshaw.storage.postgres.index import PostgresIndex
from scrimshaw.storage.postgres.maintenance import PostgresMaintenance
from scrimshaw.storage.sessions import Sessions

CHECKOUT = "checkout"  # the file with a checkout's id: a path may be the same on several machines
_LABEL_CHARACTERS = 20
_PLACE = "SELECT folder, checkout FROM place"
# A checkout that was moved has the same id, and the vault of an earlier version none.
_CLAIM = """
INSERT INTO place (folder, checkout) VALUES (?, ?)
ON CONFLICT (only_one) DO UPDATE SET folder = excluded.folder, checkout = excluded.checkout
WHERE place.checkout = excluded.checkout OR (place.checkout = '' AND place.folder = excluded.folder)"""


class PostgresStorage(Storage):
    """The databases of a vault, each opened on first use; it belongs to one checkout, whose files its index follows."""

    def __init__(self, folder: Path, url: str, vault: str, *, busy_timeout_ms: int) -> None:
        super().__init__(folder, busy_timeout_ms=busy_timeout_ms)
        self._vault, self.has_index = (url, vault), True

    @cached_property
    def index_database(self) -> PostgresDatabase:  # type: ignore[override]  # what uses it is overridden too
        return PostgresDatabase(*self._vault, "index", durable=False, busy_timeout_ms=self._busy_timeout_ms)

    @cached_property
    def journal_database(self) -> PostgresDatabase:  # type: ignore[override]  # see above
        return PostgresDatabase(*self._vault, "journal", durable=True, busy_timeout_ms=self._busy_timeout_ms)

    def name(self, database: DatabaseName) -> str:
        """The server and the schema of a database, for messages."""
        schema = self.index_database if database == "index" else self.journal_database
        return f"{schema.path.parent}/{schema.vault}"

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
        return find_place(self.folder)

    def demand_sound(self) -> None:
        """Open both; the server looks after its pages itself."""
        _ = self.index_database, self.journal_database

    def demand_in_place(self) -> None:
        """Raise StorageFailure if the server cannot be reached."""
        self.journal_database.value("SELECT 1")


def open_vault(folder: Path, settings: StorageSettings, *, busy_timeout_ms: int) -> PostgresStorage:
    """The vault of a checkout, named by the settings or after it; raises StorageFailure for another checkout's."""
    here, path = str(folder.resolve()), find_place(folder) / CHECKOUT
    with storage_errors("read", path):
        if not path.exists():  # a clone makes its own
            make_folders(path.parent, PRIVATE_FOLDER)
            replace_file(path, secrets.token_hex(4).encode(), private=True)
        own = path.read_text("ascii")
    label = re.sub("[^a-z0-9]+", "_", Path(here).parent.name.lower()).strip("_0123456789")[:_LABEL_CHARACTERS]
    vault = settings.vault or f"{label or 'memory'}_{own}"
    storage = PostgresStorage(folder, settings.url, vault, busy_timeout_ms=busy_timeout_ms)
    there = storage.journal_database.value(_PLACE)
    if there != (here, own) and not (there and there[0] != here and os.path.lexists(there[0])):
        with storage.journal_database.write() as write:
            write.execute(_CLAIM, (here, own))
        there = storage.journal_database.value(_PLACE)
    if there != (here, own):
        storage.close()
        message = f"The vault {storage.name('journal')} belongs to another checkout, in {there[0]}."
        hint = "Give this one a vault of its own: another name in [storage] vault, or none. Or DELETE FROM place there."
        raise StorageFailure(message, hint, path=here)
    return storage
