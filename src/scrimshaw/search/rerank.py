"""What changes the fused score of a candidate: terms that compare the best ones, then factors. Pure.

A score is the fused one and its terms, together at least 0, times its factors and 1 + its boosts; so it may exceed 1.
No factor is a bonus: each is at most 1, but for `floor`, which keeps the product for a normal memory at FLOOR; one of a
temporary or deprecated memory may be lower.
"""

import math
from collections.abc import Mapping, Sequence

from scrimshaw.models import ArtifactClass, Memory, Retention, Tier

FLOOR = 0.80

# So many of the best are compared, and what one standard deviation adds: of how well the tokens of the passage meet
# those of the query, of how near the passage is to those of the best others, and of the logarithm of the memory's
# length (docs/evaluation).
COMPARED = 30
COEFFICIENTS: Mapping[str, float] = {"tokens": 0.12, "agreement": 0.05, "length": -0.03}

# Passages with this cosine are versions of one; the newer goes first where it scores less by no more (docs/evaluation).
SAME_TEXT, NEWER_REACH = 0.85, 0.3

_EQUAL = 1e-9  # values that differ by less differ by rounding
DIGITS = 6  # decimals of a score and of its parts as a hit shows them; what is equal there is equal

# Highest to lowest; deprecated memories are only seen when asked for.
TIER_FACTORS: Mapping[Tier, float] = {Tier.TEMPORARY: 0.90, Tier.DEPRECATED: 0.50}

# A class other than the one the query names; measured on known-item queries over specifications (docs/evaluation).
OTHER_ARTIFACT = 0.80
# Hardly any text: fewer characters than SHORT say little about the query.
SHORT, SHORT_FACTOR = 50, 0.90
LONG, LONG_FACTOR = 20_000, 0.97
# The memory of a session says in few words what the session said itself, so that holds the answer more often.
RETOLD_FACTOR = 0.80
UNTRUSTED_FACTOR = 0.90  # validated as not useful: confidence falls from 0.5 to 0
# Most hits per state where limits are asked for; room that a state does not use passes to the next.
STATE_LIMITS: Mapping[Retention, int] = dict(zip(Retention, (5, 10, 3, 2, 1), strict=True))


def compare_values(values: Sequence[float], weight: float) -> list[float]:
    """What each value adds to a score: its distance from the mean of all in standard deviations, times the weight."""
    mean = sum(values) / max(len(values), 1)
    spread = math.dist(values, [mean] * len(values)) / math.sqrt(max(len(values), 1))
    return [0.0 if spread < _EQUAL else round(weight * (value - mean) / spread, DIGITS) for value in values]


def score_factors(
    memory: Memory,
    *,
    artifact: ArtifactClass | None,
    confidence: float = 0.5,
    retrievability: float = 1.0,
    length_penalty: bool = True,
    is_retold: bool = False,
) -> dict[str, float]:
    """The factors by name, none that is 1; `confidence` is the share of validations that found it useful, or 0.5.

    `is_retold` says that the record of the session which a memory is about was found too.
    """
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
        "retold": RETOLD_FACTOR if is_retold else 1.0,
        "retrievability": 0.9 + 0.1 * retrievability,
    }
    lowering = {name: factor for name, factor in found.items() if factor < 1.0}
    product, floor = math.prod(lowering.values()), FLOOR * TIER_FACTORS.get(memory.tier, 1.0)
    return lowering if product >= floor else {**lowering, "floor": floor / product}
