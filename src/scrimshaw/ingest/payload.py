"""Reading JSON that another program wrote: a missing or malformed value reads as empty, never as an error."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

Json = Mapping[str, Any]

_DEEPEST = 5  # levels of a tool's result that are searched for text: MCP content inside a list inside a result is 3
_OUTPUT_KEYS = ("content", "text", "llmContent", "textResultForLlm", "output", "result", "results", "file", "filenames")
_TEXT_KEYS = (*_OUTPUT_KEYS, "error", "message", "task")
# An escape in JSON: a whole pair, or half of one, or any other.
_ESCAPE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F]|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL)


def text(value: object) -> str:
    """`value` if it is text, otherwise the empty text."""
    return value if isinstance(value, str) else ""


def first_text(fields: Json, *keys: str) -> str:
    """The first non-empty text under one of `keys`."""
    return next(filter(None, map(text, map(fields.get, keys))), "")


def section(fields: Json, *path: str) -> Json:
    """The object under a path of keys; empty if there is none."""
    found: Any = fields
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def sections(value: object) -> Iterator[Json]:
    """The objects in a list."""
    yield from (item for item in value if isinstance(item, Mapping)) if isinstance(value, list) else ()


def join_texts(parts: object) -> str:
    """The `text` of each object in a list, a line each."""
    return "\n".join(text(part.get("text")) for part in sections(parts))


def number(value: object) -> float | None:
    """`value` if it is a finite number; true and false are not."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        return None
    return float(value)


def share(part: object, whole: object) -> float | None:
    """`part` of `whole` as 0..1; None unless both are positive numbers."""
    used, size = number(part) or 0.0, number(whole) or 0.0
    return min(1.0, used / size) if used > 0 and size > 0 else None


def total(fields: Json, *keys: str) -> float:
    """The sum of the numbers under `keys`."""
    return sum(number(fields.get(key)) or 0.0 for key in keys)


def result_text(value: object, depth: int = _DEEPEST) -> str:
    """The text in a tool's result: itself, its parts joined by line breaks, or the value of a known key."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and depth:
        return "\n".join(filter(None, (result_text(item, depth - 1) for item in value)))
    if not isinstance(value, Mapping) or not depth:
        return ""
    if "stdout" in value or "stderr" in value:
        return "\n".join(filter(None, (text(value.get("stdout")), text(value.get("stderr")))))
    return next(filter(None, (result_text(value[key], depth - 1) for key in _TEXT_KEYS if key in value)), "")


def decode_json(raw: str) -> Any:
    """The value of a JSON text; None if it is not JSON. Half a character, left by a cut, reads as U+FFFD."""
    for is_mended in (False, True):
        with suppress(msgspec.DecodeError, UnicodeError, RecursionError):
            return msgspec.json.decode(replace_half_characters(raw) if is_mended else raw)
    return None


def read_object(sent: object, plain: str = "") -> Json:
    """An object, or the one in a JSON text; other text under the key `plain`, if given. Empty for anything else."""
    found = decode_json(sent) if isinstance(sent, str) else sent
    return found if isinstance(found, Mapping) else {plain: sent} if plain and isinstance(sent, str) else {}


def replace_half_characters(raw: str) -> str:
    """A JSON text with U+FFFD for each escape of half a surrogate pair, as a cut emoji leaves it."""
    return _ESCAPE.sub(lambda escape: r"\ufffd" if escape[1] else escape[0], raw)


def select_rows(lines: Iterable[str], *marks: str) -> Iterator[Json]:
    """The objects of the lines that contain one of `marks`; other lines are not decoded, broken ones are left out."""
    for line in lines:
        if any(mark in line for mark in marks) and isinstance(row := decode_json(line), Mapping):
            yield row


def parse_rows(source: str) -> tuple[list[Json], int]:
    """The objects of all lines, and how many lines had none. Only a line feed ends a line: a text may have others."""
    values = [decode_json(line) for line in source.split("\n") if line.strip()]
    found = [value for value in values if isinstance(value, Mapping)]
    return found, len(values) - len(found)
