"""Earlier sessions into memory: what a transcript tells is recorded as if a hook had seen it, and drafted.

An import can be interrupted anywhere and run again: what is recorded is known by its id, and a session that was read to
its end ends with an event that names the content it was read from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from scrimshaw.app.hooks.capture import answers, observation
from scrimshaw.app.hooks.event import Event, EventName, digest
from scrimshaw.app.rules import usable_rules
from scrimshaw.engine import Engine, review
from scrimshaw.engine.drafts import make_draft
from scrimshaw.engine.starting.taken import Taken
from scrimshaw.engine.starting.transcripts import Stored, read_transcript
from scrimshaw.errors import ScrimshawError
from scrimshaw.ingest.rules import Rule
from scrimshaw.ingest.tool_calls import ToolCall
from scrimshaw.ingest.turns import Transcript, Turn
from scrimshaw.models import EventKind, Observation, RecordedEvent, SessionState
from scrimshaw.session import working_memory

# Ids of events that only an import makes; a client's own ids never look so.
OURS = "transcript:"
_START = f"{OURS}start"

_NAMES = {EventKind.PROMPT: EventName.PROMPT, EventKind.COMPACT: EventName.COMPACT}


def import_transcripts(engine: Engine, found: Sequence[Stored]) -> Iterator[Taken]:
    """Take sessions in, one after the other; give the oldest first, so that each goes on from the one before it."""
    rules = usable_rules(engine.settings)
    return (import_transcript(engine, stored, rules) for stored in found)


def import_transcript(engine: Engine, stored: Stored, rules: Sequence[Rule]) -> Taken:
    """Record what a session's transcript tells and is not recorded yet, close the session and make its draft."""
    taken = partial(Taken, source=stored.client, place=stored.place)
    known = engine.sessions.events(stored.session)
    if _is_live(known):
        return taken(status="left", reasons=("its hooks recorded it while it ran",))
    try:
        transcript, digest = read_transcript(stored)
    except ScrimshawError as error:
        return taken(status="left", reasons=(error.message,))
    if not any(turn.call for turn in transcript.turns):
        return taken(status="left", reasons=("it holds no tool call",), skipped=transcript.skipped)
    new = _record(engine, transcript, digest, known, rules)
    memories, reasons = _drafted(engine, stored.session)
    status = "taken" if new or memories else "unchanged"
    return taken(status=status, events=new, memories=memories, reasons=reasons, skipped=transcript.skipped)


def _is_live(known: Sequence[RecordedEvent]) -> bool:
    """Whether hooks recorded the session: an import alone has one start, its own."""
    starts = [event.call_id for event in known if event.kind is EventKind.START]
    return bool(known) and starts != [_START]


def _record(
    engine: Engine, transcript: Transcript, digest: str, known: Sequence[RecordedEvent], rules: Sequence[Rule]
) -> int:
    """Record what is new, each event at its own time, and close the session; how many events that was."""
    ids = {(event.kind.value, event.call_id) for event in known}
    end = f"{OURS}{digest}"
    if (EventKind.END.value, end) in ids:
        return 0
    new = sum(
        _observed(engine, seen, at)
        for at, event in _events(transcript, transcript.cwd or str(engine.settings.project), end)
        if (event.name.value, event.call_id) not in ids
        for seen in _seen(engine, event, rules)
    )
    engine.sessions.close(transcript.session, SessionState.COMPLETED, now=transcript.turns[-1].at)
    return new


def _events(transcript: Transcript, cwd: str, end: str) -> Iterator[tuple[float, Event]]:
    """The events that hooks would have reported, with their times; of sub-agents only the tool calls, as hooks do."""
    event = partial(Event, client=transcript.client, session=transcript.session, cwd=cwd)
    yield transcript.turns[0].at, event(name=EventName.START, call_id=_START)
    for turn in transcript.turns:
        if turn.call:
            yield turn.at, _call(event, turn, turn.call)
        elif not turn.agent:
            yield turn.at, _said(event, turn)
    yield transcript.turns[-1].at, event(name=EventName.END, call_id=end)


def _call(event: Callable[..., Event], turn: Turn, call: ToolCall) -> Event:
    return event(
        name=EventName.TOOL,
        tool=call.tool,
        tool_name=turn.tool_name,
        arguments=call.arguments,
        output=call.output,
        failed=call.failed,
        call_id=call.call_id,
        agent=turn.agent,
    )


def _said(event: Callable[..., Event], turn: Turn) -> Event:
    """A prompt, a compaction with its summary, or an answer, which hooks read at a stop."""
    name = _NAMES.get(turn.kind, EventName.STOP)
    is_prompt = name is EventName.PROMPT
    return event(
        name=name,
        prompt=turn.text if is_prompt else "",
        output="" if is_prompt else turn.text,
        call_id=OURS + digest(f"{turn.at} {turn.text}".encode("utf-8", "replace")),
    )


def _seen(engine: Engine, event: Event, rules: Sequence[Rule]) -> Sequence[Observation]:
    if event.name is EventName.STOP:
        return answers(event, [event.output])
    settings = engine.settings
    return [
        observation(
            event,
            rules,
            process=0,
            extraction=settings.features.extraction,
            drop_ratio=settings.redaction.drop_ratio,
        )
    ]


def _observed(engine: Engine, seen: Observation, at: float) -> bool:
    settings = engine.settings
    admit = partial(working_memory.admit, now=at, settings=settings.session, event_decay=settings.features.event_decay)
    return engine.sessions.observe(seen, admit, now=at, modulus=settings.session.counter_modulus)


def _drafted(engine: Engine, session: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The memory that was made of a session, or why none was."""
    if not engine.settings.features.drafts:
        return (), ("drafts are switched off",)
    try:
        outcome = make_draft(engine, session)
    except ScrimshawError as error:
        return (), (error.message,)
    if not outcome.memory_id:
        return (), outcome.reasons
    if outcome.status == "accepted":
        # A session's memory fades within weeks of its day; taking it in today recalls it.
        review.touch(engine, [engine.memory(outcome.memory_id)])
    return (outcome.memory_id,), outcome.reasons
