"""The Index port in PostgreSQL: words in a table of their own, ranked as SQLite ranks them; vectors by pgvector."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any

import apsw
import numpy as np
from msgspec.structs import replace

from scrimshaw.models import QUESTIONS, RECORD, Filters, Match
from scrimshaw.storage.graph import make_match
from scrimshaw.storage.index import FIELD_WEIGHTS, PART_BITS, TEXT_PIECE, VECTOR_PIECE, Index
from scrimshaw.storage.ports import Piece, Query
from scrimshaw.storage.postgres.database import PostgresConnection, PostgresDatabase
from scrimshaw.storage.sql import SqlConnection, conditions, marks

_FIELD_BITS = 24  # of the position of a word in its field; the bits above have the field
# The texts with a word, or with adjacent words: how often, times the weight of the field. All words are
# looked up by one statement for any number of words, so that the server plans it once.
_WORDS = """
SELECT q.phrase, q.grouped, w.part, w.length, w.weight
FROM unnest(?::int[], ?::int[], ?::text[]) AS q (phrase, grouped, term) JOIN words w ON w.term = q.term"""
_WEIGHT = f"(ARRAY[{', '.join(map(str, FIELD_WEIGHTS))}]::real[])[(p >> {_FIELD_BITS}) + 1]"
_PHRASE = f"""
SELECT ?::int AS phrase, ?::int AS grouped, w.part, w.length, sum({_WEIGHT})::real AS weight
FROM words w CROSS JOIN unnest(w.places) AS p WHERE {{}} GROUP BY w.part, w.length"""
# A word's weights of all its places are added up already, and are in the index: the table need not be read.
_PREFIX = """
SELECT ?::int AS phrase, ?::int AS grouped, w.part, w.length, sum(w.weight) AS weight
FROM words w WHERE {} GROUP BY w.part, w.length"""
_IS_WORD, _IS_PREFIX = "{0}.term = ?", "{0}.term >= ? AND {0}.term < ? || chr(1114111)"
_FOLLOWS = "EXISTS (SELECT 1 FROM words x WHERE x.part = w.part AND p + {} = ANY (x.places) AND {})"
# BM25 as in FTS5: the rarer a word, the more it counts; one in most texts hardly counts. With the inner order the
# server reads and filters the memories of the best texts only.
_TEXT = f"""
WITH hits AS MATERIALIZED ({{}}), rare AS MATERIALIZED (
    SELECT phrase, greatest(ln((greatest(?::float8 - count(*), 0) + 0.5::float8) / (count(*) + 0.5::float8)), 1e-6)
        AS rarity FROM hits GROUP BY phrase),
ranked AS (
    SELECT h.part, sum(rarity * weight * 2.2 / (weight + 1.2 * (0.25 + 0.75 * length / ?::float8))) AS score
    FROM hits h JOIN rare USING (phrase) GROUP BY h.part {{}})
