from __future__ import annotations

import math

import ir_measures
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ir_measures import RR, Qrel, ScoredDoc, Success, nDCG

from scrimshaw_lab.metrics import answers_among, hit_at, mrr_at, ndcg_at, percentile

IDS = st.sampled_from([f"m{number}" for number in range(15)])
RANKINGS = st.lists(IDS, unique=True, max_size=15)
GRADES = st.dictionaries(IDS, st.integers(0, 3), min_size=1).filter(lambda grades: any(grades.values()))


@pytest.mark.parametrize(
    ("ranking", "grades", "expected"),
    [
        (["a", "b"], {"a": 2, "b": 1}, 1.0),
        (["b", "a"], {"a": 2, "b": 1}, (1 + 3 / math.log2(3)) / (3 + 1 / math.log2(3))),
        (["x", "a"], {"a": 2}, 1 / math.log2(3)),
        (["x", "y"], {"a": 2}, 0.0),
        ([], {"a": 1}, 0.0),
        (["a"], {}, 0.0),
        (["a"], {"a": 0}, 0.0),
        (["a"], {"a": 1, "b": 1, "c": 1}, 1 / (1 + 1 / math.log2(3))),
    ],
)
def test_ndcg_gains_two_to_the_grade_and_discounts_by_place(
    ranking: list[str], grades: dict[str, int], expected: float
) -> None:
    assert ndcg_at(ranking, grades, 2) == pytest.approx(expected)


def test_what_stands_beyond_the_cutoff_counts_nothing() -> None:
    ranking = ["x", "y", "a"]
    assert (ndcg_at(ranking, {"a": 2}, 2), mrr_at(ranking, {"a"}, 2), hit_at(ranking, {"a"}, 2)) == (0, 0, 0)
    assert (mrr_at(ranking, {"a"}, 3), hit_at(ranking, {"a"}, 3)) == (1 / 3, 1)


@pytest.mark.parametrize(
    ("grades", "expected"),
    [
        ({"a": 2, "b": 1}, {"a"}),
        ({"a": 3, "b": 2, "c": 1}, {"a", "b"}),
        ({"a": 1, "b": 0, "c": 1}, {"a", "c"}),
        ({"a": 0}, set()),
        ({}, set()),
    ],
)
def test_answers_have_grade_two_or_the_highest_there_is(grades: dict[str, int], expected: set[str]) -> None:
    assert answers_among(grades) == expected


@given(RANKINGS, GRADES, st.sampled_from([1, 5, 10]))
def test_the_measures_agree_with_ir_measures(ranking: list[str], grades: dict[str, int], cutoff: int) -> None:
    run = [ScoredDoc("q", name, float(-place)) for place, name in enumerate(ranking)] or [ScoredDoc("q", "none", 0.0)]
    # The reference gains the grade itself, so it is given 2**grade - 1.
    gains = [Qrel("q", name, 2**grade - 1) for name, grade in grades.items()]
    answers = answers_among(grades)
    marked = [Qrel("q", name, int(name in answers)) for name in grades]
    graded = ir_measures.calc_aggregate([nDCG @ cutoff], gains, run)
    binary = ir_measures.calc_aggregate([RR @ cutoff, Success @ cutoff], marked, run)
    assert ndcg_at(ranking, grades, cutoff) == pytest.approx(graded[nDCG @ cutoff])
    assert mrr_at(ranking, answers, cutoff) == pytest.approx(binary[RR @ cutoff])
    assert hit_at(ranking, answers, cutoff) == pytest.approx(binary[Success @ cutoff])


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_the_smallest_value_that_covers_its_share(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert sum(value < found for value in values) < share * len(values) + 1e-9
