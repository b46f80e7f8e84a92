"""Memories as basic-memory, guidance files and the reference memory server write them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.errors import UnreadableFile
from scrimshaw.ingest.other_memories import map_relations, parse_graph, parse_guidance, parse_note
from scrimshaw.models import MemoryType, Relation

NOTE = """\
---
title: Queue for orders
tags: [orders, queue]
permalink: shop/queue-for-orders
created: 2026-01-02T10:00:00+01:00
---
# Queue for orders

- [decision] Orders go through the foo queue #broker
- [decision] No retries in the shop itself (the queue does it)
- [ ] a task, not an observation
- [link](https://example.org) is no observation
- see #heading-like words

## Relations

- supersedes [[Bar queue]] (it lost messages)
- relates_to [[Till]]
- based on [[Broker comparison]]
- caused_by [[Outage in May]]
"""


def test_a_note_of_basic_memory() -> None:
    note = parse_note(NOTE, "shop/other-name")
    assert (note.id, note.title, note.type) == ("shop/queue-for-orders", "Queue for orders", MemoryType.DECISION)
    assert note.topics == ("orders", "queue", "broker")
    assert note.created == "2026-01-02T09:00:00Z"
    assert note.content == NOTE.partition("---\n")[2].partition("---\n")[2].strip()
    assert [(edge.relation, edge.target, edge.evidence) for edge in note.relations] == [
        (Relation.SUPERSEDES, "Bar queue", "it lost messages"),
        (Relation.DERIVED_FROM, "Broker comparison", ""),
    ]


def test_a_note_without_front_matter_is_named_by_its_place() -> None:
    note = parse_note("# Till\n\nIt opens by itself.", "shop/till")
    assert (note.id, note.title, note.type, note.relations) == ("shop/till", "Till", MemoryType.GENERAL, ())
    assert parse_note("no heading", "shop/till").title == "till"


def test_broken_front_matter_is_told() -> None:
    with pytest.raises(UnreadableFile, match="line 3"):
        parse_note("---\ntitle: [\n---\nx", "x")


@pytest.mark.parametrize(
    ("word", "relation"),
    [
        ("Replaces", Relation.SUPERSEDES),
        ("conflicts with", Relation.CONTRADICTS),
        ("led-to", Relation.CAUSED),
        ("enables", Relation.ENABLED),
        ("confirms", Relation.SUPPORTS),
        ("caused_by", None),
        ("part_of", None),
    ],
)
def test_words_for_relations(word: str, relation: Relation | None) -> None:
    assert [edge.relation for edge in map_relations([(word, "X", "")])] == ([relation] if relation else [])


GUIDANCE = """\
# Shop

This project sells things to people who want them, in many countries and in several languages.

<!-- a note for editors that nobody else should read, however long it may become over time -->

## Style

- Always use tabs in Makefiles and spaces everywhere else; lines end at 120 characters.

## To do

### Later

## Ports

The server listens on 8443 in production and on 8080 in development, metrics are on 9090.

```
## not a heading
```

# Appendix

The second part of the file is about the warehouse and who holds the keys to which of its doors.
"""


def test_sections_of_a_guidance_file() -> None:
    found = parse_guidance(GUIDANCE, "AGENTS")
    assert [(each.id, each.title, each.type) for each in found] == [
        ("agents-shop", "Shop", MemoryType.REFERENCE),
        ("agents-style", "Style", MemoryType.PREFERENCE),
        ("agents-ports", "Ports", MemoryType.REFERENCE),
        ("agents-appendix", "Appendix", MemoryType.REFERENCE),
    ]
    assert "nobody else should read" not in found[0].content
    assert found[2].content.endswith("## not a heading\n```")


def test_a_guidance_file_without_sections_is_one() -> None:
    text = "Never push to main; open a branch, and let somebody look at it before it goes in."
    assert [(each.id, each.title, each.content) for each in parse_guidance(text, "GEMINI")] == [
        ("gemini", "GEMINI", text)
    ]
    assert parse_guidance("# Shop\n\nShort.", "GEMINI") == ()


GRAPH = """\
{"type":"entity","name":"Foo queue","entityType":"component","observations":["keeps orders","keeps  orders"]}
{"type":"entity","name":"Foo queue","entityType":"component","observations":[{"content":"is slow"}, 7]}
{"type":"entity","name":"Foo queue","entityType":"component","observations":["was chosen in May"]}
{"type":"entity","name":"Ann","entityType":"user preference","observations":["likes short answers"]}
{"type":"entity","name":"Empty","entityType":"component","observations":[]}
{"type":"relation","from":"Foo queue","to":"Bar queue","relationType":"replaces"}
{"type":"relation","from":"Foo queue","to":"Ann","relationType":"owned_by"}
{"type":"entity","name":"Till","observations":[]}
{"type":"relation","from":" Till ","to":"Foo queue","relationType":"feeds"}
{"type":"entity","name":" ","observations":["has no name"]}
{"type":"relation","from":"Till","to":"","relationType":"feeds"}
{"type":"relation","from":"Ghost","to":"Till","relationType":"haunts"}
not json
"""


def test_the_graph_of_the_memory_server() -> None:
    (queue, ann, till), left = parse_graph(GRAPH)
    assert (queue.title, queue.type, queue.topics) == ("Foo queue", MemoryType.REFERENCE, ("component",))
    assert queue.content == (
        "# Foo queue\n\n- keeps orders\n- is slow\n- was chosen in May\n\n"
        "## Relations\n\n- replaces [[Bar queue]]\n- owned_by [[Ann]]"
    )
    assert [(edge.relation, edge.target) for edge in queue.relations] == [(Relation.SUPERSEDES, "Bar queue")]
    assert (ann.type, ann.content) == (MemoryType.PREFERENCE, "# Ann\n\n- likes short answers")
    assert till.content == "# Till\n\n\n## Relations\n\n- feeds [[Foo queue]]"
    assert left == {
        "lines that are not JSON": 1,
        "entries that are neither entities with a name nor relations of two": 2,
        "entities with neither observations nor relations to others": 1,
        "relations of entities that the file does not have": 1,
    }


def test_a_graph_in_one_object() -> None:
    entity = '{"name": "A", "entityType": "x", "observations": ["b"]}'
    (found,), left = parse_graph(f'{{"entities": [{entity}], "relations": []}}')
    assert (found.id, found.content, left) == ("A", "# A\n\n- b", {})


_TEXT = st.text() | st.lists(
    st.sampled_from(
        ["---", "# A", "## B", "- [x] y #z", "- supersedes [[Q]] (w)", "title: t", "```", "", "words " * 20]
    )
).map("\n".join)


@given(text=_TEXT)
def test_any_text_can_be_read_or_is_refused(text: str) -> None:
    parse_graph(text)
    for parse in (parse_note, parse_guidance):
        with suppress(UnreadableFile):
            parse(text, "name")


@given(text=_TEXT)
def test_sections_are_pieces_of_the_text_and_never_overlap(text: str) -> None:
    try:
        found = parse_guidance(text, "name")
    except UnreadableFile:
        return
    assert sum(len(each.content) for each in found) <= len(text)
    assert len({each.id for each in found}) == len(found)
