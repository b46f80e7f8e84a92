"""Attention fades by events or by minutes, and is computed when read."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scrimshaw.config import SessionSettings
from scrimshaw.models import Item, ItemKind, ItemSource
from scrimshaw.session.working_memory import raw_attention, score

SETTINGS = SessionSettings()
MODULUS = SETTINGS.counter_modulus
SHARES = st.floats(0, 1)
STEPS = st.integers(0, 500)
MENTIONS = st.integers(0, 50)


def item(base: float, mentions: int = 0, event: int = 0, at: float = 0.0) -> Item:
    return Item(
        session="s",
        number=1,
        text="",
        kind=ItemKind.RESULT,
        attention=base,
        event=event,
        at=at,
        source=ItemSource(),
        mentions=mentions,
    )


def attention(base: float, elapsed: int, mentions: int = 0, settings: SessionSettings = SETTINGS) -> float:
    """The attention of an item so many events later."""
    return score(item(base, mentions), elapsed, 0.0, settings, event_decay=True)


def attention_after_minutes(minutes: float, at: float = 0.0) -> float:
    return score(item(0.9, at=at), 0, at + minutes * 60, SETTINGS, event_decay=False)


@pytest.mark.parametrize(
    ("base", "elapsed", "mentions", "expected"),
    [
        (0.9, 0, 0, 0.9),
        (0.9, 1, 0, 0.765),
        (0.9, 2, 0, 0.65025),
        (0.9, 5, 0, 0.39933),
        (0.9, 10, 0, 0.17719),
        (0.9, 10, 3, 0.32719),
        (0.5, 15, 0, 0.05),  # raw 0.0437: the floor
        (0.5, 100, 0, 0.05),
        (0.0, 0, 0, 0.05),
        (0.98, 0, 1, 1.0),
        (0.1, 0, 50, 1.0),
    ],
)
def test_attention_after_events(base: float, elapsed: int, mentions: int, expected: float) -> None:
    assert attention(base, elapsed, mentions) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("minutes", "expected"), [(0, 0.9), (1, 0.855), (10, 0.53886), (60, 0.05), (1440, 0.05)])
def test_attention_after_minutes(minutes: float, expected: float) -> None:
    assert attention_after_minutes(minutes) == pytest.approx(expected, abs=1e-4)


def test_the_floor_comes_last() -> None:
    assert attention(0.0, 0, 0, replace(SETTINGS, mention_boost=0, attention_floor=0.3)) == 0.3


@pytest.mark.parametrize(
    ("base", "elapsed", "mentions", "spent"),
    [(0.9, 27, 0, False), (0.9, 28, 0, True), (0.9, 500, 1, False), (0.01, 0, 0, False), (0.0, 0, 0, True)],
)
def test_spent_is_told_before_the_floor(base: float, elapsed: int, mentions: int, spent: bool) -> None:
    raw = raw_attention(item(base, mentions), elapsed, 0.0, SETTINGS, event_decay=True)
    assert (raw < SETTINGS.delete_threshold) is spent
    assert attention(base, elapsed, mentions) >= 0.05


@given(SHARES, STEPS, MENTIONS)
def test_attention_is_the_closed_formula(base: float, elapsed: int, mentions: int) -> None:
    raw = base * math.exp(elapsed * math.log(0.85)) + mentions / 20
    assert attention(base, elapsed, mentions) == pytest.approx(max(0.05, min(1.0, raw)))


@given(SHARES, st.lists(STEPS, min_size=1))
def test_reading_often_changes_nothing(base: float, readings: list[int]) -> None:
    """The originals wrote the score back at every pass, so that it faded faster the more it was read."""
    values = {elapsed: attention(base, elapsed, 0) for elapsed in readings}
    assert all(attention(base, elapsed, 0) == value for elapsed, value in values.items())
    ordered = [values[elapsed] for elapsed in sorted(values)]
    assert ordered == sorted(ordered, reverse=True)


@pytest.mark.parametrize(
    ("event", "now_event", "elapsed"),
    [(5, 5, 0), (5, 8, 3), (MODULUS - 1, 0, 1), (MODULUS - 2, 7, 9), (0, MODULUS - 1, MODULUS - 1)],
)
def test_events_are_counted_across_the_wrap(event: int, now_event: int, elapsed: int) -> None:
    found = score(item(0.9, event=event), now_event, 0.0, SETTINGS, event_decay=True)
    assert found == attention(0.9, elapsed)


@given(st.integers(0, MODULUS - 1), STEPS)
def test_the_wrap_cannot_be_noticed(event: int, steps: int) -> None:
    found = score(item(0.9, event=event), (event + steps) % MODULUS, 0.0, SETTINGS, event_decay=True)
    assert found == attention(0.9, steps)


@pytest.mark.parametrize("minutes", [0.0, -1.0, -600.0])
def test_minutes_never_run_back(minutes: float) -> None:
    assert attention_after_minutes(minutes, at=100_000.0) == 0.9