SELECT m.id, (r.part & (1 << {PART_BITS}) - 1) - 1, r.score FROM (SELECT * FROM ranked ORDER BY score DESC, part) r
JOIN memories m ON m.row = r.part >> {PART_BITS} WHERE {{}} ORDER BY r.score DESC, r.part LIMIT ?"""
_ALL_GROUPS = "HAVING count(DISTINCT grouped) = ?"

_DISTANCE = "v.vector::public.halfvec({0}) OPERATOR(public.<#>) ?::public.halfvec({0})"
_OF_MODEL = (
    "FROM vectors v JOIN memories m ON m.row = v.memory WHERE v.model = ? AND public.vector_dims(v.vector) = {0}"
)
_BYTES = "substr(public.halfvec_send(v.vector), 5)"  # after the bytes with its dimension
# The graph uses the query in float16; its candidates are compared with the original query.
_NEAREST = f"""
SELECT id, ordinal, -(vector::public.vector({{0}}) OPERATOR(public.<#>) ?::public.vector({{0}}))
FROM (SELECT m.id, v.ordinal, v.vector {_OF_MODEL} AND {{1}} ORDER BY {_DISTANCE} LIMIT ?) AS nearest"""
_BODIES = (
    f"SELECT DISTINCT ON (m.id) m.id, v.ordinal {_OF_MODEL} AND v.ordinal < {QUESTIONS} AND m.id IN ({{1}})"
    f" ORDER BY m.id, {_DISTANCE}, v.ordinal"
)
_GRAPH = """
CREATE INDEX IF NOT EXISTS vectors_graph_{0} ON vectors
USING hnsw ((vector::public.halfvec({0})) public.halfvec_ip_ops) WHERE public.vector_dims(vector) = {0}"""


class PostgresIndex(Index):
    """The Index port over the index of a vault."""

    TEXTS = ("texts", "part")
    CLEARING = ("DELETE FROM texts", "DELETE FROM memories", "DELETE FROM files")
    WIDTH, PLACEHOLDER = "public.vector_dims(vector)", "?::public.halfvec"
    TEXT_PIECE = TEXT_PIECE.format("''::bytea")
    VECTOR_PIECE = VECTOR_PIECE.format("''::bytea", _BYTES)
    graph_from = 20_000  #: vectors; below that, comparing all is as fast as a graph, and misses none

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        # SQLite's own tokeniser, so that words are the same in both engines.
        self._tokenizer = apsw.Connection(":memory:").fts5_tokenizer("porter", ["unicode61"])
        self._corpus = (-1, 0, 1.0)  #: a generation, its number of texts, and their mean number of words

    def generation(self) -> int:
        return int(self._database.value("SELECT value FROM meta WHERE key = 'generation'"))

    def pieces(self, wanted: Collection[tuple[str, int]], *, vectors_of: str = "") -> dict[tuple[str, int], Piece]:
        found = super().pieces(wanted, vectors_of=vectors_of)
        return {
            place: replace(found[place], vector=np.frombuffer(found[place].vector, ">f2").astype("<f2").tobytes())
            for place in wanted
            if place in found
        }

    def _read_chunks(self, select: str, places: Collection[tuple[str, int]], *arguments: str) -> list[Any]:
        # Lists, so that the statement is the same for any number of chunks, and is planned once.
        ids, ordinals = zip(*places, strict=True) if places else ((), ())
        wanted = f"WITH wanted (id, ordinal) AS (SELECT * FROM unnest(?::text[], ?::int[])) {select}"
        return self._database.rows(wanted, (list(ids), list(ordinals), *arguments)) if places else []

    def put_words(self, write: SqlConnection, texts: Sequence[tuple[Any, ...]]) -> None:
        lengths, words = list[tuple[int, int]](), list[tuple[str, int, int, float, str]]()
        for part, *fields in texts:
            places = defaultdict[str, list[int]](list)
            for number, field in enumerate(fields):
                for place, term in enumerate(self._tokenize(field, apsw.FTS5_TOKENIZE_DOCUMENT)):
                    places[term].append((number << _FIELD_BITS) + place)
            length = sum(map(len, places.values()))
            lengths.append((part, length))
            for term, found in places.items():
                weight = sum(FIELD_WEIGHTS[place >> _FIELD_BITS] for place in found)
                words.append((term, part, length, weight, f"{{{','.join(map(str, found))}}}"))
        assert isinstance(write, PostgresConnection)
        write.copy("texts (part, length)", lengths)
        write.copy("words (term, part, length, weight, places)", words)

    def match_text(self, query: Query, filters: Filters, limit: int) -> list[Match]:
        hits, words, groups = self.find_words(query)
        if not hits:
            return []
        where, arguments = conditions(filters)
        having, needed = (_ALL_GROUPS, (groups,)) if groups > 1 else ("", ())
        sql = _TEXT.format(" UNION ALL ".join(hits), having, where)
        bound = (*words, *self.measure_corpus(), *needed, *arguments)
        return self.rank(lambda wanted: self._database.rows(sql, (*bound, wanted)), filters, limit)

    def find_words(self, query: Query) -> tuple[list[str], list[Any], int]:
        """(statements that find the phrases of a query, their arguments, the number of groups a text must match)."""
        words, hits, arguments = list[tuple[int, int, str]](), list[str](), list[Any]()
        groups = [group for group in query.groups if group]
        reason = apsw.FTS5_TOKENIZE_QUERY | (apsw.FTS5_TOKENIZE_PREFIX if query.is_prefix else 0)
        numbered = ((number, word) for number, group in enumerate(groups) for word in group)
        for phrase, (number, word) in enumerate(numbered):
            terms = self._tokenize(word, reason)
            if len(terms) == 1 and not query.is_prefix:
                words.append((phrase, number, terms[0]))
                continue
            parts, values = list[str](), list[Any]()
            for place, term in enumerate(terms):
                is_prefix = query.is_prefix and place == len(terms) - 1
                table = "x" if place else "w"
                same = (_IS_PREFIX if is_prefix else _IS_WORD).format(table)
                parts.append(_FOLLOWS.format(place, same) if place else same)
                values += [term] * (1 + is_prefix)
            if terms:
                hits.append((_PHRASE if len(terms) > 1 else _PREFIX).format(" AND ".join(parts)))
                arguments += [phrase, number, *values]
        if words:
            hits, arguments = [_WORDS, *hits], [*map(list, zip(*words, strict=True)), *arguments]
        return hits, arguments, len(groups)

    def _tokenize(self, text: str, reason: int) -> list[str]:
        found = self._tokenizer(text.encode(), reason, None, include_offsets=False, include_colocated=False)
        return list(map(str, found))

    def measure_corpus(self) -> tuple[int, float]:
        """(number of texts, their mean number of words), cached for this generation of the index."""
        generation = self.generation()
        if self._corpus[0] != generation:
            many, words = self._database.rows("SELECT count(*), coalesce(sum(length), 0) FROM texts")[0]
            self._corpus = (generation, many, max(1.0, float(words)) / max(1, many))
        return self._corpus[1:]

    def match_vector(self, model: str, vector: Any, filters: Filters, limit: int) -> list[Match]:
        where, arguments = conditions(filters)
        width, query = len(vector), self.pack_vector(vector)
        take, is_whole = limit, filters.source != RECORD
        while True:
            take *= 4
            sql = _NEAREST.format(width, where)
            rows = self._database.rows(sql, (_write_vector(vector), model, *arguments, query, take))
            best: dict[tuple[str, int], tuple[float, str, int]] = {}
            for name, ordinal, score in sorted(rows, key=lambda row: (-row[2], *row[:2])):
                best.setdefault((name, -1 if is_whole else ordinal), (score, name, ordinal))
            if len(best) >= limit or len(rows) < take:
                break
        nearest = list(best.values())[:limit]
        asked = [name for _, name, ordinal in nearest if ordinal >= QUESTIONS]
        sql = _BODIES.format(width, marks(asked))
        bodies = dict(self._database.rows(sql, (model, *asked, query))) if asked else {}
        return [make_match(name, score, ordinal, bodies) for score, name, ordinal in nearest]

    def group_vectors(self, model: str) -> None:
        size = self._database.value(f"SELECT {self.WIDTH} FROM vectors WHERE model = ? LIMIT 1", (model,))
        has_graph = self._database.value("SELECT to_regclass(?)::text", (f"vectors_graph_{size}",))
        many = f"SELECT 1 FROM vectors WHERE {self.WIDTH} = ? OFFSET ? LIMIT 1"
        if size and not has_graph and self._database.value(many, (size, self.graph_from)):
            with self._database.write() as write:
                write.execute(_GRAPH.format(size))

    def pack_vector(self, vector: Any) -> str:
        return _write_vector(vector.astype(np.float16))


def _write_vector(vector: Any) -> str:
    """A vector in pgvector's format."""
    return f"[{','.join(map(str, vector.tolist()))}]"
