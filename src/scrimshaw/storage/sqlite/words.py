"""BM25 as FTS5 computes it, from lists in memory of the rows that contain a word, and how often.

FTS5 ranks every row that contains any word of a query, and common words are in half of all rows. The lists hold the
same numbers as arrays, so the scores are exactly those of FTS5 for a fraction of the work. Heavy to import.
"""

import math
from _thread import allocate_lock
from collections.abc import Sequence
from typing import Any

import apsw
import numpy as np

from scrimshaw.storage.sqlite.database import Database

WordList = tuple[Any, Any, int]  # positions of rows with a word, its frequencies by weight of column, the last row read
Ranked = list[tuple[int, int, float]]  # the memory of each row, the ordinal of its chunk or -1, and its score

K1, B = 1.2, 0.75  # of BM25, as in FTS5
LEAST_IDF = 1e-6  # of a word that is in more than half of the rows
_AT_A_TIME = 8_192  # rows; for the numbers of many more the system would be asked for memory in each search
_TOKENIZER, _FOR_QUERY = ("porter", ["unicode61"]), apsw.FTS5_TOKENIZE_QUERY
# Numbers of rows, and the lengths of their columns, as two texts: at a seventh of the cost of as many rows.
_NEW_ROWS = (
    "SELECT group_concat(id), CAST(group_concat(sz, '') AS BLOB)"
    " FROM (SELECT id, sz FROM memory_text_docsize WHERE id > ? ORDER BY id LIMIT 100000)"
)
_PRESENT = "SELECT group_concat(id) FROM memory_text_docsize WHERE id <= ?"
# One text of numbers, at a third of the cost of as many rows: each is a row, and whether the word is in its body.
_OF_WORD = "SELECT group_concat((doc << 1) + (col = 'body')) FROM temp.words WHERE term = ?"
_OF_PHRASE = (
    "SELECT rowid, weigh(memory_text) FROM memory_text WHERE memory_text MATCH ? AND rowid > ? AND rowid <= ?"
    " ORDER BY rowid"
)


