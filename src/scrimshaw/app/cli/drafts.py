"""The commands on drafts, what sessions leave: drafts list, show, make, promote, discard; and consolidate."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console

from scrimshaw.app.cli import options, render
from scrimshaw.app.cli.memory import open_memory
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import confirm, line, plain, show
from scrimshaw.engine import consolidation
from scrimshaw.engine import drafts as drafting
from scrimshaw.engine.consolidation import Consolidation, ConsolidationOutcome
from scrimshaw.engine.drafts import DraftOutcome, RejectedDraft

app = typer.Typer(help="What sessions left that is no memory yet.", no_args_is_help=True)
week = typer.Typer()

Name = Annotated[str, typer.Argument(metavar="NAME", help="The draft's name, as `drafts list` tells it.")]
_DAY_S = 86_400.0


@app.callback(epilog=example("scrimshaw drafts list"))
def group() -> None:
    """What sessions left that is no memory yet: rejected drafts, kept for some days."""


@app.command("list", epilog=example("scrimshaw drafts list"))
def list_drafts(project: options.Project = None, as_json: options.AsJson = False) -> None:
    """Rejected drafts with the reasons, newest first."""
    with open_memory(project, fresh=False) as engine:
        show(drafting.list_rejected(engine), as_json, _list)


@app.command("show", epilog=example("scrimshaw drafts show 0e24ab"))
def show_draft(name: Name, project: options.Project = None, as_json: options.AsJson = False) -> None:
    """The text of a rejected draft."""
    with open_memory(project, fresh=False) as engine:
        show(drafting.rejected_text(engine, name), as_json, lambda console, text: console.print(plain(text)))


@app.command("make", epilog=example("scrimshaw drafts make", "scrimshaw drafts make 0e24ab"))
def make(
    session: Annotated[str, typer.Argument(metavar="[SESSION]", help="A session; else all without a draft.")] = "",
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Make the drafts now that a server would make in the background."""
    with open_memory(project, fresh=False) as engine:
        waiting = [session] if session else engine.sessions.undrafted(silent_since=engine.clock())
        show([drafting.make_draft(engine, each) for each in waiting], as_json, _outcomes)


@app.command("promote", epilog=example("scrimshaw drafts promote 0e24ab"))
def promote(name: Name, project: options.Project = None, as_json: options.AsJson = False) -> None:
    """Make a memory of a rejected draft as it stands; edit its file first if you like."""
    with open_memory(project) as engine:
        show(drafting.promote_draft(engine, name), as_json, render.saved)


@app.command("discard", epilog=example("scrimshaw drafts discard 0e24ab"))
def discard(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The drafts to remove.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go, and remove nothing.")] = False,
    yes: options.Yes = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Remove rejected drafts for good."""
    with open_memory(project, fresh=False) as engine:
        for name in names:
            drafting.rejected_text(engine, name)
        if not dry_run:
            confirm(f"Remove {len(names)} drafts for good?", yes)
            drafting.discard_drafts(engine, names)
    done = "would be removed" if dry_run else "removed"
    show({"names": names, "dry_run": dry_run}, as_json, lambda console, _: console.print(f"{len(names)} {done}."))


@week.command(epilog=example("scrimshaw consolidate --topic sqlite --dry-run"))
def consolidate(
    topic: Annotated[str, typer.Option(help="Only sessions about this topic.")] = "",
    days: Annotated[float | None, typer.Option(min=0.01, help="How far back; else drafts.consolidate_days.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and write nothing.")] = False,
    yes: options.Yes = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Put the sessions of one topic together into one memory that names them; the sessions themselves stay."""
    with open_memory(project) as engine:
        proposals = consolidation.propose(engine, topic=topic, days=days)
        if dry_run or not proposals:
            show(proposals, as_json, _proposed)
            return
        confirm(f"Write {len(proposals)} memories ({', '.join(each.title for each in proposals)})?", yes)
        show([consolidation.consolidate(engine, each) for each in proposals], as_json, _consolidated)


def _list(console: Console, found: list[RejectedDraft]) -> None:
    for each in found:
        left = max(0.0, (each.expires - time.time()) / _DAY_S)
        score = f"score {each.quality.score:.2f}, " if each.quality else ""
        console.print(line((each.name, "bold"), f"  {each.title}", (f"  {score}goes in {left:.1f} days", "dim")))
        for reason in each.reasons:
            console.print(line(f"  {reason}"))
        console.print(line((f"  {each.path}", "dim")))
    if not found:
        console.print("No draft was set aside.")


def _outcomes(console: Console, made: list[DraftOutcome]) -> None:
    for each in made:
        where = each.memory_id or each.path
        console.print(line((each.status, "bold"), f"  {each.session}", f"  {where}" if where else ""))
        for reason in each.reasons:
            console.print(line(f"  {reason}"))
    if not made:
        console.print("No session waits for a draft.")


def _proposed(console: Console, proposals: list[Consolidation]) -> None:
    for each in proposals:
        console.print(line((each.title, "bold"), (f"  from {', '.join(each.sources)}", "dim")))
        console.print(plain(each.content))
    if not proposals:
        console.print("No two sessions of these days share a topic.")


def _consolidated(console: Console, done: list[ConsolidationOutcome]) -> None:
    for each in done:
        console.print(line((each.status, "bold"), f"  {each.memory_id}", (f"  {each.path}", "dim")))
