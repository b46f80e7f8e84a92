"""The command that connects agent clients: setup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from scrimshaw.app import setup as clients_setup
from scrimshaw.app.cli import options
from scrimshaw.app.cli.memory import settings_of
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import confirm, console, line, note, show
from scrimshaw.app.clients import CLIENT_NAMES, all_clients
from scrimshaw.app.clients.client import Client, Programs, Scope
from scrimshaw.app.setup import SetupChange
from scrimshaw.errors import InvalidRequest

app = typer.Typer()

ALL = "all"
_HERE_ONLY = (
    "The files name programs by their path on this machine: keep those in the project out of git, or use --scope user."
)
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


@app.command(epilog=example(f"scrimshaw setup {CLIENT_NAMES[0]}", "scrimshaw setup all --dry-run"))
def setup(
    client: Annotated[str, typer.Argument(help=f"One of {', '.join(CLIENT_NAMES)}; or all that are found.")] = "",
    scope: Annotated[
        Scope | None, typer.Option(help="In this project or for all yours; without it, the client's usual place.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take our entries out again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes, and write nothing.")] = False,
    export_plugin: Annotated[
        Path | None,
        typer.Option(metavar="DIR", file_okay=False, help="Write the clients' plugins there, for other machines."),
    ] = None,
    yes: options.Yes = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Connect an agent client: MCP server and hooks.

    They go into the client's own files, after showing what changes.
    """
    if bool(client) == bool(export_plugin) or (export_plugin and remove):
        raise typer.BadParameter("Name a client, or all; or give --export-plugin, without --remove.")
    if export_plugin:
        additions = clients_setup.plan_additions(clients_setup.plugin_files(export_plugin), export_plugin)
        advice = tuple(each.plugin_advice for each in all_clients().values() if each.plugin_advice)
        _apply_changes((), list(additions), advice, dry_run, yes, as_json)
        return
    root = settings_of(project).project
    chosen = _choose_clients(client, scope, remove)
    changes = list(_plan_changes(chosen, scope, remove, root))
    advice = () if remove else tuple(each.advice for each in chosen if each.advice)
    if not remove and any(change.root == root for change in changes):
        advice = (*advice, _HERE_ONLY)
    _apply_changes(chosen, changes, advice, dry_run, yes, as_json)


def _choose_clients(name: str, scope: Scope | None, remove: bool) -> tuple[Client, ...]:
    """The clients meant; raises BadParameter for an unknown one, InvalidRequest for a scope that it has not."""
    if name == ALL:
        found = tuple(all_clients().values()) if remove else clients_setup.find_clients(Path.home())
        return tuple(each for each in found if scope is None or scope in each.scopes)
    client = all_clients().get(name)
    if client is None:
        raise typer.BadParameter(f"{name!r} is no client; there are {', '.join(CLIENT_NAMES)}.")
    if scope and scope not in client.scopes:
        raise InvalidRequest(f"{client.title} has no {scope} scope.", f"Leave out --scope {scope}.", parameter="scope")
    return (client,)


def _plan_changes(chosen: Iterable[Client], scope: Scope | None, remove: bool, project: Path) -> Iterator[SetupChange]:
    """All changes; without a scope they go into the usual place, and come out of every place."""
    programs, work = (
        (Programs(), clients_setup.plan_removals)
        if remove
        else (clients_setup.find_programs(), clients_setup.plan_additions)
    )
    for client in chosen:
        for each in (scope,) if scope else client.scopes if remove else client.scopes[:1]:
            root = each.root(project)
            yield from work(client.setup_files(root, each, programs), root)


def _apply_changes(
    chosen: Iterable[Client],
    changes: list[SetupChange],
    advice: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Show the changes, ask, write them, and say what is left to do."""
    result = {
        "clients": tuple(client.name for client in chosen),
        "dry_run": dry_run,
        "files": [{"path": str(each.path), "action": each.action, "diff": each.diff()} for each in changes],
        "advice": advice,
    }
    if not as_json:
        show(result, as_json, _print_files)
    if changes and not dry_run:
        if as_json and not yes:
            _print_files(console(stderr=True), result)
        confirm("Make these changes?", yes)
        for change in changes:
            clients_setup.apply_change(change)
    show(result, as_json, _print_end)


def _print_files(console: Console, result: Mapping[str, Any]) -> None:
    for file in result["files"]:
        console.print(line((f"{file['action']} ", "bold"), (file["path"], "cyan")))
        for each in file["diff"].splitlines()[2:]:
            console.print(line((each, _DIFF_STYLES.get(each[:1], ""))))


def _print_end(console: Console, result: Mapping[str, Any]) -> None:
    if not result["files"]:
        console.print("Nothing to change.")
    elif result["dry_run"]:
        console.print("Nothing was written.")
    for each in result["advice"]:
        note(each)
