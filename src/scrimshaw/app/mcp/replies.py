"""The replies of tools: flat values in users' words, without empty ones, and with hostile text fenced or left out.

Text that speaks to an agent and that no person vouches for is never sent plain: a body is fenced, a title replaced
by the id, a trigger phrase or topic dropped, and `flags` warn of it. Every word costs the agent tokens, so a
hit only has what differs from the usual.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import accumulate, chain, filterfalse
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from msgspec import Struct, to_builtins
from msgspec.json import encode as encode_json
from msgspec.structs import replace

from scrimshaw.app.hooks.fencing import fence, fence_if_suspicious, fence_list, is_withheld, remove_marks
from scrimshaw.ingest.comparison import TOKEN_CHARACTERS, count_characters
from scrimshaw.ingest.instructions import FLAG
from scrimshaw.models import RECORD, Degradation, Memory, MemoryType, Trust
from scrimshaw.search.lineage import lowest_trust
from scrimshaw.search.passages import cut_passage, pack_hits, shorten_known
from scrimshaw.search.results import Hit, PeerHit, SearchResult, StateLine

_ReplyT = TypeVar("_ReplyT", bound=Struct)
_USUAL = {"tier": "normal", "type": "general", "artifact": "memory", "trust": "file"}
_DATE = len("2026-01-31")
NEAREST_ROOM = 240  # characters; names of memories that do not answer are worth no more
_PEER_SHARE, _PEER_SHARE_ALONE = 0.25, 0.75  # of the reply: never nothing, and beside own hits never most of it
_FOREIGN = "From other memory servers; nobody here vouches for it."
LONGEST_TITLE = 80  # characters of a hit's title; some are whole prompts


class SearchReply(Struct, frozen=True, omit_defaults=True):
    """Hits, best first; always-on memories come before all others.

    `text` is the part of a memory that answers, `answers` its author's question that matched. Several passages of a
    session are in `passages` in order: `#e7` in `session:S` has the id `session:S#e7`. Passages in
    `already_shown` are in your context, and are cut to a sentence here.
    `confidence` is the probability 0..1 that one of them speaks of it; if it is low there are no hits, and `nearest`
    names the nearest memories, or says a sentence of a session's. `peers`: hits of other memory servers.
    `count` and `omitted` count passages, `archived` counts faded memories that match too.
    """

    hits: Sequence[Mapping[str, Any]]
    count: int
    confidence: float = 0.0
    nearest: Sequence[str] = ()
    omitted: int = 0
    archived: int = 0
    next_cursor: str = ""
    already_shown: Sequence[str] = ()
    degraded: Sequence[Degradation] = ()
    intent: str = ""
    trace: Sequence[Mapping[str, Any]] = ()
    state: Sequence[StateLine] = ()  #: where the last session ended, if the query asks for nothing else
    peers: str = ""  #: what other memory servers add, as data
    sources: Mapping[str, float] = {}  #: those that answered, and how many seconds ago
    applied_boosts: Mapping[str, int] = {}  #: how many hits a session, or a causal relation, lifted
    fixes: Sequence[Mapping[str, Any]] = ()  #: what was done about an error that the query quotes


def copy_fields(kind: type[_ReplyT], value: object, **more: Any) -> _ReplyT:
    """A struct of this kind with the fields of the same name in `value`, and `more`."""
    for name in kind.__struct_fields__:
        if hasattr(value, name):
            more.setdefault(name, getattr(value, name))
    return kind(**more)


def search_reply(result: SearchResult, *, trace: bool = False) -> SearchReply:
    """The reply for a search result; `trace` adds intent, stages and reasons for every score, each hit by itself."""
    hits = (*result.always_on, *result.hits)
    # What is not sure to answer is named as far as it fits: a memory by its title, a passage by what it says.
    near = result.nearest
    said = (_judge_hit(each)[0] if each.memory.source == RECORD else _short_title(each.memory) for each in near)
    nearest = [f"{_clear(each.memory.id)}: {' '.join(text.split())}" for each, text in zip(near, said, strict=True)]
    ends = accumulate(map(count_characters, nearest))
    stages = [{"stage": each.stage, "entered": each.entered, "left": each.left, "ms": each.ms, **each.notes}
              for each in result.trace] if trace else []  # fmt: skip
    return SearchReply(
        hits=[public_hit(hit, explain=True) for hit in hits] if trace else _group_hits(hits),
        count=len(result.hits),
        confidence=round(result.confidence, 2),
        nearest=[name for name, end in zip(nearest, ends, strict=True) if end <= NEAREST_ROOM] or (),
        omitted=result.omitted,
        archived=result.archived,
        next_cursor="" if result.next_offset is None else str(result.next_offset),
        already_shown=tuple(_clear(hit.memory.id) for hit in hits if hit.is_known),
        degraded=result.degradations,
        intent=(result.intent or "") if trace else "",
        trace=stages or (),
        peers=fence_list(_FOREIGN, map(_describe_peer_hit, result.peers)) if result.peers else "",
        sources=result.sources,
        applied_boosts=dict(Counter(chain.from_iterable(map(attrgetter("explanation.boosts"), hits)))),
    )


def fit_reply(
    result: SearchResult,
    terms: Sequence[str],
    budget: int,
    known: Mapping[str, str],
    *,
    is_whole: bool = False,
    wrap: Callable[[SearchReply], Struct] = lambda reply: reply,
) -> SearchResult:
    """The result cut to the budget of the whole reply that `wrap` makes of it, except always-on memories.

    If whole texts were asked for, at most half of the room goes to the first sentences of all hits.
    """
    room = budget * TOKEN_CHARACTERS
    result = replace(result, always_on=tuple(shorten_known(hit, known) for hit in result.always_on))
    if result.peers:
        text_room = room * (_PEER_SHARE if result.hits else _PEER_SHARE_ALONE) // len(result.peers)
        peers = (replace(hit, text=cut_passage(hit.text, terms, int(text_room))) for hit in result.peers)
        result = replace(result, peers=tuple(peers))

    def spare(hits: Sequence[Hit]) -> int:
        return room - count_reply(search_reply(result.keep_hits(hits)), wrap)

    return result.keep_hits(pack_hits(result.hits, terms, spare, known=known, margin=room // 2 if is_whole else 0))


def _describe_peer_hit(hit: PeerHit) -> str:
    flags = warnings(f"{hit.title}\n{hit.text}", Trust.WEB)
    return f"{hit.id} ({'; '.join((hit.title, *flags))}): {hit.text}"


def count_reply(reply: SearchReply, wrap: Callable[[SearchReply], Struct] = lambda reply: reply) -> int:
    """The characters of the wrapped reply, without always-on memories, which have their own budget."""
    counted = replace(reply, hits=[hit for hit in reply.hits if "always_on" not in hit])
    return count_characters(encode_json(wrap(counted)).decode())


def _group_hits(hits: Sequence[Hit]) -> list[dict[str, Any]]:
    """The hits as they are sent; several passages of one session become one hit."""
    groups = dict[str, list[Hit]]()
    recorded = {hit.memory.provenance.session for hit in hits if hit.memory.source == RECORD}
    for hit in hits:
        session, is_own = hit.memory.provenance.session, hit.memory.type == MemoryType.SESSION
        is_part = hit.memory.source == RECORD or (is_own and session in recorded)
        groups.setdefault(f"session:{session}" if is_part else hit.memory.id, []).append(hit)
    return [_public_group(name, some) if len(some) > 1 else public_hit(some[0]) for name, some in groups.items()]


def _public_group(name: str, hits: Sequence[Hit]) -> dict[str, Any]:
    """Several passages of a session, with short ids, in order, and with the lowest of their labels."""
    parts = {hit.memory.id.removeprefix(name): hit for hit in hits}
    numbers = {part: [*map(int, re.findall("[0-9]+", part))] for part in parts}
    in_order = sorted(parts, key=lambda part: (parts[part].memory.source == RECORD, numbers[part]))
    flags = {flag for hit in hits for flag in _labels(hit).get("flags", ())}
    trust, updated = lowest_trust(hit.memory.provenance.trust for hit in hits), max(hit.memory.updated for hit in hits)
    labels = {"trust": trust, "flags": tuple(flags), "updated": updated[:_DATE]}
    labels["superseded_by"] = [*{_clear(each.removeprefix(name)): 0 for hit in hits for each in hit.superseded_by}]
    texts = {_clear(part): _judge_hit(parts[part])[0] for part in in_order}
    return {"id": _clear(name), "title": _short_title(hits[0].memory), **_unusual(labels), "passages": texts}


@lru_cache(maxsize=64)  # a reply is measured after each further hit; the same hit is the same object
def public_hit(hit: Hit, *, explain: bool = False) -> dict[str, Any]:
    """A single hit; if explained, with its kind, score, and in `why` ranks, factors, boosts and source."""
    named = {"id": _clear(hit.memory.id), "title": _short_title(hit.memory)}
    text, _ = _judge_hit(hit)
    if not explain:
        return {**named, **_unusual(_labels(hit)), "text": text}
    reasons, trust = hit.explanation, hit.memory.provenance.trust
    names = ("ranks", "raw", "fused", "terms", "factors", "boosts")
    why: dict[str, Any] = {name: getattr(reasons, name) for name in names}
    why["phrases"] = visible_phrases(reasons.phrases, trust)
    why["source"] = public_words(reasons.source) if reasons.source else {}
    kind = {"type": hit.memory.type, "artifact": hit.memory.artifact, "updated": hit.memory.updated}
    labels = _unusual({**_labels(hit), **kind, "why": {name: value for name, value in why.items() if value}})
    return {**named, "score": hit.score, "confidence": hit.confidence, "text": text, **labels}


def _labels(hit: Hit) -> dict[str, Any]:
    """The labels that an agent should see besides a hit's text."""
    memory, trust = hit.memory, hit.memory.provenance.trust
    is_visible = (hit.heading and hit.heading in hit.text) or memory.id.endswith(f"#{hit.anchor}")
    question = hit.explanation.answers
    return {
        "tier": memory.tier,
        "anchor": "" if is_visible or _is_withheld(hit.anchor, trust) else _clear(hit.anchor),
        "answers": "" if _is_withheld(question, trust) else _clear(question),
        "trust": trust,
        "flags": (*_judge_hit(hit)[1], *memory.faults),
        "updated": memory.updated[:_DATE],
        "superseded_by": [*map(_clear, hit.superseded_by)],
        "always_on": hit.always_on,
    }


