"""What changes the fused score of a candidate: terms that compare the best ones, then factors that only lower. Pure.

Each factor is at most 1, and for a normal memory their product stays within [FLOOR, 1]; a temporary or deprecated
memory may fall below. None is ever a bonus.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from scrimshaw.models import RECORD, ArtifactClass, Memory, Retention, Tier, Trust

FLOOR = 0.80

# So many of the best are compared by their tokens, and what one standard deviation adds (docs/evaluation).
COMPARED, TOKENS_WEIGHT = 30, 0.12

_EQUAL = 1e-9  # values that differ by less differ by rounding

# Highest to lowest; deprecated memories are only seen when asked for.
TIER_FACTORS: Mapping[Tier, float] = {Tier.TEMPORARY: 0.90, Tier.DEPRECATED: 0.50}

# A class other than the one the query names; measured on known-item queries over specifications (docs/evaluation).
OTHER_ARTIFACT = 0.80
# Hardly any text: fewer characters than SHORT say little about the query.
SHORT, SHORT_FACTOR = 50, 0.90
LONG, LONG_FACTOR = 20_000, 0.97
# What tools were asked and answered says less than what was said about it (measured on questions about sessions).
OUTCOME_FACTOR = 0.85
UNTRUSTED_FACTOR = 0.90  # validated as not useful: confidence falls from 0.5 to 0
# Most hits per state where limits are asked for; room that a state does not use passes to the next.
STATE_LIMITS: Mapping[Retention, int] = dict(zip(Retention, (5, 10, 3, 2, 1), strict=True))


def compare_values(values: Sequence[float | None], weight: float = TOKENS_WEIGHT) -> list[float]:
    """What each value adds to a score: its distance from the mean of all in standard deviations; no value, nothing."""
    known = [value for value in values if value is not None]
    mean = sum(known) / max(len(known), 1)
    spread = math.dist(known, [mean] * len(known)) / math.sqrt(max(len(known), 1))
    return [0.0 if value is None or spread < _EQUAL else weight * (value - mean) / spread for value in values]


def score_factors(
    memory: Memory,
    *,
    artifact: ArtifactClass | None,
    confidence: float = 0.5,
    retrievability: float = 1.0,
    length_penalty: bool = True,
) -> dict[str, float]:
    """The factors below 1 by name; `confidence` is the share of validations that found it useful, 0.5 without any."""
    length = 1.0
    if length_penalty and memory.length < SHORT:
        length = SHORT_FACTOR
    elif length_penalty and memory.length > LONG:
        length = LONG_FACTOR
    found = {
        "tier": TIER_FACTORS.get(memory.tier, 1.0),
        "artifact": 1.0 if artifact in (None, memory.artifact) else OTHER_ARTIFACT,
        "length": length,
        "validation": 1.0 - (1.0 - UNTRUSTED_FACTOR) * max(0.0, 0.5 - confidence) * 2,
        "outcome": OUTCOME_FACTOR if memory.source == RECORD and memory.provenance.trust != Trust.AGENT else 1.0,
        "retrievability": 0.9 + 0.1 * retrievability,
    }
    return {name: factor for name, factor in found.items() if factor < 1.0}


def lower_score(score: float, memory: Memory, factors: Mapping[str, float]) -> float:
    """The score after its factors."""
    return score * max(math.prod(factors.values()), FLOOR * TIER_FACTORS.get(memory.tier, 1.0))
