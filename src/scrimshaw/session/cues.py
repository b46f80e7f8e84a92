"""The patterns and words of `cues.toml`, by which the prompts, answers and calls of a session are read."""

from __future__ import annotations

import re
from collections.abc import Mapping

from scrimshaw.ingest.tables import load_table

_TABLES = load_table(__file__, "cues", dict[str, dict[str, str]])
WORDS: Mapping[str, frozenset[str]] = {name: frozenset(text.split()) for name, text in _TABLES.pop("words").items()}
# File extension -> language.
LANGUAGES: Mapping[str, str] = _TABLES.pop("languages")
# Section -> name -> pattern; a pattern may go over several lines.
PATTERNS: Mapping[str, Mapping[str, re.Pattern[str]]] = {
    section: {name: re.compile("".join(map(str.strip, text.split("\n")))) for name, text in patterns.items()}
    for section, patterns in _TABLES.items()
}
