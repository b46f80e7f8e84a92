"""Searches beside themselves: as they are, and as a session lifts what it works with.

The sessions are real ones: their items are recorded, fade and are read as in use. They are written to the engine's
journal, so hand over an engine whose folder is a scratch folder.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from random import Random
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.engine import sessions
from scrimshaw.engine.core import Engine
from scrimshaw.ingest.markdown import parse_headings
from scrimshaw.ingest.redact import redact
from scrimshaw.models import EventKind, Filters, ItemKind, Memory, NewItem, Observation, Session
from scrimshaw.search.results import Boosts, SearchRequest, SessionContext
from scrimshaw.session import working_memory
from scrimshaw_lab import targets
from scrimshaw_lab.metrics import ANSWERS, answers_among, mrr_at, percentile
from scrimshaw_lab.search_quality import JudgedQuery

# Rankings are compared over so many hits; their order over the first ones; MRR over those that are answered.
DEPTH, ORDERED, ANSWERED = 50, 20, 10
ITEMS = 7
# Attention that the default rules give to reading a specification; the one before it has faded by an event, and so on.
ATTENTION = 0.9
LIFTED_SHARE = 0.80
FARTHEST_FALL = 3

_LEAST_WORDS = 3
_SELECT = 500
_Value = TypeVar("_Value")


class Case(StrEnum):
    """What the session works with, and how that is lifted.

    `random`: memories drawn from the unboosted hits. `relevant`: those that answer the query. `unbounded`: the random
    ones with their whole attention and no cap, which must not pass.
    """

    RANDOM = "random"
    RELEVANT = "relevant"
    UNBOUNDED = "unbounded"


class Shadow(Struct, frozen=True, kw_only=True):
    """One query in one session: its ids without and with boosts, best first, and whether any hit was lifted.

    `session_ms` is the time to read the session and its attention, `causal_ms` the time to find causal neighbours
    and add up all boosts.
    """

    query: JudgedQuery
    case: Case
    base: tuple[str, ...]
    boosted: tuple[str, ...]
    lifted: bool
    session_ms: float
    causal_ms: float


class Fall(Struct, frozen=True, kw_only=True):
    """A memory of grade 2 or above that sank; places count from 1."""

    query: str
    memory: str
    before: int
    after: int


class ShadowFigures(Struct, frozen=True, kw_only=True):
    """The figures of one case. `lifted` is the share of queries with a boost, `rank_correlation` the mean of Spearman's
    over the unboosted first 20, `falls` are farther than 3 places, times are p95 in milliseconds.
    """

    case: Case
    queries: int
    lifted: float
    rank_correlation: float
    mrr: float
    mrr_ratio: float
    falls: tuple[Fall, ...]
    session_ms: float
    causal_ms: float


def shadows(engine: Engine, queries: Sequence[JudgedQuery], *, seed: int = 0) -> Iterator[Shadow]:
    """Every query in every case, case by case within a query. The same seed draws the same memories."""
    chance = Random(seed)
    for query in queries:
        request = SearchRequest(query=query.query, limit=DEPTH, constitutional=False)
        around = replace(sessions.session_context(engine, None, query.query, DEPTH), boosts=None)
        base = _ids(engine, request, around)
        drawn = chance.sample(base, min(ITEMS, len(base)))
        for case, linked in ((Case.RANDOM, drawn), (Case.RELEVANT, _best(query)), (Case.UNBOUNDED, drawn)):
            yield _shadow(engine, query, case, base, working_with(engine, linked), request)


def working_with(engine: Engine, linked: Sequence[str]) -> Session:
    """A new session that has read these memories one after another, the first one last."""
    session = engine.sessions.open(uuid.uuid4().hex, now=engine.clock())[0]
    event_decay = engine.settings.features.event_decay
    admit = partial(working_memory.admit, settings=engine.settings.session, event_decay=event_decay)
    for memory in reversed(linked):
        text = redact(f"read {memory}")
        item = NewItem(text=text, kind=ItemKind.FILE, attention=ATTENTION, memory_id=memory)
        sessions.tick(engine, session.id)
        now, modulus = engine.clock(), engine.settings.session.counter_modulus
        seen = Observation(session=session.id, kind=EventKind.STOP, text=redact(""), item=item)
        engine.sessions.observe(seen, partial(admit, now=now), now=now, modulus=modulus)
    return engine.sessions.get(session.id) or session


def unbounded(attention: Mapping[str, float]) -> Boosts:
    """Lifts every memory by its whole attention, without a cap: what the engine must never do."""
    return lambda names, _: {name: {"session": attention[name]} for name in names if name in attention}


def figures(runs: Sequence[Shadow]) -> ShadowFigures:
    """The figures of the runs of one case; ValueError for none."""
    before = [_mrr(run.query, run.base) for run in runs]
    after = [_mrr(run.query, run.boosted) for run in runs]
    return ShadowFigures(
        case=runs[0].case,
        queries=len(runs),
        lifted=sum(run.lifted for run in runs) / len(runs),
        rank_correlation=sum(rank_correlation(run.base[:ORDERED], run.boosted) for run in runs) / len(runs),
        mrr=sum(after) / len(runs),
        mrr_ratio=sum(after) / sum(before) if any(before) else 1.0,
        falls=tuple(fall for run in runs for fall in falls(run) if fall.after - fall.before > FARTHEST_FALL),
        session_ms=percentile([run.session_ms for run in runs], 0.95),
        causal_ms=percentile([run.causal_ms for run in runs], 0.95),
    )


def missed(found: ShadowFigures) -> tuple[str, ...]:
    """The names of the figures that miss their targets."""
    kept = {
        "lifted": found.lifted >= LIFTED_SHARE,
        "rank_correlation": found.rank_correlation >= targets.RANK_CORRELATION,
        "mrr_ratio": found.mrr_ratio >= targets.MRR_RATIO,
        "falls": not found.falls,
        "session_ms": found.session_ms < targets.SESSION_BOOST_MS,
        "causal_ms": found.causal_ms < targets.CAUSAL_BOOST_MS,
    }
    return tuple(name for name, is_kept in kept.items() if not is_kept)


def rank_correlation(base: Sequence[str], other: Sequence[str]) -> float:
    """Spearman's between the order of `base` and the order that `other` gives to the same ids, -1..1.

    What `other` lacks stands behind all it has. 1 for fewer than two ids.
    """
    count = len(base)
    if count < 2:
        return 1.0
    places = {name: place for place, name in enumerate(other)}
    reordered = sorted(base, key=lambda name: places.get(name, len(other)))
    before = {name: place for place, name in enumerate(base)}
    squares = sum((before[name] - place) ** 2 for place, name in enumerate(reordered))
    return 1 - 6 * squares / (count * (count**2 - 1))


def falls(run: Shadow) -> Iterator[Fall]:
    """Where the answers of a query stood and stand, if they sank; one that is gone stands behind the last hit."""
    after = {name: place for place, name in enumerate(run.boosted, start=1)}
    for before, name in enumerate(run.base, start=1):
        place = after.get(name, len(run.boosted) + 1)
        if run.query.relevant.get(name, 0) >= ANSWERS and place > before:
            yield Fall(query=run.query.id, memory=name, before=before, after=place)


def known_items(engine: Engine, count: int, *, seed: int = 0) -> list[JudgedQuery]:
    """Queries whose answer is known: titles and headings of three words or more that no other memory has.

    Half of them are titles as long as there are enough; each is answered by its own memory. May be fewer than `count`.
    """
    memories = engine.index.select(Filters(), sort="id", limit=-1, offset=0)
    titles = _unique([(memory.id, memory.title) for memory in memories])
    sections = _unique(list(_headings(engine, memories)), known={title for _, title in titles})
    chance = Random(seed)
    chosen = chance.sample(titles, min(len(titles), count // 2))
    chosen += chance.sample(sections, min(len(sections), count - len(chosen)))
    longest = engine.settings.search.query_max
    return [JudgedQuery(id=f"{name}#{text}", query=text[:longest], relevant={name: ANSWERS}) for name, text in chosen]


def _shadow(
    engine: Engine, query: JudgedQuery, case: Case, base: Sequence[str], session: Session, request: SearchRequest
) -> Shadow:
    session_ms, around = _timed(lambda: sessions.session_context(engine, session, query.query, DEPTH))
    boosts = around.boosts
    if case == Case.UNBOUNDED:
        boosts = unbounded(sessions.attention_by_memory(engine, session))
    measured = _Measured(boosts)
    # The session's own entries are answered beside memories; here only the order of memories counts.
    boosted = _ids(engine, request, replace(around, boosts=measured, recalled=()))
    return Shadow(
        query=query,
        case=case,
        base=tuple(base),
        boosted=tuple(boosted),
        lifted=measured.lifted,
        session_ms=session_ms,
        causal_ms=measured.ms,
    )


class _Measured:
    """Boosts that remember whether they lifted anything, and how long they took in milliseconds."""

    def __init__(self, boosts: Boosts | None) -> None:
        self._boosts = boosts
        self.lifted = False
        self.ms = 0.0

    def __call__(self, names: Sequence[str], seeds: Mapping[str, float]) -> Mapping[str, Mapping[str, float]]:
        given: Mapping[str, Mapping[str, float]]
        self.ms, given = _timed(lambda: self._boosts(names, seeds) if self._boosts else {})
        self.lifted = any(sum(parts.values()) > 0 for parts in given.values())
        return given


def _timed(work: Callable[[], _Value]) -> tuple[float, _Value]:
    start = time.perf_counter()
    value = work()
    return (time.perf_counter() - start) * 1000, value


def _ids(engine: Engine, request: SearchRequest, around: SessionContext) -> list[str]:
    return [hit.memory.id for hit in engine.searcher.search(request, around).hits]


def _best(query: JudgedQuery) -> list[str]:
    """What a session can best work with: the judged memories, highest grade first."""
    useful = [name for name, grade in query.relevant.items() if grade > 0]
    return sorted(useful, key=lambda name: (-query.relevant[name], name))[:ITEMS]


def _mrr(query: JudgedQuery, ranking: Sequence[str]) -> float:
    return mrr_at(ranking, answers_among(query.relevant), ANSWERED)


def _headings(engine: Engine, memories: Sequence[Memory]) -> Iterator[tuple[str, str]]:
    for start in range(0, len(memories), _SELECT):
        for name, body in engine.index.bodies([each.id for each in memories[start : start + _SELECT]]).items():
            yield from ((name, heading.text) for heading in parse_headings(body))


def _unique(named: Sequence[tuple[str, str]], known: set[str] | None = None) -> list[tuple[str, str]]:
    """The texts long enough to search for that stand once, and not among the `known`."""
    times = Counter(text for _, text in named)
    known = known or set()
    return [
        (name, text)
        for name, text in named
        if times[text] == 1 and text not in known and len(text.split()) >= _LEAST_WORDS and text.isprintable()
    ]
