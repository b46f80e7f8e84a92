"""The prose of a Markdown text, with offsets: the paragraphs, list items and table cells, and their sentences.

Front matter, headings, code, comments, quotations and rules are no prose. Lines that record a tool call, raw, are told
apart from it. One pass, linear in the length of the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\r?\n[\w\"'#-].*\n(?:.*\n)*?(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)")
_TAG = (
    r"<(?P<name>(?:antml:)?(?:function_calls|function_results|invoke|tool_use|tool_call|tool_result)|system-reminder"
    r"|local-command-(?:caveat|stdout|stderr)|command-(?:name|message|args|contents)|bash-(?:input|stdout|stderr)"
    r"|task-notification|user-prompt-submit-hook|user-memory-input)\b[^>\n]*>"
)
_TOOLS = (
    r"(?:apply_patch|bash|edit|glob|grep|list|ls|multiedit|notebookedit|patch|read|shell|task|taskoutput|todoread"
    r"|todowrite|webfetch|websearch|write|mcp__\w+|\w+_sequentialthinking|\w*memory_\w+)"
)
_TRACE = (
    rf"[ \t]*(?:[-*+][ \t]+)?(?:\*\*[\w ]+:\*\*[ \t]*|\*\*)?"
    rf"(?:Tool(?: call| used| use| result)?:[ \t]*`?(?i:{_TOOLS})\b[ \t*`]*(?:\r?$|[|,])"
    rf"|Tool:[ \t]*[\w-]+[ \t]*\|[ \t]*Status:"
    r"|\[Tool:[ \t]*\w+"
    r"|Used tools?:[ \t]"
    r"|(?:\u23fa|\u25cf)[ \t]*\w+\(|\u23bf"
    r"|\{[ \t]*\"(?:type\"[ \t]*:[ \t]*\"tool_(?:use|result)\"|tool(?:_name|_call|_use_id)?\"[ \t]*:"
    r"|name\"[ \t]*:[ \t]*\"\w+\"[ \t]*,[ \t]*\"(?:input|arguments|parameters)\"))"
    rf"|[^\n]{{0,200}}\btoolu_\w{{16}}"
)
_MARK = r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]+(?:\[[ xX]\][ \t]+)?|\r?$)"
# What a line opens or is, by the name of the group; text matches none.
_SHAPE = re.compile(
    r"(?P<blank>[^\S\n]*(?:\n|\Z))"
    r"|(?P<fence>[ \t]*(?:[-*+]|\d{1,9}[.)])?[ \t]*(?P<ticks>`{3,}|~{3,}))"
    r"|(?P<comment><!--)"
    rf"|(?P<tag>[ \t]*{_TAG})"
    rf"|(?P<trace>{_TRACE})"
    r"|(?P<other>[ \t]*(?:#{1,6}(?:[ \t]|\r?$)|>|[-*_=]{3,}[ \t]*\r?$|<))"
    r"|(?P<row>[ \t]*\|)"
    rf"|(?P<item>{_MARK}|[ \t]*\*\*[^*\n]{{1,60}}:\*\*)",
    re.MULTILINE,
)
TRACE = re.compile(_TRACE, re.MULTILINE)
_ITEM = re.compile(_MARK, re.MULTILINE)
_CELL = re.compile(r"(?:\\.|[^|\\\n])+")
_INDENTED = re.compile(r" {4}| {0,3}\t")
_LABEL = re.compile(r"(?:\*\*|__)?[A-Z][\w/-]*(?: [\w/-]+){0,3}:(?:\*\*|__)?[ \t]+")
_QUOTED = re.compile('"[^"]*"|`[^`]*`|\u201c[^\u201c\u201d]*\u201d|\u00ab[^\u00ab\u00bb]*\u00bb')
_BOUNDARY = re.compile(r"(?<=[.!?:\u2026])[\"')\]*_~\u201d\u2019\u00bb]*\s+(?=[^\sa-z])")


class Line(NamedTuple):
    """One line, or all lines of a code block, a comment or a tagged trace; `end` is where the next one starts."""

    kind: str  #: `blank`, `text`, `item`, `row`, `trace` or `other`.
    start: int
    end: int


class Block(NamedTuple):
    """A piece of prose from `start` to `end`, without list mark and label (`Summary:`), or a trace.

    `first` and `last` bound the whole lines it stands on; of a table cell they are its own bounds.
    """

    start: int
    end: int
    first: int
    last: int
    is_trace: bool = False


def split_lines(text: str) -> Iterator[Line]:
    """The lines of a text, in order and without gaps."""
    head = _FRONT_MATTER.match(text)
    at = head.end() if head else 0
    if at:
        yield Line("other", 0, at)
    unclosed: set[str] = set()  # marks looked for in vain: a text full of open tags is not searched for each
    while at < len(text):
        end = text.find("\n", at) + 1 or len(text)
        shape = _SHAPE.match(text, at, end)
        kind = (shape and shape.lastgroup) or "text"
        if shape and kind in ("fence", "comment", "tag"):
            kind, end = ("trace" if kind == "tag" else "other"), _find_end(text, end, shape, unclosed)
        yield Line(kind, at, end)
        at = end


def _find_end(text: str, end: int, opening: re.Match[str], unclosed: set[str]) -> int:
    """Where the lines of a code block, a comment or a tagged trace end; a tag that nothing closes is its line."""
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
            label = _LABEL.match(text, start, last)
            start = label.end() if label else start
            yield Block(start, max(start, first + len(text[first:last].rstrip())), first, last)
            first = -1
        if line.kind in ("text", "item") and not _INDENTED.match(text, line.start):
            first, last = line.start, line.end
        elif line.kind == "trace":
            yield Block(line.start, line.end, line.start, line.end, is_trace=True)
        elif line.kind == "row":
            yield from _split_cells(text, line)


def split_sentences(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Bounds of the sentences between two offsets: each with the space after it, together without gaps.

    A sentence ends at a full stop, colon, question or exclamation mark before anything but a lower-case letter, and
    never inside quotation marks or code.
    """
    quotes = _QUOTED.finditer(text, start, end)
    quote = next(quotes, None)
    for boundary in _BOUNDARY.finditer(text, start, end):
        while quote and quote.end() <= boundary.start():
            quote = next(quotes, None)
        if (quote is None or boundary.start() < quote.start()) and boundary.end() < end:
            yield start, boundary.end()
            start = boundary.end()
    if start < end:
        yield start, end


def reads_as_text(text: str, at: int) -> bool:
    """Whether what begins at an offset would read on from a paragraph, and not open something else, on its own line."""
    return not _SHAPE.match(text, at)


def _split_cells(text: str, line: Line) -> Iterator[Block]:
    for cell in _CELL.finditer(text, line.start, line.end):
        if content := cell[0].strip():
            start = text.find(content, cell.start())
            yield Block(start, start + len(content), start, start + len(content))
