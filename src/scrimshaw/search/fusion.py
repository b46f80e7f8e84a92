"""Fuse the ranked lists of the channels into one, by score and not by rank.

Ranks lose how sure a channel is. Here a list counts by its shape: full-text scores relative to the best of the
list, so that a list without a standout adds little; cosines by their plain distance, so that a standout adds much.
No list is stretched to fill a range. On six judged sets this is no worse than the better of text and vector alone
(within .003 nDCG@10), where equal-weight reciprocal ranks lose on two; on a seventh, whose queries name a kind of
document, it needs the weights of the router (measured, docs/evaluation).
"""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from scrimshaw.models import Channel, Match

SPAN = 0.4  # a candidate so far below the best cosine counts 0; above 0.3 hardly anything changes, 0.2 costs .01


class Fused(Struct, frozen=True):
    """A candidate after fusion: its score in [0, 1], and per channel its rank, from 1, and the engine's score."""

    id: str
    score: float
    ranks: Mapping[str, int] = {}
    raw: Mapping[str, float] = {}


def fuse(
    lists: Mapping[str, Sequence[Match]],
    weights: Mapping[str, float],
    depth: int,
    span: float = SPAN,
    without_vector: Collection[str] = (),
) -> list[Fused]:
    """One list from those of several channels, in any order; best first, ties by id.

    Each list has distinct ids, best first; `depth` is how many candidates a channel was asked for (50 costs up to .012
    nDCG@10, 200 gains less than 100). A channel other than text and vector gives its scores in [0, 1] already (a
    trigger that matched, the strength of an edge). Weights count relative to each other among the lists that are not
    empty; a weight of 0 keeps a channel's candidates, with no share. Those `without_vector` are taken to be as near in
    meaning as in words; otherwise they would rank behind all that have one. Raises KeyError for a list without a
    weight.
    """
    channels = sorted(channel for channel, matches in lists.items() if matches)
    given = [weights[channel] for channel in channels]
    total, by_meaning = sum(given), weights[Channel.VECTOR] if lists.get(Channel.VECTOR) else 0.0
    scores: dict[str, float] = defaultdict(float)
    ranks: dict[str, dict[str, int]] = defaultdict(dict)
    raw: dict[str, dict[str, float]] = defaultdict(dict)
    for channel, weight in zip(channels, given, strict=True):
        lowest, unit = scale_scores(channel, lists[channel], depth, span)
        for rank, match in enumerate(lists[channel], start=1):
            evidence = min(1.0, max(0.0, (match.score - lowest) / unit))
            scores[match.id] += (weight / total if total else 0.0) * evidence
            ranks[match.id][channel] = rank
            raw[match.id][channel] = match.score
            if channel == Channel.TEXT and total and match.id in without_vector:
                scores[match.id] += by_meaning / total * evidence
    fused = [Fused(name, min(1.0, score), ranks[name], raw[name]) for name, score in scores.items()]
    return sorted(fused, key=lambda hit: (-hit.score, hit.id))


def scale_scores(channel: str, matches: Sequence[Match], depth: int, span: float = SPAN) -> tuple[float, float]:
    """The score in a non-empty list that counts 0, and how much more counts 1."""
    # in a truncated list, the last score is the most an unlisted memory can have
    best, floor = matches[0].score, matches[-1].score if len(matches) >= depth else None
    if channel == Channel.TEXT:
        return floor or 0.0, best if best > 0 else math.inf
    if channel == Channel.VECTOR:
        return max(best - span, best - span if floor is None else floor), span
    return 0.0, 1.0
