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
from scrimshaw.storage.ports import DumpedRow
from scrimshaw.storage.transaction import lock

EngineName = Literal["sqlite", "postgres"]
_HASH_BITS = 2**128 - 1


class Table(Struct, frozen=True, kw_only=True):
    """How many rows a table has, and a hash of all of them that does not depend on their order."""

    rows: int
    digest: str


def migrate(settings: Settings, source: EngineName, target: EngineName) -> dict[str, Table]:
    """Copy the journal of a project from one engine to another; returns each table's sum, the same on both sides.

    Either everything is copied or nothing, so an interrupted copy can be repeated; existing rows are compared. Nothing
    is changed at the source. Raises AlreadyExists if the target has other rows, StorageFailure if the copies differ.
    """
    engines = [replace(settings.storage, engine=engine) for engine in (source, target)]
    for_source, for_target = (replace(settings, storage=each) for each in engines)
    with (
        closing(open_storage(for_source)) as old,
        closing(open_storage(for_target, replace_lost_journal=True)) as new,
        lock(settings.folder / LOCK_FILE, LOCK_TIMEOUT_S),
    ):
        if (there := summarise(new)).keys() & {"ledger", "sessions"}:
            if there == summarise(old):
                return there
            message = f"{new.name('journal')} holds another journal."
            raise AlreadyExists(message, "Move it away, or name an empty vault, and run this again.")
        before = dict[str, Table]()  # a snapshot, whatever a session writes meanwhile
        with TemporaryDirectory(prefix="scrimshaw-") as folder:
            rows = sum_up(old.maintenance.dump_rows(), before)
            with new.maintenance.stage_rows(Path(folder, "rows.db"), old.maintenance.schema, rows) as commit:
                commit((), True)
        after = summarise(new)
    if after != before:
        differing = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        hint = "The source was not changed: keep using it, and report this."
        raise StorageFailure(f"The copy differs from {old.name('journal')} in {differing}.", hint)
    return after


def sum_up(rows: Iterable[DumpedRow], tables: dict[str, Table]) -> Iterator[DumpedRow]:
    """Yield the rows, and then put the sum of each table into `tables`."""
    counts, sums = Counter[str](), Counter[str]()
    for table, row in rows:
        text = json.dumps(row, sort_keys=True, default=bytes.hex)
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        counts[table] += 1
        sums[table] = (sums[table] + int.from_bytes(digest)) & _HASH_BITS
        yield table, row
    tables.update({name: Table(rows=count, digest=f"{sums[name]:032x}") for name, count in sorted(counts.items())})


def summarise(storage: Storage) -> dict[str, Table]:
    """The sums of each table of a journal."""
    tables = dict[str, Table]()
    deque(sum_up(storage.maintenance.dump_rows(), tables), maxlen=0)
    return tables
