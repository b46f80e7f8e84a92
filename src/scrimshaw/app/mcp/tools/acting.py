"""Whose call it is over MCP: the session it belongs to, and who changes a memory as the ledger records it."""

from __future__ import annotations

from collections.abc import Iterable

from scrimshaw.app.processes import ancestors
from scrimshaw.engine import Engine, sessions
from scrimshaw.engine.degradations import SESSION, without_session
from scrimshaw.errors import StorageFailure
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Session
from scrimshaw.search.results import Hit


def bound(engine: Engine, session_id: str) -> Session | None:
    """The session a question belongs to; where the journal refuses, none, and the answer says so."""
    try:
        found = sessions.bind(engine, session_id, ancestors())
    except StorageFailure as error:
        engine.degradations.put(SESSION, without_session(error))
        return None
    engine.degradations.clear(SESSION)
    return found


def mark_shown(engine: Engine, session: Session | None, hits: Iterable[Hit]) -> bool:
    """Remember what a session is shown; False without one, and where the journal refuses: it will be shown it again."""
    if session is None:
        return False
    try:
        sessions.mark_shown(engine, session, hits)
    except StorageFailure as error:
        engine.degradations.put(SESSION, without_session(error))
        return False
    return True


def session_of(engine: Engine, session_id: str) -> str:
    """The session named, else that of the client which started this server, else none."""
    if session_id:
        return redact(session_id).text
    found = sessions.bind(engine, processes=ancestors())
    return found.id if found else ""
