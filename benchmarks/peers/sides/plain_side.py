"""The plainest searches: FTS5 over whole notes, vectors of passages, and both by reciprocal ranks."""

import sqlite3
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.peers.sides.worker import MiniLM, serve, split_note

DEPTH, OFFSET = 50, 60  # hits of each list, and what reciprocal ranks add to each rank


class Plain:
    """One of `text`, `vectors` and `ranks`, as the second argument says; the vectors are a matrix in memory."""

    def __init__(self, folder: Path) -> None:
        self._way = sys.argv[2]
        self._numpy: Any = import_module("numpy")
        self._model = MiniLM() if self._way != "text" else None
        self._database = sqlite3.connect(folder / "plain.db")
        self._database.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS texts USING fts5(id UNINDEXED, body, tokenize='porter')"
        )
        self._database.execute("CREATE TABLE IF NOT EXISTS vectors (id, vector)")
        self._load()

    def add(self, notes: Mapping[str, str]) -> None:
        """Insert the notes, each in a transaction of its own, and the vectors of their passages."""
        for name, text in notes.items():
            with self._database:
                self._database.execute("INSERT INTO texts VALUES (?, ?)", (name, text))
                for passage in split_note(text) if self._model else ():
                    self._database.execute("INSERT INTO vectors VALUES (?, ?)", (name, self._embed(passage).tobytes()))
        self._load()

    def search(self, query: str, count: int) -> Sequence[str]:
        """The notes that rank best."""
        if self._way == "text":
            return self._find_words(query)
        if self._way == "vectors":
            return self._find_nearest(query)
        sums = defaultdict[str, float](float)
        for ranking in (self._find_words(query), self._find_nearest(query)):
            for rank, name in enumerate(ranking, start=1):
                sums[name] += 1 / (OFFSET + rank)
        return sorted(sums, key=sums.__getitem__, reverse=True)

    def _embed(self, text: str) -> Any:
        assert self._model is not None
        return self._model.embed(text)

    def _load(self) -> None:
        rows = self._database.execute("SELECT id, vector FROM vectors").fetchall()
        self._owners = [name for name, _ in rows]
        self._matrix = self._numpy.frombuffer(b"".join(row for _, row in rows), "float32").reshape(-1, 384)

    def _find_words(self, query: str) -> list[str]:
        words = " OR ".join(f'"{word}"' for word in "".join(c if c.isalnum() else " " for c in query).split())
        sql = f"SELECT id FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT {DEPTH}"
        return [name for (name,) in self._database.execute(sql, (words,))] if words else []

    def _find_nearest(self, query: str) -> list[str]:
        scores = self._matrix @ self._embed(query)
        best = self._numpy.argpartition(-scores, min(4 * DEPTH, len(scores) - 1))[: 4 * DEPTH]
        return list(dict.fromkeys(self._owners[row] for row in best[self._numpy.argsort(-scores[best])]))[:DEPTH]


serve(Plain)
