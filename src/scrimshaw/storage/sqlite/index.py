"""The Index port in SQLite: full text by FTS5, vectors as float16 BLOBs, edges in a table."""

from __future__ import annotations

from _thread import allocate_lock  # a hook has no time for `threading`
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from scrimshaw.models import QUESTIONS, RECORD, Filters, Match
from scrimshaw.storage.graph import make_match
from scrimshaw.storage.index import FIELD_WEIGHTS, PART_BITS, PASSAGES_PER_MATCH, TEXT_PIECE, VECTOR_PIECE, Index
from scrimshaw.storage.ports import Query
from scrimshaw.storage.sql import SqlConnection, conditions, marks
from scrimshaw.storage.sqlite.database import Database

if TYPE_CHECKING:
    from scrimshaw.storage.sqlite.vectors import VectorScan

# The plus keeps FTS5 from sorting, for which it would rank every row, including the unwanted ones.
_TEXT = f"""
SELECT m.id, (f.rowid & (1 << {PART_BITS}) - 1) - 1, -f.rank FROM memory_text f
JOIN memories m ON m.row = f.rowid >> {PART_BITS}
WHERE memory_text MATCH ? AND rank MATCH 'bm25({", ".join(map(str, FIELD_WEIGHTS))})' AND {{}}
ORDER BY +f.rank LIMIT ?"""
_Scans = tuple[int, dict[str, "VectorScan"], Any, dict[int, str], dict[tuple[Any, ...], tuple[int, Any]]]
_REMEMBERED_FILTERS = 64

# FTS5 keeps the words of removed texts, and every query reads them, until they are merged with others.
MERGE_WORDS = "INSERT INTO memory_text (memory_text) VALUES ('optimize')"


