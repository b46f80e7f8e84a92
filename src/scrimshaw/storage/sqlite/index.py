"""The Index port in SQLite: full text by FTS5, vectors as float16 BLOBs, edges in a table."""

from _thread import allocate_lock  # a hook has no time for `threading`
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from operator import attrgetter, itemgetter
from typing import Any

import apsw
import msgspec

from scrimshaw.errors import StorageFailure
from scrimshaw.models import QUESTIONS, RECORD, Document, Edge, EdgeKind, Filters, Match, Memory, Neighbor, SourceFile
from scrimshaw.storage.graph import Link, fold_chunks, rank_passages, walk
from scrimshaw.storage.paths import fold
from scrimshaw.storage.ports import FileState, PendingChunk, Piece, Query, VectorCounts
from scrimshaw.storage.sql import GROUPS, MEMORY_COLUMNS, SORTS, conditions, marks, memory, passage
from scrimshaw.storage.sqlite.database import Database, insert, make_struct
from scrimshaw.storage.sqlite.vectors import RamScan, VectorScan, find_bodies, scan_disk

# How much a word counts in name, title, triggers and body; measured on judged queries (docs/evaluation).
FIELD_WEIGHTS = (2.0, 2.0, 2.0, 1.0)
ROWS_PER_MEMORY = 5  # a memory comes with all its chunks, so this many rows are read for each memory wanted

# The number of a full-text row is that of its memory, shifted by so many bits, plus 0 for the memory's whole or
# 1 + the chunk's ordinal.
_PART_BITS = 20
# The plus keeps FTS5 from sorting, for which it would rank every row, the unwanted ones too.
_TEXT = f"""
SELECT m.id, (f.rowid & (1 << {_PART_BITS}) - 1) - 1, -f.rank FROM memory_text f
JOIN memories m ON m.row = f.rowid >> {_PART_BITS}
WHERE memory_text MATCH ? AND rank MATCH 'bm25({", ".join(map(str, FIELD_WEIGHTS))})' AND {{}}
ORDER BY +f.rank LIMIT ?"""
_PASSAGES_PER_MATCH = 3  # passages read for each wanted, since a session lifts some over others
_OF_RECORD = f"memory IN (SELECT row FROM memories WHERE source = '{RECORD}')"
_REMEMBERED_FILTERS = 64

# An edge's target is the memory of that id, else the first memory whose last name it is. References are resolved when
# they are read, so a memory that appears later is found.
_TARGET = """coalesce(
    (SELECT row FROM memories WHERE id = e.reference),
    (SELECT row FROM memories WHERE name = e.reference ORDER BY id LIMIT 1))"""
# How the edges at a place are found by index, the place at their other end, and their target.
_STEPS = {
    "outgoing": ("JOIN edges e ON e.source = w.place", _TARGET, _TARGET),
    "incoming": (
        "JOIN memories m ON m.row = w.place"
        f" JOIN edges e ON e.reference IN (m.id, m.name) AND (e.reference = m.id OR {_TARGET} = w.place)",
        "e.source",
        "w.place",
    ),
}
# ?1 are the ids, ?2 the hops, ?3 the relations; an empty list restricts nothing.
_RELATED = "(?3 = '[]' OR e.relation IN (SELECT value FROM json_each(?3)))"
_EXTERNAL = f"""
SELECT m.id, e.reference, e.relation, e.strength, e.evidence FROM edges e JOIN memories m ON m.row = e.source
WHERE e.kind = '{EdgeKind.EXTERNAL}'"""

