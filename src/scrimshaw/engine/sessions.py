"""What a session adds to a search: attention, causal neighbours, its own record, what it was already shown."""

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from scrimshaw.config import RolloutSettings
from scrimshaw.engine.core import Engine
from scrimshaw.ingest.comparison import count_tokens
from scrimshaw.ingest.events import redact_id
from scrimshaw.models import EventKind, Injected, Item, Memory, MemoryType, Observation, Provenance, Relation, Session
from scrimshaw.search.rerank import cap_boosts, causal_boosts
from scrimshaw.search.results import Boosts, Explanation, Hit, SessionSignals
from scrimshaw.search.tokens import clip
from scrimshaw.session import working_memory
from scrimshaw.session.resume import recall_items

ITEM_PREFIX = "session:"
_TITLE_LENGTH = 80
# Measured on judged queries with stated relations: with all boosts an answer fell 7 places, with 5 it fell 3.
MOST_CAUSAL = 5
_MINUTE_S, _HOUR_S = 60.0, 3600.0


def bind_session(engine: Engine, session_id: str = "", processes: Sequence[int] = ()) -> Session | None:
    """The named session, opened if it is new; otherwise that of an ancestor process; otherwise none."""
    if session_id:
        now = engine.clock()
        silent_since = now - engine.settings.session.stale_hours * _HOUR_S
        return engine.sessions.open(redact_id(session_id), now=now, silent_since=silent_since)
    return next(iter(engine.sessions.latest(processes=processes)), None)


def tick(engine: Engine, session_id: str, injected: Injected | None = None) -> int:
    """Count one event of a session, and what its model was given with it; returns the new counter."""
    modulus = engine.settings.session.counter_modulus
    return engine.sessions.tick(session_id, now=engine.clock(), modulus=modulus, injected=injected)


def record_event(engine: Engine, seen: Observation, at: float | None = None) -> bool:
    """Store an event of a session, of now or `at`, and its item, all or nothing; False for one reported before."""
    now, settings = engine.clock() if at is None else at, engine.settings.session
    admit = partial(working_memory.admit, now=now, settings=settings, event_decay=engine.settings.features.event_decay)
    return engine.sessions.observe(seen, admit, now=now, modulus=settings.counter_modulus)


def rank_working_memory(engine: Engine, session: Session) -> list[tuple[Item, float]]:
    """The working memory of a session with the attention 0..1 of each item now, most attended first."""
    items, settings = engine.sessions.items(session.id, held=True), engine.settings.session
    rank = partial(working_memory.rank_items, settings=settings, event_decay=engine.settings.features.event_decay)
    return rank(items, session.counter, now=engine.clock())


def collect_signals(engine: Engine, session: Session | None, query: str, limit: int) -> SessionSignals:
    """What the session adds now to a search for `query`."""
    # Whatever came before the last start or compaction is no longer in the session's context.
    starts = engine.sessions.events(session.id, EventKind.START, EventKind.COMPACT) if session else []
    in_context = (session.id if session else "", starts[-1].number if starts else 0)
    is_dark = engine.settings.rollout.dark_launch and engine.settings.search.log
    return SessionSignals(
        now=engine.clock(),
        reviews=engine.journal.reviews,
        boosts=_boosts(engine, session, engine.settings.rollout),
        dark_boosts=_dark_boosts(engine, session) if is_dark else None,
        recalled=_recall_hits(engine, session, query, limit),
        in_context=in_context,
    )


def find_shown(engine: Engine, session: Session) -> dict[str, str]:
    """The digests, by id, of the passages that are still in the session's context, as far as known."""
    since = engine.clock() - engine.settings.session.shown_minutes * _MINUTE_S
    return engine.sessions.hashes_shown(session.id, since=since)


def mark_shown(engine: Engine, session: Session, hits: Iterable[Hit]) -> None:
    """Remember the passages shown to the session; call it only for what was really sent."""
    if found := {hit.memory.id: hit.digest for hit in hits if hit.digest}:
        engine.sessions.mark_shown(session.id, found, now=engine.clock())


