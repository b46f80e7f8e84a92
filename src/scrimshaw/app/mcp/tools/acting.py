"""Who changes a memory over MCP, as the ledger records it."""

from __future__ import annotations

from scrimshaw.app.processes import ancestors
from scrimshaw.engine import Engine, sessions


def session_of(engine: Engine, session_id: str) -> str:
    """The session named, else that of the client which started this server, else none."""
    if session_id:
        return session_id
    found = sessions.bind(engine, processes=ancestors())
    return found.id if found else ""
