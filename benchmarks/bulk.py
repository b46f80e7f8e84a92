"""Many passages on a PostgreSQL server in minutes: parsed by the product, sent by COPY, then repeated on the server.

The rows are those that the index itself would insert. Secondary indexes are dropped first and made at the end. From
BASE passages on, the server repeats the rows under other ids, so that a word stands in as many more texts; no vector
is repeated: each is a real one with jitter.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
import psycopg

from benchmarks import corpus
from scrimshaw.engine import Engine
from scrimshaw.engine.core import make_source_file
from scrimshaw.models import Document
from scrimshaw.search.token_vectors import pack_tokens
from scrimshaw.storage.index import PART_BITS
from scrimshaw.storage.postgres import index as postgres_index
from scrimshaw.storage.postgres.database import PostgresConnection, PostgresDatabase

BASE = 100_000  # passages whose texts differ
REAL_VECTORS = 4_000
BATCH, VECTORS = 1_000, 50_000  # memories, vectors for one COPY
_INSERT = re.compile(r"INSERT INTO (\w+) \((.+?)\) VALUES")
_SECONDARY = """
SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class c ON c.oid = indrelid
WHERE relnamespace = current_schema()::regnamespace AND indexrelid NOT IN (SELECT conindid FROM pg_constraint)"""
# How each table's rows are repeated: {m} memories and {c} chunks later, with {k} in the names.
_REPEATED = {
    "memories": {"row": '"row" + {m}', "id": "id || {k}", "folded": "folded || {k}", "name": "name || {k}",
                 "path": "path || {k}", "text_hash": "md5(text_hash || {k})"},
    "files": {"path": "path || {k}", "memory_id": "memory_id || {k}"},
    "texts": {"part": f"part + ({{m}} << {PART_BITS})"},
    "words": {"part": f"part + ({{m}} << {PART_BITS})"},
    "phrases": {"memory": "memory + {m}"},
    "sketches": {"memory": "memory + {m}"},
    "topics": {"memory": "memory + {m}"},
    "edges": {"source": "source + {m}"},
    "chunks": {"row": '"row" + {c}', "memory": "memory + {m}", "key": "md5(key || {k})"},
}  # fmt: skip


class _Rows(list[Any]):
    """The result of a statement that was only noted."""

    @property
    def get(self) -> Any:
        return self[0] if self else None

    def fetchall(self) -> list[Any]:
        return self


class _Collector(PostgresConnection):
    """Notes what the index inserts, instead of doing it."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        super().__init__(connection)
        self.memories, self.rows = 0, defaultdict[str, list[Sequence[Any]]](list)

    def execute(self, statements: str, bindings: Any = (), /) -> Any:
        if found := _INSERT.match(statements):
            table, columns = found.groups()
            if table == "memories":
                self.memories += 1
                columns, bindings = f'{columns}, "row"', (*bindings, self.memories)
            self.rows[f"{table} ({columns})"].append(bindings)
            return _Rows([self.memories])
        if statements.startswith("SELECT memories.row") and " IN (" in statements:
            return _Rows([(row,) for row in bindings])
        return _Rows()

    def executemany(self, statements: str, bindings: Iterable[Sequence[Any]], /) -> None:
        found = _INSERT.match(statements)
        assert found
        self.rows[f"{found[1]} ({found[2]})"] += bindings

    def copy(self, columns: str, rows: Iterable[Sequence[Any]], /) -> None:
        self.rows[columns] += rows

    def send(self) -> None:
        """Insert all that was noted."""
        for columns, rows in self.rows.items():
            unique = columns.startswith(("phrases", "sketches", "topics", "edges"))
            with self.raw.cursor() as cursor, cursor.copy(f"COPY {columns} FROM STDIN".encode()) as copy:
                if columns.startswith("words"):  # nearly all rows, and none needs a character escaped
                    copy.write("".join(f"{a}\t{b}\t{c}\t{d}\t{e}\n" for a, b, c, d, e in rows))
                    continue
                for row in dict.fromkeys(map(tuple, rows)) if unique else rows:
                    copy.write_row([str(each).replace("\0", "") if isinstance(each, str) else each for each in row])
        self.rows.clear()


class _Noted(PostgresDatabase):
    """The database of the index while rows are noted."""

    def __init__(self, collector: _Collector) -> None:
        self.collector = collector

    @contextmanager
    def write(self) -> Iterator[PostgresConnection]:
        yield self.collector


def fill(
    engine: Engine,
    url: str,
    options: str,
    passages: int,
    texts: Iterator[str],
    tell: Callable[[str, Callable[[], object]], object],
) -> None:
    """Fill the empty index of an engine; `tell` times each step."""
    with psycopg.connect(url, autocommit=True, options=f"{options} -c session_replication_role=replica") as connection:
        connection.execute("SET synchronous_commit = off")
        secondary = connection.execute(_SECONDARY).fetchall()
        for name, _ in secondary:
            connection.execute(f"DROP INDEX {name}".encode())
        base = min(passages, BASE)
        if not engine.index.count(None)[""]:
            tell("texts parsed and sent by COPY, s", lambda: _fill_words(engine, connection, base, texts))
            tell("vectors near real ones, s", lambda: _fill_vectors(engine, connection))
        if (times := round(passages / base)) > 1:
            tell(f"each text repeated to stand {times} times, s", lambda: _repeat(connection, times))
            tell("vectors near those, s", lambda: _fill_vectors(engine, connection))
        for table, column in (("memories", "row"), ("chunks", "row"), ("vectors", "seq")):
            newest = f'(SELECT max("{column}") FROM {table})'
            connection.execute(f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), {newest})".encode())

        def make_indexes() -> None:
            for name, definition in secondary:
                if "graph" not in name:
                    connection.execute(definition.encode())

        width = connection.execute("SELECT public.vector_dims(vector) FROM vectors LIMIT 1").fetchone()
        assert width
        graph = postgres_index._GRAPH.format(width[0])
        tell("graph of the vectors, s", lambda: connection.execute(graph.encode()))
        tell("other indexes, s", make_indexes)


