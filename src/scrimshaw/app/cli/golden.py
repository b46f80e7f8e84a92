"""The commands on golden queries: golden add, golden list, eval golden."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console

from scrimshaw.app.cli import options
from scrimshaw.app.cli.memory import fill_few, open_memory
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import line, note, show
from scrimshaw.engine import canary, golden
from scrimshaw.engine.canary_questions import WITHIN
from scrimshaw.storage.golden import GOLDEN_FILE, Golden

app = typer.Typer(help="Questions whose answers are known.", no_args_is_help=True)
judging = typer.Typer()

# 1 is for what was judged and is wrong, 3 for a part outside that is missing.
LOST, UNJUDGED = 1, 3


@app.callback(epilog=example("scrimshaw golden list"))
def group() -> None:
    """Questions whose answers are known."""


@app.command(epilog=example('scrimshaw golden add "why not the standard sqlite3" storage/apsw'))
def add(
    query: Annotated[str, typer.Argument(help="A question as an agent would ask it.")],
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="The memories it must bring.")],
    within: Annotated[int, typer.Option(min=1, max=100, help="Among so many first hits.")] = WITHIN,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Keep a question with its answers; `scrimshaw doctor` and every server's start ask it again."""
    with open_memory(project) as engine:
        added = golden.add_golden(engine, query, ids, within)
    show(added, as_json, lambda console, each: _listed(console, [each]))


@app.command("list", epilog=example("scrimshaw golden list"))
def list_(project: options.Project = None, as_json: options.AsJson = False) -> None:
    """Show the questions and the memories they must bring, and on standard error those that cannot be asked."""
    with open_memory(project, fresh=False) as engine:
        found = golden.golden_file(engine)
    show(found.queries, as_json, _listed)
    for flaw in found.flaws:
        note(flaw)


@judging.command("golden", epilog=example("scrimshaw eval golden --json"))
def evaluate(project: options.Project = None, as_json: options.AsJson = False) -> None:
    """Ask the golden queries, and memories by their own words.

    Exit code 1 when something known is not found, 3 when a question could not be judged, 0 when all is well.
    """
    with open_memory(project) as engine:
        fill_few(engine)
        found = canary.check(engine)
    show(found, as_json, _recall)
    if found.lost or found.unjudged:
        raise typer.Exit(LOST if found.lost else UNJUDGED)


def _listed(console: Console, queries: Sequence[Golden]) -> None:
    for each in queries:
        console.print(line((each.text, "bold"), f"  within {each.within}: ", (", ".join(each.expect), "cyan")))
    if not queries:
        note(f"There is none yet; `scrimshaw golden add` writes .scrimshaw/{GOLDEN_FILE}.")


def _recall(console: Console, found: canary.Recall) -> None:
    for lost in found.lost:
        console.print(line(("lost  ", "bold red"), lost.sentence))
    for each in found.notes:
        console.print(line(each))
    behind = f", {found.outranked} behind others" if found.outranked else ""
    counts = f"{found.asked} questions asked, {found.judged} judged, {found.unjudged} not, {len(found.lost)} lost"
    console.print(line(f"{counts}{behind}"))
