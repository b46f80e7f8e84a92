"""Shadow run: every query without and with the boosts of a session, and the figures beside their targets:

    python -m benchmarks.shadow --data DIR --queries FILE [--total 1000] [--draws 1] [--links] [--engine DIR]

The judged queries of FILE come first, then titles and headings of the memories themselves, up to `--total`; each is
run `--draws` times with other memories drawn. With `--links` every reference between two memories is also stated as
a causal relation, so that causal neighbours are lifted too. `--engine` keeps index and vectors for the next run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from benchmarks.figures import machine
from benchmarks.shadow_run import (
    DEPTH,
    FARTHEST_FALL,
    Case,
    ShadowFigures,
    figures,
    known_items,
    missed,
    shadows,
)
from scrimshaw.config import Settings
from scrimshaw.engine.core import Engine, open_engine
from scrimshaw.engine.index import embed_pending, scan
from scrimshaw.engine.ledger import links_path
from scrimshaw.models import Edge, Filters, Relation
from scrimshaw.storage.scan import Source
from scrimshaw.storage.toml_files import render_links
from scrimshaw_lab.search_quality import read_queries

INDEX = "index.db"


def main(arguments: list[str] | None = None) -> None:
    """Run, print the figures, and say which targets are missed."""
    given = _options(arguments)
    judged = read_queries(given.queries)
    print(machine())
    with scratch_engine(given.data, given.exclude, given.engine) as engine:
        if given.links:
            print(f"{link_references(engine)} references stated as causal relations")
        queries = judged[: given.total] + known_items(engine, max(0, given.total - len(judged)), seed=given.seed)
        print(f"{len(queries)} queries ({min(len(judged), given.total)} judged), {given.draws} draws each")
        runs = [run for draw in range(given.draws) for run in shadows(engine, queries, seed=given.seed + draw)]
        for case in Case:
            report(figures([run for run in runs if run.case == case]), engine)


@contextmanager
def scratch_engine(data: Path, exclude: Sequence[str], keep: Path | None) -> Iterator[Engine]:
    """An engine over the memories in `data`, in a scratch folder; `keep` holds index and vectors from run to run."""
    source = Source(name="vault", root=data, exclude=tuple(exclude))
    with TemporaryDirectory(prefix="scrimshaw-bench-") as name:
        folder = Path(name)
        if keep:
            _filled(keep, source)
            copyfile(keep / INDEX, folder / INDEX)
        with open_engine(Settings(project=folder, home=folder), sources=[source], folder=folder) as engine:
            _fill(engine)
            yield engine


def link_references(engine: Engine) -> int:
    """State every reference between two memories as a causal relation, in the scratch project; how many there are."""
    ids = [memory.id for memory in engine.index.select(Filters(), sort="id", limit=-1, offset=0)]
    known, edges = set(ids), {}
    for name in ids:
        for found in engine.index.neighbors([name], hops=1, direction="outgoing"):
            if found.target in known and found.target != name:
                edges[name, found.target] = Edge(source=name, target=found.target, relation=Relation.SUPPORTS)
    path = links_path(engine)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_links(edges.values()), encoding="utf-8")
    _fill(engine)
    return len(edges)


def report(found: ShadowFigures, engine: Engine) -> None:
    """Print the figures of a case, how its answers fell, and the targets it misses."""
    values = {name: _plain(getattr(found, name)) for name in found.__struct_fields__ if name not in ("case", "falls")}
    print(f"\n{found.case}: " + "  ".join(f"{name} {value}" for name, value in values.items()))
    for first, last in ((1, 10), (11, 20), (21, DEPTH)):
        fallen = [fall.after - fall.before for fall in found.falls if first <= fall.before <= last]
        farthest = f", farthest {max(fallen)}" if fallen else ""
        print(f"  answers at {first}-{last} that fell more than {FARTHEST_FALL} places: {len(fallen)}{farthest}")
    print(f"  missed: {', '.join(missed(found)) or 'nothing'}")


def _plain(value: object) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _filled(folder: Path, source: Source) -> None:
    with open_engine(Settings(project=folder, home=folder), sources=[source], folder=folder) as engine:
        _fill(engine)


def _fill(engine: Engine) -> None:
    scan(engine)
    embed_pending(engine)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.shadow", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder of memories")
    parser.add_argument("--queries", type=Path, required=True, help="judged queries, a JSON object a line")
    parser.add_argument("--exclude", action="append", default=["**/*-index.md"], help="glob of files to leave out")
    parser.add_argument("--engine", type=Path, help="folder that keeps index and vectors")
    parser.add_argument("--total", type=int, default=1000, help="queries in all")
    parser.add_argument("--draws", type=int, default=1, help="sessions per query and case")
    parser.add_argument("--links", action="store_true", help="state references as causal relations")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
