"""Processor time of a search over MCP, beside the plainest hybrid search that a server of the same SDK can offer:

    python -m benchmarks.protocol [--data DIR] [--asked FILE.jsonl] [--queries 120] [--folder DIR]

Two servers answer the same queries over one index in turn, with up to ten hits and their text. All that a search makes
its server do counts, also after the answer. Both searches run in process too: the difference is the protocol.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from mcp.client import Client
from msgspec import Struct

from benchmarks import corpus
from benchmarks.bare_search import make_search
from benchmarks.figures import machine
from benchmarks.serving import SETTLE_S, WARM_UP, bare_search_server, scrimshaw_server
from scrimshaw.app.mcp.protocol import Dispatcher
from scrimshaw.app.mcp.tools import choose
from scrimshaw.config import limit_native_threads
from scrimshaw.engine import index

AFTER_S = 0.05  # a server works on after its answer: it records the call


class Costs(Struct, frozen=True, kw_only=True):
    """Processor milliseconds of each search, by a server and in process, and the characters of its answers."""

    served: list[float]
    called: list[float]
    characters: list[int]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a line for each side."""
    parser = argparse.ArgumentParser(prog="benchmarks.protocol", description=__doc__)
    parser.add_argument("--data", type=Path, default=corpus.EXAMPLES, help="a folder of Markdown files")
    parser.add_argument("--asked", type=Path, help="queries people asked, a JSON object with `query` per line")
    parser.add_argument("--queries", type=int, default=120)
    parser.add_argument("--folder", type=Path, help="keep the project here for the next run")
    given = parser.parse_args(arguments)
    if "OPENBLAS_NUM_THREADS" not in os.environ:  # numpy reads it when it is imported
        limit_native_threads()
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks.protocol", *(arguments or sys.argv[1:])])
    with TemporaryDirectory(prefix="scrimshaw-bench-") as temporary:
        project, texts = given.folder or Path(temporary), corpus.read_texts(given.data)
        queries = corpus.asked(given.asked) if given.asked else corpus.questions(texts, given.queries)
        ours, bare = measure(project.absolute(), texts, queries[: given.queries])
    print(f"{machine()}\nprocessor ms of a search over {len(texts.whole)} memories, median of {len(ours.served)}")
    print(f"{'':12}{'over MCP':>10}{'in process':>12}{'protocol':>10}{'characters':>12}")
    for name, costs in (("Scrimshaw", ours), ("bare hybrid", bare)):
        served, called = median(costs.served), median(costs.called)
        print(f"{name:12}{served:10.2f}{called:12.2f}{served - called:10.2f}{mean(costs.characters):12.0f}")
    factors = (median(getattr(ours, side)) / median(getattr(bare, side)) for side in ("served", "called"))
    print(f"{'factor':12}" + "".join(f"{factor:{width}.2f}" for factor, width in zip(factors, (10, 12), strict=True)))


def measure(project: Path, texts: corpus.Texts, queries: Sequence[str]) -> tuple[Costs, Costs]:
    """The costs of both sides; a project that is there already is used as it is."""
    if not (project / ".scrimshaw").exists():
        corpus.write_project(project, texts, len(texts.whole))
    with corpus.open_project(project) as engine:
        index.scan(engine)
        index.embed_pending(engine, lambda done, total: True)
        dispatcher, search = Dispatcher(choose("core"), engine), make_search(engine)
        called = (
            _measure_calls(lambda query: dispatcher.dispatch("memory_search", {"query": query}), queries),
            _measure_calls(search, queries),
        )
    served = anyio.run(_measure_servers, project, queries)
    ours, bare = (
        Costs(served=times, called=inside, characters=sizes)
        for inside, (times, sizes) in zip(called, served, strict=True)
    )
    return ours, bare


def _measure_calls(search: Callable[[str], object], queries: Sequence[str]) -> list[float]:
    times = list[float]()
    for query in (*queries[:WARM_UP], *queries):
        before = time.process_time()
        search(query)
        times.append((time.process_time() - before) * 1000)
    return times[WARM_UP:]


async def _measure_servers(project: Path, queries: Sequence[str]) -> list[tuple[list[float], list[int]]]:
    """Times and sizes of the answers of both servers, which take turns."""
    found: list[tuple[list[float], list[int]]] = [([], []), ([], [])]
    ours, theirs = scrimshaw_server(sys.executable, project), bare_search_server(sys.executable, project)
    async with Client(ours) as client:
        clock = _clock_of(known := _children())
        async with Client(theirs) as other:
            sides = ((client, "memory_search", clock), (other, "search", _clock_of(_children() - known)))
            for number, query in enumerate((*queries[:WARM_UP], *queries)):
                if number == WARM_UP:
                    await anyio.sleep(SETTLE_S)
                for (asked, tool, used), (times, sizes) in zip(sides, found, strict=True):
                    before = used()
                    answer = await asked.call_tool(tool, {"query": query})
                    await anyio.sleep(AFTER_S)
                    times.append((used() - before) * 1000)
                    sizes.append(_count(answer))
    return [(times[WARM_UP:], sizes[WARM_UP:]) for times, sizes in found]


def _count(answer: Any) -> int:
    if answer.is_error:
        raise SystemExit(f"A server refused a search: {answer.content}")
    return sum(len(part.text) for part in answer.content)


def _children() -> set[int]:
    return {int(pid) for each in Path("/proc/self/task").glob("*/children") for pid in each.read_text().split()}


def _clock_of(pids: set[int]) -> Callable[[], float]:
    """The processor seconds that a process has used, in all its threads; Linux."""
    (pid,) = pids
    return lambda: time.clock_gettime(~pid << 3 | 2)  # CPUCLOCK_SCHED, as clock_getcpuclockid makes it


if __name__ == "__main__":
    main()
