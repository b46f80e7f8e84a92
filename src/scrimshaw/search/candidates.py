"""The channels: each turns a query into a ranked list of candidates, or says why it cannot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.ingest.phrases import heads
from scrimshaw.models import Channel, Degradation, Filters, Relation
from scrimshaw.search.embedder import Embedder, EmbedderUnavailable
from scrimshaw.search.faults import Faults, Part
from scrimshaw.search.fusion import ChannelList
from scrimshaw.search.terms import match_expression
from scrimshaw.search.triggers import standing
from scrimshaw.storage.ports import Index, Match

# What share of its seed's score a causal neighbour takes per hop.
HOP_SHARE = 0.5


class Candidates(Struct, frozen=True, kw_only=True):
    """What the channels found: a list per channel, the phrases that stood, and the best chunk of each memory.

    The best chunk is the one found by words, else the one found by meaning. `coverage` is the share of pieces that
    meaning could find.
    """

    lists: tuple[ChannelList, ...]
    chunks: Mapping[str, int]
    phrases: Mapping[str, Sequence[str]]
    coverage: float = 1.0

    def ids(self) -> set[str]:
        """All candidates."""
        return {name for found in self.lists for name in found.ids}


class CandidateFinder:
    """Asks the channels of one index: `depth` candidates each, and causal neighbours so many `hops` away."""

    def __init__(self, index: Index, embedder: Embedder | Degradation, *, depth: int, hops: int) -> None:
        self._index = index
        self._embedder = embedder
        self._depth = depth
        self._hops = hops
        self._counted = (-1, 0, 0)
        self._query_vector = lru_cache(maxsize=256)(self._embed)

    def find(
        self, query: str, terms: Sequence[str], filters: Filters, channels: Sequence[Channel], faults: Faults
    ) -> Candidates:
        """The candidates of every channel asked for; what a channel could not do is added to `faults`."""
        text: list[Match] = faults.borne(Part.TEXT, partial(self._text, terms, filters, channels), [])
        vector: list[Match] = faults.borne(Part.VECTORS, partial(self._vector, query, filters, channels, faults), [])
        phrases: dict[str, list[str]] = faults.borne(Part.TRIGGERS, partial(self._phrases, query, channels), {})
        trigger = self._trigger(phrases, filters, len(query))
        lists = ((Channel.TEXT, text), (Channel.VECTOR, vector), (Channel.TRIGGER, trigger))
        return Candidates(
            lists=tuple(_channel_list(channel, found) for channel, found in lists if found),
            chunks={match.id: match.chunk for match in (*vector, *text) if match.chunk >= 0},
            phrases=phrases,
            coverage=self._coverage() if vector else 1.0,
        )

    def neighbours(self, seeds: Mapping[str, float], filters: Filters) -> list[Match]:
        """Causal neighbours of the seeds that satisfy the filters; each scores a share of the seed it is met from."""
        if not seeds:
            return []
        scores: dict[str, float] = {}
        edges = self._index.neighbors(tuple(seeds), hops=self._hops, direction="both", relations=tuple(Relation))
        for edge in edges:
            score = seeds[edge.start] * HOP_SHARE**edge.hop * edge.path_strength * edge.strength
            scores[edge.place] = max(score, scores.get(edge.place, 0.0))
        new = tuple(scores.keys() - seeds.keys())
        allowed = self._index.select(_within(filters, new), sort="id", limit=len(new), offset=0) if new else []
        found = [Match(id=memory.id, score=scores[memory.id]) for memory in allowed]
        return sorted(found, key=lambda match: (-match.score, match.id))

    def phrases(self, text: str, *, titles: bool) -> dict[str, list[str]]:
        """Memory id -> its trigger phrases that stand in the text; with `titles` its title is one of them."""
        return standing(text, self._index.phrases(heads(text), titles=titles))

    def _text(self, terms: Sequence[str], filters: Filters, channels: Sequence[Channel]) -> list[Match]:
        expression = match_expression(terms) if Channel.TEXT in channels else ""
        return self._index.match_text(expression, filters, self._depth) if expression else []

    def _phrases(self, query: str, channels: Sequence[Channel]) -> dict[str, list[str]]:
        return self.phrases(query, titles=True) if Channel.TRIGGER in channels else {}

    def _vector(self, query: str, filters: Filters, channels: Sequence[Channel], faults: Faults) -> list[Match]:
        if Channel.VECTOR not in channels:
            return []
        if isinstance(self._embedder, Degradation):
            faults.note(self._embedder)
            return []
        try:
            vector = self._query_vector(query)
        except EmbedderUnavailable as error:
            faults.note(error.degradation)
            return []
        for pending in self._pending(self._embedder.model):
            faults.note(pending)
        return self._index.match_vector(self._embedder.model, vector, filters, self._depth)

    def _pending(self, model: str) -> list[Degradation]:
        """What is to be said while some memories have no vector yet; counted once per state of the index."""
        generation = self._index.generation()
        if self._counted[0] != generation:
            self._counted = (generation, *self._index.vector_progress(model))
        _, done, total = self._counted
        return [vectors_pending(done, total)] if done < total else []

    def _coverage(self) -> float:
        """The share of pieces that have a vector; the best of few says little about the rest."""
        _, done, total = self._counted
        return done / total if total > 0 else 1.0

    def _embed(self, query: str) -> Any:
        assert not isinstance(self._embedder, Degradation)
        return self._embedder.embed([query])[0]

    def _trigger(self, phrases: Mapping[str, Sequence[str]], filters: Filters, length: int) -> list[Match]:
        """Memories whose phrases stand in the query; the score is the share of the query that they cover."""
        if not phrases:
            return []
        allowed = self._index.select(_within(filters, phrases), sort="id", limit=len(phrases), offset=0)
        found = [Match(id=memory.id, score=_covered(phrases[memory.id], length)) for memory in allowed]
        return sorted(found, key=lambda match: (-match.score, match.id))[: self._depth]


def vectors_pending(done: int, total: int) -> Degradation:
    """What it means that only `done` of `total` pieces can be found by meaning."""
    return Degradation(
        failure_mode=f"vectors_pending: {total - done} of {total} pieces have no vector yet",
        fallback_mode="keyword search for those",
        confidence_impact="memories that say the same in other words may be missed",
        retry_recommendation="wait while a server or `scrimshaw scan` fills them",
    )


def _channel_list(channel: Channel, found: Sequence[Match]) -> ChannelList:
    return ChannelList(channel=channel, ids=[match.id for match in found], scores=[match.score for match in found])


def _within(filters: Filters, ids: Iterable[str]) -> Filters:
    """The filters with no ids allowed but these, as far as they were allowed."""
    return replace(filters, only=tuple(name for name in ids if filters.only is None or name in filters.only))


def _covered(phrases: Sequence[str], length: int) -> float:
    return min(1.0, sum(map(len, phrases)) / length)
