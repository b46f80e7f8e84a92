"""The command that measures what works here and now: capabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console

from scrimshaw.app.cli import options
from scrimshaw.app.cli.memory import open_memory
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import line, show
from scrimshaw.app.probes import CLIENT, PROCESS, probes
from scrimshaw.engine import capabilities
from scrimshaw.engine.capabilities import PROBES, Probe, Truth
from scrimshaw.models import Capability

app = typer.Typer()

STYLES = {"on": "green", "degraded": "yellow", "off": "bold red"}
KNOWN: tuple[Probe, ...] = (*PROBES, *PROCESS, CLIENT)


@app.command("capabilities", epilog=example("scrimshaw capabilities --markdown > CAPABILITIES.md"))
def measure(
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a table in Markdown.")] = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure every part by using it, and show what has changed since it was last looked at."""
    with open_memory(project, fresh=False) as engine:
        truth = capabilities.measured(engine, (*PROBES, *probes(engine.settings.project)))
    show(truth, as_json, _markdown if markdown else _lines)


def drift(row: Capability) -> str:
    """What a part was until when; empty while it never changed."""
    return f"{row.was} -> {row.status} since {row.since[:10]}" if row.was else ""


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table; the first row is its head."""
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]


def _measures(name: str) -> str:
    kind = CLIENT.name if name.startswith("client:") else name
    return next(probe.measures for probe in KNOWN if probe.name == kind)


def _markdown(console: Console, truth: Truth) -> None:
    head = ("part", "status", "found", "changed", "measured by")
    rows = [(row.name, row.status, row.detail, drift(row), _measures(row.name)) for row in truth.capabilities]
    for each in table([head, *rows]):
        console.print(line(each))


def _lines(console: Console, truth: Truth) -> None:
    for row in truth.capabilities:
        console.print(line((f"{row.status:<9}", STYLES[row.status]), (f"{row.name:<16}", "bold"), row.detail))
        if change := drift(row):
            console.print(line(" " * 25, (change, "yellow")))
        console.print(line((f"{' ' * 25}{_measures(row.name)}", "dim")))
