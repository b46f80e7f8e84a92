"""All clients, and which of them are meant."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from scrimshaw.app.setup import claude, cline, codex, copilot, cursor, gemini, opencode, qwen
from scrimshaw.app.setup.client import Client
from scrimshaw.errors import NotFound

_ALL = (claude, codex, opencode, gemini, qwen, copilot, cline, cursor)
CLIENTS: Mapping[str, Client] = MappingProxyType({each.CLIENT.name: each.CLIENT for each in _ALL})


def installed(home: Path) -> tuple[Client, ...]:
    """The clients that are on this machine; raises NotFound where there is none."""
    found = tuple(client for client in CLIENTS.values() if client.is_installed(home))
    if not found:
        raise NotFound("No agent client was found.", f"Name one: {', '.join(CLIENTS)}.")
    return found
