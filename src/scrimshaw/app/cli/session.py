"""The command `resume`: where the last session was."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console

from scrimshaw.app.cli import options
from scrimshaw.app.cli.memory import open_memory
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import line, show
from scrimshaw.app.hooks.inject import neutral, told
from scrimshaw.engine.context import resume_state
from scrimshaw.errors import NotFound
from scrimshaw.models import Session
from scrimshaw.session.resume import Occasion, StateLine

app = typer.Typer()


class Resumed(Struct, frozen=True, kw_only=True):
    """The state of a session: lines, their tokens, and how many did not fit."""

    session: Session
    lines: tuple[StateLine, ...]
    tokens: int
    omitted: int


@app.command(epilog=example("scrimshaw resume --occasion start --budget 400"))
def resume(
    session: Annotated[str, typer.Option(help="A session; else the last one.")] = "",
    occasion: Annotated[Occasion, typer.Option(help="What the state is for; each brings something different.")] = (
        Occasion.RESUME
    ),
    budget: Annotated[int | None, typer.Option(min=1, help="Most tokens; else context.resume_tokens.")] = None,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Where the last session was: its task, decisions, failures, commits, files, and what it paid attention to."""
    with open_memory(project, fresh=False) as engine:
        found = engine.sessions.get(session) if session else next(iter(engine.sessions.latest()), None)
        if found is None:
            raise NotFound("There is no session to resume.", "Sessions come from the hooks of an agent client.")
        room = budget or engine.settings.context.resume_tokens
        lines, tokens, omitted = resume_state(engine, found, occasion, room)
    about = replace(found, task=neutral(found.task))
    show(Resumed(session=about, lines=told(lines), tokens=tokens, omitted=omitted), as_json, _print)


def _print(console: Console, resumed: Resumed) -> None:
    part = ""
    for each in resumed.lines:
        if each.part != part:
            part = each.part
            console.print(line((part, "bold")))
        console.print(line(f"  {each.text}", (f"  {each.origin}, trust {each.trust}", "dim")))
    if not resumed.lines:
        console.print("The session recorded nothing.")
