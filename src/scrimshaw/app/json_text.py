"""Edits JSON text with comments, changing only what is necessary: everything else keeps its formatting."""

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

_DECODER, _dumps = json.JSONDecoder(), partial(json.dumps, ensure_ascii=False)
_BETWEEN = re.compile(r"[\s,:]*")
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def parse_json(text: str) -> Any:
    """The value of a JSON text, {} for an empty one; raises ValueError, also for repeated keys."""
    plain = _blank_comments(text)
    return json.loads(plain, object_pairs_hook=_unique_keys) if plain.strip() else {}


def edit_json(text: str, value: Any) -> str:
    """`text` with the smallest change that gives it `value`; its indent, line ends and unchanged parts stay."""
    found, plain = _INDENT.search(text), _blank_comments(text)
    unit, parts, done = found[1] if found else "  ", list[str](), 0
    at = len(plain) - len(plain.lstrip())
    fresh = [(at, at, _render(value, unit, "") + "\n")]
    edits = _find_edits(text, plain, at, value, unit) if plain.strip() else fresh
    for start, end, new in sorted(edits, key=itemgetter(0)):
        parts += text[done:start], new.replace("\n", "\r\n") if "\r\n" in text else new
        done = end
    return "".join((*parts, text[done:]))


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return found


def _blank_comments(text: str) -> str:
    """The text with comments replaced by spaces, so that positions stay."""
    return _STRING_OR_COMMENT.sub(lambda each: each[0] if each[0][0] == '"' else re.sub(r"[^\r\n]", " ", each[0]), text)


def _find_edits(text: str, plain: str, at: int, value: Any, unit: str) -> Iterator[tuple[int, int, str]]:
    """Replacements (start, end, new text), sorted by start, that give the text `value` at a place."""
    old, end = _DECODER.raw_decode(plain, at)
    margin = re.match(r"[ \t]*", text[text.rfind("\n", 0, at) + 1 :])
    outer = margin[0] if margin else ""
    if repr(old) == repr(value):  # 1, 1.0 and true are equal, but written differently
        return
    if type(old) is not type(value) or not isinstance(old, dict | list):
        yield at, end, _render(value, unit, outer)
    elif not old:  # it may contain a comment
        yield len(text[: end - 1].rstrip()), end, _render(value, unit, outer)[1:]
    else:
        spans, wanted, left = [*_find_spans(plain, at)], [*_name_items(value)], list[int]()
        for place, ((name, _), span) in enumerate(zip(_name_items(old), spans, strict=True)):
            if wanted and wanted[0][0] == name:
                left.append(place)
                yield from _find_edits(text, plain, span[1], wanted.pop(0)[1], unit)
        is_object, is_line = isinstance(value, dict), "\n" not in text[at:end]
        keys = [f"{_dumps(name)}: " if is_object else "" for name, _ in wanted]
        new = [key + _render(each, unit, outer + unit, is_line) for key, (_, each) in zip(keys, wanted, strict=True)]
        yield from _splice(text, plain, spans, left, new, " " if is_line else f"\n{outer}{unit}")


def _splice(
    text: str, plain: str, spans: Sequence[tuple[int, int, int]], left: Sequence[int], new: Sequence[str], between: str
) -> Iterator[tuple[int, int, str]]:
    """Replacements that keep some of the items of an array or object, and add new ones after them."""
    if not left:
        start = spans[0][0] if new else len(text[: spans[0][0]].rstrip())
        yield start, spans[-1][2], f",{between}".join(new)
        return
    last, end = left[-1], spans[left[-1]][2]
    ends = [*(plain.index(",", each[2]) + 1 for each in spans[:-1]), spans[-1][2]]  # after the comma, if one follows
    if new:
        if ends[last] == end:
            yield end, end, ","
        line_end = f"{text}\n".index("\n", ends[last])
        tail = text[ends[last] : line_end].rstrip()
        is_remark = "\n" in between and not plain[ends[last] : line_end].strip() and "/*" not in tail
        place = ends[last] + (len(tail) if is_remark else 0)  # a comment on the line belongs to the item before it
        yield place, place, between + f",{between}".join(new)
    elif ends[last] != end:
        yield ends[last] - 1, ends[last], ""
    for place, (start, _, _) in enumerate(spans):
        if place not in left:
            yield len(text[:start].rstrip()), ends[place], ""


def _find_spans(plain: str, at: int) -> Iterator[tuple[int, int, int]]:
    """(where it begins, where its value begins, where it ends) for each item of the array or object at a place."""
    is_object, at = plain[at] == "{", at + 1
    while plain[start := _skip(plain, at)] not in "}]":
        at = _DECODER.raw_decode(plain, start)[1]
        begin = _skip(plain, at) if is_object else start
        at = _DECODER.raw_decode(plain, begin)[1]
        yield start, begin, at


def _skip(plain: str, at: int) -> int:
    found = _BETWEEN.match(plain, at)
    return found.end() if found else at


def _name_items(value: Any) -> list[tuple[str, Any]]:
    """The items of an array or object with a key that identifies each."""
    return [*value.items()] if isinstance(value, dict) else [(repr(each), each) for each in value]


def _render(value: Any, unit: str, margin: str, is_line: bool = False) -> str:
    """A new value as text: objects, and arrays with objects, on several lines, unless inside a line."""
    inner = margin + unit
    if isinstance(value, dict) and value and not is_line:
        lines = [f"{_dumps(key)}: {_render(each, unit, inner)}" for key, each in value.items()]
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value) and not is_line:
        lines = [_render(each, unit, inner) for each in value]
    else:
        return _dumps(value)
    first, last = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([first, ",\n".join(inner + line for line in lines), margin + last])
