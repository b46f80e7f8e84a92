"""A memory file taken apart for judging: what its front matter says, its title, and what stands under which heading."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from scrimshaw.errors import UnreadableFile
from scrimshaw.ingest.front_matter import compose_yaml, convert_node, parse_line, parse_phrases, parse_title
from scrimshaw.ingest.memory_file import MemoryFile
from scrimshaw.ingest.prose import Line, lines

_HEADING = re.compile(r"[ \t]*(#{1,6})[ \t]+([^\n]*)")
_NUMBER = re.compile(r"\A(?:\d+[.)]|\d+(?:\.\d+)+[.)]?)[ \t]+")
_LABELLED = re.compile(r"(?:\*\*|__)?([A-Za-z][\w /%&-]{0,40}?)(?:\*\*|__)?:(?:\*\*|__)?[ \t]*(.*)", re.DOTALL)
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
_RULE_ROW = re.compile(r"[|:\- \t]*")
_CELLS = re.compile(r"(?<!\\)\|")
_METADATA = re.compile(r"[ \t]*```ya?ml[ \t]*\n(?=(?:.*\n)??(?:.*\n)?(?:session_id|spec_folder|trigger_phrases)\b)")
_TITLE_PATH = re.compile(r"[ \t]*\[[^\]\n]*/[^\]\n]*\][ \t]*$")
_MARKUP = re.compile(r"[*_`]{1,3}(?=\S)|(?<=\S)[*_`]{1,3}")


class Field(NamedTuple):
    """One thing a file says: under which heading, by what name (that of the heading, if it has none), and what.

    Names are lower-case words joined by `_`. A row of a table is a field for each of its values; heads are left out.
    """

    section: str
    name: str
    value: str


class Heading(NamedTuple):
    """A heading below the title, in the section it belongs to."""

    section: str
    level: int
    text: str


class Sheet(NamedTuple):
    """A file's contents; `values` joins front matter and the metadata block some tools put at the end.

    `broken` says what could not be read as YAML, and is empty where all could.
    """

    values: Mapping[str, object]
    title: str
    headings: tuple[Heading, ...]
    fields: tuple[Field, ...]
    body: str
    broken: str = ""

    def phrases(self, key: str) -> tuple[str, ...]:
        """A list among the values, under any of its spellings."""
        return parse_phrases(self.values, key)

    def line(self, key: str) -> str:
        """A single value, on one line."""
        return parse_line(self.values.get(key))

    def named(self, *names: str) -> Iterator[Field]:
        """The fields of these names, or in sections of these names."""
        return (field for field in self.fields if field.name in names or field.section in names)


def read(file: MemoryFile) -> Sheet:
    """Takes any Markdown file apart; never raises."""
    values, body, broken = file.values, file.body, file.problem.message if file.problem else ""
    headings: list[Heading] = []
    fields: list[Field] = []
    section, row = "", 0
    for line in lines(body):
        piece = body[line.start : line.end]
        if heading := _HEADING.match(piece):
            level, words = len(heading[1]), _plain(_NUMBER.sub("", heading[2]))
            section = slug(words) if level == 2 or (level < 2 and headings) else section
            headings.append(Heading(section, level, words))
        elif _RULE_ROW.fullmatch(piece.strip()) and line.kind == "row":
            del fields[row:]  # the head of a table
        elif "metadata" in section and _METADATA.match(piece):
            found, why = _metadata(piece)
            values, broken = _joined(values, found), broken or why
        else:
            row = len(fields)
            fields.extend(_fields(section, line, piece))
    return Sheet(values, _title(values, headings), tuple(headings), tuple(fields), body, broken)


def slug(text: str) -> str:
    """A name for a heading or label: lower-case words joined by `_`."""
    return "_".join(re.findall(r"[^\W_]+", text.lower()))


def _metadata(fence: str) -> tuple[Mapping[str, object], str]:
    yaml = fence.partition("\n")[2].rpartition("```")[0]
    try:
        found = convert_node(node) if (node := compose_yaml(yaml, "metadata block")) else None
    except UnreadableFile as error:
        return {}, error.message
    return (found, "") if isinstance(found, dict) else ({}, "")


def _joined(first: Mapping[str, object], second: Mapping[str, object]) -> Mapping[str, object]:
    """Both, the first winning; lists that both have are joined."""
    lists = {
        key: [*theirs, *ours]
        for key, ours in second.items()
        if isinstance(ours, list) and isinstance(theirs := first.get(key), list)
    }
    return {**second, **first, **lists}


def _title(values: Mapping[str, object], headings: list[Heading]) -> str:
    stated = _TITLE_PATH.sub("", parse_title(values))
    return stated or next((heading.text for heading in headings if heading.level == 1), "")


def _fields(section: str, line: Line, piece: str) -> Iterator[Field]:
    if line.kind == "row":
        yield from _row(section, piece)
    elif line.kind in ("text", "item"):
        text = piece[mark.end() :] if (mark := _ITEM.match(piece)) else piece
        label = _LABELLED.match(text)
        if label and len(label[1].split()) <= 4:
            yield Field(section, slug(label[1]), label[2].strip())
        elif text.strip():
            yield Field(section, section, text.strip())


def _row(section: str, piece: str) -> Iterator[Field]:
    first, *rest = (cell.strip() for cell in _CELLS.split(piece.strip().strip("|")))
    name = slug(first)
    if not rest:
        yield Field(section, section, first)
    for cell in rest:
        yield Field(section, section if name.isdigit() else name or section, cell)


def _plain(text: str) -> str:
    return _MARKUP.sub("", text).strip()
