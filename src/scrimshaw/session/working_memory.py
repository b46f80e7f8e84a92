"""What a session keeps in mind: a few items, the weakest making room for the next. Pure."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from msgspec.structs import asdict

from scrimshaw.config import SessionSettings
from scrimshaw.models import Item, NewItem
from scrimshaw.search import decay
from scrimshaw.search.decay import Fading
from scrimshaw.storage.ports import Admission


def score(item: Item, counter: int, now: float, settings: SessionSettings, *, event_decay: bool) -> float:
    """The attention 0..1 of an item, faded by the session's events or, without `event_decay`, by minutes."""
    return decay.attention(*_decay_terms(item, counter, now, settings, event_decay))


def rank_items(
    items: Iterable[Item], counter: int, *, now: float, settings: SessionSettings, event_decay: bool
) -> list[tuple[Item, float]]:
    """The items with their scores, best first, of equals the newer first."""
    scored = [(item, score(item, counter, now, settings, event_decay=event_decay)) for item in items]
    return sorted(scored, key=lambda pair: (pair[1], pair[0].number), reverse=True)


def admit(
    held: Sequence[Item], newcomer: NewItem, counter: int, *, now: float, settings: SessionSettings, event_decay: bool
) -> Admission:
    """Who is held once the newcomer has come: the pinned, then the strongest, of equals the newer; the spent leave."""
    # the newcomer as an item, younger than any held
    values = asdict(newcomer) | {"text": newcomer.text.text}
    arriving = Item(**values, session="", number=sys.maxsize, event=counter, at=now)
    staying = [item for item in held if item.pinned]
    contenders = [
        item
        for item, _ in rank_items([*held, arriving], counter, now=now, settings=settings, event_decay=event_decay)
        if item not in staying
        and (item.pinned or not decay.is_spent(*_decay_terms(item, counter, now, settings, event_decay)))
    ]
    contenders.sort(key=lambda item: item.pinned, reverse=True)  # stable: only a pinned newcomer goes first
    staying += contenders[: max(0, settings.capacity - len(staying))]
    leaving = tuple(item.number for item in held if item not in staying)
    return Admission(admitted=arriving in staying, leaving=leaving)


def _decay_terms(
    item: Item, counter: int, now: float, settings: SessionSettings, event_decay: bool
) -> tuple[float, float, int, Fading]:
    """What the formula of decay takes: base, steps, mentions, rates."""
    if event_decay:
        steps: float = decay.events_between(item.event, counter, settings.counter_modulus)
    else:
        steps = decay.minutes_between(item.at, now)
    fading = Fading(
        rate=settings.decay_rate if event_decay else settings.time_decay_rate,
        mention_boost=settings.mention_boost,
        floor=settings.attention_floor,
        spent_below=settings.delete_threshold,
    )
    return item.attention, steps, item.mentions, fading
