"""The index in SQLite: full text by FTS5, vectors as float16 BLOBs, edges in a table."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw

from scrimshaw.errors import InvalidRequest, StorageFailure
from scrimshaw.models import Chunk, Document, Edge, Filters, Memory, Skip, SourceFile
from scrimshaw.storage import sqlite_erasing, sqlite_graph, sqlite_torn
from scrimshaw.storage.graph import walk
from scrimshaw.storage.paths import fold
from scrimshaw.storage.ports import FileState, Match, Neighbor, PendingChunk, Piece, Wipe
from scrimshaw.storage.sql import GROUPS, MEMORY_COLUMNS, SORTS, conditions, marks, memory
from scrimshaw.storage.sqlite import Database
from scrimshaw.storage.text_rows import whole_and_best_chunk
from scrimshaw.storage.vectors import DiskScan, RamScan, VectorScan

# How much a word counts in name, title, triggers and body; measured on judged queries (docs/evaluation).
FIELD_WEIGHTS = (2.0, 2.0, 2.0, 1.0)
# A memory comes with all its chunks, so this many rows are read for each memory wanted.
ROWS_PER_MEMORY = 5

_TEXT = f"""
SELECT m.id, c.ordinal, -f.rank FROM memory_text f
LEFT JOIN chunks c ON c.row = CASE WHEN f.rowid & 1 THEN f.rowid >> 1 END
JOIN memories m ON m.row = CASE WHEN f.rowid & 1 THEN c.memory ELSE f.rowid >> 1 END
WHERE memory_text MATCH ? AND rank MATCH 'bm25({", ".join(map(str, FIELD_WEIGHTS))})' AND {{}}
ORDER BY f.rank LIMIT ?"""

_REMEMBERED_FILTERS = 64


class SqliteIndex:
    """The Index port over one file."""

    def __init__(self, path: Path, *, busy_timeout_ms: int, ram_scan_max: int) -> None:
        self._database = Database(path, "index", durable=False, busy_timeout_ms=busy_timeout_ms)
        self._ram_scan_max = ram_scan_max
        self._scans: dict[str, VectorScan] = {}
        self._permitted: tuple[int, dict[tuple[Any, ...], set[int] | None]] = (-1, {})
        self._guard = threading.Lock()

    # Writing

    def put(self, documents: Sequence[Document]) -> None:
        """See Index."""
        with self._database.write() as write:
            for document in documents:
                _put(write, document)
            _changed(write)

    def retire(self, paths: Sequence[str]) -> None:
        """See Index."""
        with self._database.write() as write:
            for path in paths:
                write.execute("DELETE FROM files WHERE path = ?", (path,))
                for (row,) in write.execute("SELECT row FROM memories WHERE path = ?", (path,)).fetchall():
                    _remove(write, row)
            _changed(write)
        self._database.drop_log()

    def clear(self) -> None:
        """See Index."""
        with self._database.write() as write:
            write.execute("DELETE FROM vectors; DELETE FROM chunks; DELETE FROM memories; DELETE FROM files")
            write.execute("INSERT INTO memory_text (memory_text) VALUES ('delete-all')")
            _changed(write)

    def merge_text(self) -> None:
        """See Index."""
        with self._database.write() as write:
            write.execute("INSERT INTO memory_text (memory_text) VALUES ('optimize')")
            _changed(write)

    def traces(self, wipe: Wipe) -> dict[str, int]:
        """See Index."""
        return sqlite_erasing.found(self._database, wipe)

    def compact(self) -> list[Path]:
        """See Index."""
        return sqlite_erasing.compact(self._database)

    def sweep(self) -> None:
        """See Index."""
        with self._database.write() as write:
            sqlite_torn.sweep(write)
            _changed(write)

    def touch(self, file: SourceFile, content_hash: str) -> None:
        """See Index."""
        with self._database.write() as write:
            write.execute(
                "UPDATE files SET size = ?, mtime_ns = ?, content_hash = ? WHERE path = ?",
                (file.size, file.mtime_ns, content_hash, file.path),
            )

    def skip(self, file: SourceFile, content_hash: str, reason: str) -> None:
        """See Index."""
        with self._database.write() as write:
            for (row,) in write.execute("SELECT row FROM memories WHERE path = ?", (file.path,)).fetchall():
                _remove(write, row)
            _remember(write, file, content_hash, "", reason)
            _changed(write)

    def put_vectors(self, model: str, rows: Iterable[tuple[str, Any]]) -> None:
        """See Index."""
        size = self._database.value("SELECT length(vector) FROM vectors WHERE model = ? LIMIT 1", (model,))
        with self._database.write() as write:
            for key, vector in rows:
                blob = vector.astype("<f2").tobytes()
                size = size or len(blob)
                if len(blob) != size:
                    raise StorageFailure(
                        f"The model {model} gave a vector of {len(blob) // 2} numbers; the index holds {size // 2}.",
                        "Run `scrimshaw rebuild`, or set the model's dimension.",
                    )
                write.execute(
                    "INSERT OR IGNORE INTO vectors (model, memory, ordinal, key, vector)"
                    " SELECT ?, memory, ordinal, key, ? FROM chunks WHERE key = ? ORDER BY row",
                    (model, blob, key),
                )
            _changed(write)

    def drop_vectors(self, model: str) -> None:
        """See Index."""
        with self._database.write() as write:
            write.execute("DELETE FROM vectors WHERE model = ?", (model,))
            _changed(write)

    # Files

    def manifest(self, source: str) -> Mapping[str, FileState]:
        """See Index."""
        columns = "path, size, mtime_ns, content_hash, memory_id, reason"
        rows = self._database.rows(f"SELECT {columns} FROM files WHERE source = ?", (source,))
        names = columns.split(", ")
        return {row[0]: FileState(**dict(zip(names, row, strict=True))) for row in rows}

    def torn(self) -> list[str]:
        """See Index."""
        return sqlite_torn.torn(self._database)

    def skips(self) -> list[Skip]:
        """See Index."""
        rows = self._database.rows("SELECT path, reason FROM files WHERE reason <> '' ORDER BY path")
        return [Skip(path=path, reason=reason) for path, reason in rows]

    # Exact reading

    def get(self, ids: Sequence[str]) -> dict[str, Memory]:
        """See Index."""
        sql = f"SELECT {MEMORY_COLUMNS} FROM memories m WHERE m.id IN ({marks(ids)})"
        return {found.id: found for found in self._database.read(sql, ids, memory)}

    def bodies(self, ids: Sequence[str]) -> dict[str, str]:
        """See Index."""
        return dict(self._database.rows(f"SELECT id, body FROM memories WHERE id IN ({marks(ids)})", ids))

    def chunks(self, ids: Sequence[str]) -> dict[str, list[Chunk]]:
        """See Index."""
        sql = (
            "SELECT m.id, c.ordinal, c.anchor, c.heading, c.first, c.last, c.context FROM chunks c"
            f" JOIN memories m ON m.row = c.memory WHERE m.id IN ({marks(ids)}) ORDER BY m.id, c.ordinal"
        )
        found: dict[str, list[Chunk]] = {}
        for owner, ordinal, anchor, heading, start, end, context in self._database.rows(sql, ids):
            piece = Chunk(ordinal=ordinal, anchor=anchor, heading=heading, start=start, end=end, context=context)
            found.setdefault(owner, []).append(piece)
        return found

    def pieces(self, wanted: Sequence[tuple[str, int]]) -> dict[str, Piece]:
        """See Index."""
        pairs = ",".join(["(?,?)"] * len(wanted))
        rows = (
            self._database.rows(
                f"WITH wanted (id, ordinal) AS (VALUES {pairs})"
                " SELECT m.id, c.anchor, c.heading, substr(m.body, c.first + 1, c.last - c.first) FROM wanted w"
                " JOIN memories m ON m.id = w.id JOIN chunks c ON c.memory = m.row AND c.ordinal = w.ordinal",
                [value for pair in wanted for value in pair],
            )
            if wanted
            else []
        )
        return {name: Piece(anchor=anchor, heading=heading, text=text) for name, anchor, heading, text in rows}

    def select(self, filters: Filters, *, sort: str, limit: int, offset: int) -> list[Memory]:
        """See Index."""
        if sort not in SORTS:
            raise InvalidRequest(f"Memories cannot be sorted by {sort!r}.", f"Use one of {', '.join(SORTS)}.")
        where, arguments = conditions(filters)
        sql = f"SELECT {MEMORY_COLUMNS} FROM memories m WHERE {where} ORDER BY {SORTS[sort]} LIMIT ? OFFSET ?"
        return self._database.read(sql, [*arguments, limit, offset], memory)

    def count(self, filters: Filters, *, by: str = "") -> dict[str, int]:
        """See Index."""
        if by not in GROUPS:
            raise InvalidRequest(
                f"Memories cannot be counted by {by!r}.", f"Use one of {', '.join(filter(None, GROUPS))}."
            )
        where, arguments = conditions(filters)
        joined = " JOIN topics t ON t.memory = m.row" if by == "topic" else ""
        sql = f"SELECT {GROUPS[by]} AS grouped, count(*) FROM memories m{joined} WHERE {where} GROUP BY 1 ORDER BY 1"
        return dict(self._database.rows(sql, arguments)) or ({} if by else {"": 0})

    def at_paths(self, paths: Sequence[str]) -> dict[str, str]:
        """See Index."""
        return dict(self._database.rows(f"SELECT path, id FROM memories WHERE path IN ({marks(paths)})", paths))

    def same_text(self, text_hash: str) -> list[str]:
        """See Index."""
        rows = self._database.rows("SELECT id FROM memories WHERE text_hash = ? ORDER BY id", (text_hash,))
        return [row[0] for row in rows]

    def twins(self, memory_id: str) -> list[str]:
        """See Index."""
        return [row[0] for row in self._database.rows("SELECT id FROM memories WHERE folded = ?", (fold(memory_id),))]

    # Candidates

    def match_text(self, expression: str, filters: Filters, limit: int) -> list[Match]:
        """See Index."""
        where, arguments = conditions(filters)
        wanted = limit * ROWS_PER_MEMORY
        while True:
            rows = self._database.rows(_TEXT.format(where), [expression, *arguments, wanted])
            matches = whole_and_best_chunk(rows)
            if len(matches) >= limit or len(rows) < wanted:
                return matches[:limit]
            wanted *= ROWS_PER_MEMORY

    def match_vector(self, model: str, vector: Any, filters: Filters, limit: int) -> list[Match]:
        """See Index."""
        generation = self.generation()
        nearest = self._scan(model).nearest(vector, generation, limit, self._allowed(filters, generation))
        names = self._names([row for row, _, _ in nearest])
        found = [Match(id=names[row], score=score, chunk=ordinal) for row, score, ordinal in nearest if row in names]
        return sorted(found, key=lambda match: (-match.score, match.id))

    def _allowed(self, filters: Filters, generation: int) -> set[int] | None:
        """The rows that satisfy the filters, None when all do; remembered until the index changes."""
        where, arguments = conditions(filters)
        key = (where, *arguments)
        with self._guard:
            if self._permitted[0] != generation or len(self._permitted[1]) > _REMEMBERED_FILTERS:
                self._permitted = (generation, {})
            known = self._permitted[1]
        if key not in known:
            rows = {row[0] for row in self._database.rows(f"SELECT row FROM memories m WHERE {where}", arguments)}
            known[key] = None if len(rows) == self._database.value("SELECT count(*) FROM memories") else rows
        return known[key]

    def _scan(self, model: str) -> VectorScan:
        with self._guard:
            if model not in self._scans:
                many = self._database.value("SELECT count(*) FROM chunks") > self._ram_scan_max
                self._scans[model] = DiskScan(self._database, model) if many else RamScan(self._database, model)
            return self._scans[model]

    def _names(self, rows: Sequence[int]) -> dict[int, str]:
        return dict(self._database.rows(f"SELECT row, id FROM memories WHERE row IN ({marks(rows)})", rows))

    def phrases(self, heads: Collection[str], *, titles: bool) -> list[tuple[str, str]]:
        """See Index."""
        sql = (
            f"SELECT p.phrase, m.id FROM phrases p JOIN memories m ON m.row = p.memory WHERE p.head IN ({marks(heads)})"
            f" AND (? OR NOT p.is_title) ORDER BY p.phrase, m.id"
        )
        return [(phrase, name) for phrase, name in self._database.rows(sql, [*heads, titles])]

    def alike(self, sketch: Sequence[int], *, shared: int, limit: int) -> list[str]:
        """See Index."""
        sql = (
            f"SELECT m.id FROM sketches s JOIN memories m ON m.row = s.memory WHERE s.hash IN ({marks(sketch)})"
            " GROUP BY m.id HAVING count(*) >= ? ORDER BY count(*) DESC, m.id LIMIT ?"
        )
        return [row[0] for row in self._database.rows(sql, [*sketch, shared, limit])]

    def generation(self) -> int:
        """See Index."""
        return int(self._database.value("SELECT value FROM meta WHERE key = 'generation'"))

    # Graph

    def neighbors(
        self, ids: Sequence[str], *, hops: int, direction: str, relations: Sequence[str] = ()
    ) -> list[Neighbor]:
        """See Index."""
        links = sqlite_graph.links_around(self._database, ids, hops, direction, relations)
        return walk(ids, links, hops=hops, direction=direction)

    def edges(self, source: str = "") -> list[tuple[Edge, str]]:
        """See Index."""
        return sqlite_graph.edges(self._database, source)

    def dangling(self, ids: Sequence[str], relation: str) -> set[str]:
        """See Index."""
        return sqlite_graph.dangling(self._database, ids, relation)

    def put_links(self, links: Sequence[Edge]) -> None:
        """See Index."""
        if not links and not self._database.value(sqlite_graph.ANY_EXTERNAL):
            return
        with self._database.write() as write:
            if sqlite_graph.put_links(write, links):
                _changed(write)

    # Vectors

    def pending(self, model: str, *, after: int, limit: int) -> list[PendingChunk]:
        """See Index."""
        rows = self._database.rows(
            "SELECT c.row, c.key, c.context, substr(m.body, c.first + 1, c.last - c.first) FROM chunks c"
            " JOIN memories m ON m.row = c.memory"
            " LEFT JOIN vectors v ON v.memory = c.memory AND v.ordinal = c.ordinal AND v.model = ?"
            " WHERE c.row > ? AND v.seq IS NULL ORDER BY c.row LIMIT ?",
            (model, after, limit),
        )
        return [
            PendingChunk(place=row, key=key, text=f"{context}\n{piece.strip()}".strip())
            for row, key, context, piece in rows
        ]

    def vector_progress(self, model: str) -> tuple[int, int]:
        """See Index."""
        done = self._database.value("SELECT count(*) FROM vectors WHERE model = ?", (model,))
        return int(done), int(self._database.value("SELECT count(*) FROM chunks"))

    def vector_models(self) -> dict[str, int]:
        """See Index."""
        return dict(self._database.rows("SELECT model, count(*) FROM vectors GROUP BY model ORDER BY model"))

    # Condition

    def version(self) -> str:
        """See Index."""
        return f"SQLite {apsw.sqlite_lib_version()}"

    def missing(self) -> list[str]:
        """See Index."""
        return self._database.missing()

    def check(self) -> list[str]:
        """See Index."""
        faults = self._database.check()
        with self._database.lend() as connection:
            try:
                connection.execute("INSERT INTO memory_text (memory_text) VALUES ('integrity-check')")
            except apsw.CorruptError as error:
                faults.append(f"full text: {error}")
        return faults or sqlite_torn.faults(self._database)

    def size_bytes(self) -> int:
        """See Index."""
        return self._database.size_bytes()

    def close(self) -> None:
        """See Index."""
        self._database.close()


def _put(write: apsw.Connection, document: Document) -> None:
    file, body = document.file, document.body.text
    keys = [_key(chunk, body) for chunk in document.chunks]
    kept = _vectors_of(write, keys)
    old = "SELECT row FROM memories WHERE id = ? OR path = ?"
    for (row,) in write.execute(old, (file.memory_id, file.path)).fetchall():
        _remove(write, row)
    row = _insert_memory(write, document)
    _insert_details(write, row, document)
    if len(document.chunks) != 1:
        _insert_text(write, row * 2, document, body)
    for chunk, key in zip(document.chunks, keys, strict=True):
        write.execute(
            "INSERT INTO chunks (memory, ordinal, anchor, heading, first, last, context, key) VALUES (?,?,?,?,?,?,?,?)",
            (row, chunk.ordinal, chunk.anchor, chunk.heading, chunk.start, chunk.end, chunk.context, key),
        )
        _insert_text(write, write.last_insert_rowid() * 2 + 1, document, body[chunk.start : chunk.end])
        for model, vector in kept.get(key, {}).items():
            write.execute(
                "INSERT INTO vectors (model, memory, ordinal, key, vector) VALUES (?,?,?,?,?)",
                (model, row, chunk.ordinal, key, vector),
            )
    _remember(write, file, document.content_hash, file.memory_id, "")


def _insert_memory(write: apsw.Connection, document: Document) -> int:
    file, quality, provenance = document.file, document.quality, document.provenance
    columns = (
        file.memory_id,
        fold(file.memory_id),
        file.memory_id.rpartition("/")[2],
        file.source,
        file.path,
        document.title,
        document.type,
        document.tier,
        file.artifact,
        _json(document.triggers),
        _json(document.topics),
        provenance.source,
        provenance.trust,
        provenance.session,
        quality.score if quality else None,
        _json(quality.flags if quality else ()),
        document.created,
        document.updated,
        document.content_hash,
        document.text_hash,
        document.tokens,
        document.label_tokens,
        len(document.body.text),
        file.writable,
        document.body.text,
    )
    write.execute(
        "INSERT INTO memories (id, folded, name, source, path, title, type, tier, artifact, triggers, topics, origin,"
        " trust, session, quality, flags, created, updated, content_hash, text_hash, tokens, label_tokens, length,"
        " writable, body)"
        f" VALUES ({marks(columns)})",
        columns,
    )
    return int(write.last_insert_rowid())


def _insert_text(write: apsw.Connection, rowid: int, document: Document, body: str) -> None:
    triggers = "\n".join((*document.triggers, *document.topics))
    write.execute(
        "INSERT INTO memory_text (rowid, name, title, triggers, body) VALUES (?,?,?,?,?)",
        (rowid, document.file.memory_id, document.title, triggers, body),
    )


def _insert_details(write: apsw.Connection, row: int, document: Document) -> None:
    write.executemany(
        "INSERT OR IGNORE INTO phrases (head, memory, phrase, is_title) VALUES (?, ?, ?, ?)",
        [(phrase.head, row, phrase.text, phrase.is_title) for phrase in document.phrases],
    )
    write.executemany(
        "INSERT OR IGNORE INTO sketches (hash, memory) VALUES (?, ?)", [(hash_, row) for hash_ in document.sketch]
    )
    write.executemany(
        "INSERT OR IGNORE INTO topics (topic, memory) VALUES (?, ?)",
        [(topic.casefold(), row) for topic in document.topics],
    )
    write.executemany(
        "INSERT OR REPLACE INTO edges (source, reference, relation, kind, strength, evidence) VALUES (?,?,?,?,?,?)",
        [(row, edge.target, edge.relation, edge.kind, edge.strength, edge.evidence) for edge in document.edges],
    )


def _vectors_of(write: apsw.Connection, keys: Sequence[str]) -> dict[str, dict[str, bytes]]:
    """The vectors that exist for these chunk texts, by key and model."""
    found: dict[str, dict[str, bytes]] = {}
    sql = f"SELECT key, model, vector FROM vectors WHERE key IN ({marks(keys)})"
    for key, model, vector in write.execute(sql, tuple(keys)):
        found.setdefault(key, {})[model] = vector
    return found


def _remove(write: apsw.Connection, row: Any) -> None:
    write.execute("DELETE FROM memory_text WHERE rowid = ?", (row * 2,))
    write.execute("DELETE FROM memory_text WHERE rowid IN (SELECT row * 2 + 1 FROM chunks WHERE memory = ?)", (row,))
    write.execute("DELETE FROM memories WHERE row = ?", (row,))


def _remember(write: apsw.Connection, file: SourceFile, content_hash: str, memory_id: str, reason: str) -> None:
    write.execute(
        "INSERT OR REPLACE INTO files VALUES (?,?,?,?,?,?,?)",
        (file.path, file.source, file.size, file.mtime_ns, content_hash, memory_id, reason),
    )


def _changed(write: apsw.Connection) -> None:
    write.execute("UPDATE meta SET value = value + 1 WHERE key = 'generation'")


def _key(chunk: Chunk, body: str) -> str:
    return hashlib.sha256(chunk.embedded_text(body).encode()).hexdigest()[:32]


def _json(values: Iterable[str]) -> str:
    return json.dumps(list(values), ensure_ascii=False)
