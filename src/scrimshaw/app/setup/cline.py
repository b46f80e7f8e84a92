"""Cline."""

from __future__ import annotations

from pathlib import Path

from scrimshaw.app.setup.client import Client, Scope, stdio_entry
from scrimshaw.app.setup.edits import Edit, OwnFile
from scrimshaw.app.setup.json_edit import JsonEdit
from scrimshaw.app.setup.programs import HOOK, Programs

_EVENTS = (
    "TaskStart",
    "TaskResume",
    "UserPromptSubmit",
    "PostToolUse",
    "PreCompact",
    "TaskComplete",
    "TaskCancel",
)
_MARK = "# Written by `scrimshaw setup cline`; `--remove` takes it away."
START_S = 60  # Cline waits 3 seconds by itself, which a cold start on a busy machine can miss


def _edits(root: Path, scope: Scope, programs: Programs) -> tuple[Edit, ...]:
    servers = root / ".cline/data/settings/cline_mcp_settings.json"
    entry = stdio_entry(programs, timeout=START_S)
    hooks = (_hook(root / ".cline/hooks" / event, programs) for event in _EVENTS)
    return (JsonEdit(path=servers, servers="mcpServers", entry=entry), *hooks)


def _hook(path: Path, programs: Programs) -> OwnFile:
    text = f"#!/bin/sh\n{_MARK}\nexec {programs.hook_command('cline', path.name)}\n"
    return OwnFile(path=path, text=text, mark=_MARK, is_served_by=f"{HOOK} cline", is_executable=True)


CLIENT = Client(
    name="cline",
    title="Cline",
    program="cline",
    folder=".cline",
    edits=_edits,
    scopes=(Scope.USER,),
)
