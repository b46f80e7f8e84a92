"""Measure Scrimshaw beside bare baselines and print a table:

    python -m benchmarks.run [--data DIR] [--sizes 1000,5000] [--quick] [--json FILE]

Both sides of a figure take turns in the same run on the same machine. Above the number of real texts, memories are
put together from real sections; above `--embed` chunks, vectors are jittered copies of real ones.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec import Struct

from benchmarks import corpus, searching, serving, storing
from benchmarks.figures import Figure, machine, table

QUICK_SIZE = 300


class Options(Struct, frozen=True, kw_only=True):
    """What to measure: texts below `data`, at each of `sizes`, with `embed` chunks embedded for real."""

    data: Path
    sizes: tuple[int, ...]
    embed: int
    queries: int
    asked: Path | None = None
    saves: int
    json: Path


def main(arguments: list[str] | None = None) -> None:
    """Measure, print the table, write the JSON."""
    options = _options(arguments)
    texts = corpus.read_texts(options.data)
    report = {"machine": machine(), "data": str(options.data), "real_texts": len(texts.whole)}
    print(f"{report['machine']}\n{len(texts.whole)} real texts from {options.data}\n")
    figures: list[Figure] = []
    vectors = []
    for size in options.sizes:
        found, note = measure(texts, size, options)
        figures += found
        vectors.append(note)
        print(f"{table(found)}\n{note}\n", flush=True)
    report |= {"vectors": vectors, "figures": msgspec.to_builtins(figures)}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_bytes(msgspec.json.format(msgspec.json.encode(report)) + b"\n")
    print(f"Written to {options.json}")


def measure(texts: corpus.Texts, size: int, options: Options) -> tuple[list[Figure], str]:
    """All figures with `size` memories, and a line that says where texts and vectors came from."""
    with TemporaryDirectory(prefix="scrimshaw-bench-") as folder:
        project = Path(folder)
        text_bytes = corpus.write_project(project, texts, size)
        with corpus.open_project(project) as engine:
            ingest = storing.ingest_rate(engine, project, size)
            save = storing.save_latency(engine, texts, project, size, options.saves)
            real, resampled = corpus.fill_vectors(engine, options.embed)
            disk = storing.database_size(engine, size, text_bytes)
            queries = corpus.asked(options.asked) if options.asked else corpus.questions(texts, options.queries)
            bare = searching.bare_search(engine, project)
            half = len(queries) // 2
            found = searching.search_latency(engine, bare, size, queries[half:])
            served = serving.server_figures(sys.executable, project, bare, size, queries[:half])
    made_up = max(0, size - len(texts.whole))
    note = f"{made_up:,} of {size:,} texts put together from real sections; "
    note += f"{real:,} chunks embedded, {resampled:,} with jittered copies of those vectors"
    return [ingest, save, *found, *served, disk], note


def _options(arguments: list[str] | None) -> Options:
    parser = argparse.ArgumentParser(prog="benchmarks.run", description=__doc__)
    parser.add_argument("--data", type=Path, default=corpus.EXAMPLES, help="a folder of Markdown files")
    parser.add_argument("--sizes", default="1000,5000", help="numbers of memories, with commas")
    parser.add_argument("--embed", type=int, default=500, help="chunks to embed for real")
    parser.add_argument("--queries", type=int, default=240, help="queries in all")
    parser.add_argument("--asked", type=Path, help="queries people asked, a JSON object with `query` per line")
    parser.add_argument("--saves", type=int, default=100)
    parser.add_argument("--quick", action="store_true", help="one small size, few queries")
    parser.add_argument("--json", type=Path, default=Path(".bench/figures.json"), help="where the figures go")
    given = parser.parse_args(arguments)
    sizes = tuple(int(size) for size in given.sizes.split(","))
    if given.quick:
        return Options(data=given.data, sizes=(QUICK_SIZE,), embed=60, queries=80, saves=20, json=given.json)
    return Options(
        data=given.data,
        sizes=sizes,
        embed=given.embed,
        queries=given.queries,
        asked=given.asked,
        saves=given.saves,
        json=given.json,
    )


if __name__ == "__main__":
    main()
