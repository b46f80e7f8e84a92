"""Pressure narrows, at its boundaries and nowhere else; it never widens."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.config import ContextSettings, SessionSettings
from scrimshaw.models import Mode, Pressure
from scrimshaw.session.pressure import (
    SMALLEST_ANSWER,
    describe_pressure,
    narrow_mode,
    pressure_level,
    token_budget,
)

THRESHOLDS = SessionSettings().pressure_thresholds
CONTEXT = ContextSettings()
SHARES = st.none() | st.floats(0, 1)
CHOSEN = [Mode.QUICK, Mode.FOCUSED, Mode.DEEP, Mode.RESUME]


def allowed(mode: Mode, pressure: Pressure, share: float = 0.8, shown: int = 0) -> int:
    """The budget with the default thresholds."""
    return token_budget(mode, pressure, CONTEXT, share=share, high=THRESHOLDS[1], shown=shown)


@pytest.mark.parametrize(
    ("share", "pressure", "deep_becomes"),
    [
        (None, Pressure.UNKNOWN, Mode.DEEP),
        (0.0, Pressure.NORMAL, Mode.DEEP),
        (0.50, Pressure.NORMAL, Mode.DEEP),
        (0.55, Pressure.NORMAL, Mode.DEEP),
        (math.nextafter(0.60, 0), Pressure.NORMAL, Mode.DEEP),
        (0.60, Pressure.ELEVATED, Mode.FOCUSED),
        (0.65, Pressure.ELEVATED, Mode.FOCUSED),
        (0.70, Pressure.ELEVATED, Mode.FOCUSED),
        (0.75, Pressure.ELEVATED, Mode.FOCUSED),
        (0.80, Pressure.ELEVATED, Mode.FOCUSED),
        (160_000 / 200_000, Pressure.ELEVATED, Mode.FOCUSED),
        (math.nextafter(0.80, 1), Pressure.HIGH, Mode.QUICK),
        (0.85, Pressure.HIGH, Mode.QUICK),
        (0.90, Pressure.HIGH, Mode.QUICK),
        (0.95, Pressure.HIGH, Mode.QUICK),
        (1.0, Pressure.HIGH, Mode.QUICK),
        (1.2, Pressure.HIGH, Mode.QUICK),
    ],
)
def test_levels_at_their_boundaries(share: float | None, pressure: Pressure, deep_becomes: Mode) -> None:
    assert pressure_level(share, THRESHOLDS) is pressure
    assert narrow_mode(Mode.DEEP, pressure) is deep_becomes


@pytest.mark.parametrize(
    ("mode", "elevated", "high"),
    [
        (Mode.AUTO, Mode.FOCUSED, Mode.QUICK),
        (Mode.DEEP, Mode.FOCUSED, Mode.QUICK),
        (Mode.FOCUSED, Mode.FOCUSED, Mode.QUICK),
        (Mode.QUICK, Mode.QUICK, Mode.QUICK),
        (Mode.RESUME, Mode.RESUME, Mode.RESUME),
    ],
)
def test_a_mode_is_narrowed_and_never_raised(mode: Mode, elevated: Mode, high: Mode) -> None:
    assert narrow_mode(mode, Pressure.ELEVATED) is elevated
    assert narrow_mode(mode, Pressure.HIGH) is high
    assert narrow_mode(mode, Pressure.NORMAL) is narrow_mode(mode, Pressure.UNKNOWN) is mode


@pytest.mark.parametrize(
    ("mode", "normal", "elevated", "high"),
    [
        (Mode.QUICK, 800, 800, 800),
        (Mode.FOCUSED, 3000, 3000, 800),
        (Mode.DEEP, 3500, 3000, 800),
        (Mode.RESUME, 1200, 1200, 800),
    ],
)
def test_budgets_under_pressure(mode: Mode, normal: int, elevated: int, high: int) -> None:
    found = [allowed(mode, pressure) for pressure in (Pressure.NORMAL, Pressure.ELEVATED, Pressure.HIGH)]
    assert found == [normal, elevated, high]
    assert allowed(mode, Pressure.UNKNOWN) == normal


@pytest.mark.parametrize(("shown", "budget"), [(0, 3000), (20, 1500), (60, 750), (10_000, SMALLEST_ANSWER)])
def test_the_more_was_shown_the_less_an_answer_brings_under_pressure(shown: int, budget: int) -> None:
    assert allowed(Mode.DEEP, Pressure.ELEVATED, shown=shown) == budget
    assert allowed(Mode.DEEP, Pressure.NORMAL, shown=shown) == allowed(Mode.DEEP, Pressure.UNKNOWN, shown=shown) == 3500


@given(st.sampled_from(CHOSEN), SHARES, SHARES)
def test_a_fuller_context_never_brings_more(mode: Mode, one: float | None, two: float | None) -> None:
    emptier, fuller = sorted((one or 0.0, two or 0.0))
    more, less = (allowed(mode, pressure_level(share, THRESHOLDS), share) for share in (emptier, fuller))
    assert more >= less


@given(SHARES)
def test_whoever_is_narrowed_is_told(share: float | None) -> None:
    pressure = pressure_level(share, THRESHOLDS)
    assert bool(describe_pressure(share, pressure)) is (pressure is not Pressure.NORMAL)


def test_a_warning_says_how_full_and_what_follows() -> None:
    assert describe_pressure(0.65, Pressure.ELEVATED) == "The context is 65% full: answers are focused at most."
    assert describe_pressure(0.85, Pressure.HIGH) == "The context is 85% full: answers are quick at most."
    assert "unknown" in describe_pressure(None, Pressure.UNKNOWN)
    assert describe_pressure(0.1, Pressure.NORMAL) == ""
