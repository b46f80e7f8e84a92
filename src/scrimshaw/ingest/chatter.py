"""The prose of a Markdown text, and the chatter in it: talk about the work instead of results.

Front matter, headings, code, comments, quotations and rules are not prose. Chatter is narrated intent, raw tool traces
and pasted chat replies, in whole sentences. A sentence with a reason is not: "I'll use apsw because ..." is a decision.
One pass, linear in the length of the text.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import filterfalse, groupby
from operator import attrgetter
from typing import Literal, NamedTuple

from scrimshaw.ingest.tables import load_lines, load_pattern, load_words

ChatterKind = Literal["narration", "tool trace", "chat reply"]

_Openings = Sequence[tuple[list[str], ChatterKind]]

_OPENING_SPAN = 120  # characters that show how a sentence begins
_WORD = re.compile(r"[^\W_][\w'\u2019]*")
# Opening and closing marks: removing a sentence with half of a pair would damage the text.
_OPENING, _CLOSING, _MARKS = "([\u201c", ")]\u201d", ("**", "`", '"', "__", "~~")
_lines, _words = partial(load_lines, __file__, "chatter"), partial(load_words, __file__, "chatter")
_pattern = partial(load_pattern, __file__, "chatter")


def _fill(listing: str, **parts: str) -> str:
    """A pattern of the table, with its parts of these names."""
    return re.sub(r"<<(\w+)>>", lambda match: parts[match[1]], "".join(_lines(listing)))


_TAG, _TRACE = _fill("tag"), _fill("trace", TOOLS=_fill("tools"))
_MARK = r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]+(?:\[[ xX]\][ \t]+)?|\r?$)"
_SHAPE = re.compile(_fill("shape", TAG=_TAG, TRACE=_TRACE, MARK=_MARK), re.MULTILINE)
_TRACE_START = re.compile(_TRACE, re.MULTILINE)
_TRACE_HINT = re.compile(rf"Tool(?: call| used?| result)?:|Used tool|toolu_|\"tool|\"name|\u23fa|\u25cf|\u23bf|{_TAG}")
_ITEM = re.compile(_MARK, re.MULTILINE)
_CELL = re.compile(r"(?:\\.|[^|\\\n])+")
_INDENTED = re.compile(r" {4}| {0,3}\t")
FENCED = re.compile(r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1[ \t\r]*$|\Z)")  # code between fences
remove_code = lru_cache(maxsize=2)(partial(FENCED.sub, ""))  # a save needs it three times


class Line(NamedTuple):
    """One line, or all lines of a code block, a comment or a tagged trace; `end` is where the next one starts."""

    kind: str  #: `blank`, `text`, `item`, `row`, `trace` or `other`.
    start: int
    end: int


class Block(NamedTuple):
    """A piece of prose without list mark and label, or a trace; `first` and `last` bound its lines, or a cell."""

    start: int
    end: int
    first: int
    last: int
    is_trace: bool = False


@lru_cache(maxsize=4)  # the quality gate reads a text twice, and its title between
def split_lines(text: str) -> Sequence[Line]:
    """The lines of a text, in order and without gaps."""
    head = _pattern("front_matter").match(text)
    at = head.end() if head else 0
    lines = [Line("other", 0, at)] if at else []
    unclosed: set[str] = set()  # marks without an end: not searched for again, as a text may be full of open tags
    while at < len(text):
        end = text.find("\n", at) + 1 or len(text)
        shape = _SHAPE.match(text, at, end)
        kind = (shape and shape.lastgroup) or "text"
        if shape and kind in ("fence", "comment", "tag"):
            kind, end = ("trace" if kind == "tag" else "other"), _find_end(text, end, shape, unclosed)
        lines.append(Line(kind, at, end))
        at = end
    return lines


def _find_end(text: str, end: int, opening: re.Match[str], unclosed: set[str]) -> int:
    """Where the lines of a code block, a comment or a tagged trace end; an unclosed tag is just its line."""
    if ticks := opening["ticks"]:
        closing = re.compile(rf"^[ \t]*{re.escape(ticks)}+[ \t]*\r?$", re.MULTILINE).search(text, end)
        found = closing.start() if closing else -1
    else:
        mark = f"</{opening['name']}>" if opening["tag"] else "-->"
        found = -1 if mark in unclosed else text.find(mark, opening.start())
        if found < 0:
            unclosed.add(mark)
            return end if opening["tag"] else len(text)
    return (text.find("\n", found) + 1 or len(text)) if found >= 0 else len(text)


def split_blocks(text: str) -> Iterator[Block]:
    """The prose and the traces of a text, in order."""
    first, last = -1, 0
    for line in (*split_lines(text), Line("blank", len(text), len(text))):
        if first >= 0 and line.kind == "text":
            last = line.end
            continue
        if first >= 0:
            mark = _ITEM.match(text, first, last)
            start = mark.end() if mark else first
            label = _pattern("label").match(text, start, last)
            start = label.end() if label else start
            yield Block(start, max(start, first + len(text[first:last].rstrip())), first, last)
            first = -1
        if line.kind in ("text", "item") and not _INDENTED.match(text, line.start):
            first, last = line.start, line.end
        elif line.kind == "trace":
            yield Block(line.start, line.end, line.start, line.end, is_trace=True)
        elif line.kind == "row":
            for cell in _CELL.finditer(text, line.start, line.end):
                content = cell[0].strip()
                start = text.find(content, cell.start())
                yield from [Block(start, start + len(content), start, start + len(content))] if content else []


def split_sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The bounds of the sentences, without gaps: none ends before a small letter, or inside quotation marks or code."""
    quotes = _pattern("quoted").finditer(text, start, end)
    quote = next(quotes, None)
    for boundary in _pattern("boundary").finditer(text, start, end):
        while quote and quote.end() <= boundary.start():
            quote = next(quotes, None)
        if (quote is None or boundary.start() < quote.start()) and boundary.end() < end:
            yield start, boundary.end()
            start = boundary.end()
    if start < end:
        yield start, end


