"""OpenCode, as told by the plugin file beside this one."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import structs

from scrimshaw.app.hooks.event import Event, EventName
from scrimshaw.ingest.payload import Json, number, section, sections, share, shown, text, total
from scrimshaw.ingest.tool_names import normalised

_EVENTS: Mapping[str, tuple[EventName, str]] = MappingProxyType(
    {
        "session.created": (EventName.START, "startup"),
        "session.resumed": (EventName.START, "resume"),
        "session.compacted": (EventName.START, "compact"),
        "chat.message": (EventName.PROMPT, ""),
        "tool.execute.after": (EventName.TOOL, ""),
        "tool.error": (EventName.TOOL, ""),
        "session.idle": (EventName.STOP, ""),
        "experimental.session.compacting": (EventName.COMPACT, "auto"),
        "session.deleted": (EventName.END, "deleted"),
    }
)


def parse(payload: Json, hint: str = "") -> Event | None:
    """The event of a payload; a sub-agent's session is told as part of the one that started it (`parent`)."""
    wire = text(payload.get("event")) or hint
    if wire not in _EVENTS:
        return None
    name, occasion = _EVENTS[wire]
    session, parent = _session(payload), text(payload.get("parent"))
    event = Event(
        client="opencode",
        name=name,
        session=parent or session,
        cwd=text(payload.get("directory")) or text(section(payload, "input", "info").get("directory")),
        output=shown(payload.get("texts")) if name is EventName.STOP else "",
        occasion=occasion,
        agent=session if parent else "",
        context_used=_context_used(payload),
        model=text(payload.get("model")) or text(section(payload, "output", "message", "model").get("modelID")),
    )
    if name is EventName.TOOL:
        return _read_call(event, payload)
    return _read_prompt(event, payload) if name is EventName.PROMPT else event


def _session(payload: Json) -> str:
    told = section(payload, "input")
    return text(told.get("sessionID")) or text(section(told, "info").get("id"))


def _context_used(payload: Json) -> float | None:
    tokens = section(payload, "tokens")
    used = total(tokens, "input", "output") + total(section(tokens, "cache"), "read", "write")
    return share(used, payload.get("limit"))


def _read_prompt(event: Event, payload: Json) -> Event:
    output = section(payload, "output")
    typed = (text(part.get("text")) for part in sections(output.get("parts")) if not part.get("synthetic"))
    prompt = "\n".join(part for part in typed if part)
    return structs.replace(event, prompt=prompt, call_id=text(section(output, "message").get("id")))


def _read_call(event: Event, payload: Json) -> Event:
    told, output = section(payload, "input"), section(payload, "output")
    name = text(told.get("tool"))
    return structs.replace(
        event,
        tool="Mcp" if isinstance(output.get("content"), list) else normalised(name),
        tool_name=name,
        arguments=section(told, "args"),
        output=text(section(output, "metadata", "display").get("text")) or text(output.get("output")) or shown(output),
        failed=_failed(output),
        call_id=text(told.get("callID")),
    )


def _failed(output: Json) -> bool:
    code = number(section(output, "metadata").get("exit"))
    return bool(output.get("error")) or output.get("isError") is True or bool(code)
