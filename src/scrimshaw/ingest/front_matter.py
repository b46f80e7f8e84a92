"""Front matter: reading and writing YAML, and mapping its keys to the model.

Reading tolerates older spellings and loose shapes. Writing uses the style of a person: no line is folded, and
quotes are used only where necessary.
"""

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import TypeVar

from msgspec import Struct
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from scrimshaw.errors import UnreadableFile
from scrimshaw.models import MemoryType, Provenance, Quality, Relation, Tier, Trust

Values = Mapping[str, object]
Clean = Callable[[str], str]
_Member = TypeVar("_Member", bound=StrEnum)

LONGEST = 32_768  # twenty times the longest of real memories; a page of short keys takes ruamel.yaml 12 us a character
SPELLINGS = {
    "type": ("contextType", "context_type"), "tier": ("importance_tier", "importanceTier"),
    "trigger_phrases": ("triggerPhrases", "triggers"), "topics": ("tags",), "questions": (),
}  # fmt: skip

_KNOWN = ("title", "visibility", "updated", "created", "provenance", "relations", "aliases", "topics", "tier")
CREATED = ("created", "created_at", "date")  # keys for when a file was written
_NAME_DATES = (
    re.compile(r"(?<!\d)(?P<year>(?:19|20)\d\d)([-_.]?)(?P<month>\d\d)\2(?P<day>\d\d)(?!\d)", re.ASCII),
    re.compile(r"(?<!\d)(?P<day>\d\d)-(?P<month>\d\d)-(?P<year>\d\d)_\d\d-\d\d(?!\d)", re.ASCII),
)
_DEEP = re.compile(r"(?:[\[{]\s*){64}")  # ruamel.yaml spends seconds on a longer run before it fails
_NULL, _STRING, _MAP, _SEQUENCE = (f"tag:yaml.org,2002:{name}" for name in ("null", "str", "map", "seq"))
_WIDTH = 110  # a longer list is written with one item per line
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?)?", re.ASCII)
# Values that need no quotes: as the rest of a line, and inside brackets.
WHOLE_LINE = re.compile(r"[^\W\d_](?:(?!: | #).)*(?<![ :])")
_FLOW = re.compile(r"[^\W\d_](?:[^,\[\]{}:#\"']*[^,\[\]{}:#\"' ])?")
_ENTRY = re.compile(
    r"(?P<key>[A-Za-z_][\w-]*):(?: (?P<value>\S).*\n|\n(?P<indent> +)- \S.*\n(?:(?P=indent)- \S.*\n)*)", re.ASCII
)
_PIECE = re.compile(rf"\"[^\"\\]*\"|'[^']*'|{_FLOW.pattern}|{_MOMENT.pattern}|[0-9]+(?:[.][0-9]+)?")
_ESCAPED = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def compose_yaml(yaml: str, name: str) -> Node | None:
    """A YAML text's nodes with marks into it, None for none; raises UnreadableFile, naming `name` and the line."""
    if len(yaml) > LONGEST:
        message = f"{name}, line 1: the front matter has {len(yaml)} characters; at most {LONGEST} are read."
        raise UnreadableFile(message, "Shorten it, or move what is not metadata into the text.", line=1)
    if _DEEP.search(yaml):
        raise _invalid(name, 1, 1, "it is nested too deeply")
    if plain := _compose_plain(yaml):
        return plain
    reader = YAML(typ="base", pure=True)
    reader.composer.warn_double_anchors = False
    try:
        root = reader.compose(yaml)
        if root is not None and "*" in yaml:
            convert_node(root)  # never ends for an alias inside the value that it names
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (2 + mark.line, 1 + mark.column) if mark else (2, 1)
        raise _invalid(name, line, column, error.problem or error.context or "unknown problem") from error
    except (YAMLError, ValueError, AssertionError) as error:  # the last for unknown %YAML versions
        raise _invalid(name, 1, 1, str(error).partition("\n")[0]) from error
    except RecursionError as error:
        raise _invalid(name, 1, 1, "it is nested too deeply") from error
    return root  # type: ignore[no-any-return]  # untyped in ruamel.yaml


class _Mark(Struct, frozen=True):
    """A place in a text, as ruamel.yaml names it."""

    index: int
    line: int
    column: int


