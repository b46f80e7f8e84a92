"""Path patterns over `/`-separated paths: `*` and `?` stay in one segment, `**` crosses them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import takewhile

_TOKENS = re.compile(r"(\*\*/|\*\*|\*|\?)")
_MEANING = {"**/": "(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def compile_globs(globs: Iterable[str]) -> re.Pattern[str]:
    """One expression whose `fullmatch` tells whether any of the patterns takes a path; none takes nothing."""
    parts = [_translate(glob) for glob in globs]
    return re.compile("|".join(parts) or r"(?!)", re.DOTALL)


def _translate(glob: str) -> str:
    return "".join(_MEANING.get(token) or re.escape(token) for token in _TOKENS.split(glob))


def literal_folder(glob: str) -> str:
    """The folders in front of the first wildcard: `docs` of `docs/**/*.md`, empty for `*.md`."""
    return "/".join(_literal_segments(glob))


def folder_depth(glob: str) -> int | None:
    """How many folders below `literal_folder` a match can lie; None for any number."""
    return None if "**" in glob else glob.count("/") - len(_literal_segments(glob))


def _literal_segments(glob: str) -> list[str]:
    return list(takewhile(lambda segment: not _TOKENS.search(segment), glob.split("/")[:-1]))
