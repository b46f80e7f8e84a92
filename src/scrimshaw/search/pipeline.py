"""A search, stage by stage: candidate, filter, fusion, rerank, fallback, final-rank."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import msgspec
from msgspec import Struct

from scrimshaw.config import Settings
from scrimshaw.errors import InvalidRequest
from scrimshaw.models import Channel, Degradation, Filters, Memory, Retention, Stage, Tier, Trust
from scrimshaw.search import lineage, rerank
from scrimshaw.search import terms as words
from scrimshaw.search.candidates import CandidateFinder, Candidates
from scrimshaw.search.embedder import Embedder
from scrimshaw.search.excerpts import excerpt
from scrimshaw.search.faults import Faults, Part
from scrimshaw.search.forgetting import STATE_LIMITS, Presence, presence
from scrimshaw.search.fusion import ChannelList, Fused, FusionProfile, fuse
from scrimshaw.search.results import Boosts, Explanation, Hit, SearchRequest, SearchResult, Surroundings
from scrimshaw.search.routing import Profile, route
from scrimshaw.search.tokens import clip, count_tokens, head
from scrimshaw.search.trace import TraceRecorder
from scrimshaw.storage.ports import Index, Match, Piece, Review

# spec-kit causal boost: at most five seeds.
SEEDS = 5
# So many hits out of the session's record stay, however good the memories are.
RECALLED_STAY = 3
# A word that only begins like one of the query's says half as much.
PREFIX = 0.5
# Of a score as a hit tells it; what is equal there is equal.
DIGITS = 6
NOWHERE = Surroundings()
ALL_OF_LIMIT = 1000

_NO_PIECE = Piece(anchor="", heading="", text="")

_STRICT = re.compile(r"[\w\s\-.,()&:]+", re.ASCII)


class _Known(Struct, frozen=True, kw_only=True):
    """What is known of a candidate: its memory, its reviews, and how present it still is."""

    memory: Memory
    review: Review | None
    presence: Presence


class Ranked(Struct, frozen=True, kw_only=True):
    """A candidate on its way to a hit."""

    memory: Memory
    fused: Fused
    score: float
    factors: Mapping[str, float]
    boosts: Mapping[str, float] = {}
    presence: Presence = Presence()


class _Asked(Struct, frozen=True, kw_only=True):
    """One search: what was asked, what follows from it, and what is noted on the way."""

    request: SearchRequest
    limit: int
    around: Surroundings
    terms: Sequence[str]
    profile: Profile
    filters: Filters
    always_on: tuple[Hit, ...]
    trace: TraceRecorder
    faults: Faults


class Searcher:
    """Searches one index. Safe to use from several threads."""

    def __init__(self, index: Index, settings: Settings, embedder: Embedder | Degradation) -> None:
        self._index = index
        self._settings = settings.search
        self._forgetting = settings.forgetting
        self._fusion = FusionProfile(depth=settings.search.candidates)
        self._finder = CandidateFinder(
            index, embedder, depth=settings.search.candidates, hops=settings.session.causal_hops
        )
        self._always_on: tuple[int, tuple[Hit, ...]] = (-1, ())

    def search(self, request: SearchRequest, around: Surroundings = NOWHERE) -> SearchResult:
        """The best memories for a query; raises InvalidRequest for one that cannot be searched."""
        asked = self._asked(request, around)
        found = self._candidates(asked)
        known = self._filtered(asked, found)
        fused = self._fused(asked, found, known)
        ranked = self._reranked(asked, fused)
        ranked = self._fallback(asked, ranked)
        ranked = asked.faults.borne(Part.GRAPH, partial(_boosted, ranked, around.boosts), ranked)
        return self._answer(asked, found, ranked)

    def validate(self, query: str) -> str:
        """The query without surrounding space; raises InvalidRequest when it cannot be searched."""
        query = query.strip()
        if not 1 <= len(query) <= self._settings.query_max:
            raise InvalidRequest(
                f"A query has 1 to {self._settings.query_max} characters; this one has {len(query)}.",
                "Ask in a sentence or a few words.",
                parameter="query",
            )
        if any(ord(character) < 32 and character not in "\t\n\r" for character in query):
            raise InvalidRequest("The query holds control characters.", "Send plain text.", parameter="query")
        if self._settings.strict_queries and not _STRICT.fullmatch(query):
            raise InvalidRequest(
                "The query holds characters outside letters, digits and - . , _ ( ) & : and space.",
                "Rephrase it, or switch off search.strict_queries.",
                parameter="query",
            )
        return query

    def phrases(self, text: str) -> dict[str, list[str]]:
        """Memory id -> its trigger phrases that stand in the text."""
        return self._finder.phrases(text, titles=False)

    def always_on(self) -> tuple[Hit, ...]:
        """Constitutional memories that people alone vouch for, within their own room, in the order of their ids."""
        generation = self._index.generation()
        if self._always_on[0] != generation:
            memories = self._index.select(Filters(tiers=(Tier.CONSTITUTIONAL,)), sort="id", limit=100, offset=0)
            tainted = lineage.sources(self._index, tuple(memory.id for memory in memories))
            memories = [memory for memory in memories if tainted.get(memory.id, Trust.HUMAN) == Trust.HUMAN]
            bodies = self._index.bodies([memory.id for memory in memories])
            # another process may have deleted one meanwhile
            hits = [_always_on(memory, bodies[memory.id]) for memory in memories if memory.id in bodies]
            self._always_on = (generation, fit(hits, self._settings.constitutional_tokens).hits)
        return self._always_on[1]

    def _asked(self, request: SearchRequest, around: Surroundings) -> _Asked:
        trace, faults = TraceRecorder(), Faults()
        query = self.validate(request.query)
        always_on: tuple[Hit, ...] = ()
        if request.constitutional:
            always_on = faults.borne(Part.GRAPH, self.always_on, ())
        return _Asked(
            request=msgspec.structs.replace(request, query=query),
            limit=request.limit or self._settings.limit,
            around=around,
            terms=words.terms(query),
            profile=route(query, request.intent, request.artifact),
            filters=self._visible(request, always_on, faults),
            always_on=always_on,
            trace=trace,
            faults=faults,
        )

    def _visible(self, request: SearchRequest, always_on: Iterable[Hit], faults: Faults) -> Filters:
        """The filters as asked, without what is shown anyway and what the quality gate keeps back."""
        filters = request.filters
        quality = filters.min_quality_score
        return msgspec.structs.replace(
            filters,
            only=self._allowed(request, faults),
            exclude=(*filters.exclude, *(hit.memory.id for hit in always_on)),
            min_quality_score=self._settings.min_quality_score if quality is None else quality,
        )

    def _allowed(self, request: SearchRequest, faults: Faults) -> tuple[str, ...] | None:
        if not request.all_of:
            return request.filters.only
        work = partial(self._with_all, request.all_of, request.filters)
        ids: tuple[str, ...] = faults.borne(Part.TEXT, work, ())
        return ids

    def _with_all(self, concepts: Sequence[str], filters: Filters) -> tuple[str, ...]:
        """The ids of memories in which a word of each concept stands."""
        groups = [words.match_expression(words.terms(concept)) for concept in concepts]
        expression = " AND ".join(f"({group})" for group in groups if group)
        found = self._index.match_text(expression, filters, ALL_OF_LIMIT) if expression else []
        return tuple(match.id for match in found)

    def _candidates(self, asked: _Asked) -> Candidates:
        request = asked.request
        found = self._finder.find(request.query, asked.terms, asked.filters, request.channels, asked.faults)
        counts = {str(each.channel): len(each.ids) for each in found.lists}
        asked.trace.note(Stage.CANDIDATE, 0, len(found.ids()), channels=counts)
        return found

    def _filtered(self, asked: _Asked, found: Candidates) -> Mapping[str, _Known]:
        """The candidates in a state that is wanted; the channels asked the index for the other conditions already."""
        ids = found.ids()
        known = self._known(asked, ids)
        asked.trace.note(Stage.FILTER, len(ids), len(known), conditions=_conditions(asked.filters))
        return known

    def _known(self, asked: _Asked, names: Iterable[str]) -> Mapping[str, _Known]:
        """What is known of these memories, without those in a state that is not wanted."""
        around, ids = asked.around, list(names)
        look = partial(around.reviews, ids) if around.reviews else dict[str, Review]
        reviews: Mapping[str, Review] = asked.faults.borne(Part.REVIEWS, look, {})
        known = {}
        for name, memory in self._index.get(ids).items():
            review = reviews.get(name)
            present = presence(memory, review, around.now, self._forgetting) if around.now else Presence()
            if _is_wanted(present.state, asked.request):
                known[name] = _Known(memory=memory, review=review, presence=present)
        return known

    def _fused(self, asked: _Asked, found: Candidates, known: Mapping[str, _Known]) -> list[tuple[Fused, _Known]]:
        """The candidates and, behind the hit that leads to each, causal neighbours that no channel found."""
        weights = _trusted(asked.profile.weights, found.coverage)
        fused = [item for item in fuse(found.lists, weights, self._fusion) if item.id in known]
        near: list[Fused] = asked.faults.borne(Part.GRAPH, partial(self._neighbours, asked, fused), [])
        every = {**known, **self._known(asked, [item.id for item in near])} if near else known
        joined = sorted((*fused, *near), key=lambda item: (-item.score, item.id))
        placed = [(item, every[item.id]) for item in joined if item.id in every]
        used = {str(each.channel): weights[each.channel] for each in found.lists}
        asked.trace.note(Stage.FUSION, len(known), len(placed), weights=used)
        return placed

    def _neighbours(self, asked: _Asked, fused: Sequence[Fused]) -> list[Fused]:
        if Channel.GRAPH not in asked.request.channels:
            return []
        found = self._finder.neighbours({item.id: item.score for item in fused[:SEEDS]}, asked.filters)
        known = {item.id for item in fused}
        return [
            Fused(id=match.id, score=match.score, ranks={Channel.GRAPH: rank}, raw={Channel.GRAPH: match.score})
            for rank, match in enumerate(found, start=1)
            if match.id not in known
        ]

    def _reranked(self, asked: _Asked, fused: Sequence[tuple[Fused, _Known]]) -> list[Ranked]:
        ranked = self._ranked(asked, fused)
        lowered = sum(bool(item.factors) for item in ranked)
        asked.trace.note(Stage.RERANK, len(fused), len(ranked), lowered=lowered)
        return ranked

    def _ranked(self, asked: _Asked, fused: Sequence[tuple[Fused, _Known]]) -> list[Ranked]:
        """All of them by their lowered scores: a page must not depend on how many were looked at for it."""
        found = {known.memory.id: known.memory for _, known in fused}
        work = partial(lineage.traced, self._index, found)
        traced: dict[str, Memory] = asked.faults.borne(Part.GRAPH, work, {})
        memories = traced or lineage.untraced(found)
        ranked = [_lowered(asked, item, known, memories[item.id]) for item, known in fused]
        ranked.sort(key=_order)
        return _limited_by_state(ranked) if asked.request.state_limits else ranked

    def _fallback(self, asked: _Asked, ranked: list[Ranked]) -> list[Ranked]:
        """Where nothing was found, words that begin like those of the query."""
        expression = words.prefix_expression(asked.terms)
        if ranked or not expression or Channel.TEXT not in asked.request.channels:
            asked.trace.note(Stage.FALLBACK, len(ranked), len(ranked), used="none")
            return ranked
        work = partial(self._index.match_text, expression, asked.filters, self._fusion.depth)
        found: list[Match] = asked.faults.borne(Part.TEXT, work, [])
        part = ChannelList(channel=Channel.TEXT, ids=[m.id for m in found], scores=[m.score for m in found])
        fused = fuse((part,), {Channel.TEXT: 1.0}, self._fusion)
        known = self._known(asked, part.ids)
        likely = self._ranked(asked, [(item, known[item.id]) for item in fused if item.id in known])
        ranked = [
            msgspec.structs.replace(item, score=item.score * PREFIX, factors={**item.factors, "prefix": PREFIX})
            for item in likely
        ]
        asked.trace.note(Stage.FALLBACK, 0, len(ranked), used="prefix")
        return ranked

    def _answer(self, asked: _Asked, found: Candidates, ranked: Sequence[Ranked]) -> SearchResult:
        """One page: of the memories from the offset on, and of the session's record, what fits the budget."""
        request, profile = asked.request, asked.profile
        page = ranked[request.offset : request.offset + asked.limit]
        recalled = asked.around.recalled if request.first else ()
        always_on = asked.always_on if request.first else ()
        hits = with_recalled(self._hits(asked, page, found), recalled, asked.limit)
        fitted = fit(hits, request.token_budget)
        entries = {hit.memory.id for hit in recalled}
        following = request.offset + sum(hit.memory.id not in entries for hit in hits[: fitted.taken])
        kept = sum(hit.memory.id not in entries for hit in fitted.hits)
        asked.trace.note(
            Stage.FINAL_RANK,
            len(ranked),
            kept,
            boosted=sum(bool(item.boosts) for item in ranked),
            recalled=len(fitted.hits) - kept,
        )
        return SearchResult(
            hits=fitted.hits,
            always_on=always_on,
            intent=profile.intent,
            confidence=round(profile.confidence, 3),
            artifact=profile.artifact,
            tokens=fitted.tokens + sum(hit.tokens for hit in always_on),
            omitted=len(hits) - len(fitted.hits),
            next_offset=following if following < len(ranked) else None,
            trace=asked.trace.stages(),
            degradations=asked.faults.found(),
        )

    def _hits(self, asked: _Asked, ranked: Sequence[Ranked], found: Candidates) -> list[Hit]:
        request = asked.request
        ids = [item.memory.id for item in ranked]
        wanted = [(name, found.chunks.get(name, 0)) for name in ids]
        pieces: dict[str, Piece] = asked.faults.borne(Part.EXCERPTS, partial(self._index.pieces, wanted), {})
        bodies = self._index.bodies(ids) if request.include_content else {}
        room = request.excerpt_tokens or self._settings.snippet_tokens
        hits = []
        for item in ranked:
            name, piece = item.memory.id, pieces.get(item.memory.id, _NO_PIECE)
            if name in bodies:
                text, tokens = bodies[name], item.memory.tokens
            else:
                text, tokens = excerpt(piece.text, asked.terms, room, head)
            hits.append(
                Hit(
                    memory=item.memory,
                    score=round(item.score, DIGITS),
                    anchor=piece.anchor,
                    heading=piece.heading,
                    text=text,
                    tokens=item.memory.label_tokens + tokens,
                    explanation=_explanation(item, tuple(found.phrases.get(name, ()))),
                    state=item.presence.state,
                )
            )
        return hits


