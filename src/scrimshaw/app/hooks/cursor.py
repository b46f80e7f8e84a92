"""Cursor, by its documentation: no payload of a running Cursor has been seen."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import structs

from scrimshaw.app.hooks.event import Event, EventName
from scrimshaw.ingest.payload import Json, decoded, first_text, number, section, share, shown, text
from scrimshaw.ingest.tool_names import normalised

# Shell, MCP and edit events of their own are left out: postToolUse tells each of those calls already.
_EVENTS: Mapping[str, EventName] = MappingProxyType(
    {
        "sessionStart": EventName.START,
        "beforeSubmitPrompt": EventName.PROMPT,
        "postToolUse": EventName.TOOL,
        "postToolUseFailure": EventName.TOOL,
        "afterAgentResponse": EventName.STOP,
        "stop": EventName.STOP,
        "subagentStop": EventName.STOP,
        "preCompact": EventName.COMPACT,
        "sessionEnd": EventName.END,
    }
)


def parse(payload: Json, hint: str = "") -> Event | None:
    """The event of a payload; before a compaction it tells the share of the context in use."""
    name = _EVENTS.get(text(payload.get("hook_event_name")) or hint)
    if name is None:
        return None
    event = Event(
        client="cursor",
        name=name,
        session=first_text(payload, "parent_conversation_id", "conversation_id", "session_id"),
        cwd=text(payload.get("cwd")) or _root(payload),
        transcript=text(payload.get("transcript_path")),
        prompt=text(payload.get("prompt")),
        output=first_text(payload, "text", "summary"),
        occasion="startup" if name is EventName.START else first_text(payload, "trigger", "reason"),
        agent=first_text(payload, "subagent_id", "subagent_type"),
        context_used=_context_used(payload),
        model=text(payload.get("model")),
    )
    return _read_call(event, payload) if name is EventName.TOOL else event


def _root(payload: Json) -> str:
    roots = payload.get("workspace_roots")
    return text(roots[0]) if isinstance(roots, list) and roots else ""


def _context_used(payload: Json) -> float | None:
    told = share(payload.get("context_usage_percent"), 100)
    return told or share(payload.get("context_tokens"), payload.get("context_window_size"))


def _read_call(event: Event, payload: Json) -> Event:
    name = text(payload.get("tool_name"))
    sent = text(payload.get("tool_output"))
    result = decoded(sent)
    error = text(payload.get("error_message"))
    return structs.replace(
        event,
        tool=normalised(name),
        tool_name=name,
        arguments=section(payload, "tool_input"),
        output=error or shown(result) or sent,
        failed=_failed(payload, result),
        call_id=text(payload.get("tool_use_id")),
        duration_ms=number(payload.get("duration")),
    )


def _failed(payload: Json, result: object) -> bool | None:
    if payload.get("is_interrupt") is True:
        return None
    if "error_message" in payload or "failure_type" in payload:
        return True
    return isinstance(result, Mapping) and bool(number(result.get("exitCode")))
