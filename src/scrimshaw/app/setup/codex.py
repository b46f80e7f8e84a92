"""Codex CLI."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from scrimshaw.app.setup.client import PATIENCE_S, Client, Scope, grouped, stdio_entry
from scrimshaw.app.setup.edits import Edit
from scrimshaw.app.setup.json_edit import JsonEdit
from scrimshaw.app.setup.programs import Programs
from scrimshaw.app.setup.toml_edit import TomlEdit
from scrimshaw.toml_text import parse_toml

_EVENTS = ("SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "SubagentStop", "PreCompact")
_END, _END_S = "SessionEnd", 3  # Codex lets no hook take longer at the end, and warns of one that asks to
_CONFIG, _HOOKS = ".codex/config.toml", ".codex/hooks.json"


def _edits(root: Path, scope: Scope, programs: Programs) -> tuple[Edit, ...]:
    handler = {"command": programs.hook_command("codex"), "timeout": PATIENCE_S}
    hooks = grouped(_EVENTS, handler) | grouped([_END], {**handler, "timeout": _END_S})
    # A server that is not required gets one second; after it Codex goes on without its tools and says nothing. But a
    # required one that cannot start stops Codex, as it would for a user in every project without a memory.
    entry = stdio_entry(programs, **({"required": True} if scope == Scope.PROJECT else {}))
    return (
        TomlEdit(path=root / _CONFIG, servers="mcp_servers", entry=entry),
        JsonEdit(path=root / _HOOKS, hooks=hooks),
    )


def _unready(root: Path) -> str:
    """Codex notes which hooks it trusts as `FILE:EVENT:GROUP:HANDLER`, with a hash that only Codex can judge."""
    hooks = (root / _HOOKS).resolve()
    if any(key.startswith(f"{hooks}:") for key in _trusted(Path.home() / _CONFIG)):
        return ""
    return "its hooks are not trusted, so Codex skips them without a word; open Codex here and trust them in /hooks"


def _trusted(config: Path) -> Iterable[str]:
    try:
        found = parse_toml(config.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ()
    hooks = found.get("hooks")
    state = hooks.get("state") if isinstance(hooks, dict) else None
    return state if isinstance(state, dict) else ()


CLIENT = Client(
    name="codex",
    title="Codex",
    program="codex",
    folder=".codex",
    edits=_edits,
    advice="Codex skips hooks without a word until you trust them: open Codex here, trust the folder, then /hooks.",
    unready=_unready,
)
