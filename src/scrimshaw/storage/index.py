"""The index in SQL: files, memories, chunks, edges, phrases and sketches. Words and vectors are each engine's own."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain, compress, repeat
from operator import attrgetter, itemgetter
from typing import Any, ClassVar

import msgspec

from scrimshaw.errors import StorageFailure
from scrimshaw.models import QUESTIONS, RECORD, Document, Edge, EdgeKind, Filters, Match, Memory, Neighbor, SourceFile
from scrimshaw.storage.graph import Link, fold_chunks, make_passage, rank_passages, walk
from scrimshaw.storage.journal import MOST_ROWS
from scrimshaw.storage.paths import fold
from scrimshaw.storage.ports import FileState, PendingChunk, Piece, Query, VectorCounts
from scrimshaw.storage.sql import MEMORY_COLUMNS, SqlConnection, SqlDatabase, conditions, make_struct, marks, memory

FIELD_WEIGHTS = (2.0, 2.0, 2.0, 1.0)  # of words in name, title, triggers and body; measured (docs/evaluation)
ROWS_PER_MEMORY = 5  # rows to read per memory wanted, since each chunk has its own
PASSAGES_PER_MATCH = 3  # passages to read per passage wanted, since sessions reorder them

# The number of a text is its memory's, shifted by so many bits, plus 0 for the whole memory or 1 + the chunk's ordinal.
PART_BITS = 20
_EMBED_ORDER = {True: "DESC", False: "ASC"}  # records are read newest first
_OF_RECORD = f"WHERE memory IN (SELECT memories.row FROM memories WHERE source = '{RECORD}')"

# An edge's target is the memory of that id; otherwise the one that had it before a rename; otherwise the first
# memory whose id ends in it. References are resolved when they are read, so they find memories that appear later.
TARGET = """coalesce(
    (SELECT memories.row FROM memories WHERE id = e.reference),
    (SELECT memories.row FROM renames JOIN memories ON memories.id = renames.id WHERE reference = e.reference),
    (SELECT memories.row FROM memories WHERE name = e.reference ORDER BY id LIMIT 1))"""
# How the edges of a memory `w` are found by index. Written as CROSS JOIN so that SQLite goes from a few memories to
# their edges, never over all of them.
_STEPS = (
    ("outgoing", "edges e", "e.source = w.row"),
    ("incoming", "edges e", "e.reference IN (w.id, w.name) AND w.row = z.row"),
    ("incoming", "renames r CROSS JOIN edges e", "r.id = w.id AND e.reference = r.reference AND w.row = z.row"),
)
_STEP = (
    "SELECT a.id, z.id, e.relation, e.strength, e.evidence"
    " FROM memories w CROSS JOIN {} CROSS JOIN memories z CROSS JOIN memories a"
    f" WHERE {{}} AND a.row = e.source AND z.row = {TARGET} AND w.id IN ({{}}) AND {{}}"
)
_SORTS = {"id": "m.id", "title": "m.title, m.id", "created": "m.created DESC, m.id", "updated": "m.updated DESC, m.id"}
_GROUPS = {
    "": "''", "tier": "m.tier", "type": "m.type", "artifact": "m.artifact", "source": "m.source",
    "folder": "CASE WHEN instr(m.id, '/') > 0 THEN substr(m.id, 1, instr(m.id, '/') - 1) ELSE '' END",
    "topic": "t.topic",
}  # fmt: skip
_MOST_ASKED = 10_000  # memories; a statement has room for three times as many
_EXTERNAL = f"""
SELECT m.id, e.reference, e.relation, e.strength, e.evidence FROM edges e JOIN memories m ON m.row = e.source
WHERE e.kind = '{EdgeKind.EXTERNAL}'"""

_CHUNKS = "memories m ON m.id = w.id JOIN chunks c ON c.memory = m.row AND c.ordinal = w.ordinal"
_PIECE = f"SELECT m.id, c.ordinal, {{}}, {{}}, {{}} FROM wanted w JOIN {_CHUNKS}"
# Placeholders: empty bytes, and for a chunk with vectors the bytes of `v.vector`, as each engine writes them.
_TEXT = "c.anchor, c.heading, substr(m.body, c.first + 1, c.last - c.first), c.context"
TEXT_PIECE = _PIECE.format(_TEXT, "{0}", "{0}")
_OF_CHUNK = "LEFT JOIN vectors v ON v.memory = c.memory AND v.ordinal = c.ordinal AND v.model = ?"
_VECTORS = _PIECE.format("'', '', '', ''", "coalesce(packed, {0})", "coalesce({1}, {0})")
VECTOR_PIECE = f"{_VECTORS} {_OF_CHUNK} LEFT JOIN token_vectors t ON t.vector = v.seq"
# With the columns in which a passage differs from its record.
_PASSAGE = f"SELECT m.id, c.ordinal, c.anchor, c.at, c.last - c.first, c.trust, c.worth FROM wanted w JOIN {_CHUNKS}"
COUNT_CHANGE = "UPDATE meta SET value = value + 1 WHERE key = 'generation'"
_FILE = ("source", "size", "mtime_ns", "content_hash", "memory_id", "reason")
_REPLACE_FILE = ", ".join(f"{name} = excluded.{name}" for name in _FILE)
_PUT_FILE = (
    f"INSERT INTO files (path, {', '.join(_FILE)}) VALUES (?,?,?,?,?,?,?)"
    f" ON CONFLICT (path) DO UPDATE SET {_REPLACE_FILE}"
)
_PUT_CHUNK = (
    "INSERT INTO chunks (memory, ordinal, anchor, heading, first, last, context, at, trust, worth, key)"
    " VALUES (?,?,?,?,?,?,?,?,?,?,?)"
)
_PUT_VECTOR = "INSERT INTO vectors (model, memory, ordinal, key, vector) VALUES (?,?,?,?,?) RETURNING seq"
_PUT_VECTORS = (
    "INSERT INTO vectors (model, memory, ordinal, key, vector)"
    " SELECT ?, memory, ordinal, key, {} FROM chunks WHERE key = ? ORDER BY chunks.row ON CONFLICT DO NOTHING"
)
_PUT_TOKENS = (  # by the key's index: a model has most of the vectors
    "INSERT INTO token_vectors SELECT seq, ? FROM vectors WHERE key = ? AND model || '' = ?"
    " ON CONFLICT (vector) DO UPDATE SET packed = excluded.packed"
)
_KNOWN_VECTORS = """
SELECT key, model, v.vector, packed FROM vectors v LEFT JOIN token_vectors t ON t.vector = seq
WHERE v.seq IN (SELECT min(seq) FROM vectors WHERE key IN ({}) GROUP BY key, model)"""
_PUT_PHRASE = "INSERT INTO phrases (memory, head, phrase, is_title) VALUES (?,?,?,?) ON CONFLICT DO NOTHING"
_OF_PHRASE = attrgetter("head", "text", "is_title")
_OF_EDGE = attrgetter("target", "relation", "kind", "strength", "evidence")
_PUT_EDGE = (
    "INSERT INTO edges (source, reference, relation, kind, strength, evidence) VALUES (?,?,?,?,?,?)"
    " ON CONFLICT (source, reference, relation)"
    " DO UPDATE SET kind = excluded.kind, strength = excluded.strength, evidence = excluded.evidence"
)
# The columns of a memory named after fields of a document, and those after fields of its file.
_OF_DOCUMENT = ("title", "type", "tier", "created", "updated", "content_hash", "text_hash", "tokens")
_OF_FILE = ("source", "path", "artifact", "writable")
_PUT_SKETCH = "INSERT INTO sketches (hash, memory) VALUES (?, ?) ON CONFLICT DO NOTHING"
_PUT_TOPIC = "INSERT INTO topics (topic, memory) VALUES (?, ?) ON CONFLICT DO NOTHING"


class Index(ABC):
    """Derived, disposable: everything here can be rebuilt from the files."""

    TEXTS: ClassVar[tuple[str, str]]  #: the table that has the texts for the full-text search, and its numbers of them
    CLEARING: ClassVar[Sequence[str]]  #: the statements that remove everything read from files
    MERGING: ClassVar[Sequence[str]] = ()  #: those that make queries fast again after many memories were replaced
    TEXT_PIECE: ClassVar[str]
    VECTOR_PIECE: ClassVar[str]
    WIDTH: ClassVar[str]  #: SQL: how many numbers `vector` has
    PLACEHOLDER: ClassVar[str] = "?"  #: of a packed vector
    _database: SqlDatabase

    @abstractmethod
    def match_text(self, query: Query, filters: Filters, limit: int) -> list[Match]:
        """The best memories for a query, none if it has no words; for the source `record` the best chunks."""

    @abstractmethod
    def match_vector(self, model: str, vector: Any, filters: Filters, limit: int) -> list[Match]:
        """The memories whose best chunk is nearest to a normalised float32 vector; of `record` the nearest chunks."""

    @abstractmethod
    def generation(self) -> int:
        """A number that changes whenever the index does."""

    @abstractmethod
    def put_words(self, write: SqlConnection, texts: Sequence[tuple[Any, ...]]) -> None:
        """Add texts to the full-text search, each given by its number and fields."""

    @abstractmethod
    def pack_vector(self, vector: Any) -> Any:
        """A vector in the form of the database."""

    @abstractmethod
    def group_vectors(self, model: str) -> None:
        """Store what makes a search of the many vectors of a model fast."""

    def remove_memories(self, write: SqlConnection, where: str, arguments: Sequence[str]) -> None:
        """Remove the memories that satisfy a condition, with everything that belongs to them."""
        table, number = self.TEXTS
        for (row,) in [*write.execute(f"SELECT memories.row FROM memories WHERE {where}", arguments)]:
            first, last = int(row) << PART_BITS, (int(row) + 1 << PART_BITS) - 1
            write.execute(f"DELETE FROM {table} WHERE {number} BETWEEN ? AND ?", (first, last))
            write.execute("DELETE FROM memories WHERE memories.row = ?", (row,))

    def retire(self, paths: Sequence[str] | None, *, merge_words: bool = False) -> None:
        """Forget the files at these paths, or all, and their memories; `merge_words` cleans up after many changes."""
        with self._database.write() as write:
            for statement in self.CLEARING if paths is None else ():
                write.execute(statement)
            for path in paths or ():
                write.execute("DELETE FROM files WHERE path = ?", (path,))
                self.remove_memories(write, "path = ?", (path,))
            for statement in self.MERGING if merge_words else ():
                write.execute(statement)
            write.execute(COUNT_CHANGE)

    def put(self, documents: Sequence[Document]) -> None:
        """Store documents, replacing those of the same id, in one transaction."""
        with self._database.write() as write:
            by_row = dict[int, list[tuple[Any, ...]]]()
            for document in documents:
                file, body = document.file, document.body.text
                labels = "\n".join((*document.triggers, *document.topics, *document.aliases))
                words = (file.memory_id, document.title, labels)
                words = ("", "", "") if file.source == RECORD else words  # each passage would get the first one's
                keys, vectors = list[str](), dict[str, list[list[Any]]]()
                for chunk in document.chunks:
                    keys.append(hashlib.sha256(chunk.embedded_text(body).encode()).hexdigest()[:32])
                for key, *values in write.execute(_KNOWN_VECTORS.format(marks(keys)), keys):
                    vectors.setdefault(key, []).append(values)
                self.remove_memories(write, "id = ? OR path = ?", (file.memory_id, file.path))
                row = _insert_memory(write, document)
                first = row << PART_BITS
                texts = [(first, *words, body)] if len(document.chunks) != 1 else []
                places = list[tuple[Any, ...]]()
                for chunk, key in zip(document.chunks, keys, strict=True):
                    place = (chunk.ordinal, chunk.anchor, chunk.heading, chunk.start, chunk.end, chunk.context)
                    places.append((row, *place, chunk.at, chunk.trust, chunk.worth, key))
                    # A question indexed with the title's words too would push out other memories (measured).
                    of_body = (*words, body[chunk.start : chunk.end])
                    fields = of_body if chunk.ordinal < QUESTIONS else ("", "", "", chunk.context)
                    texts.append((first + 1 + chunk.ordinal, *fields))
                    for model, vector, tokens in vectors.get(key, ()):
                        seq = write.execute(_PUT_VECTOR, (model, row, chunk.ordinal, key, vector)).get
                        if tokens is not None:
                            write.execute("INSERT INTO token_vectors VALUES (?, ?)", (seq, tokens))
                write.executemany(_PUT_CHUNK, places)
                by_row[row] = texts
                state = (file.size, file.mtime_ns, document.content_hash, file.memory_id, document.problem)
                write.execute(_PUT_FILE, (file.path, file.source, *state))
            # All at once: FTS5 writes what it has of words to the disk at the next insert into another table.
            stay = f"SELECT memories.row FROM memories WHERE memories.row IN ({marks(by_row)})"
            rows = map(itemgetter(0), write.execute(stay, [*by_row]))
            self.put_words(write, [*chain.from_iterable(map(by_row.__getitem__, rows))])
            write.execute(COUNT_CHANGE)

    def record_file(self, file: SourceFile, content_hash: str, *, skipped: str = "") -> None:
        """Remember size and time of an unchanged file, or why a file is `skipped`, whose memory is then forgotten."""
        with self._database.write() as write:
            state = (file.size, file.mtime_ns, content_hash)
            if skipped:
                self.remove_memories(write, "path = ?", (file.path,))
                write.execute(_PUT_FILE, (file.path, file.source, *state, "", skipped))
                write.execute(COUNT_CHANGE)
            else:
                changed = "UPDATE files SET size = ?, mtime_ns = ?, content_hash = ? WHERE path = ?"
                write.execute(changed, (*state, file.path))

    def put_links(self, links: Sequence[Edge]) -> None:
        """Replace the edges of kind `external` by these; those with a missing source, or stated by it, are left out."""
        if not links and not self._database.value(_EXTERNAL):
            return
        with self._database.write() as write:
            before = set(write.execute(_EXTERNAL))
            write.execute("DELETE FROM edges WHERE kind = ?", (EdgeKind.EXTERNAL,))
            write.executemany(
                "INSERT INTO edges (source, reference, relation, kind, strength, evidence)"
                f" SELECT memories.row, ?, ?, '{EdgeKind.EXTERNAL}', ?, ? FROM memories WHERE id = ?"
                " ON CONFLICT DO NOTHING",
                [(link.target, link.relation, link.strength, link.evidence, link.source) for link in links],
            )
            if before != set(write.execute(_EXTERNAL)):
                write.execute(COUNT_CHANGE)

    def put_renames(self, renames: Mapping[str, str]) -> None:
        """Replace the current meanings of names that no memory has any more: ids by reference."""
        if renames != dict(self._database.rows("SELECT reference, id FROM renames")):
            with self._database.write() as write:
                write.execute("DELETE FROM renames")
                write.executemany("INSERT INTO renames (reference, id) VALUES (?, ?)", renames.items())
                write.execute(COUNT_CHANGE)

    def manifest(self, source: str = "") -> Mapping[str, FileState]:
        """The known state of the files of a source, or of all sources, by path in order."""
        where, arguments = ("source = ?", [source]) if source else ("true", [])
        files = self._database.structs(FileState, f"files WHERE {where} ORDER BY path", arguments)
        return {file.path: file for file in files}

    def get(self, ids: Sequence[str]) -> dict[str, Memory]:
        """The memories of these ids; an unknown id is absent."""
        sql = f"SELECT {MEMORY_COLUMNS} FROM memories m WHERE m.id IN ({marks(ids)})"
        memories = self._database.read(sql, ids, memory)
        return dict(zip(map(attrgetter("id"), memories), memories, strict=True))

    def bodies(self, ids: Sequence[str]) -> dict[str, str]:
        """The redacted bodies of these memories."""
        return dict(self._database.rows(f"SELECT id, body FROM memories WHERE id IN ({marks(ids)})", ids))

    def pieces(self, wanted: Collection[tuple[str, int]], *, vectors_of: str = "") -> dict[tuple[str, int], Piece]:
        """The chunks named by memory id and ordinal, if known; with `vectors_of` a model's vectors instead of texts."""
        select, arguments = (self.VECTOR_PIECE, [vectors_of]) if vectors_of else (self.TEXT_PIECE, [])
        return {row[:2]: Piece(*row[2:]) for row in self._read_chunks(select, wanted, *arguments)}

    def passages(self, places: Collection[tuple[str, int]], records: Mapping[str, Memory]) -> dict[Any, Memory]:
        """The chunks of these records by document and ordinal, each as a memory with its own id, time and trust."""
        rows = self._read_chunks(_PASSAGE, places)
        return {(row[0], row[1]): make_passage(records[row[0]], *row[2:]) for row in rows if row[0] in records}

    def _read_chunks(self, select: str, places: Collection[tuple[str, int]], *arguments: str) -> list[Any]:
        """The columns of the chunks named by memory id and ordinal."""
        wanted = f"WITH wanted (id, ordinal) AS (SELECT value ->> 0, value ->> 1 FROM json_each(?)) {select}"
        return self._database.rows(wanted, [msgspec.json.encode([*places]).decode(), *arguments]) if places else []

    def select(self, filters: Filters, *, sort: str = "id", limit: int = -1, offset: int = 0) -> list[Memory]:
        """A page of the memories that satisfy the filters; `sort` is `id`, `title`, `created` or `updated`."""
        where, arguments = conditions(filters)
        sql = f"SELECT {MEMORY_COLUMNS} FROM memories m WHERE {where} ORDER BY {_SORTS[sort]} LIMIT ? OFFSET ?"
        return self._database.read(sql, [*arguments, limit if limit >= 0 else MOST_ROWS, offset], memory)

    def count(self, filters: Filters | None, *, by: str = "") -> dict[str, int]:
        """Exact counts by `tier`, `folder`, `topic` and the like, else as `""`; without filters of all chunks."""
        if filters is None:
            return {"": self._database.value("SELECT count(*) FROM chunks")}
        where, arguments = conditions(filters)
        joined = " JOIN topics t ON t.memory = m.row" if by == "topic" else ""
        sql = f"SELECT {_GROUPS[by]} AS grouped, count(*) FROM memories m{joined} WHERE {where} GROUP BY 1 ORDER BY 1"
        return dict(self._database.rows(sql, arguments)) or ({} if by else {"": 0})

    def find_ids(
        self, *, paths: Sequence[str] | None = None, text_hash: str | None = None, differing_in_case: str | None = None
    ) -> list[str]:
        """The ids of memories read from these paths, with a normalised body, or equal to an id except for case."""
        where, arguments = "folded = ?", [fold(differing_in_case or "")]
        if paths is not None:
            where, arguments = f"path IN ({marks(paths)})", list(paths)
        elif text_hash is not None:
            where, arguments = "text_hash = ?", [text_hash]
        return self._database.read(f"SELECT id FROM memories WHERE {where} ORDER BY id", arguments, itemgetter(0))

    def phrases(self, heads: Collection[str], *, titles: bool, holds: Callable[[str], bool]) -> list[tuple[str, str]]:
        """(phrase, memory id) of the phrases, or titles too, with one of these heads for which `holds` is true."""
        sql = f"SELECT phrase, memory FROM phrases WHERE head IN ({marks(heads)}) AND (? OR NOT is_title)"
        found = self._database.rows(sql, [*heads, titles])
        held = [*compress(found, map(holds, map(itemgetter(0), found)))]
        if not held:
            return []
        texts, rows = zip(*held, strict=True)
        names = dict(self._database.rows(f"SELECT m.row, m.id FROM memories m WHERE m.row IN ({marks(rows)})", rows))
        named: Any = zip(texts, map(names.get, rows), strict=True)  # one may be gone since
        return sorted(filter(itemgetter(1), named))

    def near_duplicates(self, sketch: Sequence[int], *, shared: int, limit: int) -> list[str]:
        """The ids of memories that share at least so many hashes with a sketch, most first."""
        sql = (
            f"SELECT id FROM (SELECT memory, count(*) AS common FROM sketches WHERE hash IN ({marks(sketch)})"
            " GROUP BY memory HAVING count(*) >= ?) AS alike"
            " JOIN memories ON memories.row = memory ORDER BY common DESC, id LIMIT ?"
        )
        return self._database.read(sql, [*sketch, shared, limit], itemgetter(0))

    def rank(self, read: Callable[[int], list[Any]], filters: Filters, limit: int) -> list[Match]:
        """The best memories, or passages of records, of the rows that `read` returns: so many of the best."""
        if filters.source == RECORD:
            return rank_passages(read(MOST_ROWS), limit * PASSAGES_PER_MATCH)[:limit]
        wanted = limit * ROWS_PER_MEMORY
        while True:
            rows = read(wanted)
            matches = fold_chunks(rows)
            if len(matches) >= limit or len(rows) < wanted:
                return matches[:limit]
            wanted *= ROWS_PER_MEMORY

    def edges(self, *names: str, relation: str = "", into: bool = False) -> list[tuple[Edge, str]]:
        """Edges as written, from or into these memories, or all, each with the id it means, empty if it dangles."""
        where = f"{'w' if into else 'a'}.id IN ({marks(names)})" if names else "true"
        starts = f"memories {'w CROSS JOIN edges e CROSS JOIN memories a' if into else 'a CROSS JOIN edges e'}"
        if into:
            former = "e.reference IN (SELECT reference FROM renames WHERE id = w.id)"
            where += f" AND (e.reference IN (w.id, w.name) OR {former}) AND {TARGET} = w.row AND a.row <> w.row"
        rows = self._database.rows(
            "SELECT a.id, e.reference, e.relation, e.kind, e.strength, e.evidence,"
            f" coalesce((SELECT id FROM memories WHERE memories.row = {TARGET}), '')"
            f" FROM {starts} WHERE a.row = e.source AND {where}"
            f" AND ? IN ('', e.relation) AND (e.kind <> '{EdgeKind.NEIGHBOURS}' OR {TARGET} IS NOT NULL)"
            " ORDER BY a.id, e.relation, e.reference",
            [*names, relation],
        )
        return [(make_struct(Edge, row[:-1]), row[-1]) for row in rows]

    def chunks_to_embed(
        self, model: str, *, after: int, limit: int, record: bool = False, tokens: bool = False
    ) -> list[PendingChunk]:
        """Chunk texts after `after` without a vector of this model, or `tokens`: records', newest first, or others'."""
        rows = self._database.rows(
            "SELECT c.row, c.key, c.context, substr(m.body, c.first + 1, c.last - c.first) FROM chunks c"
            " JOIN memories m ON m.row = c.memory"
            " LEFT JOIN vectors v ON v.memory = c.memory AND v.ordinal = c.ordinal AND v.model = ?"
            f" WHERE c.row > ? AND (m.source = '{RECORD}') = ? AND (v.seq IS NULL"
            " OR ? AND NOT EXISTS (SELECT 1 FROM token_vectors WHERE vector = v.seq))"
            f" ORDER BY c.row {_EMBED_ORDER[record]} LIMIT ?",
            (model, after, record, tokens, limit),
        )
        return [PendingChunk(row, key, f"{head}\n{text.strip()}".strip()) for row, key, head, text in rows]

    def neighbors(
        self, ids: Sequence[str], *, hops: int, direction: str, relations: Sequence[str] = ()
    ) -> list[Neighbor]:
        """Edges within `hops` of the starts; direction is `outgoing`, `incoming` or `both`."""
        related = f"e.relation IN ({marks(relations)})" if relations else "true"
        steps = [_STEP.format(*step, "{0}", related) for way, *step in _STEPS if direction in (way, "both")]
        links, ring, seen = set[Link](), {*ids}, set[str]()
        for _ in range(hops):
            seen |= ring
            found = list[tuple[Any, ...]]()
            for start in range(0, len(ring), _MOST_ASKED):
                some = sorted(ring)[start : start + _MOST_ASKED]
                sql = " UNION ALL ".join(steps).format(marks(some))
                found += self._database.rows(sql, [*some, *relations] * len(steps))
            links.update(map(Link._make, found))
            ring = {name for link in found for name in link[:2]} - seen
        return walk(ids, links, hops=hops, direction=direction)

    def put_vectors(
        self, model: str, rows: Iterable[tuple[str, Any]], *, tokens: Mapping[str, bytes] = {}, only: bool = False
    ) -> None:
        """Store a normalised vector per chunk, and token vectors; `only` drops other models. Raises StorageFailure."""
        size = self._database.value(f"SELECT {self.WIDTH} FROM vectors WHERE model = ? LIMIT 1", (model,))
        with self._database.write() as write:
            if only:
                write.execute("DELETE FROM vectors WHERE model <> ?", (model,))
            for key, vector in rows:
                size = size or len(vector)
                if len(vector) != size:
                    message = f"The model {model} gave a vector of {len(vector)} numbers; the index holds {size}."
                    raise StorageFailure(message, "Run `scrimshaw rebuild`, or set the model's dimension.")
                write.execute(_PUT_VECTORS.format(self.PLACEHOLDER), (model, self.pack_vector(vector), key))
            write.executemany(_PUT_TOKENS, [(packed, key, model) for key, packed in tokens.items()])
            write.execute(COUNT_CHANGE)
        self.group_vectors(model)

    def vector_counts(self, *, record: bool = False) -> VectorCounts:
        """The number of vectors of each model, of records or of all others."""
        of_record = self._database.value(f"SELECT count(*) FROM chunks {_OF_RECORD}")
        chunks = of_record if record else self._database.value("SELECT count(*) FROM chunks") - of_record
        counted = "SELECT model, count(*) FROM vectors {} GROUP BY model ORDER BY model"  # each is read from an index
        counts = dict(self._database.rows(counted.format(_OF_RECORD)))
        if not record:
            every = self._database.rows(counted.format(""))
            counts = {model: left for model, many in every if (left := many - counts.get(model, 0))}
        return VectorCounts(int(chunks), counts, self._database.value("SELECT count(*) FROM token_vectors"))


def _insert_memory(write: SqlConnection, document: Document) -> int:
    """Insert the row of a memory and the rows that refer to it."""
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
    insert_into = f"INSERT INTO memories ({', '.join(values)}) VALUES ({marks(values)}) RETURNING memories.row"
    row = int(write.execute(insert_into, tuple(values.values())).get)
    write.executemany(_PUT_PHRASE, map((row,).__add__, map(_OF_PHRASE, document.phrases)))
    write.executemany(_PUT_SKETCH, zip(document.sketch, repeat(row)))
    write.executemany(_PUT_TOPIC, zip(map(str.casefold, document.topics), repeat(row)))
    write.executemany(_PUT_EDGE, map((row,).__add__, map(_OF_EDGE, document.edges)))
    return row
