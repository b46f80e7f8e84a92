"""What the hook pipeline behind the tools adds to a call, and what redaction takes: beside the targets.

    python -m benchmarks.pipeline [--data DIR] [--rounds 300]

A server with its callbacks and one without answer the SDK's client in this process, in turns, over one memory and in
one session. In each round a server gets two calls, one behind the other: the first finds it idle, the second the work
that the first has queued. A round starts when nothing is queued any more.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
from docs.tool_listing import list_tools
from mcp.client import Client
from mcp.server.lowlevel import Server

from benchmarks import corpus
from benchmarks.figures import machine
from scrimshaw.app.mcp.backend import Memories
from scrimshaw.app.mcp.call_recorder import make_recorder
from scrimshaw.app.mcp.protocol import AfterTool, Backend, Dispatcher, FinishedCall, build_server
from scrimshaw.app.mcp.tools import choose
from scrimshaw.engine import Engine, index
from scrimshaw.ingest.redact import redact
from scrimshaw.ingest.rule_checks import check_rules
from scrimshaw.models import Filters
from scrimshaw_lab import targets
from scrimshaw_lab.metrics import percentile

MEMORIES = 200
SESSION = "bench"
PLACES = ("idle", "busy")
SHARES = (0.50, 0.95, 0.99)
WAIT_S = 10.0
PIECE = 10_000
Call = Mapping[str, Any]
Times = Mapping[str, list[float]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a table for each tool."""
    parser = argparse.ArgumentParser(prog="benchmarks.pipeline", description=__doc__)
    parser.add_argument("--data", type=Path, default=corpus.EXAMPLES, help="a folder of Markdown files")
    parser.add_argument("--rounds", type=int, default=300, help="rounds of two calls to each server")
    given = parser.parse_args(arguments)
    print(machine())
    texts = corpus.read_texts(given.data)
    with TemporaryDirectory(prefix="scrimshaw-bench-") as folder:
        corpus.write_project(Path(folder), texts, MEMORIES)
        with corpus.open_project(Path(folder)) as engine:
            index.scan(engine)
            corpus.fill_vectors(engine, MEMORIES)
            engine.sessions.open(SESSION, process=os.getppid(), now=engine.clock())
            for tool, calls in _calls(engine, texts).items():
                rounds = [calls[number % len(calls)] for number in range(given.rounds)]
                _print(tool, *anyio.run(measure_calls, engine, tool, rounds))
    print(f"target: at most {targets.HOOK_MS:g} ms added (p95)")
    print(_redaction(texts, given.rounds, targets.REDACTION_MS))


def _calls(engine: Engine, texts: corpus.Texts) -> Mapping[str, Sequence[Call]]:
    queries = corpus.questions(texts, MEMORIES)
    memories = engine.index.select(Filters(), sort="id", limit=MEMORIES, offset=0)
    return {
        "memory_search": [{"query": query, "enable_dedup": False} for query in queries],
        "memory_context": [{"input": query, "enable_dedup": False} for query in queries],
        "memory_get": [{"id": memory.id} for memory in memories],
    }


async def measure_calls(engine: Engine, tool: str, calls: Sequence[Call]) -> tuple[Times, Times]:
    """Milliseconds of the calls to the server with callbacks and to the one without, by place in the round."""
    done, record = threading.Semaphore(0), make_recorder(engine, check_rules(engine.settings.rules)[0])

    def record_and_tell(call: FinishedCall) -> None:
        record(call)
        done.release()

    ours: Times = {place: [] for place in PLACES}
    bare: Times = {place: [] for place in PLACES}
    async with Client(_server(engine, record_and_tell)) as busy, Client(_server(engine, None)) as idle:
        for client in (busy, idle):
            await client.call_tool(tool, dict(calls[0]))
        _wait(done, 1)
        for number, call in enumerate(calls):
            for first in (number % 2 == 0, number % 2 == 1):
                await _round(busy if first else idle, tool, call, ours if first else bare)
                _wait(done, len(PLACES) if first else 0)
    return ours, bare


async def _round(client: Client, tool: str, call: Call, found: Times) -> None:
    for place in PLACES:
        started = time.perf_counter()
        answer = await client.call_tool(tool, dict(call))
        found[place].append((time.perf_counter() - started) * 1000)
        assert not answer.is_error, answer


def _redaction(texts: corpus.Texts, rounds: int, target: float) -> str:
    """Processor milliseconds that redaction takes for pieces of PIECE characters out of the notes."""
    whole = "\n".join(texts.whole)
    spent = []
    for number in range(rounds):
        start = number * PIECE % max(1, len(whole) - PIECE)
        begun = time.process_time()
        redact(whole[start : start + PIECE])
        spent.append((time.process_time() - begun) * 1000)
    told = "".join(f"{percentile(spent, share):8.2f}" for share in SHARES)
    name = f"redaction of {PIECE // 1000} KB, processor ms p50 p95 p99"
    return f"{name}\n{'':18}{told}   target: at most {target:g} (p95)"


def _wait(done: threading.Semaphore, calls: int) -> None:
    """Until the callbacks of so many calls are done; SystemExit when they never are."""
    for _ in range(calls):
        if not done.acquire(timeout=WAIT_S):
            raise SystemExit("The callbacks of a call are not done.")


def _server(engine: Engine, after_tool: AfterTool | None) -> Server[Any]:
    backend = Backend(Dispatcher(choose("all"), engine, after_tool), Memories(engine))
    return build_server(list_tools(choose("all")), [], lambda: backend)


def _print(tool: str, ours: Times, bare: Times) -> None:
    for place in PLACES:
        with_them, without = ([percentile(times[place], share) for share in SHARES] for times in (ours, bare))
        added = [one - other for one, other in zip(with_them, without, strict=True)]
        print(f"{tool}, queue {place} ({len(ours[place])} calls each), ms p50 p95 p99")
        for name, values in (("with callbacks", with_them), ("without", without), ("added", added)):
            print(f"  {name:16}" + "".join(f"{value:8.2f}" for value in values))


if __name__ == "__main__":
    main()
