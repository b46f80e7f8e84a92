"""What `scrimshaw stats --quality` prints: the figures of the newest memories beside their targets."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins
from rich.console import Console

from scrimshaw.app.cli.output import line, show, show_json
from scrimshaw.config import Settings
from scrimshaw.engine.quality_figures import Measure, QualityFigures, quality_figures


def show_quality(settings: Settings, days: float, as_json: bool) -> None:
    """Count and print; it reads files alone, no index."""
    figures = quality_figures(settings, days=days)
    if as_json:
        show_json(plain(figures))
    else:
        show(figures, False, _render)


def plain(figures: QualityFigures) -> dict[str, Any]:
    """The figures as plain values, each measure with its share and whether the target is met."""
    values: dict[str, Any] = to_builtins(figures)
    told = [{**to_builtins(one), "share": one.share, "met": one.is_met} for one in figures.measures]
    return {**values, "measures": told}


def _render(console: Console, figures: QualityFigures) -> None:
    console.print(f"{figures.files} memories created since {figures.since[:10]} ({figures.days:g} days)")
    for measure in figures.measures:
        word, style = _verdict(measure)
        console.print(line((f"{word:<7}", style), _told(measure)))
    console.print("bands " + ", ".join(f"{name} {count}" for name, count in figures.bands.items()))
    if figures.undated:
        console.print(f"{figures.undated} files say no time of creation and are left out")
    if figures.unreadable:
        console.print(f"{figures.unreadable} files cannot be read; `scrimshaw lint` names them")


def _verdict(measure: Measure) -> tuple[str, str]:
    """A word and its style."""
    if measure.share is None:
        return "none", "dim"
    return ("met", "green") if measure.is_met else ("missed", "bold red")


def _told(measure: Measure) -> str:
    share = "     -" if measure.share is None else f"{measure.share:6.1%}"
    bound = "at most" if measure.at_most else "at least"
    return f"{measure.name:<24}{share}  {measure.count} of {measure.of}, {bound} {measure.target:.0%}"
