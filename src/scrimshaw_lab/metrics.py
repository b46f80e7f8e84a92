"""How good a ranking is, against graded judgements. Pure.

A ranking is a list of distinct ids, best first; judgements give a grade, a whole number from 0, to ids that matter.
"""

import math
import random
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

ANSWERS = 2
_DRAWINGS = 2000


def ndcg_at(ranking: Sequence[str], grades: Mapping[str, int], cutoff: int) -> float:
    """Normalised discounted cumulative gain, 0..1: a grade g gains 2**g - 1, the place r divides it by log2(r + 1).

    0 where nothing has a grade above 0.
    """
    ideal = _discounted(sorted(grades.values(), reverse=True)[:cutoff])
    return _discounted([grades.get(name, 0) for name in ranking[:cutoff]]) / ideal if ideal else 0.0


def mrr_at(ranking: Sequence[str], answers: Collection[str], cutoff: int) -> float:
    """1 divided by the place of the first answer, 0 where none stands among the first `cutoff`."""
    places = (place for place, name in enumerate(ranking[:cutoff], start=1) if name in answers)
    return 1 / next(places, math.inf)


def hit_at(ranking: Sequence[str], answers: Collection[str], cutoff: int) -> float:
    """1 where an answer stands among the first `cutoff`, else 0."""
    return float(any(name in answers for name in ranking[:cutoff]))


def answers_among(grades: Mapping[str, int]) -> frozenset[str]:
    """What counts as an answer: grade 2 and above or, where no grade is that high, the highest one above 0."""
    least = max(1, min(ANSWERS, max(grades.values(), default=0)))
    return frozenset(name for name, grade in grades.items() if grade >= least)


def share(part: int, whole: int) -> float | None:
    """A part of a whole, 0..1; None where there is nothing to measure."""
    return part / whole if whole else None


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share (0..1) of the values do not exceed; ValueError for no values."""
    if not values:
        raise ValueError("no values")
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean; ZeroDivisionError for no values."""
    return sum(values) / len(values)


def bootstrap_interval(groups: Sequence[Sequence[float]]) -> tuple[float, float]:
    """95 % of the means when whole groups are drawn anew: values of one group stand or fall together."""
    draw, means = random.Random(1), list[float]()
    for _ in range(_DRAWINGS):
        means.append(mean([value for group in draw.choices(groups, k=len(groups)) for value in group]))
    return percentile(means, 0.025), percentile(means, 0.975)


def _discounted(grades: Sequence[int]) -> float:
    return math.fsum((2**grade - 1) / math.log2(place + 1) for place, grade in enumerate(grades, start=1))


PERSONAL_CLASSES = frozenset({"email", "phone", "ssn"})


class Rate(Struct, frozen=True, kw_only=True):
    """Of `total` texts, `hit` were touched by the gate."""

    hit: int
    total: int

    @property
    def value(self) -> float:
        """Hits per text, 0..1; 0 where there is no text."""
        return self.hit / self.total if self.total else 0.0
