"""Finding and reading memories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.engine import review, sessions
from scrimshaw.engine.core import Engine
from scrimshaw.engine.degradations import INDEX, RECALL, SESSION
from scrimshaw.errors import NotFound
from scrimshaw.ingest.instructions import is_suspicious
from scrimshaw.ingest.markdown import find_section
from scrimshaw.models import Channel, Degradation, Filters, Memory, Retention, Session, SourceFile, Trust, content_hash
from scrimshaw.search import lineage
from scrimshaw.search.decay import retention
from scrimshaw.search.degradation import Degradations
from scrimshaw.search.results import SearchRequest, SearchResult
from scrimshaw.storage.durable import storage_errors
from scrimshaw.storage.ports import Neighbor

# spec-kit match_triggers: attention fades per turn; warm memories bring a start of their text.
TURN_DECAY, WARM_CHARACTERS = 0.98, 150
# After so many turns what is left is below what an answer tells.
_ALL_FADED = 1000


SCAN_PENDING = Degradation(
    failure_mode="scan_pending: the files have not been read yet",
    fallback_mode="none",
    confidence_impact="nothing can be found",
    retry_recommendation="ask again in a few seconds",
)


class MemoryText(Struct, frozen=True, kw_only=True):
    """A memory with its text as the file holds it now; `redacted` names the classes of what was taken out."""

    memory: Memory
    body: str
    content_hash: str
    redacted: tuple[str, ...]
    degradations: tuple[Degradation, ...] = ()


class TriggerMatch(Struct, frozen=True, kw_only=True):
    """A memory whose trigger phrases stand in a text; `attention` 0..1 decides how much of its text is brought."""

    memory: Memory
    phrases: tuple[str, ...]
    body: str
    attention: float
    state: Retention


def search(
    engine: Engine,
    request: SearchRequest,
    session: Session | None = None,
    *,
    deduplicate: bool = False,
    track_access: bool = False,
) -> SearchResult:
    """The best memories for a query; raises InvalidRequest for one that cannot be searched.

    In a session what it works with is lifted and its own record is searched too; with `deduplicate` what it was shown
    already is left out. `track_access` counts every hit as a review.
    """
    if not engine.settings.features.causal_boost:
        request = replace(request, channels=tuple(c for c in request.channels if c != Channel.GRAPH))
    if session and deduplicate:
        seen = (*request.filters.exclude, *sessions.ids_shown(engine, session))
        request = replace(request, filters=replace(request.filters, exclude=seen))
    limit = request.limit or engine.settings.search.limit
    around = sessions.session_context(engine, session, request.query, limit)
    result = engine.searcher.search(request, around)
    if not engine.index.generation():
        result = replace(result, degradations=(*result.degradations, SCAN_PENDING))
    if red := engine.degradations.of(INDEX, RECALL, SESSION):
        result = replace(result, degradations=(*result.degradations, *red))
    if track_access:
        review.touch(engine, [hit.memory for hit in result.hits])
    return result


def get(engine: Engine, memory_id: str, anchor: str = "") -> MemoryText:
    """A memory's text, read from its file, or the text of a session's item.

    Raises NotFound for an unknown id or anchor.
    """
    if memory_id.startswith(sessions.ITEM_PREFIX):
        return _item_text(engine, memory_id)
    degradations = Degradations()
    memory = traced(engine, {memory_id: engine.memory(memory_id)}, degradations)[memory_id]
    raw = _bytes_of(memory)
    document = engine.parse(_file_of(memory, raw), raw)
    body = document.body.text
    if anchor:
        found = find_section(body, document.headings, anchor)
        if found is None:
            known = [heading.anchor for heading in document.headings]
            if memory.provenance.trust in (Trust.TOOL, Trust.WEB):
                known = [name for name in known if not is_suspicious(name)]
            raise NotFound(f"{memory_id!r} has no section {anchor!r}.", f"Its sections: {', '.join(known) or 'none'}.")
        body = found
    return MemoryText(
        memory=memory,
        body=body,
        content_hash=content_hash(raw),
        redacted=document.body.classes,
        degradations=degradations.as_tuple(),
    )


def match_triggers(
    engine: Engine,
    text: str,
    limit: int,
    *,
    folder: str = "",
    session: Session | None = None,
    turn: int | None = None,
    cognitive: bool = True,
) -> list[TriggerMatch]:
    """The memories whose trigger phrases stand in the text; those with more and longer phrases first.

    A match has full attention, faded by `turn`s (0.98 each) where one is given; what the session works with has at
    least its attention there. With `cognitive` the text follows the attention: whole, a start, or none.
    """
    phrases = engine.searcher.match_phrases(text)
    filters = Filters(only=tuple(phrases), folder=folder, min_quality_score=engine.settings.search.min_quality_score)
    memories = engine.index.select(filters, sort="id", limit=len(phrases), offset=0)
    memories.sort(key=lambda memory: (-sum(map(len, phrases[memory.id])), memory.id))
    memories = [*traced(engine, {memory.id: memory for memory in memories[:limit]}).values()]
    held = sessions.attention_by_memory(engine, session) if session else {}
    faded = TURN_DECAY ** min(turn - 1, _ALL_FADED) if turn else 1.0
    bodies = engine.index.bodies([memory.id for memory in memories])
    return [
        _trigger_match(engine, memory, tuple(phrases[memory.id]), bodies[memory.id], held, faded, cognitive)
        for memory in memories
        if memory.id in bodies  # another process may have deleted it meanwhile
    ]


def _trigger_match(
    engine: Engine,
    memory: Memory,
    phrases: tuple[str, ...],
    body: str,
    held: Mapping[str, float],
    faded: float,
    cognitive: bool,
) -> TriggerMatch:
    attention = max(faded, held.get(memory.id, 0.0))
    state = retention(attention, engine.settings.forgetting.state_thresholds)
    if cognitive and state not in (Retention.HOT, Retention.WARM):
        body = ""
    elif cognitive and state == Retention.WARM:
        body = body[:WARM_CHARACTERS]
    return TriggerMatch(memory=memory, phrases=phrases, body=body, attention=attention, state=state)


def dependencies(engine: Engine, memory_id: str, *, hops: int, direction: str) -> list[Neighbor]:
    """The edges that lead to and from a memory, exactly as the files state them, even to nowhere; raises NotFound."""
    engine.memory(memory_id)
    found = engine.index.neighbors([memory_id], hops=hops, direction=direction)
    nowhere = [] if direction == "incoming" else _unresolved(engine, memory_id, found, hops)
    return sorted([*found, *nowhere], key=lambda edge: edge.hop)


def _unresolved(engine: Engine, start: str, found: Sequence[Neighbor], hops: int) -> list[Neighbor]:
    """The edges of a memory, and of those that the walk reached before its last hop, to what is no memory."""
    reached = {start: 0}
    for step in found:
        reached[step.place] = min(step.hop, reached.get(step.place, step.hop))
    edges = engine.index.edges(start) if hops == 1 else engine.index.edges()
    return [
        Neighbor(
            start=start,
            hop=reached[edge.source] + 1,
            source=edge.source,
            target=edge.target,
            relation=edge.relation,
            strength=edge.strength,
            evidence=edge.evidence,
            unresolved=True,
        )
        for edge, place in edges
        if not place and reached.get(edge.source, hops) < hops
    ]


def traced(
    engine: Engine, memories: Mapping[str, Memory], degradations: Degradations | None = None
) -> Mapping[str, Memory]:
    """The memories, each with the trust of its lineage; the least where that cannot be read."""
    return lineage.resolve_trust(engine.index, memories, degradations or Degradations())


def _bytes_of(memory: Memory) -> bytes:
    with storage_errors("read", Path(memory.path)):
        try:
            return Path(memory.path).read_bytes()
        except FileNotFoundError as error:
            raise NotFound(f"The file of {memory.id!r} is gone: {memory.path}.", "Run `scrimshaw scan`.") from error


def _item_text(engine: Engine, item_id: str) -> MemoryText:
    item = sessions.read_item(engine, item_id)
    if item is None:
        raise NotFound(f"There is no session item {item_id!r}.", "Search the session again.", id=item_id)
    return MemoryText(memory=sessions.item_as_memory(item), body=item.text, content_hash="", redacted=())


def _file_of(memory: Memory, raw: bytes) -> SourceFile:
    return SourceFile(
        source=memory.source, memory_id=memory.id, path=memory.path, size=len(raw), mtime_ns=0, writable=memory.writable
    )
