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

# Factors lower a score by a fifth at most, so what stands far below the last hit cannot become one.
RERANK_WINDOW = 3
SMALLEST_WINDOW = 30
# spec-kit causal boost: at most five seeds.
SEEDS = 5
# So many hits out of the session's record stay, however good the memories are.
RECALLED_STAY = 3
# A word that only begins like one of the query's says half as much.
PREFIX = 0.5
NOWHERE = Surroundings()
ALL_OF_LIMIT = 1000

_NO_PIECE = Piece(anchor="", heading="", text="")

_STRICT = re.compile(r"[\w\s\-.,()&:]+", re.ASCII)


class Ranked(Struct, frozen=True, kw_only=True):
    """A candidate on its way to a hit."""

    memory: Memory
    fused: Fused
    score: float
    factors: Mapping[str, float]
    boosts: Mapping[str, float] = {}
    presence: Presence = Presence()


class Searcher:
    """Searches one index. Safe to use from several threads."""

    def __init__(self, index: Index, settings: Settings, embedder: Embedder | Degradation) -> None:
        self._index = index
        self._settings = settings.search
        self._forgetting = settings.forgetting
        self._fusion = FusionProfile(depth=settings.search.candidates)
        self._finder = CandidateFinder(index, embedder, settings.search.candidates)
        self._always_on: tuple[int, tuple[Hit, ...]] = (-1, ())

    def search(self, request: SearchRequest, around: Surroundings = NOWHERE) -> SearchResult:
        """The best memories for a query; raises InvalidRequest for one that cannot be searched."""
        query = self.validate(request.query)
        trace, faults = TraceRecorder(), Faults()
        profile = route(query, request.intent, request.artifact)
        terms = words.terms(query)
        always_on = self._shown_anyway(request, faults)
        filters = self._visible(request, always_on, faults)
        found = self._finder.find(query, terms, filters, request.channels, faults)
        trace.note(Stage.CANDIDATE, 0, len(found.ids()), channels={str(c.channel): len(c.ids) for c in found.lists})
        trace.note(Stage.FILTER, len(found.ids()), len(found.ids()), conditions=_conditions(filters))
        fused = fuse(found.lists, _trusted(profile.weights, found.coverage), self._fusion)
        fused = faults.borne(Part.GRAPH, partial(self._with_neighbours, fused, filters, request), fused)
        trace.note(Stage.FUSION, len(found.ids()), len(fused), weights=dict(profile.weights))
        ranked = self._rerank(fused, profile, request, around, faults)
        trace.note(Stage.RERANK, len(fused), len(ranked), lowered=sum(bool(item.factors) for item in ranked))
        ranked = self._fallback(ranked, terms, filters, (profile, request, around), trace, faults)
        ranked = faults.borne(Part.GRAPH, partial(_boosted, ranked, around.boosts), ranked)
        end = request.offset + request.limit
        hits = self._hits(ranked[request.offset : end], found, terms, request, faults)
        hits = with_recalled(hits, around.recalled, request)
        kept, tokens = fit(hits, request.token_budget)
        trace.note(Stage.FINAL_RANK, len(ranked), len(kept), boosted=sum(bool(item.boosts) for item in ranked))
        return SearchResult(
            hits=kept,
            always_on=always_on,
            intent=profile.intent,
            confidence=round(profile.confidence, 3),
            artifact=profile.artifact,
            tokens=tokens + sum(hit.tokens for hit in always_on),
            omitted=len(hits) - len(kept),
            more=len(ranked) > end,
            trace=trace.stages(),
            degradations=faults.found(),
        )

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
            hits = [_always_on(memory, bodies[memory.id]) for memory in memories]
            self._always_on = (generation, fit(hits, self._settings.constitutional_tokens)[0])
        return self._always_on[1]

    def _shown_anyway(self, request: SearchRequest, faults: Faults) -> tuple[Hit, ...]:
        if not request.constitutional:
            return ()
        hits: tuple[Hit, ...] = faults.borne(Part.GRAPH, self.always_on, ())
        return hits

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

    def _with_neighbours(self, fused: list[Fused], filters: Filters, request: SearchRequest) -> list[Fused]:
        """The candidates and, behind the hit that leads to each, causal neighbours that no channel found."""
        if Channel.GRAPH not in request.channels:
            return fused
        neighbours = self._finder.neighbours({item.id: item.score for item in fused[:SEEDS]}, filters)
        known = {item.id for item in fused}
        new = [
            Fused(id=match.id, score=match.score, ranks={Channel.GRAPH: rank}, raw={Channel.GRAPH: match.score})
            for rank, match in enumerate(neighbours, start=1)
            if match.id not in known
        ]
        return sorted((*fused, *new), key=lambda item: (-item.score, item.id)) if new else fused

    def _rerank(
        self, fused: Sequence[Fused], profile: Profile, request: SearchRequest, around: Surroundings, faults: Faults
    ) -> list[Ranked]:
        window = fused[: max(SMALLEST_WINDOW, RERANK_WINDOW * (request.offset + request.limit))]
        ids = [item.id for item in window]
        found = self._index.get(ids)
        memories = faults.borne(Part.GRAPH, partial(lineage.traced, self._index, found), lineage.untraced(found))
        look = partial(around.reviews, ids) if around.reviews else dict[str, Review]
        reviews: Mapping[str, Review] = faults.borne(Part.REVIEWS, look, {})
        ranked = [
            self._ranked(memories[item.id], item, reviews.get(item.id), profile, request, around.now)
            for item in window
            if item.id in memories
        ]
        present = [item for item in ranked if _is_present(item.presence.state, request)]
        present.sort(key=_order)
        return _limited_by_state(present) if request.state_limits else present

    def _ranked(
        self,
        memory: Memory,
        fused: Fused,
        review: Review | None,
        profile: Profile,
        request: SearchRequest,
        now: float,
    ) -> Ranked:
        present = presence(memory, review, now, self._forgetting) if request.decay and now else Presence()
        factors = rerank.factors(
            memory,
            artifact=profile.artifact,
            confidence=review.confidence if review else 0.5,
            retrievability=present.retrievability,
            length_penalty=request.length_penalty,
        )
        factors = factors if request.rerank else {}
        score = rerank.apply(fused.score, memory, factors)
        return Ranked(memory=memory, fused=fused, score=score, factors=factors, presence=present)

    def _fallback(
        self,
        ranked: list[Ranked],
        terms: Sequence[str],
        filters: Filters,
        search: tuple[Profile, SearchRequest, Surroundings],
        trace: TraceRecorder,
        faults: Faults,
    ) -> list[Ranked]:
        """Where nothing was found, words that begin like those of the query."""
        profile, request, around = search
        expression = words.prefix_expression(terms)
        if ranked or not expression or Channel.TEXT not in request.channels:
            trace.note(Stage.FALLBACK, len(ranked), len(ranked), used="none")
            return ranked
        most = request.offset + request.limit + 1
        found: list[Match] = faults.borne(Part.TEXT, partial(self._index.match_text, expression, filters, most), [])
        part = ChannelList(channel=Channel.TEXT, ids=[m.id for m in found], scores=[m.score for m in found])
        likely = self._rerank(fuse((part,), {Channel.TEXT: 1.0}, self._fusion), profile, request, around, faults)
        ranked = [
            msgspec.structs.replace(item, score=item.score * PREFIX, factors={**item.factors, "prefix": PREFIX})
            for item in likely
        ]
        trace.note(Stage.FALLBACK, 0, len(ranked), used="prefix")
        return ranked

    def _hits(
        self, ranked: Sequence[Ranked], found: Candidates, terms: Sequence[str], request: SearchRequest, faults: Faults
    ) -> list[Hit]:
        ids = [item.memory.id for item in ranked]
        wanted = [(name, found.chunks.get(name, 0)) for name in ids]
        pieces: dict[str, Piece] = faults.borne(Part.EXCERPTS, partial(self._index.pieces, wanted), {})
        bodies = self._index.bodies(ids) if request.include_content else {}
        room = request.excerpt_tokens or self._settings.snippet_tokens
        hits = []
        for item in ranked:
            name, piece = item.memory.id, pieces.get(item.memory.id, _NO_PIECE)
            if name in bodies:
                text, tokens = bodies[name], item.memory.tokens
            else:
                text, tokens = excerpt(piece.text, terms, room, head)
            hits.append(
                Hit(
                    memory=item.memory,
                    score=round(item.score, 6),
                    anchor=piece.anchor,
                    heading=piece.heading,
                    text=text,
                    tokens=item.memory.label_tokens + tokens,
                    explanation=_explanation(item, tuple(found.phrases.get(name, ()))),
                    state=item.presence.state,
                )
            )
        return hits


