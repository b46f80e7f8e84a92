"""Text that speaks to an agent instead of telling it something: orders, borrowed voices, hidden characters. Pure.

Nothing is judged by a word: cues are weighed, and only where enough of them stand close together is a text suspicious.
What stands in quotes or in code counts half, for that is how people write about such text. The time is linear: words
are looked up, and the expression behind a word sees a bounded stretch.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from operator import attrgetter
from typing import NamedTuple

from scrimshaw.ingest.instruction_cues import CUES, MARKS, behind_head, by_head, of_mark

FLAG = "instruction-like"

ENOUGH = 0.9
_NEAR = 500  # characters: about a paragraph
_REACH = 200  # characters that the expression behind a word may see
_EXCERPT = 80
_QUOTED = 0.5
_LONGEST_QUOTE = 160
_QUOTES = (('"', '"'), ("`", "`"), ("“", "”"))
_VALUE_FOLLOWS = (":", "=", "[", "{")
_REPEATED = 3  # characters that hide something, in a row or spread over words

_WORD = re.compile(r"[a-z']+")
_FENCE = re.compile(r"^[ \t]{0,3}(?:```|~~~)", re.MULTILINE)
_INVISIBLE = re.compile(
    "[\u00ad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufe00-\ufe0f\ufeff\U000e0000-\U000e007f\U000e0100-\U000e01ef]+"
)
# Tags spell ASCII that nobody sees; in a flag of a region they are at home.
_TAGS = re.compile("\U0001f3f4[\U000e0020-\U000e007f]{1,8}|([\U000e0020-\U000e007e]{3,})")
_HIDDEN_IN_WORD = re.compile("(?<=[A-Za-z])[\u00ad\u200b\u200e\u200f\u2060-\u2064\ufeff]+(?=[A-Za-z])")
_BIDI = re.compile("[\u202a\u202b\u202d\u202e]")
_HEADS = by_head(CUES)

_LOOK_ALIKES = "аеорсухіјѕһԁԛԝвмнткАВЕНІЈКМОРСТУХЅαεικνορτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧɑıɡ‘’İ"
_LATIN = "aeopcyxijshdqwbmhtkabehijkmopctyxsaeiknoptuxabezhikmnoptyxaig''i"
# Letters in circles, in mathematical styles, of full width. Ranges, since a class of single astral characters is slow.
_STYLED = (range(0x24B6, 0x24EA), range(0x1D400, 0x1D800), range(0xFF01, 0xFF5F))
_FOREIGN = re.compile(f"[{_LOOK_ALIKES}\u24b6-\u24e9\uff01-\uff5e\U0001d400-\U0001d7ff]")


class Suspicion(NamedTuple):
    """A stretch of a text that speaks to an agent: what it is a sign of, offsets into the text, its first words."""

    kind: str
    start: int
    end: int
    excerpt: str


class _Sign(NamedTuple):
    start: int
    end: int
    kind: str
    weight: float
    cue: int


_weight = attrgetter("weight")


def suspicions(text: str) -> tuple[Suspicion, ...]:
    """The stretches that make a text suspicious, in order; empty for nearly all texts."""
    shown, origin = folded(text)
    signs = sorted([*_worded(shown), *_marked(shown)])
    weighed = [*_weighed(shown, signs)]
    placed = [each._replace(start=origin.of(each.start), end=origin.of(each.end)) for each in weighed]
    together = _crowded(sorted([*placed, *_hidden(text)]))
    return tuple(Suspicion(each.kind, each.start, each.end, _excerpt(text, each)) for each in together)


def is_suspicious(text: str) -> bool:
    """Whether a text speaks to an agent."""
    return bool(suspicions(text))


class Origin(NamedTuple):
    """Where a character of the folded text stood in the original."""

    kept: Sequence[int]
    cut: Sequence[int]

    def of(self, place: int) -> int:
        """The offset in the original text."""
        piece = bisect_right(self.kept, place) - 1
        return place + (self.cut[piece] if piece >= 0 else 0)


def folded(text: str) -> tuple[str, Origin]:
    """The text in lower case, with Latin letters for their look-alikes and without what nobody sees."""
    if text.isascii():
        return text.lower(), Origin((), ())
    pieces: list[str] = []
    kept: list[int] = []
    cut: list[int] = []
    end = length = removed = 0
    for match in _INVISIBLE.finditer(text):
        pieces.append(text[end : match.start()])
        length += match.start() - end
        removed += match.end() - match.start()
        end = match.end()
        kept.append(length)
        cut.append(removed)
    pieces.append(text[end:])
    shown = "".join(pieces)
    return (shown.translate(_latin()) if _FOREIGN.search(shown) else shown).lower(), Origin(kept, cut)


@cache
def _latin() -> dict[int, int]:
    """Look-alikes and styled letters to plain ones; each is one character, so that offsets stay."""
    styled = {code: ord(unicodedata.normalize("NFKC", chr(code))) for codes in _STYLED for code in codes}
    return str.maketrans(_LOOK_ALIKES, _LATIN) | styled


def _worded(folded: str) -> Iterator[_Sign]:
    """The strongest cue that begins at each word: what can be read in two ways is still said once."""
    for word in _WORD.finditer(folded):
        cues = _HEADS.get(word.group())
        read = cues and max(_read(folded, word.start(), word.end(), cues), key=_weight, default=None)
        if read:
            yield read


def _read(folded: str, start: int, end: int, cues: Sequence[int]) -> Iterator[_Sign]:
    for number in cues:
        found = behind_head(number).match(folded, end, end + _REACH)
        if found:
            yield _Sign(start, found.end(), CUES[number].kind, CUES[number].weight, number)


def _marked(folded: str) -> Iterator[_Sign]:
    for number, mark in enumerate(MARKS):
        if any(needle in folded for needle in mark.needles):
            for found in of_mark(number).finditer(folded):
                yield _Sign(found.start(), found.end(), mark.kind, mark.weight, len(CUES) + number)


def _hidden(text: str) -> Iterator[_Sign]:
    """Characters that carry text nobody sees, or turn it round."""
    if text.isascii():
        return
    for tags in _TAGS.finditer(text):
        if tags.group(1):
            yield _Sign(tags.start(), tags.end(), "covert", ENOUGH, -1)
    inside = [found.start() for found in _HIDDEN_IN_WORD.finditer(text)]
    if len(inside) >= _REPEATED:
        yield _Sign(inside[0], inside[0] + 1, "covert", ENOUGH / 2, -2)
    turned = _BIDI.search(text)
    if turned:
        yield _Sign(turned.start(), turned.end(), "covert", ENOUGH / 2, -3)


def _weighed(folded: str, signs: Sequence[_Sign]) -> Iterator[_Sign]:
    fences = [found.start() for found in _FENCE.finditer(folded)] if signs else []
    for sign in signs:
        behind = bisect_right(fences, sign.start)
        in_code = behind % 2 == 1 and behind < len(fences)
        quoted = sign.kind != "fence" and (in_code or _in_quotes(folded, sign))
        yield sign._replace(weight=sign.weight * _QUOTED) if quoted else sign


def _in_quotes(folded: str, sign: _Sign) -> bool:
    """Whether a sign stands in a short quotation or code span of a sentence, not in a value such as JSON's."""
    before = folded[max(sign.start - _LONGEST_QUOTE, 0) : sign.start].rpartition("\n")[2]
    after = folded[sign.start : sign.start + _LONGEST_QUOTE].partition("\n")[0]
    return any(_is_quotation(before, after, opening, closing) for opening, closing in _QUOTES)


def _is_quotation(before: str, after: str, opening: str, closing: str) -> bool:
    head, mark, inside = before.rpartition(opening)
    is_open = before.count(opening) % 2 == 1 if opening == closing else bool(mark) and closing not in inside
    return is_open and closing in after and not head.rstrip().endswith(_VALUE_FOLLOWS)


def _crowded(signs: Sequence[_Sign]) -> Iterator[_Sign]:
    """The signs of which enough stand near each other; the same cue counts once there."""
    first, reported = 0, 0
    for last, sign in enumerate(signs):
        while sign.start - signs[first].start > _NEAR:
            first += 1
        if _sum(signs[first : last + 1]) >= ENOUGH - 1e-9:
            yield from signs[max(first, reported) : last + 1]
            reported = last + 1


def _sum(signs: Iterable[_Sign]) -> float:
    best: dict[int, float] = {}
    for sign in signs:
        best[sign.cue] = max(sign.weight, best.get(sign.cue, 0.0))
    return sum(best.values())


def _excerpt(text: str, sign: _Sign) -> str:
    return " ".join(text[sign.start : sign.start + _EXCERPT].split())
