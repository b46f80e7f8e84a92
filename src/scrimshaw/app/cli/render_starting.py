"""What was taken in and given out, as people read it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from scrimshaw.app.cli.output import line
from scrimshaw.engine.exporting import Exported
from scrimshaw.engine.starting.sources import Found
from scrimshaw.engine.starting.taken import Taken

if TYPE_CHECKING:
    from scrimshaw.app.cli.starting import Imported

MOST_SHOWN = 30
_STYLES = {"taken": "green", "left": "yellow", "found": "cyan"}
_MEGABYTE = 1_000_000


def imported(console: Console, result: Imported) -> None:
    """A line for everything that was not there already, then the sums."""
    new = [each for each in result.taken if each.status != "unchanged"]
    for each in new[:MOST_SHOWN]:
        _taken(console, each)
    if len(new) > MOST_SHOWN:
        console.print(line((f"and {len(new) - MOST_SHOWN} more; --json tells them all", "dim")))
    counts = ", ".join(f"{count} {status}" for status, count in sorted(result.counts.items())) or "nothing found"
    console.print(f"{counts}; {result.events} events, {result.memories} memories")


def exported(console: Console, result: Exported) -> None:
    """How much was written, and where."""
    console.print(line(f"{result.memories} memories as {result.format} in ", (result.place, "cyan")))


def found(console: Console, sources: Sequence[Found]) -> None:
    """What there is to start from, a line each."""
    for each in sources:
        size = f", {each.size / _MEGABYTE:.1f} MB" if each.size >= _MEGABYTE / 10 else ""
        live = "  read in place, nothing to import" if each.live else ""
        console.print(line((each.kind, "cyan"), f"  {each.count}{size}  ", (each.place, "dim"), live))


def _taken(console: Console, each: Taken) -> None:
    told = [*each.memories, *each.reasons]
    if each.events:
        told.insert(0, f"{each.events} events")
    console.print(line((f"{each.status:<6}", _STYLES.get(each.status, "")), f" {each.source}  ", (each.place, "dim")))
    if told:
        console.print(line((f"       {'; '.join(told)}", "dim")))
