"""The command that asks the golden queries: eval golden."""

import typer

from scrimshaw.app.cli import frame
from scrimshaw.app.cli.frame import example, fill_few, open_memory
from scrimshaw.app.cli.output import Lines, line, show
from scrimshaw.engine import canary

app = typer.Typer()

# Exit codes: 1 for a wrong answer, 3 for an external part that is missing.
LOST, UNJUDGED = 1, 3


@app.command("golden", epilog=example("scrimshaw eval golden --json"))
def evaluate(project: frame.Project = None, as_json: frame.AsJson = False) -> None:
    """Ask the golden queries, and memories by their own words.

    Exit code 1 if a known answer is not found, 3 if a question could not be judged, 0 otherwise.
    """
    with open_memory(project) as engine:
        fill_few(engine)
        found = canary.check(engine)
    show(found, as_json, _recall)
    if found.lost or found.unjudged:
        raise typer.Exit(LOST if found.lost else UNJUDGED)


def _recall(found: canary.Recall) -> Lines:
    yield from (line(("lost  ", "bold red"), lost.sentence) for lost in found.lost)
    yield from found.notes
    yield f"{found.asked} questions asked, {found.judged} judged, {found.unjudged} not, {len(found.lost)} lost"
