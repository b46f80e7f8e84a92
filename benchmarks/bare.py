"""The least that could do the same: the baselines of storing and searching."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from benchmarks.corpus import bodies, embedder_of
from scrimshaw.config import SearchSettings
from scrimshaw.engine import Engine
from scrimshaw.models import Filters
from scrimshaw.search.tokens import query_terms
from scrimshaw.storage.index import FIELD_WEIGHTS, ROWS_PER_MEMORY
from scrimshaw.storage.ports import Query
from scrimshaw.storage.sqlite.index import match_expression

LIMIT = 10
ROWS = SearchSettings().candidates * ROWS_PER_MEMORY


class BareWriter:
    """A durable save with nothing around it: file, fsync, rename, fsync of the folder, one row committed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True)
        self._database = apsw.Connection(str(folder / "bare.db"))
        self._database.pragma("journal_mode", "wal")
        self._database.pragma("synchronous", "full")
        self._database.execute("CREATE TABLE saved (name TEXT, hash TEXT)")

    def save(self, name: str, text: str) -> None:
        """Write one file and its row."""
        data, temporary = text.encode(), self._folder / f".{name}"
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._folder / f"{name}.md")
        handle = os.open(self._folder, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)
        self._database.execute("INSERT INTO saved VALUES (?, ?)", (name, hashlib.sha256(data).hexdigest()))


class BareText:
    """FTS5 with the product's columns, tokenizer and weights, a row per memory; the id and score come back."""

    def __init__(self, engine: Engine, path: Path) -> None:
        self._database = apsw.Connection(str(path))
        self._database.pragma("journal_mode", "wal")
        columns = ("name", "title", "triggers", "body")
        self._database.execute(
            f"CREATE VIRTUAL TABLE bare USING fts5({', '.join(columns)}, content='', contentless_delete=1,"
            " tokenize='porter unicode61'); CREATE TABLE names (row INTEGER PRIMARY KEY, id TEXT)"
        )
        with self._database:
            for row, values in enumerate(_rows(engine), start=1):
                self._database.execute(
                    "INSERT INTO bare (rowid, name, title, triggers, body) VALUES (?,?,?,?,?)", (row, *values)
                )
                self._database.execute("INSERT INTO names VALUES (?, ?)", (row, values[0]))
        weights = ", ".join(map(str, FIELD_WEIGHTS))
        self._sql = (
            "SELECT n.id, b.rank FROM bare b JOIN names n ON n.row = b.rowid"
            f" WHERE bare MATCH ? AND rank MATCH 'bm25({weights})' ORDER BY rank LIMIT {LIMIT}"
        )

    def search(self, query: str) -> list[tuple[Any, ...]]:
        """The best memories by full text."""
        return self._database.execute(self._sql, (match_expression(Query((query_terms(query),))),)).fetchall()


class SameText:
    """FTS5 alone over the rows of the product, one for every memory and every chunk: nothing joined or folded."""

    def __init__(self, engine: Engine) -> None:
        self._database = apsw.Connection(str(engine.folder / "index.db"), flags=apsw.SQLITE_OPEN_READONLY)
        weights = ", ".join(map(str, FIELD_WEIGHTS))
        self._sql = (
            "SELECT rowid, rank FROM memory_text"
            f" WHERE memory_text MATCH ? AND rank MATCH 'bm25({weights})' ORDER BY rank LIMIT {ROWS}"
        )

    def search(self, query: str) -> list[tuple[Any, ...]]:
        """The best rows by full text."""
        return self._database.execute(self._sql, (match_expression(Query((query_terms(query),))),)).fetchall()

    def read(self, row: int, length: int) -> dict[str, str]:
        """Id, title and the beginning of the text of a memory."""
        sql = "SELECT id, title, substr(body, 1, ?) FROM memories WHERE row = ?"
        (values,) = self._database.execute(sql, (length, row)).fetchall()
        return dict(zip(("id", "title", "text"), map(str, values), strict=True))


class BareVectors:
    """Query embedding and an exact scan of a float32 matrix in memory, folded to memories."""

    def __init__(self, engine: Engine) -> None:
        self._embedder = embedder_of(engine)
        connection = apsw.Connection(str(engine.folder / "index.db"), flags=apsw.SQLITE_OPEN_READONLY)
        sql = "SELECT memory, vector FROM vectors WHERE model = ?"
        rows: list[Any] = connection.execute(sql, (self._embedder.model,)).fetchall()
        self._owners = np.array([owner for owner, _ in rows], dtype=np.int64)
        blob = b"".join(vector for _, vector in rows)
        self._matrix: NDArray[np.float32] = np.frombuffer(blob, np.float16).reshape(len(rows), -1).astype(np.float32)

    def search(self, query: str) -> list[int]:
        """The nearest memories, by the number of their row."""
        return self.scan(self._embedder.embed(query)[0])

    def scan(self, vector: NDArray[np.float32]) -> list[int]:
        """The memories nearest to a vector."""
        scores = self._matrix @ vector
        top = np.argpartition(-scores, min(8 * LIMIT, len(scores) - 1))[: 8 * LIMIT]
        ranked = self._owners[top[np.argsort(-scores[top])]]
        return list(dict.fromkeys(ranked.tolist()))[:LIMIT]


class BareHybrid:
    """Both, one after the other."""

    def __init__(self, text: BareText, same_text: SameText, vectors: BareVectors) -> None:
        self.text = text
        self.same_text = same_text
        self.vectors = vectors

    def search(self, query: str) -> tuple[object, object]:
        """Both lists."""
        return self.same_text.search(query), self.vectors.search(query)


def ingest(files: Iterable[Path], path: Path) -> None:
    """Read every file, hash it and put its text into FTS5, in one transaction."""
    database = apsw.Connection(str(path))
    database.pragma("journal_mode", "wal")
    database.execute("CREATE VIRTUAL TABLE bare USING fts5(name, hash, body, content='', tokenize='porter unicode61')")
    with database:
        for file in files:
            data = file.read_bytes()
            row = (str(file), hashlib.sha256(data).hexdigest(), data.decode(errors="replace"))
            database.execute("INSERT INTO bare (name, hash, body) VALUES (?,?,?)", row)


def _rows(engine: Engine) -> Iterable[tuple[str, str, str, str]]:
    known = {m.id: m for m in engine.index.select(Filters(), sort="id", limit=-1, offset=0)}
    for name, body in bodies(engine, list(known)):
        memory = known[name]
        yield name, memory.title, "\n".join((*memory.triggers, *memory.topics)), body
