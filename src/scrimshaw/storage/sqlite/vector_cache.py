"""A cache of vectors for all work trees and branches of a repository.

All of it is derived: unreadable vectors are recomputed.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from scrimshaw.storage.sql import marks
from scrimshaw.storage.sqlite.database import Database

FILE = "vectors.db"
MOST = 20_000  # some 9 KB each with token vectors, so the file stays below 200 MB; the oldest go first
_PUT = "INSERT OR REPLACE INTO vectors (model, key, vector, packed) VALUES (?, ?, ?, ?)"

Vectors = tuple[str, bytes, bytes | None]  # key, vector as little-endian float16, packed token vectors if computed


class VectorCache:
    """The vectors in one file; raises StorageFailure if it cannot be used."""

    def __init__(self, path: Path, busy_timeout_ms: int) -> None:
        self._database = Database(path, "vectors", durable=False, busy_timeout_ms=busy_timeout_ms)

    def find(self, model: str, keys: Sequence[str], *, packed: bool) -> list[Vectors]:
        """The known vectors of these texts, with `packed` only those that have token vectors."""
        sql = f"SELECT key, vector, packed FROM vectors WHERE model = ? AND key IN ({marks(keys)})"
        return self._database.rows(f"{sql} AND (packed IS NOT NULL OR NOT ?)", [model, *keys, packed])

    def put(self, model: str, rows: Iterable[Vectors]) -> None:
        with self._database.write() as write:
            write.executemany(_PUT, ((model, *row) for row in rows))
            write.execute("DELETE FROM vectors WHERE seq <= (SELECT max(seq) FROM vectors) - ?", (MOST,))

    def clear(self) -> None:
        """Delete all, also in free pages."""
        with self._database.write() as write:
            write.execute("DELETE FROM vectors")
        with self._database.lend() as connection:
            connection.execute("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        self._database.close()
