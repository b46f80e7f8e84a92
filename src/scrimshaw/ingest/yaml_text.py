"""Plain values as YAML text, in the form a person would write: no line is folded, and only what must be is quoted."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

WIDTH = 110  # a list that would make its line longer is written one item a line
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?)?", re.ASCII)
_BLOCK = re.compile(r"[^\W\d_](?:(?!: | #).)*(?<![ :])")
_FLOW = re.compile(r"[^\W\d_](?:[^,\[\]{}:#\"']*[^,\[\]{}:#\"' ])?")
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


class Verbatim(str):
    """YAML text that is written as it stands."""

    __slots__ = ()


def entry(key: str, value: object, indent: str = "") -> str:
    """`key: value` as one or more lines, without the last line's end."""
    head = f"{indent}{flow(key)}:"
    if isinstance(value, Mapping) and value and all(isinstance(item, list | tuple) for item in value.values()):
        return "\n".join([head, *(entry(name, item, indent + "  ") for name, item in value.items())])
    line = f"{head} {inline(value)}"
    if isinstance(value, list | tuple) and len(line) > WIDTH:
        return "\n".join([head, *items(value, indent + "  ")])
    return line


def items(values: list[object] | tuple[object, ...], indent: str) -> list[str]:
    """A block list, one line an item."""
    return [f"{indent}- {flow(value)}" for value in values]


def inline(value: object) -> str:
    """A value that fills the rest of its line."""
    if isinstance(value, str) and _is_plain(value, _BLOCK):
        return value
    return flow(value)


def flow(value: object) -> str:
    """A value that may stand inside brackets."""
    match value:
        case Verbatim():
            return value
        case str():
            return str(value) if _is_plain(value, _FLOW) else _quoted(value)
        case Mapping():
            return "{" + ", ".join(f"{flow(k)}: {flow(v)}" for k, v in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(flow, value)) + "]"
        case None | bool() | int() | float():
            return json.dumps(value)
    return _quoted(str(value))


def _is_plain(text: str, shape: re.Pattern[str]) -> bool:
    if _MOMENT.fullmatch(text):
        return True
    return text.isprintable() and text.lower() not in _WORDS and shape.fullmatch(text) is not None


def _quoted(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))
