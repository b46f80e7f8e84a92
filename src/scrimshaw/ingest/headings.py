"""The headings of a Markdown body, their anchors, and the sections they open."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

from markdown_it.token import Token

from scrimshaw.ingest.markdown import Page, inline
from scrimshaw.models import Heading

_LINE_END = re.compile(r"\r\n?|\n")
_MARKUP = re.compile(r"[\\`*_\[<&!\n]")


def headings(page: Page, body: str) -> tuple[Heading, ...]:
    """Headings of the page itself, in order: those inside quotes, lists and code are not the document's own.

    Anchors are GitHub's; a second equal one gets `-1`, a third `-2`.
    """
    tops = [pair for pair in pairwise(page.blocks) if pair[0].type == "heading_open" and pair[0].level == 0]
    if not tops:
        return ()
    starts = [0, *(match.end() for match in _LINE_END.finditer(body))]
    taken: dict[str, int] = {}
    return tuple(_heading(page, token, text.content, starts, taken) for token, text in tops)


def section(body: str, found: Sequence[Heading], anchor: str) -> str | None:
    """The heading with that anchor and all text up to the next heading of its level or above; None if there is none."""
    wanted = anchor.removeprefix("#")
    for number, heading in enumerate(found):
        if heading.anchor == wanted:
            ends = (later.start for later in found[number + 1 :] if later.level <= heading.level)
            return body[heading.start : next(ends, len(body))]
    return None


def slug(text: str) -> str:
    """GitHub's anchor for a heading: lower case, letters, marks, digits, `_` and `-`, spaces as `-`."""
    kept = "".join(char for char in text.lower() if _stays(char))
    return kept.replace(" ", "-") or "section"


def _stays(char: str) -> bool:
    return char in " -_" or unicodedata.category(char)[0] in "LMN"


def _heading(page: Page, token: Token, content: str, starts: list[int], taken: dict[str, int]) -> Heading:
    text = _text(page, content)
    line = token.map[0] if token.map else 0
    return Heading(level=int(token.tag[1:]), text=text, anchor=_unique(slug(text), taken), start=starts[line])


def _text(page: Page, content: str) -> str:
    if _MARKUP.search(content):
        content = "".join(_word(token) for token in inline(page, content))
    return " ".join(content.split())


def _word(token: Token) -> str:
    return " " if token.type in ("softbreak", "hardbreak") else "" if token.type == "html_inline" else token.content


def _unique(anchor: str, taken: dict[str, int]) -> str:
    unique = anchor
    while unique in taken:
        taken[anchor] += 1
        unique = f"{anchor}-{taken[anchor]}"
    taken[unique] = 0
    return unique
