"""Memories fade by days; how far is computed when read."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.config import ForgettingSettings
from scrimshaw.models import Grade, MemoryType, Retention, Tier
from scrimshaw.search.decay import (
    retention,
    retrievability,
    review,
    stability_of,
)

THRESHOLDS = ForgettingSettings().state_thresholds

SHARES = st.floats(0, 1)


# Retrievability


@given(st.floats(0.1, 1e5))
def test_half_is_left_after_the_half_life(days: float) -> None:
    stability = stability_of(MemoryType.GENERAL, Tier.NORMAL, days)
    assert retrievability(days, stability) == pytest.approx(0.5)
    assert stability == pytest.approx(19 / 243 * days)
    assert retrievability(stability, stability) == pytest.approx(0.9)


@given(st.floats(0.1, 1e5), st.floats(0, 1e5), st.floats(0, 1e5))
def test_retrievability_falls_with_days_and_rises_with_stability(stability: float, one: float, two: float) -> None:
    early, late = sorted((one, two))
    assert 1.0 >= retrievability(early, stability) >= retrievability(late, stability) > 0.0
    assert retrievability(late, stability) <= retrievability(late, stability * 2)


def test_what_never_fades_and_what_lies_ahead_is_fully_there() -> None:
    assert retrievability(1e6, stability_of(MemoryType.DECISION, Tier.NORMAL, 60.0)) == 1.0
    assert retrievability(-3.0, 1.0) == 1.0


@pytest.mark.parametrize(
    ("days", "state"),
    [
        (0, Retention.HOT),
        (11, Retention.HOT),
        (12, Retention.WARM),
        (59, Retention.WARM),
        (61, Retention.COLD),
        (143, Retention.COLD),
        (144, Retention.DORMANT),
        (299, Retention.DORMANT),
        (301, Retention.ARCHIVED),
        (10_000, Retention.ARCHIVED),
    ],
)
def test_every_state_is_reached_within_a_year(days: float, state: Retention) -> None:
    stability = stability_of(MemoryType.GENERAL, Tier.NORMAL, ForgettingSettings().half_life_days)
    assert retention(retrievability(days, stability), THRESHOLDS) is state


@pytest.mark.parametrize(
    ("recalled", "state"),
    [
        (1.0, "hot"), (0.80, "hot"), (0.7999, "warm"), (0.50, "warm"), (0.4999, "cold"), (0.35, "cold"),
        (0.3499, "dormant"), (0.25, "dormant"), (0.2499, "archived"), (0.0, "archived"),
    ],
)  # fmt: skip
def test_a_state_begins_at_its_threshold(recalled: float, state: str) -> None:
    assert retention(recalled, THRESHOLDS) == state


@pytest.mark.parametrize(
    ("type_", "tier", "days"),
    [
        (MemoryType.GENERAL, Tier.NORMAL, 60),
        (MemoryType.SESSION, Tier.NORMAL, 7),
        (MemoryType.DISCOVERY, Tier.NORMAL, 60),
        (MemoryType.IMPLEMENTATION, Tier.NORMAL, 90),
        (MemoryType.RESEARCH, Tier.NORMAL, 180),
        (MemoryType.REFERENCE, Tier.NORMAL, 180),
        (MemoryType.PREFERENCE, Tier.NORMAL, 365),
        (MemoryType.DECISION, Tier.NORMAL, math.inf),
        (MemoryType.DECISION, Tier.DEPRECATED, math.inf),
        (MemoryType.DECISION, Tier.TEMPORARY, 30),
        (MemoryType.SESSION, Tier.IMPORTANT, 10.5),
        (MemoryType.IMPLEMENTATION, Tier.TEMPORARY, 45),
        (MemoryType.GENERAL, Tier.DEPRECATED, 15),
        (MemoryType.SESSION, Tier.CRITICAL, math.inf),
        (MemoryType.SESSION, Tier.CONSTITUTIONAL, math.inf),
    ],
)
def test_each_memory_type_has_its_half_life(type_: MemoryType, tier: Tier, days: float) -> None:
    assert stability_of(type_, tier, 60.0) == pytest.approx(19 / 243 * days)


# Reviews


@pytest.mark.parametrize(
    ("grade", "stability", "difficulty"),
    [(Grade.AGAIN, 2.0, 6.0), (Grade.HARD, 13.44, 5.5), (Grade.GOOD, 16.8, 5.0), (Grade.EASY, 21.84, 4.5)],
)
def test_a_review_at_nine_tenths(grade: Grade, stability: float, difficulty: float) -> None:
    assert review(10.0, 5.0, 0.9, grade) == pytest.approx((stability, difficulty))


def test_what_was_nearly_forgotten_gains_most() -> None:
    gains = [review(10.0, 5.0, recalled, Grade.GOOD)[0] for recalled in (1.0, 0.5, 0.0)]
    assert gains == pytest.approx([16.0, 20.0, 24.0])


@given(st.lists(st.tuples(st.sampled_from(Grade), SHARES), max_size=60))
def test_reviews_stay_within_bounds(reviews: list[tuple[Grade, float]]) -> None:
    stability, difficulty = 1.0, 5.0
    for grade, recalled in reviews:
        stability, difficulty = review(stability, difficulty, recalled, grade)
        assert stability >= 0.1
        assert 1.0 <= difficulty <= 10.0


@given(st.floats(0.1, 1e4), st.floats(1, 10), SHARES)
def test_a_better_grade_never_leaves_less(stability: float, difficulty: float, recalled: float) -> None:
    results = [review(stability, difficulty, recalled, grade) for grade in Grade]
    assert [result[0] for result in results] == sorted(result[0] for result in results)
    assert [result[1] for result in results] == sorted((result[1] for result in results), reverse=True)
