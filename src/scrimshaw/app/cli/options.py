"""The options that several commands take, and how their values become those of the engine."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from scrimshaw.errors import InvalidRequest
from scrimshaw.models import Channel, Filters, MemoryType, Tier
from scrimshaw.storage.dates import earliest

STDIN = "-"
EVERYWHERE = "Options of every command"


def _inherited(ctx: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
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
        callback=_inherited,
        help="The project's folder; without it, found from the working folder.",
        rich_help_panel=EVERYWHERE,
    ),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", callback=_inherited, help="Print JSON and nothing else.", rich_help_panel=EVERYWHERE),
]
NoScan = Annotated[bool, typer.Option("--no-scan", help="Do not look for changed files first.")]
NoVectors = Annotated[bool, typer.Option("--no-vectors", help="Do not make missing vectors now.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
MemoryId = Annotated[str, typer.Argument(metavar="ID", help="The memory's id, its path without .md.")]
Tiers = Annotated[list[Tier] | None, typer.Option("--tier", help="Only this tier (repeatable).")]
Types = Annotated[list[MemoryType] | None, typer.Option("--type", help="Only this type (repeatable).")]
Topics = Annotated[
    list[str] | None, typer.Option("--topic", metavar="TEXT", help="Only with this topic (repeatable: all of them).")
]
Folder = Annotated[str, typer.Option(help="Only ids below this folder.")]
FromSource = Annotated[str, typer.Option("--source", help="Only this source, such as vault, docs or specs.")]
Since = Annotated[str, typer.Option(callback=_date, help="Only updated on or after this ISO date, in UTC.")]
Until = Annotated[str, typer.Option(callback=_date, help="Only updated on or before this ISO date, in UTC.")]
Deprecated = Annotated[bool, typer.Option("--include-deprecated", help="Deprecated memories as well.")]
MinQuality = Annotated[
    float | None, typer.Option(min=0, max=1, help="Hide what the quality gate scored below; files by hand stay.")
]


def example(*lines: str) -> str:
    """The last line of a command's help."""
    return "Example: " + "   or: ".join(lines)


def filtered(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that choose memories in place of its parameter `filters`, which is made of them."""
    chosen = inspect.signature(_filters, eval_str=True).parameters
    own = inspect.signature(command, eval_str=True)

    @functools.wraps(command)
    def run(**values: Any) -> None:
        given = {name: values.pop(name) for name in chosen}
        command(**values, filters=_filters(**given))

    parameters = [
        parameter
        for name, each in own.parameters.items()
        for parameter in (chosen.values() if name == "filters" else (each,))
    ]
    run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]  # what typer reads
    return run


def _filters(
    tier: Tiers = None,
    type_: Types = None,
    topic: Topics = None,
    folder: Folder = "",
    source: FromSource = "",
    since: Since = "",
    until: Until = "",
    include_deprecated: Deprecated = False,
    min_quality: MinQuality = None,
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
