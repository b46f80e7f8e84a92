"""The channels: each turns a query into a ranked list of candidates, or reports why it cannot."""

import math
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.config import ForgettingSettings
from scrimshaw.models import (
    RECORD,
    ArtifactClass,
    Channel,
    Degradation,
    Filters,
    Match,
    Memory,
    MemoryType,
    Relation,
    Retention,
    Stage,
)
from scrimshaw.search import decay, lineage
from scrimshaw.search.degradation import WITHOUT, Degradations, IndexPart
from scrimshaw.search.embedders import Embedder, EmbedderUnavailable
from scrimshaw.search.fusion import Fused
from scrimshaw.search.periods import Period
from scrimshaw.search.results import Hit, SearchRequest, SessionSignals, StageTrace
from scrimshaw.search.routing import Profile
from scrimshaw.search.tokens import find_names, find_phrases, query_terms
from scrimshaw.storage.index import Index
from scrimshaw.storage.ports import Piece, Query, Review

# The share of its seed's score that a causal neighbour gets per hop.
HOP_SHARE = 0.5
DAY_S = 86_400.0
MOST_VECTORS = 0.9  # the share of the chunks from which on the missing vectors are those of the last session
TELLING_REST = 2  # words of a question besides those that name days, from which on only they are embedded
MOST_REMEMBERED = 5_000  # memories without their texts, about 2 KB each


class Candidate(Struct, kw_only=True):
    """A memory that may become a hit: what found it, and what lowered and raised its score."""

    memory: Memory
    retrievability: float  #: how present it is, 0..1, and the resulting state
    state: Retention
    confidence: float  #: share of the validations that found it useful; 0.5 without any
    fused: Fused
    score: float = 0.0
    terms: Mapping[str, float] = {}  #: terms added to the fused score by comparing it with the other candidates
    factors: Mapping[str, float] = {}
    boosts: Mapping[str, float] = {}
    superseded_by: tuple[str, ...] = ()  #: memories that say they supersede it


class SearchState(Struct, kw_only=True):
    """The state of a running search: the request, what follows from it, what was found, and the trace."""

    request: SearchRequest
    signals: SessionSignals
    limit: int
    terms: Sequence[str]
    profile: Profile
    period: Period | None  #: the days that the query names
    filters: Filters
    always_on: tuple[Hit, ...]
    degradations: Degradations
    generation: int  #: that of the index before the search read any rows
    lists: Mapping[str, Sequence[Match]] = {}  #: results of the channels that found anything
    chunks: dict[str, int] = {}  #: memory id -> its best chunk, by words if possible, otherwise by meaning
    nearest: Mapping[str, int] = {}  #: memory id -> its nearest chunk by meaning, if found
    questions: dict[str, int] = {}  #: memory id -> the question that matches better than its text
    versions: Sequence[tuple[str, str]] = ()  #: pairs of the best memories with nearly the same passages
    phrases: Mapping[str, Sequence[str]] = {}  #: memory id -> its phrases that occur in the query
    record: dict[str, tuple[str, int, Memory]] = {}  #: passage id -> its document and chunk there, and as a memory
    query_tokens: Any = None  #: a row for each token of the query, where the model was asked
    coverage: float | None = None  #: how near the tokens of the best passages come to the query's, mean cosine
    without_vector: frozenset[str] = frozenset()  #: what only words found, since it has no vector yet
    vectors: tuple[int, int] = (0, 0)  #: the chunks searched by meaning: how many have a vector, and all
    searched: int = 0  #: about how many chunks the filters let the search by meaning compare
    has_all_vectors: bool = True
    has_most_vectors: bool = True
    wants_sessions: bool = False  #: sessions may answer: no filter asks for what their passages do not have
    archived: list[str] = []  #: memories that words or phrases found, and that are not shown since they have faded
    trace: list[StageTrace] = []
    reached: float  #: when the last stage ended

    def place_of(self, name: str) -> tuple[str, int]:
        """The location of a candidate's passage: its document and chunk."""
        return self.record[name][:2] if name in self.record else (name, self.chunks.get(name, 0))

    def note(self, stage: Stage, entered: int, left: int, **notes: object) -> None:
        """Add a stage that just ended to the trace, with the number of memories that entered and left it."""
        now = time.perf_counter()
        ms = round((now - self.reached) * 1000, 3)
        self.trace.append(StageTrace(stage=stage, entered=entered, left=left, ms=ms, notes=notes))
        self.reached = now


