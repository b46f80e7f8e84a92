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
from scrimshaw.app.starting.plan import SOURCES, Plan, Request, plan
from scrimshaw.engine import Engine
from scrimshaw.engine.exporting import Exported, export_jsonl, export_lines, export_markdown
from scrimshaw.engine.starting.sources import Found
from scrimshaw.engine.starting.taken import Taken
from scrimshaw.errors import InvalidRequest

app = typer.Typer()

INTERRUPTED = 1
_MOST_SHOWN = 30
_STYLES = {"taken": "green", "left": "yellow", "found": "cyan"}
_MEGABYTE = 1_000_000


class Format(StrEnum):
    """What an export is written as."""

    MARKDOWN = "markdown"
    JSONL = "jsonl"


class Imported(Struct, frozen=True, kw_only=True):
    """What an import came to; `counts` are by status. One that was interrupted goes on where it was when run again."""

    counts: dict[str, int]
    events: int
    memories: int
    taken: tuple[Taken, ...]
    interrupted: bool
    vectors: Vectors | None = None


@app.command("import", epilog=example("scrimshaw import transcripts --dry-run", "scrimshaw import memory-json m.jsonl"))
def import_(
    source: Annotated[str, typer.Argument(help=f"One of {', '.join(SOURCES)}; or a file or folder of Markdown.")],
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
        request = Request(source=source, path=path, home=Path.home(), dry_run=dry_run)
        result = take_in(engine, plan(engine, request), as_json)
        if not (dry_run or result.interrupted):
            vectors = vectors_of(engine) if no_vectors else fill_vectors(engine, as_json)
            result = replace(result, vectors=vectors)
    show(result, as_json, render_imported)
    stop_if_interrupted(result)


@app.command(epilog=example("scrimshaw export --output backup", "scrimshaw export --format jsonl > memories.jsonl"))
def export(
    format_: Annotated[Format, typer.Option("--format", help="Markdown files, or JSON lines with all fields.")] = (
        Format.MARKDOWN
    ),
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
            _print_lines(engine, format_)
            return
        _demand_free(output, force)
        write = export_markdown if format_ is Format.MARKDOWN else export_jsonl
        exported = write(engine, output.absolute())
    show(exported, as_json, _render_exported)


def take_in(engine: Engine, work: Plan, as_json: bool) -> Imported:
    """Do the work of a plan with a progress bar; Ctrl-C ends it with what was done until then."""
    taken: list[Taken] = []
    interrupted = False
    with progress("Taking in", as_json) as advance:
        try:
            for each in work.work:
                taken.append(each)
                advance(len(taken), max(work.total, len(taken)))
        except KeyboardInterrupt:
            interrupted = True
    return Imported(
        counts=dict(Counter(each.status for each in taken)),
        events=sum(each.events for each in taken),
        memories=len({name for each in taken if each.status == "taken" for name in each.memories}),
        taken=tuple(taken),
        interrupted=interrupted,
    )


def stop_if_interrupted(result: Imported) -> None:
    """End the command with a failure where Ctrl-C cut the import short."""
    if result.interrupted:
        note("Interrupted. Run the same command again to go on.")
        raise typer.Exit(INTERRUPTED)


def _print_lines(engine: Engine, format_: Format) -> None:
    if format_ is Format.MARKDOWN:
        raise InvalidRequest("Markdown files need a folder.", "Name one with --output.", parameter="output")
    for each in export_lines(engine):
        sys.stdout.buffer.write(each)


def _demand_free(output: Path, force: bool) -> None:
    """Ask before something is replaced; raises InvalidRequest where nobody can answer, Abort on a no."""
    taken = any(output.iterdir()) if output.is_dir() else output.exists()
    if force or not taken:
        return
    if not is_interactive():
        raise InvalidRequest(f"{output} holds something.", "Add --force to replace it.", parameter="output")
    typer.confirm(f"{output} holds something. Replace what has the same name?", abort=True, err=True)


def render_imported(console: Console, result: Imported) -> None:
    """A line for everything that was not there already, then the sums."""
    new = [each for each in result.taken if each.status != "unchanged"]
    for each in new[:_MOST_SHOWN]:
        _render_taken(console, each)
    if len(new) > _MOST_SHOWN:
        console.print(line((f"and {len(new) - _MOST_SHOWN} more; --json tells them all", "dim")))
    counts = ", ".join(f"{count} {status}" for status, count in sorted(result.counts.items())) or "nothing found"
    console.print(f"{counts}; {result.events} events, {result.memories} memories")


def _render_exported(console: Console, result: Exported) -> None:
    """How much was written, and where."""
    console.print(line(f"{result.memories} memories as {result.format} in ", (result.place, "cyan")))


def render_found(console: Console, sources: Sequence[Found]) -> None:
    """What there is to start from, a line each."""
    for each in sources:
        size = f", {each.size / _MEGABYTE:.1f} MB" if each.size >= _MEGABYTE / 10 else ""
        live = "  read in place, nothing to import" if each.live else ""
        console.print(line((each.kind, "cyan"), f"  {each.count}{size}  ", (each.place, "dim"), live))


def _render_taken(console: Console, each: Taken) -> None:
    told = [*each.memories, *each.reasons]
    if each.events:
        told.insert(0, f"{each.events} events")
    console.print(line((f"{each.status:<6}", _STYLES.get(each.status, "")), f" {each.source}  ", (each.place, "dim")))
    if told:
        console.print(line((f"       {'; '.join(told)}", "dim")))
