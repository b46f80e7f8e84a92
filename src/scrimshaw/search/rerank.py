"""Changes to the fused score of a candidate: terms from comparing the best, then factors, then boosts. Pure.

A score is the fused one and its terms, together at least 0, times its factors and 1 + its boosts; so it may exceed 1.
None of these factors is a bonus: each is at most 1, except `floor`, which keeps a normal memory's product at FLOOR;
that of a temporary or deprecated memory may be lower. Only boosts raise a score, under a common cap.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter

from scrimshaw.models import RECORD, ArtifactClass, Memory, MemoryType, Neighbor, Relation, Retention, Tier
from scrimshaw.search.fusion import DIGITS
from scrimshaw.search.periods import Period

FLOOR = 0.80
_BELOW = 1 - 1e-12  # so that rounding cannot carry a scaled sum over the cap

# How many of the best are compared, and what one standard deviation adds: of how well the passage's tokens match
# the query's, of how near the passage is to those of the other best, and of the logarithm of the memory's
# length (docs/evaluation).
COMPARED = 30
# What a passage of a session adds of which a successor needs all, instead of nothing; the usual one adds 0.
WORTH, USUAL_WORTH = 0.25, 0.2
# What the first of several sessions that changed the same files loses; the later half loses nothing (docs/evaluation).
EARLIER = 0.15
# What a passage loses by the logarithm of how many times longer its session is than so many tokens: of more passages,
# one more likely matches by chance (docs/evaluation).
LARGE, LARGE_TOKENS = 0.04, 2_000
COEFFICIENTS: Mapping[str, float] = {"tokens": 0.12, "agreement": 0.05, "length": -0.03}
MOST_LENGTHS = 2  # so that among notes of equal length a longer one, such as a session's, does not lose more

# Passages with this cosine are versions of one; the newer goes first if it scores at most this less (docs/evaluation).
SAME_TEXT, NEWER_REACH = 0.85, 0.3

_EQUAL = 1e-9  # values that differ by less differ by rounding

# Highest to lowest; deprecated memories are only included on request.
TIER_FACTORS: Mapping[Tier, float] = {Tier.TEMPORARY: 0.90, Tier.DEPRECATED: 0.50}

# For a class other than the query's; measured on known-item queries over specifications (docs/evaluation).
OTHER_ARTIFACT = 0.80
# Hardly any text: fewer characters than SHORT say little about the query.
SHORT, SHORT_FACTOR = 50, 0.90
LONG, LONG_FACTOR = 20_000, 0.97
# The memory of a session says in few words what the session said itself, so that holds the answer more often.
RETOLD_FACTOR = 0.80
OTHER_DAYS = 0.8  # a session of other days than the query names
UNTRUSTED_FACTOR = 0.90  # validated as not useful: confidence falls from 0.5 to 0
# Most hits per state if limits are requested; unused room passes to the next state.
STATE_LIMITS: Mapping[Retention, int] = dict(zip(Retention, (5, 10, 3, 2, 1), strict=True))


def compare_values(values: Sequence[float], weight: float, most: float = math.inf) -> list[float]:
    """What each value adds to a score: its distance from the mean of all in standard deviations, times the weight.

    No distance counts for more than `most`.
    """
    mean = sum(values) / max(len(values), 1)
    spread = math.dist(values, [mean] * len(values)) / math.sqrt(max(len(values), 1))
    distances = (0.0 if spread < _EQUAL else (value - mean) / spread for value in values)
    return [round(weight * max(-most, min(most, distance)), DIGITS) for distance in distances]


def lower_earlier(passages: Iterable[Memory]) -> dict[str, float]:
    """What each session loses since later ones changed the same files, and so maybe what its passages say of them.

    The same are at least half of the files that one of the two changed; their names are a passage's topics.
    """
    files = dict[str, frozenset[str]]()
    for each in sorted(passages, key=attrgetter("updated"), reverse=True):
        files.setdefault(each.provenance.session, frozenset(each.topics))
    losses = dict[str, float]()
    for place, (session, own) in enumerate(files.items()):
        is_same = [not own.isdisjoint(x) and 2 * len(own & x) >= min(len(own), len(x)) for x in files.values()]
        later, before = sum(is_same[:place]), sum(is_same[place + 1 :])
        losses[session] = round(-EARLIER * max(0, later - before) / max(1, later + before), DIGITS)
    return losses


def score_session(memory: Memory, losses: Mapping[str, float]) -> dict[str, float]:
    """The terms of a passage or memory of a session: what its session loses, and its worth to a successor."""
    terms = dict[str, float]()
    if loss := losses.get(memory.provenance.session):
        terms["earlier"] = loss
    if memory.source == RECORD and memory.tokens > LARGE_TOKENS:
        terms["large session"] = round(-LARGE * math.log(memory.tokens / LARGE_TOKENS), DIGITS)
    if memory.worth is not None:
        terms["worth"] = round(WORTH * (memory.worth - USUAL_WORTH), DIGITS)
    return terms


def score_factors(
    memory: Memory,
    *,
    artifact: ArtifactClass | None,
    confidence: float = 0.5,
    retrievability: float = 1.0,
    length_penalty: bool = True,
    recorded: Collection[str] = (),
    period: Period | None = None,
) -> dict[str, float]:
    """The factors other than 1, by name; `confidence` is the share of validations that found it useful, or 0.5.

    `recorded` are the sessions whose record was found too, and not only the memory that summarises them.
    """
    lowering = dict[str, float]()
    if memory.tier in TIER_FACTORS:
        lowering["tier"] = TIER_FACTORS[memory.tier]
    if artifact not in (None, memory.artifact):
        lowering["artifact"] = OTHER_ARTIFACT
    if length_penalty and not SHORT <= memory.length <= LONG:
        lowering["length"] = SHORT_FACTOR if memory.length < SHORT else LONG_FACTOR
    if confidence < 0.5:
        lowering["validation"] = 1.0 - (1.0 - UNTRUSTED_FACTOR) * (0.5 - confidence) * 2
    if session := memory.provenance.session:
        is_retold = memory.type == MemoryType.SESSION and session in recorded
        is_elsewhen = period and not period.includes(memory.created or memory.updated)
        lowering |= {"retold": RETOLD_FACTOR if is_retold else 1.0, "other days": OTHER_DAYS if is_elsewhen else 1.0}
    if retrievability < 1.0:
        lowering["retrievability"] = 0.9 + 0.1 * retrievability
    lowering = {name: factor for name, factor in lowering.items() if factor < 1.0}  # some rounding makes 1
    product, floor = math.prod(lowering.values()), FLOOR * TIER_FACTORS.get(memory.tier, 1.0)
    return lowering if product >= floor else {**lowering, "floor": floor / product}


def causal_boosts(seeds: Mapping[str, float], neighbours: Iterable[Neighbor], per_hop: float) -> Mapping[str, float]:
    """The boosts of the seeds' causal neighbours, as shares of their scores.

    `seeds` are hits with their scores; a weak one gives less, in proportion to the best. A neighbour gains
    `per_hop / hop`, times the strengths on the path; only its best path counts. No seed boosts itself, and no memory is
    boosted for having been superseded.
    """
    best = max(seeds.values(), default=0.0)
    gains: dict[str, float] = {}
    for step in neighbours:
        score = seeds.get(step.start, 0.0)
        leads_to_superseded = step.relation == Relation.SUPERSEDES and step.outward
        if score > 0 and step.place != step.start and not leads_to_superseded:
            gain = score / best * per_hop / step.hop * step.path_strength * step.strength
            gains[step.place] = max(gain, gains.get(step.place, 0.0))
    return {name: gain for name, gain in gains.items() if gain > 0}


def cap_boosts(parts: Mapping[str, float], limit: float) -> Mapping[str, float]:
    """The contributions above 0 by name, scaled down if their sum would exceed `limit`."""
    given = {name: part for name, part in parts.items() if part > 0}
    total = sum(given.values())
    return given if total <= limit else {name: part * (limit / total) * _BELOW for name, part in given.items()}
