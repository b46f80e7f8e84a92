"""Processor time of single operations, of one source tree or of two that take turns:

    python -m benchmarks.operations [--against DIR] [--rounds 30] [--only NAME ...] [--notes DIR]

`--against` names another checkout with a `.venv` of its own, `--notes` a folder of Markdown files: of their sections
notes of 4.5 KB are made, which `save a note` saves, and of 1.3 KB, which `judged save` does: without force, so that the
quality gate reads them, under an id of its own choice. `bare write` is the least that such a save needs. Every tree
works in a process of its own on a project of its own with the same memories; in each round both do the same, so that a
slow moment of the machine hits both.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).parents[1]
MEMORIES, PER_ROUND = 200, 5
NOTE, SHORT_NOTE = 4500, 1300  # characters of a note of usual size, and of what agents save
# What a worker does within its process, and what is a process of its own.
INSIDE = ("save", "save a note", "judged save", "bare write", "get", "update", "search", "hook event", "session start")
OPEN = "from scrimshaw.config import load; from scrimshaw.engine import open_engine; from pathlib import Path; "
OPEN += "open_engine(load(Path.cwd())).close()"
HOOK = "from scrimshaw.app.hooks.main import run; run()"
WORDS = ("harbour", "ferry", "lantern", "gate", "tide", "pilot", "mooring", "log", "keeper", "dusk", "signal", "quay")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a line for each operation."""
    parser = argparse.ArgumentParser(prog="benchmarks.operations", description=__doc__)
    parser.add_argument("--against", type=Path, help="another checkout with its own .venv")
    parser.add_argument("--rounds", type=int, default=30, help=f"rounds of {PER_ROUND} operations each")
    parser.add_argument("--only", action="append", help="an operation to measure (repeatable)")
    parser.add_argument("--notes", type=Path, default=HERE / "examples", help="a folder of Markdown files")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    notes = given.notes.resolve()
    if given.worker:
        _work(notes)
        return
    trees = [HERE, *([given.against.resolve()] if given.against else [])]
    with TemporaryDirectory(prefix="scrimshaw-bench-") as folder:
        sides = [Side(tree, Path(folder) / str(number), notes) for number, tree in enumerate(trees)]
        names = given.only or (*INSIDE, "hook process", "server start")
        found = {name: _take_turns(sides, name, given.rounds) for name in names}
        for side in sides:
            side.close()
    print(f"processor ms of one operation, median of {given.rounds} rounds; {MEMORIES} memories, words only")
    print(f"{'':15}" + "".join(f"{tree.name:>12}" for tree in trees))
    for name, values in found.items():
        factor = f"{values[1] / values[0]:11.2f}x" if len(values) > 1 else ""
        print(f"{name:15}" + "".join(f"{value:12.2f}" for value in values) + factor)


