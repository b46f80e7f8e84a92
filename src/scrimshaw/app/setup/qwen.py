"""Qwen Code."""

from __future__ import annotations

from pathlib import Path

from scrimshaw.app.setup.client import PATIENCE_S, Client, Scope, grouped, stdio_entry
from scrimshaw.app.setup.edits import Edit
from scrimshaw.app.setup.json_edit import JsonEdit
from scrimshaw.app.setup.programs import Programs

_EVENTS = (
    "SessionStart",
    "UserPromptSubmit",
    "PostToolUse",
    "PostToolUseFailure",
    "Stop",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "SessionEnd",
)


def _edits(root: Path, scope: Scope, programs: Programs) -> tuple[Edit, ...]:
    handler = {"command": programs.hook_command("qwen"), "timeout": PATIENCE_S * 1000}  # milliseconds
    entry = stdio_entry(programs, trust=True)
    hooks = grouped(_EVENTS, handler)
    return (JsonEdit(path=root / ".qwen/settings.json", servers="mcpServers", entry=entry, hooks=hooks),)


CLIENT = Client(name="qwen", title="Qwen Code", program="qwen", folder=".qwen", edits=_edits)
