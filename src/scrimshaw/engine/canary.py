"""The canary: questions whose answers are known. If one is not found, search is broken, however healthy the counts.

The user writes golden queries, which are asked as an agent asks. Samples are made from the memories, always the same
ones, and each way of finding is tested by itself: together they would cover for one another until the last one fails.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from unicodedata import ucd_3_2_0

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.engine.core import Engine
from scrimshaw.engine.degradations import RECALL, Lost, describe_loss
from scrimshaw.engine.index import count_vectors
from scrimshaw.engine.read import search
from scrimshaw.errors import AlreadyExists, DamagedDatabase, InvalidRequest, UnreadableFile
from scrimshaw.ingest.instructions import FLAG, is_suspicious
from scrimshaw.ingest.redact import redact_edit
from scrimshaw.models import EVERY, Channel, Degradation, Memory, format_count
from scrimshaw.search.embedders import EmbedderUnavailable
from scrimshaw.search.results import SearchRequest
from scrimshaw.search.tokens import query_terms
from scrimshaw.storage import toml_files
from scrimshaw.storage.toml_files import GOLDEN_FILE, Golden, GoldenFile

SAMPLES, WITHIN = 8, 5
WORDS = 12  # words of a title and a first sentence: enough to tell most memories from their neighbours
# Lowest cosine of a stored vector with a new one of its text. float16 costs .001; in 4,695 pieces of one project's
# documents, one pair of different ones in 5,000 is as close.
NEAR = 0.8

_ASLEEP = "a quick check does not load the model"
_ANY_QUALITY = replace(EVERY, min_quality_score=0.0)
_NO_MEANING = ("embedder_", "vectors_")  # how a search says that it could not look by meaning

Answer = Lost | str | None  # what is lost, None if nothing is, or why nobody can tell
Questions = dict[str, Callable[[], Answer]]  # by a name that stays the same from check to check


class Recall(Struct, frozen=True, kw_only=True):
    """The state of recall: all questions, those that could be judged and those that could not, what was lost."""

    asked: int
    judged: int
    lost: tuple[Lost, ...] = ()
    unjudged: int = 0
    notes: tuple[str, ...] = ()  #: why questions were not judged, or not even asked

    @property
    def degradation(self) -> Degradation:
        """What the failed questions mean for an answer."""
        more = f" So do {len(self.lost) - 1} more." if len(self.lost) > 1 else ""
        return describe_loss(RECALL, f"{self.lost[0].sentence}{more}", self.lost[0].advice)

    @property
    def summary(self) -> str:
        """A check in one sentence, with what it could not measure."""
        judged = f"{self.judged - len(self.lost)} of {format_count(self.judged, 'question')} found the known answer"
        notes = (f"{note[0].lower()}{note[1:]}".removesuffix(".") for note in self.notes)
        return "; ".join((judged if self.judged else "no question was judged", *notes))


def check(engine: Engine, *, by_meaning: bool = True) -> Recall:
    """Ask the golden queries and the samples, `by_meaning` with the model; later answers warn of what is not found."""
    questions, notes = _list_questions(engine, by_meaning=by_meaning)
    answers = {key: ask() for key, ask in questions.items()}
    verdicts = {key: answer for key, answer in answers.items() if not isinstance(answer, str)}
    reasons = Counter(answer for answer in answers.values() if isinstance(answer, str))
    found = Recall(
        asked=len(answers),
        judged=len(verdicts),
        lost=tuple(filter(None, verdicts.values())),
        unjudged=reasons.total(),
        notes=(*(f"{count} not judged: {reason}" for reason, count in reasons.items()), *notes),
    )
    with engine.degradations.guard:
        # A question that could not be judged keeps its last verdict; one that no longer exists loses it.
        last = engine.degradations.judged
        older = {key: last[key] for key in last if key in answers and key not in verdicts}
        engine.degradations.judged = {**older, **verdicts}
    if known := tuple(filter(None, (*older.values(), *verdicts.values()))):
        engine.degradations.put(RECALL, replace(found, lost=known).degradation)
    else:
        engine.degradations.clear(RECALL)
    return found


def _list_questions(engine: Engine, *, by_meaning: bool) -> tuple[Questions, list[str]]:
    """The questions, and a sentence on each kind that could not be asked."""
    try:
        stated = read_golden_file(engine)
    except UnreadableFile as error:
        stated = GoldenFile((), (f"The golden queries cannot be read: {error}",))
    flaws = (Lost(sentence=each, advice=f"Correct {GOLDEN_FILE}.") for each in stated.flaws)
    golden: Questions = {f"flaw {lost.sentence}": partial(replace, lost) for lost in flaws}
    golden |= {f"golden {each}": partial(ask_golden, engine, each, by_meaning) for each in stated.queries}
    chosen = choose_samples(engine)
    memories, bodies = engine.index.get(chosen), engine.index.bodies(chosen)
    asked: Questions = {}
    for name in chosen:
        memory, words = memories.get(name) if name in bodies else None, ""
        for word in choose_own_words(memory.title, bodies[name]).split() if memory else ():
            with suppress(InvalidRequest):  # as many as a query may hold under the settings of this project
                words = engine.searcher.validate(f"{words} {word}")
        if not memory or words:
            asked[f"words {name}"] = partial(_ask_words, engine, memory, name, words)
    wordless, is_words_only = len(chosen) - len(asked), _is_words_only(engine)
    if not is_words_only:
        known = filter(memories.__contains__, chosen)
        asked |= {f"meaning {name}": partial(_ask_meaning, engine, name, by_meaning) for name in known}
    reasons = {
        "There are no golden queries of your own.": not golden,
        "There are no memories.": not chosen,
        f"{wordless} of {len(chosen)} memories have no word to search for; by words: not measured.": wordless,
        "Search by meaning is switched off, and was not measured.": chosen and is_words_only,
    }
    return asked | golden, [reason for reason, holds in reasons.items() if holds]


def _is_words_only(engine: Engine) -> bool:
    """Whether the user switched off search by meaning."""
    return isinstance(engine.embedder, Degradation) and engine.settings.embedding.provider == "none"


def choose_samples(engine: Engine) -> list[str]:
    """A fixed sample of memories: from the list of files, since the search itself is under test."""
    ids = _list_ids(engine)
    return [ids[place] for place in sorted({len(ids) * number // SAMPLES for number in range(SAMPLES)})] if ids else []


def _list_ids(engine: Engine) -> list[str]:
    states = (state for source in engine.sources for state in engine.index.manifest(source.name).values())
    return sorted(state.memory_id for state in states if state.memory_id)


def choose_own_words(title: str, body: str) -> str:
    """The words of a title and its first sentence that every version of Unicode splits in the same way."""
    lines = (line.strip() for line in body.splitlines())
    sentence = next((line for line in lines if line and not line.startswith("#")), "").partition(". ")[0]
    plain = (word for word in f"{title} {sentence}".split() if all(map(_is_parted_alike, word)))
    return " ".join(query_terms(" ".join(plain), limit=WORDS))


def _is_parted_alike(character: str) -> bool:
    """Whether the index's tokenizer and ours agree on if the character is part of a word."""
    # They differ after Unicode 3.2, in private characters, and in accents that are separate from their letter.
    if character.isalnum() or character.isascii():
        return True
    category = ucd_3_2_0.category(character)
    return (category[0] in "MPSZ" or category == "Cf") and not "\u0300" <= character <= "\u036f"


