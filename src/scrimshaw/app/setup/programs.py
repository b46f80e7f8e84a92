"""The programs that clients start, and how a command is recognised as ours."""

from __future__ import annotations

import shlex
import shutil
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path, PureWindowsPath

from msgspec import Struct

from scrimshaw.errors import ConfigError

SERVER, HOOK = "scrimshaw", "scrimshaw-hook"
SERVE = ("serve",)


class Programs(Struct, frozen=True, kw_only=True):
    """The commands of this installation: absolute paths, or bare names for files that other machines will use."""

    server: str = SERVER
    hook: str = HOOK

    def hook_command(self, *arguments: str) -> str:
        """The hook with its arguments, as a shell reads it."""
        return shlex.join([self.hook, *arguments])


def installed() -> Programs:
    """The programs beside this interpreter, never a shim that would look for one first; raises ConfigError."""
    folders = (sysconfig.get_path("scripts"), str(Path(sys.argv[0]).absolute().parent))
    for folder in folders:
        server, hook = (shutil.which(name, path=folder) for name in (SERVER, HOOK))
        if server and hook and Path(folder).name != "shims":
            return Programs(server=str(Path(server).resolve()), hook=str(Path(hook).resolve()))
    raise ConfigError(
        f"There is no {SERVER} and {HOOK} beside {sys.executable}.", "Install scrimshaw with uv, pipx or pip."
    )


def is_our_server(entry: object) -> bool:
    """Whether an MCP entry starts our server: by its path, or by name through a runner such as uvx."""
    words = server_words(entry)
    return bool(words) and (_is(SERVER, words[0]) or SERVER in words[1:])


def server_words(entry: object) -> list[str]:
    """The command line of an MCP entry, which clients write as one text and arguments, or as one list."""
    if not isinstance(entry, Mapping):
        return []
    words: list[object] = []
    for part in (entry.get("command"), entry.get("args")):
        words += part if isinstance(part, list) else [part]
    return [word for word in words if isinstance(word, str)]


def is_our_hook(handler: object) -> bool:
    """Whether a hook's handler runs our hook."""
    if not isinstance(handler, Mapping):
        return False
    command = handler.get("command") or handler.get("bash")
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:  # an open quote: not written by us
        return False
    return bool(words) and _is(HOOK, words[0])


def _is(program: str, word: str) -> bool:
    """Whether a path in either system's spelling ends in the program."""
    return PureWindowsPath(word).name.removesuffix(".exe") == program
