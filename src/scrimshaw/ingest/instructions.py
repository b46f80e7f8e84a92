"""Text that addresses an agent instead of informing it: orders, imitated voices, hidden characters. Pure.

No single word decides: cues have weights, and a text is only suspicious if enough of them are close together.
Cues in quotes or in code count half, because that is how people write about such text. The time is linear: words
are looked up, and the expression for a word reads a bounded stretch.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from msgspec import Struct

from scrimshaw.ingest.invisible_characters import fold_text
from scrimshaw.ingest.tables import load_table

FLAG = "instruction-like"

ENOUGH = 0.9
_NEAR = 500  # characters: about a paragraph
_REACH = 200  # characters that the expression after a word may read
_QUOTED = 0.5
_LONGEST_QUOTE = 160
_REPEATED = 3  # hiding characters, in a row or spread over words

_WORD = re.compile(r"[a-z']+")
_FENCE = re.compile(r"^[ \t]{0,3}(?:```|~~~)", re.MULTILINE)

# Tag characters spell invisible ASCII; only in flags of regions they are legitimate.
_TAGS = re.compile("\U0001f3f4[\U000e0020-\U000e007f]{1,8}|([\U000e0020-\U000e007e]{3,})")
_HIDDEN_IN_WORD = re.compile("(?<=[A-Za-z])[\u00ad\u200b\u200e\u200f\u2060-\u2064\ufeff]+(?=[A-Za-z])")
_BIDI = re.compile("[\u202a\u202b\u202d\u202e]")
_BETWEEN = r"[^\w.!?;]{1,12}"
_FEW_WORDS = rf"(?:{_BETWEEN}\w{{1,40}}){{0,5}}?{_BETWEEN}"


class _Cue(Struct, frozen=True):
    """A wording or a mark: what it indicates and its weight (0..1).

    A wording has the words it begins with and what follows; a mark has its pattern and texts, one of which is near it.
    """

    kind: str
    weight: float
    heads: str = ""
    rest: str = ""
    needles: str = ""
    pattern: str = ""


class _CueTable(Struct, frozen=True):
    fragments: dict[str, str]
    cues: list[_Cue]
    marks: list[_Cue]


class _Sign(NamedTuple):
    """A cue or mark found in a text, where, and its number among all of them."""

    start: int
    kind: str
    weight: float
    cue: int


def is_suspicious(text: str) -> bool:
    """Whether a text speaks to an agent: enough signs are near each other; hardly any text does."""
    folded, origin = fold_text(text)
    signs = sorted(_find_signs(folded))
    if not signs and text.isascii():
        return False
    fences = [found.start() for found in _FENCE.finditer(folded)] if signs else []
    placed = _find_hidden(text)
    for sign in signs:
        is_quoted = sign.kind != "fence" and _is_quoted(folded, fences, sign)
        weight = sign.weight * (_QUOTED if is_quoted else 1)
        placed.append(sign._replace(start=origin.find(sign.start), weight=weight))
    placed.sort()
    first = 0
    for last, sign in enumerate(placed):
        while sign.start - placed[first].start > _NEAR:
            first += 1
        best: dict[int, float] = {}  # the same cue counts once
        for near in placed[first : last + 1]:
            best[near.cue] = max(near.weight, best.get(near.cue, 0.0))
        if sum(best.values()) >= ENOUGH - 1e-9:
            return True
    return False


@cache
def _load_cues() -> tuple[_CueTable, Mapping[str, list[int]], Sequence[tuple[int, _Cue, list[str]]]]:
    """The table, by first word the numbers of the cues that may begin with it, and the marks with their texts."""
    table = load_table(__file__, "instruction_cues", _CueTable)
    by_head: dict[str, list[int]] = {}
    for number, cue in enumerate(table.cues):
        for head in cue.heads.split():
            by_head.setdefault(head, []).append(number)
    return table, by_head, [(len(table.cues) + at, mark, mark.needles.split()) for at, mark in enumerate(table.marks)]


@cache
def _compile_cue(number: int) -> re.Pattern[str]:
    """The expression for what follows the first word of a cue; compiled on first use, as a hook needs few."""
    table, *_ = _load_cues()
    rest = re.sub("<([a-z]+)>", lambda name: table.fragments[name[1]], table.cues[number].rest)
    return re.compile(rest.replace(" ?", "\0").replace(" ", _BETWEEN).replace("~", _FEW_WORDS).replace("\0", "[ -]?"))


def _find_signs(folded: str) -> Iterator[_Sign]:
    """The marks, and the strongest cue that begins at each word: an ambiguous text still counts once."""
    table, by_head, marks = _load_cues()
    for number, mark, needles in marks:
        if any(map(folded.__contains__, needles)):
            for found in re.finditer(mark.pattern, folded):
                yield _Sign(found.start(), mark.kind, mark.weight, number)
    for word in _WORD.finditer(folded):
        best: _Sign | None = None
        for number in by_head.get(word[0], ()):
            cue, end = table.cues[number], word.end()
            if _compile_cue(number).match(folded, end, end + _REACH) and (best is None or cue.weight > best.weight):
                best = _Sign(word.start(), cue.kind, cue.weight, number)
        if best:
            yield best


def _find_hidden(text: str) -> list[_Sign]:
    """Characters that carry invisible text, or reverse its direction."""
    signs = [_Sign(tags.start(), "covert", ENOUGH, -1) for tags in _TAGS.finditer(text) if tags[1]]
    inside = [found.start() for found in _HIDDEN_IN_WORD.finditer(text)]
    if len(inside) >= _REPEATED:
        signs.append(_Sign(inside[0], "covert", ENOUGH / 2, -2))
    if turn := _BIDI.search(text):
        signs.append(_Sign(turn.start(), "covert", ENOUGH / 2, -3))
    return signs


def _is_quoted(folded: str, fences: Sequence[int], sign: _Sign) -> bool:
    """Whether a sign is in code, or in a short quotation or code span of a sentence, but not in a value as in JSON."""
    behind = bisect_right(fences, sign.start)
    if behind % 2 == 1 and behind < len(fences):
        return True
    before = folded[max(sign.start - _LONGEST_QUOTE, 0) : sign.start].rpartition("\n")[2]
    after = folded[sign.start : sign.start + _LONGEST_QUOTE].partition("\n")[0]
    for opening, closing in (('"', '"'), ("`", "`"), ("“", "”")):
        head, mark, inside = before.rpartition(opening)
        is_open = before.count(opening) % 2 == 1 if opening == closing else bool(mark) and closing not in inside
        if is_open and closing in after and not head.rstrip().endswith((":", "=", "[", "{")):
            return True
    return False
