"""Working memory: who is held, who leaves, and what an item is worth at any moment."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scrimshaw.config import SessionSettings
from scrimshaw.models import Item, ItemKind, ItemSource, NewItem, Redacted, Trust
from scrimshaw.session.working_memory import admit, rank_items, score
from scrimshaw.storage.ports import Admission

SETTINGS = SessionSettings()
DAY_S = 86_400.0


def item(number: int, attention: float, **fields: object) -> Item:
    base = Item(
        session="s", number=number, text="x", kind=ItemKind.RESULT, attention=attention, event=0, at=0.0,
        source=ItemSource(),
    )  # fmt: skip
    return replace(base, **fields)


def newcomer(attention: float) -> NewItem:
    return NewItem(text=Redacted(text="new"), kind=ItemKind.RESULT, attention=attention)


def decide(
    held: Sequence[Item],
    new: NewItem,
    counter: int = 0,
    *,
    now: float = 0.0,
    settings: SessionSettings = SETTINGS,
    event_decay: bool = True,
) -> Admission:
    return admit(held, new, counter, now=now, settings=settings, event_decay=event_decay)


def held(*attentions: float) -> list[Item]:
    return [item(number, attention) for number, attention in enumerate(attentions, 1)]


FULL = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)


# Scenario 4: attention fades by events


def test_a_pause_costs_nothing_and_events_do() -> None:
    items = held(0.9, 0.8, 0.7, 0.6, 0.5)
    after_pause = [score(each, 0, DAY_S, SETTINGS, event_decay=True) for each in items]
    assert after_pause == [0.9, 0.8, 0.7, 0.6, 0.5]
    after_ten = [score(each, 10, DAY_S, SETTINGS, event_decay=True) for each in items]
    assert after_ten == pytest.approx([0.17719, 0.15750, 0.13781, 0.11812, 0.09844], abs=1e-5)
    mentioned = score(replace(items[-1], mentions=1), 10, DAY_S, SETTINGS, event_decay=True)
    assert mentioned == pytest.approx(after_ten[-1] + 0.05)
    assert {score(each, 100, DAY_S, SETTINGS, event_decay=True) for each in items} == {0.05}


def test_without_event_decay_minutes_count_and_events_do_not() -> None:
    each = item(1, 0.9)
    assert score(each, 500, 0.0, SETTINGS, event_decay=False) == 0.9
    assert score(each, 0, 600.0, SETTINGS, event_decay=False) == pytest.approx(0.9 * 0.95**10)


@given(st.floats(0, 1), st.integers(0, 2**31 - 1), st.integers(0, 300), st.integers(0, 20))
def test_the_score_is_the_closed_formula_at_any_moment(base: float, event: int, elapsed: int, mentions: int) -> None:
    each = item(1, base, event=event, mentions=mentions)
    read = score(each, (event + elapsed) % 2**31, 1e9, SETTINGS, event_decay=True)
    assert read == pytest.approx(max(0.05, min(1.0, base * 0.85**elapsed + 0.05 * mentions)))


def test_ranked_is_best_first_and_of_equals_the_newer() -> None:
    items = [item(1, 0.5), item(2, 0.9), item(3, 0.5), item(4, 0.3, mentions=10)]
    found = rank_items(items, 0, now=0.0, settings=SETTINGS, event_decay=True)
    assert [(each.number, worth) for each, worth in found] == [(2, 0.9), (4, 0.8), (3, 0.5), (1, 0.5)]


# Scenario 12 and its neighbourhood


def test_the_lowest_leaves_for_a_stronger_newcomer() -> None:
    assert decide(held(*FULL), newcomer(0.75)) == Admission(admitted=True, leaving=(7,))


def test_while_there_is_room_nobody_leaves() -> None:
    assert decide(held(*FULL[:6]), newcomer(0.02)) == Admission(admitted=True)
    assert decide([], newcomer(0.01)) == Admission(admitted=True)


def test_a_newcomer_weaker_than_all_is_not_admitted() -> None:
    assert decide(held(*FULL), newcomer(0.29)) == Admission(admitted=False)


def test_of_equals_the_older_leaves() -> None:
    assert decide(held(*[0.5] * 7), newcomer(0.5)) == Admission(admitted=True, leaving=(1,))
    assert decide(held(0.9, 0.5, 0.9, 0.5, 0.9, 0.9, 0.9), newcomer(0.9)) == Admission(admitted=True, leaving=(2,))


def test_who_leaves_is_decided_by_the_score_now() -> None:
    faded = item(1, 0.9, event=0)
    fresh = [item(number, 0.3, event=20) for number in range(2, 8)]
    assert decide([faded, *fresh], newcomer(0.3), 20) == Admission(admitted=True, leaving=(1,))
    mentioned = replace(faded, mentions=10)
    assert decide([mentioned, *fresh], newcomer(0.3), 20) == Admission(admitted=True, leaving=(2,))


def test_the_spent_leave_though_there_is_room() -> None:
    items = [item(1, 0.9, event=0), item(2, 0.9, event=20), item(3, 0.9, event=0, mentions=1)]
    assert decide(items, newcomer(0.5), 28) == Admission(admitted=True, leaving=(1,))
    assert decide([], newcomer(0.0)) == Admission(admitted=False)


def test_the_spent_make_room_before_anybody_else() -> None:
    items = [item(1, 0.9, event=0), *(item(number, 0.3, event=28) for number in range(2, 8))]
    assert decide(items, newcomer(0.1), 28) == Admission(admitted=True, leaving=(1,))


def test_what_an_agent_says_pushes_out_no_decision_of_a_person() -> None:
    chosen = [item(number, 0.3, kind=ItemKind.DECISION) for number in range(1, SETTINGS.capacity + 1)]
    said = replace(newcomer(0.9), kind=ItemKind.DECISION, source=ItemSource(trust=Trust.AGENT))
    assert decide(chosen, said) == Admission(admitted=False)
    assert decide([*chosen[1:], item(9, 0.5)], said) == Admission(admitted=True, leaving=(9,))
    assert decide(chosen, newcomer(0.9)) == Admission(admitted=True, leaving=(1,))


def test_a_smaller_capacity_lets_the_weakest_go() -> None:
    small = replace(SETTINGS, capacity=3)
    assert decide(held(*FULL), newcomer(0.75), settings=small) == Admission(admitted=True, leaving=(3, 4, 5, 6, 7))


def test_by_minutes_the_longest_ago_leaves() -> None:
    items = [item(number, 0.5, at=number * 60.0) for number in range(7, 0, -1)]
    found = decide(items, newcomer(0.5), now=600.0, event_decay=False)
    assert found == Admission(admitted=True, leaving=(1,))


@st.composite
def items_held(draw: st.DrawFn) -> list[Item]:
    rows = draw(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 60), st.integers(0, 3)), max_size=10))
    return [
        item(number, attention, event=event, mentions=mentions)
        for number, (attention, event, mentions) in enumerate(rows, 1)
    ]


@given(items_held(), st.floats(0, 1), st.integers(1, 9))
def test_capacity_holds_and_the_weakest_leave(items: list[Item], attention: float, capacity: int) -> None:
    settings, new = replace(SETTINGS, capacity=capacity), newcomer(attention)
    found = decide(items, new, 60, settings=settings)
    stay = [each for each in items if each.number not in found.leaving]
    assert len(stay) + found.admitted <= capacity
    worth = {each.number: value for each, value in rank_items(items, 60, now=0.0, settings=settings, event_decay=True)}
    least = min((worth[each.number] for each in stay), default=1.0)
    assert all(worth[number] <= least for number in found.leaving)
    turned = decide(items[::-1], new, 60, settings=settings)
    assert (turned.admitted, set(turned.leaving)) == (found.admitted, set(found.leaving))
