"""`scrimshaw-hook CLIENT [EVENT]`: one event of a client, recorded; what the client should tell its model, printed.

It fails open: whatever goes wrong, the client goes on. It starts no process, writes nothing unredacted and gives up
after DEADLINE_S of work, or PATIENCE_S in all where the machine or another writer keeps it waiting.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from functools import partial
from pathlib import Path

import msgspec

from scrimshaw.app.hooks import inject
from scrimshaw.app.hooks.answer import answer
from scrimshaw.app.hooks.capture import answers, observation, removed_classes
from scrimshaw.app.hooks.event import Event, EventName
from scrimshaw.app.hooks.parse import parse
from scrimshaw.app.hooks.tail import with_transcript
from scrimshaw.app.processes import ancestors
from scrimshaw.app.rules import usable_rules
from scrimshaw.config import PROJECT_FOLDER, Settings, find_project, load
from scrimshaw.models import DRAFT_JOB, Session, SessionState
from scrimshaw.session import working_memory
from scrimshaw.session.resume import Occasion, fitted, state_lines
from scrimshaw.storage.sqlite import Database
from scrimshaw.storage.sqlite_jobs import enqueue
from scrimshaw.storage.sqlite_sessions import SqliteSessions

DEADLINE_S, PATIENCE_S = 0.25, 5.0
LARGEST_INPUT = 8 * 1024 * 1024
# A hundred hooks at once write one after the other, each for some milliseconds.
BUSY_MS = 3000
_WATCH_S = 0.02
# Tokens of an injected text (DESIGN 7); a resume brings context.resume_tokens.
START_TOKENS, CLEAR_TOKENS = 600, 200

# A session becomes a memory when it ends, and before its context is compacted.
_DRAFTED_AT = (EventName.END, EventName.COMPACT)

# Gemini asks before every model call whether to compact: that is no compaction.
MAYBE = "maybe"
MOST_EMPTY = 20
_OCCASIONS = {"resume": Occasion.RESUME, "compact": Occasion.COMPACT, "clear": Occasion.CLEAR}


def run() -> None:
    """Entry point; always exits 0."""
    threading.Thread(target=_give_up_in_time, daemon=True).start()
    try:
        text = handle(sys.argv[1:], sys.stdin.buffer.read(LARGEST_INPUT + 1))
    except Exception as error:  # noqa: BLE001 - a hook that fails must not stop its client
        _log(f"{type(error).__name__} in {_place(error)}")
    else:
        sys.stdout.write(text)
        sys.stdout.flush()
    os._exit(0)


def _give_up_in_time() -> None:
    """End the process when its time is over. Waiting for a processor is not its work, so that no burst loses events."""
    until = time.monotonic() + PATIENCE_S
    while time.process_time() < DEADLINE_S and time.monotonic() < until:
        time.sleep(_WATCH_S)
    os._exit(0)


def handle(arguments: list[str], payload: bytes) -> str:
    """Record the event in a payload; what to print. Raises ScrimshawError, ValueError for what is no payload."""
    if not arguments or len(payload) > LARGEST_INPUT:
        return ""
    event = parse(arguments[0], msgspec.json.decode(payload), arguments[1] if len(arguments) > 1 else "")
    project = find_project(Path(event.cwd or ".")) if event else None
    if event is None or project is None or not (project / PROJECT_FOLDER).is_dir() or event.occasion == MAYBE:
        return ""
    settings = load(project)
    database = Database(settings.folder / "journal.db", "journal", durable=True, busy_timeout_ms=BUSY_MS)
    try:
        text = _answered(SqliteSessions(database), event, settings)
        if event.name in _DRAFTED_AT:
            with database.write() as write:
                enqueue(write, DRAFT_JOB, event.session, now=time.time())
        return text
    finally:
        database.close()


def _answered(sessions: SqliteSessions, event: Event, settings: Settings) -> str:
    now = time.time()
    admit = partial(working_memory.admit, now=now, settings=settings.session, event_decay=settings.features.event_decay)
    event, said = with_transcript(event)
    seen = observation(
        event,
        usable_rules(settings) if event.name == EventName.TOOL else (),
        process=next(iter(ancestors()), 0),
        extraction=settings.features.extraction,
        drop_ratio=settings.redaction.drop_ratio,
    )
    is_new = sessions.observe(seen, admit, now=now, modulus=settings.session.counter_modulus)
    removed = removed_classes(seen)
    if is_new and removed:
        _log(f"WARN Redaction applied: {', '.join(removed)}")
    for answer_given in answers(event, said):
        sessions.observe(answer_given, admit, now=now, modulus=settings.session.counter_modulus)
    if event.name == EventName.END:
        sessions.close(event.session, SessionState.COMPLETED, now=now)
    return answer(event.client, event.name, _text(sessions, event, settings, now)) if is_new else ""


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

    found = recall(index, event.prompt, sessions.shown(event.session), BUSY_MS)
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
    ranked = working_memory.ranked(
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


def _log(line: str) -> None:
    """One line without content; a log that cannot be written is no reason to fail."""
    try:
        folder = find_project(Path.cwd()) / PROJECT_FOLDER
        if folder.is_dir():
            with (folder / "hook.log").open("a", encoding="utf-8") as log:
                log.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {line}\n")
    except OSError:
        return


def _place(error: BaseException) -> str:
    """Where an error was raised; its text may hold what it was given, so it is not told."""
    frame = error.__traceback__
    while frame and frame.tb_next:
        frame = frame.tb_next
    return f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}" if frame else "an unknown place"
