"""Copy the journal from one engine to another in one transaction, then compare it row by row."""

import hashlib
import json
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.config import Settings
from scrimshaw.engine.core import LOCK_FILE, LOCK_TIMEOUT_S
from scrimshaw.errors import AlreadyExists, StorageFailure
from scrimshaw.storage.databases import Storage
from scrimshaw.storage.engines import open_storage
from scrimshaw.storage.ports import Row
from scrimshaw.storage.transaction import lock

EngineName = Literal["sqlite", "postgres"]
_HASH_BITS = 2**128 - 1


class Table(Struct, frozen=True, kw_only=True):
    """How many rows a table has, and a hash of all of them that does not depend on their order."""

    rows: int
    digest: str


class Summary:
    """Counts and hashes of rows as they pass: how many each table has, and a hash of them."""

    def __init__(self) -> None:
        self._rows, self._sums = Counter[str](), Counter[str]()

    def sum_up(self, rows: Iterable[tuple[str, Row]]) -> Iterator[tuple[str, Row]]:
        """Yield the rows and sum them up."""
        for table, row in rows:
            text = json.dumps(row, sort_keys=True, default=bytes.hex)
            digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
            self._rows[table] += 1
            self._sums[table] = (self._sums[table] + int.from_bytes(digest)) & _HASH_BITS
            yield table, row

    def tables(self) -> dict[str, Table]:
        """The sums of each table that had rows."""
        return {name: Table(rows=many, digest=f"{self._sums[name]:032x}") for name, many in sorted(self._rows.items())}


def migrate(settings: Settings, source: EngineName, target: EngineName) -> dict[str, Table]:
    """Copy the journal of a project from one engine to another; returns each table's sum, the same on both sides.

    Either everything is copied or nothing, so an interrupted copy can be repeated; existing rows are compared. Nothing
    is changed at the source. Raises AlreadyExists if the target has other rows, StorageFailure if the copies differ.
    """
    storages = [open_storage(replace(settings, storage=replace(settings.storage, engine=x))) for x in (source, target)]
    with closing(storages[0]) as old, closing(storages[1]) as new, lock(settings.folder / LOCK_FILE, LOCK_TIMEOUT_S):
        there = summarise(new)
        if there.keys() & {"ledger", "sessions"}:
            if there == summarise(old):
                return there
            message = f"{new.journal_name} holds another journal."
            raise AlreadyExists(message, "Move it away, or name an empty vault, and run this again.")
        copied = Summary()  # a snapshot, whatever a session writes meanwhile
        with TemporaryDirectory(prefix="scrimshaw-") as folder:
            rows = copied.sum_up(old.maintenance.dump_rows())
            with new.maintenance.stage_rows(Path(folder, "rows.db"), old.maintenance.schema, rows) as commit:
                commit((), True)
        before, after = copied.tables(), summarise(new)
    if after != before:
        differing = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        hint = "The source was not changed: keep using it, and report this."
        raise StorageFailure(f"The copy differs from {old.journal_name} in {differing}.", hint)
    return after


def summarise(storage: Storage) -> dict[str, Table]:
    """The sums of each table of a journal."""
    summary = Summary()
    deque(summary.sum_up(storage.maintenance.dump_rows()), maxlen=0)
    return summary.tables()
