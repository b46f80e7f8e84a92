"""Exact answers about a memory: lists, counts, health. Never by search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from scrimshaw.engine.core import Engine
from scrimshaw.engine.indexing import vectors_ready
from scrimshaw.errors import InvalidRequest
from scrimshaw.models import Capability, Degradation, Filters, JobState, Memory, Skip, Tier
from scrimshaw.search.candidates import vectors_pending

LARGEST_PAGE = 100

# spec-kit tier values.
TIER_WEIGHTS: Mapping[Tier, float] = MappingProxyType(
    {
        Tier.CONSTITUTIONAL: 1.0,
        Tier.CRITICAL: 1.0,
        Tier.IMPORTANT: 0.8,
        Tier.NORMAL: 0.5,
        Tier.TEMPORARY: 0.3,
        Tier.DEPRECATED: 0.1,
    }
)


class Page(Struct, frozen=True, kw_only=True):
    """A page of memories; `total` counts all that satisfy the filters."""

    memories: tuple[Memory, ...]
    total: int
    offset: int


class Folder(Struct, frozen=True, kw_only=True):
    """The memories right below one top folder; `importance` is the mean weight of their tiers, 0..1."""

    name: str
    count: int
    updated: str
    importance: float


class Stats(Struct, frozen=True, kw_only=True):
    """Exact counts. `vectors` are (embedded, all) chunks, bytes those of the databases on disk."""

    total: int
    by_tier: Mapping[str, int]
    by_type: Mapping[str, int]
    by_artifact: Mapping[str, int]
    by_source: Mapping[str, int]
    folders: tuple[Folder, ...]
    oldest: str
    newest: str
    skipped: tuple[Skip, ...]
    vectors: tuple[int, int]
    waiting_jobs: int
    index_bytes: int
    journal_bytes: int


class Health(Struct, frozen=True, kw_only=True):
    """`status` is `healthy`, `degraded` (something is off, the rest works) or `broken` (answers may be wrong)."""

    status: str
    memories: int
    vectors: tuple[int, int]
    capabilities: tuple[Capability, ...]
    degradations: tuple[Degradation, ...]
    problems: tuple[str, ...]


def page(engine: Engine, filters: Filters, *, sort: str, limit: int, offset: int) -> Page:
    """A page of memories in a fixed order; raises InvalidRequest for an unknown order or a page too large."""
    if not 1 <= limit <= LARGEST_PAGE or offset < 0:
        raise InvalidRequest(f"A page has 1 to {LARGEST_PAGE} memories from offset 0.", "", parameter="limit")
    memories = engine.index.select(filters, sort=sort, limit=limit, offset=offset)
    return Page(memories=tuple(memories), total=engine.index.count(filters)[""], offset=offset)


def stats(engine: Engine, filters: Filters, *, exclude: Sequence[str] = ()) -> Stats:
    """Counts of the memories that satisfy the filters; `exclude` are globs on ids to leave out."""
    every = engine.index.select(filters, sort="id", limit=-1, offset=0)
    memories = [memory for memory in every if not any(fnmatchcase(memory.id, glob) for glob in exclude)]
    dates = sorted(memory.updated for memory in memories if memory.updated)
    return Stats(
        total=len(memories),
        by_tier=_counted(memory.tier for memory in memories),
        by_type=_counted(memory.type for memory in memories),
        by_artifact=_counted(memory.artifact for memory in memories),
        by_source=_counted(memory.source for memory in memories),
        folders=_folders(memories),
        oldest=dates[0] if dates else "",
        newest=dates[-1] if dates else "",
        skipped=tuple(engine.index.skips()),
        vectors=vectors_ready(engine),
        waiting_jobs=len(engine.journal.jobs((JobState.QUEUED, JobState.RUNNING))),
        index_bytes=engine.index.size_bytes(),
        journal_bytes=engine.journal.size_bytes(),
    )


def ranked_folders(folders: Sequence[Folder], by: str) -> list[Folder]:
    """Folders with the most memories, the newest or the most important first; `by` is count, recency or importance."""
    keys: Mapping[str, Callable[[Folder], Any]] = {
        "count": lambda folder: folder.count,
        "recency": lambda folder: folder.updated,
        "importance": lambda folder: folder.importance,
    }
    return sorted(sorted(folders, key=lambda folder: folder.name), key=keys[by], reverse=True)


def health(engine: Engine, *, thorough: bool = False) -> Health:
    """What works and what does not; `thorough` reads every page of both databases and checks the ledger's chain."""
    done, total = vectors_ready(engine)
    degradations = [engine.embedder] if isinstance(engine.embedder, Degradation) else []
    if not degradations and done < total:
        degradations.append(vectors_pending(done, total))
    problems = _problems(engine) if thorough else []
    status = "broken" if problems else "degraded" if degradations else "healthy"
    return Health(
        status=status,
        memories=engine.index.count(Filters(include_deprecated=True))[""],
        vectors=(done, total),
        capabilities=tuple(engine.index.capabilities()),
        degradations=tuple(degradations),
        problems=tuple(problems),
    )


def _counted(names: Iterable[str]) -> dict[str, int]:
    return {str(name): count for name, count in sorted(Counter(names).items())}


def _folders(memories: Sequence[Memory]) -> tuple[Folder, ...]:
    grouped: dict[str, list[Memory]] = {}
    for memory in memories:
        folder, slash, _ = memory.id.partition("/")
        grouped.setdefault(folder if slash else "", []).append(memory)
    return tuple(
        Folder(
            name=name,
            count=len(members),
            updated=max(memory.updated for memory in members),
            importance=round(sum(TIER_WEIGHTS[memory.tier] for memory in members) / len(members), 3),
        )
        for name, members in sorted(grouped.items())
    )


def _problems(engine: Engine) -> list[str]:
    found = [f"index.db: {fault}; run `scrimshaw rebuild`" for fault in engine.index.check()]
    found += [f"journal.db: {fault}; restore it from a backup" for fault in engine.journal.check()]
    checked, broken = engine.journal.verify()
    if broken:
        found.append(f"the ledger's chain breaks at row {broken} of {checked}")
    return found
