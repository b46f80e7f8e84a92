"""Notes of basic-memory: Markdown with observations `- [category] text #tag` and relations `- relates_to [[Other]]`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from scrimshaw.ingest.elsewhere import OtherMemory
from scrimshaw.ingest.elsewhere.relation_words import relations_of
from scrimshaw.ingest.front_matter import parse_line, parse_phrases, parse_time
from scrimshaw.ingest.markdown import parse_headings
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.models import MemoryType

_OBSERVATION = re.compile(r"^[ \t]*[-*][ \t]+\[([^\]\[()]{2,60})\][ \t]+(\S.*)$", re.MULTILINE)
_RELATION = re.compile(
    r"^[ \t]*[-*][ \t]+(\w[\w \t-]{0,60}?)[ \t]+\[\[([^\]\[\n]+)\]\](?:[ \t]*\(([^()\n]*)\))?", re.MULTILINE
)
_TAG = re.compile(r"(?<!\S)#([^\W\d_][\w/-]*)")
_TYPES: Mapping[str, MemoryType] = MappingProxyType(
    {
        "decision": MemoryType.DECISION,
        "preference": MemoryType.PREFERENCE,
        "convention": MemoryType.PREFERENCE,
        "fact": MemoryType.REFERENCE,
        "reference": MemoryType.REFERENCE,
        "insight": MemoryType.DISCOVERY,
        "discovery": MemoryType.DISCOVERY,
        "problem": MemoryType.DISCOVERY,
        "research": MemoryType.RESEARCH,
        "implementation": MemoryType.IMPLEMENTATION,
    }
)


def parse_note(text: str, path: str) -> OtherMemory:
    """The note in a file; `path`, below the notes' folder and without its suffix, names one without a permalink.

    Raises UnreadableFile for broken front matter.
    """
    file = parse_memory_file(text, path)
    file.raise_problem()
    values, body = file.values, file.body.strip()
    found = _OBSERVATION.findall(body)
    tags = (tag for _, said in found for tag in _TAG.findall(said))
    return OtherMemory(
        name=parse_line(values.get("permalink")) or path,
        title=parse_line(values.get("title")) or _first_heading(body) or path.rpartition("/")[2],
        content=body,
        type=_type(parse_line(values.get("type")), [category for category, _ in found]),
        topics=tuple(dict.fromkeys((*parse_phrases(values, "topics"), *tags))),
        relations=relations_of(_RELATION.findall(body)),
        created=parse_time(values.get("created")),
    )


def _type(stated: str, categories: list[str]) -> MemoryType:
    """The type that is stated, or that of the most frequent category of observation."""
    counted = Counter(category.lower() for category in categories).most_common()
    words = (stated.lower(), *(category for category, _ in counted))
    return next((_TYPES[word] for word in words if word in _TYPES), MemoryType.GENERAL)


def _first_heading(body: str) -> str:
    return next((each.text for each in parse_headings(body) if each.text), "")
