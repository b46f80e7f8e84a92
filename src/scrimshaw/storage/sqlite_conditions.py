"""What could be done when, in SQLite: one row per change, in the journal's file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from scrimshaw.errors import DamagedDatabase
from scrimshaw.storage.ports import Change
from scrimshaw.storage.sqlite import Database

_LAST = "SELECT name, status, at FROM capabilities ORDER BY seq"
# So that a part that comes and goes does not fill the disk; own choice.
_KEPT = 100
_TRIM = """
DELETE FROM capabilities WHERE name = ?1 AND seq <= (
    SELECT seq FROM capabilities WHERE name = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)"""


class SqliteConditions:
    """The Conditions port over the journal's database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def probe(self) -> None:
        """See Conditions."""
        with self._database.lend() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute("INSERT INTO capabilities (name, status, at) VALUES ('', 'probe', 0)")
                read = connection.execute("SELECT status FROM capabilities WHERE name = ''").get
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        if read != "probe":
            raise DamagedDatabase(
                f"{self._database.path} does not give back what was written.",
                "Run `scrimshaw restore --newest`.",
                path=str(self._database.path),
            )

    def record(self, seen: Mapping[str, str], *, now: float) -> None:
        """See Conditions."""
        if not _differing(self.changes(), seen):
            return
        with self._database.write() as write:
            # Another process may have been first.
            rows = _differing(_folded(write.execute(_LAST)), seen)
            for name, status in rows.items():
                write.execute("INSERT INTO capabilities (name, status, at) VALUES (?, ?, ?)", (name, status, now))
                write.execute(_TRIM, (name, _KEPT))

    def changes(self) -> dict[str, Change]:
        """See Conditions."""
        return _folded(self._database.rows(_LAST))


def _folded(rows: Iterable[tuple[Any, ...]]) -> dict[str, Change]:
    found: dict[str, Change] = {}
    for name, status, at in rows:
        before = found[name].status if name in found else ""
        found[name] = Change(status=status, was=before, at=at)
    return found


def _differing(last: Mapping[str, Change], seen: Mapping[str, str]) -> dict[str, str]:
    return {name: status for name, status in seen.items() if name not in last or last[name].status != status}
