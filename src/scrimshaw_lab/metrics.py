"""How good a ranking is, against graded judgements. Pure.

A ranking is a list of distinct ids, best first; judgements give a grade, a whole number from 0, to ids that matter.
"""

import math
import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

ANSWERS = 2
_DRAWINGS = 2000


def ndcg_at(ranking: Sequence[str], grades: Mapping[str, int], cutoff: int) -> float:
    """Normalised discounted cumulative gain, 0..1: a grade g gains 2**g - 1, the place r divides it by log2(r + 1).

    0 if nothing has a grade above 0.
    """
    ideal = _discounted(sorted(grades.values(), reverse=True)[:cutoff])
    return _discounted([grades.get(name, 0) for name in ranking[:cutoff]]) / ideal if ideal else 0.0


def mrr_at(ranking: Sequence[str], answers: Collection[str], cutoff: int) -> float:
    """1 divided by the place of the first answer, 0 if there is none among the first `cutoff`."""
    places = (place for place, name in enumerate(ranking[:cutoff], start=1) if name in answers)
    return 1 / next(places, math.inf)


def hit_at(ranking: Sequence[str], answers: Collection[str], cutoff: int) -> float:
    """1 if an answer is among the first `cutoff`, otherwise 0."""
    return float(any(name in answers for name in ranking[:cutoff]))


def answers_among(grades: Mapping[str, int]) -> frozenset[str]:
    """What counts as an answer: grade 2 and above or, where no grade is that high, the highest one above 0."""
    least = max(1, min(ANSWERS, max(grades.values(), default=0)))
    return frozenset(name for name, grade in grades.items() if grade >= least)


def rank_correlation(base: Sequence[str], other: Sequence[str]) -> float:
    """Spearman's between the order of `base` and the order that `other` gives to the same ids, -1..1.

    Ids that `other` lacks come last. 1 for fewer than two ids.
    """
    count = len(base)
    if count < 2:
        return 1.0
    known = {name: place for place, name in enumerate(other)}
    ordered = sorted(base, key=lambda name: known.get(name, len(other)))
    squares = sum((ordered.index(name) - place) ** 2 for place, name in enumerate(base))
    return 1 - 6 * squares / (count * (count**2 - 1))


def rank_biased_overlap(one: Sequence[str], two: Sequence[str], persistence: float = 0.9) -> float:
    """How much two rankings share, 0..1, the first places counting most; extrapolated from the depth of the longer.

    With .9 the first ten places have 86 % of the weight. 1 for two empty rankings.
    """
    depth = max(len(one), len(two))
    shares = [len({*one[:place]} & {*two[:place]}) / place for place in range(1, depth + 1)]
    if not shares:
        return 1.0
    weighted = math.fsum(share * persistence**place for place, share in enumerate(shares))
    return (1 - persistence) * weighted + shares[-1] * persistence**depth


def share(part: int, whole: int) -> float | None:
    """A part of a whole, 0..1; None if there is nothing to measure."""
    return part / whole if whole else None


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share (0..1) of the values do not exceed; IndexError without values."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean; ZeroDivisionError for no values."""
    return sum(values) / len(values)


def bootstrap_interval(groups: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The interval of 95 % of the means when whole groups are resampled, as values of a group depend on each other."""
    draw, means = random.Random(1), list[float]()
    for _ in range(_DRAWINGS):
        means.append(mean([value for group in draw.choices(groups, k=len(groups)) for value in group]))
    return percentile(means, 0.025), percentile(means, 0.975)


def _discounted(grades: Sequence[int]) -> float:
    return math.fsum((2**grade - 1) / math.log2(place + 1) for place, grade in enumerate(grades, start=1))


PERSONAL_CLASSES = frozenset({"card", "email", "iban", "phone", "ssn"})


class Rate(Struct, frozen=True, kw_only=True):
    """Of `total` texts, `hit` were touched by the gate."""

    hit: int
    total: int

    @property
    def value(self) -> float:
        """Hits per text, 0..1; 0 if there is no text."""
        return self.hit / self.total if self.total else 0.0


def count_hits(hits: Iterable[bool]) -> Rate:
    """The rate of those that are true."""
    found = list(hits)
    return Rate(hit=sum(found), total=len(found))


def group_hits(named: Iterable[tuple[str, bool]]) -> dict[str, Rate]:
    """The rate of each group, by its name."""
    groups: dict[str, list[bool]] = defaultdict(list)
    for name, hit in named:
        groups[name].append(hit)
    return {name: count_hits(hits) for name, hits in sorted(groups.items())}


class DetectionScore(Struct, frozen=True, kw_only=True):
    """What was rightly found, wrongly found, and missed; rates are 0..1, None if there was nothing to measure."""

    found: int = 0
    wrong: int = 0
    missed: int = 0

    @property
    def precision(self) -> float | None:
        """The share of what was found that is right."""
        return share(self.found, self.found + self.wrong)

    @property
    def recall(self) -> float | None:
        """The share of what there is that was found."""
        return share(self.found, self.found + self.missed)
