"""The command that measures search on the user's own memory: eval search."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from scrimshaw.app.cli import options
from scrimshaw.app.cli.memory import settings_of
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import line, note_degradations, progress, show, show_json
from scrimshaw_lab.search_quality import Quality, SearchEvaluation, evaluate

app = typer.Typer(add_completion=False, help="Measure on your own memory.", no_args_is_help=True)

STEPS = {"scan": "Reading files", "embed": "Making vectors", "search": "Searching"}


@app.callback(epilog=example("scrimshaw eval golden"))
def group() -> None:
    """Measure on your own memory."""


@app.command(
    "search", epilog=example("scrimshaw eval search --vault notes --queries judged.jsonl --exclude 'drafts/*'")
)
def search(
    vault: Annotated[Path, typer.Option(exists=True, file_okay=False, help="The folder of memories.")],
    queries: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Judged queries, a JSON object a line.")],
    exclude: Annotated[list[str] | None, typer.Option(metavar="GLOB", help="Leave these out (repeatable).")] = None,
    channels: Annotated[str, typer.Option(help="Channels to measure by themselves as well.")] = "text,vector",
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Search a vault for judged queries, and measure how well the answers stand."""
    wanted = options.channels_of(channels, alone=True)
    with progress("", as_json) as advance:
        result = evaluate(
            vault,
            queries,
            exclude=exclude or (),
            channels=wanted,
            progress=lambda step, done, total: advance(done, total),
            settings=settings_of(project),
        )
    if as_json:
        show_json(_as_json(result))
        return
    show(result, False, _render)
    note_degradations(result.degradations)


def _as_json(result: SearchEvaluation) -> dict[str, object]:
    """The figures, and what to know about them."""
    more = ("memories", "missed", "unknown", "degradations")
    return result.as_json() | {name: getattr(result, name) for name in more}


def _render(console: Console, result: SearchEvaluation) -> None:
    """The figures of the fused ranking and of each channel by itself."""
    console.print(f"{result.queries} queries over {result.memories} memories")
    _figures(console, "fused", result.fused)
    for channel, quality in result.channels.items():
        _figures(console, channel, quality)
    console.print(f"fused search: median {result.p50_ms:.1f} ms, 95 % within {result.p95_ms:.1f} ms")
    if result.missed:
        console.print(line(("missed: ", "yellow"), ", ".join(result.missed)))
    if result.unknown:
        console.print(line(("judged but not in the vault: ", "yellow"), ", ".join(result.unknown)))


def _figures(console: Console, name: str, quality: Quality) -> None:
    figures: dict[str, float] = msgspec.to_builtins(quality)
    console.print(f"{name:<8} " + "  ".join(f"{key} {value:.3f}" for key, value in figures.items()))
