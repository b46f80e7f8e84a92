"""The toolset `discovery`: exact lists, counts and edges, never by search."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from scrimshaw.app.mcp.replies import MemoryView, edge_view, memory_view, plain_words, skip_view
from scrimshaw.app.mcp.schema import tool
from scrimshaw.app.mcp.tools.core import Date, Folder, MemoryId
from scrimshaw.engine import Engine, inspecting, read
from scrimshaw.models import Degradation, Filters, MemoryType, Tier

_ENTRY = (
    "seq", "at", "action", "memory_id", "reason", "prior_hash", "new_hash", "linked_memory_ids", "decision_meta",
    "actor", "session",
)  # fmt: skip


class ListCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of memory_list."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    offset: Annotated[int, Meta(ge=0)] = 0
    spec_folder: Folder = ""
    tier: Tier | None = None
    context_type: MemoryType | None = None
    topic: str = ""
    source: str = ""
    since: Date = ""
    until: Date = ""
    sort_by: Literal["id", "title", "created", "updated"] = "updated"
    include_deprecated: bool = False


class ListReply(Struct, frozen=True, kw_only=True):
    """A page; `total` counts all that satisfy the filters."""

    memories: Sequence[MemoryView]
    total: int
    offset: int


class StatsCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of memory_stats."""

    spec_folder: Folder = ""
    tier: Tier | None = None
    context_type: MemoryType | None = None
    topic: str = ""
    source: str = ""
    since: Date = ""
    until: Date = ""
    include_deprecated: bool = False
    folder_ranking: Literal["count", "recency", "importance"] = "count"
    exclude_patterns: Annotated[tuple[str, ...], Meta(description="Globs on ids to leave out.")] = ()
    limit: Annotated[int, Meta(ge=1, le=100, description="Most folders.")] = 10


class StatsReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Exact counts; `folders` are ranked as asked, `skipped` are all files that the last scan passed over."""

    total: int
    by_tier: Mapping[str, int]
    by_type: Mapping[str, int]
    by_artifact: Mapping[str, int]
    by_source: Mapping[str, int]
    folders: Sequence[Mapping[str, Any]]
    oldest: str
    newest: str
    vectors: Mapping[str, int]
    waiting_jobs: int
    bytes: Mapping[str, int]
    skipped: Sequence[Mapping[str, str]]
    degraded: Sequence[Degradation] = ()


class DependenciesCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of memory_dependencies."""

    id: MemoryId
    max_depth: Annotated[int, Meta(ge=1, le=10)] = 1
    direction: Literal["outgoing", "incoming", "both"] = "both"


class DependenciesReply(Struct, frozen=True, kw_only=True):
    """Edges as the files state them; `unresolved` ones lead to no memory."""

    id: str
    edges: Sequence[Mapping[str, Any]]


class HistoryCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of memory_history."""

    id: Annotated[str, Meta(max_length=400, description="Only of this memory.")] = ""
    session_id: Annotated[str, Meta(description="Only what this session changed.")] = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class HistoryReply(Struct, frozen=True, kw_only=True):
    """Entries of the ledger, newest first; `at` is seconds since 1970."""

    entries: Sequence[Mapping[str, Any]]


@tool(toolset="discovery", layer="L3", read_only=True, idempotent=True)
def memory_history(engine: Engine, call: HistoryCall) -> HistoryReply:
    """Who changed memories, when and why, as the ledger holds it: hashes and ids, no text."""
    rows = engine.journal.history(call.id, call.limit, session=call.session_id)
    return HistoryReply(entries=[plain_words({name: row[name] for name in _ENTRY if row[name]}) for row in rows])


@tool(toolset="discovery", layer="L3", read_only=True, idempotent=True)
def memory_list(engine: Engine, call: ListCall) -> ListReply:
    """Page through memories in a fixed order."""
    page = inspecting.page(engine, _filters(call), sort=call.sort_by, limit=call.limit, offset=call.offset)
    return ListReply(memories=[memory_view(m) for m in page.memories], total=page.total, offset=page.offset)


@tool(toolset="discovery", layer="L3", read_only=True, idempotent=True)
def memory_stats(engine: Engine, call: StatsCall) -> StatsReply:
    """Count memories exactly."""
    found = inspecting.stats(engine, _filters(call), exclude=call.exclude_patterns)
    folders = inspecting.ranked_folders(found.folders, call.folder_ranking)
    done, total = found.vectors
    return StatsReply(
        total=found.total,
        by_tier=found.by_tier,
        by_type=found.by_type,
        by_artifact=found.by_artifact,
        by_source=found.by_source,
        folders=[plain_words(folder) for folder in folders[: call.limit]],
        oldest=found.oldest,
        newest=found.newest,
        vectors={"done": done, "total": total},
        waiting_jobs=found.waiting_jobs,
        bytes={"index": found.index_bytes, "journal": found.journal_bytes},
        skipped=skip_view(found.skipped),
        degraded=found.degradations,
    )


@tool(toolset="discovery", layer="L3", read_only=True, idempotent=True)
def memory_dependencies(engine: Engine, call: DependenciesCall) -> DependenciesReply:
    """What a memory links to and what links to it."""
    edges = read.dependencies(engine, call.id, hops=call.max_depth, direction=call.direction)
    return DependenciesReply(id=call.id, edges=[edge_view(edge) for edge in edges])


TOOLS = (memory_list, memory_stats, memory_dependencies, memory_history)


def _filters(call: ListCall | StatsCall) -> Filters:
    return Filters(
        folder=call.spec_folder,
        tiers=(call.tier,) if call.tier else (),
        types=(call.context_type,) if call.context_type else (),
        topics=(call.topic,) if call.topic else (),
        source=call.source,
        since=call.since,
        until=call.until,
        include_deprecated=call.include_deprecated,
    )
