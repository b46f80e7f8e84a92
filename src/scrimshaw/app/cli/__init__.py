"""The command line: the same verbs as the tools. A server is not made to wait until it is loaded."""

import gc
import os
import sys
from contextlib import suppress
from pathlib import Path

from scrimshaw.config import find_project
from scrimshaw.errors import ScrimshawError


def run() -> None:
    """The console entry point: answers two small commands before the rest is imported."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed; its number must not become that of a database
            setattr(sys, name, Path(os.devnull).open("r+", encoding="utf-8"))  # noqa: SIM115 - until the process ends
    if sys.argv[1:] == ["serve"]:  # the command line that setup writes
        gc.disable()  # imports make no garbage, and looking for it costs 80 ms
        from scrimshaw.app.serve import serve  # noqa: PLC0415 - the MCP SDK is heavy, only servers need it

        gc.enable()
        with suppress(ScrimshawError):  # the command line meets the same error, and reports it
            serve(find_project(Path.cwd()))
            sys.exit()
    if sys.argv[1:] == ["statusline"]:  # run after every answer
        from scrimshaw.app.statusline import print_line  # noqa: PLC0415 - a server has no use for it

        print_line()
        sys.exit()
    from scrimshaw.app.cli.main import run as run_command  # noqa: PLC0415 - a server has no use for it

    run_command()