def _ask_words(engine: Engine, memory: Memory | None, name: str, words: str) -> Answer:
    if memory is None:
        sentence = f"The memory {name} is not in the index, which has read its file."
        lost = Lost(missing=(name,), sentence=sentence, advice="Run `scrimshaw scan`.")
        return lost if name in _list_ids(engine) else "it was deleted meanwhile"
    alone = replace(_ANY_QUALITY, only=(name,))  # among its like it may be behind others, and is not lost
    request = SearchRequest(
        query=words, filters=alone, limit=1, channels=(Channel.TEXT,), constitutional=False, rerank=False, decay=False
    )
    if engine.searcher.search(request).hits:
        return None
    return Lost(query=words, missing=(name,), sentence=f"The memory {name} is not found by words of its own.")


def _ask_meaning(engine: Engine, name: str, by_meaning: bool) -> Answer:
    """What is lost if the vector stored for the memory's first piece is not that of its text."""
    # Being found at all says nothing: some memories are nearest even where all vectors are the same.
    embedder = engine.embedder
    if not by_meaning:
        return _ASLEEP
    if isinstance(embedder, Degradation):
        return embedder.failure_mode
    try:
        done, total = count_vectors(engine, record=False)
        if done < total:
            return f"pieces with a vector: only {done} of {total}"
        piece = engine.index.pieces([(name, 0)]).get((name, 0))
        vector = embedder.embed(f"{piece.context}\n{piece.text.strip()}".strip() if piece else "")[0]
        alone = engine.index.match_vector(embedder.model, vector, replace(_ANY_QUALITY, only=(name,)), 1)
    except EmbedderUnavailable as error:
        return error.degradation.failure_mode
    except DamagedDatabase as error:
        return error.message
    cosine = alone[0].score if alone else 0.0
    if not NEAR <= cosine <= 2 - NEAR:
        sentence = f"The memory {name} is not found by meaning of its own: its vector is not that of its text"
        return Lost(missing=(name,), sentence=f"{sentence} (cosine {cosine:.2f}).")
    return None


