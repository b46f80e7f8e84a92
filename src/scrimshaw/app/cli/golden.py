"""The commands on golden queries: golden add, golden list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console

from scrimshaw.app.cli import options
from scrimshaw.app.cli.memory import open_memory
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import line, note, show
from scrimshaw.engine import golden
from scrimshaw.engine.canary_questions import WITHIN
from scrimshaw.storage.golden import GOLDEN_FILE, Golden

app = typer.Typer(help="Questions whose answers are known.", no_args_is_help=True)


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


def _listed(console: Console, queries: Sequence[Golden]) -> None:
    for each in queries:
        console.print(line((each.text, "bold"), f"  within {each.within}: ", (", ".join(each.expect), "cyan")))
    if not queries:
        note(f"There is none yet; `scrimshaw golden add` writes .scrimshaw/{GOLDEN_FILE}.")
