"""What the tools answer: flat, named as users say it, without what is empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from scrimshaw.app.hooks.inject import guarded
from scrimshaw.ingest.instructions import FLAG, is_suspicious
from scrimshaw.models import Degradation, Memory, Skip, Trust
from scrimshaw.search.results import Hit, SearchResult


class HitView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A hit; `flags` warn of its text, which is then fenced.

    `why` holds ranks per channel, factors and boosts, of a session's entry the call it came from.
    """

    id: str
    title: str
    score: float
    text: str
    tokens: int
    tier: str = "normal"
    type: str = "general"
    artifact: str = "memory"
    anchor: str = ""
    trust: str = "human"
    flags: Sequence[str] = ()
    updated: str = ""
    always_on: bool = False
    why: Mapping[str, Any] = {}


class SearchReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Hits, best first; always-on memories come before all others."""

    hits: Sequence[HitView]
    count: int
    intent: str
    tokens: int
    omitted: int = 0
    next_cursor: str = ""
    degraded: Sequence[Degradation] = ()
    trace: Sequence[Mapping[str, Any]] = ()


class MemoryView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A memory without its text."""

    id: str
    title: str
    type: str
    tier: str
    artifact: str
    tokens: int
    trigger_phrases: Sequence[str] = ()
    topics: Sequence[str] = ()
    source: str = "vault"
    trust: str = "human"
    created: str = ""
    updated: str = ""
    read_only: bool = False
    quality_score: float | None = None
    quality_flags: Sequence[str] = ()


def search_reply(result: SearchResult, *, trace: bool = False, cursor: str = "") -> SearchReply:
    """A search result as the tools answer it; `trace` brings stages and the reasons behind every score."""
    return SearchReply(
        hits=[hit_view(hit, explain=trace) for hit in (*result.always_on, *result.hits)],
        count=len(result.hits),
        intent=result.intent,
        tokens=result.tokens,
        omitted=result.omitted,
        next_cursor=cursor,
        degraded=result.degradations,
        trace=[_stage(stage) for stage in result.trace] if trace else (),
    )


def hit_view(hit: Hit, *, explain: bool) -> HitView:
    """A hit as the tools answer it."""
    memory = hit.memory
    return HitView(
        id=memory.id,
        title=memory.title,
        score=hit.score,
        text=guarded(hit.text, memory.provenance.trust),
        tokens=hit.tokens,
        tier=_unless(memory.tier, "normal"),
        type=_unless(memory.type, "general"),
        artifact=_unless(memory.artifact, "memory"),
        anchor=hit.anchor,
        trust=_unless(memory.provenance.trust, "human"),
        flags=flags(f"{memory.title}\n{hit.text}", memory.provenance.trust),
        updated=memory.updated,
        always_on=hit.always_on,
        why=_why(hit) if explain else {},
    )


def flags(text: str, trust: Trust) -> tuple[str, ...]:
    """What to warn of in a text that no person vouches for."""
    return (FLAG,) if trust != Trust.HUMAN and is_suspicious(text) else ()


def _unless(value: str, usual: str) -> str:
    """The value, or the very default that is left out of a reply: every word of a reply costs the agent tokens."""
    return usual if value == usual else value


def memory_view(memory: Memory) -> MemoryView:
    """A memory as the tools answer it."""
    quality = memory.quality
    return MemoryView(
        id=memory.id,
        title=memory.title,
        type=memory.type,
        tier=memory.tier,
        artifact=memory.artifact,
        tokens=memory.tokens,
        trigger_phrases=memory.triggers,
        topics=memory.topics,
        source=memory.source,
        trust=memory.provenance.trust,
        created=memory.created,
        updated=memory.updated,
        read_only=not memory.writable,
        quality_score=quality.score if quality else None,
        quality_flags=quality.flags if quality else (),
    )


def skip_view(skips: Sequence[Skip]) -> list[dict[str, str]]:
    """Skipped files as the tools answer them."""
    return [{"path": skip.path, "reason": skip.reason} for skip in skips]


def _why(hit: Hit) -> Mapping[str, Any]:
    why = hit.explanation
    parts = {
        "ranks": why.ranks,
        "raw": why.raw,
        "fused": why.fused,
        "factors": why.factors,
        "boosts": why.boosts,
        "phrases": why.phrases,
        "source": why.source,
    }
    return {name: value for name, value in parts.items() if value}


def _stage(stage: Any) -> Mapping[str, Any]:
    return {"stage": stage.stage, "entered": stage.entered, "left": stage.left, "ms": stage.ms, **stage.notes}
