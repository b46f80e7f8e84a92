"""GitHub Copilot CLI."""

from __future__ import annotations

from pathlib import Path

from scrimshaw.app.setup.client import PATIENCE_S, Client, Scope, stdio_entry
from scrimshaw.app.setup.edits import Edit
from scrimshaw.app.setup.json_edit import JsonEdit
from scrimshaw.app.setup.json_text import Json
from scrimshaw.app.setup.programs import Programs

_EVENTS = (
    "sessionStart",
    "userPromptSubmitted",
    "postToolUse",
    "postToolUseFailure",
    "agentStop",
    "subagentStop",
    "preCompact",
    "sessionEnd",
)


def _hook(programs: Programs, event: str) -> Json:
    """Its payloads do not name their event, so the command does."""
    return {"type": "command", "bash": programs.hook_command("copilot", event), "timeoutSec": PATIENCE_S}


def _edits(root: Path, scope: Scope, programs: Programs) -> tuple[Edit, ...]:
    entry = {"type": "local", **stdio_entry(programs, tools=["*"])}
    hooks = {event: _hook(programs, event) for event in _EVENTS}
    return (
        JsonEdit(path=root / ".copilot/mcp-config.json", servers="mcpServers", entry=entry),
        JsonEdit(path=root / ".copilot/hooks/scrimshaw.json", hooks=hooks, base={"version": 1}),
    )


CLIENT = Client(
    name="copilot",
    title="Copilot CLI",
    program="copilot",
    folder=".copilot",
    edits=_edits,
    scopes=(Scope.USER,),
)
