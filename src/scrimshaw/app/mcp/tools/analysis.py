"""The toolset `analysis`: causal relations, and what changed because of what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from scrimshaw.app.mcp.replies import MemoryView, edge_view, memory_view, nowhere
from scrimshaw.app.mcp.schema import tool
from scrimshaw.app.mcp.tools.acting import session_of
from scrimshaw.app.mcp.tools.core import MemoryId
from scrimshaw.engine import Engine, links, read
from scrimshaw.models import Relation
from scrimshaw.storage.ports import Neighbor

# Dangling references beyond these are counted, not listed.
DANGLING_SHOWN = 20


class CausalLinkCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of memory_causal_link."""

    source_id: MemoryId
    target_id: MemoryId
    relation: Annotated[Relation, Meta(description="Read from source to target: the new one supersedes the old.")]
    strength: Annotated[float, Meta(ge=0, le=1)] = 1.0
    evidence: Annotated[str, Meta(description="Why it holds.", max_length=2000)] = ""
    session_id: str = ""


class CausalUnlinkCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of memory_causal_unlink."""

    source_id: MemoryId
    target_id: MemoryId
    relation: Relation
    session_id: str = ""


class CausalLinkReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`status`: linked, updated or unlinked. `path` is the file that holds the relation."""

    source_id: str
    target_id: str
    relation: str
    status: str
    path: str
    strength: float = 1.0
    evidence: str = ""


class CausalStatsCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """memory_causal_stats takes no parameters."""


class CausalStatsReply(Struct, frozen=True, kw_only=True):
    """`coverage` is the share of memories with a relation; `dangling` lists the first references to no memory."""

    edges: int
    by_relation: Mapping[str, int]
    memories: int
    linked: int
    coverage: float
    dangling_count: int
    dangling: Sequence[Mapping[str, str]]


class DriftWhyCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of memory_drift_why."""

    memory_id: MemoryId
    max_depth: Annotated[int, Meta(ge=1, le=links.DEEPEST, description="Most hops of the chain.")] = 3
    direction: Literal["outgoing", "incoming", "both"] = "both"
    relations: Annotated[tuple[Relation, ...], Meta(description="Only these in the chain.")] = ()
    include_memory_details: bool = True


class DriftWhyReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`replaced_by` is newest first, with evidence; `chain` holds the edges met by relation."""

    memory_id: str
    replaced_by: Sequence[Mapping[str, Any]]
    replaces: Sequence[Mapping[str, Any]]
    chain: Mapping[str, Sequence[Mapping[str, Any]]]
    memories: Sequence[MemoryView] = ()


@tool(toolset="analysis", layer="L6", idempotent=True)
def memory_causal_link(engine: Engine, call: CausalLinkCall) -> CausalLinkReply:
    """State that one memory caused, enabled, supersedes, contradicts, is derived from or supports another."""
    linked = links.link(
        engine,
        call.source_id,
        call.target_id,
        call.relation,
        call.strength,
        call.evidence,
        session=session_of(engine, call.session_id),
    )
    return _reply(linked)


@tool(toolset="analysis", layer="L6")
def memory_causal_unlink(engine: Engine, call: CausalUnlinkCall) -> CausalLinkReply:
    """Take a relation back."""
    session = session_of(engine, call.session_id)
    return _reply(links.unlink(engine, call.source_id, call.target_id, call.relation, session=session))


@tool(toolset="analysis", layer="L6", read_only=True, idempotent=True)
def memory_causal_stats(engine: Engine, call: CausalStatsCall) -> CausalStatsReply:
    """Count causal relations, and find those that lead nowhere."""
    found = links.stats(engine)
    return CausalStatsReply(
        edges=found.edges,
        by_relation=found.by_relation,
        memories=found.memories,
        linked=found.linked,
        coverage=found.coverage,
        dangling_count=len(found.dangling),
        dangling=[
            {"source_id": edge.source, "target_id": nowhere(edge.target), "relation": edge.relation}
            for edge in found.dangling[:DANGLING_SHOWN]
        ],
    )


@tool(toolset="analysis", layer="L6", read_only=True, idempotent=True)
def memory_drift_why(engine: Engine, call: DriftWhyCall) -> DriftWhyReply:
    """What replaced a memory and why, and the chain of causes and effects around it."""
    found = links.drift_why(
        engine,
        call.memory_id,
        max_depth=call.max_depth,
        direction=call.direction,
        relations=call.relations,
        details=call.include_memory_details,
    )
    return DriftWhyReply(
        memory_id=found.id,
        replaced_by=[_edge(edge) for edge in found.replaced_by],
        replaces=[_edge(edge) for edge in found.replaces],
        chain={relation: [_edge(edge) for edge in edges] for relation, edges in found.chain.items()},
        memories=tuple(memory_view(memory) for memory in read.traced(engine, found.memories).values()),
    )


TOOLS = (memory_causal_link, memory_causal_unlink, memory_causal_stats, memory_drift_why)


def _reply(linked: links.Linked) -> CausalLinkReply:
    return CausalLinkReply(
        source_id=linked.source,
        target_id=linked.target,
        relation=linked.relation,
        status=linked.status,
        path=linked.path,
        strength=linked.strength,
        evidence=linked.evidence,
    )


def _edge(edge: Neighbor) -> Mapping[str, Any]:
    told = edge_view(edge)
    return {name: told[name] for name in ("hop", "source", "target", "strength", "evidence") if told[name] != ""}
