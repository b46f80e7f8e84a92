"""The options that several commands take, and how their values become those of the engine."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console

from scrimshaw.app.cli.memory import open_memory
from scrimshaw.app.cli.output import show
from scrimshaw.errors import InvalidRequest
from scrimshaw.models import Channel, Filters, MemoryType, Tier
from scrimshaw.storage.sql import earliest

_WorkT = TypeVar("_WorkT", bound=Callable[..., Any])
STDIN = "-"
EVERYWHERE = "Options of every command"


def _inherit(ctx: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
    """An option of every command may also stand in front of the command."""
    return value or ctx.find_root().params.get(str(parameter.name), value)


def _date(value: str) -> str:
    try:
        if value:
            earliest(value)
    except InvalidRequest as error:
        raise typer.BadParameter(f"{error.message} {error.hint}") from error
    return value


Project = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        file_okay=False,
        callback=_inherit,
        help="The project's folder; else found from here.",
        rich_help_panel=EVERYWHERE,
    ),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", callback=_inherit, help="Print JSON and nothing else.", rich_help_panel=EVERYWHERE),
]
NoScan = Annotated[bool, typer.Option("--no-scan", help="Do not look for changed files first.")]
NoVectors = Annotated[bool, typer.Option("--no-vectors", help="Do not make missing vectors now.")]
Texts = list[str] | None
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
MemoryId = Annotated[str, typer.Argument(metavar="ID", help="The memory's id, its path without .md.")]


def example(*lines: str) -> str:
    """The last line of a command's help."""
    return "Example: " + "   or: ".join(lines)


def command_group(what: str, *examples: str) -> typer.Typer:
    """A group of commands under one name."""
    return typer.Typer(help=what, epilog=example(*examples), no_args_is_help=True)


def with_filters(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with the options that choose memories in place of its parameter `filters`, which is made of them."""
    chosen = inspect.signature(_filters, eval_str=True).parameters
    own = inspect.signature(command, eval_str=True)

    @functools.wraps(command)
    def run(*arguments: Any, **values: Any) -> Any:
        given = {name: values.pop(name) for name in chosen}
        return command(*arguments, **values, filters=_filters(**given))

    parameters = [
        parameter
        for name, each in own.parameters.items()
        for parameter in (chosen.values() if name == "filters" else (each,))
    ]
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # what typer reads
    return run


def command(
    app: typer.Typer,
    name: str,
    *examples: str,
    render: Callable[[Console, Any], None],
    fresh: bool = True,
    fails: Callable[[Any], bool] | None = None,
    hidden: bool = False,
) -> Callable[[_WorkT], _WorkT]:
    """Make a command of a function that takes an open memory, and its own options, and answers what is printed.

    The memory has been compared with its files when `fresh`; an answer that `fails` ends with exit code 1.
    """

    def build(work: _WorkT) -> _WorkT:
        own = inspect.signature(work, eval_str=True)

        @functools.wraps(work)
        def run(project: Path | None, as_json: bool, **values: Any) -> None:
            with open_memory(project, fresh=fresh and not values.get("no_scan")) as engine:
                answer = work(engine, **values)
            show(answer, as_json, render)
            if fails and fails(answer):
                raise typer.Exit(1)

        parameters = [
            *list(own.parameters.values())[1:],
            *inspect.signature(_common, eval_str=True).parameters.values(),
        ]
        run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # what typer reads
        app.command(name, epilog=example(*examples), hidden=hidden)(run)
        return work

    return build


def _common(project: Project = None, as_json: AsJson = False) -> None:
    """The options of every command."""


def _filters(
    tier: Annotated[list[Tier] | None, typer.Option("--tier", help="Only this tier (repeatable).")] = None,
    type_: Annotated[list[MemoryType] | None, typer.Option("--type", help="Only this type (repeatable).")] = None,
    topic: Annotated[Texts, typer.Option("--topic", metavar="TEXT", help="Only with all these (repeatable).")] = None,
    folder: Annotated[str, typer.Option(help="Only ids below this folder.")] = "",
    source: Annotated[str, typer.Option("--source", help="Only this source, such as vault, docs or specs.")] = "",
    since: Annotated[str, typer.Option(callback=_date, help="Only updated on or after this ISO date, in UTC.")] = "",
    until: Annotated[str, typer.Option(callback=_date, help="Only updated on or before this ISO date, in UTC.")] = "",
    include_deprecated: Annotated[bool, typer.Option("--include-deprecated", help="Deprecated ones as well.")] = False,
    min_quality: Annotated[float | None, typer.Option(min=0, max=1, help="Hide what scored less.")] = None,
) -> Filters:
    return Filters(
        tiers=tuple(tier or ()),
        types=tuple(type_ or ()),
        topics=tuple(topic or ()),
        folder=folder,
        source=source,
        since=since,
        until=until,
        include_deprecated=include_deprecated,
        min_quality_score=min_quality,
    )


def channels_of(names: str, *, alone: bool = False) -> tuple[Channel, ...]:
    """The channels in a list such as `text,vector`; all without one.

    Raises BadParameter for an unknown name, and for a graph that has no other channel, or with `alone` at all: it only
    leads on from what others found.
    """
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in set(Channel)]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]!r} is no channel; there are {', '.join(Channel)}.")
    if Channel.GRAPH in wanted and (alone or {*wanted} == {Channel.GRAPH}):
        raise typer.BadParameter("graph finds nothing by itself; it leads on from what text, vector and trigger found.")
    return tuple(map(Channel, wanted)) or tuple(Channel)


def content_of(text: str, file: Path | None = None) -> str:
    """A text as given, from standard input for `-`, or from a file; raises InvalidRequest for what is not UTF-8."""
    try:
        if file is not None:
            return file.read_text(encoding="utf-8-sig")
        return sys.stdin.buffer.read().decode("utf-8-sig") if text == STDIN else text
    except UnicodeDecodeError as error:
        name = "standard input" if file is None else str(file)
        raise InvalidRequest(f"The text from {name} is not UTF-8.", "Convert it first.", parameter="content") from error
    except OSError as error:
        raise InvalidRequest(f"{file} cannot be read: {error.strerror}.", "Name a text file.") from error
