"""Tools that read exactly, never by search: health, lists, counts, edges, history, relations, what tasks taught."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Annotated, Any, Literal

from msgspec import Struct

from scrimshaw.app.checks import list_process_checks
from scrimshaw.app.hooks.fencing import fence_if_suspicious
from scrimshaw.app.mcp.replies import copy_fields, public_memory, public_words
from scrimshaw.app.mcp.schema import describe, tool
from scrimshaw.app.mcp.tools import core
from scrimshaw.engine import Engine, counts, learning, links, read
from scrimshaw.engine.degradations import INDEX
from scrimshaw.engine.health import check_health
from scrimshaw.engine.index import list_skipped_files
from scrimshaw.engine.ledger import PUBLIC_NAMES
from scrimshaw.errors import StorageFailure
from scrimshaw.models import Capability, Degradation, Neighbor, Relation, Skip, Trust, format_time

DANGLING_SHOWN = 20  # more dangling references are counted, not listed

Direction = Annotated[Literal["outgoing", "incoming", "both"], describe("Its own links, links to it, or both.")]


class HealthReply(Struct, frozen=True, omit_defaults=True):
    """`status`: healthy, degraded or broken. A capability is on, degraded or off; `was` is its status until `since`."""

    status: str
    memories: int
    vectors: Mapping[str, int]
    capabilities: Sequence[Capability]
    degraded: Sequence[Degradation] = ()
    problems: Sequence[str] = ()
    skipped: Sequence[Mapping[str, str]] = ()


class ListCall(core.FilterCall, frozen=True):
    limit: Annotated[int, describe("Maximum memories.", ge=1, le=100)] = 20
    offset: Annotated[int, describe("Skip this many.", ge=0)] = 0
    sort_by: Annotated[Literal["id", "title", "created", "updated"], describe("Times sort newest first.")] = "updated"
    until: core.Until = ""
    include_deprecated: core.IncludeDeprecated = False


class ListReply(counts.MemoryPage, frozen=True, kw_only=True, omit_defaults=True):
    """A page; `total` counts all matches of the filters."""

    memories: tuple[Any, ...]
    degraded: Sequence[Degradation] = ()


class StatsCall(core.FilterCall, frozen=True):
    folder_ranking: Annotated[Literal["count", "recency"], describe("Order of the folders.")] = "count"
    exclude_patterns: Annotated[tuple[str, ...], describe("Globs of ids to leave out.")] = ()
    limit: Annotated[int, describe("Maximum folders.", ge=1, le=100)] = 10
    until: core.Until = ""
    include_deprecated: core.IncludeDeprecated = False


class StatsReply(Struct, frozen=True, omit_defaults=True):
    """Exact counts; `folders` are ranked as requested, `skipped` are all files that the last scan skipped."""

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


class DependenciesReply(Struct, frozen=True):
    """Edges as written in the files; the target of `unresolved` ones does not exist."""

    id: str
    edges: Sequence[Mapping[str, Any]]


class HistoryReply(Struct, frozen=True):
    """Entries of the ledger, newest first; `id` is the memory's, `at` an ISO time."""

    entries: Sequence[Mapping[str, Any]]


class CausalStatsReply(links.GraphStats, frozen=True, kw_only=True):
    """`coverage` is the share of memories with a relation; `dangling` lists the first dangling references."""

    dangling: tuple[Any, ...]
    dangling_count: int


class DriftWhyReply(Struct, frozen=True, omit_defaults=True):
    """`replaced_by` is newest first, with evidence; `chain` has the edges by relation."""

    id: str
    replaced_by: Sequence[Mapping[str, Any]]
    replaces: Sequence[Mapping[str, Any]]
    chain: Mapping[str, Sequence[Mapping[str, Any]]]
    memories: Sequence[Mapping[str, Any]] = ()


class LearningHistoryReply(Struct, frozen=True, omit_defaults=True):
    """Tasks, newest first."""

    tasks: Sequence[Mapping[str, Any]]
    summary: Mapping[str, Any] = {}


@tool(toolset="core", read_only=True, idempotent=True)
def memory_health(
    engine: Engine, thorough: Annotated[bool, describe("Read both databases completely.")] = False
) -> HealthReply:
    """Check what works, what does not, and what to do about it."""
    found = check_health(engine, thorough=thorough, more=() if engine.team else list_process_checks(engine.settings))
    skips: Sequence[Skip] = ()
    with suppress(StorageFailure):  # `problems` reports it
        skips = list_skipped_files(engine)
    vectors, skipped = dict(zip(("done", "total"), found.vectors, strict=True)), [*map(public_words, skips)]
    return copy_fields(HealthReply, found, vectors=vectors, degraded=found.degradations, skipped=skipped)


@tool(toolset="discovery", read_only=True, idempotent=True)
def memory_list(engine: Engine, call: ListCall) -> ListReply:
    """Page through memories in a fixed order."""
    page = counts.page(engine, core.filters_of(engine, call), sort=call.sort_by, limit=call.limit, offset=call.offset)
    memories, behind = tuple(map(public_memory, page.memories)), engine.degradations.of(INDEX)
    return copy_fields(ListReply, page, memories=memories, degraded=behind)


