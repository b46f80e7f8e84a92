"""Front matter of the shape that Scrimshaw writes is composed without a scanner, and reads as a scanner reads it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import CollectionNode, MappingNode, Node

from scrimshaw.errors import UnreadableFile
from scrimshaw.ingest.front_matter import compose_yaml, convert_node, format_entry

TEXTS = st.text(alphabet="aZé9_ -:#?&*!|>%@`~=.,[]{}'\"\\\t\x85", max_size=8) | st.sampled_from(
    ["null", "Null", "~", "0.92", "12", "2026-11-22T20:40:00Z", "2026-11", "yes", "wal reset", "---", "a: b"]
)
VALUES = TEXTS | st.lists(TEXTS, max_size=3) | st.dictionaries(TEXTS, TEXTS | st.lists(TEXTS, max_size=2), max_size=2)
RAW = st.text(alphabet="ab1 :-#?[]{},'\"\n~&*!", max_size=30)


def describe(node: Node) -> Any:
    """All that is read of a node."""
    parts: Any = node.value
    if isinstance(node, CollectionNode):
        pairs = isinstance(node, MappingNode)
        parts = [[*map(describe, each)] if pairs else describe(each) for each in node.value]
    marks = [(mark.index, mark.line, mark.column) for mark in (node.start_mark, node.end_mark)]
    style = getattr(node, "flow_style" if isinstance(node, CollectionNode) else "style")
    return type(node).__name__, parts, marks, style, convert_node(node)


def check(yaml: str) -> None:
    reader = YAML(typ="base", pure=True)
    reader.composer.warn_double_anchors = False
    try:
        expected = reader.compose(yaml)
    except (YAMLError, ValueError, AssertionError):
        with pytest.raises(UnreadableFile):
            compose_yaml(yaml, "x")
        return
    found = compose_yaml(yaml, "x")
    assert (found and describe(found)) == (expected and describe(expected))


@given(st.dictionaries(st.sampled_from(["title", "topics", "a-b", "null", "x y"]), VALUES, min_size=1))
def test_written_entries_are_read_as_a_scanner_reads_them(values: dict[str, object]) -> None:
    check("\n".join([*map(format_entry, values, values.values()), ""]))


@given(st.lists(RAW, min_size=1, max_size=3))
def test_raw_lines_are_read_as_a_scanner_reads_them(texts: list[str]) -> None:
    check("".join(f"k{number}: {text}\n" for number, text in enumerate(texts)))


@given(st.lists(st.lists(st.tuples(st.sampled_from(["  ", " ", ""]), TEXTS | RAW), max_size=3), min_size=1, max_size=3))
def test_lists_of_one_item_a_line_are_read_as_a_scanner_reads_them(lists: list[list[tuple[str, str]]]) -> None:
    entries = (
        "".join([f"k{number}:\n", *(f"{blanks}- {text}\n" for blanks, text in items)])
        for number, items in enumerate(lists)
    )
    check("".join(entries))
