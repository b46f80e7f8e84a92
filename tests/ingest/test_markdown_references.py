from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.ingest.markdown import (
    SUPERSEDED_BY,
    parse_links,
    parse_page,
    parse_reference,
    parse_relations,
    parse_status,
    parse_strength,
)
from scrimshaw.models import EdgeKind


def targets(body: str, memory_id: str = "a/b/me") -> list[str]:
    return [edge.target for edge in parse_links(parse_page(body), memory_id)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("[[name]]", ["name"]),
        ("[[folder/name#Part|shown *so*]]", ["folder/name"]),
        ("[[ Two words.md ]]", ["Two words"]),
        ("[[./near]] [[../up]] [[../../../out]]", ["a/b/near", "a/up"]),
        ("| [[in a table\\|alias]] |\n|---|\n| [[cell]] |", ["in a table", "cell"]),
        ("see mem:ops/retry-budget, or `mem:ops/other`.", ["ops/retry-budget", "ops/other"]),
        ("[[mem:name]] [x](mem:other)", ["name", "other"]),
        ("[x](foo.md) [y](../foo.md#bar) [z](/foo.md)", ["a/b/foo", "a/foo"]),
        ("[x](sub/./My%20note.md?plain=1 'title')", ["a/b/sub/My note"]),
        ("[x](../../top.md) [y](../../../out.md) [z](../../..md)", ["top"]),
        ("[text][ref] and [short]\n\n[ref]: ../foo.md\n[short]: bar.md", ["a/foo", "a/b/bar"]),
        ("# [in a heading](h.md)\n\n> - [quoted](q.md)", ["a/b/h", "a/b/q"]),
        ("[[twice]] [[twice#there]]", ["twice"]),
        ("[same](me.md) [[me]] [[a/b/me]] [part](#part)", []),
        ("[x](https://example.org/a.md) <https://example.org/b.md> [y](file:c.md) [z](//host/d.md)", []),
        ("![image](foo.md) ![[embedded#part]] [code](../run.py)", ["embedded"]),
        ("```\n[[fenced]] [x](y.md)\n```\n\n    [[indented]]\n", []),
        ("`[[span]]` `[x](y.md)` `see mem:name`", []),
        ('\\[[escaped]] [[:space:]] [[ "$A" == "b" ]] [[]] [[a\nb]]', []),
        ("poem:name item.mem:name", []),
        ("<!-- [[hidden]] -->\n", []),
    ],
)
def test_links_in_text(body: str, expected: list[str]) -> None:
    assert targets(body) == expected


def test_a_link_is_an_edge_from_its_memory() -> None:
    (edge,) = parse_links(parse_page("[[b]]"), "a")
    assert (edge.source, edge.target, edge.relation, edge.kind) == ("a", "b", "link", EdgeKind.LINK)


@pytest.mark.parametrize(
    ("body", "relation", "target"),
    [
        ("## Status\n\nSuperseded by [ADR-2](0002-go.md)\n", SUPERSEDED_BY, "adr/0002-go"),
        ("Date: 2026-09-27.\nStatus: superseded by [ADR 2](./0002-go.md#decision).\n", SUPERSEDED_BY, "adr/0002-go"),
        ("> **Status: Superseded by [2](0002-go.md) (Voyage), 2026-05-29.**", SUPERSEDED_BY, "adr/0002-go"),
        ("* Status: deprecated, replaced by [2](0002-go.md 'Go')", SUPERSEDED_BY, "adr/0002-go"),
        ("**Status:** Ersetzt durch [2](../adr/0002-go.md)", SUPERSEDED_BY, "adr/0002-go"),
        ("| Status | Superseded by [2](0002-go.md) |\n|---|---|\n", SUPERSEDED_BY, "adr/0002-go"),
        ("Accepted. Supersedes [ADR-0](0000-c.md)", "supersedes", "adr/0000-c"),
        ("- **Status:** Accepted (2026-07-13). **Supersedes [0](0000-c.md)** (in words)", "supersedes", "adr/0000-c"),
        ("Accepted\n\nSupersedes [`0. C`](0000-c.md)\n", "supersedes", "adr/0000-c"),
        ("**Status:** Accepted — Supersedes: [0](0000-c.md)", "supersedes", "adr/0000-c"),
        ("Accepted (replaces [0](0000-c.md))", "supersedes", "adr/0000-c"),
    ],
)
def test_the_status_of_a_decision_record_relates_it(body: str, relation: str, target: str) -> None:
    (edge,) = parse_status(parse_page(body), "adr/0001-kotlin")
    assert (edge.source, edge.relation, edge.target) == ("adr/0001-kotlin", relation, target)


