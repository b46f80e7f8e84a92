"""What a client's transcript says of a session, whatever client wrote it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.ingest.events import Event
from scrimshaw.ingest.payload import number
from scrimshaw.ingest.tool_calls import canonical_tool, is_own_tool
from scrimshaw.models import EventKind

_MILLISECONDS_FROM = 1e11  # as seconds that is the year 5138, as milliseconds 1973


class Transcript(Struct, frozen=True, kw_only=True):
    """A session as its client recorded it, in order; its text is raw."""

    session: str
    client: str
    cwd: str = ""  #: the folder it ran in; empty where the transcript does not say
    #: Prompts, answers (kind ANSWER, text in `output`), finished tool calls and compactions.
    events: tuple[Event, ...] = ()
    skipped: int = 0  #: lines that could not be read


class StoredSession(Struct, frozen=True, kw_only=True):
    """A session that a client keeps on this machine."""

    client: str
    session: str
    place: str  #: the file or folder that holds it, for people
    folder: str
    size: int  #: bytes of all its files
    began: float  #: seconds since 1970; 0.0 where the beginning of its files does not say
    read_texts: Callable[[], list[str]]  #: the session's own text, then those of its sub-agents; raises UnreadableFile
    parse: Callable[[str], Transcript]


class TranscriptBuilder:
    """Collects events in the order of a file. A call becomes one with its result; this server's own tools never do."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.events: list[Event] = []
        self._waiting: dict[str, tuple[str, Mapping[str, Any]]] = {}

    def add_text(self, kind: EventKind, text: str, at: float, agent: str = "") -> None:
        """Add a prompt, answer or summary of a compaction; an empty text is none, except for a compaction."""
        words = text.strip()
        if words or kind is EventKind.COMPACT:
            prompt, output = (words, "") if kind is EventKind.PROMPT else ("", words)
            self.events.append(Event(kind=kind, at=at, agent=agent, prompt=prompt, output=output))

    def add_compaction(self, summary: str, at: float) -> None:
        """Add a compaction; its boundary and its summary, one after the other, are one."""
        if self.events and self.events[-1].kind is EventKind.COMPACT and not self.events[-1].output:
            self.events.pop()
        self.add_text(EventKind.COMPACT, summary, at)

    def begin_call(self, call_id: str, name: str, arguments: Mapping[str, Any]) -> None:
        """Note a call until its result comes."""
        if name and not is_own_tool(name):
            self._waiting[call_id] = (name, arguments)

    def drop_call(self, call_id: str) -> None:
        """Forget a call that was refused and never ran."""
        self._waiting.pop(call_id, None)

    def tool_of(self, call_id: str) -> str:
        """The client's name of the tool of a call that waits for its result; empty where there is none."""
        return self._waiting.get(call_id, ("", {}))[0]

    def end_call(
        self, call_id: str, output: str, failed: bool | None, at: float, *, agent: str = "", tool: str = ""
    ) -> None:
        """Add a finished call; `tool` overrides the canonical name. A result without a call is left out."""
        name, arguments = self._waiting.pop(call_id, ("", {}))
        if name:
            event = Event(
                kind=EventKind.TOOL,
                at=at,
                tool=tool or canonical_tool(name),
                tool_name=name,
                arguments=arguments,
                output=output,
                failed=failed,
                call_id=call_id,
                agent=agent,
            )
            self.events.append(event)

    def build(self, session: str, *, cwd: str = "", skipped: int = 0) -> Transcript:
        """The transcript; an event without a time has that of the event before it."""
        at, found = 0.0, []
        for event in self.events:
            at = event.at or at
            found.append(replace(event, client=self.client, session=session, cwd=cwd, at=at))
        return Transcript(session=session, client=self.client, cwd=cwd, events=tuple(found), skipped=skipped)


def parse_time(value: object) -> float:
    """Seconds since 1970 of an ISO time or a number of seconds or milliseconds; 0.0 for anything else."""
    count = number(value)
    if count is not None:
        return max(0.0, count / 1000 if count > _MILLISECONDS_FROM else count)
    if not isinstance(value, str) or not re.match(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d", value):
        return 0.0
    try:
        found = datetime.fromisoformat(value)
        return max(0.0, (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return 0.0
