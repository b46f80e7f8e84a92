"""A measurement beside its bare baseline, how two things are timed fairly, and how it is all printed."""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

Item = TypeVar("Item")


class Spread(Struct, frozen=True, kw_only=True):
    """Median and 95th percentile of `count` measurements; a single value is both."""

    p50: float
    p95: float
    count: int


class Figure(Struct, frozen=True, kw_only=True):
    """One line of the report. `ratio` is ours to bare at the median; `note` says what bare is."""

    name: str
    memories: int
    unit: str
    ours: Spread
    bare: Spread | None
    ratio: float | None
    note: str


def figure(
    name: str, memories: int, unit: str, ours: Sequence[float], bare: Sequence[float] = (), *, note: str = ""
) -> Figure:
    """A figure of the measurements of both sides; without a bare side there is no ratio."""
    mine, other = spread(ours), spread(bare) if bare else None
    ratio = mine.p50 / other.p50 if other and other.p50 else None
    return Figure(name=name, memories=memories, unit=unit, ours=mine, bare=other, ratio=ratio, note=note)


def spread(values: Sequence[float]) -> Spread:
    """The spread of at least one value."""
    ranked = sorted(values)

    def at(share: float) -> float:
        return ranked[max(0, math.ceil(share * len(ranked)) - 1)]

    return Spread(p50=at(0.50), p95=at(0.95), count=len(ranked))


def interleave(
    items: Iterable[Item], ours: Callable[[Item], object], bare: Callable[[Item], object]
) -> tuple[list[float], list[float]]:
    """Milliseconds of both sides for every item, taking turns, so that a slow moment of the machine hits both."""
    mine, others = [], []
    for item in items:
        mine.append(milliseconds(lambda: ours(item)))  # noqa: B023 - called at once
        others.append(milliseconds(lambda: bare(item)))  # noqa: B023 - called at once
    return mine, others


def milliseconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def table(figures: Sequence[Figure]) -> str:
    """The figures as text, a line each."""
    head = ("figure", "memories", "unit", "ours p50", "p95", "bare p50", "p95", "ratio", "beside")
    rows = [head, *(_row(each) for each in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(lines)


def machine() -> dict[str, object]:
    """What the figures were measured on."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load_before": load,
    }


def _row(each: Figure) -> tuple[str, ...]:
    bare = (_number(each.bare.p50), _number(each.bare.p95)) if each.bare else ("-", "-")
    ratio = f"{each.ratio:.2f}" if each.ratio is not None else "-"
    ours = (_number(each.ours.p50), _number(each.ours.p95))
    return (each.name, f"{each.memories:,}", each.unit, *ours, *bare, ratio, each.note)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