def read_golden_file(engine: Engine) -> GoldenFile:
    """The project's golden queries, and why some cannot be asked; raises UnreadableFile."""
    return toml_files.read_golden(engine.settings.folder / GOLDEN_FILE, engine.searcher.validate)


def add_golden(engine: Engine, text: str, expect: Sequence[str], within: int) -> Golden:
    """Add a query at the end; raises NotFound for an unknown id, InvalidRequest, AlreadyExists, UnreadableFile."""
    ids = dict.fromkeys(engine.memory(memory_id).id for memory_id in expect)
    golden = Golden(engine.searcher.validate(text), tuple(ids), within)
    path = engine.settings.folder / GOLDEN_FILE
    with engine.write_lock():
        if any(known.text == golden.text for known in read_golden_file(engine).queries):
            raise AlreadyExists(f"{path} asks {golden.text!r} already.", "Change it there.", path=str(path))
        return toml_files.add_query(path, golden, redact_edit, engine.searcher.validate)


def ask_golden(engine: Engine, golden: Golden, by_meaning: bool = True) -> Answer:
    """What a golden query lost, or why that cannot be judged."""
    channels = tuple(channel for channel in Channel if by_meaning or channel != Channel.VECTOR)
    result = search(engine, SearchRequest(query=golden.text, limit=golden.within, channels=channels))
    brought = {hit.memory.id for hit in (*result.always_on, *result.hits)}
    known = engine.index.get(golden.expect)
    now = [name if name in known else engine.find_new_name(name) or name for name in golden.expect]
    if not (missing := tuple(name for name in now if name not in brought)):
        return None
    gone = [name for name in missing if name not in engine.index.get(missing)]
    if not gone and not _is_words_only(engine):
        modes = (each.failure_mode for each in result.degradations if each.failure_mode.startswith(_NO_MEANING))
        if reason := next(modes, "") if by_meaning else _ASLEEP:
            return reason
    faults = {"no longer exists": gone}
    faults[f"not among its first {golden.within} hits"] = [name for name in missing if name not in gone]
    why = "; ".join(f"{fault}: {', '.join(names)}" for fault, names in faults.items() if names)
    asked = FLAG if is_suspicious(golden.text) else repr(golden.text)  # the file may come with a clone
    sentence = f"The golden query {asked} in {GOLDEN_FILE} lost {len(missing)} of {len(golden.expect)}; {why}."
    mend = "If it was found before, run `scrimshaw rebuild`; else reword the memory"
    mend = "Bring back what is gone" if gone else mend
    advice = f"{mend}, or change or remove the query in {engine.settings.folder.name}/{GOLDEN_FILE}."
    return Lost(query=golden.text, missing=missing, sentence=sentence, advice=advice)
