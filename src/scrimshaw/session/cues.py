"""The patterns and words of `cues.toml`, by which the prompts, answers and calls of a session are read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from scrimshaw.toml_text import parse_toml

_TABLES = parse_toml(Path(__file__).with_name("cues.toml").read_text(encoding="utf-8"))

# Section -> name -> pattern; a pattern may go over several lines.
PATTERNS: Mapping[str, Mapping[str, re.Pattern[str]]] = {
    section: {name: re.compile("".join(map(str.strip, text.split("\n")))) for name, text in patterns.items()}
    for section, patterns in _TABLES["patterns"].items()
}
WORDS: Mapping[str, frozenset[str]] = {name: frozenset(text.split()) for name, text in _TABLES["words"].items()}
# File extension -> language.
LANGUAGES: Mapping[str, str] = _TABLES["languages"]
