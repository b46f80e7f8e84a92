"""The only place where a score may rise: small named boosts under a common cap."""

from collections.abc import Iterable, Mapping

from scrimshaw.models import Neighbor, Relation

_BELOW = 1 - 1e-12  # so that rounding cannot carry a scaled sum over the cap


def session_boost(attention: float, weight: float) -> float:
    """What attention (0..1, clamped) adds, as a share of the score."""
    return weight * min(max(attention, 0.0), 1.0)


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
    if total <= limit:
        return given
    return {name: part * (limit / total) * _BELOW for name, part in given.items()}
