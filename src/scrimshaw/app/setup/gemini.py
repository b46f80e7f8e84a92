"""Gemini CLI."""

from __future__ import annotations

from pathlib import Path

from scrimshaw.app.setup.client import PATIENCE_S, Client, Scope, grouped, stdio_entry
from scrimshaw.app.setup.edits import Edit
from scrimshaw.app.setup.json_edit import JsonEdit
from scrimshaw.app.setup.json_text import Json
from scrimshaw.app.setup.programs import Programs

_EVENTS = ("SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "PreCompress", "SessionEnd")


def hooks(programs: Programs) -> dict[str, Json]:
    """Its hooks by event; timeouts in milliseconds."""
    return grouped(_EVENTS, {"command": programs.hook_command("gemini"), "timeout": PATIENCE_S * 1000})


def _edits(root: Path, scope: Scope, programs: Programs) -> tuple[Edit, ...]:
    entry = stdio_entry(programs, trust=True)
    return (JsonEdit(path=root / ".gemini/settings.json", servers="mcpServers", entry=entry, hooks=hooks(programs)),)


CLIENT = Client(
    name="gemini",
    title="Gemini CLI",
    program="gemini",
    folder=".gemini",
    edits=_edits,
    advice="Gemini CLI reads a project's settings only in a folder that you trust.",
)
