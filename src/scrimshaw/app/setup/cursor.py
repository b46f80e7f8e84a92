"""Cursor, by its documentation."""

from __future__ import annotations

from pathlib import Path

from scrimshaw.app.setup.client import PATIENCE_S, Client, Scope, stdio_entry
from scrimshaw.app.setup.edits import Edit
from scrimshaw.app.setup.json_edit import JsonEdit
from scrimshaw.app.setup.programs import Programs

_EVENTS = (
    "sessionStart",
    "beforeSubmitPrompt",
    "postToolUse",
    "postToolUseFailure",
    "afterAgentResponse",
    "stop",
    "subagentStop",
    "preCompact",
    "sessionEnd",
)


def _edits(root: Path, scope: Scope, programs: Programs) -> tuple[Edit, ...]:
    handler = {"command": programs.hook_command("cursor"), "timeout": PATIENCE_S}
    hooks = dict.fromkeys(_EVENTS, handler)
    return (
        JsonEdit(path=root / ".cursor/mcp.json", servers="mcpServers", entry=stdio_entry(programs)),
        JsonEdit(path=root / ".cursor/hooks.json", hooks=hooks, base={"version": 1}),
    )


CLIENT = Client(name="cursor", title="Cursor", program="cursor", folder=".cursor", edits=_edits)