def item_as_memory(item: Item) -> Memory:
    """An item in the form of a search result."""
    title, tool = clip(item.text.strip().partition("\n")[0], _TITLE_LENGTH) or item.kind, item.source.source_tool
    return Memory(
        id=f"{ITEM_PREFIX}{item.session}/{item.number}",
        source="session",
        path=item.path,
        title=f"{item.kind}: {title}",
        type=MemoryType.SESSION,
        provenance=Provenance(source=tool or "session", trust=item.source.trust, session=item.session),
        tokens=count_tokens(item.text),
        length=len(item.text),
    )


def _dark_boosts(engine: Engine, session: Session | None) -> Boosts | None:
    """The boosts that the session would have if the rollout gave it every one; None if it has them all."""
    features, rollout, name = engine.settings.features, engine.settings.rollout, session.id if session else ""
    parts = ("session_boost", "causal_boost") if session else ("causal_boost",)
    if all(rollout.includes(each, name) for each in parts if getattr(features, each)):
        return None
    return _boosts(engine, session, RolloutSettings()) or (lambda *_: {})


def _boosts(engine: Engine, session: Session | None, rollout: RolloutSettings) -> Boosts | None:
    """Attention of linked memories and causal neighbours of the best hits, together under one cap."""
    features, settings = engine.settings.features, engine.settings.session
    name = session.id if session else ""
    is_lifting = features.session_boost and rollout.includes("session_boost", name)
    is_causal = features.causal_boost and rollout.includes("causal_boost", name)
    linked = attention_by_memory(engine, session) if session and is_lifting else {}

    def boosts(names: Sequence[str], seeds: Mapping[str, float]) -> Mapping[str, Mapping[str, float]]:
        causal: Mapping[str, float] = {}
        if is_causal:
            hops, relations = settings.causal_hops, tuple(Relation)
            edges = engine.index.neighbors(tuple(seeds), hops=hops, direction="both", relations=relations)
            gains = causal_boosts(seeds, edges, settings.causal_boost)
            # a hub would boost its many neighbours, and so push better answers down
            causal = dict(sorted(gains.items(), key=lambda gain: (-gain[1], gain[0]))[:MOST_CAUSAL])
        parts = {}
        for name in names:
            if name in linked or name in causal:
                attention = settings.attention_boost * linked.get(name, 0.0)
                parts[name] = cap_boosts({"session": attention, "causal": causal.get(name, 0.0)}, settings.boost_limit)
        return parts

    return boosts if linked or is_causal else None


def attention_by_memory(engine: Engine, session: Session) -> dict[str, float]:
    """Memory id -> the attention 0..1 of the strongest item of working memory that is linked to it or to its file."""
    held = rank_working_memory(engine, session)
    # a client names a path absolute or below the project, with either separator
    named = {item.path for item, _ in held if item.path and "\0" not in item.path}
    files = {path: os.path.realpath(engine.settings.project / path.replace("\\", "/")) for path in named}
    ids = engine.index.find_ids(paths=list(files.values())) if files else []
    memories = {memory.path: memory.id for memory in engine.index.get(ids).values()} if ids else {}
    found: dict[str, float] = {}
    for item, attention in held:
        if name := item.memory_id or memories.get(files.get(item.path, ""), ""):
            found[name] = max(attention, found.get(name, 0.0))
    return found


def _recall_hits(engine: Engine, session: Session | None, query: str, limit: int) -> tuple[Hit, ...]:
    """Items that this session and the one it continues recorded about the query."""
    if session is None or not engine.settings.features.session_boost:
        return ()
    items = engine.sessions.items(session.id)
    before = engine.sessions.get(session.continues) if session.continues else None
    if before and before.last_event <= session.started:  # one that went on as well runs side by side
        items += engine.sessions.items(before.id)
    settings = engine.settings.session
    weight = min(settings.attention_boost, settings.boost_limit)
    hits = []
    for found in recall_items(query, items, limit, weight):
        memory = item_as_memory(found.item)
        explanation = Explanation(
            ranks={"session": found.item.number},
            raw={"session": round(found.score, 4)},
            fused=found.score,
            boosts={"session": found.boost} if found.boost else {},
            source=found.item.source,
        )
        score = round(found.score * (1 + found.boost), 6)
        hits.append(Hit(memory=memory, score=score, text=found.item.text, explanation=explanation))
    return tuple(hits)
