"""The command line: parses, makes one call, prints."""

import gc
import io
import re
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from scrimshaw import __version__
from scrimshaw.app.cli import examine, operate, peers, read, recover, relations, start, team, write
from scrimshaw.app.cli.frame import AsJson, Project, example
from scrimshaw.app.cli.output import complain
from scrimshaw.errors import ConfigError, InvalidRequest, ScrimshawError
from scrimshaw.ingest.tables import load_table
from scrimshaw.storage.durable import failure_of

# Packages add commands here: an entry point's name is the command's, its value a `typer.Typer`.
COMMAND_GROUP = "scrimshaw.commands"
_PANELS = load_table(__file__, "panels", dict[str, str])
PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names.split()}


class CommandGroup(TyperGroup):
    """The commands of this package, and those of entry points, which are imported on demand."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            for point in entry_points(group=COMMAND_GROUP, name=cmd_name):
                self.commands[cmd_name] = get_command(point.load())
                self.commands[cmd_name].name = cmd_name
        command: Any = self.commands.get(cmd_name)
        if command:
            command.rich_help_panel = PANEL_OF.get(cmd_name, "More")
        return command

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, in the order of the panels."""
        there = {*self.commands, *entry_points(group=COMMAND_GROUP).names}
        return [name for name in PANEL_OF if name in there] + sorted(there.difference(PANEL_OF))


_CONTEXT = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    cls=CommandGroup, name="scrimshaw", no_args_is_help=True, pretty_exceptions_enable=False, context_settings=_CONTEXT
)
for part in (start, read, write, relations, recover, operate, peers, examine, team):
    app.add_typer(part.app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"scrimshaw {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")]


@app.callback(epilog=example('scrimshaw init && scrimshaw search "why apsw"'))
def program(project: Project = None, as_json: AsJson = False, version: Version = False) -> None:
    """Memory for coding agents: Markdown files in your repository, and an index that finds them."""


COMMAND = get_command(app)
for _option in COMMAND.params:
    _option.hidden = str(_option.name).endswith("_completion")  # type: ignore[attr-defined]  # so that the help is one screen


def main(arguments: Sequence[str]) -> int:
    """Run a command line; the exit code: 0 ok, 1 logic or validation, 2 usage or configuration, 3 external."""
    as_json = "--json" in arguments
    arguments = [*arguments[1:], "--help"] if "help" in arguments[:1] else list(arguments)
    try:
        if re.search("[\ud800-\udfff]", "".join(arguments)):  # which bytes that are not UTF-8 arrive as
            raise ConfigError("An argument is not UTF-8.", "Give text in UTF-8.")
        return int(COMMAND.main(arguments, prog_name="scrimshaw", standalone_mode=False) or 0)
    except ScrimshawError as refused:
        error = refused
    except typer.TyperException as misuse:
        message = misuse.format_message().replace(": Value error, ", ": ", 1)  # typer quotes the name of the type
        path = getattr(getattr(misuse, "ctx", None), "command_path", "scrimshaw")
        other = {"uninstall": "setup CLIENT --remove", "forget": "purge"}.get(arguments[0] if arguments else "")
        error = ConfigError(message, f"That is `scrimshaw {other}`." if other else f"See `{path} --help`.")
        if not message:
            return error.exit_code
    except typer.Abort:
        error = InvalidRequest("Nothing was done.")
    except (OSError, RuntimeError) as refused:  # a given path that cannot be read
        if (failure := failure_of(refused)) is None:
            raise
        error = failure
    complain(error, as_json)
    return error.exit_code


def run() -> None:
    gc.set_threshold(10_000)  # objects; by the usual 700 a first scan spends a seventh of its time on garbage
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    sys.exit(main(sys.argv[1:]))
