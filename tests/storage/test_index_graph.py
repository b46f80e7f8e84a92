"""The Index port: walks along the edges that files state."""

from __future__ import annotations

import pytest
from tests.samples import document, edge

from scrimshaw.models import EdgeKind, Neighbor
from scrimshaw.storage.index import Index


def put(index: Index, *edges: tuple[str, str], also: tuple[str, ...] = ()) -> None:
    """Memories with these edges; every target that is a source, or named in `also`, exists."""
    names = {source for source, _ in edges} | set(also)
    for name in sorted(names):
        own = tuple(edge(source, target) for source, target in edges if source == name)
        index.put([document(name, edges=own)])


def walked(index: Index, *starts: str, hops: int = 1, direction: str = "outgoing", relations: tuple[str, ...] = ()) -> (
    list[tuple[int, str, str]]
):  # fmt: skip
    found = index.neighbors(starts, hops=hops, direction=direction, relations=relations)
    return [(neighbor.hop, neighbor.source, neighbor.target) for neighbor in found]


def test_an_edge_tells_all_that_the_file_said(index: Index) -> None:
    index.put([document("a", edges=(edge("a", "b", "supersedes", strength=0.5, evidence="bench 3"),)), document("b")])
    assert index.neighbors(["a"], hops=1, direction="both") == [
        Neighbor(start="a", hop=1, source="a", target="b", relation="supersedes", strength=0.5, evidence="bench 3")
    ]
    assert index.neighbors(["b"], hops=1, direction="incoming")[0].start == "b"


@pytest.mark.parametrize(
    ("start", "direction", "expected"),
    [
        ("b", "outgoing", [(1, "b", "c")]),
        ("b", "incoming", [(1, "a", "b")]),
        ("b", "both", [(1, "a", "b"), (1, "b", "c")]),
        ("c", "outgoing", []),
        ("nothing", "both", []),
    ],
)
def test_edges_are_followed_in_the_direction_asked(
    index: Index, start: str, direction: str, expected: list[tuple[int, str, str]]
) -> None:
    put(index, ("a", "b"), ("b", "c"), also=("c",))
    assert walked(index, start, direction=direction) == expected


@pytest.mark.parametrize("hops", [1, 2, 3, 9])
def test_hops_bound_the_walk(index: Index, hops: int) -> None:
    chain = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "e")]
    put(index, *chain, also=("e",))
    expected = [(hop, source, target) for hop, (source, target) in enumerate(chain, start=1)]
    assert walked(index, "a", hops=hops) == expected[:hops]


def test_a_cycle_ends_and_each_edge_is_told_at_its_nearest_hop(index: Index) -> None:
    put(index, ("a", "b"), ("b", "c"), ("c", "a"))
    assert walked(index, "a", hops=9) == [(1, "a", "b"), (2, "b", "c"), (3, "c", "a")]
    put(index, ("x", "x"))
    assert walked(index, "x", hops=3) == [(1, "x", "x")]


