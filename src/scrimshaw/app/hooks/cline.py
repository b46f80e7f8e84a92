"""Cline."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import structs

from scrimshaw.app.hooks.event import Event, EventName
from scrimshaw.ingest.payload import Json, first_text, number, section, sections, shown, text
from scrimshaw.ingest.tool_names import normalised

# A payload has one section named after its event; the value is the occasion.
_EVENTS: Mapping[str, tuple[EventName, str]] = MappingProxyType(
    {
        "taskStart": (EventName.START, "startup"),
        "taskResume": (EventName.START, "resume"),
        "userPromptSubmit": (EventName.PROMPT, ""),
        "postToolUse": (EventName.TOOL, ""),
        "taskComplete": (EventName.STOP, ""),
        "preCompact": (EventName.COMPACT, "auto"),
        "taskCancel": (EventName.END, "cancel"),
    }
)


def parse(payload: Json, hint: str = "") -> Event | None:
    """The event of a payload; sub-agents belong to the session of the agent that started them."""
    key = next((key for key in _EVENTS if key in payload), hint[:1].lower() + hint[1:])
    if key not in _EVENTS:
        return None
    name, occasion = _EVENTS[key]
    event = Event(
        client="cline",
        name=name,
        session=text(section(payload, "sessionContext").get("rootSessionId")) or text(payload.get("taskId")),
        cwd=_cwd(payload),
        prompt=_prompt(payload, key),
        output=text(section(payload, "turn").get("outputText")),
        occasion=occasion,
        agent=text(payload.get("agent_id")) if payload.get("parent_agent_id") else "",
    )
    return _read_call(event, payload) if name is EventName.TOOL else event


def _cwd(payload: Json) -> str:
    roots = payload.get("workspaceRoots")
    first = text(roots[0]) if isinstance(roots, list) and roots else ""
    return first or text(section(payload, "workspaceInfo").get("rootPath"))


def _prompt(payload: Json, key: str) -> str:
    fields = section(payload, key)
    return first_text(fields, "prompt") or first_text(section(fields, "taskMetadata"), "initialTask")


def _read_call(event: Event, payload: Json) -> Event:
    told, result = section(payload, "postToolUse"), section(payload, "tool_result")
    arguments = section(result, "input") or section(told, "parameters")
    name = _tool_name(text(told.get("toolName")) or text(result.get("name")), arguments)
    output = result.get("output")
    return structs.replace(
        event,
        tool="Mcp" if "__" in name else normalised(name),
        tool_name=name,
        arguments=_with_command(arguments),
        output=shown(output) or text(told.get("result")),
        failed=_failed(told, output),
        call_id=text(result.get("id")),
        duration_ms=number(told.get("executionTimeMs")),
    )


def _tool_name(name: str, arguments: Json) -> str:
    if name != "use_mcp_tool":
        return name
    return f"{text(arguments.get('server_name'))}__{text(arguments.get('tool_name'))}"


def _with_command(arguments: Json) -> Json:
    """Its shell tool takes several commands; they read as one script."""
    commands = arguments.get("commands")
    if not isinstance(commands, list):
        return arguments
    return {**arguments, "command": "\n".join(shown(command) or _script(command) for command in commands)}


def _script(command: object) -> str:
    return text(command.get("command")) if isinstance(command, Mapping) else ""


def _failed(told: Json, output: object) -> bool | None:
    verdicts = [told.get("success"), *(part.get("success") for part in sections(output))]
    if False in verdicts:
        return True
    return False if True in verdicts else None
