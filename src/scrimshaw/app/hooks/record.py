"""One event of a client, recorded; what the client should tell its model comes back."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

import msgspec
from msgspec import structs

from scrimshaw.app.hooks.capture import answers, observation, removed_classes, with_clean_names
from scrimshaw.app.hooks.event import Event, EventName
from scrimshaw.app.hooks.log import log
from scrimshaw.app.hooks.parse import parse
from scrimshaw.app.hooks.settings import BUSY_MS, settings_of
from scrimshaw.app.hooks.tail import with_transcript
from scrimshaw.app.processes import client
from scrimshaw.app.rules import usable_rules
from scrimshaw.config import PROJECT_FOLDER, Settings, find_project
from scrimshaw.ingest.payload import Json
from scrimshaw.models import DRAFT_JOB, SessionState
from scrimshaw.session import working_memory
from scrimshaw.storage.journal_file import JOURNAL, open_journal
from scrimshaw.storage.sqlite_jobs import enqueue
from scrimshaw.storage.sqlite_sessions import SqliteSessions

LARGEST_INPUT = 8 * 1024 * 1024
# A session becomes a memory when it ends, and before its context is compacted.
_DRAFTED_AT = (EventName.END, EventName.COMPACT)

# Gemini asks before every model call whether to compact: that is no compaction.
MAYBE = "maybe"


def handle(arguments: list[str], payload: bytes) -> str:
    """Record the event in a payload; what to print. Raises ScrimshawError, ValueError for what is no payload."""
    if not arguments or len(payload) > LARGEST_INPUT:
        return ""
    event = parse(arguments[0], _decoded(payload), arguments[1] if len(arguments) > 1 else "")
    project = _project_of(event) if event and event.occasion != MAYBE else None
    if event is None or project is None:
        return ""
    event = with_clean_names(event)
    settings = settings_of(project)
    database = open_journal(settings.folder / JOURNAL, busy_timeout_ms=BUSY_MS)
    try:
        text = _answered(SqliteSessions(database), structs.replace(event, cwd=str(project)), settings)
        if event.name in _DRAFTED_AT and settings.features.drafts:
            with database.write() as write:
                enqueue(write, DRAFT_JOB, event.session, now=time.time())
        return text
    finally:
        database.close()


def _decoded(payload: bytes) -> Json:
    """The JSON object in a payload; raises ValueError for anything else."""
    try:
        found = msgspec.json.decode(payload)
    except RecursionError:
        raise ValueError("A payload is nested too deeply.") from None
    if not isinstance(found, dict):
        raise ValueError("A payload is a JSON object.")
    return found


def _project_of(event: Event) -> Path | None:
    """The project around the client's folder, if it has a memory."""
    try:
        project = find_project(Path(event.cwd or "."))
        return project if (project / PROJECT_FOLDER).is_dir() else None
    except OSError:  # a name that no folder can have
        return None


def _answered(sessions: SqliteSessions, event: Event, settings: Settings) -> str:
    now = time.time()
    admit = partial(working_memory.admit, now=now, settings=settings.session, event_decay=settings.features.event_decay)
    event, said = with_transcript(event)
    seen = observation(
        event,
        usable_rules(settings) if event.name == EventName.TOOL else (),
        process=client(),
        extraction=settings.features.extraction,
        drop_ratio=settings.redaction.drop_ratio,
    )
    is_new = sessions.observe(seen, admit, now=now, modulus=settings.session.counter_modulus)
    removed = removed_classes(seen)
    if is_new and removed:
        log(f"WARN Redaction applied: {', '.join(removed)}")
    for answer_given in answers(event, said) if settings.features.extraction else ():
        sessions.observe(answer_given, admit, now=now, modulus=settings.session.counter_modulus)
    if event.name == EventName.END:
        sessions.close(event.session, SessionState.COMPLETED, now=now)
    # Clients report a second compaction of a session in the words of the first.
    return _told(sessions, event, settings, now) if is_new or event.name == EventName.START else ""


def _told(sessions: SqliteSessions, event: Event, settings: Settings, now: float) -> str:
    """What to print; only a start and a prompt are answered."""
    if event.name not in (EventName.START, EventName.PROMPT):
        return ""
    from scrimshaw.app.hooks.telling import told  # noqa: PLC0415 - its patterns cost most events 8 ms for nothing

    return told(sessions, event, settings, now)
