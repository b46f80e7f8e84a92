"""Many processes on one memory: how long a save takes, and whether each is there afterwards.

    python -m benchmarks.writers [--writers 8] [--saves 1000] [--readers 4] [--data DIR]

Every writer is a process that saves made-up memories one after the other; readers search until the writers are done.
No vectors are made. Any error, and any save that is not in its file, the ledger and the index, ends with exit code 1.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from msgspec import Struct

from benchmarks import corpus
from benchmarks.figures import machine
from scrimshaw.config import load
from scrimshaw.engine import Engine, index, open_engine, write
from scrimshaw.engine.read import search
from scrimshaw.errors import ScrimshawError
from scrimshaw.models import Filters, content_hash
from scrimshaw.search.results import SearchRequest
from scrimshaw_lab.metrics import percentile

QUERY = "how the configuration of the tool is read"
STOP = "stop"


class Done(Struct, frozen=True, kw_only=True):
    """What a process did: milliseconds of each call, the hash of each memory it saved, and the errors it met."""

    ms: list[float]
    saved: dict[str, str]
    errors: list[str]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print; or be one of the processes."""
    given = _parsed(arguments)
    if given.be:
        _be(given.be, Path(given.project), given.data, given.saves)
        return
    with TemporaryDirectory(prefix="scrimshaw-bench-") as folder:
        project = Path(folder).resolve()
        (project / ".scrimshaw/memories").mkdir(parents=True)
        (project / ".scrimshaw/config.toml").write_text('[embedding]\nprovider = "none"\n')
        started = time.perf_counter()
        written, read = _measure(given, project)
        seconds = time.perf_counter() - started
        faults = _faults(project, written, given.writers * given.saves)
    errors = [error for done in (*written, *read) for error in done.errors]
    print(machine())
    _print(f"save, {given.writers} writers", [ms for done in written for ms in done.ms])
    _print(f"search, {given.readers} readers", [ms for done in read for ms in done.ms])
    print(f"{sum(len(done.saved) for done in written)} saves in {seconds:.1f} s")
    print(f"{len(errors)} errors, {len(faults)} saves not whole")
    for each in (errors + faults)[:10]:
        print(f"  {each}")
    raise SystemExit(1 if errors or faults else 0)


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.writers", description=__doc__)
    parser.add_argument("--writers", type=int, default=8, help="processes that save")
    parser.add_argument("--saves", type=int, default=1000, help="saves of each")
    parser.add_argument("--readers", type=int, default=4, help="processes that search")
    parser.add_argument("--data", type=Path, default=corpus.EXAMPLES, help="a folder of Markdown files")
    parser.add_argument("--be", default="", help=argparse.SUPPRESS)
    parser.add_argument("--project", default="", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def _measure(given: argparse.Namespace, project: Path) -> tuple[list[Done], list[Done]]:
    """What the writers and the readers did."""
    readers = [_start(given, project, f"reader-{number}") for number in range(given.readers)]
    writers = [_start(given, project, f"writer-{number}") for number in range(given.writers)]
    written = [_ended(process) for process in writers]
    (project / STOP).touch()
    return written, [_ended(process) for process in readers]


def _start(given: argparse.Namespace, project: Path, name: str) -> subprocess.Popen[bytes]:
    options = ["--be", name, "--project", str(project), "--saves", str(given.saves), "--data", str(given.data)]
    return subprocess.Popen([sys.executable, "-m", "benchmarks.writers", *options], stdout=subprocess.PIPE)


def _ended(process: subprocess.Popen[bytes]) -> Done:
    answer, _ = process.communicate()
    if process.returncode:
        raise SystemExit(f"A process ended with {process.returncode}.")
    return msgspec.json.decode(answer, type=Done)


def _be(name: str, project: Path, data: Path, saves: int) -> None:
    settings = load(project, home=project / "home", environment={})
    with open_engine(settings) as engine:
        done = _write(engine, name, data, saves) if name.startswith("writer") else _read(engine, project / STOP)
    sys.stdout.buffer.write(msgspec.json.encode(done))


def _write(engine: Engine, name: str, data: Path, saves: int) -> Done:
    texts, chance = corpus.read_texts(data), random.Random(name)
    done = Done(ms=[], saved={}, errors=[])
    for number in range(saves):
        new = write.NewText(content=corpus.made_up(texts, chance, number), id=f"{name}/{number}")
        started = time.perf_counter()
        try:
            done.saved[new.id] = write.save(engine, new, force=True).content_hash
        except ScrimshawError as error:
            done.errors.append(f"{new.id}: {error}")
        done.ms.append((time.perf_counter() - started) * 1000)
    return done


def _read(engine: Engine, stop: Path) -> Done:
    done = Done(ms=[], saved={}, errors=[])
    while not stop.exists():
        started = time.perf_counter()
        try:
            search(engine, SearchRequest(query=QUERY))
        except ScrimshawError as error:
            done.errors.append(str(error))
        done.ms.append((time.perf_counter() - started) * 1000)
        time.sleep(0.05)
    return done


def _faults(project: Path, written: Sequence[Done], expected: int) -> list[str]:
    """The saves that are not in their file, the ledger or the index, and a broken ledger."""
    saved = {name: digest for done in written for name, digest in done.saved.items()}
    with open_engine(load(project, home=project / "home", environment={})) as engine:
        found = engine.index.select(Filters(include_deprecated=True), sort="id", limit=-1, offset=0)
        places = {
            "index": {memory.id: memory.content_hash for memory in found},
            "ledger": engine.journal.last_hashes(),
            "file": {name: _hash(project, name) for name in saved},
        }
        scanned = index.scan(engine)
        broken = engine.journal.verify()[1]
    faults = [
        f"{name} is not in its {place}" for name in saved for place in places if places[place].get(name) != saved[name]
    ]
    faults += [f"{len(scanned.changes)} files were not indexed"] * bool(scanned.changes)
    faults += [f"the ledger breaks at {broken}"] * bool(broken)
    return faults + [f"{len(saved)} of {expected} were saved"] * (len(saved) != expected)


def _hash(project: Path, name: str) -> str:
    with suppress(FileNotFoundError):
        return content_hash((project / ".scrimshaw/memories" / f"{name}.md").read_bytes())
    return ""


def _print(name: str, ms: Sequence[float]) -> None:
    parts = [f"p{share * 100:g} {percentile(ms, share):7.1f} ms" for share in (0.5, 0.99)]
    print(f"{name:20} {'  '.join(parts)}  max {max(ms):7.1f} ms  ({len(ms)})")


if __name__ == "__main__":
    main()