_CHUNKS = "memories m ON m.id = w.id JOIN chunks c ON c.memory = m.row AND c.ordinal = w.ordinal"
_PIECE = f"SELECT m.id, c.ordinal, c.anchor, c.heading, {{}}, c.context, {{}}, {{}} FROM wanted w JOIN {_CHUNKS}"
_TEXT_PIECE = _PIECE.format("substr(m.body, c.first + 1, c.last - c.first)", "x''", "x''")
_OF_CHUNK = "LEFT JOIN vectors v ON v.memory = c.memory AND v.ordinal = c.ordinal AND v.model = ?"
_VECTORS = _PIECE.format("''", "coalesce(packed, x'')", "coalesce(v.vector, x'')")
_VECTOR_PIECE = f"{_VECTORS} {_OF_CHUNK} LEFT JOIN token_vectors t ON t.vector = v.seq"
_PASSAGE = f"SELECT c.ordinal, c.anchor, c.at, c.trust, c.last - c.first, {MEMORY_COLUMNS} FROM wanted w JOIN {_CHUNKS}"
_COUNT_CHANGE = "UPDATE meta SET value = value + 1 WHERE key = 'generation'"
_PUT_WORDS = "INSERT INTO memory_text (rowid, name, title, triggers, body) VALUES (?,?,?,?,?)"
_PUT_FILE = "INSERT OR REPLACE INTO files VALUES (?,?,?,?,?,?,?)"
_PUT_CHUNK = (
    "INSERT INTO chunks (memory, ordinal, anchor, heading, first, last, context, at, trust, key)"
    " VALUES (?,?,?,?,?,?,?,?,?,?)"
)
_PUT_VECTOR = "INSERT INTO vectors (model, memory, ordinal, key, vector) VALUES (?,?,?,?,?)"
_KNOWN_VECTORS = """
SELECT key, model, v.vector, packed FROM vectors v LEFT JOIN token_vectors t ON t.vector = seq
WHERE key IN ({}) GROUP BY key, model"""
_PUT_TOKENS = "INSERT OR REPLACE INTO token_vectors SELECT seq, ? FROM vectors WHERE key = ? AND model = ?"
_PUT_PHRASE = "INSERT OR IGNORE INTO phrases (head, memory, phrase, is_title) VALUES (?,?,?,?)"
_PUT_EDGE = "INSERT OR REPLACE INTO edges (source, reference, relation, kind, strength, evidence) VALUES (?,?,?,?,?,?)"
# The columns of a memory that have their names from a document, and those from its file.
_OF_DOCUMENT = (
    "title", "type", "tier", "created", "updated", "content_hash", "text_hash", "tokens", "label_tokens"
)  # fmt: skip
_OF_FILE = ("source", "path", "artifact", "writable")
BELONGING = ("phrases", "sketches", "topics", "chunks", "vectors")
_WORDS_OF_NOTHING = f"""
DELETE FROM memory_text WHERE rowid IN (
    SELECT t.id FROM memory_text_docsize t
    LEFT JOIN chunks c ON c.memory = t.id >> {_PART_BITS} AND c.ordinal = (t.id & (1 << {_PART_BITS}) - 1) - 1
    LEFT JOIN memories m ON m.row << {_PART_BITS} = t.id
    WHERE c.row IS NULL AND m.row IS NULL)"""

# Paths of files whose memory is missing in part, and of memories of no known file. 6 ms for 1,000 memories.
# A memory has at least one chunk; chunks are numbered from 0 and cover the body, those of questions from QUESTIONS;
# each has a row in the full-text table, and so has a memory of several chunks as a whole. FTS5's own table of the rows
# it holds is `memory_text_docsize`.
INCOMPLETE = f"""
WITH pieces AS (
    SELECT c.memory, count(*) AS many, max(c.last) AS reach, count(t.id) AS worded,
        max(iif(c.ordinal < {QUESTIONS}, c.ordinal + 1, 0)) + max(0, max(c.ordinal) - {QUESTIONS} + 1) AS numbered
    FROM chunks c LEFT JOIN memory_text_docsize t ON t.id = (c.memory << {_PART_BITS}) + 1 + c.ordinal
    GROUP BY c.memory)
SELECT f.path FROM files f
LEFT JOIN memories m ON m.path = f.path AND m.id = f.memory_id
LEFT JOIN pieces p ON p.memory = m.row
LEFT JOIN memory_text_docsize w ON w.id = m.row << {_PART_BITS}
WHERE f.memory_id <> '' AND (
    p.memory IS NULL OR p.many <> p.numbered OR p.reach <> m.length OR p.worded <> p.many
    OR (p.many > 1) <> (w.id IS NOT NULL))
UNION SELECT m.path FROM memories m LEFT JOIN files f ON f.path = m.path WHERE f.path IS NULL
ORDER BY 1"""


