"""The commands that take in what exists and give out what is here: import, export."""

from __future__ import annotations

import sys
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.app.cli import options, render_starting
from scrimshaw.app.cli.memory import Vectors, fill_vectors, open_memory, vectors_of
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import is_interactive, note, progress, show
from scrimshaw.app.starting.plan import SOURCES, Plan, Request, plan
from scrimshaw.engine import Engine
from scrimshaw.engine.exporting import export_jsonl, export_lines, export_markdown
from scrimshaw.engine.starting.taken import Taken
from scrimshaw.errors import InvalidRequest

app = typer.Typer()

INTERRUPTED = 1


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
    """Take in earlier sessions or other memories: redacted, judged, once. Safe to interrupt and to repeat."""
    with open_memory(project) as engine:
        request = Request(source=source, path=path, home=Path.home(), dry_run=dry_run)
        result = take_in(engine, plan(engine, request), as_json)
        if not (dry_run or result.interrupted):
            vectors = vectors_of(engine) if no_vectors else fill_vectors(engine, as_json)
            result = replace(result, vectors=vectors)
    show(result, as_json, render_starting.imported)
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
    """Write the memories of the vaults somewhere else, redacted once more."""
    with open_memory(project) as engine:
        if output is None:
            _print_lines(engine, format_)
            return
        _demand_free(output, force)
        write = export_markdown if format_ is Format.MARKDOWN else export_jsonl
        exported = write(engine, output.absolute())
    show(exported, as_json, render_starting.exported)


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
