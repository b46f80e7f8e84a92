"""Nearest neighbours by exact scan of the `vectors` table. Heavy to import: only what searches vectors needs it."""

from _thread import allocate_lock
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from scrimshaw.config import release_freed_memory
from scrimshaw.errors import DamagedDatabase
from scrimshaw.models import QUESTIONS
from scrimshaw.storage.sql import marks
from scrimshaw.storage.sqlite.database import Database

Nearest = list[tuple[int, float, int]]  # (memory row, cosine, ordinal of the best chunk), best first
_BLOCK = 4096
_NEW = f"SELECT seq, memory, ordinal, vector FROM vectors WHERE +model = ? AND seq > ? ORDER BY seq LIMIT {_BLOCK}"
_THESE = "SELECT seq, memory, ordinal, vector FROM vectors WHERE seq IN ({}) ORDER BY seq"
_OF_BODIES = "SELECT seq, memory, ordinal, vector FROM vectors WHERE model = ? AND ordinal < ? AND memory IN ({})"
_COUNT = "SELECT count(*) FROM vectors WHERE model = ? AND seq {} ?"
# Up to this many vectors are all compared exactly, in one or two milliseconds per 10,000. Of more, only those with the
# nearest signs are: a share of all, and a minimum; these include .99 of the nearest hundred (docs/evaluation).
ALL_COMPARED, SHARE_COMPARED, LEAST_COMPARED = 20_000, 0.01, 4_096
_IN_CACHE, _CONVERTED = 16_384, 256  # distances, and vectors, at a time
_PRESENT = "SELECT seq FROM vectors WHERE model = ? AND seq <= ? ORDER BY seq"


