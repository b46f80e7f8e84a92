"""The commands that take in what exists and give out what is here: import, export."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console

from scrimshaw.app.cli import options
from scrimshaw.app.cli.memory import Vectors, fill_vectors, open_memory, vectors_of
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import is_interactive, line, note, progress, show
from scrimshaw.app.importing import FoundSource, ImportPlan, ImportRequest, plan_import, source_names
from scrimshaw.engine import Engine
from scrimshaw.engine.exporting import Exported, export_jsonl, export_lines, export_markdown
from scrimshaw.engine.importers import ImportResult
from scrimshaw.errors import InvalidRequest

app = typer.Typer()

INTERRUPTED = 1
MOST_LINES = 30
_STYLES = {"taken": "green", "left": "yellow", "found": "cyan"}
_MEGABYTE = 1_000_000


class ExportFormat(StrEnum):
    """What an export is written as."""

    MARKDOWN = "markdown"
    JSONL = "jsonl"


class ImportSummary(Struct, frozen=True, kw_only=True):
    """What an import came to; one that was interrupted goes on where it was when run again."""

    #: By status.
    counts: dict[str, int]
    events: int
    memories: int
    taken: tuple[ImportResult, ...]
    interrupted: bool
    vectors: Vectors | None = None


@app.command("import", epilog=example("scrimshaw import transcripts --dry-run", "scrimshaw import memory-json m.jsonl"))
def import_(
    source: Annotated[
        str, typer.Argument(help=f"One of {', '.join(source_names())}; or a file or folder of Markdown.")
    ],
    path: Annotated[Path | None, typer.Argument(help="Where it is, if not at its usual place.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be taken, and write nothing.")] = False,
    no_vectors: options.NoVectors = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Take in earlier sessions or other memories.

    They are redacted, judged, and taken once. Safe to interrupt and to repeat.
    """
    with open_memory(project) as engine:
        request = ImportRequest(source=source, path=path, home=Path.home(), dry_run=dry_run)
        summary = run_import(engine, plan_import(engine, request), as_json)
        if not (dry_run or summary.interrupted):
            vectors = vectors_of(engine) if no_vectors else fill_vectors(engine, as_json)
            summary = replace(summary, vectors=vectors)
    show(summary, as_json, render_summary)
    stop_if_interrupted(summary)


@app.command(epilog=example("scrimshaw export --output backup", "scrimshaw export --format jsonl > memories.jsonl"))
def export(
    format_: Annotated[
        ExportFormat, typer.Option("--format", help="Markdown files, or JSON lines with all fields.")
    ] = (ExportFormat.MARKDOWN),
    output: Annotated[
        Path | None, typer.Option(help="A folder for Markdown, a file for JSON lines; without it, standard output.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there, without asking.")] = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Write the memories somewhere else, redacted once more."""
    with open_memory(project) as engine:
        if output is None:
            if format_ is ExportFormat.MARKDOWN:
                raise InvalidRequest("Markdown files need a folder.", "Name one with --output.", parameter="output")
            for each in export_lines(engine):
                sys.stdout.buffer.write(each)
            return
        _demand_free(output, force)
        write = export_markdown if format_ is ExportFormat.MARKDOWN else export_jsonl
        exported = write(engine, output.absolute())
    show(exported, as_json, _render_export)


def run_import(engine: Engine, plan: ImportPlan, as_json: bool) -> ImportSummary:
    """Do the work of a plan with a progress bar; Ctrl-C ends it with what was done until then."""
    results: list[ImportResult] = []
    interrupted = False
    with progress("Taking in", as_json) as advance:
        try:
            for result in plan.work:
                results.append(result)
                advance(len(results), max(plan.total, len(results)))
        except KeyboardInterrupt:
            interrupted = True
    return ImportSummary(
        counts=dict(Counter(each.status for each in results)),
        events=sum(each.events for each in results),
        memories=len({name for each in results if each.status == "taken" for name in each.memories}),
        taken=tuple(results),
        interrupted=interrupted,
    )


def stop_if_interrupted(summary: ImportSummary) -> None:
    """End the command with a failure where Ctrl-C cut the import short."""
    if summary.interrupted:
        note("Interrupted. Run the same command again to go on.")
        raise typer.Exit(INTERRUPTED)


def render_summary(console: Console, summary: ImportSummary) -> None:
    """A line for everything that was not there already, then the sums."""
    new = [each for each in summary.taken if each.status != "unchanged"]
    for each in new[:MOST_LINES]:
        details = [f"{each.events} events"] * bool(each.events) + [*each.memories, *each.reasons]
        status = (f"{each.status:<6}", _STYLES.get(each.status, ""))
        console.print(line(status, f" {each.source}  ", (each.place, "dim")))
        if details:
            console.print(line((f"       {'; '.join(details)}", "dim")))
    if len(new) > MOST_LINES:
        console.print(line((f"and {len(new) - MOST_LINES} more; --json tells them all", "dim")))
    counts = ", ".join(f"{count} {status}" for status, count in sorted(summary.counts.items())) or "nothing found"
    console.print(f"{counts}; {summary.events} events, {summary.memories} memories")


def render_sources(console: Console, sources: Sequence[FoundSource]) -> None:
    """What there is to start from, a line each."""
    for each in sources:
        size = f", {each.size / _MEGABYTE:.1f} MB" if each.size >= _MEGABYTE / 10 else ""
        live = "  read in place, nothing to import" if each.live else ""
        console.print(line((each.kind, "cyan"), f"  {each.count}{size}  ", (each.place, "dim"), live))


def _render_export(console: Console, result: Exported) -> None:
    console.print(line(f"{result.memories} memories as {result.format} in ", (result.place, "cyan")))


def _demand_free(output: Path, force: bool) -> None:
    """Ask before something is replaced; raises InvalidRequest where nobody can answer, Abort on a no."""
    is_filled = any(output.iterdir()) if output.is_dir() else output.exists()
    if force or not is_filled:
        return
    if not is_interactive():
        raise InvalidRequest(f"{output} holds something.", "Add --force to replace it.", parameter="output")
    typer.confirm(f"{output} holds something. Replace what has the same name?", abort=True, err=True)