class Chatter(NamedTuple):
    """A piece of chatter: its kind, its offsets into the text, and its block."""

    kind: ChatterKind
    start: int
    end: int
    block: Block


def remove_chatter(text: str) -> str:
    pieces, at = list[str](), 0
    for block, group in groupby(find_chatter(text), attrgetter("block")):
        starts = {piece.start for piece in group}
        sentences = [] if block.is_trace else split_sentences(text, block.start, block.end)
        rest = "".join(text[start:end] for start, end in sentences if start not in starts)
        if _WORD.search(rest):
            pieces += (text[at : block.start], rest.rstrip())
            at = block.end
        else:  # an emptied block is removed with its lines
            pieces += (text[at : block.first], "\n" if block.is_trace and not _SHAPE.match(text, block.last) else "")
            at = block.last
    return "".join([*pieces, text[at:]])


def find_chatter(text: str, phrases: tuple[str, ...] = ()) -> tuple[Chatter, ...]:
    """The pieces that `remove_chatter` would remove from the text, in order; more `phrases` also begin chatter."""
    known, spoken = _kinds_by_opening(phrases), {*(words := _split_words(text))}
    if openings := [each for word in known.keys() & spoken for each in known[word] if spoken.issuperset(each[0])]:
        said = (" ".join(words), " ".join(filterfalse(_words("filling", "cheers").__contains__, words)))
        openings = [each for each in openings if any(" ".join(each[0]) in one for one in said)]
    pieces, may_trace = list[Chatter](), _TRACE_HINT.search(text)
    may_chat = openings or may_trace or ("!" in text and spoken & _words("cheers"))  # hardly any text
    for block in split_blocks(text) if may_chat else ():
        if block.is_trace:
            pieces.append(Chatter("tool trace", block.start, block.end, block))
            continue
        place, next_rest = len(pieces), block.end
        for start, end in reversed([*split_sentences(text, block.start, block.end)]):
            is_trace = may_trace and _TRACE_START.match(text, start)
            kind = "tool trace" if is_trace else _judge_sentence(text[start:end], openings)
            if kind and (next_rest == block.end or not _SHAPE.match(text, next_rest)):
                pieces.insert(place, Chatter(kind, start, end, block))
            else:
                next_rest = start  # without the text before it, this may become a list or a heading
    return tuple(pieces)


def _judge_sentence(sentence: str, openings: _Openings) -> ChatterKind | None:
    words, kind = _split_words(sentence[:_OPENING_SPAN]), None
    for start in (words, [*filterfalse(_words("filling", "cheers").__contains__, words)]) if openings else ():
        for opening, meaning in openings:
            kind = kind or (meaning if start[: len(opening)] == opening else None)
    if "!" in sentence and words and _words("cheers").issuperset(words):
        kind = "chat reply"
    if kind is None or _pattern("opens_quoted").match(sentence) or any(sentence.count(mark) % 2 for mark in _MARKS):
        return None
    if [*map(sentence.count, _OPENING)] != [*map(sentence.count, _CLOSING)]:
        return None
    gives_reason = kind == "narration" and not _words("reasons").isdisjoint(_split_words(sentence))
    return None if gives_reason else kind


@lru_cache(maxsize=8)
def _kinds_by_opening(phrases: tuple[str, ...]) -> Mapping[str, _Openings]:
    """The beginnings and kinds of chatter by first word, shorter ones first, with these phrases of a user."""
    replies = [*map(_split_words, _lines("replies"))]
    narration = (
        *(f"Let me {verb}" for verb in sorted(_words("looking", "doing"))),
        *(f"{intent} {verb}" for intent in _lines("intents") for verb in sorted(_words("looking"))),
        *_lines("progress"),
    )
    openings: dict[str, list[tuple[list[str], ChatterKind]]] = {}
    for words in sorted([*map(_split_words, narration), *replies, *filter(None, map(_split_words, phrases))], key=len):
        openings.setdefault(words[0], []).append((words, "chat reply" if words in replies else "narration"))
    return openings


def _split_words(text: str) -> list[str]:
    return " ".join(_WORD.findall(text)).replace("\u2019", "'").lower().split()
