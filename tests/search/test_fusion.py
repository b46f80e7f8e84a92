from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scrimshaw.models import Channel, Match
from scrimshaw.search.fusion import Fused, fuse

TEXT, VECTOR = Channel.TEXT, Channel.VECTOR
Listed = tuple[str, list[Match]]
WEIGHTS = {TEXT: 1.0, VECTOR: 1.5, "trigger": 0.5, "graph": 0.25}
IDS = [f"area/{letter}" for letter in "abcdefghijkl"]
SHALLOW, DEEP = 4, 100


def listed(channel: str, scores: dict[str, float]) -> Listed:
    ids = sorted(scores, key=lambda id_: (-scores[id_], id_))
    return channel, [Match(id=id_, score=scores[id_]) for id_ in ids]


def fused(lists: Sequence[Listed], weights: Mapping[str, float] = WEIGHTS, depth: int = DEEP) -> list[Fused]:
    """Fused with weights and a depth to go by."""
    return fuse(dict(lists), weights, depth)


def by_id(hits: Sequence[Fused]) -> dict[str, Fused]:
    return {hit.id: hit for hit in hits}


def order(hits: Sequence[Fused]) -> list[str]:
    return [hit.id for hit in hits]


def test_nothing_fuses_to_nothing() -> None:
    assert fused([]) == []
    assert fused([(TEXT, []), (VECTOR, [])]) == []


@pytest.mark.parametrize(
    ("channel", "scores", "expected"),
    [
        (TEXT, {"a": 8.0, "b": 4.0}, {"a": 1.0, "b": 0.5}),
        (TEXT, {"a": 8.0}, {"a": 1.0}),
        (TEXT, {"a": 0.5, "b": 0.25}, {"a": 1.0, "b": 0.5}),
        (TEXT, {"a": 0.0, "b": 0.0}, {"a": 0.0, "b": 0.0}),
        (VECTOR, {"a": 0.7, "b": 0.5, "c": 0.1}, {"a": 1.0, "b": 0.5, "c": 0.0}),
        (VECTOR, {"a": -0.2}, {"a": 1.0}),
        ("trigger", {"a": 1.0, "b": 0.25}, {"a": 1.0, "b": 0.25}),
        ("graph", {"a": 3.0, "b": -1.0}, {"a": 1.0, "b": 0.0}),
    ],
)
def test_one_list_keeps_its_order(channel: str, scores: dict[str, float], expected: dict[str, float]) -> None:
    hits = fused([listed(channel, scores)], WEIGHTS)
    assert order(hits) == sorted(scores, key=lambda id_: (-scores[id_], id_))
    assert {hit.id: hit.score for hit in hits} == pytest.approx(expected)


def test_a_full_list_counts_from_its_last_score() -> None:
    full = {"a": 8.0, "b": 6.0, "c": 5.0, "d": 4.0}
    scores = {hit.id: hit.score for hit in fused([listed(TEXT, full)], WEIGHTS, SHALLOW)}
    assert scores == pytest.approx({"a": 0.5, "b": 0.25, "c": 0.125, "d": 0.0})
    cosines = {"a": 0.6, "b": 0.55, "c": 0.5, "d": 0.4}
    scores = {hit.id: hit.score for hit in fused([listed(VECTOR, cosines)], WEIGHTS, SHALLOW)}
    assert scores == pytest.approx({"a": 0.5, "b": 0.375, "c": 0.25, "d": 0.0})


@pytest.mark.parametrize(("count", "last"), [(99, 2.0 / 100.0), (100, 0.0)])
def test_a_list_is_full_with_a_hundred_candidates(count: int, last: float) -> None:
    scores = {f"m{place:03}": 100.0 - place for place in range(count - 1)} | {"z": 2.0}
    assert fused([listed(TEXT, scores)])[-1].score == pytest.approx(last)


def test_weights_share_what_lists_that_agree_on_nothing_can_give() -> None:
    hits = by_id(fused([listed(TEXT, {"a": 1.0}), listed("trigger", {"b": 1.0})], {TEXT: 1.0, "trigger": 1.4}))
    assert (hits["a"].score, hits["b"].score) == pytest.approx((5 / 12, 7 / 12))


def test_what_is_near_in_meaning_may_use_other_words() -> None:
    """Words count at least as much as meaning less .45; what has them is not raised, and none of it without vectors."""
    text = listed(TEXT, {"named": 8.0, "mentioned": 2.0})
    cosines = listed(VECTOR, {"near": 0.8, "mentioned": 0.8, "beside": 0.55, "named": 0.8})
    hits = by_id(fused([text, cosines]))
    assert hits["near"].score == hits["mentioned"].score == pytest.approx(0.4 * 0.55 + 0.6)
    assert hits["beside"].score == pytest.approx(0.6 * 0.375)
    assert hits["named"].score == 1.0
    assert fused([text, cosines], {TEXT: 1.0, VECTOR: 0.0})[-1].score == 0.0
    assert hits["near"].ranks.keys() == {VECTOR}


