"""How present a memory still is: its retrievability and the state that follows. Pure.

What was never reviewed is as old as its last change; what has neither date nor review does not fade.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from types import MappingProxyType

from msgspec import Struct

from scrimshaw.config import ForgettingSettings
from scrimshaw.models import Memory, Retention
from scrimshaw.search import decay
from scrimshaw.storage.ports import Review

DAY_S = 86_400.0

# spec-kit state limits; room that a state does not use passes to the next.
STATE_LIMITS: Mapping[Retention, int] = MappingProxyType(
    {Retention.HOT: 5, Retention.WARM: 10, Retention.COLD: 3, Retention.DORMANT: 2, Retention.ARCHIVED: 1}
)


class Presence(Struct, frozen=True, kw_only=True):
    """Retrievability 0..1 of a memory, and its state."""

    retrievability: float = 1.0
    state: Retention = Retention.HOT


def presence(memory: Memory, review: Review | None, now: float, settings: ForgettingSettings) -> Presence:
    """How present a memory is at `now` (seconds since 1970); constitutional and critical ones never fade."""
    half_life = decay.half_life(memory.type, memory.tier, settings.half_life_days)
    since = review.last_review if review and review.reviews else _changed(memory)
    if since is None or math.isinf(half_life):
        return Presence()
    stability = decay.stability_of(half_life)
    if review and review.reviews:
        stability = max(stability, review.stability)
    found = decay.retrievability((now - since) / DAY_S, stability)
    return Presence(retrievability=found, state=decay.retention(found, settings.state_thresholds))


def _changed(memory: Memory) -> float | None:
    """When the memory was last changed, in seconds since 1970, as its file says."""
    try:
        moment = datetime.fromisoformat(memory.updated or memory.created)
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