class Side:
    """A source tree at work in a project of its own."""

    def __init__(self, tree: Path, folder: Path, notes: Path) -> None:
        self._project = folder / "project"
        (self._project / ".scrimshaw/memories").mkdir(parents=True)
        self._python = tree / ".venv/bin/python"
        variables = {"SCRIMSHAW_HOME": str(folder / "home"), "SCRIMSHAW_EMBEDDING_PROVIDER": "none"}
        self._environment = {**os.environ, **variables, "PYTHONPATH": f"{tree / 'src'}:{HERE}"}
        # Whoever is measured first would compile its modules on the way.
        subprocess.run([self._python, "-m", "compileall", "-q", tree / "src"], check=True)
        self._worker = subprocess.Popen(
            [self._python, __file__, "--worker", "--notes", str(notes)],
            cwd=self._project,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def measure(self, name: str) -> float:
        """Processor milliseconds of one operation, the mean of a few."""
        if name in INSIDE:
            assert self._worker.stdin is not None
            assert self._worker.stdout is not None
            self._worker.stdin.write(f"{name}\n")
            self._worker.stdin.flush()
            return float(self._worker.stdout.readline())
        code, payload = (OPEN, b"") if name == "server start" else (HOOK, _payload(str(time.time_ns())))
        before = _children_s()
        subprocess.run(
            [self._python, "-c", code, "claude"],
            input=payload,
            cwd=self._project,
            env=self._environment,
            check=True,
            capture_output=True,
        )
        return (_children_s() - before) * 1000

    def close(self) -> None:
        """End the worker."""
        self._worker.communicate()


def _take_turns(sides: Sequence[Side], name: str, rounds: int) -> list[float]:
    """The median of each side; the first round is for warming up."""
    values: list[list[float]] = [[] for _ in sides]
    for number in range(rounds + 1):
        for place in range(len(sides)) if number % 2 else reversed(range(len(sides))):
            values[place].append(sides[place].measure(name))
    return [median(each[1:]) for each in values]


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _payload(call: str, session: str = "bench") -> bytes:
    """A finished tool call of Claude Code."""
    fields = {
        "session_id": session,
        "cwd": str(Path.cwd()),
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_input": {"command": "git commit -m 'Close the gate at dusk'"},
        "tool_response": {"stdout": "[main 1a2b3c4] Close the gate at dusk\n 1 file changed", "stderr": ""},
        "tool_use_id": call,
    }
    return json.dumps(fields).encode()


def _work(notes: Path) -> None:
    """Carry out what standard input asks for, on the memory of the working folder; the answer is the time of one."""
    operations = _operations(notes)
    number = 0
    for line in sys.stdin:
        operation, started = operations[line.strip()], time.process_time()
        for _ in range(PER_ROUND):
            number += 1
            operation(number)
        print((time.process_time() - started) * 1000 / PER_ROUND, flush=True)


def _cut_notes(folder: Path, size: int = NOTE) -> list[str]:
    """Notes of so many characters, of the sections of a folder's files in the order of their names."""
    whole = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.rglob("*.md")))
    notes = [""]
    for section in re.split(r"(?m)^(?=#)", whole):
        notes[-1] += section
        if len(notes[-1]) >= size:
            notes[-1] = notes[-1][:size]
            notes.append("")
    return notes[:-1]


def _operations(notes: Path) -> dict[str, Callable[[int], object]]:
    """The operations through the doors that agents and clients use, whatever the tree calls what lies behind."""
    from benchmarks.bare import BareWriter
    from scrimshaw.app.mcp.protocol import Dispatcher
    from scrimshaw.app.mcp.tools import choose
    from scrimshaw.config import load
    from scrimshaw.engine import open_engine

    record: Any = importlib.import_module("scrimshaw.app.hooks.record")
    handle = getattr(record, "handle_payload", None) or record.handle
    dispatcher = Dispatcher(choose("all"), open_engine(load(Path.cwd())))

    def call(tool: str, **arguments: Any) -> None:
        outcome = dispatcher.dispatch(tool, arguments)
        if outcome.error:
            raise SystemExit(outcome.text)

    def save(number: int, folder: str = "new") -> None:
        words = [WORDS[number * step % len(WORDS)] for step in (1, 5, 7, 11)]
        text = f"The {words[0]} of note {number} is by the {words[1]}; ask the {words[2]} for the {words[3]}. " * 8
        call(
            "memory_save", id=f"{folder}/n{number}", title=f"Note {number} of the {words[0]}", content=text, force=True
        )

    texts, short = _cut_notes(notes), _cut_notes(notes, SHORT_NOTE)
    writer = BareWriter(Path.cwd() / "bare")

    def save_note(number: int) -> None:
        text = texts[number % len(texts)]
        call(
            "memory_save",
            id=f"notes/n{number}",
            title=text.strip(" #\n").partition("\n")[0][:80],
            content=text,
            force=True,
        )

    def save_judged(number: int) -> None:
        call("memory_save", content=f"{short[number % len(short)]}\n\nThis is note {number}.")

    for number in range(MEMORIES):
        save(number, "old")

    def start_session(number: int) -> None:
        fields = {"session_id": f"s{number}", "cwd": str(Path.cwd()), "hook_event_name": "SessionStart"}
        handle(["claude"], json.dumps(fields | {"source": "startup"}).encode())

    return {
        "save": save,
        "save a note": save_note,
        "judged save": save_judged,
        "bare write": lambda number: writer.save(f"n{number}", short[number % len(short)]),
        "get": lambda number: call("memory_get", id=f"old/n{number % MEMORIES}"),
        "update": lambda number: call("memory_update", id=f"old/n{number % MEMORIES}", topics=[f"topic-{number}"]),
        "search": lambda number: call("memory_search", query=f"{WORDS[number % len(WORDS)]} by the quay"),
        "hook event": lambda number: handle(["claude"], _payload(f"c{number}")),
        "session start": start_session,
    }


if __name__ == "__main__":
    main()