def test_the_list_with_a_standout_decides() -> None:
    """A rare word found in one memory outweighs cosines that hardly differ, and the other way round."""
    flat_text = listed(TEXT, {"a": 5.0, "b": 4.9, "c": 4.8, "d": 4.7})
    flat_cosines = listed(VECTOR, {"d": 0.32, "c": 0.31, "b": 0.30, "a": 0.29})
    standout_text = listed(TEXT, {"a": 20.0, "b": 5.0, "c": 4.0, "d": 4.0})
    standout_cosines = listed(VECTOR, {"d": 0.75, "c": 0.40, "b": 0.35, "a": 0.30})
    assert fused([standout_text, flat_cosines], WEIGHTS, SHALLOW)[0].id == "a"
    assert fused([flat_text, standout_cosines], WEIGHTS, SHALLOW)[0].id == "d"


def test_a_hit_says_where_it_comes_from() -> None:
    hits = by_id(fused([listed(TEXT, {"a": 9.0, "b": 6.0}), listed(VECTOR, {"b": 0.5})], WEIGHTS))
    assert hits["b"].ranks == {TEXT: 2, VECTOR: 1}
    assert hits["b"].raw == {TEXT: 6.0, VECTOR: 0.5}
    assert hits["b"].score == pytest.approx(0.8 / 3 + 0.6)
    assert hits["a"].ranks == {TEXT: 1}


def test_equal_scores_go_by_id() -> None:
    assert order(fused([listed("trigger", dict.fromkeys("cab", 0.5))], WEIGHTS)) == ["a", "b", "c"]


def test_a_score_above_one_takes_no_more_than_the_share_of_its_channel() -> None:
    hits = by_id(fused([listed("graph", {"a": 3.0}), listed(TEXT, {"b": 2.0})], WEIGHTS))
    assert hits["a"].score == pytest.approx(0.2)


def test_an_empty_list_takes_no_share() -> None:
    assert fused([listed(TEXT, {"a": 2.0}), ("unknown", [])])[0].score == 1.0


def test_a_weight_of_zero_keeps_candidates_without_a_share() -> None:
    hits = by_id(fused([listed(TEXT, {"a": 2.0}), listed(VECTOR, {"b": 0.9})], {TEXT: 1.0, VECTOR: 0.0}))
    assert hits["a"].score == 1.0
    assert hits["b"].score == 0.0
    assert fused([listed(TEXT, {"a": 2.0})], {TEXT: 0.0})[0].score == 0.0


@pytest.mark.parametrize(("without_vector", "score"), [((), 0.4), (("new",), 1.0)])
def test_what_lacks_a_vector_is_taken_to_be_as_near_as_its_words(without_vector: tuple[str, ...], score: float) -> None:
    lists = dict([listed(TEXT, {"new": 4.0, "old": 3.0}), listed(VECTOR, {"old": 0.9})])
    found = by_id(fuse(lists, WEIGHTS, DEEP, without_vector=without_vector))
    assert [found["new"].score, found["old"].score] == pytest.approx([score, 0.4 * 0.75 + 0.6])


def test_a_channel_without_a_weight_is_refused() -> None:
    with pytest.raises(KeyError):
        fused([listed("unknown", {"a": 1.0})])


_RANGES = {TEXT: (0.0, 40.0), VECTOR: (-1.0, 1.0), "trigger": (0.0, 1.0), "graph": (0.0, 1.0)}


@st.composite
def channel_lists(draw: st.DrawFn) -> list[Listed]:
    chosen = draw(st.lists(st.sampled_from(sorted(_RANGES)), unique=True, max_size=4))
    return [
        listed(name, draw(st.dictionaries(st.sampled_from(IDS), st.floats(*_RANGES[name]), max_size=8)))
        for name in chosen
    ]


depths = st.integers(1, 10)


@given(lists=channel_lists(), depth=depths, data=st.data())
def test_the_order_of_lists_does_not_matter(lists: list[Listed], depth: int, data: st.DataObject) -> None:
    assert fused(data.draw(st.permutations(lists)), WEIGHTS, depth) == fused(lists, WEIGHTS, depth)


@given(lists=channel_lists(), depth=depths)
def test_every_candidate_once_best_first_within_bounds(lists: list[Listed], depth: int) -> None:
    hits = fused(lists, WEIGHTS, depth)
    assert sorted(order(hits)) == sorted({match.id for _, matches in lists for match in matches})
    assert [(-hit.score, hit.id) for hit in hits] == sorted((-hit.score, hit.id) for hit in hits)
    for hit in hits:
        assert 0.0 <= hit.score <= 1.0
        assert set(hit.ranks) == set(hit.raw)


@given(lists=channel_lists(), depth=depths, gain=st.floats(0.0, 30.0), data=st.data())
def test_a_better_raw_score_never_lowers_the_fused_one(
    lists: list[Listed], depth: int, gain: float, data: st.DataObject
) -> None:
    assume(any(matches for _, matches in lists))
    chosen = data.draw(st.sampled_from([each for each in lists if each[1]]))
    raised = data.draw(st.sampled_from([match.id for match in chosen[1]]))
    scores = {match.id: match.score + (gain if match.id == raised else 0.0) for match in chosen[1]}
    better = [listed(each[0], scores) if each is chosen else each for each in lists]
    before = by_id(fused(lists, WEIGHTS, depth))[raised].score
    assert by_id(fused(better, WEIGHTS, depth))[raised].score >= before - 1e-9


@given(lists=channel_lists(), depth=depths, factor=st.sampled_from([0.25, 2.0, 8.0]))
def test_weights_are_relative(lists: list[Listed], depth: int, factor: float) -> None:
    scaled = {channel: weight * factor for channel, weight in WEIGHTS.items()}
    assert fused(lists, scaled, depth) == fused(lists, WEIGHTS, depth)