def _compose_plain(yaml: str) -> MappingNode | None:
    """The nodes of entries as `format_entry` writes them or with a list item a line, without a scanner; or None."""
    pairs, at, row = list[tuple[Node, Node]](), 0, 0
    try:
        while at < len(yaml):
            if not (entry := _ENTRY.match(yaml, at)):
                return None
            head, *items = entry[0].split("\n")[:-1]
            key, nodes, column = _make_scalar(entry["key"], (at, row), 0), list[Node](), entry.start("value") - at
            inset = len(entry["indent"] or "")
            if items:
                at, row, column = at + len(head) + 1, row + 1, inset + 2
            first = _Mark(at + inset, row, inset)
            for line in items or [head]:
                text = WHOLE_LINE.fullmatch(line, column)
                value, end = _read_flow(line, (at, row), column) if text is None else (None, len(line))
                if end < len(line) or not line.isprintable():
                    return None
                nodes.append(value or _make_scalar(line[column:], (at, row), column))
                at, row = at + len(line) + 1, row + 1
            whole = SequenceNode(_SEQUENCE, nodes, first, _Mark(at, row, 0), flow_style=False)
            pairs.append((key, whole if items else nodes[0]))
    except (IndexError, ValueError):
        return None
    return MappingNode(_MAP, pairs, _Mark(0, 0, 0), _Mark(at, row, 0), flow_style=False)


def _read_flow(line: str, begin: tuple[int, int], at: int) -> tuple[Node, int]:
    """The list, mapping or text at a place of a line, and where it ends; raises IndexError, ValueError for others."""
    first, items = at, list[object]()
    if line[at] not in "[{":
        if (text := _PIECE.match(line, at)) is None:
            raise ValueError(line)
        return _make_scalar(text[0], begin, at), text.end()
    is_map, at = line[at] == "{", at + 1
    while line[at] != ("}" if is_map else "]"):
        at = line.index(", ", at, at + 2) + 2 if items else at
        item, at = _read_flow(line, begin, at)
        if is_map:
            value, at = _read_flow(line, begin, line.index(": ", at, at + 2) + 2)
        items.append((item, value) if is_map else item)
    kind, tag = (MappingNode, _MAP) if is_map else (SequenceNode, _SEQUENCE)
    (start, row), end = begin, at + 1
    return kind(tag, items, _Mark(start + first, row, first), _Mark(start + end, row, end), flow_style=True), end


def _make_scalar(text: str, begin: tuple[int, int], at: int) -> ScalarNode:
    if text.lower() == "null":
        raise ValueError(text)
    (start, line), style = begin, text[0] if text[0] in "\"'" else None
    value, end = text[1:-1] if style else text, at + len(text)
    return ScalarNode(_STRING, value, _Mark(start + at, line, at), _Mark(start + end, line, end), style=style)


def convert_node(node: Node, known: dict[int, object] | None = None) -> object:
    """A node as plain mappings, lists, None and text; `known` has the values of those that aliases may name."""
    known = {} if known is None else known
    if id(node) in known:
        return known[id(node)]
    if isinstance(node, MappingNode):
        values = dict[str, object]()
        for key, value in node.value:
            values[_join_surrogates(str(key.value))] = convert_node(value, known)
        return known.setdefault(id(node), values)
    if isinstance(node, SequenceNode):
        return known.setdefault(id(node), [*map(partial(convert_node, known=known), node.value)])
    return None if str(node.tag) == _NULL else _join_surrogates(node.value)


def convert_value(value: object) -> object:
    """A value in the form in which YAML reads it back."""
    match value:
        case list() | tuple():
            return list(map(convert_value, value))
        case Mapping():
            names = map(_join_surrogates, map(str, value))
            return dict(zip(names, map(convert_value, value.values()), strict=True))
        case bool() | int() | float():
            return json.dumps(value)
    return None if value is None else _join_surrogates(str(value))


def _join_surrogates(text: str) -> str:
    """Join surrogate pairs that a JSON writer escaped, and replace lone ones, which UTF-8 cannot encode."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _invalid(name: str, line: int, column: int, why: str) -> UnreadableFile:
    message = f"{name}, line {line}, column {column}: the front matter is not valid YAML: {why}."
    hint = "Correct that line, or quote a value that holds ': ' or starts with one of [ { * & ! | > @ `."
    return UnreadableFile(message, hint, line=line)


class Verbatim(str):
    """YAML text that is written unchanged."""


def format_entry(key: str, value: object, indent: str = "") -> str:
    """`key: value` as one or more lines, without the last line's end."""
    head = f"{indent}{format_value(key)}:"
    if isinstance(value, Mapping) and value and {list, tuple}.issuperset(map(type, value.values())):
        return "\n".join([head, *(format_entry(name, item, indent + "  ") for name, item in value.items())])
    line = f"{head} {format_value(value, WHOLE_LINE)}"
    if isinstance(value, list | tuple) and len(line) > _WIDTH:
        return "\n".join([head, *format_items(value, indent + "  ")])
    return line


def format_items(values: list[object] | tuple[object, ...], indent: str) -> list[str]:
    """A block list, one line per item."""
    return [f"{indent}- {format_value(value)}" for value in values]


