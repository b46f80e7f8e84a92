"""The options that several commands take, and how their values become those of the engine."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from scrimshaw.app.cli.memory import open_memory
from scrimshaw.app.cli.output import Lines, show
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


def _common(project: Project = None, as_json: AsJson = False) -> None:
    """The options of every command."""


def _filters(
    tiers: Annotated[list[Tier] | None, typer.Option("--tier", help="Only this tier (repeatable).")] = None,
    types: Annotated[list[MemoryType] | None, typer.Option("--type", help="Only this type (repeatable).")] = None,
    topics: Annotated[Texts, typer.Option("--topic", metavar="TEXT", help="Only with all these (repeatable).")] = None,
    folder: Annotated[str, typer.Option(help="Only ids below this folder.")] = "",
    source: Annotated[str, typer.Option("--source", help="Only this source, such as vault, docs or specs.")] = "",
    since: Annotated[str, typer.Option(callback=_date, help="Only updated on or after this ISO date, in UTC.")] = "",
    until: Annotated[str, typer.Option(callback=_date, help="Only updated on or before this ISO date, in UTC.")] = "",
    include_deprecated: Annotated[bool, typer.Option("--include-deprecated", help="Deprecated ones as well.")] = False,
    min_quality_score: Annotated[
        float | None, typer.Option("--min-quality", min=0, max=1, help="Hide what scored less.")
    ] = None,
) -> None:
    """The options that choose memories, by the fields of Filters."""


_COMMON = inspect.signature(_common, eval_str=True).parameters
_FILTERS = inspect.signature(_filters, eval_str=True).parameters


def example(*lines: str) -> str:
    """The last line of a command's help."""
    return "Example: " + "   or: ".join(lines)


def command_group(what: str, *examples: str) -> typer.Typer:
    """A group of commands under one name."""
    return typer.Typer(help=what, epilog=example(*examples), no_args_is_help=True)


def command(
    app: typer.Typer,
    name: str,
    *examples: str,
    render: Callable[..., Lines],
    fresh: bool = True,
    with_rules: bool = False,
    fails: Callable[[Any], bool] = lambda _: False,
    hidden: bool = False,
) -> Callable[[_WorkT], _WorkT]:
    """Make a command of a function that takes its own options and answers what `render` writes for people.

    It may name what every command has: `engine`, the open memory, compared with its files when `fresh`; `filters`,
    made of the options that choose memories; `project` and `as_json`. `render` may name options too. An answer that
    `fails` ends with exit code 1.
    """

    def build(work: _WorkT) -> _WorkT:
        named, (_, *wanted) = inspect.signature(work, eval_str=True).parameters, inspect.signature(render).parameters

        @functools.wraps(work)
        def run(**values: Any) -> None:
            project, as_json = values["project"], values["as_json"]
            if "filters" in named:
                chosen = {key: values[key] for key in _FILTERS if values[key] is not None}
                chosen = {key: tuple(each) if isinstance(each, list) else each for key, each in chosen.items()}
                values["filters"] = Filters(**chosen)
            with ExitStack() as stack:
                if "engine" in named:
                    opening = open_memory(project, fresh=fresh and not values.get("no_scan"), with_rules=with_rules)
                    values["engine"] = stack.enter_context(opening)
                answer = work(**{key: values[key] for key in named})
            show(answer, as_json, functools.partial(render, **{key: values[key] for key in wanted}))
            if fails(answer):
                raise typer.Exit(1)

        options: list[inspect.Parameter] = []
        for key, each in named.items():
            options += _FILTERS.values() if key == "filters" else () if key in {"engine", *_COMMON} else (each,)
        signature = inspect.Signature([*options, *_COMMON.values()])
        run.__signature__ = signature  # type: ignore[attr-defined]  # what typer reads
        app.command(name, epilog=example(*examples), hidden=hidden)(run)
        return work

    return build


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
