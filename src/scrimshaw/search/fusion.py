"""Fuse the ranked lists of the channels into one, by score and not by rank.

Ranks throw away how sure a channel is. Here a list counts by its shape: full-text scores against the best of the
list, so that a list without a standout adds little; cosines by their plain distance, so that a standout adds much.
No list is stretched to fill a range. On six judged sets this is no worse than the better of text and vector alone
(within .003 nDCG@10), where equal-weight reciprocal ranks lose on two; on a seventh, whose queries name a kind of
document, it needs the weights of the router (measured, docs/evaluation).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

TEXT = "text"
VECTOR = "vector"


@dataclass(frozen=True, slots=True)
class ChannelList:
    """What one channel found: distinct ids, best first, and the scores as its engine gave them (higher is better)."""

    channel: str
    ids: Sequence[str]
    scores: Sequence[float]


@dataclass(frozen=True, slots=True)
class FusionProfile:
    """The numbers of fusion."""

    #: How many candidates a channel was asked for; 50 costs up to .012 nDCG@10, 200 gains less than 100.
    depth: int
    #: How far below the best cosine a candidate counts nothing; above 0.3 hardly anything changes, 0.2 costs .01.
    span: float = 0.4


@dataclass(frozen=True, slots=True)
class Fused:
    """A candidate after fusion. `score` lies in [0, 1] and is the sum of `parts`, one share per channel that
    found it; `ranks` count from 1; `raw` are the engines' scores."""

    id: str
    score: float
    ranks: Mapping[str, int] = field(default_factory=dict)
    raw: Mapping[str, float] = field(default_factory=dict)
    parts: Mapping[str, float] = field(default_factory=dict)


def fuse(lists: Sequence[ChannelList], weights: Mapping[str, float], profile: FusionProfile) -> list[Fused]:
    """One list from many, best first, equal scores by id; the order of `lists` does not matter.

    A channel other than text and vector gives its scores in [0, 1] already (a trigger that matched, the strength
    of an edge). Weights count relative to each other among the lists that are not empty; a weight of 0 leaves a
    channel's candidates in, at no share. Raises KeyError for a list without a weight, ValueError for a negative one.
    """
    found = sorted((each for each in lists if each.ids), key=lambda each: each.channel)
    given = [weights[each.channel] for each in found]
    if any(weight < 0 for weight in given):
        raise ValueError("a channel's weight cannot be negative")
    total = sum(given)
    shares = [weight / total if total else 0.0 for weight in given]
    ranks: dict[str, dict[str, int]] = defaultdict(dict)
    raw: dict[str, dict[str, float]] = defaultdict(dict)
    parts: dict[str, dict[str, float]] = defaultdict(dict)
    for each, share in zip(found, shares, strict=True):
        rows = zip(each.ids, each.scores, _evidence(each, profile), strict=True)
        for rank, (id_, score, evidence) in enumerate(rows, start=1):
            ranks[id_][each.channel] = rank
            raw[id_][each.channel] = score
            parts[id_][each.channel] = share * evidence
    fused = [Fused(id_, min(1.0, sum(part.values())), ranks[id_], raw[id_], part) for id_, part in parts.items()]
    return sorted(fused, key=lambda hit: (-hit.score, hit.id))


def _evidence(found: ChannelList, profile: FusionProfile) -> list[float]:
    """How much each candidate of a list counts, in [0, 1]."""
    scores = found.scores
    # of a list that was cut off, the last score is what an unlisted memory can reach
    floor = scores[-1] if len(scores) >= profile.depth else None
    if found.channel == TEXT:
        # distance above that, as a share of the best score
        best = scores[0]
        return [(score - (floor or 0.0)) / best if best > 0 else 0.0 for score in scores]
    if found.channel == VECTOR:
        # distance above it in spans, at most one span below the best
        lowest = scores[0] - profile.span
        lowest = lowest if floor is None else max(lowest, floor)
        return [max(0.0, score - lowest) / profile.span for score in scores]
    return [min(1.0, max(0.0, score)) for score in scores]
