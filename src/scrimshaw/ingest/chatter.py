"""Talk about the work that is not the work: narrated intent, raw tool traces and pasted chat replies in a text.

Text is judged in whole sentences. Front matter, headings, code, comments and quotations are never touched, nor is a
sentence that gives a reason: "I'll use apsw because ..." is a decision, whoever says it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Literal

from msgspec import Struct

from scrimshaw.ingest.prose import Block, blocks, is_trace, reads_as_text, sentences
from scrimshaw.ingest.tables import load_table

ChatterKind = Literal["narration", "tool trace", "chat reply"]

_OPENING_SPAN = 120  # characters in which a sentence shows how it begins

_WORD = re.compile(r"[^\W_][\w'\u2019]*")
_PAIRS = ("()", "[]", "\u201c\u201d")
_SELF_PAIRED = ("**", "`", '"', "__", "~~")
_QUOTED = re.compile("[^\\w\"'`\u201c\u2018\u00ab]*[\"'`\u201c\u2018\u00ab]")


class _ChatterTable(Struct, frozen=True):
    """`chatter.toml`; its listings hold words, or one phrase a line."""

    looking: str
    doing: str
    intents: str
    progress: str
    replies: str
    filling: str
    reasons: str
    cheers: str


@cache
def _table() -> _ChatterTable:
    return load_table(__file__, "chatter", _ChatterTable)


@cache
def _filling() -> frozenset[str]:
    return frozenset((_table().filling + " " + _table().cheers).split())


@cache
def default_phrases() -> tuple[str, ...]:
    """How a sentence of chatter begins."""
    table = _table()
    looking = sorted(table.looking.split())
    return (
        *(f"Let me {verb}" for verb in sorted([*looking, *table.doing.split()])),
        *(f"{intent} {verb}" for intent in table.intents.splitlines() for verb in looking),
        *table.progress.splitlines(),
        *table.replies.splitlines(),
    )


class Chatter(Struct, frozen=True):
    """One foreign piece of a text: what it is, and where, as offsets into the text."""

    kind: ChatterKind
    start: int
    end: int


class Cleaned(Struct, frozen=True):
    """A text without its chatter, and the pieces that were taken out, in order."""

    text: str
    removed: tuple[str, ...] = ()


def remove_chatter(text: str, phrases: Sequence[str] | None = None) -> Cleaned:
    """The text without its chatter. A sentence that begins with one of `phrases` goes whole; none is torn."""
    pieces: list[str] = []
    removed: list[str] = []
    at = 0
    for block, found in _chatty_blocks(text, phrases):
        start, end, kept = _plan_removal(text, block, found)
        pieces += (text[at:start], kept)
        at = end
        removed += (text[piece.start : piece.end].strip() for piece in found)
    return Cleaned("".join([*pieces, text[at:]]), tuple(removed))


def find_chatter(text: str, phrases: Sequence[str] | None = None) -> tuple[Chatter, ...]:
    """What `remove_chatter` would take out of the text, in order."""
    return tuple(piece for _, found in _chatty_blocks(text, phrases) for piece in found)


def _chatty_blocks(text: str, phrases: Sequence[str] | None) -> Iterator[tuple[Block, list[Chatter]]]:
    """The blocks of prose that hold chatter."""
    openings = _openings(default_phrases() if phrases is None else tuple(phrases))
    for block in blocks(text):
        found = _in_block(text, block, openings)
        if found:
            yield block, found


def _in_block(text: str, block: Block, openings: Mapping[str, ChatterKind]) -> list[Chatter]:
    if block.is_trace:
        return [Chatter("tool trace", block.start, block.end)]
    found: list[Chatter] = []
    next_kept = block.end
    for start, end in reversed([*sentences(text, block.start, block.end)]):
        kind: ChatterKind | None = "tool trace" if is_trace(text, start) else _kind(text[start:end], openings)
        if kind and (next_kept == block.end or reads_as_text(text, next_kept)):
            found.append(Chatter(kind, start, end))
        else:
            next_kept = start  # without what stands before it, this may open a list or a heading
    return found[::-1]


def _plan_removal(text: str, block: Block, found: Sequence[Chatter]) -> tuple[int, int, str]:
    """What to put in place of which part of the text: a block of which nothing is left goes with its lines."""
    if block.is_trace:
        return block.first, block.last, "\n" if reads_as_text(text, block.last) else ""
    starts = {piece.start for piece in found}
    kept = "".join(text[start:end] for start, end in sentences(text, block.start, block.end) if start not in starts)
    if _WORD.search(kept):
        return block.start, block.end, kept.rstrip()
    return block.first, block.last, ""


def _kind(sentence: str, openings: Mapping[str, ChatterKind]) -> ChatterKind | None:
    if _QUOTED.match(sentence) or not _is_whole(sentence):
        return None
    words = _words(sentence[:_OPENING_SPAN])
    if _is_cheer(sentence, words):
        return "chat reply"
    bare = [word for word in words if word not in _filling()]
    kind = _opening(words, openings) or _opening(bare, openings)
    if kind == "narration" and not set(_table().reasons.split()).isdisjoint(_words(sentence)):
        return None
    return kind


def _opening(words: Sequence[str], openings: Mapping[str, ChatterKind]) -> ChatterKind | None:
    starts = (" ".join(words[:length]) for length in range(1, len(words) + 1))
    return next((openings[start] for start in starts if start in openings), None)


def _is_cheer(sentence: str, words: Sequence[str]) -> bool:
    return "!" in sentence and bool(words) and set(_table().cheers.split()).issuperset(words)


def _is_whole(sentence: str) -> bool:
    """Whether every bracket and mark that opens in the sentence closes in it, so that nothing is torn without it."""
    return all(sentence.count(pair[0]) == sentence.count(pair[1]) for pair in _PAIRS) and not any(
        sentence.count(mark) % 2 for mark in _SELF_PAIRED
    )


@lru_cache(maxsize=8)
def _openings(phrases: tuple[str, ...]) -> Mapping[str, ChatterKind]:
    replies = {" ".join(_words(phrase)) for phrase in _table().replies.splitlines()}
    spoken = (" ".join(_words(phrase)) for phrase in phrases)
    return {words: "chat reply" if words in replies else "narration" for words in spoken if words}


def _words(text: str) -> list[str]:
    return [word.replace("\u2019", "'").lower() for word in _WORD.findall(text)]
