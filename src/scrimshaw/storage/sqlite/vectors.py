"""Nearest neighbours by exact scan.

`RamScan` keeps a copy of the `vectors` table in memory, a float32 row per chunk, and follows the table by appending
what is new and dropping what is gone: a save costs a few rows and not a reload. `DiskScan` reads block by block
where the copy would be too large.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Protocol

from scrimshaw.config import release_freed_memory
from scrimshaw.errors import DamagedDatabase
from scrimshaw.storage.sqlite.database import Database

Nearest = list[tuple[int, float, int]]

_NEW = "SELECT seq, memory, ordinal, vector FROM vectors WHERE model = ? AND seq > ? ORDER BY seq"
_COUNT = "SELECT count(*) FROM vectors WHERE model = ? AND seq > ?"
_BLOCK = 4096
_PRESENT = "SELECT seq FROM vectors WHERE model = ? AND seq <= ? ORDER BY seq"


class VectorScan(Protocol):
    """Finds the nearest memories of one model."""

    def nearest(self, vector: Any, generation: int, limit: int, allowed: set[int] | None) -> Nearest:
        """The best `limit` memories as (memory row, cosine, ordinal of the best chunk), best first.

        `allowed` restricts the memory rows; None allows all.
        """


class RamScan:
    """All vectors of a model in memory: four arrays of the same length, ordered by `seq`."""

    def __init__(self, database: Database, model: str) -> None:
        import numpy as np  # noqa: PLC0415 - heavy, and only needed once vectors are searched

        self._np = np
        self._database = database
        self._model = model
        self._generation = -1
        self._guard = threading.Lock()
        self._seqs = np.empty(0, dtype=np.int64)
        self._owners = np.empty(0, dtype=np.int64)
        self._ordinals = np.empty(0, dtype=np.int64)
        self._matrix = np.empty((0, 0), dtype=np.float32)

    def nearest(self, vector: Any, generation: int, limit: int, allowed: set[int] | None) -> Nearest:
        with self._guard:
            if generation != self._generation:
                self._follow(len(vector))
                self._generation = generation
            owners, ordinals, matrix = self._owners, self._ordinals, self._matrix
        if not len(owners):
            return []
        scores = matrix @ vector
        if allowed is not None:
            permitted = self._np.fromiter(allowed, dtype=self._np.int64, count=len(allowed))
            keep = self._np.flatnonzero(self._np.isin(owners, permitted))
            scores, owners, ordinals = scores[keep], owners[keep], ordinals[keep]
        return self._fold(scores, owners, ordinals, limit)

    def _follow(self, width: int) -> None:
        np, last = self._np, int(self._seqs[-1]) if len(self._seqs) else 0
        present = np.array([row[0] for row in self._database.rows(_PRESENT, (self._model, last))], dtype=np.int64)
        if len(present) != len(self._seqs):
            keep = np.isin(self._seqs, present)
            self._seqs, self._owners = self._seqs[keep], self._owners[keep]
            self._ordinals, self._matrix = self._ordinals[keep], self._matrix[keep]
        total = self._database.value(_COUNT, (self._model, last))
        if total:
            self._append(total, last, width)

    def _append(self, total: int, last: int, width: int) -> None:
        """Read `total` new rows block by block into their final place, so that no second copy is ever held."""
        np, have = self._np, len(self._seqs)
        numbers = np.empty((total, 3), dtype=np.int64)
        filled, matrix = 0, self._matrix
        while filled < total and (rows := self._database.rows(_NEW + f" LIMIT {_BLOCK}", (self._model, last))):
            block = np.frombuffer(_joined(self._database, rows, width), dtype=np.float16).reshape(len(rows), width)
            if not filled:
                matrix = np.empty((have + total, width), dtype=np.float32)
                matrix[:have] = self._matrix if have else 0.0
            take = min(len(rows), total - filled)
            numbers[filled : filled + take] = [row[:3] for row in rows[:take]]
            matrix[have + filled : have + filled + take] = block[:take]
            filled, last = filled + take, rows[take - 1][0]
        self._seqs = np.concatenate([self._seqs, numbers[:filled, 0]])
        self._owners = np.concatenate([self._owners, numbers[:filled, 1]])
        self._ordinals = np.concatenate([self._ordinals, numbers[:filled, 2]])
        self._matrix = matrix[: have + filled]
        if filled > _BLOCK:
            release_freed_memory()

    def _fold(self, scores: Any, owners: Any, ordinals: Any, limit: int) -> Nearest:
        """Chunk scores folded to memories; looks at ever more chunks until `limit` memories are found."""
        take = limit
        while True:
            take = min(len(scores), take * 4)
            top = self._np.argpartition(-scores, take - 1)[:take] if take < len(scores) else slice(None)
            best = _best_chunks(scores[top].tolist(), owners[top].tolist(), ordinals[top].tolist())
            if len(best) >= limit or take == len(scores):
                return best[:limit]


class DiskScan:
    """The vectors stay on disk and are read block by block: slower, but memory stays bounded."""

    def __init__(self, database: Database, model: str) -> None:
        import numpy as np  # noqa: PLC0415 - heavy, and only needed once vectors are searched

        self._np = np
        self._database = database
        self._model = model

    def nearest(self, vector: Any, generation: int, limit: int, allowed: set[int] | None) -> Nearest:
        best: Nearest = []
        last = 0
        while rows := self._database.rows(_NEW + f" LIMIT {_BLOCK}", (self._model, last)):
            last = rows[-1][0]
            rows = rows if allowed is None else [row for row in rows if row[1] in allowed]
            best = self._better(best, rows, vector)[:limit]
        return best

    def _better(self, best: Nearest, rows: list[tuple[Any, ...]], vector: Any) -> Nearest:
        blob = _joined(self._database, rows, len(vector))
        matrix = self._np.frombuffer(blob, dtype=self._np.float16).reshape(len(rows), len(vector))
        scores = (matrix.astype(self._np.float32) @ vector).tolist()
        return _best_chunks(
            [*(item[1] for item in best), *scores],
            [*(item[0] for item in best), *(row[1] for row in rows)],
            [*(item[2] for item in best), *(row[2] for row in rows)],
        )


def _joined(database: Database, rows: Sequence[tuple[Any, ...]], width: int) -> bytes:
    """The bytes of all vectors, each of `width` float16 numbers; raises DamagedDatabase for one that is not."""
    if any(len(row[3]) != 2 * width for row in rows):
        raise DamagedDatabase(
            f"{database.path} holds vectors that are not {width} numbers long.",
            "Run `scrimshaw rebuild`.",
            path=str(database.path),
        )
    return b"".join(row[3] for row in rows)


def _best_chunks(scores: list[float], owners: list[int], ordinals: list[int]) -> Nearest:
    """The best chunk of every memory, best memory first; equal scores keep the order of their numbers."""
    best: dict[int, tuple[float, int]] = {}
    for owner, score, ordinal in zip(owners, scores, ordinals, strict=True):
        if owner not in best or (score, -ordinal) > (best[owner][0], -best[owner][1]):
            best[owner] = (score, ordinal)
    ranked = sorted(best.items(), key=lambda item: (-item[1][0], item[0]))
    return [(owner, score, ordinal) for owner, (score, ordinal) in ranked]
