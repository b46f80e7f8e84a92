"""What a client reports, in one shape whatever the client. Its text is raw: redact it before anything is stored."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, structs


class EventName(StrEnum):
    """What happened: a session began, the user asked, a tool finished, the agent rested, context shrinks, the end."""

    START = "start"
    PROMPT = "prompt"
    TOOL = "tool"
    STOP = "stop"
    COMPACT = "compact"
    END = "end"


class Event(Struct, frozen=True, kw_only=True):
    """One thing a client reports.

    `tool` is Read, Grep, Glob, Bash, Edit, Write, Web, Mcp or the client's own name, which `tool_name` always has.
    `output` is the tool's text; at a stop the agent's last words, at a compaction its summary where there is one.
    `failed` is None where nothing tells. `occasion` is startup, resume, compact or clear at a start; auto, manual or
    maybe (the client asks before every model call) at a compaction; the client's reason at the end. `agent` names a
    sub-agent and is empty for the main one. `context_used` is a share 0..1, `transcript` a path or empty.
    """

    client: str
    name: EventName
    session: str
    cwd: str = ""
    transcript: str = ""
    prompt: str = ""
    tool: str = ""
    tool_name: str = ""
    arguments: Mapping[str, Any] = {}
    output: str = ""
    failed: bool | None = None
    call_id: str = ""
    occasion: str = ""
    agent: str = ""
    context_used: float | None = None
    model: str = ""
    duration_ms: float | None = None


def identified(event: Event, turn: str) -> Event:
    """Give an event without `call_id` one made of what it says and of `turn`, the client's mark of the moment.

    The same report delivered twice gets the same id.
    """
    if event.call_id:
        return event
    said = (
        event.session,
        event.agent,
        event.name.value,
        turn,
        event.occasion,
        event.tool_name,
        event.arguments,
        event.output,
        event.prompt,
    )
    return structs.replace(event, call_id=digest(repr(said).encode("utf-8", "backslashreplace")))


def digest(said: bytes) -> str:
    """24 hexadecimal digits that stand for what was said."""
    import hashlib  # noqa: PLC0415 - loads OpenSSL, 3 ms, and most events bring an id

    return hashlib.blake2b(said, digest_size=12).hexdigest()
