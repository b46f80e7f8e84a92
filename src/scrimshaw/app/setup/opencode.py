"""OpenCode."""

from __future__ import annotations

import json
from pathlib import Path

from scrimshaw.app import hooks
from scrimshaw.app.setup.client import Client, Scope
from scrimshaw.app.setup.edits import Edit, OwnFile
from scrimshaw.app.setup.json_edit import JsonEdit
from scrimshaw.app.setup.programs import SERVE, Programs

_PLUGIN = Path(hooks.__path__[0]) / "opencode_plugin.js"
_MARK = "// Scrimshaw for OpenCode"
_COMMAND = '["scrimshaw-hook", "opencode"]'
_BASE = {"$schema": "https://opencode.ai/config.json"}


def _edits(root: Path, scope: Scope, programs: Programs) -> tuple[Edit, ...]:
    config, folder = (".config/opencode",) * 2 if scope == Scope.USER else (".", ".opencode")
    entry = {"type": "local", "command": [programs.server, *SERVE], "enabled": True}
    plugin = _PLUGIN.read_text(encoding="utf-8").replace(_COMMAND, json.dumps([programs.hook, "opencode"]))
    return (
        JsonEdit(path=root / config / "opencode.json", servers="mcp", entry=entry, base=_BASE),
        OwnFile(path=root / folder / "plugin/scrimshaw.js", text=plugin, mark=_MARK),
    )


CLIENT = Client(
    name="opencode",
    title="OpenCode",
    program="opencode",
    folder=".config/opencode",
    edits=_edits,
)
