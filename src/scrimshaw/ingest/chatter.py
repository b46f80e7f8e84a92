"""Talk about the work that is not the work: narrated intent, raw tool traces and pasted chat replies in a text.

Text is judged in whole sentences. Front matter, headings, code, comments and quotations are never touched, nor is a
sentence that gives a reason: "I'll use apsw because ..." is a decision, whoever says it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import filterfalse, groupby
from operator import attrgetter
from typing import Literal

from msgspec import Struct

from scrimshaw.ingest.prose import TRACE, Block, reads_as_text, split_blocks, split_sentences
from scrimshaw.ingest.tables import load_lines, load_words

ChatterKind = Literal["narration", "tool trace", "chat reply"]

_OPENING_SPAN = 120  # characters in which a sentence shows how it begins
_WORD = re.compile(r"[^\W_][\w'\u2019]*")
# Brackets and marks that open and close: a sentence with half of a pair cannot go without tearing its text.
_PAIRS = (("(", ")"), ("[", "]"), ("\u201c", "\u201d"), *((mark, mark) for mark in ("**", "`", '"', "__", "~~")))
_lines, _words = partial(load_lines, __file__, "chatter"), partial(load_words, __file__, "chatter")
_QUOTED = re.compile("[^\\w\"'`\u201c\u2018\u00ab]*[\"'`\u201c\u2018\u00ab]")


class Chatter(Struct, frozen=True):
    """One foreign piece of a text: what it is, where, as offsets into the text, and in which block of it."""

    kind: ChatterKind
    start: int
    end: int
    block: Block


class Cleaned(Struct, frozen=True):
    """A text without its chatter, and the pieces that were taken out, in order."""

    text: str
    removed: tuple[str, ...] = ()


@cache
def default_phrases() -> tuple[str, ...]:
    """How a sentence of chatter begins."""
    return (
        *(f"Let me {verb}" for verb in sorted(_words("looking", "doing"))),
        *(f"{intent} {verb}" for intent in _lines("intents") for verb in sorted(_words("looking"))),
        *_lines("progress"),
        *_lines("replies"),
    )


def remove_chatter(text: str, phrases: Sequence[str] | None = None) -> Cleaned:
    """The text without its chatter. A sentence that begins with one of `phrases` goes whole; none is torn."""
    pieces: list[str] = []
    removed: list[str] = []
    at = 0
    for block, group in groupby(find_chatter(text, phrases), attrgetter("block")):
        starts = {piece.start: text[piece.start : piece.end].strip() for piece in group}
        sentences = [] if block.is_trace else split_sentences(text, block.start, block.end)
        rest = "".join(text[start:end] for start, end in sentences if start not in starts)
        if _WORD.search(rest):
            pieces += (text[at : block.start], rest.rstrip())
            at = block.end
        else:  # a block of which nothing is left goes with its lines
            pieces += (text[at : block.first], "\n" if block.is_trace and reads_as_text(text, block.last) else "")
            at = block.last
        removed += starts.values()
    return Cleaned("".join([*pieces, text[at:]]), tuple(removed))


def find_chatter(text: str, phrases: Sequence[str] | None = None) -> tuple[Chatter, ...]:
    """What `remove_chatter` would take out of the text, in order."""
    openings = _kinds_by_opening(default_phrases() if phrases is None else tuple(phrases))
    pieces: list[Chatter] = []
    for block in split_blocks(text):
        if block.is_trace:
            pieces.append(Chatter("tool trace", block.start, block.end, block))
            continue
        place, next_rest = len(pieces), block.end
        for start, end in reversed([*split_sentences(text, block.start, block.end)]):
            kind = "tool trace" if TRACE.match(text, start) else _judge_sentence(text[start:end], openings)
            if kind and (next_rest == block.end or reads_as_text(text, next_rest)):
                pieces.insert(place, Chatter(kind, start, end, block))
            else:
                next_rest = start  # without what stands before it, this may open a list or a heading
    return tuple(pieces)


def _judge_sentence(sentence: str, openings: Mapping[str, ChatterKind]) -> ChatterKind | None:
    if _QUOTED.match(sentence) or _is_torn(sentence):
        return None
    words = _split_words(sentence[:_OPENING_SPAN])
    if "!" in sentence and words and _words("cheers").issuperset(words):
        return "chat reply"
    for start in (words, [*filterfalse(_words("filling", "cheers").__contains__, words)]):
        for length in range(1, len(start) + 1):
            if kind := openings.get(" ".join(start[:length])):
                gives_reason = not _words("reasons").isdisjoint(_split_words(sentence))
                return None if kind == "narration" and gives_reason else kind
    return None


def _is_torn(sentence: str) -> bool:
    """Whether half of a pair of marks is outside the sentence."""
    for opening, closing in _PAIRS:
        count = sentence.count(opening)
        if count % 2 if opening == closing else count != sentence.count(closing):
            return True
    return False


@lru_cache(maxsize=8)
def _kinds_by_opening(phrases: tuple[str, ...]) -> Mapping[str, ChatterKind]:
    replies = {" ".join(_split_words(phrase)) for phrase in _lines("replies")}
    openings = (" ".join(_split_words(phrase)) for phrase in phrases)
    return {words: "chat reply" if words in replies else "narration" for words in openings if words}


def _split_words(text: str) -> list[str]:
    return " ".join(_WORD.findall(text)).replace("\u2019", "'").lower().split()