class CandidateFinder:
    """Asks the channels of one index: `depth` candidates each, and causal neighbours up to `hops` away."""

    def __init__(self, index: Index, embedder: Embedder | Degradation, *, depth: int, hops: int) -> None:
        self._index, self._embedder, self._depth, self._hops = index, embedder, depth, hops
        self._memories = (-1, dict[str, Memory]())  # generation and memories that searches have read
        # By generation, so that they are counted once per state of the index.
        self._count_sessions = lru_cache(maxsize=1)(lambda _: index.count(Filters(source=RECORD)).get("", 0))
        self._count_vectors = lru_cache(maxsize=2)(lambda _, record: index.vector_counts(record=record))
        if not isinstance(embedder, Degradation):
            self._embed_query = lru_cache(maxsize=256)(embedder.embed)

    def find(self, state: SearchState) -> None:
        """Add to the state what each requested channel finds, or why it could not search."""
        query, channels, degradations = state.request.query, state.request.channels, state.degradations
        if Channel.TRIGGER in channels:
            with degradations.tolerate(IndexPart.TRIGGERS):
                state.phrases = find_phrases(query, self._index.phrases, titles=True)
        found = self._match_words_and_vectors(state, state.filters)
        if state.phrases:  # scored by the share of the query it covers
            scores = {name: min(1.0, sum(map(len, each)) / len(query)) for name, each in state.phrases.items()}
            found[Channel.TRIGGER] = self._select_matches(scores, state)[: self._depth]
        state.lists = {channel: matches for channel, matches in found.items() if matches}
        near = state.lists.get(Channel.VECTOR, ())
        state.nearest = {match.id: match.chunk for match in near if match.chunk >= 0}
        for match in (*near, *state.lists.get(Channel.TEXT, ())):
            if match.chunk >= 0:
                state.chunks[match.id] = match.chunk
            if match.question >= 0:
                state.questions.setdefault(match.id, match.question)
        asked = state.filters
        of_memories = asked.tiers or asked.types or asked.artifacts or asked.topics or asked.folder or asked.source
        state.wants_sessions = state.request.record and asked.only is None and not of_memories
        if state.wants_sessions:
            with degradations.tolerate(IndexPart.FULL_TEXT):
                self._find_passages(state)
        done, total = state.vectors
        state.has_all_vectors, state.has_most_vectors = done >= total, done >= MOST_VECTORS * total
        if not state.has_all_vectors:
            state.degradations.note(vectors_pending(done, total))
            state.without_vector = self._find_without_vector(state)

    def _find_without_vector(self, state: SearchState) -> frozenset[str]:
        """The results found by words, but not by meaning, that have no vector yet."""
        near = {match.id for match in state.lists.get(Channel.VECTOR, ())}
        words = (match.id for match in state.lists.get(Channel.TEXT, ()))
        places = {name: state.place_of(name) for name in words if name not in near}
        pieces = dict[tuple[str, int], Piece]()
        with state.degradations.tolerate(IndexPart.VECTORS):
            pieces = self.read_vectors({*places.values()})
        return frozenset(name for name, place in places.items() if place in pieces and not pieces[place].vector)

    def _match_words_and_vectors(self, state: SearchState, filters: Filters) -> dict[str, list[Match]]:
        channels, found = state.request.channels, dict[str, list[Match]]()
        if Channel.TEXT in channels and state.terms:
            words = (*state.terms, *find_names(state.request.query))  # a name is rarer than each of its parts
            with state.degradations.tolerate(IndexPart.FULL_TEXT):
                found[Channel.TEXT] = self._index.match_text(Query((words,)), filters, self._depth)
        if Channel.VECTOR in channels:
            with state.degradations.tolerate(IndexPart.VECTORS):
                found[Channel.VECTOR] = self._match_vector(state, filters)
        return found

    def _find_passages(self, state: SearchState) -> None:
        """Add passages of the record of sessions to the lists, except those in the asking session's context."""
        if not self._count_sessions(state.generation):
            return
        session, start = state.signals.in_context
        filters = replace(state.filters, source=RECORD)
        if session and start <= 1:
            filters = replace(filters, exclude=(*filters.exclude, f"session:{session}"))
        found = self._match_words_and_vectors(state, filters)
        ids: dict[tuple[str, int], str] = {}
        with state.degradations.tolerate(IndexPart.EXCERPTS):
            places = {(each.id, each.chunk) for some in found.values() for each in some}
            records = self.read_memories({name for name, _ in places}, state)
            for place, memory in self._index.passages(places, records).items():
                # A passage such as `session:SID#e12.2` begins with that event.
                if memory.provenance.session != session or int(memory.id.rpartition("#e")[2].partition(".")[0]) < start:
                    ids[place] = memory.id
                    state.record[memory.id] = (*place, memory)
        for channel, matches in found.items():
            new = [Match(id=ids[at], score=match.score) for match in matches if (at := (match.id, match.chunk)) in ids]
            if new:
                merged = sorted((*state.lists.get(channel, ()), *new), key=lambda match: (-match.score, match.id))
                state.lists = {**state.lists, channel: merged}

    def read_memories(self, ids: Collection[str], state: SearchState) -> Mapping[str, Memory]:
        """Memories by id, including these, with the trust of their lineage; cached until the index changes."""
        if self._memories[0] != state.generation or len(self._memories[1]) > MOST_REMEMBERED:
            self._memories = (state.generation, {})
        known = self._memories[1]
        before, new = state.degradations.as_tuple(), self._index.get([*({*ids} - known.keys())])
        known.update(lineage.resolve_trust(self._index, new, state.degradations))
        if state.degradations.as_tuple() != before:  # the next search has to report this too
            self._memories = (-1, {})
        return known

    def find_neighbours(self, seeds: Mapping[str, float], state: SearchState) -> list[Match]:
        """Causal neighbours of the seeds that satisfy the filters; each scores a share of its seed's score."""
        scores: dict[str, float] = {}
        edges = self._index.neighbors(tuple(seeds), hops=self._hops, direction="both", relations=tuple(Relation))
        for edge in edges:
            score = seeds[edge.start] * HOP_SHARE**edge.hop * edge.path_strength * edge.strength
            scores[edge.place] = max(score, scores.get(edge.place, 0.0))
        new = scores.keys() - seeds.keys()
        return self._select_matches({name: scores[name] for name in new}, state) if new else []

    def read_vectors(self, places: Collection[tuple[str, int]]) -> dict[tuple[str, int], Piece]:
        """The passages at these locations with their vectors and token vectors, empty if there are none."""
        assert not isinstance(self._embedder, Degradation)
        return self._index.pieces(places, vectors_of=self._embedder.model)

    def _select_matches(self, scores: Mapping[str, float], state: SearchState) -> list[Match]:
        """Those of the scored memories that satisfy the filters, best first."""
        only = tuple(name for name in scores if state.filters.only is None or name in state.filters.only)
        allowed = self._index.select(replace(state.filters, only=only), sort="id", limit=len(scores), offset=0)
        found = [Match(id=memory.id, score=scores[memory.id]) for memory in allowed]
        return sorted(found, key=lambda match: (-match.score, match.id))

    def _match_vector(self, state: SearchState, filters: Filters) -> list[Match]:
        if isinstance(self._embedder, Degradation):
            state.degradations.note(self._embedder)
            return []
        try:
            # A session's text does not say on which day it was, but a note may be named by its day.
            rest = state.period.rest if state.period and not state.phrases else ""
            is_telling = len(query_terms(rest)) >= TELLING_REST
            vector, tokens = self._embed_query(rest if is_telling else state.request.query)
        except EmbedderUnavailable as error:
            state.degradations.note(error.degradation)
            return []
        done, total = self._count_vectors(state.generation, filters.source == RECORD).progress(self._embedder.model)
        state.vectors = (state.vectors[0] + done, state.vectors[1] + total)
        found = self._index.match_vector(self._embedder.model, vector, filters, self._depth)
        state.searched += len(found) if len(found) < self._depth else total
        state.query_tokens = tokens
        return found


