"""Walks against a walk that knows nothing of databases, and the edges and links an index keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import document, edge

from scrimshaw.errors import UnreadableFile
from scrimshaw.models import Edge, EdgeKind, Relation
from scrimshaw.storage.databases import Storage
from scrimshaw.storage.index import Index
from scrimshaw.storage.toml_files import read_links, render_links

IDS = ("a", "b", "x/c", "y/c", "x/d", "e")
REFERENCES = (*IDS, "c", "d", "gone")
MEANT = {**{name: name for name in IDS}, "c": "x/c", "d": "x/d"}
RELATIONS = ("supports", "caused", "supersedes")

triples = st.tuples(st.sampled_from(IDS), st.sampled_from(REFERENCES), st.sampled_from(RELATIONS))
graphs = st.dictionaries(triples, st.floats(0, 1), max_size=12)
Step = tuple[str, int, str, str, str]


def expected(
    graph: dict[tuple[str, str, str], float], start: str, hops: int, direction: str, relations: Sequence[str]
) -> dict[Step, float]:
    """Every edge at its nearest hop, with the strongest of the shortest ways to it."""
    edges = _resolved(graph, relations)
    ways, found = {start: 1.0}, dict[Step, float]()
    fresh = {start}
    for hop in range(1, hops + 1):
        reached: dict[str, float] = {}
        met: dict[Step, float] = {}
        for triple, near, far in _ends(edges, direction):
            if near in fresh and not any(known[2:] == triple for known in found):
                met[start, hop, *triple] = max(ways[near], met.get((start, hop, *triple), 0.0))
                reached[far] = max(ways[near] * edges[triple], reached.get(far, 0.0))
        found |= met
        fresh = reached.keys() - ways.keys()
        ways = reached | ways
    return found


def _resolved(graph: dict[tuple[str, str, str], float], relations: Sequence[str]) -> dict[tuple[str, str, str], float]:
    edges: dict[tuple[str, str, str], float] = {}
    for (source, reference, relation), strength in graph.items():
        if reference in MEANT and (not relations or relation in relations):
            key = (source, MEANT[reference], relation)
            edges[key] = max(strength, edges.get(key, 0.0))
    return edges


def _ends(edges: Iterable[tuple[str, str, str]], direction: str) -> Iterator[tuple[tuple[str, str, str], str, str]]:
    for triple in edges:
        source, target, _ = triple
        if direction != "incoming":
            yield triple, source, target
        if direction != "outgoing":
            yield triple, target, source


@pytest.mark.slow
@given(
    graphs,
    st.sets(st.sampled_from(IDS), min_size=1),
    st.integers(1, 10),
    st.sampled_from(["outgoing", "incoming", "both"]),
    st.sets(st.sampled_from(RELATIONS)),
)
@settings(max_examples=60, deadline=None)
def test_an_index_walks_like_a_walk_over_all_edges(
    tmp_path_factory: pytest.TempPathFactory,
    graph: dict[tuple[str, str, str], float],
    starts: set[str],
    hops: int,
    direction: str,
    relations: set[str],
) -> None:
    storage = Storage(tmp_path_factory.mktemp("graph"), busy_timeout_ms=1000)
    index = storage.index
    for name in IDS:
        own = [
            edge(name, reference, relation, strength=strength)
            for (source, reference, relation), strength in graph.items()
            if source == name
        ]
        index.put([document(name, edges=tuple(own))])
    found = index.neighbors(sorted(starts), hops=hops, direction=direction, relations=sorted(relations))
    storage.close()
    wanted: dict[Step, float] = {}
    for start in starts:
        wanted |= expected(graph, start, hops, direction, sorted(relations))
    told = {(n.start, n.hop, n.source, n.target, n.relation): n.path_strength for n in found}
    assert told == pytest.approx(wanted)
    assert len(told) == len(found)


def test_the_way_tells_its_direction_and_strength(index: Index) -> None:
    index.put([document("a", edges=(edge("a", "b", strength=0.5),))])
    index.put([document("b"), document("c", edges=(edge("c", "b", strength=0.4),))])
    first, second = index.neighbors(["a"], hops=2, direction="both")
    assert (first.place, first.outward, first.path_strength) == ("b", True, 1.0)
    assert (second.place, second.outward, second.path_strength) == ("c", False, 0.5)


def test_edges_come_as_written_with_what_they_mean(index: Index) -> None:
    own = (edge("a", "wal"), edge("a", "gone", "caused"), edge("a", "b", "link", kind=EdgeKind.LINK))
    index.put([document("a", edges=own), document("b", edges=(edge("b", "a"),)), document("storage/wal")])
    assert index.edges("a") == [(own[1], ""), (own[2], "b"), (own[0], "storage/wal")]
    assert [each.source for each, _ in index.edges()] == ["a", "a", "a", "b"]
    assert index.edges("nothing") == []


def test_an_edge_of_neighbours_is_one_where_both_are_there(index: Index) -> None:
    own = edge("work/spec", "work/plan", "caused", kind=EdgeKind.NEIGHBOURS)
    index.put([document("work/spec", edges=(own,)), document("spec")])
    assert index.edges() == []
    index.put([document("work/plan")])
    assert index.edges("work/spec") == [(own, "work/plan")]
    assert [each.place for each in index.neighbors(["work/plan"], hops=1, direction="both")] == ["work/spec"]


def link(source: str, target: str, strength: float = 1.0, evidence: str = "") -> Edge:
    return edge(source, target, Relation.SUPPORTS, kind=EdgeKind.EXTERNAL, strength=strength, evidence=evidence)


def test_links_replace_the_links_before_and_wait_for_their_source(index: Index) -> None:
    index.put([document("a"), document("b")])
    links = [link("a", "b", 0.5, "seen"), link("later", "a")]
    index.put_links(links)
    assert [each for each, _ in index.edges()] == links[:1]
    index.put([document("later")])
    index.put_links(links)
    assert [each for each, _ in index.edges()] == links
    index.put_links([])
    assert index.edges() == []


def test_the_index_changes_only_when_its_links_do(index: Index) -> None:
    index.put([document("a"), document("b")])
    before = index.generation()
    index.put_links([])
    assert index.generation() == before
    index.put_links([link("a", "b")])
    changed = index.generation()
    assert changed > before
    index.put_links([link("a", "b")])
    assert index.generation() == changed


def test_what_a_file_states_itself_stands(index: Index) -> None:
    own = edge("a", "b", Relation.SUPPORTS, strength=0.9)
    index.put([document("a", edges=(own,)), document("b")])
    index.put_links([link("a", "b", 0.1)])
    assert index.edges() == [(own, "b")]
    index.put_links([])
    assert index.edges() == [(own, "b")]


# The links file

texts = st.text(st.characters(codec="utf-8"), max_size=20)
names = texts.filter(bool)


@given(st.lists(st.builds(link, names, names, st.floats(0, 1), texts), max_size=5))
@settings(deadline=None)
def test_links_survive_their_file(tmp_path_factory: pytest.TempPathFactory, links: list[Edge]) -> None:
    path = tmp_path_factory.mktemp("links") / "links.toml"
    path.write_text(render_links([]))
    path.write_text(render_links(links), encoding="utf-8", newline="")
    found = read_links(path, lambda text: text)
    assert sorted(map(repr, found)) == sorted(map(repr, links))
    assert render_links(found) == render_links(links)


@pytest.mark.parametrize(
    "text",
    [
        "[[link]]\nsource = 'a'\n",
        "[[link]]\nsource = 'a'\ntarget = 'b'\nrelation = 'likes'\n",
        "[[link]]\nsource = 'a'\ntarget = 'b'\nrelation = 'caused'\nstrength = 2\n",
        "[[link]]\nsource = 'a'\ntarget = 'b'\nrelation = 'caused'\nweight = 1\n",
        "<<<<<<< HEAD\n",
        "link = 3\n",
    ],
)
def test_a_broken_links_file_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "links.toml"
    path.write_text(text)
    with pytest.raises(UnreadableFile, match=r"links\.toml"):
        read_links(path, str)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UnreadableFile):
        read_links(path, str)


def test_no_links_file_means_no_links(tmp_path: Path) -> None:
    assert read_links(tmp_path / "links.toml", str) == ()
