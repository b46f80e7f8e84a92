"""Claude Code."""

from __future__ import annotations

from pathlib import Path

from scrimshaw.app.setup.client import PATIENCE_S, Client, Scope, grouped, stdio_entry
from scrimshaw.app.setup.edits import Edit
from scrimshaw.app.setup.json_edit import JsonEdit
from scrimshaw.app.setup.json_text import Json
from scrimshaw.app.setup.programs import Programs

_WAITED_FOR = ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "PostCompact", "SessionEnd")
# Nothing is answered to these, so the agent need not wait.
_BESIDE = ("PostToolUse", "PostToolUseFailure", "SubagentStop")


def hooks(programs: Programs) -> dict[str, Json]:
    """Its hooks by event; timeouts in seconds."""
    handler = {"command": programs.hook_command("claude"), "timeout": PATIENCE_S}
    return grouped(_WAITED_FOR, handler) | grouped(_BESIDE, {**handler, "async": True})


def _edits(root: Path, scope: Scope, programs: Programs) -> tuple[Edit, ...]:
    servers = root / (".claude.json" if scope == Scope.USER else ".mcp.json")
    return (
        JsonEdit(path=servers, servers="mcpServers", entry=stdio_entry(programs)),
        JsonEdit(path=root / ".claude/settings.json", hooks=hooks(programs)),
    )


CLIENT = Client(
    name="claude",
    title="Claude Code",
    program="claude",
    folder=".claude",
    edits=_edits,
    advice="Claude Code asks once whether it may start a project's server; say yes, or look at /mcp.",
)
