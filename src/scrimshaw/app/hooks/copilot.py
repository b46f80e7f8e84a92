"""GitHub Copilot CLI."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec import structs

from scrimshaw.app.hooks.event import Event, EventName
from scrimshaw.ingest.jsonl import rows
from scrimshaw.ingest.outcome import read_shell_mark
from scrimshaw.ingest.payload import Json, decoded, first_text, section, share, shown, text
from scrimshaw.ingest.tool_names import normalised

_EVENTS: Mapping[str, EventName] = MappingProxyType(
    {
        "sessionStart": EventName.START,
        "userPromptSubmitted": EventName.PROMPT,
        "postToolUse": EventName.TOOL,
        "postToolUseFailure": EventName.TOOL,
        "agentStop": EventName.STOP,
        "subagentStop": EventName.STOP,
        "preCompact": EventName.COMPACT,
        "sessionEnd": EventName.END,
    }
)
# Its payloads do not name their event; without a hint a field that only one event has tells.
_TELLING_FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "toolResult": "postToolUse",
        "prompt": "userPromptSubmitted",
        "source": "sessionStart",
        "agentName": "subagentStop",
        "stopReason": "agentStop",
        "trigger": "preCompact",
        "reason": "sessionEnd",
    }
)


def parse(payload: Json, hint: str = "") -> Event | None:
    """The event of a payload; pass the event's name as `hint`, since the payload has none."""
    wire = hint or next((name for field, name in _TELLING_FIELDS.items() if field in payload), "")
    name = _EVENTS.get(wire)
    if name is None:
        return None
    occasion = first_text(payload, "source", "trigger", "reason")
    event = Event(
        client="copilot",
        name=name,
        session=text(payload.get("sessionId")),
        cwd=text(payload.get("cwd")),
        transcript=text(payload.get("transcriptPath")),
        prompt=first_text(payload, "prompt", "initialPrompt"),
        occasion="startup" if occasion == "new" else occasion,
        agent=text(payload.get("agentName")),
    )
    return _read_call(event, payload) if name is EventName.TOOL else event


def usage(lines: Iterable[str]) -> float | None:
    """The share of the context that the last request used; None right after a compaction."""
    used = None
    for row in rows(lines, "session.usage_record", "session.compaction_complete"):
        if row.get("type") == "session.compaction_complete":
            used = None
        record = section(row, "data", "usage")
        if record.get("interactionType") == "conversation-agent":
            used = share(record.get("inputTokens"), record.get("maxPromptTokens")) or used
    return used


def turns(lines: Iterable[str]) -> Iterator[str]:
    """What the main agent said, in order."""
    for row in rows(lines, '"assistant.message"'):
        message = section(row, "data")
        if row.get("type") == "assistant.message" and not message.get("parentToolCallId"):
            yield text(message.get("content"))


def _read_call(event: Event, payload: Json) -> Event:
    name = text(payload.get("toolName"))
    result = section(payload, "toolResult")
    ending = read_shell_mark(shown(result) or shown(payload.get("error")))
    refused = bool(payload.get("error")) or text(result.get("resultType")) not in ("", "success")
    return structs.replace(
        event,
        tool="Mcp" if "-" in name else normalised(name),
        tool_name=name,
        arguments=_arguments(payload),
        output=ending.output,
        failed=refused or bool(ending.failed),
    )


def _arguments(payload: Json) -> Json:
    """The arguments, which older versions send as a JSON text."""
    sent = payload.get("toolArgs")
    return section({"sent": decoded(sent) if isinstance(sent, str) else sent}, "sent")
