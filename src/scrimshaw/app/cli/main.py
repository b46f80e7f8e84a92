"""The command line: parses, makes one call, prints."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from scrimshaw import __version__
from scrimshaw.app.cli import (
    change,
    checkpoint,
    drafts,
    find,
    health,
    jobs,
    ledger,
    lint,
    options,
    purge,
    rules,
    session,
    setup,
    start,
    starting,
    upkeep,
)
from scrimshaw.app.cli.output import complain
from scrimshaw.errors import ConfigError, InvalidRequest, ScrimshawError, StorageFailure

USAGE = 2
# Packages add commands here: the name of an entry point is that of its command, its value a `typer.Typer`.
COMMAND_GROUP = "scrimshaw.commands"


class CommandGroup(TyperGroup):
    """The commands of this package, and those of entry points, which are imported when asked for."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, None where there is none."""
        if cmd_name not in self.commands:
            for point in entry_points(group=COMMAND_GROUP, name=cmd_name):
                command = self.commands[cmd_name] = get_command(point.load())
                command.name = cmd_name
        return self.commands.get(cmd_name)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        return list(dict.fromkeys([*self.commands, *entry_points(group=COMMAND_GROUP).names]))


app = typer.Typer(
    cls=CommandGroup,
    name="scrimshaw",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for part in (start, setup, starting, find, change, session, upkeep, lint, health, purge):
    app.add_typer(part.app)
app.add_typer(drafts.week)
app.add_typer(drafts.app, name="drafts")
app.add_typer(jobs.runner)
app.add_typer(jobs.app, name="jobs")
app.add_typer(ledger.undoing_commands)
app.add_typer(ledger.app, name="ledger")
app.add_typer(checkpoint.files)
app.add_typer(checkpoint.app, name="checkpoint")
app.add_typer(health.golden, name="golden")
app.add_typer(rules.app, name="rules")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"scrimshaw {__version__}")
        raise typer.Exit


@app.callback(epilog=options.example('scrimshaw init && scrimshaw search "why apsw"'))
def program(
    project: options.Project = None,
    as_json: options.AsJson = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Memory for coding agents: Markdown files in your repository, and an index that finds them."""


COMMAND = get_command(app)


def main(arguments: Sequence[str]) -> int:
    """Run a command line; the exit code: 0 ok, 1 logic or validation, 2 usage or configuration, 3 external."""
    as_json = "--json" in arguments
    try:
        _demand_text(arguments)
        return int(COMMAND.main(list(arguments), prog_name="scrimshaw", standalone_mode=False) or 0)
    except ScrimshawError as error:
        complain(error, as_json)
        return error.exit_code
    except OSError as error:  # a path that was given and cannot be read
        return _unreadable(error, as_json)
    except typer.TyperException as error:
        return _misused(error, as_json)
    except typer.Abort:
        complain(InvalidRequest("Nothing was done."), as_json)
        return InvalidRequest.exit_code


def run() -> None:
    """The console entry point."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    sys.exit(main(sys.argv[1:]))


def _demand_text(arguments: Sequence[str]) -> None:
    """Bytes that are not UTF-8 come as lone surrogates, which no file and no database takes."""
    try:
        "".join(arguments).encode()
    except UnicodeEncodeError as error:
        raise ConfigError("An argument is not UTF-8.", "Give text in UTF-8.") from error


def _unreadable(error: OSError, as_json: bool) -> int:
    told = StorageFailure(f"{error.filename or 'A file'} cannot be used: {error.strerror}.", "Check the path.")
    complain(told, as_json)
    return told.exit_code


def _misused(error: typer.TyperException, as_json: bool) -> int:
    # typer quotes what it asked to convert a value.
    message = error.format_message().replace(": Value error, ", ": ", 1)
    if message:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "scrimshaw"
        complain(ConfigError(message, f"See `{command} --help`."), as_json)
    return USAGE