def format_value(value: object, plain: re.Pattern[str] = _FLOW) -> str:
    """A value for inside brackets, or with WHOLE_LINE for the rest of a line."""
    match value:
        case Verbatim():
            return value
        case str() if _MOMENT.fullmatch(value):
            return str(value)
        case str() if value.isprintable() and value.lower() not in _WORDS and plain.fullmatch(value):
            return str(value)
        case Mapping():
            keys, values = map(format_value, value), map(format_value, value.values())
            return "{" + ", ".join(map("{}: {}".format, keys, values)) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(format_value, value)) + "]"
        case None | bool() | int() | float():
            return json.dumps(value)
    return _ESCAPED.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(str(value), ensure_ascii=False))


def find_spelling(values: Values, key: str) -> str:
    """The spelling of a key in the file: its current name first, then the older ones."""
    return next(filter(values.__contains__, (key, *SPELLINGS.get(key, ()))), key)


def parse_line(value: object) -> str:
    """A scalar on one line; nothing for a list or a mapping."""
    return " ".join(value.split()) if isinstance(value, str) else ""


def parse_member(values: Values, key: str, default: _Member) -> _Member:
    """The member of an enum that a key names, such as a type or the claimed tier."""
    try:
        return type(default)(parse_line(values.get(find_spelling(values, key))).lower())
    except ValueError:
        return default


def find_wrong_values(values: Values) -> Iterator[str]:
    """What is wrong with values that are known by name or are dates: such a value counts as not stated."""
    relations = values.get("relations")
    stated = [(find_spelling(values, "type"), tuple(MemoryType)), (find_spelling(values, "tier"), tuple(Tier))]
    pairs = [(key, values.get(key), known) for key, known in stated]
    pairs += [("relations", key, tuple(Relation)) for key in (relations if isinstance(relations, Mapping) else ())]
    for key, value, known in pairs:
        if value is not None and parse_line(value).lower() not in known:
            yield f"'{key}' says '{value}'; known are {', '.join(known)}"
    for key in (*CREATED, "updated"):
        if values.get(key) is not None and not parse_time(values[key]):
            yield f"'{key}' says '{values[key]}', which is no ISO date or time"


def find_slips(values: Values) -> Iterator[str]:
    """The keys that are no known ones but differ from one by a letter, or by two that were swapped."""

    def cut_letters(word: str) -> set[str]:
        return {word, *(word[:place] + word[place + 1 :] for place in range(len(word)))}

    for key, word in ((key, key.strip().lower()) for key in values):
        near = (known for known in _KNOWN if not cut_letters(word).isdisjoint(cut_letters(known)))
        if len(word) > 4 and word not in _KNOWN and (known := next(near, "")):
            yield f"'{key}' has no effect; did you mean '{known}'?"


def parse_phrases(values: Values, key: str, clean: Clean = str, mark: str = ",") -> tuple[str, ...]:
    """A list of texts without blanks and duplicates; a single text is split at its marks."""
    value = values.get(find_spelling(values, key))
    items = value if isinstance(value, list) else parse_line(value).split(mark)
    cleaned = map(str.strip, map(clean, filter(None, map(parse_line, items))))
    return tuple(dict.fromkeys(filter(None, cleaned)))


def parse_provenance(values: Values, clean: Clean = str, default: Trust = Trust.HUMAN) -> Provenance:
    """The provenance, by `default` if the file does not say; an unknown trust counts as the lowest."""
    if (stated := values.get("provenance")) is None:
        return Provenance(trust=default)
    fields = stated if isinstance(stated, Mapping) else {"source": stated, "trust": stated}
    return Provenance(
        source=clean(parse_line(fields.get("source"))) or Provenance().source,
        trust=parse_member(fields, "trust", Trust.WEB) if "trust" in fields else default,
        session=clean(parse_line(fields.get("session"))),
    )


def parse_quality(values: Values, clean: Clean = str) -> Quality | None:
    """The gate's stored verdict, also from the older top-level keys; None without a numeric score."""
    stated = values.get("quality")
    if not isinstance(stated, Mapping):
        stated = {"score": values.get("quality_score"), "flags": values.get("quality_flags")}
    with suppress(ValueError):
        score = float(parse_line(stated.get("score")))
        if not math.isnan(score):
            return Quality(score=min(max(score, 0.0), 1.0), flags=parse_phrases(stated, "flags", clean))
    return None


def parse_name_date(name: str) -> str:
    """The ISO date in a name, or "": `2026-05-01-x`, `20260501_x`, or day first before a time, `01-05-26_13-30__x`."""
    for pattern in _NAME_DATES:
        for found in pattern.finditer(name):
            year, month, day = (found[part] for part in ("year", "month", "day"))
            with suppress(ValueError):  # numbers that are not a date
                return datetime(int(year) + 2000 * (len(year) == 2), int(month), int(day)).date().isoformat()
    return ""


def parse_time(value: object) -> str:
    """An ISO date or time; a time with an offset is given in UTC. Empty if it is neither."""
    try:
        if (when := datetime.fromisoformat(parse_line(value))).tzinfo is None:
            return when.isoformat().removesuffix("T00:00:00")
        return when.astimezone(UTC).isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError):
        return ""
