"""The questions of the canary: what is asked of a memory whose answers are known, and how an answer is judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import partial
from itertools import chain, zip_longest
from unicodedata import ucd_3_2_0

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.engine.core import Engine
from scrimshaw.engine.degradations import REBUILD, Lost
from scrimshaw.engine.golden import golden_file
from scrimshaw.engine.index import vectors_ready
from scrimshaw.engine.read import search
from scrimshaw.errors import DamagedDatabase, InvalidRequest, UnreadableFile
from scrimshaw.models import Channel, Degradation, Filters, Memory
from scrimshaw.search.embedders.base import EmbedderUnavailable
from scrimshaw.search.results import SearchRequest, SearchResult
from scrimshaw.search.tokens import query_terms
from scrimshaw.storage.golden import GOLDEN_FILE, Golden

SAMPLES, WITHIN = 8, 5
# Words of a title and a first sentence: enough to tell most memories from their neighbours.
WORDS = 12
# Least cosine of a stored vector with the one its text has now. float16 costs .001; in 4,695 pieces of one project's
# documents, two different ones are so near once in 5,000 pairs.
NEAR = 0.8

ASLEEP = "a quick look does not wake the model"
CORRECT = f"Correct {GOLDEN_FILE}."

_EVERY = Filters(include_deprecated=True, min_quality_score=0.0)


class Good(StrEnum):
    """An answer that lost nothing; an outranked sample was found, behind others."""

    FOUND = "found"
    OUTRANKED = "outranked"


class Unjudged(Struct, frozen=True):
    """Nobody can tell now, and why."""

    reason: str


Answer = Lost | Good | Unjudged


class Question(Struct, frozen=True):
    """A question by a name that stays the same from check to check."""

    key: str
    ask: Callable[[], Answer]


class Paper(Struct, frozen=True):
    """All questions, the two kinds by turns, and a sentence on each kind that could not be asked."""

    questions: tuple[Question, ...]
    notes: tuple[str, ...]


def paper(engine: Engine, *, by_meaning: bool) -> Paper:
    """The questions of today. Without `by_meaning` no model is woken, and what only a model answers is unjudged."""
    golden = _golden_questions(engine, by_meaning)
    chosen = samples(engine)
    asked, wordless = _sample_questions(engine, chosen, by_meaning)
    turns = chain.from_iterable(zip_longest(asked, golden))
    notes = []
    if not golden:
        notes.append("No golden query is kept.")
    if not chosen:
        notes.append("No memory is there.")
    if wordless:
        notes.append(f"{wordless} of {len(chosen)} memories hold no word that can be asked; by words: not measured.")
    if chosen and _by_words_alone(engine):
        notes.append("Search by meaning is switched off; by meaning: not measured.")
    return Paper(tuple(question for question in turns if question), tuple(notes))


def samples(engine: Engine) -> list[str]:
    """The memories that stand for all, at even distances in the order of ids: of one vault always the same.

    Taken from the list of files, since what a search looks through is under test.
    """
    ids = _listed(engine)
    return [ids[place] for place in sorted({len(ids) * number // SAMPLES for number in range(SAMPLES)})] if ids else []


def _listed(engine: Engine) -> list[str]:
    states = (state for source in engine.sources for state in engine.index.manifest(source.name).values())
    return sorted(state.memory_id for state in states if state.memory_id)


def own_words(title: str, body: str) -> str:
    """The words of a title and the first sentence below it; empty where there are none.

    A word that is not parted alike by every version of Unicode is passed over: what the index made of it is not known.
    """
    lines = (line.strip() for line in body.splitlines())
    sentence = next((line for line in lines if line and not line.startswith("#")), "").partition(". ")[0]
    plain = (word for word in f"{title} {sentence}".split() if all(map(_is_parted_alike, word)))
    return " ".join(query_terms(" ".join(plain), limit=WORDS))


def _is_parted_alike(character: str) -> bool:
    """Whether the index's tokenizer and ours agree that it belongs to a word, or that it does not.

    Compared for all of Unicode: they differ in what came after version 3.2, in private characters, and in accents
    that stand apart from their letter, which the index takes off and does not part at.
    """
    if character.isalnum() or character.isascii():
        return True
    category = ucd_3_2_0.category(character)
    return (category[0] in "MPSZ" or category == "Cf") and not "\u0300" <= character <= "\u036f"


def _askable(engine: Engine, words: str) -> str:
    """As many of the words as a query may hold under the settings of this project."""
    kept = ""
    for word in words.split():
        try:
            kept = engine.searcher.validate(f"{kept} {word}")
        except InvalidRequest:
            continue
    return kept


def _by_words_alone(engine: Engine) -> bool:
    """Whether the user wants no search by meaning."""
    return isinstance(engine.embedder, Degradation) and engine.settings.embedding.provider == "none"


# Samples


def _sample_questions(engine: Engine, chosen: Sequence[str], by_meaning: bool) -> tuple[list[Question], int]:
    """The questions on these memories, those by words first, and how many memories have no words."""
    memories, bodies = engine.index.get(chosen), engine.index.bodies(chosen)
    by_words: list[Question] = []
    wordless = 0
    for name in chosen:
        memory = memories.get(name) if name in bodies else None
        words = _askable(engine, own_words(memory.title, bodies[name])) if memory else ""
        if not memory or words:
            by_words.append(Question(f"words {name}", partial(_ask_words, engine, memory, name, words)))
        else:
            wordless += 1
    if _by_words_alone(engine):
        return by_words, wordless
    unable = _unable(engine) if by_meaning else Unjudged(ASLEEP)
    ask = (lambda _: unable) if unable else partial(_ask_meaning, engine)
    return [
        *by_words,
        *(Question(f"meaning {name}", partial(ask, name)) for name in chosen if name in memories),
    ], wordless


def _ask_words(engine: Engine, memory: Memory | None, name: str, words: str) -> Answer:
    if memory is None and name not in _listed(engine):
        return Unjudged("it was deleted meanwhile")
    if memory is None:
        sentence = f"The memory {name} is not in the index, which has read its file."
        return Lost(query="", missing=(name,), sentence=sentence, advice="Run `scrimshaw scan`.")
    request = SearchRequest(
        query=words,
        filters=_EVERY,
        limit=WITHIN,
        channels=(Channel.TEXT,),
        constitutional=False,
        rerank=False,
        decay=False,
    )
    if _holds(engine.searcher.search(request), name):
        return Good.FOUND
    if _holds(engine.searcher.search(replace(request, filters=replace(_EVERY, only=(name,)))), name):
        return Good.OUTRANKED
    return Lost(query=words, missing=(name,), sentence=f"The memory {name} is not found by words of its own.")


def _holds(result: SearchResult, memory_id: str) -> bool:
    return any(hit.memory.id == memory_id for hit in result.hits)


def _unable(engine: Engine) -> Unjudged | None:
    """Why memories cannot be looked for by meaning, if they cannot."""
    if isinstance(engine.embedder, Degradation):
        return Unjudged(engine.embedder.failure_mode)
    try:
        done, total = vectors_ready(engine)
    except DamagedDatabase as error:
        return Unjudged(error.message)
    return Unjudged(f"only {done} of {total} pieces have a vector") if done < total else None


def _ask_meaning(engine: Engine, name: str) -> Answer:
    """Whether the memory is found by the text of its first piece, which must have the vector that is stored for it.

    Being found at all says nothing: some memories are nearest even where all vectors are zero, or the same.
    """
    assert not isinstance(engine.embedder, Degradation)
    look = partial(engine.index.match_vector, engine.embedder.model)
    try:
        vector = engine.embedder.embed([_first_piece(engine, name)])[0]
        nearest = look(vector, _EVERY, WITHIN)
        alone = look(vector, replace(_EVERY, only=(name,)), 1)
    except EmbedderUnavailable as error:
        return Unjudged(error.degradation.failure_mode)
    except DamagedDatabase as error:
        return Unjudged(error.message)
    cosine = alone[0].score if alone else 0.0
    if not NEAR <= cosine <= 2 - NEAR:
        sentence = f"The memory {name} is not found by meaning of its own: its vector is not that of its text"
        return Lost(query="", missing=(name,), sentence=f"{sentence} (cosine {cosine:.2f}).")
    return Good.FOUND if any(match.id == name for match in nearest) else Good.OUTRANKED


def _first_piece(engine: Engine, name: str) -> str:
    """The text that was embedded for the first chunk of a memory."""
    contexts = [chunk.context for chunk in engine.index.chunks([name]).get(name, ())]
    pieces = engine.index.pieces([(name, 0)])
    return f"{contexts[0]}\n{pieces[name].text.strip()}".strip() if contexts and name in pieces else ""


# Golden queries


def _golden_questions(engine: Engine, by_meaning: bool) -> list[Question]:
    try:
        found = golden_file(engine)
    except UnreadableFile as error:
        return [_flaw(f"The golden queries cannot be read: {error}")]
    asked = [Question(f"golden {golden}", partial(_ask_golden, engine, golden, by_meaning)) for golden in found.queries]
    return [*map(_flaw, found.flaws), *asked]


def _flaw(sentence: str) -> Question:
    return Question(f"flaw {sentence}", lambda: Lost(query="", missing=(), sentence=sentence, advice=CORRECT))


def _ask_golden(engine: Engine, golden: Golden, by_meaning: bool) -> Answer:
    channels = tuple(channel for channel in Channel if by_meaning or channel != Channel.VECTOR)
    result = search(engine, SearchRequest(query=golden.text, limit=golden.within, channels=channels))
    brought = {hit.memory.id for hit in (*result.always_on, *result.hits)}
    missing = tuple(name for name in golden.expect if name not in brought)
    gone = [name for name in missing if name not in engine.index.get(missing)]
    if not missing:
        return Good.FOUND
    if not gone and not _by_words_alone(engine):
        without = [each.failure_mode for each in result.degradations if each.failure_mode.startswith(_NO_MEANING)]
        if without or not by_meaning:
            return Unjudged(without[0] if by_meaning else ASLEEP)
    advice = f"Bring back what is gone, or correct {GOLDEN_FILE}." if gone else REBUILD
    return Lost(query=golden.text, missing=missing, sentence=_golden_sentence(golden, missing, gone), advice=advice)


# How a search says that it could not look by meaning.
_NO_MEANING = ("embedder_", "vectors_")


def _golden_sentence(golden: Golden, missing: tuple[str, ...], gone: list[str]) -> str:
    there = [name for name in missing if name not in gone]
    faults = [f"no longer exists: {', '.join(gone)}"] if gone else []
    faults += [f"not among its first {golden.within} hits: {', '.join(there)}"] if there else []
    return f"The golden query {golden.text!r} lost {len(missing)} of {len(golden.expect)}; {'; '.join(faults)}."
