"""Searches with other memories and search programs beside Scrimshaw: the same notes, queries and number of hits.

    python -m benchmarks.peers DATA [--set notes] [--only NAME ...] [--folder .bench/peers]

DATA is the folder of the judged sets, as `make eval` unpacks it. Each program is installed by pip into an environment
of its own, once. All take the notes in one after the other, then answer each query in turn, so that a slow moment of
the machine hits all of them. Quality is that of the first ten notes, intervals those of the paired difference.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from msgspec import Struct

from benchmarks.figures import machine
from benchmarks.peers.programs import LEFT_OUT, PROGRAMS, Program, command_of, environment_of, fetch_model, install
from scrimshaw_lab.judged_sets import DOCUMENTS, Texts, read_sets
from scrimshaw_lab.metrics import answers_among, bootstrap_interval, hit_at, mean, mrr_at, ndcg_at
from scrimshaw_lab.search_quality import CUTOFF, JudgedQuery

WARM_UP = 3  # queries asked first: models load at the first one
HEAD = ("program", "nDCG@10", "MRR@10", "hit@5", "hit@1", "Scrimshaw leads", "ms/search", "ms/note", "MB", "takes")


class Refused(Exception):
    """A program that could not be installed or run."""


class Measured(Struct, kw_only=True):
    """What a program did: a ranking and processor milliseconds for each query, milliseconds for each note, memory."""

    rankings: list[list[str]]
    search_ms: list[float]
    add_ms: float
    resident_mb: float = 0.0


class Side:
    """A program at work in a process of its own, with its data in a folder that later runs find again."""

    def __init__(self, program: Program, place: Path, corpus: str) -> None:
        self.program, self._folder = program, program.folder(place)
        self._data = self._folder / corpus
        self._added = self._data / "added.json"
        if not self._added.exists():
            shutil.rmtree(self._data, ignore_errors=True)
            self._data.mkdir(parents=True)
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command_of(program, place), self._data, *program.arguments],
                env=environment_of(program, place),
                cwd=self._data,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )

    def add(self, notes: Texts) -> float:
        """Let it take the notes in, unless an earlier run did; the processor milliseconds of each."""
        if not self._added.exists():
            self._added.write_text(json.dumps(self._ask({"notes": notes})["cpu_ms"] / len(notes)), encoding="utf-8")
        return float(json.loads(self._added.read_text(encoding="utf-8")))

    def search(self, query: str) -> Any:
        """Its answer: `ids`, `cpu_ms` and `rss_mb`."""
        return self._ask({"query": query, "count": CUTOFF})

    def close(self) -> None:
        """End the process."""
        self._process.communicate()

    def _ask(self, request: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())
        except (OSError, ValueError):
            last = (self._folder / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise Refused(f"it stopped: {' '.join(last)[:200]}") from None


def main(arguments: Sequence[str] | None = None) -> None:
    """Install, measure, and print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.peers", description=__doc__)
    parser.add_argument("data", type=Path, help="the folder of the judged sets")
    parser.add_argument("--set", default="notes", help="the set's name in `scrimshaw eval sets`")
    parser.add_argument("--only", action="append", help="a program to measure besides Scrimshaw (repeatable)")
    parser.add_argument("--folder", type=Path, default=Path(".bench/peers"), help="environments and data")
    given = parser.parse_args(arguments)
    notes, judged = read_sets(given.data)[given.set](DOCUMENTS)
    chosen = [each for each in PROGRAMS if each.name == "Scrimshaw" or not given.only or each.name in given.only]
    found, refused = measure(chosen, given.folder.absolute(), notes, judged)
    print(f"{machine()}\n{given.set}: {len(notes)} notes, {len(judged)} queries, {CUTOFF} notes an answer")
    print("\n".join(table(found, judged)))
    for name, reason in {**refused, **LEFT_OUT}.items():
        print(f"could not run here: {name}: {reason}")


def measure(
    programs: Sequence[Program], place: Path, notes: Texts, judged: Sequence[JudgedQuery]
) -> tuple[dict[Program, Measured], dict[str, str]]:
    """What each program did, and why some did nothing."""
    corpus = hashlib.sha256(json.dumps(notes).encode()).hexdigest()[:12]
    fetch_model(place)
    sides, found, refused = dict[str, Side](), dict[Program, Measured](), dict[str, str]()
    for program in programs:
        print(f"{program.name} takes {len(notes)} notes in", flush=True)
        try:
            install(program, place)
            sides[program.name] = Side(program, place, corpus)
            found[program] = Measured(rankings=[], search_ms=[], add_ms=sides[program.name].add(notes))
            for query in judged[:WARM_UP]:
                sides[program.name].search(query.query)
        except (Refused, subprocess.CalledProcessError) as reason:
            refused[program.name] = str(reason)
            found.pop(program, None)
    for query in judged:
        for program, measured in found.items():
            answer = sides[program.name].search(query.query)
            measured.rankings.append(answer["ids"])
            measured.search_ms.append(answer["cpu_ms"])
            measured.resident_mb = max(measured.resident_mb, answer["rss_mb"])
    for side in sides.values():
        side.close()
    return found, refused


def table(found: Mapping[Program, Measured], judged: Sequence[JudgedQuery]) -> list[str]:
    """A line for each program, as a table of Markdown."""
    columns = {program: _score(measured.rankings, judged) for program, measured in found.items()}
    first, *_ = columns.values()
    rows = [HEAD, tuple("-" for _ in HEAD)]
    for program, measured in found.items():
        scores = columns[program]
        gaps = [one - two for one, two in zip(first["ndcg"], scores["ndcg"], strict=True)]
        low, high = bootstrap_interval([[gap] for gap in gaps])
        lead = "" if scores is first else f"{mean(gaps):+.3f} ({low:+.3f} to {high:+.3f})"
        quality = (f"{mean(values):.3f}" for values in scores.values())
        costs = (f"{median(measured.search_ms):.1f}", f"{measured.add_ms:.0f}", f"{measured.resident_mb:.0f}")
        rows.append((program.name, *quality, lead, *costs, program.way))
    return [f"| {' | '.join(row)} |" for row in rows]


def _score(rankings: Sequence[Sequence[str]], judged: Sequence[JudgedQuery]) -> dict[str, list[float]]:
    """nDCG@10, MRR@10, hit@5 and hit@1 of each query."""
    pairs = [(ranking, query.relevant) for ranking, query in zip(rankings, judged, strict=True)]
    answers = [(ranking, answers_among(grades)) for ranking, grades in pairs]
    return {
        "ndcg": [ndcg_at(ranking, grades, CUTOFF) for ranking, grades in pairs],
        "mrr": [mrr_at(ranking, names, CUTOFF) for ranking, names in answers],
        "hit5": [hit_at(ranking, names, 5) for ranking, names in answers],
        "hit1": [hit_at(ranking, names, 1) for ranking, names in answers],
    }


if __name__ == "__main__":
    main()
