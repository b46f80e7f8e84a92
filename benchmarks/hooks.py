"""What a hook costs: processor and wall time of `scrimshaw-hook` on a vault of 5,000 memories.

    python -m benchmarks.hooks [--count 100] [--together 100] [--memories 5000] [--data DIR]

The bare baseline is the same interpreter doing nothing; every round runs each row once, in turn. Interpreters keep
their bytecode, as those of an installed package do.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks import corpus
from benchmarks.figures import machine
from scrimshaw.app.cli import project_files
from scrimshaw.config import load
from scrimshaw.engine.index import scan
from scrimshaw_lab.metrics import percentile

LIGHT = "from scrimshaw.app.hooks import main; main.import_lightly()"
HOOK = "from scrimshaw.app.hooks.main import run; run()"
SMALL, LARGE = 4_000, 1_000_000
SESSION = "bench"

Payload = Callable[[str], bytes]


class Row(NamedTuple):
    """A line of the table: the code a process runs, and what it reads in a round, if anything."""

    name: str
    code: str
    payload: Payload | None = None


class Run(NamedTuple):
    """Milliseconds of one process."""

    cpu: float
    wall: float


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(prog="benchmarks.hooks", description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="rounds, one process after the other")
    parser.add_argument("--together", type=int, default=100, help="hooks at once")
    parser.add_argument("--memories", type=int, default=5000, help="memories in the vault")
    parser.add_argument("--data", type=Path, default=corpus.EXAMPLES, help="a folder of Markdown files")
    given = parser.parse_args(arguments)
    texts = corpus.read_texts(given.data)
    with TemporaryDirectory(prefix="scrimshaw-bench-") as folder:
        project = Path(folder)
        project_files.create(load(project))
        corpus.write_project(project, texts, given.memories)
        with corpus.open_project(project) as engine:
            scan(engine)
        print(f"{machine()}\n{given.memories:,} memories, {given.count} rounds\n")
        rows = _rows(project, corpus.questions(texts, given.count))
        bare = _one_by_one(project, rows, given.count)
        _together(project, given.together, bare)
        expected = given.together + (given.count + 1) * sum(row.payload is not None for row in rows)
        with corpus.open_project(project) as engine:
            print(f"events kept: {len(engine.sessions.events(SESSION))} of {expected}")
        log = project / ".scrimshaw" / "hook.log"
        print(log.read_text(encoding="utf-8") if log.exists() else "the hooks logged nothing")


def _rows(project: Path, questions: Sequence[str]) -> tuple[Row, ...]:
    return (
        Row("python, nothing done", "pass"),
        Row("+ import of msgspec", f"{LIGHT}; import msgspec"),
        Row("+ import of the hook", f"{LIGHT}; import scrimshaw.app.hooks.record"),
        Row("hook, tool event of 4 KB", HOOK, lambda mark: _tool(project, f"small-{mark}", SMALL)),
        Row("hook, tool event of 1 MB", HOOK, lambda mark: _tool(project, f"large-{mark}", LARGE)),
        Row("hook, prompt", HOOK, lambda mark: _prompt(project, mark, questions)),
        Row("import of google-re2", "import re2"),
    )


def _one_by_one(project: Path, rows: Sequence[Row], count: int) -> float:
    """Print a line for each row; the processor time of the first one, which all are compared with."""
    runs: dict[str, list[Run]] = {row.name: [] for row in rows}
    for number in range(count + 1):
        for row in rows:
            runs[row.name].append(_timed(project, row.code, row.payload(str(number)) if row.payload else b""))
    bare = percentile([run.cpu for run in runs[rows[0].name][1:]], 0.5)
    for name, found in runs.items():
        _print(name, found[1:], bare)  # the first leaves bytecode behind
    return bare


def _together(project: Path, count: int, bare: float) -> None:
    payloads = [_tool(project, f"together-{number}", SMALL) for number in range(count)]
    started = time.perf_counter()
    with ThreadPoolExecutor(count) as pool:
        runs = list(pool.map(lambda payload: _timed(project, HOOK, payload), payloads))
    took = time.perf_counter() - started
    _print(f"{count} hooks at once", runs, bare)
    print(f"all done after {took:.1f} s")


def _tool(project: Path, mark: str, size: int) -> bytes:
    line = f"a line of output of call {mark}\n"
    return _payload(
        project,
        hook_event_name="PostToolUse",
        tool_name="Bash",
        tool_use_id=mark,
        tool_input={"command": "make test"},
        tool_response={"stdout": line * (size // len(line)), "stderr": ""},
    )


def _prompt(project: Path, mark: str, questions: Sequence[str]) -> bytes:
    question = questions[int(mark) % len(questions)]
    return _payload(project, hook_event_name="UserPromptSubmit", prompt=f"{question} ({mark})")


def _payload(project: Path, **fields: object) -> bytes:
    return json.dumps({"session_id": SESSION, "cwd": str(project), **fields}).encode()


def _timed(project: Path, code: str, payload: bytes) -> Run:
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", code, "claude"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        cwd=project,
        env=_environment(project),
    )
    assert process.stdin is not None
    process.stdin.write(payload)
    process.stdin.close()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{code} ended with {process.returncode}"
    return Run((used.ru_utime + used.ru_stime) * 1000, (time.perf_counter() - started) * 1000)


def _environment(project: Path) -> dict[str, str]:
    """This one's environment without settings, with a place for bytecode that no other run shares."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SCRIMSHAW_", "SPECKIT_"))}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return kept | {"SCRIMSHAW_HOME": str(project / "home"), "PYTHONPYCACHEPREFIX": str(project / "bytecode")}


def _print(name: str, runs: Sequence[Run], bare: float) -> None:
    cpu, wall = [run.cpu for run in runs], [run.wall for run in runs]
    print(
        f"{name:26} cpu p50 {percentile(cpu, 0.5):5.0f}  p99 {percentile(cpu, 0.99):5.0f} ms"
        f"  x{percentile(cpu, 0.5) / bare:4.1f}"
        f"   wall p50 {percentile(wall, 0.5):6.0f}  p99 {percentile(wall, 0.99):6.0f} ms"
    )


if __name__ == "__main__":
    main()
