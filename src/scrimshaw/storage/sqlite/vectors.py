"""Nearest neighbours by exact scan of the `vectors` table."""

from _thread import allocate_lock
from collections.abc import Callable, Collection, Sequence
from typing import Any

from scrimshaw.config import release_freed_memory
from scrimshaw.errors import DamagedDatabase
from scrimshaw.models import QUESTIONS
from scrimshaw.storage.sql import marks
from scrimshaw.storage.sqlite.database import Database

Nearest = list[tuple[int, float, int]]  # (memory row, cosine, ordinal of the best chunk), best first
# Finds the best `limit` of one model: of a vector, at a generation of the index, among all memories or those of which an
# array says so by their rows; memories where chunks are folded, else chunks.
VectorScan = Callable[[Any, int, int, Any, bool], Nearest]

_BLOCK = 4096
_NEW = f"SELECT seq, memory, ordinal, vector FROM vectors WHERE model = ? AND seq > ? ORDER BY seq LIMIT {_BLOCK}"
_OF_BODIES = "SELECT seq, memory, ordinal, vector FROM vectors WHERE model = ? AND ordinal < ? AND memory IN ({})"
_COUNT = "SELECT count(*) FROM vectors WHERE model = ? AND seq > ?"
_PRESENT = "SELECT seq FROM vectors WHERE model = ? AND seq <= ? ORDER BY seq"


class RamScan:
    """All vectors of a model in memory: a matrix, and the number, memory and ordinal of each row, ordered by number.

    It follows the table by appending new rows and dropping those that are gone: a save costs a few rows, not a reload.
    """

    def __init__(self, database: Database, model: str) -> None:
        import numpy as np  # noqa: PLC0415 - heavy, and only needed once vectors are searched

        self._np = np
        self._database = database
        self._model = model
        self._generation = -1
        self._guard = allocate_lock()
        self._rows = np.empty((0, 3), dtype=np.int64)
        self._matrix = np.empty((0, 0), dtype=np.float32)

    def __call__(self, vector: Any, generation: int, limit: int, allowed: Any, fold: bool) -> Nearest:
        np = self._np
        with self._guard:
            if generation != self._generation:
                self._follow(len(vector))
                self._generation = generation
            rows, matrix = self._rows, self._matrix
        if not len(rows):
            return []
        scores = matrix @ vector
        if allowed is not None:
            keep = np.flatnonzero(allowed.take(rows[:, 1], mode="clip"))
            scores, rows = scores[keep], rows[keep]
        # Chunks are folded to memories: look at ever more of them until `limit` memories are found.
        take = limit
        while True:
            take = min(len(scores), take * 4)
            top = np.argpartition(-scores, take - 1)[:take] if take < len(scores) else slice(None)
            chunks = zip(rows[top, 1].tolist(), scores[top].tolist(), rows[top, 2].tolist(), strict=True)
            best = _best_chunks(list(chunks), fold)
            if len(best) >= limit or take == len(scores):
                return best[:limit]

    def _follow(self, width: int) -> None:
        np, last = self._np, int(self._rows[-1, 0]) if len(self._rows) else 0
        present = np.array([row[0] for row in self._database.rows(_PRESENT, (self._model, last))], dtype=np.int64)
        if len(present) != len(self._rows):
            keep = np.isin(self._rows[:, 0], present)
            self._rows, self._matrix = self._rows[keep], self._matrix[keep]
        total, have = self._database.value(_COUNT, (self._model, last)), len(self._rows)
        # The new rows are read block by block into their final place, so that no second copy is ever held.
        numbers = np.empty((total, 3), dtype=np.int64)
        filled, matrix = 0, self._matrix
        while filled < total and (rows := self._database.rows(_NEW, (self._model, last))):
            block = np.frombuffer(_join_vectors(self._database, rows, width), dtype=np.float16).reshape(-1, width)
            if not filled:
                matrix = np.empty((have + total, width), dtype=np.float32)
                matrix[:have] = self._matrix if have else 0.0
            take = min(len(rows), total - filled)
            numbers[filled : filled + take] = [row[:3] for row in rows[:take]]
            matrix[have + filled : have + filled + take] = block[:take]
            filled, last = filled + take, rows[take - 1][0]
        self._rows = np.concatenate([self._rows, numbers[:filled]])
        self._matrix = matrix[: have + filled]
        if filled > _BLOCK:
            release_freed_memory()


def scan_disk(
    database: Database, model: str, vector: Any, generation: int, limit: int, allowed: Any, fold: bool
) -> Nearest:
    """The vectors stay on disk and are read block by block: slower, but memory stays bounded."""
    best: Nearest = []
    last = 0
    while rows := database.rows(_NEW, (model, last)):
        last = rows[-1][0]
        rows = rows if allowed is None else [row for row in rows if allowed[min(row[1], len(allowed) - 1)]]
        best = _best_chunks([*best, *_score_rows(database, rows, vector)], fold)[:limit]
    return best


def find_bodies(database: Database, model: str, vector: Any, memories: Collection[int]) -> dict[int, int]:
    """The chunk that is nearest to a vector of each of these memories' bodies, questions aside."""
    rows = database.rows(_OF_BODIES.format(marks(memories)), (model, QUESTIONS, *memories))
    return {owner: ordinal for owner, _, ordinal in _best_chunks(_score_rows(database, rows, vector), fold=True)}


def _score_rows(database: Database, rows: Sequence[tuple[Any, ...]], vector: Any) -> Nearest:
    import numpy as np  # noqa: PLC0415 - heavy, and only needed once vectors are searched

    blob = _join_vectors(database, rows, len(vector))
    matrix = np.frombuffer(blob, dtype=np.float16).reshape(len(rows), len(vector))
    scores = (matrix.astype(np.float32) @ vector).tolist()
    return [(row[1], score, row[2]) for row, score in zip(rows, scores, strict=True)]


def _join_vectors(database: Database, rows: Sequence[tuple[Any, ...]], width: int) -> bytes:
    """The bytes of all vectors, each of `width` float16 numbers; raises DamagedDatabase for one that is not."""
    if any(len(row[3]) != 2 * width for row in rows):
        message = f"{database.path} holds vectors that are not {width} numbers long."
        raise DamagedDatabase(message, "Run `scrimshaw rebuild`.", path=str(database.path))
    return b"".join(row[3] for row in rows)


def _best_chunks(chunks: Nearest, fold: bool) -> Nearest:
    """The best chunk of every memory, or every chunk, best first; equal scores keep the order of their numbers."""
    # Of two entries of a dictionary the later stays.
    best = {
        (owner, -1 if fold else ordinal): (owner, score, ordinal)
        for owner, score, ordinal in sorted(chunks, key=lambda each: (each[1], -each[2]))
    }
    return sorted(best.values(), key=lambda each: (-each[1], each[0]))
