"""Changing JSON text without rewriting it: what stays the same keeps its own wording."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

Json = dict[str, Any]

_DECODER = json.JSONDecoder()
_BETWEEN = re.compile(r"[\s,:]*")
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)


def parse_json(text: str) -> Any:
    """The value of a JSON text, an empty object for an empty one.

    Raises ValueError, also for a repeated key and for one nested too deeply.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique_keys) if text.strip() else {}
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def rewrite_json(text: str, value: Any) -> str:
    """`text` with the least change that makes it say `value`; its indent, line ends and unchanged parts stay."""
    if text.strip() and is_same_json(json.loads(text), value):
        return text
    source = text.replace("\r\n", "\n")
    body = source.strip()
    found = _INDENT.search(source)
    changed = _render(body, value, found[1] if found else "  ", "")
    result = source.replace(body, changed, 1) if body else f"{changed}\n"
    return result.replace("\n", "\r\n") if "\r\n" in text else result


def is_same_json(one: Any, other: Any) -> bool:
    """Whether two values are written the same, so that 1, 1.0 and true differ."""
    return json.dumps(one) == json.dumps(other)


def _unique_keys(pairs: list[tuple[str, Any]]) -> Json:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _render(source: str, value: Any, unit: str, margin: str) -> str:
    """The value as text, from its old text where that has it; `source` is empty for a new value."""
    if source and is_same_json(json.loads(source), value):
        return source
    inner = margin + unit
    if isinstance(value, dict) and value:
        parts = list(_parts(source)) if source.startswith("{") else []
        old = {json.loads(key): (key, part) for key, part in zip(parts[::2], parts[1::2], strict=True)}
        names = {key: old.get(key, (json.dumps(key, ensure_ascii=False), "")) for key in value}
        lines = (f"{names[key][0]}: {_render(names[key][1], each, unit, inner)}" for key, each in value.items())
        return _block("{}", lines, inner, margin)
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        elements = {json.dumps(json.loads(part)): part for part in (_parts(source) if source.startswith("[") else ())}
        lines = (elements.get(json.dumps(each)) or _render("", each, unit, inner) for each in value)
        return _block("[]", lines, inner, margin)
    return json.dumps(value, ensure_ascii=False)


def _block(brackets: str, lines: Iterable[str], inner: str, margin: str) -> str:
    body = ",\n".join(f"{inner}{line}" for line in lines)
    return f"{brackets[0]}\n{body}\n{margin}{brackets[1]}"


def _parts(source: str) -> Iterator[str]:
    """The texts of the values in a sound array, or of the keys and values of an object in turn."""
    at = 1
    while True:
        between = _BETWEEN.match(source, at)
        at = between.end() if between else at
        if source[at] in "}]":
            return
        _, end = _DECODER.raw_decode(source, at)
        yield source[at:end]
        at = end
