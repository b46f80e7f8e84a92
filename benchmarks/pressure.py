"""Replay recorded tool calls in contexts of a stated size, with the pressure policy off and on:

    python -m benchmarks.pressure --data DIR --queries FILE --calls FILE [--contexts 128000] [--every 5] [--engine DIR]

`--calls` is a (gzipped) file with a JSON object a line: source, session, args, output. Every recorded session of more
than 20 calls is replayed. Its own calls end where the context is 60 % to 95 % full, evenly spread over the sessions:
a short one follows other work, of a long one the last calls are kept. Every `--every` calls the agent asks
memory_context one of the judged queries, and says how full its context is. Replies are counted as sent.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from benchmarks.figures import machine
from benchmarks.pressure_replay import (
    LEAST_TURNS,
    Ask,
    PressureFigures,
    Recording,
    Replayed,
    Reply,
    compare,
    filled,
    missed,
    replay,
)
from benchmarks.shadow import scratch_engine
from scrimshaw.app.mcp.protocol import Dispatcher
from scrimshaw.app.mcp.tools import choose
from scrimshaw.engine.core import Engine
from scrimshaw.search.tokens import count_tokens
from scrimshaw_lab.search_quality import JudgedQuery, read_queries

FIRST_SHARE, LAST_SHARE = 0.60, 0.95


class ToolCall(Struct, frozen=True, kw_only=True):
    """One recorded call."""

    source: str
    session: str
    args: Any = None
    output: str | None = None


def main(arguments: list[str] | None = None) -> None:
    """Replay at every context size and interval, and print the figures."""
    given = _options(arguments)
    judged, sessions = read_queries(given.queries), read_sessions(given.calls)
    print(machine())
    print(f"{len(sessions)} recorded sessions of more than {LEAST_TURNS - 1} calls")
    with scratch_engine(given.data, given.exclude, given.engine) as engine:
        for size in map(int, given.contexts.split(",")):
            recordings = spread(sessions, size, given.seed)
            for every in map(int, given.every.split(",")):
                off = run(_without_policy(engine), f"off-{size}-{every}", recordings, judged, size, every)
                on = run(engine, f"on-{size}-{every}", recordings, judged, size, every)
                print(f"\ncontext {size}, a question every {every} calls")
                report(compare(off, on, size), off, on, size)


def read_sessions(path: Path) -> dict[str, list[int]]:
    """The tokens of each call, arguments and output, of every session that is long enough."""
    found: dict[str, list[int]] = {}
    decoder = msgspec.json.Decoder(ToolCall)
    for line in _lines(path):
        call = decoder.decode(line)
        text = msgspec.json.encode(call.args).decode() + (call.output or "")
        found.setdefault(f"{call.source}/{call.session}", []).append(count_tokens(text))
    return {name: turns for name, turns in found.items() if len(turns) >= LEAST_TURNS}


def spread(sessions: Mapping[str, Sequence[int]], size: int, seed: int) -> list[Recording]:
    """The sessions in a context of this size, filled to shares spread evenly over them, in drawn order."""
    last = max(1, len(sessions) - 1)
    shares = [FIRST_SHARE + (LAST_SHARE - FIRST_SHARE) * number / last for number in range(len(sessions))]
    Random(seed).shuffle(shares)
    recordings = [
        filled(name, turns, share, size) for (name, turns), share in zip(sessions.items(), shares, strict=True)
    ]
    return [each for each in recordings if len(each.turns) >= LEAST_TURNS]


def run(
    engine: Engine, side: str, recordings: Sequence[Recording], judged: Sequence[JudgedQuery], size: int, every: int
) -> list[Replayed]:
    """Every recording replayed in a session of its own; both sides are asked the same."""
    dispatcher = Dispatcher(choose("core"), engine)
    found = []
    for number, recording in enumerate(recordings):
        questions = list(judged)
        Random(number).shuffle(questions)
        found.append(replay(recording, asking(dispatcher, f"{side}-{number}", questions), size, every))
    return found


def asking(dispatcher: Dispatcher, session: str, questions: Sequence[JudgedQuery]) -> Ask:
    """Asks memory_context through the server's own dispatcher; the reply is the JSON text that a client gets."""

    def ask(number: int, share: float) -> Reply:
        question = questions[number % len(questions)]
        call = {"input": question.query, "session_id": session, "token_usage": share}
        outcome = dispatcher.dispatch("memory_context", call)
        if outcome.error:
            raise SystemExit(outcome.text)
        shown = {hit["id"] for hit in outcome.reply["result"]["hits"]}
        return Reply(
            tokens=count_tokens(outcome.text),
            budget=outcome.reply["token_budget"],
            level=outcome.reply.get("pressure_level", ""),
            relevant=frozenset(name for name in shown if question.relevant.get(name, 0) > 0),
        )

    return ask


def report(found: PressureFigures, off: Sequence[Replayed], on: Sequence[Replayed], size: int) -> None:
    """Print the figures, how sessions overflow on each side, replies by pressure, and the targets missed."""
    values = msgspec.structs.asdict(found)
    print("  " + "  ".join(f"{name} {round(value, 3)}" for name, value in values.items()))
    for side, sessions in (("off", off), ("on", on)):
        over = [session for session in sessions if session.overflow]
        causes = [str(session.overflow) for session in over]
        own = ", ".join(f"{session.own / size:.0%}" for session in sorted(over, key=lambda session: session.own))
        print(f"  {side}: overflowed at a reply {causes.count('reply')}, at a call {causes.count('turn')}; own: {own}")
        for level in sorted({reply.level for session in sessions for reply in session.replies}):
            sizes = [reply.tokens for session in sessions for reply in session.replies if reply.level == level]
            print(f"    {level}: {len(sizes)} replies, mean {sum(sizes) / len(sizes):.0f} tokens, most {max(sizes)}")
    print(f"  missed: {', '.join(missed(found)) or 'nothing'}")


def _without_policy(engine: Engine) -> Engine:
    features = msgspec.structs.replace(engine.settings.features, pressure_policy=False)
    return replace(engine, settings=msgspec.structs.replace(engine.settings, features=features))


def _lines(path: Path) -> Iterator[bytes]:
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        yield from (line for line in file if line.strip())


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.pressure", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder of memories")
    parser.add_argument("--queries", type=Path, required=True, help="judged queries, a JSON object a line")
    parser.add_argument("--calls", type=Path, required=True, help="recorded tool calls, a JSON object a line")
    parser.add_argument("--exclude", action="append", default=["**/*-index.md"], help="glob of files to leave out")
    parser.add_argument("--engine", type=Path, help="folder that keeps index and vectors")
    parser.add_argument("--contexts", default="128000", help="context sizes in tokens, with commas")
    parser.add_argument("--every", default="5", help="calls between two questions, with commas")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
