"""What a text asks of sessions, the items that answer it, and the wording of a session's memory. Pure.

Whether it asks where the work stands is found by a linear classifier over its words, in thirteen languages. Its weights
are in `asking.json`, fitted by `benchmarks/asking.py`.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cache
from itertools import pairwise
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.ingest.tables import load_table
from scrimshaw.models import Item
from scrimshaw.search.periods import Period
from scrimshaw.search.results import StateLine
from scrimshaw.search.tokens import STEM, STOP_WORDS, count_shared, query_terms

# The sections of a session's memory, what says most first; its title and the prompt name the task.
_TASKS, _LEFT, _DONE = ("Task", "Asked later"), ("Open", "Next"), ("Changed", "Tests")
_SECTIONS = ("Outcome", *_LEFT, "Decisions", "Learned", *_DONE)
_MARKS = re.compile(r"(?m)(?<=^- )commit(?: [0-9a-f]+)?: | \(e\d+(?:, e\d+)*\)$")

# Replaces text that speaks to the agent and is not a person's; the entry can still be read by its id.
WITHHELD = "held instruction-like text, not shown"

# Occasions for a summary; each gets a different one.
Occasion = StrEnum("Occasion", "START RESUME COMPACT CLEAR")

# The work that a text asks for: that on a subject which it names, or that of the session, whatever its subject.
Asked = StrEnum("Asked", "SUBJECT SESSION")

LONGEST_QUESTION = 400  # characters; who writes more gives a task
LEAST_ODDS = 130  # log odds, times 100: chosen on texts of other writers than those that the weights were fitted on
_LENGTHS = (3, 16, 40)  # words
OTHER_WORDS = "*"  # words that the classifier does not know, such as those of a subject
# Scripts without spaces between words, each of whose characters counts as a word.
_UNSPACED = r"\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_LETTER = rf"[^\W_{_UNSPACED}]"
ASKING_WORD, _NAMING_WORD = re.compile(rf"[{_UNSPACED}?？]|{_LETTER}+"), re.compile(rf"{_LETTER}{{2,}}")

# `recall.toml`: what asks for the session itself, and words that name no subject. A pattern may go over several lines.
_CUES = load_table(__file__, "recall", dict[str, str])
RECALL, _GOES_ON, _WAS_DONE = (
    re.compile("".join(map(str.strip, _CUES[name].split("\n"))), re.IGNORECASE) for name in ("recall", "on", "done")
)
_SUBJECTLESS = STOP_WORDS.union(_CUES["subjectless"].split())
DEEDS = _SUBJECTLESS.union(_CUES["deeds"].split())
# Without recall wording, half of the words that name a subject must occur in an entry.
_LEAST_SHARE = 0.5
_RECALLED = 0.5  # the least score of a recalled entry; the rest comes from its initial attention


class Asking(Struct, frozen=True):
    """What is known of texts that ask for work; `""` is a feature of all texts."""

    cues: frozenset[str]  #: the words with which people ask, and those that a language has beside any subject
    others: frozenset[str]  #: frequent words of texts that do not ask
    weights: dict[str, tuple[int, int]]  #: a feature's part of the log odds, times 100: of asking, and of a subject


def find_asked(text: str) -> Asked | None:
    """What a text asks the state of, or to go on with: "how far is the import?", "where were we?"; None for others."""
    if len(text) > LONGEST_QUESTION:
        return None
    asking = load_asking()
    features = ("", *describe_text(text, asking))
    asks, names = map(sum, zip(*filter(None, map(asking.weights.get, features)), strict=True))
    if asks < LEAST_ODDS:
        return None
    return Asked.SUBJECT if names > 0 else Asked.SESSION


def describe_text(text: str, asking: Asking) -> Iterator[str]:
    """The features of a text: its words, each two that follow each other, and its length; unknown words are alike."""
    words = ["^"]
    for word in ASKING_WORD.findall(text.lower()):
        if word in asking.cues or word in asking.others:
            words.append(word)
        elif words[-1] != OTHER_WORDS:
            words.append(OTHER_WORDS)
    yield from {*words[1:], *map(" ".join, pairwise([*words, "$"]))}
    yield f"# {bisect_right(_LENGTHS, len(words) - 1)}"


@cache
def load_asking() -> Asking:
    """The weights, read once."""
    return msgspec.json.decode(Path(__file__).with_name("asking.json").read_bytes(), type=Asking)


def find_subject(text: str) -> tuple[str, ...]:
    """The words of such a text that may name its subject."""
    words, cues = dict.fromkeys(_NAMING_WORD.findall(text.lower())), load_asking().cues
    return tuple(word for word in words if word not in cues and word not in STOP_WORDS)


def asks_only_for_session(query: str) -> bool:
    """Whether a text names nothing but the session itself: "where were we?", "continue"."""
    has_no_subject = bool(RECALL.search(query)) and _SUBJECTLESS.issuperset(query_terms(RECALL.sub(" ", query)))
    return has_no_subject or find_asked(query) == Asked.SESSION


def find_asked_days(query: str, period: Period | None) -> Period | None:
    """The days that a text names, if it asks for nothing but what was done then: "what did we do yesterday?"."""
    if period is None or _GOES_ON.search(query) or not _WAS_DONE.search(period.rest):
        return None
    return period if DEEDS.issuperset(query_terms(RECALL.sub(" ", period.rest))) else None


class RecalledItem(Struct, frozen=True, kw_only=True):
    """An item that answers a query; `score` is 0..1, `boost` the share that its attention adds."""

    item: Item
    score: float
    boost: float = 0.0


def recall_items(query: str, items: Sequence[Item], limit: int, attention_boost: float) -> list[RecalledItem]:
    """The items that answer the query, best and newest first; all, boosted, if it asks for the session itself."""
    stems = {term[:STEM] for term in query_terms(query)}
    asks_for_session = bool(RECALL.search(query))
    has_no_subject = asks_only_for_session(query)
    found = []
    for item in items:
        text = f"{item.path} {item.text}".casefold()
        share = sum(stem in text for stem in stems) / max(1, len(stems))
        recalled = _RECALLED + (1 - _RECALLED) * item.attention if asks_for_session else 0.0
        score = 1.0 if has_no_subject else max(share if share >= _LEAST_SHARE else 0.0, recalled)
        boost = attention_boost * item.attention if has_no_subject else 0.0
        if score > 0:
            found.append(RecalledItem(item=item, score=score, boost=boost))
    return sorted(found, key=lambda each: (-each.score, -each.boost, -each.item.event, -each.item.number))[:limit]


def shorten_origins(lines: Iterable[StateLine]) -> Iterator[StateLine]:
    """The lines with only `#eN` and `/N` for an origin in the session named by the line before, or `same` as there."""
    session = origin = ""
    for each in lines:
        if each.origin == origin:
            yield replace(each, origin="same")
            continue
        origin = each.origin
        named, mark, number = each.origin.rpartition("#" if "#" in each.origin else "/")
        is_same, session = named == session, named or session
        yield replace(each, origin=f"{mark}{number}") if is_same and named.startswith("session:") else each


def sort_sections(body: str, words: Sequence[str], *, is_late: bool = True) -> str:
    """What a session's memory says besides the task, what says most first; of changes and tests what has a word.

    What was open counts only if `is_late`: later sessions may have done it.
    """
    before, *sections = f"\n{body}".split("\n## ")
    parts = {name: lines for name, *lines in map(str.splitlines, sections)}
    parts |= {name: [line for line in parts.get(name, ()) if count_shared(line, words)] for name in _DONE}
    untold = _TASKS if is_late else (*_TASKS, *_LEFT)
    told = [name for name in dict.fromkeys((*_SECTIONS, *parts)) if any(parts.get(name, ())) and name not in untold]
    return _MARKS.sub("", "\n".join([before, *("\n".join([f"## {name}", *parts[name]]) for name in told)]))