def with_recalled(hits: Sequence[Hit], recalled: Sequence[Hit], request: SearchRequest) -> list[Hit]:
    """Hits and entries of the session's record, best first; some entries stay however good the memories are."""
    if not recalled or request.offset:
        return list(hits)
    room = max(request.limit - min(len(recalled), RECALLED_STAY), 0)
    kept = [*hits[:room], *recalled[:RECALLED_STAY], *hits[room:], *recalled[RECALLED_STAY:]][: request.limit]
    return sorted(kept, key=lambda hit: (-hit.score, lineage.rank(hit.memory.provenance.trust), hit.memory.id))


def fit(hits: Sequence[Hit], budget: int | None) -> tuple[tuple[Hit, ...], int]:
    """The first hits that fit the budget in tokens, and their tokens; None fits all.

    The first hit is cut to the budget rather than left out, where its name and title fit.
    """
    kept: list[Hit] = []
    used = 0
    for hit in hits:
        if budget is not None and used + hit.tokens > budget:
            clipped = _clipped(hit, budget)
            if not kept and clipped.tokens <= budget:
                kept.append(clipped)
                used = clipped.tokens
            break
        kept.append(hit)
        used += hit.tokens
    return tuple(kept), used


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


def _is_present(state: Retention, request: SearchRequest) -> bool:
    """Whether a memory in this state is wanted."""
    order = list(Retention)
    if request.min_state and order.index(state) > order.index(request.min_state):
        return False
    return state != Retention.ARCHIVED or request.include_archived


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
    """Best first; of equals the better vouched for."""
    return -item.score, lineage.rank(item.memory.provenance.trust), item.memory.id


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
