"""How memories fade over days, by FSRS v4: `(1 + FACTOR * days / stability) ** POWER`. Nothing here is ever stored."""

import math
from collections.abc import Mapping

from scrimshaw.models import Grade, MemoryType, Retention, Tier

FACTOR, POWER = 19 / 81, -0.5  # FSRS v4: R(S) = 0.9
_STATES = tuple(Retention)  # iterating over an enum is slow

# An unreviewed memory has difficulty 5 on a scale of 1 to 10; stability is in days.
INITIAL_DIFFICULTY, EASIEST, HARDEST = 5.0, 1.0, 10.0
LOWEST_STABILITY = 0.1
LAPSE = 0.2
GROWTH: Mapping[Grade, float] = {Grade.HARD: 0.8, Grade.GOOD: 1.0, Grade.EASY: 1.3}
DIFFICULTY_STEPS: Mapping[Grade, float] = {Grade.AGAIN: 1.0, Grade.HARD: 0.5, Grade.GOOD: 0.0, Grade.EASY: -0.5}

# Days until half is gone, by kind of memory: episodic 7, declarative 60, procedural 90, semantic 180,
# autobiographical 365; decisions never fade. A type that is not listed has the configured half-life.
HALF_LIVES: Mapping[MemoryType, float] = {
    MemoryType.DECISION: math.inf,
    MemoryType.SESSION: 7.0,
    MemoryType.DISCOVERY: 60.0,
    MemoryType.IMPLEMENTATION: 90.0,
    MemoryType.RESEARCH: 180.0,
    MemoryType.REFERENCE: 180.0,
    MemoryType.PREFERENCE: 365.0,
}
HALF_LIFE_FACTORS: Mapping[Tier, float] = {
    Tier.CONSTITUTIONAL: math.inf,
    Tier.CRITICAL: math.inf,
    Tier.IMPORTANT: 1.5,
    Tier.NORMAL: 1.0,
    Tier.TEMPORARY: 0.5,
    Tier.DEPRECATED: 0.25,
}


def stability_of(type_: MemoryType, tier: Tier, default: float) -> float:
    """The stability, in days, of an unreviewed memory, whose R is 0.5 at its half-life; infinite if it never fades.

    It is 19/243 of the half-life, where FACTOR * t/S is 3. `default` is the half-life of a type that is not listed.
    """
    days = HALF_LIVES.get(type_, default)
    if tier is Tier.TEMPORARY and math.isinf(days):  # even a temporary decision is not meant to stay
        days = default
    return days * HALF_LIFE_FACTORS[tier] * FACTOR / 3


def retrievability(days: float, stability: float) -> float:
    """The chance 0..1 that a memory is still present `days` after its last review; `stability` is positive, in days."""
    return float((1 + FACTOR * max(0.0, days) / stability) ** POWER)


def review(stability: float, difficulty: float, retrievability: float, grade: Grade) -> tuple[float, float]:
    """Stability and difficulty after a review; the nearly forgotten gain most from a recall."""
    if grade is Grade.AGAIN:
        grown = stability * LAPSE
    else:
        ease = 1 + (11 - difficulty) * 0.1
        grown = stability * ease * GROWTH[grade] * (1 + (1 - retrievability) * 0.5)
    return max(LOWEST_STABILITY, grown), min(HARDEST, max(EASIEST, difficulty + DIFFICULTY_STEPS[grade]))


def retention(retrievability: float, thresholds: tuple[float, float, float, float]) -> Retention:
    """The state of a memory; `thresholds` are the lower bounds of hot, warm, cold and dormant, descending."""
    for state, least in zip(_STATES, thresholds, strict=False):
        if retrievability >= least:
            return state
    return Retention.ARCHIVED