class Fitted(Struct, frozen=True, kw_only=True):
    """What fits a token budget: the hits, their tokens, and how many were `taken` from the front for it."""

    hits: tuple[Hit, ...]
    tokens: int
    taken: int


def with_recalled(hits: Sequence[Hit], recalled: Sequence[Hit], limit: int) -> list[Hit]:
    """Hits and entries of the session's record, best first; some entries stay however good the memories are."""
    if not recalled:
        return list(hits)
    room = max(limit - min(len(recalled), RECALLED_STAY), 0)
    kept = [*hits[:room], *recalled[:RECALLED_STAY], *hits[room:], *recalled[RECALLED_STAY:]][:limit]
    return sorted(kept, key=lambda hit: (-hit.score, lineage.rank(hit.memory.provenance.trust), hit.memory.id))


def fit(hits: Sequence[Hit], budget: int | None) -> Fitted:
    """The first hits that fit the budget in tokens; None fits all.

    The first is cut to the budget rather than left out. One whose name and title alone are more than the whole budget
    is passed over: no page of that budget can hold it.
    """
    kept: list[Hit] = []
    used = taken = 0
    for taken, hit in enumerate(hits, start=1):
        if budget is None or used + hit.tokens <= budget:
            kept.append(hit)
            used += hit.tokens
        elif kept and hit.memory.label_tokens <= budget:
            return Fitted(hits=tuple(kept), tokens=used, taken=taken - 1)
        elif (clipped := _clipped(hit, budget)).tokens <= budget:
            return Fitted(hits=(clipped,), tokens=clipped.tokens, taken=taken)
    return Fitted(hits=tuple(kept), tokens=used, taken=taken)