class SqliteIndex:
    """The Index port over one file."""

    def __init__(self, database: Database, *, ram_scan_max: int) -> None:
        self._database = database
        self._ram_scan_max = ram_scan_max
        self._scans: tuple[int, dict[str, VectorScan]] = (0, {})
        self._permitted: tuple[int, dict[tuple[Any, ...], set[int] | None]] = (-1, {})
        self._guard = allocate_lock()

    def put(self, documents: Sequence[Document]) -> None:
        import hashlib  # noqa: PLC0415 - loads OpenSSL, which a hook has no use for

        with self._database.write() as write:
            for document in documents:
                file, body = document.file, document.body.text
                words = (file.memory_id, document.title, "\n".join((*document.triggers, *document.topics)))
                words = ("", "", "") if file.source == RECORD else words  # else every passage had those of the first
                keys, vectors = list[str](), dict[str, list[list[Any]]]()
                for chunk in document.chunks:
                    keys.append(hashlib.sha256(chunk.embedded_text(body).encode()).hexdigest()[:32])
                for key, *values in write.execute(_KNOWN_VECTORS.format(marks(keys)), keys):
                    vectors.setdefault(key, []).append(values)
                _remove_memories(write, "id = ? OR path = ?", (file.memory_id, file.path))
                row = _insert_memory(write, document)
                first = row << _PART_BITS
                if len(document.chunks) != 1:
                    write.execute(_PUT_WORDS, (first, *words, body))
                for chunk, key in zip(document.chunks, keys, strict=True):
                    place = (chunk.ordinal, chunk.anchor, chunk.heading, chunk.start, chunk.end, chunk.context)
                    write.execute(_PUT_CHUNK, (row, *place, chunk.at, chunk.trust, key))
                    # A question that is found by the words of the title too pushes out other memories (measured).
                    of_body = (*words, body[chunk.start : chunk.end])
                    fields = of_body if chunk.ordinal < QUESTIONS else ("", "", "", chunk.context)
                    write.execute(_PUT_WORDS, (first + 1 + chunk.ordinal, *fields))
                    for model, vector, tokens in vectors.get(key, ()):
                        write.execute(_PUT_VECTOR, (model, row, chunk.ordinal, key, vector))
                        if tokens is not None:
                            write.execute("INSERT INTO token_vectors VALUES (last_insert_rowid(), ?)", (tokens,))
                state = (file.size, file.mtime_ns, document.content_hash, file.memory_id, document.problem)
                write.execute(_PUT_FILE, (file.path, file.source, *state))
            write.execute(_COUNT_CHANGE)

    def retire(self, paths: Sequence[str] | None, *, orphans: bool = False) -> None:
        with self._database.write() as write:
            if paths is None:
                for table in ("token_vectors", "vectors", "chunks", "memories", "files"):
                    write.execute(f"DELETE FROM {table}")
                write.execute("INSERT INTO memory_text (memory_text) VALUES ('delete-all')")
            for path in paths or ():
                write.execute("DELETE FROM files WHERE path = ?", (path,))
                _remove_memories(write, "path = ?", (path,))
            if orphans:
                for table in BELONGING:
                    write.execute(f"DELETE FROM {table} WHERE memory NOT IN (SELECT row FROM memories)")
                write.execute("DELETE FROM edges WHERE source NOT IN (SELECT row FROM memories)")
                write.execute(_WORDS_OF_NOTHING)
            write.execute(_COUNT_CHANGE)
        if paths:
            self._database.rows("PRAGMA wal_checkpoint(TRUNCATE)")  # which has what was deleted until it is overwritten

    def record_file(self, file: SourceFile, content_hash: str, *, skipped: str = "") -> None:
        with self._database.write() as write:
            state = (file.size, file.mtime_ns, content_hash)
            if skipped:
                _remove_memories(write, "path = ?", (file.path,))
                write.execute(_PUT_FILE, (file.path, file.source, *state, "", skipped))
                write.execute(_COUNT_CHANGE)
            else:
                changed = "UPDATE files SET size = ?, mtime_ns = ?, content_hash = ? WHERE path = ?"
                write.execute(changed, (*state, file.path))

    def put_links(self, links: Sequence[Edge]) -> None:
        if not links and not self._database.value(_EXTERNAL):
            return
        with self._database.write() as write:
            before = set(write.execute(_EXTERNAL))
            write.execute("DELETE FROM edges WHERE kind = ?", (EdgeKind.EXTERNAL,))
            write.executemany(
                "INSERT OR IGNORE INTO edges (source, reference, relation, kind, strength, evidence)"
                f" SELECT row, ?, ?, '{EdgeKind.EXTERNAL}', ?, ? FROM memories WHERE id = ?",
                [(link.target, link.relation, link.strength, link.evidence, link.source) for link in links],
            )
            if before != set(write.execute(_EXTERNAL)):
                write.execute(_COUNT_CHANGE)

    def manifest(self, source: str = "") -> Mapping[str, FileState]:
        where, arguments = ("source = ?", [source]) if source else ("1", [])
        files = self._database.structs(FileState, f"files WHERE {where} ORDER BY path", arguments)
        return {file.path: file for file in files}

    def incomplete_files(self) -> list[str]:
        return self._database.read(INCOMPLETE, (), itemgetter(0))

    def get(self, ids: Sequence[str]) -> dict[str, Memory]:
        sql = f"SELECT {MEMORY_COLUMNS} FROM memories m WHERE m.id IN ({marks(ids)})"
        memories = self._database.read(sql, ids, memory)
        return dict(zip(map(attrgetter("id"), memories), memories, strict=True))

    def bodies(self, ids: Sequence[str]) -> dict[str, str]:
        return dict(self._database.rows(f"SELECT id, body FROM memories WHERE id IN ({marks(ids)})", ids))

    def pieces(self, wanted: Collection[tuple[str, int]], *, vectors_of: str = "") -> dict[tuple[str, int], Piece]:
        select, arguments = (_VECTOR_PIECE, [vectors_of]) if vectors_of else (_TEXT_PIECE, [])
        rows = self._read_chunks(select, wanted, *arguments)
        return {row[:2]: make_struct(Piece, row[2:]) for row in rows}

    def passages(self, places: Collection[tuple[str, int]]) -> dict[tuple[str, int], Memory]:
        rows = self._read_chunks(_PASSAGE, places)
        return {(each.id, row[0]): passage(each, *row[1:5]) for row in rows for each in [memory(row[5:])]}

    def _read_chunks(self, select: str, places: Collection[tuple[str, int]], *arguments: str) -> list[Any]:
        """The columns of the chunks named by memory id and ordinal."""
        pairs = ",".join(["(?,?)"] * len(places))
        wanted = f"WITH wanted (id, ordinal) AS (VALUES {pairs}) {select}"
        return self._database.rows(wanted, [*chain.from_iterable(places), *arguments]) if places else []

    def select(self, filters: Filters, *, sort: str = "id", limit: int = -1, offset: int = 0) -> list[Memory]:
        where, arguments = conditions(filters)
        sql = f"SELECT {MEMORY_COLUMNS} FROM memories m WHERE {where} ORDER BY {SORTS[sort]} LIMIT ? OFFSET ?"
        return self._database.read(sql, [*arguments, limit, offset], memory)

    def count(self, filters: Filters, *, by: str = "") -> dict[str, int]:
        where, arguments = conditions(filters)
        joined = " JOIN topics t ON t.memory = m.row" if by == "topic" else ""
        sql = f"SELECT {GROUPS[by]} AS grouped, count(*) FROM memories m{joined} WHERE {where} GROUP BY 1 ORDER BY 1"
        return dict(self._database.rows(sql, arguments)) or ({} if by else {"": 0})

    def find_ids(
        self, *, paths: Sequence[str] | None = None, text_hash: str | None = None, differing_in_case: str | None = None
    ) -> list[str]:
        where, arguments = "folded = ?", [fold(differing_in_case or "")]
        if paths is not None:
            where, arguments = f"path IN ({marks(paths)})", list(paths)
        elif text_hash is not None:
            where, arguments = "text_hash = ?", [text_hash]
        return self._database.read(f"SELECT id FROM memories WHERE {where} ORDER BY id", arguments, itemgetter(0))

    def match_text(self, query: Query, filters: Filters, limit: int) -> list[Match]:
        expression = match_expression(query)
        if not expression:
            return []
        where, arguments = conditions(filters)
        if filters.source == RECORD:
            rows = self._database.rows(_TEXT.format(where), (expression, *arguments, -1))
            return rank_passages(rows, limit * _PASSAGES_PER_MATCH)[:limit]
        wanted = limit * ROWS_PER_MEMORY
        while True:
            rows = self._database.rows(_TEXT.format(where), [expression, *arguments, wanted])
            matches = fold_chunks(rows)
            if len(matches) >= limit or len(rows) < wanted:
                return matches[:limit]
            wanted *= ROWS_PER_MEMORY

    def match_vector(self, model: str, vector: Any, filters: Filters, limit: int) -> list[Match]:
        generation = self.generation()
        with self._guard:
            if self._scans[0] != self._database.openings:
                self._scans = (self._database.openings, {})
            scans = self._scans[1]
            if model not in scans:
                many = self._database.value("SELECT count(*) FROM chunks") > self._ram_scan_max
                on_disk = partial(scan_disk, self._database, model)
                scans[model] = on_disk if many else RamScan(self._database, model)
            scan = scans[model]
        nearest = scan(vector, generation, limit, self._rows_satisfying(filters, generation), filters.source != RECORD)
        rows = [row for row, _, _ in nearest]
        names = dict(self._database.rows(f"SELECT row, id FROM memories WHERE row IN ({marks(rows)})", rows))
        asked = {row: ordinal - QUESTIONS for row, _, ordinal in nearest if ordinal >= QUESTIONS}
        bodies = find_bodies(self._database, model, vector, asked) if asked else {}
        found = [
            Match(id=names[row], score=score, chunk=bodies.get(row, -1 if row in asked else ordinal),
                  question=asked.get(row, -1))
            for row, score, ordinal in nearest
            if row in names
        ]  # fmt: skip
        return sorted(found, key=lambda match: (-match.score, match.id, match.chunk))

    def _rows_satisfying(self, filters: Filters, generation: int) -> set[int] | None:
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

    def phrases(self, heads: Collection[str], *, titles: bool) -> list[tuple[str, str]]:
        sql = (
            f"SELECT p.phrase, m.id FROM phrases p JOIN memories m ON m.row = p.memory WHERE p.head IN ({marks(heads)})"
            f" AND (? OR NOT p.is_title) ORDER BY p.phrase, m.id"
        )
        return self._database.rows(sql, [*heads, titles])

    def near_duplicates(self, sketch: Sequence[int], *, shared: int, limit: int) -> list[str]:
        sql = (
            f"SELECT id FROM (SELECT memory, count(*) AS common FROM sketches WHERE hash IN ({marks(sketch)})"
            " GROUP BY memory HAVING common >= ?) JOIN memories ON row = memory ORDER BY common DESC, id LIMIT ?"
        )
        return self._database.read(sql, [*sketch, shared, limit], itemgetter(0))

    def generation(self) -> int:
        count = int(self._database.value("SELECT value FROM meta WHERE key = 'generation'"))
        # A file that took the place of another may have counted as many changes.
        return count and count + (self._database.openings << 32)

    def neighbors(
        self, ids: Sequence[str], *, hops: int, direction: str, relations: Sequence[str] = ()
    ) -> list[Neighbor]:
        steps = [_STEPS[name] for name in ("outgoing", "incoming") if direction in (name, "both")]
        walking = "".join(
            f" UNION SELECT {far}, w.hop + 1 FROM walk w {join} WHERE w.hop < ?2 AND {_RELATED}"
            for join, far, _ in steps
        )
        meeting = " UNION ".join(
            f"SELECT e.source, {target} AS target, e.relation, e.strength, e.evidence FROM places w {join}"
            f" WHERE {_RELATED}"
            for join, _, target in steps
        )
        # The last joins are CROSS so that SQLite goes from these few edges to their memories, never over all memories.
        sql = f"""
        WITH RECURSIVE walk (place, hop) AS (
            SELECT row, 1 FROM memories WHERE id IN (SELECT value FROM json_each(?1)){walking}
        ),
        places AS MATERIALIZED (SELECT DISTINCT place FROM walk)
        SELECT a.id, z.id, s.relation, s.strength, s.evidence FROM ({meeting}) s
        CROSS JOIN memories a ON a.row = s.source CROSS JOIN memories z ON z.row = s.target"""
        rows = self._database.rows(
            sql, [msgspec.json.encode(ids).decode(), hops, msgspec.json.encode(relations).decode()]
        )
        return walk(ids, [Link(*row) for row in rows], hops=hops, direction=direction)

    def edges(self, *sources: str, relation: str = "") -> list[tuple[Edge, str]]:
        where = f"a.id IN ({marks(sources)})" if sources else "1"
        rows = self._database.rows(
            "SELECT a.id, e.reference, e.relation, e.kind, e.strength, e.evidence,"
            f" coalesce((SELECT id FROM memories WHERE row = {_TARGET}), '')"
            f" FROM memories a CROSS JOIN edges e ON a.row = e.source WHERE {where}"
            " AND ? IN ('', e.relation) ORDER BY a.id, e.relation, e.reference",
            [*sources, relation],
        )
        return [(make_struct(Edge, row[:-1]), row[-1]) for row in rows]

    def chunks_to_embed(
        self, model: str, *, after: int, limit: int, record: bool = False, tokens: bool = False
    ) -> list[PendingChunk]:
        rows = self._database.rows(
            "SELECT c.row, c.key, c.context, substr(m.body, c.first + 1, c.last - c.first) FROM chunks c"
            " JOIN memories m ON m.row = c.memory"
            " LEFT JOIN vectors v ON v.memory = c.memory AND v.ordinal = c.ordinal AND v.model = ?"
            f" WHERE c.row > ? AND (m.source = '{RECORD}') = ? AND (v.seq IS NULL"
            " OR ? AND NOT EXISTS (SELECT 1 FROM token_vectors WHERE vector = v.seq)) ORDER BY c.row LIMIT ?",
            (model, after, record, tokens, limit),
        )
        return [PendingChunk(row, key, f"{head}\n{text.strip()}".strip()) for row, key, head, text in rows]

    def put_vectors(
        self, model: str, rows: Iterable[tuple[str, Any]], *, tokens: Mapping[str, bytes] = {}, only: bool = False
    ) -> None:
        size = self._database.value("SELECT length(vector) FROM vectors WHERE model = ? LIMIT 1", (model,))
        with self._database.write() as write:
            if only:
                write.execute("DELETE FROM vectors WHERE model <> ?", (model,))
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
            write.executemany(_PUT_TOKENS, [(packed, key, model) for key, packed in tokens.items()])
            write.execute(_COUNT_CHANGE)

    def vector_counts(self, *, record: bool = False) -> VectorCounts:
        of_record = self._database.value(f"SELECT count(*) FROM chunks WHERE {_OF_RECORD}")
        chunks = of_record if record else self._database.value("SELECT count(*) FROM chunks") - of_record
        counted = f"SELECT model, count(*) FROM vectors WHERE ({_OF_RECORD}) = ? GROUP BY model ORDER BY model"
        with_tokens = self._database.value("SELECT count(*) FROM token_vectors")
        return VectorCounts(int(chunks), dict(self._database.rows(counted, (record,))), with_tokens)


