"""Claude Code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec import structs

from scrimshaw.app.hooks.event import Event, EventName
from scrimshaw.app.hooks.shape import read_event, read_tool
from scrimshaw.ingest.jsonl import rows
from scrimshaw.ingest.payload import Json, section, sections, share, shown, text, total

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
_WINDOW = 200_000  # tokens, as its status line reports for its models
_LONG_WINDOW = 1_000_000  # tokens, for models named ...[1m]; one that has used more than 200,000 must be such a one
_USAGE_KEYS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def parse(payload: Json, hint: str = "") -> Event | None:
    """The event of a payload; a compaction is told twice, the second time with its summary as `output`."""
    wire = text(payload.get("hook_event_name")) or hint
    name = _EVENTS.get(wire)
    if name is None:
        return None
    event = read_event("claude", name, payload)
    if name is EventName.TOOL:
        return _read_call(event, payload, wire)
    if name is EventName.COMPACT:
        return structs.replace(event, output=text(payload.get("compact_summary")))
    return structs.replace(event, context_used=_share(total(payload, "context_tokens"), event.model))


def usage(lines: Iterable[str]) -> float | None:
    """The share of the context in use after the last answer of the main agent; None right after a compaction."""
    used = None
    for row in rows(lines, '"usage"', "compact_boundary"):
        if row.get("subtype") == "compact_boundary":
            used = None
        elif row.get("type") == "assistant" and not row.get("isSidechain"):
            message = section(row, "message")
            tokens = total(section(message, "usage"), *_USAGE_KEYS)
            used = _share(tokens, text(message.get("model"))) or used
    return used


def turns(lines: Iterable[str]) -> Iterator[str]:
    """What the main agent said, in order."""
    for row in rows(lines, '"assistant"'):
        if row.get("type") == "assistant" and not row.get("isSidechain") and not row.get("isApiErrorMessage"):
            parts = sections(section(row, "message").get("content"))
            yield "\n".join(text(part.get("text")) for part in parts if part.get("type") == "text")


def _read_call(event: Event, payload: Json, wire: str) -> Event:
    if wire == "PostToolUse":
        response = payload.get("tool_response")
        cut_short = isinstance(response, Mapping) and response.get("interrupted") is True
        return read_tool(event, payload, shown(response), None if cut_short else False)
    stopped_by_user = payload.get("is_interrupt") is True
    return read_tool(event, payload, text(payload.get("error")), None if stopped_by_user else True)


def _share(tokens: float, model: str) -> float | None:
    long = tokens > _WINDOW or "[1m]" in model.lower()
    return share(tokens, _LONG_WINDOW if long else _WINDOW)
