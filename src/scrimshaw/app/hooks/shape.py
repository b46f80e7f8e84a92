"""The payload shape that Claude Code set and that Codex, Qwen Code and Gemini CLI follow."""

from __future__ import annotations

from msgspec import structs

from scrimshaw.app.hooks.event import Event, EventName
from scrimshaw.ingest.payload import Json, first_text, number, section, text
from scrimshaw.ingest.tool_names import normalised


def read_event(client: str, name: EventName, payload: Json) -> Event:
    """What every event of this shape tells, and the agent's last words at a stop."""
    return Event(
        client=client,
        name=name,
        session=text(payload.get("session_id")),
        cwd=text(payload.get("cwd")),
        transcript=text(payload.get("transcript_path")),
        prompt=text(payload.get("prompt")) if name is EventName.PROMPT else "",
        output=text(payload.get("last_assistant_message")) if name is EventName.STOP else "",
        occasion=first_text(payload, "source", "trigger", "reason"),
        agent=text(payload.get("agent_id")),
        model=text(payload.get("model")),
    )


def read_tool(event: Event, payload: Json, output: str, failed: bool | None) -> Event:
    """`event` with its tool call."""
    name = text(payload.get("tool_name"))
    return structs.replace(
        event,
        tool=normalised(name),
        tool_name=name,
        arguments=section(payload, "tool_input"),
        output=output,
        failed=failed,
        call_id=first_text(payload, "tool_use_id", "tool_call_id"),
        duration_ms=number(payload.get("duration_ms")),
    )
