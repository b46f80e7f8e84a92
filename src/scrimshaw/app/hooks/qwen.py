"""Qwen Code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec import structs

from scrimshaw.app.hooks.event import Event, EventName
from scrimshaw.app.hooks.shape import read_event, read_tool
from scrimshaw.ingest.jsonl import rows
from scrimshaw.ingest.outcome import read_report
from scrimshaw.ingest.payload import Json, section, sections, share, shown, text

_EVENTS: Mapping[str, EventName] = MappingProxyType(
    {
        "SessionStart": EventName.START,
        "UserPromptSubmit": EventName.PROMPT,
        "PostToolUse": EventName.TOOL,
        "PostToolUseFailure": EventName.TOOL,
        "Stop": EventName.STOP,
        "SubagentStop": EventName.STOP,
        "PreCompact": EventName.COMPACT,
        "PostCompact": EventName.COMPACT,
        "SessionEnd": EventName.END,
    }
)


def parse(payload: Json, hint: str = "") -> Event | None:
    """The event of a payload; the stop tells the share of the context in use."""
    wire = text(payload.get("hook_event_name")) or hint
    name = _EVENTS.get(wire)
    if name is None:
        return None
    event = read_event("qwen", name, payload)
    if name is EventName.TOOL:
        return _read_call(event, payload)
    if name is EventName.COMPACT:
        return structs.replace(event, output=text(payload.get("compact_summary")))
    return structs.replace(event, context_used=share(payload.get("context_usage"), 1))


def usage(lines: Iterable[str]) -> float | None:
    """None: the chat file counts tokens but does not say how many fit."""
    return None


def turns(lines: Iterable[str]) -> Iterator[str]:
    """What the agent said, in order, without its thoughts."""
    for row in rows(lines, '"assistant"'):
        if row.get("type") == "assistant":
            parts = sections(section(row, "message").get("parts"))
            yield "\n".join(text(part.get("text")) for part in parts if part.get("text") and not part.get("thought"))


def _read_call(event: Event, payload: Json) -> Event:
    error = text(payload.get("error"))
    ending = read_report(error or shown(payload.get("tool_response")))
    stopped_by_user = payload.get("is_interrupt") is True
    return read_tool(event, payload, ending.output, None if stopped_by_user else bool(error) or bool(ending.failed))
