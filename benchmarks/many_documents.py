"""What it costs to begin in a repository with many documents: when its words are found, and what a vector costs.

    python -m benchmarks.many_documents DOCUMENTS [--passages 24000] [--sample 1500]

DOCUMENTS is a folder of Markdown, reStructuredText or AsciiDoc at any depth. Its files are copied, again and again with
a number of the copy in each paragraph, until there are so many passages. `scrimshaw init` runs as a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figures import machine
from scrimshaw.config import load
from scrimshaw.engine import open_engine
from scrimshaw.models import Degradation

PROGRAM = "from scrimshaw.app.cli.main import run; run()"
SUFFIXES = (".md", ".rst", ".adoc")
CHARACTERS = 710  # of a passage, about; how many there are in the end is counted
LIMIT_S = 10.0  # of processor time until words are found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.many_documents", description=__doc__)
    parser.add_argument("documents", type=Path)
    parser.add_argument("--passages", type=int, default=24_000)
    parser.add_argument("--sample", type=int, default=1_500, help="passages that get a vector")
    given = parser.parse_args(arguments)
    print(machine())
    with TemporaryDirectory(prefix="scrimshaw-bench-") as folder:
        project = Path(folder) / "project"
        os.environ["SCRIMSHAW_HOME"] = str(Path(folder) / "home")
        count = _lay_out(given.documents, project, given.passages * CHARACTERS)
        began = time.monotonic()
        cpu = _run(project, "init", "--no-vectors", "--no-import", "--json")[0]
        passages = _count_passages(project)
        print(f"{count} files, {passages} passages")
        print(f"init without vectors: {cpu:.1f} s of processor, {time.monotonic() - began:.1f} s (limit {LIMIT_S:g} s)")
        cpu, output = _run(project, "search", "how to install it", "--channels", "text", "--json")
        print(f"the first search by words: {cpu:.2f} s of processor, {len(json.loads(output)['hits'])} hits")
        _embed(project, given.sample, passages)


def _lay_out(source: Path, project: Path, characters: int) -> int:
    """Copy documents until they have so many characters; how many files that are."""
    files = sorted(path for path in source.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    texts = [(path.relative_to(source), path.read_text(encoding="utf-8", errors="replace")) for path in files]
    count, written, copy = 0, 0, 0
    while written < characters and texts:
        for name, text in texts:
            target = project / f"copy{copy}" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text.replace("\n\n", f" ({copy})\n\n") if copy else text, encoding="utf-8")
            count, written = count + 1, written + len(text)
            if written >= characters:
                break
        copy += 1
    return count


def _run(project: Path, *arguments: str) -> tuple[float, str]:
    """Seconds of processor time of a command, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, cwd=project, stdout=subprocess.PIPE, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def _count_passages(project: Path) -> int:
    with open_engine(load(project)) as engine:
        return sum(engine.index.vector_counts().progress("none"))


def _embed(project: Path, sample: int, passages: int) -> None:
    """Make the vectors of passages that lie evenly among all, since `init` begins with short ones."""
    with open_engine(load(project)) as engine:
        if isinstance(engine.embedder, Degradation):
            sys.exit(f"There is no model: {engine.embedder.failure_mode}.")
        waiting = engine.index.chunks_to_embed(engine.embedder.model, after=0, limit=passages)
        chosen = waiting[:: max(1, len(waiting) // sample)]
        engine.embedder.embed("loads the model")
        began = time.process_time()
        for chunk in chosen:
            engine.embedder.embed(chunk.text)
        each = 1000 * (time.process_time() - began) / len(chosen)
    minutes = each * passages / 60_000
    print(f"{len(chosen)} vectors: {each:.1f} ms of processor each; all {passages}: {minutes:.0f} minutes")


if __name__ == "__main__":
    main()
