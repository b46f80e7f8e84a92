"""What the tools answer: flat, named as users say it, without what is empty."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, to_builtins

from scrimshaw.app.hooks.inject import guarded, is_withheld, shown
from scrimshaw.ingest.instructions import FLAG, is_suspicious
from scrimshaw.models import Degradation, Memory, Skip, Trust
from scrimshaw.search.results import Hit, SearchResult
from scrimshaw.storage.ports import Neighbor


class Labels(Struct, frozen=True, kw_only=True):
    """What a memory is called and brought up by, as an answer may say it.

    Of a tool or the web nothing that speaks to an agent is said: the id stands for the title, the rest is left out.
    `flags` warn of it.
    """

    title: str
    triggers: Sequence[str]
    topics: Sequence[str]
    flags: Sequence[str]


class HitView(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A hit; `flags` warn of its text, which is then fenced, or of its title, for which then its id stands.

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
    """A memory without its text; `flags` warn of its title, trigger phrases or topics, which are then left out."""

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
    flags: Sequence[str] = ()
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
    named = labels(memory)
    return HitView(
        id=shown(memory.id),
        title=named.title,
        score=hit.score,
        text=guarded(hit.text, memory.provenance.trust),
        tokens=hit.tokens,
        tier=_unless(memory.tier, "normal"),
        type=_unless(memory.type, "general"),
        artifact=_unless(memory.artifact, "memory"),
        anchor="" if is_withheld(hit.anchor, memory.provenance.trust) else shown(hit.anchor),
        trust=_unless(memory.provenance.trust, "human"),
        flags=flags(f"{memory.title}\n{hit.text}", memory.provenance.trust),
        updated=memory.updated,
        always_on=hit.always_on,
        why=_why(hit) if explain else {},
    )


def labels(memory: Memory) -> Labels:
    """Title, trigger phrases and topics of a memory for an answer; its provenance has the trust of its lineage."""
    trust = memory.provenance.trust
    return Labels(
        title=memory.id if is_withheld(memory.title, trust) else shown(memory.title),
        triggers=said(memory.triggers, trust),
        topics=said(memory.topics, trust),
        flags=flags("\n".join((memory.title, *memory.triggers, *memory.topics)), trust),
    )


def said(phrases: Sequence[str], trust: Trust) -> tuple[str, ...]:
    """The phrases that an answer may say, made visible."""
    return tuple(shown(phrase) for phrase in phrases if not is_withheld(phrase, trust))


def flags(text: str, trust: Trust) -> tuple[str, ...]:
    """What to warn of in a text that no person vouches for."""
    return (FLAG,) if trust != Trust.HUMAN and is_suspicious(text) else ()


def _unless(value: str, usual: str) -> str:
    """The value, or the very default that is left out of a reply: every word of a reply costs the agent tokens."""
    return usual if value == usual else value


def memory_view(memory: Memory) -> MemoryView:
    """A memory as the tools answer it."""
    quality = memory.quality
    named = labels(memory)
    return MemoryView(
        id=shown(memory.id),
        title=named.title,
        type=memory.type,
        tier=memory.tier,
        artifact=memory.artifact,
        tokens=memory.tokens,
        trigger_phrases=named.triggers,
        topics=named.topics,
        source=memory.source,
        trust=memory.provenance.trust,
        flags=named.flags,
        created=memory.created,
        updated=memory.updated,
        read_only=not memory.writable,
        quality_score=quality.score if quality else None,
        quality_flags=quality.flags if quality else (),
    )


def edge_view(edge: Neighbor) -> dict[str, Any]:
    """An edge as the tools answer it; its words have no label of their own, so they are trusted as little as a tool."""
    target = nowhere(edge.target) if edge.unresolved else shown(edge.target)
    return {**plain_words(edge), "target": target, "evidence": guarded(edge.evidence, Trust.TOOL)}


def nowhere(target: str) -> str:
    """What an edge leads to that is no memory: any words that a file holds."""
    return guarded(target, Trust.TOOL)


def plain_words(value: Struct | Mapping[str, Any]) -> dict[str, Any]:
    """A value's fields, its texts made harmless."""
    fields: dict[str, Any] = to_builtins(value)
    return {name: shown(each) if isinstance(each, str) else each for name, each in fields.items()}


def skip_view(skips: Sequence[Skip]) -> list[dict[str, str]]:
    """Skipped files as the tools answer them."""
    return [plain_words(skip) for skip in skips]


def _why(hit: Hit) -> Mapping[str, Any]:
    why = hit.explanation
    parts = {
        "ranks": why.ranks,
        "raw": why.raw,
        "fused": why.fused,
        "factors": why.factors,
        "boosts": why.boosts,
        "phrases": said(why.phrases, hit.memory.provenance.trust),
        "source": plain_words(why.source) if why.source else {},
    }
    return {name: value for name, value in parts.items() if value}


def _stage(stage: Any) -> Mapping[str, Any]:
    return {"stage": stage.stage, "entered": stage.entered, "left": stage.left, "ms": stage.ms, **stage.notes}
