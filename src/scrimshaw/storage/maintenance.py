"""Maintenance shared by the SQL engines: statuses of parts, and which rows belong to a memory."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scrimshaw.models import Wipe
from scrimshaw.storage.ports import StatusChange
from scrimshaw.storage.sql import SqlDatabase

LEDGER = "ledger"
LASTING = (LEDGER, "contents")  # never cleared: undo and the chain need them
PURGED = "SELECT DISTINCT memory_id FROM ledger WHERE action = 'purge'"
# They only name a memory: the ledger, that it existed; a draft, so that it is not made again.
_NAMING = (LEDGER, "drafts")
# The last change of every part, and the status before it.
_LAST = """
SELECT name, status, was, at FROM (
    SELECT seq, name, status, coalesce(lag(status) OVER parts, '') AS was, at, lead(seq) OVER parts AS later
    FROM capabilities WINDOW parts AS (PARTITION BY name ORDER BY seq)) AS changes
WHERE later IS NULL ORDER BY seq"""
# So that a part which often changes does not fill the disk.
_MOST_CHANGES = 100
_TRIM = """
DELETE FROM capabilities WHERE name = ? AND seq <= (
    SELECT seq FROM capabilities WHERE name = ? ORDER BY seq DESC LIMIT 1 OFFSET ?)"""


class SqlMaintenance:
    """The part of the Maintenance port that engines share."""

    _journal: SqlDatabase

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
                    write.execute(_TRIM, (name, name, _MOST_CHANGES))
            return _last_changes(write.execute(_LAST))


def _last_changes(rows: Iterable[tuple[Any, ...]]) -> dict[str, StatusChange]:
    return {name: StatusChange(status=status, was=was, at=at) for name, status, was, at in rows}


def owners(table: str, wipe: Wipe) -> Mapping[str, Sequence[str]]:
    """The columns that name a row's memory, with the names to erase."""
    if table in _NAMING:
        return {}
    return {"key": wipe.memory_ids} if table == "jobs" else {"memory_id": wipe.memory_ids, "path": wipe.paths}
