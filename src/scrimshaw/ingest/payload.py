"""Reading JSON that another program wrote: a missing or misshapen value reads as empty, never as an error."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

Json = Mapping[str, Any]

_DEEPEST = 5  # levels of a tool's result that are searched for text: MCP content inside a list inside a result is 3
_TEXT_KEYS = (
    "content",
    "text",
    "llmContent",
    "textResultForLlm",
    "output",
    "result",
    "results",
    "file",
    "filenames",
    "error",
    "message",
)
_HALF = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


def text(value: object) -> str:
    """`value` if it is text, else the empty text."""
    return value if isinstance(value, str) else ""


def first_text(fields: Json, *keys: str) -> str:
    """The first non-empty text under one of `keys`."""
    return next((found for key in keys if (found := text(fields.get(key)))), "")


def section(fields: Json, *path: str) -> Json:
    """The object under a path of keys; empty where there is none."""
    found: Any = fields
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def sections(value: object) -> Iterator[Json]:
    """The objects in a list."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, Mapping))


def number(value: object) -> float | None:
    """`value` if it is a finite number; true and false are not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def share(part: object, whole: object) -> float | None:
    """`part` of `whole` as 0..1; None unless both are positive numbers."""
    used, size = number(part), number(whole)
    if not used or not size or used < 0 or size < 0:
        return None
    return min(1.0, used / size)


def total(fields: Json, *keys: str) -> float:
    """The sum of the numbers under `keys`."""
    return sum(number(fields.get(key)) or 0.0 for key in keys)


def shown(value: object, depth: int = _DEEPEST) -> str:
    """The text in a tool's result: itself, its parts joined by line breaks, or what stands under a known key."""
    if isinstance(value, str):
        return value
    if not depth:
        return ""
    if isinstance(value, list):
        return _joined(shown(item, depth - 1) for item in value)
    return _shown_object(value, depth) if isinstance(value, Mapping) else ""


def decoded(raw: str) -> Any:
    """The value of a JSON text; None where it is none. Half a character, which a cut leaves, reads as a mark."""
    value = _decoded(raw)
    if value is None and _HALF.search(raw):
        return _decoded(_HALF.sub(r"\\ufffd", raw))
    return value


def _decoded(raw: str) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _shown_object(value: Json, depth: int) -> str:
    if "stdout" in value or "stderr" in value:
        return _joined(text(value.get(stream)) for stream in ("stdout", "stderr"))
    found = (shown(value.get(key), depth - 1) for key in _TEXT_KEYS)
    return next((part for part in found if part), "")


def _joined(parts: Iterator[str]) -> str:
    return "\n".join(part for part in parts if part)
