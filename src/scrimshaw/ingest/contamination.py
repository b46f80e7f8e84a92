"""Talk about the work that is not the work: narrated intent, raw tool traces and pasted chat replies in a text.

Text is judged in whole sentences. Front matter, headings, code, comments and quotations are never touched, nor is a
sentence that gives a reason: "I'll use apsw because ..." is a decision, whoever says it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal

from msgspec import Struct

from scrimshaw.ingest.boilerplate import vocabulary
from scrimshaw.ingest.prose import Block, blocks, is_trace, reads_as_text, sentences

Kind = Literal["narration", "tool trace", "chat reply"]

_LOOKING = vocabulary(
    "analyse analyze begin check compile confirm continue examine execute explore fetch find gather get go inspect"
    " investigate list look open proceed read review run search see start take trace understand validate verify view"
)
_DOING = vocabulary(
    "add ask break build create dig dispatch do fix implement know make pick present provide quickly set show"
    " summarise summarize think try update walk write"
)
_INTENTS = ("I'll", "I will", "I am going to", "I'm going to", "I need to")
_PROGRESS = (
    "Moving on to",
    "On to the next",
    "Proceeding to",
    "Proceeding with",
    "I now have a clear",
    "I now have a good",
    "I have a clear picture",
    "I have a good understanding",
    "I understand the structure",
    "I see the issue",
    "I see the problem",
    "Now I have",
    "Now I see",
    "Now I understand",
)
_REPLIES = (
    "Got it",
    "Good catch",
    "Good point",
    "Good question",
    "Great question",
    "You are right",
    "You're right",
    "You're absolutely right",
    "You are absolutely right",
    "You're absolutely correct",
    "You are absolutely correct",
    "Here is a review of",
    "Here's a review of",
    "Here is a breakdown of",
    "Here's a breakdown of",
    "Here is a summary of what",
    "Here's a summary of what",
    "Here's what I",
    "Here is what I",
    "Before I proceed",
    "Would you like me to",
    "Do you want me to",
    "Shall I",
    "Should I proceed",
    "Feel free to ask",
    "I hope this helps",
    "Hope this helps",
    "Is there anything else",
)

DEFAULT: tuple[str, ...] = (
    *(f"Let me {verb}" for verb in sorted(_LOOKING | _DOING)),
    *(f"{intent} {verb}" for intent in _INTENTS for verb in sorted(_LOOKING)),
    *_PROGRESS,
    *_REPLIES,
)
"""How a sentence of chatter begins; case, markup and filling words such as "now" and "first" do not matter."""

_FILLING = vocabulary("also alright briefly carefully first just next now ok okay quickly so then")
_REASONS = vocabulary("always because due instead never only prefer rather since")
_CHEERS = vocabulary(
    "absolutely all alright awesome certainly done excellent fantastic good great job nice perfect sure work"
)
_OPENING_SPAN = 120  # characters in which a sentence shows how it begins

_WORD = re.compile(r"[^\W_][\w'\u2019]*")
_PAIRS = ("()", "[]", "\u201c\u201d")
_SELF_PAIRED = ("**", "`", '"', "__", "~~")
_QUOTED = re.compile("[^\\w\"'`\u201c\u2018\u00ab]*[\"'`\u201c\u2018\u00ab]")


class Contamination(Struct, frozen=True):
    """One foreign piece of a text: what it is, and where, as offsets into the text."""

    kind: Kind
    start: int
    end: int


class Cleaned(Struct, frozen=True):
    """A text without its contamination, and the pieces that were taken out, in order."""

    text: str
    removed: tuple[str, ...] = ()


def clean(text: str, phrases: Sequence[str] = DEFAULT) -> Cleaned:
    """The text without its contamination. A sentence that begins with one of `phrases` goes whole; none is torn."""
    pieces: list[str] = []
    removed: list[str] = []
    at = 0
    for block, found in _found(text, phrases):
        start, end, kept = _edit(text, block, found)
        pieces += (text[at:start], kept)
        at = end
        removed += (text[piece.start : piece.end].strip() for piece in found)
    return Cleaned("".join([*pieces, text[at:]]), tuple(removed))


def find(text: str, phrases: Sequence[str] = DEFAULT) -> tuple[Contamination, ...]:
    """What `clean` would take out of the text, in order."""
    return tuple(piece for _, found in _found(text, phrases) for piece in found)


def _found(text: str, phrases: Sequence[str]) -> Iterator[tuple[Block, list[Contamination]]]:
    """The blocks of prose that hold contamination."""
    openings = _openings(tuple(phrases))
    for block in blocks(text):
        found = _in_block(text, block, openings)
        if found:
            yield block, found


def _in_block(text: str, block: Block, openings: Mapping[str, Kind]) -> list[Contamination]:
    if block.is_trace:
        return [Contamination("tool trace", block.start, block.end)]
    found: list[Contamination] = []
    next_kept = block.end
    for start, end in reversed([*sentences(text, block.start, block.end)]):
        kind: Kind | None = "tool trace" if is_trace(text, start) else _kind(text[start:end], openings)
        if kind and (next_kept == block.end or reads_as_text(text, next_kept)):
            found.append(Contamination(kind, start, end))
        else:
            next_kept = start  # without what stands before it, this may open a list or a heading
    return found[::-1]


def _edit(text: str, block: Block, found: Sequence[Contamination]) -> tuple[int, int, str]:
    """What to put in place of which part of the text: a block of which nothing is left goes with its lines."""
    if block.is_trace:
        return block.first, block.last, "\n" if reads_as_text(text, block.last) else ""
    starts = {piece.start for piece in found}
    kept = "".join(text[start:end] for start, end in sentences(text, block.start, block.end) if start not in starts)
    if _WORD.search(kept):
        return block.start, block.end, kept.rstrip()
    return block.first, block.last, ""


def _kind(sentence: str, openings: Mapping[str, Kind]) -> Kind | None:
    if _QUOTED.match(sentence) or not _is_whole(sentence):
        return None
    words = _words(sentence[:_OPENING_SPAN])
    if _is_cheer(sentence, words):
        return "chat reply"
    bare = [word for word in words if word not in _FILLING and word not in _CHEERS]
    kind = _opening(words, openings) or _opening(bare, openings)
    if kind == "narration" and not _REASONS.isdisjoint(_words(sentence)):
        return None
    return kind


def _opening(words: Sequence[str], openings: Mapping[str, Kind]) -> Kind | None:
    starts = (" ".join(words[:length]) for length in range(1, len(words) + 1))
    return next((openings[start] for start in starts if start in openings), None)


def _is_cheer(sentence: str, words: Sequence[str]) -> bool:
    return "!" in sentence and bool(words) and all(word in _CHEERS for word in words)


def _is_whole(sentence: str) -> bool:
    """Whether every bracket and mark that opens in the sentence closes in it, so that nothing is torn without it."""
    return all(sentence.count(pair[0]) == sentence.count(pair[1]) for pair in _PAIRS) and not any(
        sentence.count(mark) % 2 for mark in _SELF_PAIRED
    )


@lru_cache(maxsize=8)
def _openings(phrases: tuple[str, ...]) -> Mapping[str, Kind]:
    replies = {" ".join(_words(phrase)) for phrase in _REPLIES}
    spoken = (" ".join(_words(phrase)) for phrase in phrases)
    return {words: "chat reply" if words in replies else "narration" for words in spoken if words}


def _words(text: str) -> list[str]:
    return [word.replace("\u2019", "'").lower() for word in _WORD.findall(text)]
