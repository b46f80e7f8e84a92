"""Copies of real notes in a real Forgetful: a first sync, what embedding takes of it, freshness, and a day of edits.

    python -m benchmarks.copies FOLDER --notes 500

Forgetful is installed as `make e2e-router` does. Its own work and ours are told apart by CPU seconds, as Linux counts
them; embedding alone is measured in Forgetful's own environment with the model that it runs, on the texts it is sent.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.router import PYTHON, Forgetful, environment, install

from scrimshaw.config import load
from scrimshaw.engine import Engine, index, open_engine
from scrimshaw.router import sync
from scrimshaw.router.copies import collect_copies
from scrimshaw.router.peer_copies import compare_peer, sync_peer
from scrimshaw.router.peers import close_peers

LIMIT = 2000  # characters that Forgetful takes
EMBED = """
import json, os, sys, time
from fastembed import TextEmbedding
model = TextEmbedding(os.environ["EMBEDDING_MODEL"], cache_dir=os.environ["FASTEMBED_CACHE_DIR"], local_files_only=True)
texts, began, cpu = json.load(sys.stdin), time.monotonic(), time.process_time()
for text in texts:
    list(model.embed([text]))
print(time.monotonic() - began, time.process_time() - cpu)
"""


@contextmanager
def open_notes(folder: Path, notes: dict[str, bytes], peers: str = "") -> Iterator[Engine]:
    """A project with these notes, without vectors of its own."""
    project, home = folder / "project", folder / "home"
    for name, raw in notes.items():
        path = project / ".scrimshaw/memories" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
    home.mkdir(parents=True)
    (home / "config.toml").write_text(f'[embedding]\nprovider = "none"\n{peers}')
    with open_engine(load(project, home=home, environment={})) as engine:
        index.scan(engine)
        yield engine


def measure(work: Callable[[], object]) -> str:
    """Wall time and this process's CPU time of some work, in seconds."""
    began, cpu = time.monotonic(), time.process_time()
    work()
    return f"{time.monotonic() - began:.2f} s, our CPU {time.process_time() - cpu:.2f} s"


def count_cpu(process: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure_locally(notes: dict[str, bytes]) -> None:
    """The index beside all files, and what a sync gathers, in CPU milliseconds."""
    with tempfile.TemporaryDirectory() as name, open_notes(Path(name), notes) as engine:
        for what, work in (
            ("freshness of the index", lambda: sync.compare_index(engine)),
            (
                "gathering what peers should have",
                lambda: [c.digest for c in collect_copies(engine, (), LIMIT).values()],
            ),
        ):
            times = []
            for _ in range(7):
                began = time.process_time()
                work()
                times.append((time.process_time() - began) * 1000)
            print(f"{what}, {len(notes)} notes: {statistics.median(times):.0f} CPU-ms")


def edit_for_a_day(engine: Engine, chance: random.Random) -> None:
    """Twenty rounds of edits, each followed by a sync."""
    vault, peer = engine.settings.folder / "memories", engine.settings.peers[0]
    edits, drifts, times, began_with = 0, list[float](), list[float](), compare_peer(engine, peer).in_sync
    for number in range(20):
        changed, renamed, deleted = chance.sample(sorted(vault.rglob("*.md")), 3)
        changed.write_text(f"{number}. Changed today.\n\n{changed.read_text()}")
        renamed.rename(renamed.with_name(f"renamed-{number}.md"))
        deleted.unlink()
        (vault / f"new-{number}.md").write_text(
            f"# What was learned in hour {number}\n\nThe queue has {number * 17} jobs.\n"
        )
        edits += 4
        index.scan(engine)
        drifts.append(compare_peer(engine, peer).drift)
        began = time.monotonic()
        result = sync_peer(engine, peer)
        times.append(time.monotonic() - began)
        if result.exit_code:
            print(f"  round {number}: {result}")
    found = compare_peer(engine, peer)
    print(f"a day of {edits} edits in {began_with} notes, a sync after every fourth:")
    print(f"  drift before each sync {statistics.mean(drifts):.2%}")
    print(f"  after the last {found.drift:.2%}, {found.in_sync} in sync")
    print(f"  a sync of four changes: median {statistics.median(times):.2f} s, longest {max(times):.2f} s")


def measure_forgetful(notes: dict[str, bytes], workers: int) -> None:
    """Everything that needs Forgetful."""
    sync.WORKERS = workers
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        peer = Forgetful(folder)
        stated = f'[[peers]]\nname = "forgetful"\nkind = "forgetful"\nurl = "{peer.url}"\n'
        try:
            peer.start()
            with open_notes(folder / "ours", notes, stated) as engine:
                settings = engine.settings.peers[0]
                compare_peer(engine, settings)  # connected, and the model loaded
                assert peer.process
                before = count_cpu(peer.process.pid)
                taken = measure(lambda: print(f"  {describe(sync_peer(engine, settings))}"))
                spent = count_cpu(peer.process.pid) - before
                print(f"first sync of {len(notes)} notes, {workers} calls at once: {taken}, its CPU {spent:.1f} s")
                print(f"incremental sync of nothing: {measure(lambda: sync_peer(engine, settings))}")
                print(f"full sync of nothing: {measure(lambda: sync_peer(engine, settings, full=True))}")
                print(f"freshness: {measure(lambda: compare_peer(engine, settings))}")
                texts = [copy.text for copy in collect_copies(engine, (), LIMIT).values()]
                ended = subprocess.run(
                    [str(PYTHON), "-c", EMBED],
                    input=json.dumps(texts),
                    env=environment(folder),
                    capture_output=True,
                    text=True,
                    check=True,
                )
                wall, cpu = map(float, ended.stdout.split())
                print(f"embedding of the {len(texts)} texts alone: {wall:.1f} s, CPU {cpu:.1f} s")
                edit_for_a_day(engine, random.Random(7))
        finally:
            close_peers(10)
            peer.stop(signal.SIGTERM)


def describe(result: sync.PeerSync) -> str:
    """How a sync ended."""
    return f"{len(result.steps)} done, {len(result.failed)} refused, {result.left} left {result.fault}"


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="Markdown files")
    parser.add_argument("--notes", type=int, default=500, help="so many of them go to Forgetful; 0 for none")
    parser.add_argument("--workers", type=int, default=sync.WORKERS)
    given = parser.parse_args()
    notes = {
        path.relative_to(given.folder).as_posix(): path.read_bytes() for path in sorted(given.folder.rglob("*.md"))
    }
    measure_locally(notes)
    if given.notes:
        install()
        measure_forgetful(dict(random.Random(7).sample(sorted(notes.items()), given.notes)), given.workers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