def _unusual(labels: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in labels.items() if value and value != _USUAL.get(name)}


def _short_title(memory: Memory) -> str:
    title = public_title(memory)
    return title if len(title) <= LONGEST_TITLE else f"{title[:LONGEST_TITLE].rstrip()}..."


def _judge_hit(hit: Hit) -> tuple[str, tuple[str, ...]]:
    return judge_text(hit.memory.title, hit.text, hit.memory.provenance.trust)


@lru_cache(maxsize=256)
def judge_text(title: str, text: str, trust: Trust) -> tuple[str, tuple[str, ...]]:
    """A text as it is sent, and the warnings of it and its title."""
    flags = warnings(f"{title}\n{text}", trust)
    # What does not speak to an agent below its title does not without it, unless the title begins a block of code.
    is_harmless = not flags and title[:1].isalnum() and "\n" not in title
    return remove_marks(text) if is_harmless else fence_if_suspicious(text, trust), flags


_is_withheld = lru_cache(maxsize=256)(is_withheld)
_clear = lru_cache(maxsize=256)(remove_marks)


def public_memory(memory: Memory) -> dict[str, Any]:
    """A memory without its text; its provenance must carry the trust of its lineage."""
    trust, quality = memory.provenance.trust, memory.quality
    optional = {
        "trigger_phrases": visible_phrases(memory.triggers, trust),
        "topics": visible_phrases(memory.topics, trust),
        "questions": visible_phrases(memory.questions, trust),
        "source": memory.source,
        "trust": trust,
        "flags": warnings("\n".join((memory.title, *memory.triggers, *memory.topics, *memory.questions)), trust),
        "created": memory.created,
        "updated": memory.updated,
        "read_only": not memory.writable,
        "quality_flags": quality.flags if quality else (),
    }
    reply: dict[str, Any] = {"id": remove_marks(memory.id), "title": public_title(memory)}
    reply |= {"type": memory.type, "tier": memory.tier, "artifact": memory.artifact, "tokens": memory.tokens}
    reply |= filter(itemgetter(1), optional.items())
    return reply | {"quality_score": float(quality.score)} if quality else reply


def public_title(memory: Memory) -> str:
    """The title, or the id if the title speaks to an agent."""
    return memory.id if _is_withheld(memory.title, memory.provenance.trust) else _clear(memory.title)


def visible_phrases(phrases: Iterable[str], trust: Trust) -> tuple[str, ...]:
    """The phrases that an answer may repeat, without invisible characters."""
    return tuple(map(remove_marks, filterfalse(partial(is_withheld, trust=trust), phrases)))


def warnings(text: str, trust: Trust) -> tuple[str, ...]:
    """Warnings about a text that no person vouches for."""
    return (FLAG,) if _is_withheld(text, trust) else ()


def public_words(value: Any) -> Any:
    """A value with its texts made harmless: text without a label is trusted like a tool's."""
    plain = to_builtins(value)
    if isinstance(plain, dict):
        return {name: public_words(each) for name, each in plain.items()}
    if isinstance(plain, list | tuple):
        return [*map(public_words, plain)]
    if isinstance(plain, str) and is_withheld(plain.replace("_", " "), Trust.TOOL):  # names are joined by underscores
        return fence("Speaks like an instruction.", plain)
    return remove_marks(plain) if isinstance(plain, str) else plain
