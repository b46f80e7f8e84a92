"""A Claude Code plugin with its marketplace, and a Gemini CLI extension, from the same data as setup.

Both clients look for `hooks/hooks.json` at the root of what they install, and each rejects the other's; so the plugin
is the folder itself, and the extension its subfolder `gemini`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scrimshaw import __version__
from scrimshaw.app.setup import claude, gemini
from scrimshaw.app.setup.client import stdio_entry
from scrimshaw.app.setup.edits import OwnFile
from scrimshaw.app.setup.json_text import Json
from scrimshaw.app.setup.programs import SERVER, Programs

_DESCRIPTION = "Memory for coding agents: Markdown in your git repository, searched and kept up to date."
_AUTHOR = {"name": "The Scrimshaw authors"}
# The files are for other machines, which find the programs by their search path.
_ANYWHERE = Programs()


def exported(folder: Path) -> tuple[OwnFile, ...]:
    """The files of the plugin, its marketplace and the extension below a folder."""
    about = {"name": SERVER, "version": __version__, "description": _DESCRIPTION}
    servers = {"mcpServers": {SERVER: stdio_entry(_ANYWHERE)}}
    market = {"name": SERVER, "description": _DESCRIPTION, "owner": _AUTHOR}
    plugin = {"name": SERVER, "source": "./", "description": _DESCRIPTION}
    files: dict[str, Any] = {
        ".claude-plugin/plugin.json": {**about, "license": "MIT", "author": _AUTHOR},
        ".claude-plugin/marketplace.json": {**market, "plugins": [plugin]},
        "hooks/hooks.json": _listed(claude.hooks(_ANYWHERE)),
        ".mcp.json": servers,
        "gemini/gemini-extension.json": {**about, **servers},
        "gemini/hooks/hooks.json": _listed(gemini.hooks(_ANYWHERE)),
    }
    return tuple(OwnFile(path=folder / name, text=json.dumps(value, indent=2) + "\n") for name, value in files.items())


def _listed(hooks: Mapping[str, Json]) -> Json:
    return {"hooks": {event: [group] for event, group in hooks.items()}}