def _clipped(hit: Hit, budget: int) -> Hit:
    label = hit.memory.label_tokens
    text = clip(hit.text, max(budget - label, 0))
    return msgspec.structs.replace(hit, text=text, tokens=label + count_tokens(text))


def _trusted(weights: Mapping[str, float], coverage: float) -> Mapping[str, float]:
    """The weights, that of meaning lowered while only a part of the pieces has a vector."""
    return {**weights, Channel.VECTOR: weights[Channel.VECTOR] * coverage}


def _explanation(item: Ranked, phrases: tuple[str, ...]) -> Explanation:
    return Explanation(
        ranks=item.fused.ranks,
        raw={channel: round(score, 4) for channel, score in item.fused.raw.items()},
        fused=round(item.fused.score, 6),
        factors=item.factors,
        boosts=item.boosts,
        phrases=phrases,
    )


def _is_wanted(state: Retention, request: SearchRequest) -> bool:
    """Whether a memory in this state is asked for."""
    order = list(Retention)
    if request.min_state and order.index(state) > order.index(request.min_state):
        return False
    return state != Retention.ARCHIVED or request.include_archived or not request.decay


def _lowered(asked: _Asked, fused: Fused, known: _Known, memory: Memory) -> Ranked:
    """A candidate with its factors; `memory` is the known one with the trust of its lineage."""
    request = asked.request
    factors = rerank.factors(
        memory,
        artifact=asked.profile.artifact,
        confidence=known.review.confidence if known.review else 0.5,
        retrievability=known.presence.retrievability if request.decay else 1.0,
        length_penalty=request.length_penalty,
    )
    factors = factors if request.rerank else {}
    score = rerank.apply(fused.score, memory, factors)
    return Ranked(memory=memory, fused=fused, score=score, factors=factors, presence=known.presence)


