"""After the journal was lost or damaged: it is moved away, never deleted, and what is gone with it is counted.

The files are the memory and stay as they are; the checkpoint gives back what only the journal holds.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.config import Settings
from scrimshaw.engine import checkpoints
from scrimshaw.engine.core import LOCK_FILE, LOCK_TIMEOUT_S, Engine
from scrimshaw.errors import StorageFailure, UnusableArchive
from scrimshaw.storage.archive import Archive, open_archive
from scrimshaw.storage.durable import storage_errors
from scrimshaw.storage.files import lock
from scrimshaw.storage.journal_file import JOURNAL, is_damaged, open_journal
from scrimshaw.storage.sqlite_ledger import LEDGER, first_break
from scrimshaw.storage.sqlite_salvage import rows_beyond

_COMPANIONS = ("", "-wal", "-shm")


class Recovery(Struct, frozen=True, kw_only=True):
    """What was lost with a journal. `aside` is where the damaged one is now, "" where nothing was left of it.

    `age_s` is how many seconds old the checkpoint is that was brought back, None where there was none. `lost` counts by
    table the rows that were new or changed since, as far as anybody can tell; of `unread` tables there may be more.
    `absent` are files of the checkpoint that are not here now: they were deleted since and were not brought back.
    """

    aside: str
    age_s: float | None = None
    lost: Mapping[str, int] = {}
    unread: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()


def is_lost(settings: Settings) -> bool:
    """Whether the journal is gone or not what was written; raises NewerDatabase for a sound one of a later version."""
    return is_damaged(settings.folder / JOURNAL, busy_timeout_ms=settings.index.busy_timeout_ms)


def set_aside(settings: Settings, clock: Callable[[], float] = time.time) -> Path | None:
    """Move a lost or damaged journal out of the way, so that a new one is begun; None if it is sound.

    The path is where the journal is now, if anything was left of it. Raises NewerDatabase for a sound journal of a
    later version, VaultBusy, StorageFailure.
    """
    path = settings.folder / JOURNAL
    with lock(settings.folder / LOCK_FILE, LOCK_TIMEOUT_S), storage_errors("move", path):
        # Behind the lock: another process may have brought it back meanwhile.
        if not is_lost(settings):
            return None
        aside = _free(path.with_name(f"{path.name}.damaged-{datetime.fromtimestamp(clock(), UTC):%Y%m%dT%H%M%SZ}"))
        for suffix in _COMPANIONS:
            companion = path.with_name(path.name + suffix)
            if companion.exists():
                companion.rename(aside.with_name(aside.name + suffix))
    return aside


def demand_chained(path: Path, schema: int) -> None:
    """Read a checkpoint's rows to their end.

    Raises UnusableArchive for one that was made of a ledger whose chain breaks, and, with `errno`, for one that the
    system refuses to read: an older one may be on a sound part of the disk.
    """
    try:
        with open_archive(path, schema) as archive:
            rows = archive.rows()
            broken = first_break(_ledger_row(row) for table, row in rows if table == "ledger")[2]
            deque(rows, maxlen=0)  # to its end, so that it is closed
    except StorageFailure as error:
        raise UnusableArchive(error.message, "Use another one.", **error.details) from error
    if broken:
        raise UnusableArchive(
            f"{path.name} was made of a ledger that had been changed at entry {broken}.",
            "An older one may be sound.",
            path=str(path),
        )


def _ledger_row(row: Mapping[str, Any]) -> list[Any]:
    """A row as it is chained; a damaged one too, since a table's checksum is known at its end only."""
    values = [row.get(name) for name in LEDGER.split(", ")]
    return values if isinstance(values[0], int) else [0, *values[1:]]


def counted(engine: Engine, aside: Path, seen: int, checkpoint: Path | None) -> Recovery:
    """What was lost, told after a checkpoint came back or, without one, after the journal was begun anew.

    `seen` is the newest entry of the ledger that the index knew of.
    """
    lost, unread = _lost(engine, aside)
    told = Recovery(aside=str(aside) if aside.exists() else "", lost=lost, unread=tuple(unread))
    if checkpoint is None:
        return _with_ledger(told, seen)
    with open_archive(checkpoint, engine.journal.schema()) as archive:
        age_s = max(0.0, engine.clock() - archive.manifest.created)
        told = replace(told, age_s=age_s, absent=_absent(engine, archive))
        return _with_ledger(told, seen - archive.manifest.rows.get("ledger", 0))


def _free(path: Path) -> Path:
    """The path, or one with a number behind it where something stands already."""
    free, number = path, 1
    while any(free.with_name(free.name + suffix).exists() for suffix in _COMPANIONS):
        number += 1
        free = path.with_name(f"{path.name}.{number}")
    return free


def _lost(engine: Engine, aside: Path) -> tuple[dict[str, int], list[str]]:
    journal = open_journal(engine.folder / JOURNAL, busy_timeout_ms=engine.settings.index.busy_timeout_ms)
    try:
        return rows_beyond(aside, journal)
    finally:
        journal.close()


def _with_ledger(recovery: Recovery, at_least: int) -> Recovery:
    """The index counts entries of the ledger that nobody can read any more."""
    count = max(recovery.lost.get("ledger", 0), at_least)
    return replace(recovery, lost={**recovery.lost, "ledger": count}) if count else recovery


def _absent(engine: Engine, archive: Archive) -> tuple[str, ...]:
    here = {name for name, _ in checkpoints.present(engine, include_global=True)}
    return tuple(sorted(archive.manifest.files.keys() - here))
