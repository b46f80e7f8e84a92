"""Latency targets beside what is measured on this machine:

    python -m benchmarks.targets [--rounds 100]

A session's boost, causal boosts, one walk over causal edges, redaction, and what recording a tool call adds to it.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio

from benchmarks import corpus, pipeline
from benchmarks.figures import machine
from scrimshaw.engine import Engine, index, sessions
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Filters, Relation
from scrimshaw_lab import targets
from scrimshaw_lab.metrics import percentile
from scrimshaw_lab.shadow import DEPTH, ITEMS, working_with

MEMORIES, EDGES, HITS, PIECE = 200, 500, 20, 10_000


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a line for each target."""
    parser = argparse.ArgumentParser(prog="benchmarks.targets", description=__doc__)
    parser.add_argument("--data", type=Path, default=corpus.EXAMPLES, help="a folder of Markdown files")
    parser.add_argument("--rounds", type=int, default=100)
    given = parser.parse_args(arguments)
    texts = corpus.read_texts(given.data)
    with TemporaryDirectory(prefix="scrimshaw-bench-") as folder:
        write_linked_project(Path(folder), texts)
        with corpus.open_project(Path(folder)) as engine:
            index.scan(engine)
            rows = measure(engine, "\n".join(texts.whole), corpus.questions(texts, given.rounds), given.rounds)
    print(f"{machine()}\nlatency, ms p95 of {given.rounds} rounds over {MEMORIES} memories with {EDGES} causal links")
    for name, (target, value) in rows.items():
        print(f"  {name:44}{value:8.2f}   target < {target:g}{'' if value < target else '   MISSED'}")


def write_linked_project(project: Path, texts: corpus.Texts) -> None:
    """A project whose memories name each other as causes, effects and the rest."""
    corpus.write_project(project, texts, MEMORIES)
    vault = project / ".scrimshaw/memories"
    files = sorted(vault.rglob("*.md"))
    ids = [file.relative_to(vault).with_suffix("").as_posix() for file in files]
    chance = random.Random(11)
    links: dict[Path, dict[str, list[str]]] = {file: {} for file in files}
    for _ in range(EDGES):
        links[chance.choice(files)].setdefault(chance.choice(list(Relation)), []).append(chance.choice(ids))
    for file, found in links.items():
        lines = "".join(f"  {relation}: [{', '.join(names)}]\n" for relation, names in found.items())
        body = file.read_text(encoding="utf-8")
        if lines and not body.startswith("---"):
            file.write_text(f"---\nrelations:\n{lines}---\n{body}", encoding="utf-8")


def measure(engine: Engine, text: str, queries: Sequence[str], rounds: int) -> Mapping[str, tuple[float, float]]:
    """Each target with the 95th percentile that was measured."""
    ids = [memory.id for memory in engine.index.select(Filters(), sort="id", limit=-1, offset=0)]
    session = working_with(engine, ids[:ITEMS])
    boosts = sessions.collect_signals(engine, session, queries[0], DEPTH).boosts
    assert boosts
    seeds = {name: 1.0 - place / HITS for place, name in enumerate(ids[:HITS])}

    def walk(number: int) -> object:
        start = [ids[(number * 7 + step * 9) % len(ids)] for step in range(HITS)]
        return engine.index.neighbors(start, hops=2, direction="both", relations=tuple(Relation))

    def redact_piece(number: int) -> object:
        start = number * PIECE % max(1, len(text) - PIECE)
        return redact(text[start : start + PIECE])

    def boost_session(number: int) -> object:
        return sessions.collect_signals(engine, session, queries[number % len(queries)], DEPTH)

    return {
        "boost of what a session works with": (targets.SESSION_BOOST_MS, _p95(boost_session, rounds)),
        "boost of causal neighbours": (targets.CAUSAL_BOOST_MS, _p95(lambda _: boosts(ids[:DEPTH], seeds), rounds)),
        "two hops over causal links, recursive query": (targets.CAUSAL_QUERY_MS, _p95(walk, rounds)),
        "redaction of 10 KB": (targets.REDACTION_MS, _p95(redact_piece, rounds)),
        "recording a tool call, added to its answer": (targets.HOOK_MS, _added_by_hooks(engine, ids, rounds)),
    }


def _p95(work: Callable[[int], object], rounds: int) -> float:
    times = []
    work(0)
    for number in range(rounds):
        begun = time.perf_counter()
        work(number)
        times.append((time.perf_counter() - begun) * 1000)
    return percentile(times, 0.95)


def _added_by_hooks(engine: Engine, ids: Sequence[str], rounds: int) -> float:
    """What the recording of calls adds to the answers of a server that is busy with the call before."""
    calls = [{"id": ids[number % len(ids)]} for number in range(rounds)]
    ours, bare = anyio.run(pipeline.measure_calls, engine, "memory_get", calls)
    return max(0.0, percentile(ours["busy"], 0.95) - percentile(bare["busy"], 0.95))


if __name__ == "__main__":
    main()
