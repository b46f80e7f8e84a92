"""The canary: questions whose answers are known. What they do not bring is lost, however healthy the counts look.

Two kinds are asked. Golden queries are the user's and are asked as an agent asks. Samples are made from the memories
themselves, the same ones each time, and each way of finding is asked by itself: together they would cover for one
another until the last one fails.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.engine.core import Engine
from scrimshaw.engine.degradations import RECALL
from scrimshaw.engine.golden import golden_queries
from scrimshaw.engine.indexing import vectors_ready
from scrimshaw.engine.reading import search
from scrimshaw.errors import DamagedDatabase, UnreadableFile
from scrimshaw.models import Channel, Degradation, Filters, Memory
from scrimshaw.search.results import SearchRequest, SearchResult
from scrimshaw.search.terms import terms
from scrimshaw.storage.golden import Golden

SAMPLES, WITHIN = 8, 5
# Words of a title and a first sentence: enough to tell most memories from their neighbours.
WORDS = 12

_EVERY = Filters(include_deprecated=True, min_quality_score=0.0)
_WAYS = {Channel.TEXT: "words", Channel.VECTOR: "meaning"}


class Outcome(StrEnum):
    """What became of a question that lost nothing; an outranked sample was found, behind others."""

    FOUND = "found"
    OUTRANKED = "outranked"
    UNJUDGED = "unjudged"


class Lost(Struct, frozen=True, kw_only=True):
    """A query that does not bring the ids `missing`; `sentence` says it in words."""

    query: str
    missing: tuple[str, ...]
    sentence: str


class Recall(Struct, frozen=True, kw_only=True):
    """How recall fares: questions asked, what they lost, how many samples stood behind others.

    `unjudged` questions wait for a check that has the time, or the model, to answer them.
    """

    asked: int
    lost: tuple[Lost, ...]
    outranked: int = 0
    unjudged: int = 0


Question = Callable[[], Lost | Outcome]


def check(engine: Engine, *, budget_s: float | None = None) -> Recall:
    """Ask the golden queries and the samples, and let later answers say so when something is lost.

    With a budget, in seconds of this thread's processor time, it stops when that is spent and asks by words alone,
    for loading the model takes longer; a golden query that words do not answer is left unjudged.
    """
    until = None if budget_s is None else time.thread_time() + budget_s
    outcomes: Counter[Outcome] = Counter()
    lost: list[Lost] = []
    for question in _questions(engine, by_meaning=budget_s is None):
        spent = until is not None and time.thread_time() >= until
        outcome = Outcome.UNJUDGED if spent else question()
        if isinstance(outcome, Lost):
            lost.append(outcome)
        else:
            outcomes[outcome] += 1
    found = Recall(
        asked=len(lost) + outcomes[Outcome.FOUND] + outcomes[Outcome.OUTRANKED],
        lost=tuple(lost),
        outranked=outcomes[Outcome.OUTRANKED],
        unjudged=outcomes[Outcome.UNJUDGED],
    )
    _keep(engine, found)
    return found


def samples(engine: Engine) -> list[Memory]:
    """The memories that stand for all, at even distances in the order of ids: of one vault always the same."""
    total = engine.index.count(_EVERY)[""]
    places = sorted({total * number // SAMPLES for number in range(SAMPLES)}) if total else []
    return [memory for at in places for memory in engine.index.select(_EVERY, sort="id", limit=1, offset=at)]


def own_words(title: str, body: str) -> str:
    """The words of a title and the first sentence below it; empty where there are none.

    A word that touches a symbol outside ASCII is passed over: where it ends is not for every database the same.
    """
    lines = (line.strip() for line in body.splitlines())
    sentence = next((line for line in lines if line and not line.startswith("#")), "").partition(". ")[0]
    plain = (word for word in f"{title} {sentence}".split() if all(c.isalnum() or c.isascii() for c in word))
    return " ".join(terms(" ".join(plain), limit=WORDS))


def degradation(found: Recall) -> Degradation:
    """What it means for an answer that something is lost."""
    more = f" So do {len(found.lost) - 1} more." if len(found.lost) > 1 else ""
    return Degradation(
        failure_mode=f"recall_red: {found.lost[0].sentence}{more}",
        fallback_mode="none",
        confidence_impact="what is not found may be there all the same",
        retry_recommendation="Run `scrimshaw doctor`; `scrimshaw rebuild` makes the index anew.",
    )


def _keep(engine: Engine, found: Recall) -> None:
    """Remember a loss until a check that judged everything finds none."""
    if found.lost:
        engine.degradations.put(RECALL, degradation(found))
    elif not found.unjudged:
        engine.degradations.clear(RECALL)


def _questions(engine: Engine, *, by_meaning: bool) -> Iterator[Question]:
    try:
        for golden in golden_queries(engine):
            yield partial(_ask_golden, engine, golden, by_meaning)
    except UnreadableFile as error:
        unreadable = Lost(query="", missing=(), sentence=f"The golden queries cannot be read: {error.message}")
        yield lambda: unreadable
    chosen = samples(engine)
    bodies = engine.index.bodies([memory.id for memory in chosen])
    ways = [Channel.TEXT, Channel.VECTOR] if by_meaning and _all_vectors(engine) else [Channel.TEXT]
    for memory in chosen:
        if words := own_words(memory.title, bodies[memory.id]):
            yield from (partial(_ask_sample, engine, memory.id, words, way) for way in ways)


def _all_vectors(engine: Engine) -> bool:
    """Whether every memory could be found by meaning; a damaged table has a row of its own to say so."""
    try:
        done, total = vectors_ready(engine)
    except DamagedDatabase:
        return False
    return 0 < done == total


def _ask_golden(engine: Engine, golden: Golden, by_meaning: bool) -> Lost | Outcome:
    channels = tuple(channel for channel in Channel if by_meaning or channel != Channel.VECTOR)
    result = search(engine, SearchRequest(query=golden.text, limit=golden.within, channels=channels))
    brought = {hit.memory.id for hit in (*result.always_on, *result.hits)}
    missing = tuple(name for name in golden.expect if name not in brought)
    gone = [name for name in missing if name not in engine.index.get(missing)]
    if not missing:
        return Outcome.FOUND
    if not (by_meaning or gone or isinstance(engine.embedder, Degradation)):
        return Outcome.UNJUDGED
    return Lost(query=golden.text, missing=missing, sentence=_golden_sentence(golden, missing, gone))


def _golden_sentence(golden: Golden, missing: tuple[str, ...], gone: list[str]) -> str:
    there = [name for name in missing if name not in gone]
    faults = [f"no longer exists: {', '.join(gone)}"] if gone else []
    faults += [f"not among its first {golden.within} hits: {', '.join(there)}"] if there else []
    return f"The golden query {golden.text!r} lost {len(missing)} of {len(golden.expect)}; {'; '.join(faults)}."


def _ask_sample(engine: Engine, memory_id: str, words: str, way: Channel) -> Lost | Outcome:
    request = SearchRequest(
        query=words, filters=_EVERY, limit=WITHIN, channels=(way,), constitutional=False, rerank=False, decay=False
    )
    first = engine.searcher.search(request)
    if _holds(first, memory_id):
        return Outcome.FOUND
    if way == Channel.VECTOR and first.degradations:
        return Outcome.UNJUDGED
    alone = replace(request, filters=replace(_EVERY, only=(memory_id,)))
    if _holds(engine.searcher.search(alone), memory_id):
        return Outcome.OUTRANKED
    sentence = f"The memory {memory_id} is not found by {_WAYS[way]} of its own ({words!r})."
    return Lost(query=words, missing=(memory_id,), sentence=sentence)


def _holds(result: SearchResult, memory_id: str) -> bool:
    return any(hit.memory.id == memory_id for hit in result.hits)