def vectors_pending(done: int, total: int) -> Degradation:
    """The degradation if only `done` of `total` pieces can be found by meaning."""
    failure = f"vectors_pending: {total - done} of {total} pieces have no vector yet"
    return Degradation(failure_mode=failure, **WITHOUT["pending_vectors"])


def tokens_pending(missing: int, total: int) -> Degradation:
    """The degradation if only some of the best passages can be compared word by word."""
    failure = f"tokens_pending: {missing} of the best {total} passages have no token vectors yet"
    return Degradation(failure_mode=failure, **WITHOUT["pending_tokens"])


def last_access(memory: Memory, review: Review | None) -> float | None:
    """When a memory was last reviewed or changed, in seconds since 1970; None if unknown."""
    at = review.last_review if review and review.reviews else None
    try:
        changed = datetime.fromisoformat(memory.updated or memory.created)
    except ValueError:
        return at
    return max(at or 0.0, (changed if changed.tzinfo else changed.replace(tzinfo=UTC)).timestamp())


def presence(
    memory: Memory, review: Review | None, now: float, settings: ForgettingSettings
) -> tuple[float, Retention]:
    """Retrievability and state at `now` (seconds since 1970) since the last review or change; documents never fade."""
    stability = decay.stability_of(memory.type, memory.tier, settings.half_life_days)
    is_document = memory.artifact is not ArtifactClass.MEMORY and not memory.writable
    if is_document or math.isinf(stability) or (since := last_access(memory, review)) is None:
        return 1.0, Retention.HOT
    if review and review.reviews:  # only unhelpful memories fade faster than their type
        stability = review.stability if review.not_useful else max(stability, review.stability)
    retrievability = decay.retrievability((now - since) / DAY_S, stability)
    state = decay.retention(retrievability, settings.state_thresholds)
    # A session's memory sinks in a week, but is never archived: it may not be consolidated yet.
    is_rest = memory.type == MemoryType.SESSION and state == Retention.ARCHIVED
    return retrievability, Retention.DORMANT if is_rest else state
