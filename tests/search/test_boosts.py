"""Boosts: how much, for whom, and never more than the cap."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.models import Neighbor, Relation
from scrimshaw.search.rerank import cap_boosts, causal_boosts
from scrimshaw.storage.graph import Link, walk

CAP = 0.20
NAMES = "abcdef"

shares = st.floats(min_value=0, max_value=1)
contributions = st.dictionaries(st.text(max_size=4), shares, max_size=6)
links = st.lists(
    st.builds(
        Link,
        source=st.sampled_from(NAMES),
        target=st.sampled_from(NAMES),
        relation=st.sampled_from(list(Relation)),
        strength=shares,
        evidence=st.just(""),
    ),
    max_size=14,
)
seed_scores = st.dictionaries(st.sampled_from(NAMES), shares, max_size=4)


def step(start: str, target: str, hop: int = 1, relation: str = "supports", **fields: float | bool | str) -> Neighbor:
    values = {"source": start, "strength": 1.0, "evidence": "", **fields}
    return Neighbor(start=start, hop=hop, target=target, relation=relation, **values)  # type: ignore[arg-type]  # mixed


def boosts_around(seeds: Mapping[str, float], *edges: tuple[str, str, str, float], hops: int = 2) -> dict[str, float]:
    """What the neighbours of the seeds gain over these (source, target, relation, strength)."""
    found = walk(seeds, [Link(*edge, evidence="") for edge in edges], hops=hops, direction="both")
    return {name: round(gain, 6) for name, gain in causal_boosts(seeds, found, 0.05).items()}


def test_nothing_to_go_by_lifts_nothing() -> None:
    assert causal_boosts({}, [], 0.05) == {}
    assert causal_boosts({"a": 1.0}, [], 0.05) == {}
    assert causal_boosts({}, [step("a", "b")], 0.05) == {}
    assert causal_boosts({"a": 0.0}, [step("a", "b")], 0.05) == {}
    assert cap_boosts({}, CAP) == {}
    assert cap_boosts({"session": 0.0, "causal": 0.0}, CAP) == {}


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ([("a", "b", "supports", 1.0)], {"b": 0.05}),
        ([("b", "a", "caused", 1.0)], {"b": 0.05}),
        ([("a", "b", "supports", 0.4)], {"b": 0.02}),
        ([("a", "b", "supports", 0.8), ("b", "c", "enabled", 0.5)], {"b": 0.04, "c": 0.01}),
        ([("a", "b", "supports", 0.1), ("a", "c", "caused", 1.0), ("c", "b", "caused", 1.0)], {"b": 0.025, "c": 0.05}),
        ([("a", "b", "supports", 1.0), ("a", "c", "supports", 0.2), ("b", "d", "caused", 0.5),
          ("c", "d", "caused", 1.0)], {"b": 0.05, "c": 0.01, "d": 0.0125}),
        ([("a", "b", "supports", 1.0), ("b", "a", "caused", 1.0)], {"b": 0.05}),
        ([("a", "a", "supports", 1.0)], {}),
        ([("a", "b", "supports", 0.0)], {}),
    ],
    ids=["outgoing", "incoming", "strength", "two hops", "strong detour", "diamond", "cycle", "self", "no strength"],
)  # fmt: skip
def test_the_best_way_counts(edges: list[tuple[str, str, str, float]], expected: dict[str, float]) -> None:
    assert boosts_around({"a": 1.0}, *edges) == expected


def test_the_new_one_is_lifted_and_the_superseded_is_not() -> None:
    edge = ("new", "old", "supersedes", 1.0)
    assert boosts_around({"old": 1.0}, edge) == {"new": 0.05}
    assert boosts_around({"new": 1.0}, edge) == {}


def test_a_weak_hit_lifts_in_proportion_and_lifts_of_several_are_not_added() -> None:
    edges = [("a", "c", "supports", 1.0), ("b", "c", "supports", 1.0), ("b", "d", "supports", 1.0)]
    assert boosts_around({"a": 0.8, "b": 0.2}, *edges, hops=1) == {"c": 0.05, "d": 0.0125}


def test_a_hit_may_be_lifted_by_another() -> None:
    assert boosts_around({"a": 1.0, "b": 0.5}, ("a", "b", "supports", 1.0)) == {"a": 0.025, "b": 0.05}


@given(links, seed_scores, st.integers(1, 4), st.randoms())
def test_the_order_of_the_input_does_not_matter(
    edges: list[Link], seeds: dict[str, float], hops: int, random: object
) -> None:
    found = walk(seeds, edges, hops=hops, direction="both")
    shuffled = found[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis gives a random.Random
    assert causal_boosts(seeds, found, 0.05) == causal_boosts(dict(reversed(seeds.items())), shuffled, 0.05)
    assert found == walk(list(reversed(seeds)), edges[::-1], hops=hops, direction="both")


@given(links, seed_scores, st.integers(1, 4))
def test_a_causal_boost_is_at_most_the_share_per_hop(edges: list[Link], seeds: dict[str, float], hops: int) -> None:
    gains = causal_boosts(seeds, walk(seeds, edges, hops=hops, direction="both"), 0.05)
    assert all(0 < gain <= 0.05 for gain in gains.values())


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({"session": 0.15, "causal": 0.05}, {"session": 0.15, "causal": 0.05}),
        ({"session": 0.30, "causal": 0.10}, {"session": 0.15, "causal": 0.05}),
        ({"session": 0.30, "causal": 0.0}, {"session": 0.20}),
        ({"causal": 0.03}, {"causal": 0.03}),
    ],
)
def test_contributions_shrink_together(parts: dict[str, float], expected: dict[str, float]) -> None:
    assert cap_boosts(parts, CAP) == pytest.approx(expected)


def test_a_sum_at_the_cap_is_left_as_it_is() -> None:
    assert cap_boosts({"session": 0.125, "causal": 0.0625}, 0.1875) == {"session": 0.125, "causal": 0.0625}


@given(contributions, st.just(0.0) | st.floats(min_value=1e-6, max_value=0.5))
def test_the_cap_is_never_exceeded(parts: dict[str, float], limit: float) -> None:
    held = cap_boosts(parts, limit)
    assert sum(held.values()) <= limit
    assert all(held[name] <= parts[name] for name in held)
    assert held.keys() == {name for name, part in parts.items() if part > 0}