def _fill_words(engine: Engine, connection: psycopg.Connection[Any], base: int, texts: Iterator[str]) -> None:
    collector, batch, made = _Collector(connection), list[Document](), 0
    noted = postgres_index.PostgresIndex(_Noted(collector))
    root = engine.sources[0].root
    for number, text in enumerate(texts):
        name = f"{number // 1000:04}/memory-{number:07}"
        document = engine.parse(
            make_source_file("vault", name, root / f"{name}.md", size=len(text), mtime_ns=1), text.encode()
        )
        batch.append(document)
        made += len(document.chunks)
        if len(batch) == BATCH or made >= base:
            noted.put(batch)
            collector.send()
            batch = []
        if made >= base:
            break


def _repeat(connection: psycopg.Connection[Any], times: int) -> None:
    many = connection.execute(
        "SELECT (SELECT max(m.row) FROM memories m), (SELECT max(c.row) FROM chunks c)"
    ).fetchone()
    assert many
    for table, changed in _REPEATED.items():
        cursor = connection.execute(f"SELECT * FROM {table} LIMIT 0".encode())
        columns = [each.name for each in cursor.description or ()]
        marks = {"m": f"n * {many[0]}::bigint", "c": f"n * {many[1]}::bigint", "k": "'-' || n"}
        names = ", ".join(f'"{each}"' for each in columns)
        values = ", ".join(changed[each].format(**marks) if each in changed else f'"{each}"' for each in columns)
        connection.execute(
            f"INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE SELECT {values}"
            f" FROM (SELECT * FROM {table}) AS base CROSS JOIN generate_series(1, {times - 1}) AS n".encode()
        )


def _fill_vectors(engine: Engine, connection: psycopg.Connection[Any]) -> None:
    """A vector for every chunk, by binary COPY; token vectors for as many as the settings allow."""
    embedder, began = corpus.embedder_of(engine), time.monotonic()
    if known := connection.execute("SELECT seq, vector::text FROM vectors ORDER BY seq").fetchall():
        near = np.array([np.fromstring(text[1:-1], np.float32, sep=",") for _, text in known])
        _send_vectors(engine, connection, near, [], known[-1][0])
        return
    texts = (
        "SELECT c.context || chr(10) || substr(m.body, c.first + 1, c.last - c.first) FROM chunks c"
        " JOIN memories m ON m.row = c.memory ORDER BY c.row LIMIT %s"
    )
    made = [embedder.embed(text) for (text,) in connection.execute(texts, (REAL_VECTORS,))]
    print(f"{len(made)} vectors are real ({time.monotonic() - began:.0f} s)", flush=True)
    tokens = [pack_tokens(rows) for _, rows in made]
    _send_vectors(engine, connection, np.array([vector for vector, _ in made]), tokens, 0)


def _send_vectors(
    engine: Engine, connection: psycopg.Connection[Any], near: Any, tokens: Sequence[bytes], place: int
) -> None:
    """A vector near one of these for every chunk after a place; each has the number of its chunk."""
    model, width, chance = corpus.embedder_of(engine).model.encode(), near.shape[1], np.random.default_rng(place)
    fields = [("fields", ">i2")]
    for name, kind in (
        ("seq", ">i8"), ("model", f"S{len(model)}"), ("memory", ">i8"), ("ordinal", ">i4"), ("key", "S32"),
        ("vector", [("dim", ">i2"), ("unused", ">i2"), ("numbers", ">f2", width)]),
    ):  # fmt: skip
        fields += [(f"{name}_size", ">i4"), (name, kind)]  # type: ignore[list-item]
    kind, left = np.dtype(cast(Any, fields)), engine.settings.index.token_vectors if tokens else 0
    find = "SELECT c.row, memory, ordinal, key FROM chunks c WHERE c.row > %s ORDER BY c.row LIMIT %s"
    while rows := connection.execute(find, (place, VECTORS)).fetchall():
        many, place = len(rows), rows[-1][0]
        sent = np.zeros(many, kind)
        sent["fields"], sent["model"] = 6, model
        sent["seq"], sent["memory"], sent["ordinal"], sent["key"] = zip(*rows, strict=True)
        for name in ("seq", "model", "memory", "ordinal", "key", "vector"):
            sent[f"{name}_size"] = kind.fields[name][0].itemsize
        sent["vector"]["dim"], sent["vector"]["numbers"] = width, corpus.jittered(near, many, chance)
        columns = b"COPY vectors (seq, model, memory, ordinal, key, vector) FROM STDIN (FORMAT binary)"
        with connection.cursor() as cursor, cursor.copy(columns) as copy:
            copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8) + sent.tobytes() + b"\xff\xff")
        with connection.cursor() as cursor, cursor.copy("COPY token_vectors FROM STDIN") as copy:
            for row in rows[:left]:
                copy.write_row((row[0], tokens[row[0] % len(tokens)]))
        left = max(0, left - many)