def test_a_diamond_is_walked_once(index: Index) -> None:
    put(index, ("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "e"), also=("e",))
    assert walked(index, "a", hops=3) == [
        (1, "a", "b"), (1, "a", "c"), (2, "b", "d"), (2, "c", "d"), (3, "d", "e"),
    ]  # fmt: skip


def test_a_short_cut_is_told_at_its_hop(index: Index) -> None:
    put(index, ("a", "b"), ("b", "c"), ("a", "c"), ("c", "d"), also=("d",))
    assert walked(index, "a", hops=2) == [(1, "a", "b"), (1, "a", "c"), (2, "b", "c"), (2, "c", "d")]


def test_several_starts_are_told_apart(index: Index) -> None:
    put(index, ("a", "c"), ("b", "c"), also=("c",))
    found = index.neighbors(["a", "b"], hops=1, direction="outgoing")
    assert [(neighbor.start, neighbor.source) for neighbor in found] == [("a", "a"), ("b", "b")]


def test_relations_restrict_every_step(index: Index) -> None:
    index.put(
        [
            document("a", edges=(edge("a", "b", "caused"), edge("a", "c", "supports"))),
            document("b", edges=(edge("b", "d", "supports"),)),
            document("c", edges=(edge("c", "d", "caused"),)),
            document("d"),
        ]
    )
    assert walked(index, "a", hops=2, relations=("caused",)) == [(1, "a", "b")]
    assert walked(index, "a", hops=2, relations=("caused", "supports")) == [
        (1, "a", "b"), (1, "a", "c"), (2, "b", "d"), (2, "c", "d"),
    ]  # fmt: skip
    assert walked(index, "a", hops=2, relations=("contradicts",)) == []


def test_two_relations_to_one_memory_are_two_edges(index: Index) -> None:
    index.put([document("a", edges=(edge("a", "b", "caused"), edge("a", "b", "supports"))), document("b")])
    relations = [neighbor.relation for neighbor in index.neighbors(["a"], hops=2, direction="both")]
    assert relations == ["caused", "supports"]


def test_a_dangling_reference_waits_for_its_memory(index: Index) -> None:
    put(index, ("a", "later"))
    assert walked(index, "a") == []
    index.put([document("later")])
    assert walked(index, "a") == [(1, "a", "later")]
    index.retire(["/vault/later.md"])
    assert walked(index, "a") == []


def test_a_name_stands_for_the_first_memory_of_that_name(index: Index) -> None:
    put(index, ("a", "wal"), also=("storage/wal", "notes/wal"))
    assert walked(index, "a") == [(1, "a", "notes/wal")]
    index.put([document("wal")])
    assert walked(index, "a") == [(1, "a", "wal")]


def test_edges_go_with_their_memory(index: Index) -> None:
    put(index, ("a", "b"), also=("b",))
    index.put([document("a")])
    assert walked(index, "b", direction="incoming") == []
    put(index, ("a", "b"))
    index.retire(["/vault/a.md"])
    assert walked(index, "b", direction="incoming") == []


def test_a_walk_tells_its_way_and_its_strength(index: Index) -> None:
    index.put(
        [
            document("a", edges=(edge("a", "b", strength=0.5), edge("a", "c", strength=0.25))),
            document("b", edges=(edge("b", "d", strength=0.5),)),
            document("c", edges=(edge("c", "d", strength=1.0),)),
            document("d", edges=(edge("d", "e", strength=0.1),)),
            document("e"),
        ]
    )
    last = index.neighbors(["a"], hops=3, direction="outgoing")[-1]
    assert (last.hop, last.place, last.strength, last.path_strength, last.outward) == (3, "e", 0.1, 0.25, True)
    back = index.neighbors(["b"], hops=1, direction="incoming")[0]
    assert (back.place, back.outward, back.path_strength) == ("a", False, 1.0)


# Edges as they are written


def test_edges_are_told_with_the_memory_they_mean(index: Index) -> None:
    index.put([document("a", edges=(edge("a", "wal"), edge("a", "nowhere", "caused"))), document("storage/wal")])
    index.put([document("b", edges=(edge("b", "a"),))])
    assert index.edges("a") == [(edge("a", "nowhere", "caused"), ""), (edge("a", "wal"), "storage/wal")]
    assert [(each.source, target) for each, target in index.edges()] == [("a", ""), ("a", "storage/wal"), ("b", "a")]
    assert index.edges("absent") == []
    assert index.edges("a", "b", relation="caused") == [(edge("a", "nowhere", "caused"), "")]


def test_outside_links_are_replaced_as_a_whole(index: Index) -> None:
    put(index, ("a", "b"), also=("b", "c"))
    pairs = (("b", "c"), ("a", "b"), ("absent", "c"))
    links = [edge(source, target, kind=EdgeKind.EXTERNAL, strength=0.5) for source, target in pairs]
    index.put_links(links)
    assert [(each.source, each.target, each.kind) for each, _ in index.edges()] == [
        ("a", "b", EdgeKind.RELATION),
        ("b", "c", EdgeKind.EXTERNAL),
    ]
    assert walked(index, "a", hops=2) == [(1, "a", "b"), (2, "b", "c")]
    generation = index.generation()
    index.put_links(links)
    assert index.generation() == generation
    index.put_links([])
    assert walked(index, "a", hops=2) == [(1, "a", "b")]


def test_an_older_name_is_followed_until_a_memory_has_it(index: Index) -> None:
    put(index, ("a", "old"), ("b", "topic/old"), ("new", "b"), also=("x/old",))
    renames = {"old": "new", "topic/old": "new", "elsewhere": "gone"}
    index.put_renames(renames)
    assert [meant for _, meant in index.edges()] == ["new", "new", "b"]
    assert walked(index, "a", hops=3) == [(1, "a", "new"), (2, "new", "b"), (3, "b", "new")]
    assert walked(index, "new", direction="incoming") == [(1, "a", "new"), (1, "b", "new")]
    assert [(each.source, meant) for each, meant in index.edges("new", into=True)] == [("a", "new"), ("b", "new")]
    generation = index.generation()
    index.put_renames(renames)
    assert index.generation() == generation
    index.put([document("old")])
    assert walked(index, "a") == [(1, "a", "old")]
    assert walked(index, "new", direction="incoming") == [(1, "b", "new")]
    index.put_renames({})
    assert walked(index, "b") == []
