"""The command that connects agent clients: setup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct
from rich.console import Console

from scrimshaw.app.cli import options
from scrimshaw.app.cli.memory import settings_of
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import confirm, console, line, note, show
from scrimshaw.app.setup import clients, programs
from scrimshaw.app.setup.client import Client, Scope
from scrimshaw.app.setup.export import exported
from scrimshaw.app.setup.plan import Change, additions, removals, write
from scrimshaw.errors import InvalidRequest

app = typer.Typer()

ALL = "all"
_HERE_ONLY = (
    "The files name programs by their path on this machine: keep those in the project out of git, or use --scope user."
)
_INSTALL = (
    "Claude Code: `claude plugin marketplace add DIR`, then `claude plugin install scrimshaw@scrimshaw`.",
    "Gemini CLI: `gemini extensions install DIR/gemini`.",
)
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


class ChangedFile(Struct, frozen=True, kw_only=True):
    """A file that was or would be changed: create, change or remove, and the unified diff."""

    path: str
    action: str
    diff: str


class SetUp(Struct, frozen=True, kw_only=True):
    """What setup did, or would do. `advice` is what is left to the user."""

    clients: tuple[str, ...]
    dry_run: bool
    files: tuple[ChangedFile, ...]
    advice: tuple[str, ...]


@app.command(epilog=example("scrimshaw setup claude", "scrimshaw setup all --dry-run"))
def setup(
    client: Annotated[str, typer.Argument(help=f"One of {', '.join(clients.CLIENTS)}; or all that are found.")] = "",
    scope: Annotated[
        Scope | None, typer.Option(help="In this project or for all yours; without it, the client's usual place.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take our entries out again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the changes, and write nothing.")] = False,
    export_plugin: Annotated[
        Path | None,
        typer.Option(metavar="DIR", file_okay=False, help="Write a Claude Code plugin and a Gemini extension there."),
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
        _finish((), list(additions(exported(export_plugin), export_plugin)), _INSTALL, dry_run, yes, as_json)
        return
    root = settings_of(project).project
    chosen = _chosen(client, scope, remove)
    changes = list(_changes(chosen, scope, remove, root))
    advice = () if remove else _advice(chosen, any(change.root == root for change in changes))
    _finish(chosen, changes, advice, dry_run, yes, as_json)


def _chosen(name: str, scope: Scope | None, remove: bool) -> tuple[Client, ...]:
    """The clients meant; raises BadParameter for an unknown one, InvalidRequest for a scope that it has not."""
    if name == ALL:
        found = tuple(clients.CLIENTS.values()) if remove else clients.installed(Path.home())
        return tuple(each for each in found if scope is None or scope in each.scopes)
    if name not in clients.CLIENTS:
        raise typer.BadParameter(f"{name!r} is no client; there are {', '.join(clients.CLIENTS)}.")
    client = clients.CLIENTS[name]
    if scope and scope not in client.scopes:
        raise InvalidRequest(f"{client.title} has no {scope} scope.", f"Leave out --scope {scope}.", parameter="scope")
    return (client,)


def _changes(chosen: Iterable[Client], scope: Scope | None, remove: bool, project: Path) -> Iterator[Change]:
    """All changes; without a scope they go into the usual place, and come out of every place."""
    ours, work = (programs.Programs(), removals) if remove else (programs.installed(), additions)
    for client in chosen:
        scopes = (scope,) if scope else client.scopes if remove else client.scopes[:1]
        for each in scopes:
            root = each.root(project)
            yield from work(client.edits(root, each, ours), root)


def _advice(chosen: Iterable[Client], in_project: bool) -> tuple[str, ...]:
    advice = [client.advice for client in chosen if client.advice]
    return (*advice, _HERE_ONLY) if in_project else tuple(advice)


def _finish(
    chosen: Iterable[Client], changes: list[Change], advice: tuple[str, ...], dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Show the changes, ask, write them, and say what is left to do."""
    files = tuple(ChangedFile(path=str(each.path), action=each.action, diff=each.diff()) for each in changes)
    names = tuple(client.name for client in chosen)
    result = SetUp(clients=names, dry_run=dry_run, files=files, advice=advice)
    if not as_json:
        show(result, as_json, _print_files)
    if changes and not dry_run:
        if as_json and not yes:
            _print_files(console(stderr=True), result)
        confirm("Make these changes?", yes)
        for change in changes:
            write(change)
    show(result, as_json, _print_end)


def _print_files(console: Console, result: SetUp) -> None:
    for file in result.files:
        console.print(line((f"{file.action} ", "bold"), (file.path, "cyan")))
        for each in file.diff.splitlines()[2:]:
            console.print(line((each, _DIFF_STYLES.get(each[:1], ""))))


def _print_end(console: Console, result: SetUp) -> None:
    if not result.files:
        console.print("Nothing to change.")
    elif result.dry_run:
        console.print("Nothing was written.")
    for each in result.advice:
        note(each)
