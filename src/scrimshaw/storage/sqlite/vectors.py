"""Nearest neighbours by exact scan of the `vectors` table. Heavy to import: only what searches vectors needs it."""

from _thread import allocate_lock
from collections.abc import Collection, Sequence
from itertools import islice
from mmap import mmap
from typing import Any

import numpy as np

from scrimshaw.errors import DamagedDatabase
from scrimshaw.models import QUESTIONS
from scrimshaw.storage.sql import marks
from scrimshaw.storage.sqlite.database import Database

Nearest = list[tuple[int, float, int]]  # (memory row, cosine, ordinal of the best chunk), best first
_BLOCK = 4096
_NEW = "SELECT seq, memory, ordinal, vector FROM vectors WHERE +model = ? AND seq > ? ORDER BY seq LIMIT ?"
_THESE = "SELECT seq, memory, ordinal, vector FROM vectors WHERE seq IN ({}) ORDER BY seq"
_OF_BODIES = "SELECT seq, memory, ordinal, vector FROM vectors WHERE model = ? AND ordinal < ? AND memory IN ({})"
_COUNT = "SELECT count(*) FROM vectors WHERE model = ? AND seq {} ?"
# Up to this many vectors are all compared exactly, in one or two milliseconds per 10,000. Of more, only those with the
# nearest signs are: a share of all, and a minimum; these include .99 of the nearest hundred (docs/evaluation).
ALL_COMPARED, SHARE_COMPARED, LEAST_COMPARED = 20_000, 0.01, 4_096
_IN_CACHE, _CONVERTED = 16_384, 256  # distances, and vectors, at a time
_PRESENT = "SELECT group_concat(seq) FROM vectors WHERE model = ? AND seq <= ?"
_BLOCKS = "SELECT rows, signs FROM vector_blocks WHERE model = ? ORDER BY last"
_KNOWN_BLOCKS = "SELECT count(*), coalesce(max(last), 0) FROM vector_blocks WHERE model = ?"
_PUT_BLOCK = "INSERT INTO vector_blocks (model, last, rows, signs) VALUES (?, ?, ?, ?)"