class VectorScan:
    """Number, memory and ordinal of all vectors of a model, ordered by number, and the vectors if memory has room.

    Of many vectors only those are compared exactly whose signs, one bit per number, show that they may be near.
    It follows the table by appending new rows and marking removed ones: a save costs a few rows, not a reload.
    """

    def __init__(self, database: Database, model: str, *, in_memory: bool) -> None:
        self._database = database
        self._model, self._in_memory = model, in_memory
        self._generation = -1
        self._measured: tuple[Any, Any] = (None, None)  #: a vector, and its cosines or differences of signs by row
        self._guard = allocate_lock()
        self._many = self._gone = 0  # rows filled, and how many of them were removed; the memory of these is -1
        self._rows = np.empty((0, 3), dtype=np.int64)
        self._matrix = np.empty((0, 0), dtype=np.float16)
        self._signs = np.empty((0, 0), dtype=np.uint64)

    def __call__(self, vector: Any, generation: int, limit: int, allowed: Any, fold: bool) -> Nearest:
        """The best memories, or chunks if not folded, of those that an array allows by row."""
        with self._guard:
            if generation != self._generation:
                self._measured = (None, None)
                self.update(len(vector))
                self._generation = generation
            rows, matrix = self._rows[: self._many], self._matrix[: self._many]
            if self._measured[0] is not vector:  # a search asks for memories, and then for passages of records
                self._measured = vector, self.measure(vector)
            measures, is_exact = self._measured[1], matrix.dtype == np.float32
        keep = np.flatnonzero(allowed.take(rows[:, 1], mode="clip"))
        measures = measures[keep] if len(keep) < len(rows) else measures
        compared = len(keep) if is_exact else max(LEAST_COMPARED, int(len(keep) * SHARE_COMPARED))
        while len(keep):
            near = keep[measures <= np.partition(measures, compared)[compared]] if compared < len(keep) else keep
            scores = measures if is_exact else self.compare(matrix, rows[near, 0], near, vector)
            # Chunks are folded to memories: look at more and more of them until `limit` memories are found.
            take = 0
            while take < len(near):
                take = min(len(near), 4 * max(take, limit))
                top = np.argpartition(-scores, take - 1)[:take]
                memories, ordinals = rows[near[top], 1:].T
                best = _best_chunks(memories, ordinals, scores[top], fold)
                if len(best) >= limit or len(near) == take == len(keep):
                    return best[:limit]
            compared *= 4
        return []

    def measure(self, vector: Any) -> Any:
        """The cosine of a vector with each row or, for many rows, how many of their signs differ from its own."""
        if self._matrix.dtype == np.float32:
            return self._matrix[: self._many] @ vector
        distances, own = np.zeros(self._many, dtype=np.uint16), pack_signs(vector[None])[0]
        for start in range(0, self._many, _IN_CACHE):
            part = slice(start, min(start + _IN_CACHE, self._many))
            for others, bits in zip(self._signs, own, strict=True):
                distances[part] += np.bitwise_count(others[part] ^ bits)
        return distances

    def compare(self, matrix: Any, numbers: Any, near: Any, vector: Any) -> Any:
        """The cosines of a vector with those at these positions, which have these numbers; -1 for removed ones."""
        if self._in_memory:  # in parts that stay in the processor's cache
            parts = np.array_split(near, len(near) // _CONVERTED + 1)
            return np.concatenate([matrix[part].astype(np.float32) @ vector for part in parts])
        scores = np.full(len(near), -1.0, dtype=np.float32)
        for part in np.array_split(numbers, len(numbers) // _BLOCK + 1):
            rows = self._database.rows(_THESE.format(marks(part)), part.tolist())
            scores[np.searchsorted(numbers, [row[0] for row in rows])] = _score_rows(self._database, rows, vector)
        return scores

    def update(self, width: int) -> None:
        """Add the new rows and mark the removed ones; a vector has `width` numbers."""
        known = self._rows[: self._many]
        last = int(known[-1, 0]) if len(known) else 0
        left = self._database.value(_COUNT.format("<="), (self._model, last))
        if 2 * left < len(known):  # removed rows take more room than the others
            self._many, self._gone, last, self._rows = 0, 0, 0, self._rows[:0]
        elif left + self._gone < len(known):
            present = np.array(self._database.rows(_PRESENT, (self._model, last)), dtype=np.int64).ravel()
            known[np.isin(known[:, 0], present, invert=True), 1] = -1
            self._gone = len(known) - left
        total = self._database.value(_COUNT.format(">"), (self._model, last))
        if (least := self._many + total) > len(self._rows):  # unused pages of the spare room take no memory
            old, room = (self._rows, self._matrix, self._signs), least + least // 8 + _BLOCK
            number = np.float32 if self._in_memory and least <= ALL_COMPARED else np.float16  # as they are stored
            self._rows = np.empty((room, 3), dtype=np.int64)
            self._matrix = np.empty((room, width if self._in_memory else 0), dtype=number)
            self._signs = np.empty((-(-width // 64), room), dtype=np.uint64)
            if self._many:
                self._rows[: self._many], self._matrix[: self._many] = old[0][: self._many], old[1][: self._many]
                self._signs[:, : self._many] = old[2][:, : self._many]
        # The new rows are read block by block into their final place, so that no second copy is ever held.
        end = self._many + total
        while self._many < end and (rows := self._database.rows(_NEW, (self._model, last))):
            block = np.frombuffer(_join_vectors(self._database, rows, width), dtype=np.float16).reshape(-1, width)
            take = min(len(rows), end - self._many)
            new = slice(self._many, self._many + take)
            self._rows[new] = [row[:3] for row in rows[:take]]
            if self._in_memory:
                self._matrix[new] = block[:take]
            self._signs[:, new] = pack_signs(block[:take]).T
            self._many, last = self._many + take, rows[take - 1][0]
        if total > _BLOCK:
            release_freed_memory()


def pack_signs(vectors: Any) -> Any:
    """The signs of each vector's numbers, 64 of them in one number."""
    signs = np.packbits(vectors.view(f"i{vectors.itemsize}") < 0, axis=1)  # in a third of the time of `signbit`
    padded = np.zeros((len(signs), -(-signs.shape[1] // 8) * 8), dtype=np.uint8)
    padded[:, : signs.shape[1]] = signs
    return padded.view(np.uint64)


def find_bodies(database: Database, model: str, vector: Any, memories: Collection[int]) -> dict[int, int]:
    """The chunk nearest to a vector in the body of each of these memories, without questions."""
    rows = database.rows(_OF_BODIES.format(marks(memories)), (model, QUESTIONS, *memories))
    owners, ordinals = np.array([row[1:3] for row in rows]).reshape(-1, 2).T
    best = _best_chunks(owners, ordinals, _score_rows(database, rows, vector), fold=True)
    return {owner: ordinal for owner, _, ordinal in best}


def _score_rows(database: Database, rows: Sequence[tuple[Any, ...]], vector: Any) -> Any:
    blob = _join_vectors(database, rows, len(vector))
    return np.frombuffer(blob, dtype=np.float16).reshape(len(rows), len(vector)).astype(np.float32) @ vector


def _join_vectors(database: Database, rows: Sequence[tuple[Any, ...]], width: int) -> bytes:
    """The bytes of all vectors, each of `width` float16 numbers; raises DamagedDatabase for one of another size."""
    vectors = [row[3] for row in rows]
    if {*map(len, vectors)} - {2 * width}:
        message = f"{database.path} holds vectors that are not {width} numbers long."
        raise DamagedDatabase(message, "Run `scrimshaw rebuild`.", path=str(database.path))
    return b"".join(vectors)


def _best_chunks(memories: Any, ordinals: Any, scores: Any, fold: bool) -> Nearest:
    """The best chunk of every memory, or every chunk, best first; equal scores keep the order of their numbers."""
    order = np.lexsort((ordinals, memories, -scores))
    if fold:
        order = order[np.sort(np.unique(memories[order], return_index=True)[1])]
    return list(zip(memories[order].tolist(), scores[order].tolist(), ordinals[order].tolist(), strict=True))
