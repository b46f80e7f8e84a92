"""Vectors that were made once, for every work tree of a repository and whatever branch it is on.

Each index holds the vectors of the texts that are there now. A text that another branch or another work tree has would
be embedded again; here its vectors are found by its hash. All of it is derived: what cannot be read is made again.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from scrimshaw.storage.sql import marks
from scrimshaw.storage.sqlite.database import Database

FILE = "vectors.db"
# Some 9 KB each with their token vectors, so that the file stays below 200 MB; those made first go first.
MOST = 20_000
_PUT = "INSERT OR REPLACE INTO vectors (model, key, vector, packed) VALUES (?, ?, ?, ?)"

# Key, vector as little-endian float16, packed token vectors if they were made.
Vectors = tuple[str, bytes, bytes | None]


class VectorCache:
    """The vectors in one file; raises StorageFailure where it cannot be used."""

    def __init__(self, path: Path, busy_timeout_ms: int) -> None:
        self._database = Database(path, "vectors", durable=False, busy_timeout_ms=busy_timeout_ms)

    def find(self, model: str, keys: Sequence[str], *, packed: bool) -> list[Vectors]:
        """Those of these texts that are known, with `packed` only those that have token vectors."""
        sql = f"SELECT key, vector, packed FROM vectors WHERE model = ? AND key IN ({marks(keys)})"
        return self._database.rows(f"{sql} AND (packed IS NOT NULL OR NOT ?)", [model, *keys, packed])

    def put(self, model: str, rows: Iterable[Vectors]) -> None:
        """Keep vectors."""
        with self._database.write() as write:
            write.executemany(_PUT, ((model, *row) for row in rows))
            write.execute("DELETE FROM vectors WHERE seq <= (SELECT max(seq) FROM vectors) - ?", (MOST,))

    def clear(self) -> None:
        """Forget all, also in free pages."""
        with self._database.write() as write:
            write.execute("DELETE FROM vectors")
        with self._database.lend() as connection:
            connection.execute("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Release the file."""
        self._database.close()