class VectorScan:
    """Number, memory and ordinal of all vectors of a model, ordered by number, and the vectors if memory has room.

    Of many vectors only those are compared exactly whose signs, one bit per number, show that they may be near. The
    signs are read in blocks, and vectors once they are compared, so that the first search does not read them all.
    It follows the table by appending new rows and marking removed ones: a save costs a few rows, not a reload.
    """

    def __init__(self, database: Database, model: str, *, in_memory: bool) -> None:
        self._database, self._model, self._in_memory = database, model, in_memory
        self._generation = -1
        self._measured: tuple[Any, Any] = (None, None)  #: a vector, and its cosines or differences of signs by row
        self._guard = allocate_lock()
        self._many = 0  # rows filled; the memory of removed ones is -1
        self._rows = np.empty((0, 3), dtype=np.int64)
        self._matrix = np.zeros((0, 0), dtype=np.float16)  #: a row that was not read is 0
        self._signs = np.empty((0, 0), dtype=np.uint64)

    def __call__(self, vector: Any, generation: int, limit: int, allowed: Any, fold: bool) -> Nearest:
        """The best memories, or chunks if not folded, of those that an array allows by row."""
        with self._guard:
            if generation != self._generation:
                self._measured = (None, None)
                self.update(len(vector))
                self._generation = generation
            rows, matrix = self._rows[: self._many], self._matrix
            if self._measured[0] is not vector:  # a search asks for memories, and then for passages of records
                self._measured = vector, self.measure(vector)
            measures, is_exact = self._measured[1], matrix.dtype == np.float32
        keep = np.flatnonzero(allowed.take(rows[:, 1], mode="clip"))
        measures = measures[keep] if len(keep) < len(rows) else measures
        compared = len(keep) if is_exact else max(LEAST_COMPARED, int(len(keep) * SHARE_COMPARED))
        while len(keep):
            near, scores = keep, measures
            if not is_exact:  # differences have few values: to count these takes a third of the time of a partition
                near = keep[measures <= np.searchsorted(np.cumsum(np.bincount(measures)), compared, side="right")]
                scores = self.compare(matrix, rows[:, 0], near, vector)
            take = 0  # chunks are folded to memories: look at more and more of them until `limit` memories are found
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
            for three in range(0, len(own), 3):  # whose differences have room in a byte
                words = zip(self._signs[three : three + 3, part], own[three : three + 3], strict=True)
                distances[part] += sum(np.bitwise_count(others ^ bits) for others, bits in words)
        return distances

    def compare(self, matrix: Any, numbers: Any, near: Any, vector: Any) -> Any:
        """The cosines of a vector with those at these positions; 0 for removed ones."""
        if not self._in_memory:
            matrix, numbers, near = np.zeros((len(near), len(vector)), np.float16), numbers[near], np.arange(len(near))
        missing = near[matrix[near, 0] == 0]  # one that begins with 0 is read each time
        for part in np.array_split(missing, len(missing) // _BLOCK + 1):
            rows = self._database.rows(_THESE.format(marks(part)), numbers[part].tolist())
            found = part[np.searchsorted(numbers[part], [row[0] for row in rows])]
            matrix[found] = _read_vectors(self._database, rows, len(vector))
        parts = np.array_split(near, len(near) // _CONVERTED + 1)  # that stay in the processor's cache
        return np.concatenate([_multiply(matrix[part], vector) for part in parts])

    def update(self, width: int) -> None:
        """Add the new rows and mark the removed ones; a vector has `width` numbers."""
        with self._database.lend() as connection, connection:  # one snapshot
            blocks, _ = connection.execute(_KNOWN_BLOCKS, (self._model,)).get
            if not self._many and blocks * _BLOCK > ALL_COMPARED:
                self._make_room(blocks * _BLOCK, width)
                for numbers, signs in connection.execute(_BLOCKS, (self._model,)):
                    new = slice(self._many, self._many + _BLOCK)
                    self._rows[new] = np.frombuffer(numbers, dtype=np.int64).reshape(_BLOCK, 3)
                    self._signs[:, new] = np.frombuffer(signs, dtype=np.uint64).reshape(_BLOCK, -1).T
                    self._many += _BLOCK
            known = self._rows[: self._many]
            last = int(known[-1, 0]) if len(known) else 0
            left = connection.execute(_COUNT.format("<="), (self._model, last)).get
            if 2 * left < len(known):  # removed rows take more room than the others
                self._many, last, self._rows = 0, 0, self._rows[:0]
            elif left < np.count_nonzero(known[:, 1] >= 0):
                present = np.fromstring(connection.execute(_PRESENT, (self._model, last)).get or "", np.int64, sep=",")
                known[np.isin(known[:, 0], present, assume_unique=True, invert=True), 1] = -1
            total = connection.execute(_COUNT.format(">"), (self._model, last)).get
            self._make_room(self._many + total, width)
            # The new rows are read block by block into their final place, so that no second copy is ever held.
            new_rows = connection.execute(_NEW, (self._model, last, total))
            while rows := [*islice(new_rows, _BLOCK)]:
                vectors, new = _read_vectors(self._database, rows, width), slice(self._many, self._many + len(rows))
                self._rows[new] = [row[:3] for row in rows]
                self._signs[:, new] = pack_signs(vectors).T
                if self._in_memory:
                    self._matrix[new] = vectors
                self._many += len(rows)

    def _make_room(self, least: int, width: int) -> None:
        """Let the arrays have at least so many rows; unused pages of the spare room take no memory."""
        if least <= len(self._rows):
            return
        known, signs, matrix, many = self._rows, self._signs, self._matrix, self._many
        room = least + least // 8 + _BLOCK
        self._rows = np.empty((room, 3), dtype=np.int64)
        self._signs = np.empty((-(-width // 64), room), dtype=np.uint64)
        self._rows[:many], self._signs[:, :many] = known[:many], signs[:, :many] if many else 0
        if self._in_memory and least <= ALL_COMPARED:
            self._matrix = np.zeros((room, width), dtype=np.float32)
            self._matrix[:many] = matrix[:many] if many else 0
        elif self._in_memory:  # as they are stored; for a few vectors in numpy's own memory huge pages would be filled
            self._matrix = np.frombuffer(mmap(-1, 2 * room * width), np.float16).reshape(room, width)


def put_blocks(database: Database, model: str) -> None:
    """Store the signs of new vectors that fill a block; once most of their vectors are gone, the blocks begin anew."""
    _, last = database.rows(_KNOWN_BLOCKS, (model,))[0]
    while database.value(_COUNT.format(">"), (model, last)) >= _BLOCK:
        with database.write() as write:
            (blocks, last), *_ = database.rows(_KNOWN_BLOCKS, (model,))
            if 2 * database.value(_COUNT.format("<="), (model, last)) < blocks * _BLOCK:
                write.execute("DELETE FROM vector_blocks WHERE model = ?", (model,))
                last = 0
            rows = database.rows(_NEW, (model, last, _BLOCK))
            known, last = np.array([row[:3] for row in rows], dtype=np.int64), rows[-1][0]
            signs = pack_signs(_read_vectors(database, rows, len(rows[0][3]) // 2))
            write.execute(_PUT_BLOCK, (model, last, known.tobytes(), signs.tobytes()))


def pack_signs(vectors: Any) -> Any:
    """The signs of each vector's numbers, 64 of them in one number."""
    signs = np.packbits(vectors.view(f"i{vectors.itemsize}") < 0, axis=1)  # in a third of the time of `signbit`
    return np.pad(signs, ((0, 0), (0, -signs.shape[1] % 8))).view(np.uint64)


def find_bodies(database: Database, model: str, vector: Any, memories: Collection[int]) -> dict[int, int]:
    """The chunk nearest to a vector in the body of each of these memories, without questions."""
    rows = database.rows(_OF_BODIES.format(marks(memories)), (model, QUESTIONS, *memories))
    owners, ordinals = np.array([row[1:3] for row in rows]).reshape(-1, 2).T
    scores = _multiply(_read_vectors(database, rows, len(vector)), vector)
    return {owner: ordinal for owner, _, ordinal in _best_chunks(owners, ordinals, scores, fold=True)}


def _multiply(vectors: Any, vector: Any) -> Any:
    """The products of rows of float16 numbers with a float32 vector."""
    # float32 has the same bits further left, and an exponent that counts from 112 lower. numpy converts one by one.
    bits = vectors.view(np.int16).astype(np.int32) << 13
    bits &= ~0x70000000  # copies of the sign
    return bits.view(np.float32) @ (vector * np.float32(2.0**112))


def _read_vectors(database: Database, rows: Sequence[tuple[Any, ...]], width: int) -> Any:
    """The vectors of all rows, each of `width` float16 numbers; raises DamagedDatabase for one of another size."""
    vectors = [row[3] for row in rows]
    if {*map(len, vectors)} - {2 * width}:
        message = f"{database.path} holds vectors that are not {width} numbers long."
        raise DamagedDatabase(message, "Run `scrimshaw rebuild`.", path=str(database.path))
    return np.frombuffer(b"".join(vectors), dtype=np.float16).reshape(len(rows), width)


def _best_chunks(memories: Any, ordinals: Any, scores: Any, fold: bool) -> Nearest:
    """The best chunk of every memory, or every chunk, best first; equal scores keep the order of their numbers."""
    order = np.lexsort((ordinals, memories, -scores))
    if fold:
        order = order[np.sort(np.unique(memories[order], return_index=True)[1])]
    return list(zip(memories[order].tolist(), scores[order].tolist(), ordinals[order].tolist(), strict=True))
