"""What a hook costs: processor and wall time of `scrimshaw-hook`, alone and a hundred at once.

    python -m benchmarks.hooks [--count 40] [--together 100]

The bare baseline is the same interpreter doing nothing; the difference is ours.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.figures import machine
from scrimshaw.config import Settings
from scrimshaw.engine import open_engine
from scrimshaw.evaluation.metrics import percentile

HOOK = "from scrimshaw.app.hooks.main import run; run()"
SIZES = (4_000, 1_000_000)


class Run(NamedTuple):
    """Milliseconds of one process."""

    cpu: float
    wall: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="benchmarks.hooks", description=__doc__)
    parser.add_argument("--count", type=int, default=40, help="hooks one after the other")
    parser.add_argument("--together", type=int, default=100, help="hooks at once")
    given = parser.parse_args(arguments)
    print(machine())
    with TemporaryDirectory(prefix="scrimshaw-bench-") as folder:
        project = Path(folder)
        (project / ".scrimshaw" / "memories").mkdir(parents=True)
        _print("python, nothing done", [_timed("pass", b"") for _ in range(given.count)])
        _print("import of google-re2", [_timed("import re2", b"") for _ in range(given.count)])
        for size in SIZES:
            runs = [_timed(HOOK, _payload(project, f"{size}-{n}", size)) for n in range(given.count)]
            _print(f"hook, {size:,} bytes of output", runs)
        _together(project, given.together)
        expected = len(SIZES) * given.count + given.together
        with open_engine(Settings(project=project, home=project / "home")) as engine:
            kept = len(engine.sessions.events("bench"))
    print(f"events kept: {kept} of {expected}")


def _together(project: Path, count: int) -> None:
    started = time.perf_counter()
    with ThreadPoolExecutor(count) as pool:
        runs = list(pool.map(lambda n: _timed(HOOK, _payload(project, f"together-{n}", SIZES[0])), range(count)))
    _print(f"{count} hooks at once", runs)
    print(f"  all done after {time.perf_counter() - started:.1f} s")


def _payload(project: Path, call_id: str, size: int) -> bytes:
    line = f"a line of output of call {call_id}\n"
    return json.dumps(
        {
            "session_id": "bench",
            "cwd": str(project),
            "hook_event_name": "PostToolUse",
            "tool_name": "Bash",
            "tool_use_id": call_id,
            "tool_input": {"command": "make test"},
            "tool_response": {"stdout": line * (size // len(line)), "stderr": ""},
        }
    ).encode()


def _timed(code: str, payload: bytes) -> Run:
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", code, "claude"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin is not None
    process.stdin.write(payload)
    process.stdin.close()
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0
    return Run((used.ru_utime + used.ru_stime) * 1000, (time.perf_counter() - started) * 1000)


def _print(name: str, runs: Sequence[Run]) -> None:
    cpu, wall = [run.cpu for run in runs], [run.wall for run in runs]
    print(
        f"{name:32} cpu p50 {percentile(cpu, 0.5):6.0f}  p99 {percentile(cpu, 0.99):6.0f} ms"
        f"   wall p50 {percentile(wall, 0.5):6.0f}  p99 {percentile(wall, 0.99):6.0f} ms"
    )


if __name__ == "__main__":
    main()
