"""How long the first answers of a server take after another one was killed, while other processes keep all cores busy:

    python -m benchmarks.restarting [--against DIR] [--memories 800] [--busy 4] [--rounds 3]

A real server is killed with SIGKILL in the midst of its work; the next one is asked five questions at once after its
start. DIR is another checkout with a `.venv` of its own; both trees take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks import corpus
from benchmarks.figures import machine

HERE = Path(__file__).parents[1]
PROGRAM = "from scrimshaw.app.cli.main import run; run()"
QUESTIONS = 5
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
SAVES, TOUCHED, SCANNING_S = 40, 200, 2.5


class Server:
    """A server process of a source tree, asked over its standard input and output."""

    def __init__(self, tree: Path, project: Path) -> None:
        environment = {**os.environ, "SCRIMSHAW_HOME": str(project / "home"), "PYTHONPATH": str(tree / "src")}
        command = [str(tree / ".venv/bin/python"), "-c", PROGRAM, "--project", str(project), "serve"]
        self._number = 0
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.ask("server/discover")

    def send(self, method: str, **params: Any) -> None:
        """Send a request."""
        assert self.process.stdin
        self._number += 1
        line = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": {**params, "_meta": META}}
        self.process.stdin.write(json.dumps(line).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """The answer to a request."""
        assert self.process.stdout
        self.send(method, **params)
        answer: dict[str, dict[str, Any]] = json.loads(self.process.stdout.readline())
        return answer["result"]

    def search(self, query: str) -> dict[str, Any]:
        """What memory_search answers."""
        arguments = {"query": query}
        found: dict[str, Any] = self.ask("tools/call", name="memory_search", arguments=arguments)["structuredContent"]
        return found

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()
        self.process.wait()


def kill_while_saving(tree: Path, project: Path) -> None:
    """A server that has read everything is killed among saves nobody has an answer to."""
    server = Server(tree, project)
    while any("scan_pending" in each["failure_mode"] for each in server.search("anything").get("degraded", ())):
        time.sleep(0.5)
    for number in range(SAVES):
        text = f"The harbour master's rule number {number} says which of the ferries waits at the outer mooring."
        server.send("tools/call", name="memory_save", arguments={"content": text, "id": f"rule-{number}"})
    time.sleep(0.3)
    server.kill()


def kill_while_reading(tree: Path, project: Path) -> None:
    """The first server of a fresh clone is killed while it reads the files."""
    shutil.rmtree(project / "home", ignore_errors=True)
    for path in (project / ".scrimshaw").glob("*.db*"):
        path.unlink()
    server = Server(tree, project)
    server.send("tools/call", name="memory_search", arguments={"query": "anything"})
    time.sleep(SCANNING_S)
    server.kill()


def change_files_after(tree: Path, project: Path) -> None:
    """After a kill among saves somebody changes many files, as a switch of branches does."""
    kill_while_saving(tree, project)
    for path in sorted((project / ".scrimshaw/memories").rglob("memory-*.md"))[:TOUCHED]:
        path.write_text(path.read_text(encoding="utf-8") + f"\nSeen again at {time.time()}.\n", encoding="utf-8")


CRASHES: dict[str, Callable[[Path, Path], None]] = {
    "among saves": kill_while_saving,
    f"and {TOUCHED} files changed": change_files_after,
    "in the first scan": kill_while_reading,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print a line for each crash and tree."""
    parser = argparse.ArgumentParser(prog="benchmarks.restarting", description=__doc__)
    parser.add_argument("--against", type=Path, help="another checkout with its own .venv")
    parser.add_argument("--memories", type=int, default=800)
    parser.add_argument("--busy", type=int, default=2 * (os.cpu_count() or 1), help="processes that only count")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args(arguments)
    trees = [HERE, *([given.against.resolve()] if given.against else [])]
    print(f"{machine()}; {given.memories} memories, {given.busy} busy processes; seconds, median of {given.rounds}")
    print(f"{'':26}{'tree':>8}{'start':>8}" + "".join(f"{f'answer {n}':>10}" for n in range(1, QUESTIONS + 1)))
    texts = corpus.read_texts(corpus.EXAMPLES)
    questions = corpus.questions(texts, QUESTIONS)
    for name, crash in CRASHES.items():
        times: dict[Path, list[list[float]]] = {tree: [] for tree in trees}
        notes: dict[Path, list[str]] = {}
        for _ in range(given.rounds):
            for tree in trees:
                with TemporaryDirectory(prefix="scrimshaw-bench-") as folder:
                    project = Path(folder)
                    corpus.write_project(project, texts, given.memories)
                    crash(tree, project)
                    with busy(given.busy):
                        found, notes[tree] = ask_first_questions(tree, project, questions)
                    times[tree].append(found)
        for tree, rounds in times.items():
            figures = "".join(f"{median(column):10.2f}" for column in zip(*rounds, strict=True))
            print(f"{name:26}{tree.name:>8}{figures[2:]}   {' '.join(notes[tree])}", flush=True)


def ask_first_questions(tree: Path, project: Path, questions: Sequence[str]) -> tuple[list[float], list[str]]:
    """Seconds of the start and of each answer, and for each whether it was whole (+) or said what it lacks (-)."""
    times, notes = [], []
    begun = time.perf_counter()
    server = Server(tree, project)
    for query in questions:
        times.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        found = server.search(query)
        notes.append(
            "-"
            if any(each["failure_mode"].startswith(("index", "scan")) for each in found.get("degraded", ()))
            else "+"
        )
    times.append(time.perf_counter() - begun)
    server.kill()
    return times, notes


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes count meanwhile."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in others:
            each.kill()
            each.wait()


if __name__ == "__main__":
    main()
