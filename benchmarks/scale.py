"""What a hybrid search costs as a memory grows, beside its parts alone: one table for each size.

    python -m benchmarks.scale [--passages 5000,100000,1000000] [--data DIR] [--queries 200]
        [--asked FILE] [--folder DIR]

Passages are real sections in which words are changed for others of the same texts, put through the index's own port; a
few hundred vectors are real, the others lie near one of them. Each size is built and then searched by a process of its
own. All times are processor time, of searches that were never asked before; with --folder what was built is kept there.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks import corpus
from benchmarks.bare import BareVectors, SameText
from benchmarks.figures import Spread, machine, spread
from scrimshaw.engine import Engine
from scrimshaw.engine.read import search
from scrimshaw.ingest.comparison import find_head, hash_normalised_text
from scrimshaw.models import Chunk, Document, Phrase, Redacted, SourceFile, content_hash
from scrimshaw.search.results import SearchRequest
from scrimshaw.search.token_vectors import pack_tokens

CHANGED = 0.15  # of the words of a section, so that no two passages are the same
WORDS, PIECES = 90, 4  # of a passage, about as many as real ones have; most passages of a memory
REAL_VECTORS = 300
BATCH = 2_000  # memories in a transaction, and passages that get a vector in one
WARM = 60  # searches after which most common words were asked for
TURN = (
    20  # so many searches, then each part for the same queries: each alone, and all of them in quick and slow moments
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Build and measure each size, or do the one that is named."""
    parser = argparse.ArgumentParser(prog="benchmarks.scale", description=__doc__)
    parser.add_argument("--passages", default="5000,100000,1000000", help="numbers of passages, with commas")
    parser.add_argument("--data", type=Path, default=corpus.EXAMPLES, help="a folder of Markdown files")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--asked", type=Path, help="queries people asked, a JSON object with `query` per line")
    parser.add_argument("--folder", type=Path, help="where what is built stays; else a temporary one")
    parser.add_argument("--be", choices=("build", "measure"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.be:
        {"build": _build, "measure": _measure}[given.be](given, int(given.passages))
        return
    print(json.dumps(machine()))
    with TemporaryDirectory(prefix="scrimshaw-scale-") as temporary:
        folder = given.folder or Path(temporary)
        for passages in map(int, given.passages.split(",")):
            options = ["--passages", str(passages), "--data", str(given.data), "--queries", str(given.queries)]
            options += [
                "--folder",
                str(folder / str(passages)),
                *(["--asked", str(given.asked)] if given.asked else ()),
            ]
            print(f"\n{passages:,} passages", flush=True)
            for part in ("build", "measure"):
                if part == "measure" or not (folder / str(passages) / "built").exists():
                    subprocess.run([sys.executable, "-m", "benchmarks.scale", *options, "--be", part], check=True)


def _build(given: argparse.Namespace, passages: int) -> None:
    (given.folder / ".scrimshaw" / "memories").mkdir(parents=True, exist_ok=True)
    began = time.process_time()
    with corpus.open_project(given.folder) as engine:
        batch, many = list[Document](), 0
        for document in _make_documents(corpus.read_texts(given.data), passages):
            batch.append(document)
            many += 1
            if len(batch) == BATCH:
                engine.index.put(batch)
                batch = []
        engine.index.put(batch)
        _print_row("memories", many)
        _print_row("words put into the index, s", time.process_time() - began)
        _print_row("write-ahead log after the words, MB", _log_bytes(engine) / 1e6)
        began = time.process_time()
        _fill_vectors(engine)
        _print_row("vectors put into the index, s", time.process_time() - began)
        _print_row("write-ahead log after the vectors, MB", _log_bytes(engine) / 1e6)
    (given.folder / "built").touch()


def _make_documents(texts: corpus.Texts, passages: int) -> Iterator[Document]:
    """Memories of one to a few passages, of so many passages together."""
    chance = random.Random(7)
    sections = [words for text in texts.sections for words in _split(text)]
    words, made = [word for section in sections for word in re.findall(r"\w{3,}", " ".join(section))], 0
    while made < passages:
        pieces = list[str]()
        for _ in range(min(chance.randint(1, PIECES), passages - made)):
            piece = [word if chance.random() > CHANGED else chance.choice(words) for word in chance.choice(sections)]
            pieces.append(f"{' '.join(piece)}\n\n")
        made += len(pieces)
        body, chunks, start = "".join(pieces), list[Chunk](), 0
        title = f"{' '.join(body.strip('# ').split()[:5])} {made}"
        for ordinal, text in enumerate(pieces):
            end = start + len(text)
            chunks.append(Chunk(ordinal=ordinal, anchor="", heading="", start=start, end=end, context=title))
            start = end
        name, digest = f"{made // 1000:04}/memory-{made:07}", content_hash(body.encode())
        yield Document(
            file=SourceFile(source="vault", memory_id=name, path=f"/{name}.md", size=len(body), mtime_ns=made),
            content_hash=digest,
            text_hash=hash_normalised_text(body),
            title=title,
            body=Redacted(text=body),
            chunks=tuple(chunks),
            tokens=len(body) // 4,
            phrases=(Phrase(text=title, head=find_head(title), is_title=True),),
        )


def _split(text: str) -> Iterator[list[str]]:
    """A section as lists of words, each about as long as a passage."""
    words = text.split()
    for start in range(0, len(words), WORDS):
        yield words[start : start + WORDS]


def _fill_vectors(engine: Engine) -> None:
    """A vector for every passage, and tokens for as many as the settings allow."""
    embedder, place, left = corpus.embedder_of(engine), 0, engine.settings.index.token_vectors
    first = engine.index.chunks_to_embed(embedder.model, after=0, limit=REAL_VECTORS)
    made = [embedder.embed(chunk.text) for chunk in first]
    vectors, tokens = np.array([row for row, _ in made]), [pack_tokens(rows) for _, rows in made]
    chance = np.random.default_rng(5)
    while pending := engine.index.chunks_to_embed(embedder.model, after=place, limit=BATCH):
        place = pending[-1].place
        rows = zip(pending, corpus.jittered(vectors, len(pending), chance), strict=True)
        packed = {each.key: tokens[number % len(tokens)] for number, each in enumerate(pending[:left])}
        left -= len(packed)
        engine.index.put_vectors(embedder.model, [(each.key, row) for each, row in rows], tokens=packed)


def _measure(given: argparse.Namespace, passages: int) -> None:
    texts = corpus.read_texts(given.data)
    queries = (corpus.asked(given.asked) if given.asked else corpus.questions(texts, given.queries))[: given.queries]
    warm = min(WARM, len(queries) // 2)
    with corpus.open_project(given.folder) as engine:
        embedder = corpus.embedder_of(engine)
        embedder.embed(queries[-1])  # the model's load is told apart

        def find(query: str) -> object:
            return search(engine, SearchRequest(query=query))

        _print_row("first search after opening, CPU ms", _cpu_ms(lambda: find(queries[0])))
        cold = [_cpu_ms(lambda: find(query)) for query in queries[1:warm]]  # noqa: B023 - called at once
        _print_spread("hybrid search, while words are new", spread(cold))
        _print_row("peak memory of the process, MB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        text, vectors = SameText(engine), BareVectors(engine)
        vectors.search(queries[0])
        parts: dict[str, Callable[[Any], object]] = {
            "query embedding": lambda query: embedder.embed(query),
            "FTS5": text.search,
            "scan": vectors.scan,
        }
        taken: dict[str, list[float]] = {name: [] for name in ("hybrid", *parts)}
        for start in range(warm, len(queries), TURN):
            turn = queries[start : start + TURN]
            taken["hybrid"] += [_cpu_ms(lambda: find(query)) for query in turn]  # noqa: B023 - called at once
            for query in turn:
                vector = embedder.embed(query)[0]
                for name, part in parts.items():
                    given_to = vector if name == "scan" else query
                    taken[name].append(_cpu_ms(lambda: part(given_to)))  # noqa: B023 - called at once
        for name, values in taken.items():
            _print_spread("hybrid search" if name == "hybrid" else f"{name} alone", spread(values))
        whole = spread([sum(each) for each in zip(*(taken[name] for name in parts), strict=True)])
        _print_spread("the three parts", whole)
        _print_row("hybrid to its parts, at the median", spread(taken["hybrid"]).p50 / whole.p50)
        _print_row("write-ahead log, MB", _log_bytes(engine) / 1e6)


def _cpu_ms(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1000


def _log_bytes(engine: Engine) -> int:
    log = engine.folder / "index.db-wal"
    return log.stat().st_size if log.exists() else 0


def _print_spread(name: str, values: Spread) -> None:
    print(f"{name + ', CPU ms p50 p95':48}{values.p50:10,.1f}{values.p95:10,.1f}", flush=True)


def _print_row(name: str, value: float) -> None:
    print(f"{name:48}{value:10,.2f}" if value < 100 else f"{name:48}{value:10,.0f}", flush=True)


if __name__ == "__main__":
    main()
