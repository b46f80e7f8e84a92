"""Fuse the ranked lists of the channels into one, by score and not by rank.

Ranks lose how sure a channel is. Here a list counts by its shape: full-text scores relative to the best of the
list, so that a list without a standout adds little; cosines by their plain distance, so that a standout adds much.
No list is stretched to fill a range. docs/evaluation compares this with reciprocal ranks on nine judged sets.
"""

import math
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from scrimshaw.models import Channel, Match

SPAN = 0.4  # a candidate so far below the best cosine counts 0; above 0.3 hardly anything changes, 0.2 costs .01
# What is near in meaning may say it in other words: words count at least as much as meaning less this. Any eight of the
# nine judged sets choose this value (docs/evaluation).
OTHER_WORDS = 0.45
DIGITS = 6  # decimals of a score and its parts; scores that look equal are equal


class Fused(Struct, frozen=True):
    """A candidate after fusion: its score in [0, 1], and per channel its rank, from 1, and the engine's score."""

    id: str
    score: float
    ranks: Mapping[str, int] = {}
    raw: Mapping[str, float] = {}


def fuse(
    lists: Mapping[str, Sequence[Match]], weights: Mapping[str, float], depth: int, without_vector: Collection[str] = ()
) -> list[Fused]:
    """One list from those of several channels, in any order; best first, ties by id.

    Each list has distinct ids, best first; `depth` is how many candidates a channel was asked for (50 costs up to .012
    nDCG@10, 200 gains less than 100). A channel other than text and vector gives its scores in [0, 1] already (a
    trigger that matched, the strength of an edge). Weights count relative to each other among the lists that are not
    empty; a weight of 0 keeps a channel's candidates, with no share. Words count at least as much as meaning less
    OTHER_WORDS. Those `without_vector` are taken to be as near in meaning as in words; otherwise they would rank behind
    all that have one. Raises KeyError for a list without a weight.
    """
    channels = sorted(channel for channel, matches in lists.items() if matches)
    total = sum(map(weights.__getitem__, channels)) or 1.0
    is_mixed = lists.get(Channel.TEXT) and lists.get(Channel.VECTOR) and weights[Channel.VECTOR]
    found: dict[str, tuple[dict[str, float], dict[str, int], dict[str, float]]] = {}
    for channel in channels:
        lowest, unit = scale_scores(channel, lists[channel], depth)
        for rank, match in enumerate(lists[channel], start=1):
            shares, ranks, raw = found.get(match.id) or found.setdefault(match.id, ({}, {}, {}))
            share = (match.score - lowest) / unit
            shares[channel] = share if 0.0 < share < 1.0 else float(share > 0.0)
            ranks[channel], raw[channel] = rank, match.score
    fused = list[Fused]()
    for name, (shares, ranks, raw) in found.items():
        if is_mixed:
            if name in without_vector:
                shares[Channel.VECTOR] = shares[Channel.TEXT]
            shares[Channel.TEXT] = max(shares.get(Channel.TEXT, 0.0), shares.get(Channel.VECTOR, 0.0) - OTHER_WORDS)
        score = sum([weights[channel] / total * shares[channel] for channel in channels if channel in shares])
        fused.append(Fused(name, min(1.0, round(score, DIGITS)), ranks, raw))
    return sorted(fused, key=lambda hit: (-hit.score, hit.id))


def scale_scores(channel: str, matches: Sequence[Match], depth: int) -> tuple[float, float]:
    """The score in a non-empty list that counts 0, and how much more counts 1."""
    # in a truncated list, the last score is the most an unlisted memory can have
    best, floor = matches[0].score, matches[-1].score if len(matches) >= depth else None
    if channel == Channel.TEXT:
        return floor or 0.0, best if best > 0 else math.inf
    if channel == Channel.VECTOR:
        return max(best - SPAN, best - SPAN if floor is None else floor), SPAN
    return 0.0, 1.0
