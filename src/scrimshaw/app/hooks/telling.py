"""What the client should tell its model: at a start where things stand, at a prompt what it brings up."""

from __future__ import annotations

from scrimshaw.app.hooks import inject
from scrimshaw.app.hooks.answer import answer, takes_text
from scrimshaw.app.hooks.event import Event, EventName
from scrimshaw.app.hooks.settings import BUSY_MS
from scrimshaw.config import Settings
from scrimshaw.models import Session
from scrimshaw.session import working_memory
from scrimshaw.session.resume import Occasion, fitted, state_lines
from scrimshaw.storage.sqlite_sessions import SqliteSessions

# Tokens of an injected text (DESIGN 7); a resume brings context.resume_tokens.
START_TOKENS, CLEAR_TOKENS = 600, 200
MOST_EMPTY = 20
_OCCASIONS = {"resume": Occasion.RESUME, "compact": Occasion.COMPACT, "clear": Occasion.CLEAR}


def told(sessions: SqliteSessions, event: Event, settings: Settings, now: float) -> str:
    """What to print. Only what the client hands on is looked for, counted, and held to be known to its model."""
    if not takes_text(event.client, event.name):
        return ""
    text = _text(sessions, event, settings, now)
    printed = answer(event.client, event.name, text)
    if printed:
        occasion = _OCCASIONS.get(event.occasion, event.name)
        sessions.record_injected(inject.injected(event.session, occasion, text, now))
    return printed


def _text(sessions: SqliteSessions, event: Event, settings: Settings, now: float) -> str:
    """What the model should be told on this event; usually nothing."""
    if event.name == EventName.START:
        return _state(sessions, event, settings, now)
    if event.name == EventName.PROMPT and not event.agent:
        return _recalled(sessions, event, settings, now)
    return ""


def _recalled(sessions: SqliteSessions, event: Event, settings: Settings, now: float) -> str:
    """Memories that the prompt brings up and that the session was not shown yet."""
    index = settings.folder / "index.db"
    if not index.exists():
        return ""
    from scrimshaw.app.hooks.recall import recall  # noqa: PLC0415 - only a prompt needs the index

    found = recall(
        index,
        event.prompt,
        sessions.shown(event.session),
        busy_timeout_ms=BUSY_MS,
        min_quality_score=settings.search.min_quality_score,
    )
    if found.shown:
        sessions.show(event.session, found.shown, now=now)
    return found.text


def _state(sessions: SqliteSessions, event: Event, settings: Settings, now: float) -> str:
    """What a starting session should know of the one before, or of itself when it comes back."""
    if not settings.features.auto_resume:
        return ""
    occasion = _OCCASIONS.get(event.occasion, Occasion.START)
    session = sessions.get(event.session)
    about = _subject(sessions, session, occasion) if session else None
    if about is None:
        return ""
    held = sessions.items(about.id, held=True)
    ranked = working_memory.rank_items(
        held, about.counter, now=now, settings=settings.session, event_decay=settings.features.event_decay
    )
    lines = state_lines(about, sessions.items(about.id), [item for item, _ in ranked], occasion)
    budget = {Occasion.START: START_TOKENS, Occasion.CLEAR: CLEAR_TOKENS}.get(occasion, settings.context.resume_tokens)
    return inject.state_text(fitted(lines, budget, inject.count)[0], occasion)


def _subject(sessions: SqliteSessions, session: Session, occasion: Occasion) -> Session | None:
    if occasion in (Occasion.RESUME, Occasion.COMPACT) and sessions.items(session.id):
        return session
    return _last_with_items(sessions, session.continues)


def _last_with_items(sessions: SqliteSessions, session_id: str) -> Session | None:
    """The session of this id, or the nearest before it that did something: one that only asked hides nothing."""
    for _ in range(MOST_EMPTY):
        session = sessions.get(session_id) if session_id else None
        if session is None or sessions.items(session.id):
            return session
        session_id = session.continues
    return None
