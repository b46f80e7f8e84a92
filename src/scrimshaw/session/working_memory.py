"""Working memory: a session's few most important items; a new one replaces the weakest. Pure."""

import sys
from collections.abc import Iterable, Sequence
from functools import partial
from operator import attrgetter, itemgetter

from msgspec.structs import asdict, replace

from scrimshaw.config import SessionSettings
from scrimshaw.models import Item, ItemKind, NewItem, Trust
from scrimshaw.storage.ports import Admission

_FADED = 40  # events after which every item has faded to the floor


def raw_attention(item: Item, counter: int, now: float, settings: SessionSettings, *, event_decay: bool) -> float:
    """The unbounded attention of an item, from its stored base and clock; the result is never stored."""
    if event_decay:
        rate, steps = settings.decay_rate, float((counter - item.event) % settings.counter_modulus)
    else:
        rate, steps = settings.time_decay_rate, max(0.0, now - item.at) / 60
    return float(item.attention * rate**steps + settings.mention_boost * item.mentions)


def score(item: Item, counter: int, now: float, settings: SessionSettings, *, event_decay: bool) -> float:
    """The attention 0..1 of an item, faded by the session's events or, without `event_decay`, by minutes."""
    raw = raw_attention(item, counter, now, settings, event_decay=event_decay)
    return max(settings.attention_floor, min(1.0, max(0.0, raw)))


def rank_items(
    items: Iterable[Item], counter: int, *, now: float, settings: SessionSettings, event_decay: bool
) -> list[tuple[Item, float]]:
    """The items with their scores, best first; of ties the newer first."""
    newest_first = sorted(items, key=attrgetter("number"), reverse=True)
    scored = [(item, score(item, counter, now, settings, event_decay=event_decay)) for item in newest_first]
    return sorted(scored, key=itemgetter(1), reverse=True)


def trace_attention(item: Item, counter: int, settings: SessionSettings) -> list[tuple[float, float]]:
    """(event, attention 0..1) of an item from its first event to the session's last, by events.

    Nobody stores when an item was mentioned, so only the last value includes mentions.
    """
    value, plain = partial(score, now=0.0, settings=settings, event_decay=True), replace(item, mentions=0)
    events = range(item.event, min(counter, item.event + _FADED) + 1)
    return [*((event, value(plain, event)) for event in events), (counter, value(item, counter))]


def admit(
    held: Sequence[Item], newcomer: NewItem, counter: int, *, now: float, settings: SessionSettings, event_decay: bool
) -> Admission:
    """The items to keep when a new one arrives: the strongest, of ties the newer; without faded ones."""
    # the newcomer as an item, younger than all others
    values = asdict(newcomer) | {"text": newcomer.text.text}
    arriving = Item(**values, session="", number=sys.maxsize, event=counter, at=now)
    ranked = rank_items([*held, arriving], counter, now=now, settings=settings, event_decay=event_decay)
    if newcomer.source.trust == Trust.AGENT:  # an agent's items do not replace a person's decisions
        ranked.sort(key=lambda pair: pair[0].kind != ItemKind.DECISION or pair[0].source.trust == Trust.AGENT)
    raw = partial(raw_attention, counter=counter, now=now, settings=settings, event_decay=event_decay)
    staying = [item for item, _ in ranked if raw(item) >= settings.delete_threshold][: settings.capacity]
    numbers = attrgetter("number")
    leaving = sorted({*map(numbers, held)} - {*map(numbers, staying)})
    return Admission(admitted=arriving in staying, leaving=tuple(leaving))
