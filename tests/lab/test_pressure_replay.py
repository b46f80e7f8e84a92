from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw_lab.pressure import (
    Ask,
    Overflow,
    Recording,
    Replayed,
    Reply,
    compare_sides,
    fill_context,
    find_missed,
    replay,
)


def always(tokens: int, budget: int = 1000, relevant: str = "") -> Ask:
    return lambda number, share: Reply(tokens=tokens, budget=budget, relevant=frozenset(relevant))


def recording(*turns: int, before: int = 0) -> Recording:
    return Recording(id="s", before=before, turns=turns)


def test_the_agent_asks_before_the_first_turn_and_then_every_few_and_says_how_full_its_context_is() -> None:
    asked: list[tuple[int, float]] = []

    def ask(number: int, share: float) -> Reply:
        asked.append((number, share))
        return Reply(tokens=100, budget=100)

    found = replay(recording(50, 50, 200, 0, 0, before=100), ask, 1000, 2)
    assert asked == [(0, 0.1), (1, 0.3), (2, 0.6)]
    assert (found.tokens, found.own, found.overflow) == (300, 400, None)


@pytest.mark.parametrize(
    ("turns", "every", "reply", "overflow"),
    [
        ((40, 40), 2, 20, None),
        ((40, 41), 2, 20, "turn"),
        ((0, 10), 2, 101, "reply"),
        ((90, 0), 1, 10, "reply"),
        ((80, 0), 1, 10, None),
        ((91, 0), 1, 10, "turn"),
    ],
)
def test_what_came_in_when_the_context_was_first_exceeded(
    turns: tuple[int, ...], every: int, reply: int, overflow: Overflow | None
) -> None:
    assert replay(recording(*turns), always(reply), 100, every).overflow == overflow


def test_a_session_goes_on_after_it_overflowed_and_says_that_it_is_full() -> None:
    shares: list[float] = []

    def ask(number: int, share: float) -> Reply:
        shares.append(share)
        return Reply(tokens=10, budget=10)

    found = replay(recording(500, 1, 1), ask, 100, 1)
    assert shares == [0, 1, 1]
    assert (found.tokens, found.overflow) == (30, "turn")


@given(st.lists(st.integers(0, 500), max_size=60), st.floats(0, 1), st.integers(1, 5000))
def test_a_recording_fills_the_share_exactly_with_its_last_turns(turns: list[int], share: float, size: int) -> None:
    found = fill_context("s", turns, share, size)
    assert found.before >= 0
    assert found.before + sum(found.turns) == int(share * size)
    assert list(found.turns) == turns[len(turns) - len(found.turns) :]
    dropped = turns[: len(turns) - len(found.turns)]
    assert not dropped or dropped[-1] > found.before


@given(st.lists(st.integers(0, 300), min_size=1, max_size=30), st.integers(0, 300), st.integers(1, 3000))
def test_a_session_overflows_exactly_when_all_of_it_is_more_than_the_context(
    turns: list[int], reply: int, size: int
) -> None:
    found = replay(recording(*turns), always(reply), size, 3)
    assert (found.overflow is not None) == (found.own + found.tokens > size)


def session(name: str, *replies: Reply, own: int = 0, overflow: Overflow | None = None) -> Replayed:
    return Replayed(id=name, own=own, replies=replies, overflow=overflow)


def reply(tokens: int, relevant: str = "", budget: int = 100) -> Reply:
    return Reply(tokens=tokens, budget=budget, relevant=frozenset(relevant))


def test_the_figures_of_both_sides() -> None:
    off = [
        session("a", reply(100, "xy"), reply(100, "x"), own=60, overflow="reply"),
        session("b", reply(101, "z"), own=200, overflow="turn"),
        session("c", reply(10)),
    ]
    on = [
        session("a", reply(50, "xw"), reply(50, "y")),
        session("b", reply(100, "z"), own=200, overflow="turn"),
        session("c", reply(10)),
    ]
    found = compare_sides(off, on, 150)
    assert (found.sessions, found.off_overflows, found.on_overflows) == (3, 2, 1)
    assert (found.by_reply, found.full_anyway) == (0, 1)
    assert (found.replies, found.over_budget) == (8, 1)
    assert found.tokens_off == pytest.approx(311 / 3)
    assert found.tokens_on == pytest.approx(210 / 3)
    assert found.tokens_share == pytest.approx((0.5 + 100 / 101 + 1) / 3)
    assert found.relevant_kept == 0.5  # x for the first question and z; not the y that another question brought


def test_figures_that_miss_their_targets_are_named() -> None:
    light, heavy = [session(str(n), reply(85)) for n in range(4)], [session(str(n), reply(100)) for n in range(4)]
    tipped = [session(each.id, *each.replies, overflow="reply") for each in heavy]
    assert find_missed(compare_sides(heavy, light, 1)) == ()
    assert find_missed(compare_sides(tipped, [tipped[0], *light[1:]], 1)) == ("by_reply", "tokens_share")
    assert find_missed(compare_sides(light, tipped, 1)) == ("overflows", "by_reply", "tokens_share")
    assert find_missed(compare_sides([session("a", reply(200))], [session("a", reply(101))], 1)) == ("over_budget",)