@tool(toolset="discovery", read_only=True, idempotent=True)
def memory_stats(engine: Engine, call: StatsCall) -> StatsReply:
    """Count memories exactly."""
    found = counts.count_memories(engine, core.filters_of(engine, call), exclude=call.exclude_patterns)
    ranking = attrgetter("updated" if call.folder_ranking == "recency" else "count")
    folders = sorted(found.folders, key=ranking, reverse=True)
    return copy_fields(
        StatsReply,
        found,
        folders=[public_words(folder) for folder in folders[: call.limit]],
        vectors=dict(zip(("done", "total"), found.vectors, strict=True)),
        bytes={"index": found.index_bytes, "journal": found.journal_bytes},
        skipped=[*map(public_words, found.skipped)],
        degraded=(*found.degradations, *engine.degradations.of(INDEX)),
    )


@tool(toolset="discovery", read_only=True, idempotent=True)
def memory_dependencies(
    engine: Engine,
    id: core.MemoryId,
    max_depth: Annotated[int, describe("Maximum hops.", ge=1, le=10)] = 1,
    direction: Direction = "both",
) -> DependenciesReply:
    """List what a memory links to and what links to it."""
    edges = links.list_dependencies(engine, id, hops=max_depth, direction=direction)
    return DependenciesReply(id=id, edges=public_words(edges))


@tool(toolset="discovery", read_only=True, idempotent=True)
def memory_history(
    engine: Engine,
    id: Annotated[str, describe("Only of this memory.", max_length=400)] = "",
    session_id: Annotated[str, describe("Only what this session changed.")] = "",
    limit: Annotated[int, describe("Maximum entries.", ge=1, le=100)] = 20,
) -> HistoryReply:
    """List who changed memories, when and why, from the ledger: hashes and ids, no text."""
    rows = engine.journal.history(id, limit, session=session_id and core.session_id_of(engine, session_id))
    if engine.team:  # only of memories in its index, without other ids
        known = engine.index.get([name for row in rows for name in (row["memory_id"], *row["linked_memory_ids"])])
        linked = [[name for name in row["linked_memory_ids"] if name in known] for row in rows]
        public = ({**row, "linked_memory_ids": ids, "decision_meta": {}} for row, ids in zip(rows, linked, strict=True))
        rows = [row for row in public if row["memory_id"] in known]
    entries = []
    for row in rows:
        entry = {PUBLIC_NAMES.get(name, name): value for name, value in row.items() if value and name != "chain"}
        entries.append(public_words({**entry, "at": format_time(row["at"])}))
    return HistoryReply(entries=entries)


@tool(toolset="analysis", read_only=True, idempotent=True)
def memory_causal_stats(engine: Engine) -> CausalStatsReply:
    """Count causal relations, and find dangling ones."""
    found = links.count_relations(engine)
    dangling = tuple(
        {"source_id": edge.source, "target_id": fence_if_suspicious(edge.target, Trust.TOOL), "relation": edge.relation}
        for edge in found.dangling[:DANGLING_SHOWN]
    )
    return copy_fields(CausalStatsReply, found, dangling_count=len(found.dangling), dangling=dangling)


@tool(toolset="analysis", read_only=True, idempotent=True)
def memory_drift_why(
    engine: Engine,
    id: core.MemoryId,
    max_depth: Annotated[int, describe("Maximum hops of the chain.", ge=1, le=links.DEEPEST)] = 3,
    direction: Direction = "both",
    relations: Annotated[tuple[Relation, ...], describe("Only these in the chain.")] = (),
    include_memory_details: Annotated[bool, describe("Title, tier and trust of each memory.")] = True,
) -> DriftWhyReply:
    """Show what replaced a memory and why, and the chain of causes and effects around it."""
    found = links.explain_drift(engine, id, max_depth=max_depth, direction=direction, relations=relations)
    named = read.with_trust(engine, found.memories if include_memory_details else {})
    return DriftWhyReply(
        id=found.id,
        replaced_by=[_chain_edge(edge) for edge in found.replaced_by],
        replaces=[_chain_edge(edge) for edge in found.replaces],
        chain={relation: [_chain_edge(edge) for edge in edges] for relation, edges in found.chain.items()},
        memories=tuple(map(public_memory, named.values())),
    )


@tool(toolset="learning", read_only=True, idempotent=True)
def memory_get_learning_history(
    engine: Engine,
    folder: Annotated[str, describe("The folder of the tasks.", min_length=1, max_length=240)],
    session_id: Annotated[str, describe("Only tasks of this session.")] = "",
    limit: Annotated[int, describe("Maximum tasks.", ge=1, le=100)] = 10,
    only_complete: Annotated[bool, describe("Only tasks with both records.")] = False,
    include_summary: Annotated[bool, describe("Count and mean over the tasks.")] = True,
) -> LearningHistoryReply:
    """Show what the tasks of a folder taught."""
    found = learning.list_tasks(engine, folder, session=session_id, limit=limit, complete=only_complete)
    ended = [each.index for each in found if each.index is not None]
    mean = round(sum(ended) / len(ended), 2) if ended else None
    summary = {"tasks": len(found), "mean_learning_index": mean} if include_summary else {}
    return LearningHistoryReply(tasks=public_words(found), summary=summary)


def _chain_edge(edge: Neighbor) -> dict[str, Any]:
    fields = public_words(edge)
    return {name: fields[name] for name in ("hop", "source", "target", "strength", "evidence") if fields[name] != ""}