class WordScan:
    """The rows of the full-text table in memory, with the lists of the words searched for.

    It follows the table: rows are only added at the end or removed. A list is read when it is first needed; the least
    recently used ones are dropped once all of them take more than `most_bytes`. The memory of a row is its
    number without the last `part_bits`.
    """

    def __init__(self, database: Database, weights: Sequence[float], part_bits: int, most_bytes: int) -> None:
        self._database, self._weights, self._part_bits, self._most_bytes = database, weights, part_bits, most_bytes
        self._of_body = np.array(weights[-2:], dtype=np.float32)  # of every earlier column, and of the body
        self._nothing: WordList = (np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32), -1)
        self._guard, self._generation = allocate_lock(), -1
        self.forget()

    def __call__(self, words: Sequence[str], generation: int, allowed: Any, limit: int, passages: int = 0) -> Ranked:
        """The best rows of allowed memories with their scores, best first; all of them if the limit is negative.

        With `passages` at least so many of the best chunks, and of each memory the row of the whole and the best chunk.
        """
        with self._guard:
            if generation != self._generation:
                self.update()
                self._generation = generation
            rows, memories, norms, many = self._rows, self._memories, self._norms, self._many
            lists = self.find_lists(words)
        scores = np.zeros(len(rows))
        for of_word, counts, _ in lists:
            hits = len(of_word) if many == len(rows) else int(np.count_nonzero(memories[of_word] >= 0))
            idf = math.log((many - hits + 0.5) / (hits + 0.5))
            idf = idf if idf > 0 else LEAST_IDF
            for start in range(0, len(of_word), _AT_A_TIME):
                part = slice(start, start + _AT_A_TIME)
                places, often = of_word[part].astype(np.intp), counts[part]
                np.add.at(scores, places, idf * (often * np.float64(K1 + 1) / (often + norms[places])))
        scores[~allowed.take(memories, mode="clip")] = 0.0
        least = np.partition(scores, len(rows) - limit)[len(rows) - limit] if 0 < limit < len(rows) else 0.0
        found = np.flatnonzero(scores >= least if least > 0 else scores)
        best = found[np.argsort(-scores[found], kind="stable")][: limit if limit >= 0 else None]
        if passages:
            parts = (memories[best] << 1) + (rows[best] > memories[best] << self._part_bits)
            first = np.unique(parts, return_index=True)[1]
            best = best[np.union1d(first, np.arange(min(len(best), passages + len(first))))]
        ordinals = rows[best] - (memories[best] << self._part_bits) - 1
        return list(zip(memories[best].tolist(), ordinals.tolist(), scores[best].tolist(), strict=True))

    def forget(self) -> None:
        self._rows = self._memories = np.empty(0, dtype=np.int64)  #: the memory of a removed row is -1
        self._lengths, self._many = np.empty(0), 0
        self._lists: dict[tuple[Any, ...], WordList] = {}
        self._bytes = 0

    def update(self) -> None:
        """Add the new rows and mark the removed ones."""
        last, parts = int(self._rows[-1]) if len(self._rows) else -1, [(self._rows[:0], self._lengths[:0])]
        with self._database.lend() as connection, connection:  # one snapshot
            many = connection.execute("SELECT count(*) FROM memory_text_docsize").get  # of pages, not row by row
            while (texts := connection.execute(_NEW_ROWS, (last,)).get)[0]:
                numbers = np.fromstring(texts[0], dtype=np.int64, sep=",")
                parts.append((numbers, sum_sizes(texts[1], len(self._weights))))
                last = int(numbers[-1])
        new, lengths = map(np.concatenate, zip(*parts, strict=True))
        left = many - len(new)
        if 2 * left < len(self._rows):  # removed rows take more room than the others
            self.forget()
            self.update()
            return
        if left < self._many:
            present = np.fromstring(self._database.value(_PRESENT, (int(self._rows[-1]),)) or "", np.int64, sep=",")
            self._memories = np.where(np.isin(self._rows, present, assume_unique=True), self._memories, -1)
        self._rows = np.concatenate([self._rows, new])
        self._lengths = np.concatenate([self._lengths, lengths])
        self._memories = np.concatenate([self._memories, new >> self._part_bits])
        is_present = self._memories >= 0
        self._many = int(np.count_nonzero(is_present))
        mean = float(self._lengths[is_present].sum()) / max(1, self._many)
        self._norms = K1 * (1 - B + B * self._lengths / (mean or 1.0))

    def find_lists(self, words: Sequence[str]) -> list[WordList]:
        """The lists of these words, in their order; none for texts that are not words."""
        found, last = list[WordList](), int(self._rows[-1]) if len(self._rows) else -1
        with self._database.lend() as connection:
            if not connection.execute("SELECT count(*) FROM temp.sqlite_master WHERE name = 'words'").get:
                connection.register_fts5_function("weigh", self.weigh)
                connection.execute("CREATE VIRTUAL TABLE temp.words USING fts5vocab (main, memory_text, instance)")
            tokenize = connection.fts5_tokenizer(*_TOKENIZER)
            for word in words:
                tokens = tokenize(word.encode(), _FOR_QUERY, None, include_offsets=False, include_colocated=False)
                known = self._lists.pop(phrase := tuple(tokens), self._nothing)
                if phrase and known[2] < last:
                    rows, counts = self.read_list(connection, word, phrase, known[2], last)
                    places = np.searchsorted(self._rows, rows)
                    is_known = self._rows[places] == rows  # others were added or removed since
                    self._bytes += 8 * int(np.count_nonzero(is_known))
                    places = np.concatenate([known[0], places[is_known].astype(np.int32)])
                    known = places, np.concatenate([known[1], counts[is_known].astype(np.float32)]), last
                if phrase:
                    self._lists[phrase] = known  # at the end, as the most recently used
                    found.append(known)
        while self._bytes > self._most_bytes and len(self._lists) > len(found):
            self._bytes -= 8 * len(self._lists.pop(next(iter(self._lists)))[0])
        return found

    def read_list(self, connection: apsw.Connection, word: str, phrase: tuple[Any, ...], after: int, last: int) -> Any:
        """The rows after one, up to the last, that contain a phrase, and how often."""
        if after >= 0 or len(phrase) > 1:
            found = connection.execute(_OF_PHRASE, ('"' + word.replace('"', '""') + '"', after, last)).fetchall()
            return np.array([row for row, _ in found], dtype=np.int64), np.array([count for _, count in found])
        each = np.fromstring(connection.execute(_OF_WORD, phrase).get or "0", dtype=np.int64, sep=",")
        each = each[: np.searchsorted(each, (last + 1) << 1)]
        first = np.flatnonzero(np.diff(each >> 1, prepend=-1))
        return each[first] >> 1, np.add.reduceat(self._of_body[each & 1], first)

    def weigh(self, row: apsw.FTS5ExtensionApi, *_: object) -> float:
        """How often a row that FTS5 found contains the phrase, by the weights of its columns."""
        return sum(weight * len(places) for weight, places in zip(self._weights, row.phrase_locations(0), strict=True))


def sum_sizes(sizes: bytes, columns: int) -> Any:
    """The sums of so many numbers each; a number has 7 bits a byte, and its last byte is below 128."""
    each = np.frombuffer(sizes, dtype=np.uint8)
    values, is_last = (each & 127).astype(np.float64), each < 128
    follow = ~is_last
    while follow.any():
        values[follow] *= 128
        follow = ~is_last & np.append(follow[1:], False)
    return np.bincount((np.cumsum(is_last) - is_last) // columns, values)
