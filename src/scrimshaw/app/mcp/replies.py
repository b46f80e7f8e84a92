"""What tools answer: flat values in the users' words, without what is empty, and with hostile words fenced or left out.

What speaks to an agent and no person vouches for never leaves plain: a body is fenced, a title gives way to the id,
a trigger phrase or topic is dropped, and `flags` warn of it. Every word of a reply costs the agent tokens, so a
hit names only what differs from the usual.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct, to_builtins

from scrimshaw.app.hooks.fencing import fence, fence_if_suspicious, is_withheld, remove_marks
from scrimshaw.app.mcp.schema import Reply
from scrimshaw.ingest.instructions import FLAG
from scrimshaw.models import Degradation, Memory, Trust
from scrimshaw.search.results import Hit, SearchResult

_ReplyT = TypeVar("_ReplyT", bound=Struct)
_USUAL = {"tier": "normal", "type": "general", "artifact": "memory", "trust": "file"}


class SearchReply(Reply, frozen=True, omit_defaults=True):
    """Hits, best first; always-on memories come before all others."""

    hits: Sequence[Mapping[str, Any]]
    count: int
    intent: str
    tokens: int
    omitted: int = 0
    next_cursor: str = ""
    degraded: Sequence[Degradation] = ()
    trace: Sequence[Mapping[str, Any]] = ()


def copy_fields(kind: type[_ReplyT], value: object, **more: Any) -> _ReplyT:
    """A struct of this kind with the fields that `value` has under the same name, and `more`."""
    same = {name: getattr(value, name) for name in kind.__struct_fields__ if hasattr(value, name)}
    return kind(**(same | more))


def search_reply(result: SearchResult, *, trace: bool = False, cursor: str = "") -> SearchReply:
    """A search result; `trace` brings stages and the reasons behind every score."""
    return copy_fields(
        SearchReply,
        result,
        hits=[public_hit(hit, explain=trace) for hit in (*result.always_on, *result.hits)],
        count=len(result.hits),
        next_cursor=cursor,
        degraded=result.degradations,
        trace=tuple(
            {"stage": each.stage, "entered": each.entered, "left": each.left, "ms": each.ms, **each.notes}
            for each in (result.trace if trace else ())
        ),
    )


def public_hit(hit: Hit, *, explain: bool) -> dict[str, Any]:
    """A hit with its excerpt; `why` holds ranks, factors and boosts, of a session's entry the call it came from."""
    memory, trust, reasons = hit.memory, hit.memory.provenance.trust, hit.explanation
    why: dict[str, Any] = {}
    if explain:
        why = {name: getattr(reasons, name) for name in ("ranks", "raw", "fused", "factors", "boosts")}
        why["phrases"] = visible_phrases(reasons.phrases, trust)
        why["source"] = public_words(reasons.source) if reasons.source else {}
    unusual = {
        "tier": memory.tier,
        "type": memory.type,
        "artifact": memory.artifact,
        "anchor": "" if is_withheld(hit.anchor, trust) else remove_marks(hit.anchor),
        "trust": trust,
        "flags": warnings(f"{memory.title}\n{hit.text}", trust),
        "updated": memory.updated,
        "always_on": hit.always_on,
        "why": {name: value for name, value in why.items() if value},
    }
    return {
        "id": remove_marks(memory.id),
        "title": public_title(memory),
        "score": hit.score,
        "text": fence_if_suspicious(hit.text, trust),
        "tokens": hit.tokens,
    } | {name: value for name, value in unusual.items() if value and value != _USUAL.get(name)}


def public_memory(memory: Memory) -> dict[str, Any]:
    """A memory without its text; its provenance must carry the trust of its lineage."""
    trust, quality = memory.provenance.trust, memory.quality
    optional = {
        "trigger_phrases": visible_phrases(memory.triggers, trust),
        "topics": visible_phrases(memory.topics, trust),
        "source": memory.source,
        "trust": trust,
        "flags": warnings("\n".join((memory.title, *memory.triggers, *memory.topics)), trust),
        "created": memory.created,
        "updated": memory.updated,
        "read_only": not memory.writable,
        "quality_score": float(quality.score) if quality else None,
        "quality_flags": quality.flags if quality else (),
    }
    return {
        "id": remove_marks(memory.id),
        "title": public_title(memory),
        "type": memory.type,
        "tier": memory.tier,
        "artifact": memory.artifact,
        "tokens": memory.tokens,
    } | {name: value for name, value in optional.items() if value or isinstance(value, float)}


def public_title(memory: Memory) -> str:
    """The title, or the id where the title speaks to an agent."""
    return memory.id if is_withheld(memory.title, memory.provenance.trust) else remove_marks(memory.title)


def visible_phrases(phrases: Iterable[str], trust: Trust) -> tuple[str, ...]:
    """The phrases that an answer may repeat, made visible."""
    return tuple(remove_marks(phrase) for phrase in phrases if not is_withheld(phrase, trust))


def warnings(text: str, trust: Trust) -> tuple[str, ...]:
    """What to warn of in a text that no person vouches for."""
    return (FLAG,) if is_withheld(text, trust) else ()


def public_words(value: Any) -> Any:
    """A value with its texts made harmless: words of no label are trusted like a tool's."""
    plain = to_builtins(value)
    if isinstance(plain, dict):
        return {name: public_words(each) for name, each in plain.items()}
    if isinstance(plain, list | tuple):
        return [*map(public_words, plain)]
    if isinstance(plain, str) and is_withheld(plain.replace("_", " "), Trust.TOOL):  # names join words by underscores
        return fence("Speaks like an instruction.", plain)
    return remove_marks(plain) if isinstance(plain, str) else plain
