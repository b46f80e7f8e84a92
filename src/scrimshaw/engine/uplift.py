"""The effect of injection: sessions that were given memories compared with those that, by chance, were not."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean, pvariance

from msgspec import Struct

from scrimshaw.engine.core import Engine
from scrimshaw.models import EventKind, RecordedEvent

LEAST_CALLS = 3  # a shorter session has nothing that could have gone better
_DEVIATIONS = 1.96  # 95 % of the differences of two means are within it
_READS = ("Read", "ReadRange", "ReadPart")


class Difference(Struct, frozen=True, kw_only=True):
    """A measure of sessions: its mean with and without memories, and the 95 % interval of the difference."""

    name: str
    told: float
    untold: float
    low: float
    high: float

    @property
    def is_sure(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0


class Uplift(Struct, frozen=True, kw_only=True):
    """How many sessions got memories and how many did not, and the differences; none without both kinds."""

    percent: int
    told: int
    untold: int
    differences: tuple[Difference, ...] = ()


def measure_uplift(engine: Engine) -> Uplift:
    """Compare the recorded sessions that `rollout.injection` gave memories with those it did not."""
    rollout = engine.settings.rollout
    groups: Mapping[bool, list[Mapping[str, float]]] = {True: [], False: []}
    for record in engine.sessions.records():
        events = engine.sessions.events(record.session)
        if sum(each.kind is EventKind.TOOL for each in events) >= LEAST_CALLS:
            groups[rollout.includes("injection", record.session)].append(_measure(events))
    told, untold = groups[True], groups[False]
    differences = list[Difference]()
    for name in told[0] if told and untold else ():
        with_, without = ([each[name] for each in group] for group in (told, untold))
        gap = fmean(with_) - fmean(without)
        reach = _DEVIATIONS * math.sqrt(sum(pvariance(some) / max(1, len(some) - 1) for some in (with_, without)))
        means = {"told": round(fmean(with_), 3), "untold": round(fmean(without), 3)}
        differences.append(Difference(name=name, **means, low=round(gap - reach, 3), high=round(gap + reach, 3)))
    return Uplift(percent=rollout.injection, told=len(told), untold=len(untold), differences=tuple(differences))


def _measure(events: Sequence[RecordedEvent]) -> Mapping[str, float]:
    calls = [each for each in events if each.kind is EventKind.TOOL]
    failed = Counter((each.tool, each.input) for each in calls if each.failed)
    read = Counter(each.path for each in calls if each.tool in _READS and each.path)
    return {
        "prompts": sum(each.kind is EventKind.PROMPT for each in events),
        "calls": len(calls),
        "failures again": sum(times - 1 for times in failed.values()),
        "files read again": sum(times - 1 for times in read.values()),
        "characters": sum(len(each.text) for each in events),
    }
