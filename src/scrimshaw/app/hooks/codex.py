"""Codex CLI."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec import structs

from scrimshaw.app.hooks.event import Event, EventName
from scrimshaw.app.hooks.shape import read_event, read_tool
from scrimshaw.ingest.jsonl import rows
from scrimshaw.ingest.outcome import seems_failed
from scrimshaw.ingest.payload import Json, number, section, sections, share, shown, text

# PostCompact is left out: it has no summary, and a start with occasion compact follows it.
_EVENTS: Mapping[str, EventName] = MappingProxyType(
    {
        "SessionStart": EventName.START,
        "UserPromptSubmit": EventName.PROMPT,
        "PostToolUse": EventName.TOOL,
        "Stop": EventName.STOP,
        "SubagentStop": EventName.STOP,
        "PreCompact": EventName.COMPACT,
        "SessionEnd": EventName.END,
    }
)


def parse(payload: Json, hint: str = "") -> Event | None:
    """The event of a payload; a command's failure is guessed from its text, `outcome` knows it from the rollout."""
    name = _EVENTS.get(text(payload.get("hook_event_name")) or hint)
    if name is None:
        return None
    event = read_event("codex", name, payload)
    return _read_call(event, payload) if name is EventName.TOOL else event


def usage(lines: Iterable[str]) -> float | None:
    """The share of the context that the last request used; None right after a compaction."""
    used = None
    for row in rows(lines, '"token_count"', '"compacted"'):
        if row.get("type") == "compacted":
            used = None
        info = section(row, "payload", "info")
        used = share(section(info, "last_token_usage").get("total_tokens"), info.get("model_context_window")) or used
    return used


def turns(lines: Iterable[str]) -> Iterator[str]:
    """What the agent said, in order."""
    for row in rows(lines, '"assistant"'):
        message = section(row, "payload")
        if message.get("type") == "message" and message.get("role") == "assistant":
            yield "\n".join(text(part.get("text")) for part in sections(message.get("content")))


def outcome(lines: Iterable[str], call_id: str) -> bool | None:
    """Whether a command failed, by the exit code in the rollout, which is there before the hook runs."""
    if not call_id:
        return None
    for row in rows(lines, call_id):
        item = section(row, "payload", "item")
        code = number(item.get("exit_code"))
        if item.get("id") == call_id and code is not None:
            return code != 0
    return None


def _read_call(event: Event, payload: Json) -> Event:
    response = payload.get("tool_response")
    output = shown(response)
    call = read_tool(event, payload, output, None)
    if call.tool == "Bash":
        return structs.replace(call, failed=seems_failed(output))
    if call.tool == "Edit":
        return structs.replace(call, arguments=_as_patch(call.arguments))
    if call.tool == "Mcp":
        return structs.replace(call, failed=section(payload, "tool_response").get("isError") is True)
    return call


def _as_patch(arguments: Json) -> Json:
    """A patch arrives under the name of a command."""
    return {("patch" if key == "command" else key): value for key, value in arguments.items()}
