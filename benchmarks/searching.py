"""Search in process beside bare FTS5 and a bare scan of vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.bare import LIMIT, BareHybrid, BareText, BareVectors, SameText
from benchmarks.figures import Figure, figure, interleave
from scrimshaw.engine import Engine, read
from scrimshaw.models import Channel
from scrimshaw.search.results import SearchRequest


def search_latency(engine: Engine, bare: BareHybrid, count: int, queries: Sequence[str]) -> list[Figure]:
    """Text, vector and hybrid search; every query is new to both sides, so that both embed it."""
    share = len(queries) // 4
    cases: tuple[tuple[str, tuple[Channel, ...], Callable[[str], object], str], ...] = (
        ("search, text only", (Channel.TEXT,), bare.same_text.search, "FTS5 alone over the same rows"),
        ("search, text only ", (Channel.TEXT,), bare.text.search, "FTS5, one row per memory"),
        ("search, vector only", (Channel.VECTOR,), bare.vectors.search, "query embedding and exact numpy scan"),
        ("search, hybrid", tuple(Channel), bare.search, "query embedding, numpy scan and FTS5 over the same rows"),
    )
    figures = []
    for number, (name, channels, theirs, note) in enumerate(cases):
        mine = _searcher(engine, channels)
        mine(queries[-1])
        theirs(queries[-1])
        times = interleave(queries[number * share : (number + 1) * share], mine, theirs)
        figures.append(figure(name, count, "ms", *times, note=note))
    return figures


def bare_search(engine: Engine, folder: Path) -> BareHybrid:
    """The baseline over the memories and vectors of an engine."""
    return BareHybrid(BareText(engine, folder / "bare-text.db"), SameText(engine), BareVectors(engine))


def _searcher(engine: Engine, channels: tuple[Channel, ...]) -> Callable[[str], object]:
    def search(query: str) -> object:
        return read.search(engine, SearchRequest(query=query, limit=LIMIT, channels=channels))

    return search
