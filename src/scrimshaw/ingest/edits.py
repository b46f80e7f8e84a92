"""Changes to a memory file that leave every other byte as it was: order, comments, quoting, indentation, line ends."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ruamel.yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from scrimshaw.errors import UnreadableFile
from scrimshaw.ingest import front_matter, yaml_text
from scrimshaw.ingest.front_matter import BOM, FrontMatter
from scrimshaw.ingest.links import reference, stated, strength_of
from scrimshaw.ingest.metadata import spelling
from scrimshaw.ingest.yaml_text import Verbatim
from scrimshaw.models import Relation

_LINES = re.compile(r"[^\n]*\n|[^\n]+\Z")
_COLON = re.compile(r"[ \t]*:")
_IDLE = re.compile(r"( *)(?:#.*)?\r?\n?")


def edit(text: str, changes: Mapping[str, object], body: str | None = None) -> str:
    """`text` with the changed keys, and with `body` where one is given; None deletes a key.

    A key that the file knows under an older spelling is changed under that spelling. A file without front matter
    gets one only for keys to hold, or so that a body starting with a `---` block is not read as one.
    Raises UnreadableFile where the front matter is broken or cannot be edited key by key.
    """
    parts = front_matter.read(text)
    for key, value in changes.items():
        parts = _changed(parts, spelling(parts.values, key), value)
    return parts.text if body is None else _with_body(parts, body).text


def add_relation(text: str, relation: Relation, target: str, strength: float = 1.0, evidence: str = "") -> str:
    """`text` with the relation to `target`; one that is there already gets the new strength (0..1) and evidence."""
    kept = [item for item in _related(text, relation) if _target(item) != reference(target)]
    return _relate(text, relation, [*kept, stated(target, strength_of(strength), evidence)])


def remove_relation(text: str, relation: Relation, target: str) -> str:
    """`text` without the relation to `target`; unchanged where there is none."""
    present = _related(text, relation)
    kept = [item for item in present if _target(item) != reference(target)]
    return text if len(kept) == len(present) else _relate(text, relation, kept)


def _related(text: str, relation: Relation) -> list[object]:
    relations = front_matter.read(text).values.get("relations")
    present = relations.get(relation) if isinstance(relations, Mapping) else None
    if present is None:
        return []
    return present if isinstance(present, list) else [present]


def _target(item: object) -> str:
    return reference(str(item.get("id", "") if isinstance(item, Mapping) else item))


def _relate(text: str, relation: Relation, items: list[object]) -> str:
    parts = front_matter.read(text)
    present = parts.values.get("relations")
    rest = {k: v for k, v in present.items() if k != relation} if isinstance(present, Mapping) else {}
    place = _find(parts.yaml, parts.root, len(parts.yaml), "relations")
    if place and isinstance(place.value, MappingNode) and _is_block(place.value, place.key) and (items or rest):
        yaml = _put(parts, place.value, place.end, relation.value, items or None)
        return _checked(parts, yaml, "relations").text
    relations = rest | ({relation.value: items} if items else {})
    return _changed(parts, "relations", relations or None).text


def _changed(parts: FrontMatter, key: str, value: object) -> FrontMatter:
    if value is None and key not in parts.values:
        return parts
    if not parts.closing:
        parts = _fenced(parts)
    if parts.root is not None and parts.root.flow_style:
        raise UnreadableFile("The front matter is one bracketed line.", "Write one key a line, then try again.")
    return _checked(parts, _put(parts, parts.root, len(parts.yaml), key, value), key)


def _checked(parts: FrontMatter, yaml: str, key: str) -> FrontMatter:
    """Guards against YAML whose keys hang together (anchors, odd indentation): a slip must not reach the file."""
    after = front_matter.read(parts.opening + yaml + parts.closing + parts.body)
    if set(after.values) ^ set(parts.values) <= {key} and after.body == parts.body:
        return after
    raise UnreadableFile(f"The key {key!r} cannot be changed without changing others.", "Edit the file by hand.")


def _with_body(parts: FrontMatter, body: str) -> FrontMatter:
    if not parts.closing and front_matter.read(body).body != body:
        parts = _fenced(parts)
    return parts._replace(body=body)


def _fenced(parts: FrontMatter) -> FrontMatter:
    fence = "---" + _newline(parts)
    bom = BOM if parts.opening.startswith(BOM) else ""
    return FrontMatter(bom + fence, "", fence, parts.body)


def _newline(parts: FrontMatter) -> str:
    first = _LINES.match(parts.opening.removeprefix(BOM) or parts.body)
    return "\r\n" if first and first[0].endswith("\r\n") else "\n"


class _Place(NamedTuple):
    """Where a key stands: its nodes, and the offsets of its lines; blank and comment lines after it are not its own."""

    key: ScalarNode
    value: CollectionNode | ScalarNode
    start: int
    end: int


def _find(yaml: str, mapping: MappingNode | None, stop: int, key: str) -> _Place | None:
    """The last entry of that name, which is the one that counts."""
    pairs = mapping.value if mapping is not None else []
    starts = [_line_start(name) for name, _ in pairs] + [stop]
    for number in reversed(range(len(pairs))):
        name, value = pairs[number]
        if name.value == key:
            start = starts[number]
            return _Place(name, value, start, _entry_end(yaml[start : starts[number + 1]], start, name))
    return None


def _line_start(node: Node) -> int:
    return int(node.start_mark.index - node.start_mark.column)


def _entry_end(text: str, start: int, node: Node) -> int:
    lines = _LINES.findall(text)
    while len(lines) > 1 and _is_idle(lines[-1], node.start_mark.column):
        lines.pop()
    return start + sum(map(len, lines))


def _is_idle(line: str, column: int) -> bool:
    match = _IDLE.fullmatch(line)
    return match is not None and (line.isspace() or len(match[1]) <= column)


def _put(parts: FrontMatter, mapping: MappingNode | None, stop: int, key: str, value: object) -> str:
    yaml, newline = parts.yaml, _newline(parts)
    place = _find(yaml, mapping, stop, key)
    indent = " " * (mapping.start_mark.column if mapping is not None else 0)
    start, end, new = stop, stop, yaml_text.entry(key, value, indent) + "\n"
    if place and value is None:
        start, end, new = place.start, place.end, ""
    elif place and (span := _span(yaml, place)):
        (start, end), new = span, _inside_line(yaml, place.value, value)
    elif place and isinstance(value, list | tuple) and value and _is_list(place):
        start, end, new = _below_key(yaml, place, value)
    elif place:
        start, end = place.start, place.end
    return yaml[:start] + new.replace("\n", newline) + yaml[end:]


def _inside_line(yaml: str, node: Node, value: object) -> str:
    if isinstance(node, SequenceNode) and isinstance(value, list | tuple):
        value = _reused(yaml, node, value)
    return (" " if node.start_mark.index == node.end_mark.index else "") + yaml_text.inline(value)


def _below_key(yaml: str, place: _Place, value: Sequence[object]) -> tuple[int, int, str]:
    indent = " " * place.value.start_mark.column
    lines = yaml_text.items(_reused(yaml, place.value, value), indent)
    return _line_start(place.value), place.end, "\n".join(lines) + "\n"


def _reused(yaml: str, node: Node, values: Sequence[object]) -> list[object]:
    """Items that were there before keep their own spelling."""
    known = [(front_matter.plain(child), _source(yaml, child)) for child in node.value]
    return [next((Verbatim(text) for old, text in known if text and old == value), value) for value in values]


def _source(yaml: str, node: Node) -> str:
    start, end = node.start_mark.index, node.end_mark.index
    if isinstance(node, CollectionNode) and not node.flow_style:
        end = _entry_end(yaml[start:end], start, node)
    return yaml[start:end].rstrip().replace("\r\n", "\n")


def _span(yaml: str, place: _Place) -> tuple[int, int] | None:
    """Where a value lies that starts on its key's line and is no block; an alias stands elsewhere, so None."""
    key, value = place.key, place.value
    start, end = value.start_mark.index, value.end_mark.index
    if start < key.end_mark.index:
        return None
    if start == end:  # nothing is written: ruamel.yaml puts the mark behind a comment
        colon = _COLON.match(yaml, key.end_mark.index)
        return (colon.end(), colon.end()) if colon else None
    flowing = value.flow_style if isinstance(value, CollectionNode) else value.style not in ("|", ">")
    return (start, end) if flowing and value.start_mark.line == key.end_mark.line else None


def _is_list(place: _Place) -> bool:
    return isinstance(place.value, SequenceNode) and _is_block(place.value, place.key)


def _is_block(node: CollectionNode, key: ScalarNode) -> bool:
    return not node.flow_style and node.start_mark.line > key.end_mark.line
