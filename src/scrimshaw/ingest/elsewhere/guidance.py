"""Guidance for agents, as `CLAUDE.md`, `AGENTS.md` and `GEMINI.md` hold it: each section with substance is a memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from scrimshaw.ingest.elsewhere import OtherMemory
from scrimshaw.ingest.markdown import parse_headings
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.models import Heading, MemoryType

# Letters and digits below which a section holds nothing worth finding on its own: about a line.
LEAST_SUBSTANCE = 60
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_WORD_CHARACTERS = re.compile(r"[^\W_]")
# How somebody speaks who says how work is to be done.
_RULE = re.compile(
    r"\b(?:always|never|must(?: not)?|should(?: not)?|do not|don't|prefer|avoid|make sure|ensure|only use|keep)\b"
    r"|^[ \t]*(?:[-*]|\d+\.)[ \t]+(?:\*\*)?(?:use|write|run|follow|add|put|name|test|check|ask|commit|stick)\b",
    re.IGNORECASE | re.MULTILINE,
)


def parse_guidance(text: str, stem: str) -> tuple[OtherMemory, ...]:
    """The sections of level 2, with what stands before them as one of its own; a file without any is one section.

    `stem` is the file's name without suffix. Raises UnreadableFile for broken front matter.
    """
    file = parse_memory_file(text, stem)
    file.raise_problem()
    body = _COMMENT.sub("", file.body)
    found = parse_headings(body)
    return tuple(_memory(stem, heading, part) for heading, part in _sections(body, found) if _has_substance(part))


def _sections(body: str, found: Sequence[Heading]) -> Iterator[tuple[Heading, str]]:
    """Each section with its heading: that before the first of level 2 under the first of level 1."""
    inner = [heading for heading in found if heading.level == 2]
    top = next((heading for heading in found if heading.level == 1), Heading(level=1, text="", anchor="", start=0))
    ends = [heading.start for heading in found if heading.level == 1 and heading.start > top.start]
    starts = sorted({0, len(body), *(heading.start for heading in inner), *ends})
    by_start = {heading.start: heading for heading in found}
    for start, end in pairwise(starts):
        yield (top if start == 0 else by_start[start]), body[start:end].strip()


def _has_substance(part: str) -> bool:
    """Whether more than headings stands there."""
    said = "\n".join(line for line in part.splitlines() if not line.startswith("#"))
    return len(_WORD_CHARACTERS.findall(said)) >= LEAST_SUBSTANCE


def _memory(stem: str, heading: Heading, part: str) -> OtherMemory:
    title = heading.text or stem
    return OtherMemory(
        name="-".join(filter(None, (stem.lower(), heading.anchor))),
        title=title,
        content=part,
        type=MemoryType.PREFERENCE if _RULE.search(part) else MemoryType.REFERENCE,
    )