class SqliteIndex(Index):
    """The Index port over one file."""

    TEXTS = ("memory_text", "rowid")
    CLEARING = (
        *(f"DELETE FROM {table}" for table in ("token_vectors", "vectors", "chunks", "memories", "files")),
        "DELETE FROM vector_blocks",
        "INSERT INTO memory_text (memory_text) VALUES ('delete-all')",
    )
    MERGING = (MERGE_WORDS,)
    WIDTH = "length(vector) / 2"
    TEXT_PIECE, VECTOR_PIECE = TEXT_PIECE.format("x''"), VECTOR_PIECE.format("x''", "v.vector")
    few_chunks = 1_000  #: FTS5 ranks so many about as fast as lists in memory

    def __init__(self, database: Database, *, ram_scan_max: int = 0, word_lists_mb: int = 0) -> None:
        self._database = self._file = database
        self._ram_scan_max, self._word_lists_mb = ram_scan_max, word_lists_mb
        # Openings of the file, scans for vectors by model and for words, ids by row, generation and rows by filters.
        self._scans: _Scans = (0, {}, None, {}, {})
        self._searched = False  # a command, which searches once, needs no lists
        self._guard = allocate_lock()

    def retire(self, paths: Sequence[str] | None, *, merge_words: bool = False) -> None:
        super().retire(paths, merge_words=merge_words)
        if paths:
            self._database.rows("PRAGMA wal_checkpoint(TRUNCATE)")  # it has deleted texts until it is overwritten

    def match_text(self, query: Query, filters: Filters, limit: int) -> list[Match]:
        if not (expression := match_expression(query)):
            return []
        generation, (where, arguments) = self.generation(), conditions(filters)
        many = self._word_lists_mb and self._searched and self._database.value("SELECT max(row) FROM chunks")
        has_lists = many and many >= self.few_chunks and len(query.groups) == 1 and not query.is_prefix
        self._searched = True

        def read_best(wanted: int) -> list[Any]:
            """The best rows in the order of FTS5, from lists in memory or from FTS5 itself."""
            if not has_lists:
                return self._database.rows(_TEXT.format(where), (expression, *arguments, wanted))
            with self._guard:
                scan = self._open_scans()[2]
            passages = limit * PASSAGES_PER_MATCH if filters.source == RECORD else 0
            found = scan(query.groups[0], generation, self._rows_satisfying(filters, generation), wanted, passages)
            names = self._find_names({row for row, _, _ in found})
            return [(names[row], ordinal, score) for row, ordinal, score in found if row in names]

        return self.rank(read_best, filters, limit)

    def _open_scans(self) -> _Scans:
        if self._scans[0] != self._database.openings:
            from scrimshaw.storage.sqlite.words import WordScan  # noqa: PLC0415 - loads numpy, which a hook has no use for

            words = WordScan(self._file, FIELD_WEIGHTS, PART_BITS, self._word_lists_mb * 1_000_000)
            self._scans = (self._database.openings, {}, words, {}, {})
        return self._scans

    def _find_names(self, rows: Collection[int]) -> Mapping[int, str]:
        """The ids of memories by row, including these if they exist; a row never gets another id."""
        known = self._scans[3]
        if new := {*rows} - known.keys():
            known.update(self._database.rows(f"SELECT row, id FROM memories WHERE row IN ({marks(new)})", [*new]))
        return known

    def group_vectors(self, model: str) -> None:
        from scrimshaw.storage.sqlite.vectors import put_blocks  # noqa: PLC0415 - see above

        put_blocks(self._file, model)

    def match_vector(self, model: str, vector: Any, filters: Filters, limit: int) -> list[Match]:
        from scrimshaw.storage.sqlite.vectors import VectorScan, find_bodies  # noqa: PLC0415 - see above

        generation = self.generation()
        with self._guard:
            scans = self._open_scans()[1]
            if model not in scans:
                is_small = self._database.value("SELECT count(*) FROM chunks") <= self._ram_scan_max
                scans[model] = VectorScan(self._file, model, in_memory=is_small)
            scan = scans[model]
        nearest = scan(vector, generation, limit, self._rows_satisfying(filters, generation), filters.source != RECORD)
        names = self._find_names([row for row, _, _ in nearest])
        asked = [row for row, _, ordinal in nearest if ordinal >= QUESTIONS and row in names]
        of_rows = find_bodies(self._file, model, vector, asked) if asked else {}
        bodies = {names[row]: chunk for row, chunk in of_rows.items()}
        found = [make_match(names[row], score, ordinal, bodies) for row, score, ordinal in nearest if row in names]
        return sorted(found, key=lambda match: (-match.score, match.id, match.chunk))

    def _rows_satisfying(self, filters: Filters, generation: int) -> Any:
        """Whether a memory satisfies the filters, by its row; cached, since a row never changes.

        The first and the last are False, and represent all rows before and after them: a scan may know later ones.
        """
        import numpy as np  # noqa: PLC0415 - heavy, and only needed once something is scanned

        where, arguments = conditions(filters)
        with self._guard:
            known = self._open_scans()[4]
        if len(known) > _REMEMBERED_FILTERS:
            known.clear()
        at, found = known.get(key := (where, *arguments), (-1, np.zeros(2, dtype=bool)))
        if at != generation:
            before = found[: 1 if filters.folder or filters.since else -1]  # other memories, or files, decide these
            last = max(len(before) - 1, self._database.value("SELECT max(row) FROM memories") or 0)  # and none later
            outside = f"SELECT row FROM memories m WHERE row > ? AND row <= ? AND ({where}) IS NOT TRUE"  # usually few
            rows = self._database.read(outside, [len(before) - 1, last, *arguments], itemgetter(0))
            found = np.ones(last + 2, dtype=bool)
            found[: len(before)] = before
            found[[*rows, -1]] = False
            known[key] = (generation, found)
        return found

    def generation(self) -> int:
        count = int(self._database.value("SELECT value FROM meta WHERE key = 'generation'"))
        # A file that replaced another may have counted as many changes.
        return count and count + (self._database.openings << 32)

    def put_words(self, write: SqlConnection, texts: Sequence[tuple[Any, ...]]) -> None:
        write.executemany("INSERT INTO memory_text (rowid, name, title, triggers, body) VALUES (?,?,?,?,?)", texts)

    def pack_vector(self, vector: Any) -> bytes:
        return bytes(vector.astype("<f2").tobytes())


def match_expression(query: Query) -> str:
    """The FTS5 expression of a query, or empty; quotes keep words from being read as operators, columns or prefixes."""
    star = "*" if query.is_prefix else ""
    quoted = [['"' + word.replace('"', '""') + '"' + star for word in group] for group in query.groups if group]
    groups = [*map(" OR ".join, quoted)]
    return groups[0] if len(groups) == 1 else " AND ".join(f"({group})" for group in groups)