def match_expression(query: Query) -> str:
    """The FTS5 expression of a query; empty when it has no words.

    Each word stands in double quotes, so nothing in it is read as an operator, a column or a prefix.
    """
    star = "*" if query.is_prefix else ""
    quoted = [['"' + word.replace('"', '""') + '"' + star for word in group] for group in query.groups if group]
    groups = [" OR ".join(words) for words in quoted]
    return groups[0] if len(groups) == 1 else " AND ".join(f"({group})" for group in groups)


def _insert_memory(write: apsw.Connection, document: Document) -> int:
    """The row of a memory, with what is looked up by it."""
    file, quality, provenance = document.file, document.quality, document.provenance
    values = {
        **dict(zip(_OF_DOCUMENT, attrgetter(*_OF_DOCUMENT)(document), strict=True)),
        **dict(zip(_OF_FILE, attrgetter(*_OF_FILE)(file), strict=True)),
        "id": file.memory_id,
        "folded": fold(file.memory_id),
        "name": file.memory_id.rpartition("/")[2],
        "triggers": msgspec.json.encode(document.triggers).decode(),
        "topics": msgspec.json.encode(document.topics).decode(),
        "questions": msgspec.json.encode(document.questions).decode() if document.questions else "",
        "origin": provenance.source,
        "trust": provenance.trust,
        "session": provenance.session,
        "quality": quality.score if quality else None,
        "flags": msgspec.json.encode(quality.flags if quality else ()).decode(),
        "length": len(document.body.text),
        "body": document.body.text,
    }
    insert(write, "INSERT INTO memories", values)
    row = int(write.last_insert_rowid())
    for phrase in document.phrases:
        write.execute(_PUT_PHRASE, (phrase.head, row, phrase.text, phrase.is_title))
    write.executemany("INSERT OR IGNORE INTO sketches (hash, memory) VALUES (?, ?)", zip(document.sketch, repeat(row)))
    topics = map(str.casefold, document.topics)
    write.executemany("INSERT OR IGNORE INTO topics (topic, memory) VALUES (?, ?)", zip(topics, repeat(row)))
    for edge in document.edges:
        write.execute(_PUT_EDGE, (row, edge.target, edge.relation, edge.kind, edge.strength, edge.evidence))
    return row


def _remove_memories(write: apsw.Connection, where: str, arguments: Sequence[str]) -> None:
    for (row,) in [*write.execute(f"SELECT row FROM memories WHERE {where}", arguments)]:
        first = int(row) << _PART_BITS
        write.execute("DELETE FROM memory_text WHERE rowid BETWEEN ? AND ?", (first, first + (1 << _PART_BITS) - 1))
        write.execute("DELETE FROM memories WHERE row = ?", (row,))
