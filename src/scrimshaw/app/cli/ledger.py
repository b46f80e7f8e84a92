"""The commands on the record of all changes: ledger show, ledger verify, ledger export, and undo."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from msgspec import Struct
from rich.console import Console
from rich.text import Text

from scrimshaw.app.cli import options
from scrimshaw.app.cli.memory import open_memory
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import confirm, line, note, show
from scrimshaw.engine.history import Undone, UndoStep
from scrimshaw.engine.history import undo as undo_entries
from scrimshaw.errors import AlreadyExists, StorageFailure

app = typer.Typer(help="The record of all changes.", no_args_is_help=True)
undoing_commands = typer.Typer()

Row = Mapping[str, Any]
Session = Annotated[str, typer.Option(metavar="ID", help="Only what this session changed.")]


class Format(StrEnum):
    """How an export is written."""

    JSONL = "jsonl"


class Verified(Struct, frozen=True, kw_only=True):
    """How many rows were checked, and the number of the first that is wrong or missing; 0 when the ledger is sound."""

    rows: int
    broken: int


@app.callback(epilog=example("scrimshaw ledger verify"))
def group() -> None:
    """The record of all changes."""


@app.command("show", epilog=example("scrimshaw ledger show --memory storage/wal --limit 5"))
def show_ledger(
    memory: Annotated[str, typer.Option(metavar="ID", help="Only of this memory.")] = "",
    session: Session = "",
    limit: Annotated[int, typer.Option(min=1, help="Most entries.")] = 20,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """The newest changes: what was done to which memory, by whom and why."""
    with open_memory(project) as engine:
        rows = engine.journal.history(memory, limit, session=session)
    show(rows, as_json, _entries)


@app.command(epilog=example("scrimshaw ledger verify"))
def verify(project: options.Project = None, as_json: options.AsJson = False) -> None:
    """Check that no entry was changed, taken out or cut off; exit code 1 if one was."""
    with open_memory(project, fresh=False) as engine:
        verified = Verified(**dict(zip(("rows", "broken"), engine.journal.verify(), strict=True)))
    show(verified, as_json, _verified)
    if verified.broken:
        raise typer.Exit(1)


@app.command(epilog=example("scrimshaw ledger export --output ledger.jsonl"))
def export(
    format_: Annotated[Format, typer.Option("--format", help="An object in JSON on each line.")] = Format.JSONL,
    output: Annotated[Path | None, typer.Option(dir_okay=False, help="A new file; else standard output.")] = None,
    project: options.Project = None,
) -> None:
    """All entries, oldest first: hashes and ids, no text."""
    with open_memory(project) as engine:
        rows = reversed(engine.journal.history())
        if output is None:
            sys.stdout.writelines(_lines(rows, format_))
        else:
            _write(output, _lines(rows, format_))


@undoing_commands.command(epilog=example("scrimshaw undo --session 0e24 --dry-run", "scrimshaw undo --entry 17"))
def undo(
    session: Annotated[str, typer.Option(metavar="ID", help="All that this session changed.")] = "",
    entry: Annotated[int | None, typer.Option(min=1, metavar="N", help="One entry of the ledger.")] = None,
    redo: Annotated[bool, typer.Option("--redo", help="Bring back what an undo of the session took back.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be undone, and change nothing.")] = False,
    yes: options.Yes = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Take changes back: files, index and relations as they were. What was edited since is left alone: exit code 1."""
    if bool(session) == bool(entry):
        raise typer.BadParameter("Give --session or --entry, one of them.")
    if redo and not session:
        raise typer.BadParameter("--redo goes with --session; an undo of one entry is an entry itself.")
    take_back = partial(undo_entries, session=session, entry=entry or 0, redo=redo)
    with open_memory(project) as engine:
        planned = take_back(engine, dry_run=True)
        if not dry_run and planned.undone:
            for step in planned.steps:
                if step.note:
                    note(f"Entry {step.entry}: {step.note}.")
            confirm(f"Take back {planned.undone} of {len(planned.steps)} changes?", yes)
            planned = take_back(engine)
    show(planned, as_json, _undone)
    if planned.undone < len(planned.steps):
        raise typer.Exit(1)


def _lines(rows: Iterator[Row], format_: Format) -> Iterator[str]:
    encode = {Format.JSONL: msgspec.json.encode}[format_]
    for row in rows:
        yield encode(row).decode() + "\n"


def _write(path: Path, lines: Iterator[str]) -> None:
    try:
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.writelines(lines)
    except FileExistsError as error:
        raise AlreadyExists(f"{path} exists.", "Name a new file.") from error
    except OSError as error:
        raise StorageFailure(f"{path} cannot be written: {error.strerror}.", "Name another file.") from error


def _entries(console: Console, rows: Sequence[Row]) -> None:
    for row in rows:
        moment = datetime.fromtimestamp(row["at"], UTC).strftime("%Y-%m-%d %H:%M:%S")
        by = f"{row['actor']}, session {row['session']}" if row["session"] else row["actor"]
        console.print(line((f"{row['seq']:>5}  {moment}  ", "dim"), row["action"], "  ", (row["memory_id"], "cyan")))
        console.print(line((f"       {row['reason']} ({by})", "dim")))
    if not rows:
        console.print("The ledger has no such entry.")


def _verified(console: Console, verified: Verified) -> None:
    if verified.broken:
        console.print(line((f"Entry {verified.broken} of the ledger was changed, taken out or cut off.", "bold red")))
        console.print("What stands before it is as it was written. `scrimshaw checkpoint list` shows older copies.")
    else:
        console.print(f"All {verified.rows} entries of the ledger are as they were written.")


def _undone(console: Console, undone: Undone) -> None:
    for step in undone.steps:
        console.print(_step(step))
    verb = "would be undone" if undone.dry_run else "undone"
    console.print(f"{undone.undone} of {len(undone.steps)} changes {verb}.")


def _step(step: UndoStep) -> Text:
    mark = ("stands  ", "yellow") if step.trouble else ("back    ", "green")
    why = f"  {step.trouble or step.note or step.reason}"
    return line(mark, f"{step.entry:>5}  {step.action}  ", (step.memory_id, "cyan"), (why, "dim"))
