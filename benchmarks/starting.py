"""What it costs to start with old transcripts: processor time per 1,000 tool calls, interrupted once, then resumed.

    python -m benchmarks.starting TRANSCRIPTS [--sessions 100] [--copies 3] [--embed]

TRANSCRIPTS is a folder of Claude Code's JSON lines. They are copied, cut into sessions of equal length and laid out as
the client does, in a home of their own; `scrimshaw init --import` runs as a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from benchmarks.figures import machine
from scrimshaw.config import load
from scrimshaw.engine import open_engine

PROGRAM = "from scrimshaw.app.cli.main import run; run()"
LIMIT_S = 60.0  # of processor time per 1,000 tool calls, as promised to who starts
INTERRUPT_AFTER_S = 2.0


class Run(NamedTuple):
    """A process: seconds of processor and wall time, exit code, output."""

    cpu: float
    wall: float
    code: int
    output: str


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.starting", description=__doc__)
    parser.add_argument("transcripts", type=Path)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--copies", type=int, default=3)
    parser.add_argument("--embed", action="store_true", help="make vectors as well")
    given = parser.parse_args(arguments)
    print(machine())
    with TemporaryDirectory(prefix="scrimshaw-bench-") as folder:
        home, project = Path(folder) / "home", Path(folder) / "project"
        project.mkdir()
        size = _lay_out(given.transcripts, home, project, given.sessions, given.copies)
        print(f"{given.sessions} sessions, {size / 1e6:.1f} MB")
        _measure(home, project, embed=given.embed)


def _measure(home: Path, project: Path, *, embed: bool) -> None:
    environment = {**os.environ, "HOME": str(home), "SCRIMSHAW_EMBEDDING_PROVIDER": "minilm" if embed else "none"}
    first = _run(project, environment, "init", "--import", "--json", interrupt_after=INTERRUPT_AFTER_S)
    events, calls = _count_names(project, home)
    print(f"interrupted after {first.wall:.1f} s: exit code {first.code}, {events} events kept, {calls} tool calls")
    second = _run(project, environment, "init", "--import", "--json")
    events, calls = _count_names(project, home)
    imported = json.loads(second.output)["imported"]
    print(f"resumed: exit code {second.code}, {imported['counts']}, {imported['memories']} memories in this run")
    cpu = first.cpu + second.cpu
    print(
        f"both runs: {cpu:.1f} s of processor, {first.wall + second.wall:.1f} s in all; {events} events, {calls} calls"
    )
    print(f"processor time per 1,000 tool calls: {1000 * cpu / calls:.2f} s (limit {LIMIT_S:g} s)")
    again = _run(project, environment, "init", "--import", "--json")
    print(f"again, nothing new: {again.cpu:.1f} s of processor")
    found = json.loads(_run(project, environment, "search", "failing tests", "--json").output)
    print(f"a search afterwards finds {len(found['hits'])} memories")


def _lay_out(source: Path, home: Path, project: Path, sessions: int, copies: int) -> int:
    """Write the sessions as Claude Code does; the bytes they have together."""
    rows = [row for _ in range(copies) for file in sorted(source.glob("*.jsonl")) for row in _rows(file)]
    folder = home / ".claude" / "projects" / "".join(c if c.isalnum() else "-" for c in str(project))
    folder.mkdir(parents=True)
    length = -(-len(rows) // sessions)
    for start in range(0, len(rows), length):
        session = str(uuid.uuid4())
        lines = (
            json.dumps(row | {"sessionId": session, "cwd": str(project)}) + "\n" for row in rows[start : start + length]
        )
        (folder / f"{session}.jsonl").write_text("".join(lines), encoding="utf-8")
    return sum(file.stat().st_size for file in folder.iterdir())


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    with file.open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _run(project: Path, environment: dict[str, str], *arguments: str, interrupt_after: float = 0.0) -> Run:
    started = time.perf_counter()
    before = os.times()
    command = [sys.executable, "-c", PROGRAM, *arguments]
    process = subprocess.Popen(
        command, cwd=project, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    if interrupt_after:
        time.sleep(interrupt_after)
        process.send_signal(signal.SIGINT)
    output, _ = process.communicate()
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Run(cpu, time.perf_counter() - started, process.returncode, output)


def _count_names(project: Path, home: Path) -> tuple[int, int]:
    """(events, tool calls) in the journal."""
    with open_engine(load(project, home=home / ".scrimshaw", environment={})) as engine:
        events = [event for each in engine.sessions.latest(limit=-1) for event in engine.sessions.events(each.id)]
    return len(events), sum(event.kind == "tool" for event in events)


if __name__ == "__main__":
    main()
