"""References of old memories before and after `lint --fix-paths`, and what that does to search:

    python -m benchmarks.legacy --data DIR [--vectors]

DIR is the unpacked spec workspace: `workspace_*` with the Markdown of its spec folders, known-item queries in
`artifact_queries_dev.jsonl`, and queries without judgements in `original_queries_dev.jsonl`. The workspace is copied;
its active memories, those outside of `z_archive`, become the vault of the copy, all else stays documents.

The workspace has the Markdown of spec folders and nothing else, so only references into spec folders and relative ones
are judged: whether a source file was still there then cannot be told from it.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory

from msgspec import Struct

from benchmarks.figures import machine
from scrimshaw.config import EmbeddingSettings, Settings
from scrimshaw.engine import Engine, open_engine, read
from scrimshaw.engine.core import MEMORIES
from scrimshaw.engine.index import embed_pending, scan
from scrimshaw.engine.lint import ProjectFiles, apply_repairs, plan_repairs
from scrimshaw.ingest.references import Reference, Rename, find_references
from scrimshaw.models import Degradation
from scrimshaw.search.results import SearchRequest
from scrimshaw_lab.labelled import lines_of
from scrimshaw_lab.metrics import hit_at, mrr_at

CUTOFF = 10
SPECS = ".opencode/specs"
# What the workspace itself shows: the same folder names below another home, or behind another number.
_KIT = "003-system-spec-kit"
_MOVED = (
    ("005-anobel.com", "001-anobel.com"),
    ("031-anobel-performance-analysis", "001-anobel.com/031-anobel-performance-analysis"),
    ("003-memory-and-spec-kit", _KIT),
    (f"{_KIT}/138-hybrid-rag-fusion", f"{_KIT}/139-hybrid-rag-fusion/002-hybrid-rag-fusion"),
    (f"{_KIT}/139-hybrid-rag-fusion/research", f"{_KIT}/139-hybrid-rag-fusion/002-hybrid-rag-fusion/research"),
    (f"{_KIT}/139-spec-kit-phase-system", f"{_KIT}/138-spec-kit-phase-system"),
)
RENAMES = (
    ("../.opencode", ".opencode"),
    ("specs", SPECS),
    *_MOVED,
    *((f"{SPECS}/{old}", f"{SPECS}/{new}") for old, new in _MOVED),
)
_SPEC_FOLDER = re.compile(r"(?:^|/)specs/|(?:^|/)\d{3}-[a-z]")


class KnownItem(Struct, frozen=True):
    """A query and the one document it asks for."""

    query: str
    relevant: str


class Query(Struct, frozen=True):
    """A query without a judgement."""

    query: str


class Search(Struct, frozen=True, kw_only=True):
    """Rankings of both query sets, and the means of the judged one."""

    mrr_10: float
    hit_10: float
    known_items: tuple[tuple[str, ...], ...]
    original: tuple[tuple[str, ...], ...]


def main(arguments: list[str] | None = None) -> None:
    """Copy, measure, rename, measure again."""
    given = _options(arguments)
    print(machine())
    with TemporaryDirectory(prefix="scrimshaw-bench-") as name:
        settings = _project(given.data, Path(name), given.vectors)
        with open_engine(settings) as engine:
            _fill(engine)
            _report("before", settings)
            before = _searched(engine, given.data)
            renames = (*RENAMES, *_homes(settings))
            repairs = plan_repairs(engine, renames)
            apply_repairs(engine, repairs, renames)
            print(f"{len(repairs)} memories rewritten")
            _fill(engine)
            _report("after", settings)
            _compare(before, _searched(engine, given.data))


def _project(data: Path, folder: Path, vectors: bool) -> Settings:
    """A copy of the workspace as a project, active memories in its vault."""
    (workspace,) = data.glob("workspace_*/")
    for file in workspace.rglob("*.md"):
        name = file.relative_to(workspace)
        active = "memory" in name.parts and "z_archive" not in name.parts
        target = folder / ".scrimshaw" / MEMORIES / name.relative_to(SPECS) if active else folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        copyfile(file, target)
    embedding = EmbeddingSettings() if vectors else EmbeddingSettings(provider="none")
    return Settings(project=folder, home=folder / "home", embedding=embedding)


def _homes(settings: Settings) -> list[Rename]:
    """Of every memory folder the spec folder it belongs to: `./spec.md` in a memory means the one there."""
    vault = settings.folder / MEMORIES
    folders = sorted({path.parent.relative_to(vault) for path in vault.rglob("*.md")})
    here = vault.relative_to(settings.project).as_posix()
    return [(f"{here}/{folder.as_posix()}", f"{SPECS}/{folder.parent.as_posix()}") for folder in folders]


def _report(when: str, settings: Settings) -> None:
    found = _followed(settings)
    every = [one for _, stale in found for one in stale]
    total = sum(judged for judged, _ in found)
    print(f"{when}: {len(every)} of {total} references are stale ({len(every) / total:.1%})")
    print(f"  in {sum(bool(stale) for _, stale in found)} of {len(found)} active memories")
    for path, count in Counter(one.path for one in every).most_common():
        print(f"  {count:>4}  {path}")


def _followed(settings: Settings) -> list[tuple[int, tuple[Reference, ...]]]:
    """Of each active memory how many references can be judged, and which of them are stale."""
    known = ProjectFiles(settings)
    counted = []
    for path in sorted((settings.folder / MEMORIES).resolve().rglob("*.md")):
        found = [one for one in find_references(path.read_text("utf-8")) if _is_judged(one)]
        counted.append((len(found), known.find_stale(found, path)))
    return counted


def _is_judged(reference: Reference) -> bool:
    return reference.path.startswith(("./", "../")) or _SPEC_FOLDER.search(reference.path) is not None


def _fill(engine: Engine) -> None:
    scan(engine)
    if not isinstance(engine.embedder, Degradation):
        embed_pending(engine)


def _searched(engine: Engine, data: Path) -> Search:
    items = list(lines_of(data / "artifact_queries_dev.jsonl", KnownItem))
    rankings = [_ranking(engine, item.query) for item in items]
    answers = [{item.relevant.removesuffix(".md")} for item in items]
    pairs = list(zip(rankings, answers, strict=True))
    original = [_ranking(engine, one.query) for one in lines_of(data / "original_queries_dev.jsonl", Query)]
    return Search(
        mrr_10=sum(mrr_at(found, wanted, CUTOFF) for found, wanted in pairs) / len(pairs),
        hit_10=sum(hit_at(found, wanted, CUTOFF) for found, wanted in pairs) / len(pairs),
        known_items=tuple(rankings),
        original=tuple(original),
    )


def _ranking(engine: Engine, query: str) -> tuple[str, ...]:
    found = read.search(engine, SearchRequest(query=query, limit=CUTOFF, constitutional=False))
    return tuple(hit.memory.id for hit in found.hits)


def _compare(before: Search, after: Search) -> None:
    for name, old, new in (("MRR@10", before.mrr_10, after.mrr_10), ("hit@10", before.hit_10, after.hit_10)):
        print(f"{len(before.known_items)} known items, {name}: {old:.4f} -> {new:.4f}")
    for name, olds, news in (
        ("known items", before.known_items, after.known_items),
        ("original queries", before.original, after.original),
    ):
        same = sum(old == new for old, new in zip(olds, news, strict=True))
        print(f"{len(olds)} {name}: {same} rankings unchanged, {_overlap(olds, news):.1%} of the first ten the same")


def _overlap(olds: Sequence[tuple[str, ...]], news: Sequence[tuple[str, ...]]) -> float:
    both = sum(len({*old} & {*new}) for old, new in zip(olds, news, strict=True))
    return both / max(1, sum(map(len, olds)))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.legacy", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the unpacked spec workspace")
    parser.add_argument("--vectors", action="store_true", help="search by meaning too (takes long)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
