"""The command that erases for good: purge."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from scrimshaw.app.cli import options
from scrimshaw.app.cli.memory import open_memory
from scrimshaw.app.cli.options import STDIN, content_of, example
from scrimshaw.app.cli.output import confirm, is_interactive, line, note, show
from scrimshaw.engine import Engine, open_engine, purge
from scrimshaw.engine.purge import Purged, PurgeOptions, PurgeTarget, Scope, Trace
from scrimshaw.errors import InvalidRequest, NotFound
from scrimshaw.storage.git import SECRET_FILE, GitTraces

app = typer.Typer()

_MOST_SHOWN = 40
_SEARCHED = "In files, their names, paths of links, rows of databases, checkpoints, and all objects of git."


@app.command(
    "purge",
    epilog=example(
        "scrimshaw purge --dry-run", "scrimshaw purge --secret - --yes < FILE", "scrimshaw purge --memory ID"
    ),
)
def purge_traces(
    secret: Annotated[str, typer.Option(metavar="TEXT", help="The secret; - reads it. Else asked, unseen.")] = "",
    secret_file: Annotated[Path | None, typer.Option(exists=True, dir_okay=False, help="Take it from a file.")] = None,
    pattern: Annotated[bool, typer.Option("--pattern", help="The secret is a regular expression (RE2).")] = False,
    memory: Annotated[str, typer.Option(metavar="ID", help="A memory instead, also one that was deleted.")] = "",
    include_global: Annotated[bool, typer.Option("--global", help="Your own vault of all projects as well.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say where it stands, and change nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; remove what cannot be cut or read.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="Remove what cannot be looked into as well.")] = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Erase a secret or a memory for good, and prove it.

    Every byte is searched afterwards. Git's history is searched and never rewritten. What is left anywhere makes the
    exit code 1.
    """
    if memory and (secret or secret_file or pattern):
        raise typer.BadParameter("Give a secret or --memory, one of them.")
    text = "" if memory else _read_secret(secret, secret_file)
    with open_memory(project, fresh=False) as engine, ExitStack() as others:
        scope = [(engine, _target(engine, text, pattern, memory))]
        for settings in purge.other_memories(engine):
            other = others.enter_context(open_engine(settings))
            with suppress(NotFound):  # that work tree never had the memory
                scope.append((other, _target(other, text, pattern, memory)))
        planned = purge.find_traces(scope, PurgeOptions(include_global))
        purged = planned if dry_run else _confirm_and_purge(scope, planned, include_global, yes, remove)
    show(purged, as_json, _render)
    if not dry_run and (not purged.is_clean or purged.git.found):
        raise typer.Exit(1)


def _target(engine: Engine, text: str, is_pattern: bool, memory: str) -> PurgeTarget:
    return purge.memory_target(engine, [memory]) if memory else purge.secret_target(text, is_pattern=is_pattern)


def _read_secret(given: str, file: Path | None) -> str:
    """The secret from where no shell keeps it; an end of line is not part of it."""
    if given and file:
        raise typer.BadParameter("Give --secret or --secret-file, one of them.")
    if given and given != STDIN:
        note("The secret is in your shell's history now: remove it there, and use the prompt, - or --secret-file.")
    if not given and not file:
        if not is_interactive():
            raise InvalidRequest("Nobody is there to type the secret.", "Use --secret - or --secret-file.")
        given = typer.prompt("Secret", hide_input=True, err=True)
    secret = content_of(given, file).rstrip("\r\n")
    if not secret:
        raise InvalidRequest("The secret is empty.", "Give what shall be erased.", parameter="secret")
    return secret


def _confirm_and_purge(scope: Scope, planned: Purged, include_global: bool, yes: bool, remove: bool) -> Purged:
    confirm(f"Erase it for good, in {len(planned.places)} places?", yes)
    unreadable = yes
    if planned.unreadable and not yes:
        names = ", ".join(trace.place for trace in planned.unreadable)
        unreadable = typer.confirm(f"Nobody can tell what is in {names}, or take it out. Remove?", err=True)
        remove = remove or unreadable
    return purge.purge(scope, planned, PurgeOptions(include_global, unreadable, remove))


def _render(console: Console, purged: Purged) -> None:
    _list(console, "It is in:" if purged.dry_run else "It was in:", purged.places)
    _list(console, "Cannot be read, or cut (--remove takes these files as a whole):", purged.unreadable, "yellow")
    _list(console, "Not Scrimshaw's to change, look for yourself:", purged.foreign, "yellow")
    for name in purged.removed:
        console.print(line(("removed as a whole: ", "yellow"), name))
    if not purged.dry_run:
        verdict, style = ("Nothing is left in Scrimshaw's folders.", "green")
        if not purged.is_clean:
            verdict, style = ("Something is left.", "bold red")
        found = sum(trace.count for trace in purged.left)
        searched = f"  {purged.searched_files} files, {purged.searched_bytes} bytes searched; found {found} times."
        console.print(line((verdict, style), searched))
        _list(console, "Left in:", purged.left, "red")
    for name in purged.held:
        console.print(line(("held by another process: ", "red"), name, "  Stop the other servers, then repeat."))
    console.print(line(("Looked for: ", "dim"), (f"{'; '.join(purged.forms)}.", "dim")))
    console.print(line((_SEARCHED, "dim")))
    _list(console, "Documents, which Scrimshaw reads and never writes, hold it:", purged.documents, "yellow")
    _render_git(console, purged.git)
    console.print(line(("Not searched, since it is out of Scrimshaw's hands:", "dim")))
    for place in purged.outside:
        console.print(line((f"  {place}", "dim")))
    console.print(line(("A secret that was ever stored should be replaced where it is used.", "dim")))


def _render_git(console: Console, git: GitTraces) -> None:
    if git.degradation:
        console.print(line((f"{git.degradation.failure_mode} {git.degradation.retry_recommendation}", "yellow")))
    elif git.objects and not git.found:
        console.print(f"Git has {git.objects} objects, and it is in none of them, nor in names, logs and settings.")
    for name in git.unsearched:
        console.print(line(("Git keeps this, and it was not searched: ", "yellow"), name))
    if not git.found:
        return
    console.print(line((f"Git remembers it in {git.found} places; {git.objects} objects were read.", "bold yellow")))
    for place in git.places[:_MOST_SHOWN]:
        commit = place.commit[:12] or ("in no commit" if place.object else "")
        console.print(line(f"  {place.kind}  {commit}  {place.path}"))
    console.print("Only you can rewrite history. Commit first, then, in a fresh clone or after a backup:")
    for command in git.commands:
        console.print(line((f"  {command}", "cyan")))
    console.print("git-filter-repo is a program of its own: `pip install git-filter-repo`.")
    console.print(f"{SECRET_FILE} is a file of yours with the text in one line; remove it afterwards.")
    console.print("These commands may leave, or take with them:")
    for text in git.stays:
        console.print(f"  {text}", markup=False)
    console.print("Tell everybody who has a clone to clone again, ask the host to drop its caches, replace the secret.")


def _list(console: Console, title: str, traces: Sequence[Trace], style: str = "") -> None:
    if traces:
        console.print(line((title, style)))
    for trace in traces[:_MOST_SHOWN]:
        console.print(line(f"  {trace.count:>6}  {trace.place}  ", (trace.why, "dim")))
    if len(traces) > _MOST_SHOWN:
        console.print(line((f"  and {len(traces) - _MOST_SHOWN} more", "dim")))