@pytest.mark.parametrize(
    "body",
    [
        "Partly superseded by [2](0002-go.md)",
        "Accepted; the platform store superseded by [2](0002-go.md)",
        "Supersedes [0](0000-c.md) (in part)",
        "Superseded by ADR-2",
        "Superseded by [a guide](../guide.md), superseded by [a site](https://x.io/a.md), replaces [x](run.py)",
        "Supersedes [itself](0001-kotlin.md)",
        "This cache replaces [C](0000-c.md) in most places, as it superseded [C](0000-c.md)",
        "```\nSuperseded by [2](0002-go.md)\n```\n\n`Superseded by [2](0002-go.md)`",
    ],
)
def test_other_lines_of_a_decision_record_do_not(body: str) -> None:
    assert [*parse_status(parse_page(body), "adr/0001-kotlin")] == []


@given(st.lists(st.sampled_from(["[", "]", "(", ")", "a.md", "../", "|", "#", "mem:", "`", "!", "\\", "\n", "x", " "])))
def test_no_target_leaves_the_source_or_names_its_own_memory(parts: list[str]) -> None:
    for target in targets("".join(parts)):
        assert target not in ("", "a/b/me", "me")
        assert not target.startswith(("/", "../"))


def test_relations_in_both_forms() -> None:
    stated = {
        "supersedes": ["x.md", "[[y]]", "x"],
        "supports": [{"id": "mem:z", "strength": "0.8", "evidence": "bench\n3"}, {"strength": "1"}, None, ["n"]],
        "caused": "single",
        "enabled": {"id": "one", "strength": "7"},
        "contradicts": ["me", ""],
        "resembles": ["unknown relation"],
        "derived_from": None,
    }
    edges = parse_relations({"relations": stated}, "me", str.upper)
    assert {(e.relation, e.target, e.strength, e.evidence) for e in edges} == {
        ("supersedes", "X", 1.0, ""),
        ("supersedes", "Y", 1.0, ""),
        ("supports", "Z", 0.8, "BENCH 3"),
        ("caused", "SINGLE", 1.0, ""),
        ("enabled", "ONE", 1.0, ""),
        ("contradicts", "ME", 1.0, ""),
    }
    assert {edge.kind for edge in edges} == {EdgeKind.RELATION}


def test_a_memory_has_no_relation_to_itself() -> None:
    assert parse_relations({"relations": {"supports": ["me", "me.md"]}}, "me", str) == ()


@pytest.mark.parametrize("values", [{}, {"relations": None}, {"relations": "x"}, {"relations": ["x"]}])
def test_loose_relations_are_no_relations(values: dict[str, object]) -> None:
    assert parse_relations(values, "me", str) == ()


@pytest.mark.parametrize(
    ("value", "strength"),
    [("0.5", 0.5), (2, 1.0), ("-1", 0.0), ("nan", 1.0), ("inf", 1.0), ("strong", 1.0), (None, 1.0), ([], 1.0)],
)
def test_strength_is_held_within_its_range(value: object, strength: float) -> None:
    assert parse_strength(value) == strength


@pytest.mark.parametrize(
    ("text", "name"),
    [(" a/b.md#c ", "a/b"), ("[[x|y]]", "x"), ("mem:a/", "a"), ("release-1.2", "release-1.2"), ("#only", "")],
)
def test_reference_is_the_bare_name(text: str, name: str) -> None:
    assert parse_reference(text) == name