def _limited_by_state(ranked: list[Ranked]) -> list[Ranked]:
    """At most so many memories per state; room that a state does not use passes to the next."""
    kept: list[Ranked] = []
    spare = 0
    for state, limit in STATE_LIMITS.items():
        members = [item for item in ranked if item.presence.state == state][: limit + spare]
        spare = limit + spare - len(members)
        kept += members
    return sorted(kept, key=_order)


def _boosted(ranked: list[Ranked], boosts: Boosts | None) -> list[Ranked]:
    """The one place where a score may rise; the sum of boosts is capped by who gives them."""
    given = boosts([item.memory.id for item in ranked], _seeds(ranked)) if boosts and ranked else {}
    if not any(given.values()):
        return ranked
    lifted = [
        msgspec.structs.replace(
            item,
            score=item.score * (1 + sum(given.get(item.memory.id, {}).values())),
            boosts=given.get(item.memory.id, {}),
        )
        for item in ranked
    ]
    return sorted(lifted, key=_order)


def _seeds(ranked: Sequence[Ranked]) -> dict[str, float]:
    """The best hits; what only a relation brought in answers nothing, and so lifts nothing."""
    found = [item for item in ranked if item.fused.ranks.keys() != {Channel.GRAPH}]
    return {item.memory.id: item.score for item in found[:SEEDS]}


def _order(item: Ranked) -> tuple[float, int, str]:
    """Best first; of equals, as far as a hit tells its score, the better vouched for."""
    return -round(item.score, DIGITS), lineage.rank(item.memory.provenance.trust), item.memory.id


def _always_on(memory: Memory, body: str) -> Hit:
    explanation = Explanation(ranks={}, raw={}, fused=1.0)
    tokens = memory.label_tokens + memory.tokens
    return Hit(
        memory=memory,
        score=1.0,
        anchor="",
        heading="",
        text=body,
        tokens=tokens,
        explanation=explanation,
        always_on=True,
    )


def _conditions(filters: Filters) -> dict[str, object]:
    """The conditions in force, by name."""
    default = Filters()
    given = {name: getattr(filters, name) for name in Filters.__struct_fields__}
    return {name: value for name, value in given.items() if value != getattr(default, name)}
