"""What setup knows about a client."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct

from scrimshaw.app.setup.edits import Edit
from scrimshaw.app.setup.json_text import Json
from scrimshaw.app.setup.programs import SERVE, Programs

# The hook gives up after a quarter of a second by itself; this is for a machine too busy to start it.
PATIENCE_S = 5


class Scope(StrEnum):
    """Where a client is told: in the project's folder, or in the user's home for all projects."""

    PROJECT = "project"
    USER = "user"

    def root(self, project: Path) -> Path:
        """The folder that holds a client's files in this scope."""
        return project if self is Scope.PROJECT else Path.home()


Edits = Callable[[Path, Scope, Programs], tuple[Edit, ...]]


class Client(Struct, frozen=True, kw_only=True):
    """A client. `edits(root, scope, programs)` are its files below the root of a scope.

    `program` is its command, `folder` what it keeps in the home; either tells that it is installed. `scopes` begins
    with the usual one. `advice` is what the user must still do. `unready(root)` names what keeps the hooks below
    a root from running; empty when nothing is known to.
    """

    name: str
    title: str
    program: str
    folder: str
    edits: Edits
    scopes: tuple[Scope, ...] = (Scope.PROJECT, Scope.USER)
    advice: str = ""
    unready: Callable[[Path], str] = lambda root: ""

    def is_installed(self, home: Path) -> bool:
        """Whether its command or its folder is there."""
        return shutil.which(self.program) is not None or (home / self.folder).is_dir()


def stdio_entry(programs: Programs, **more: Any) -> Json:
    """The MCP entry that most clients understand."""
    return {"command": programs.server, "args": list(SERVE), **more}


def grouped(events: Iterable[str], handler: Mapping[str, Any]) -> dict[str, Json]:
    """One group with one handler for each event, as Claude Code set the form; tool events match every tool."""
    return {
        event: {**({"matcher": "*"} if "Tool" in event else {}), "hooks": [{"type": "command", **handler}]}
        for event in events
    }
