"""Gemini CLI."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from msgspec import structs

from scrimshaw.app.hooks.event import Event, EventName
from scrimshaw.app.hooks.shape import read_event, read_tool
from scrimshaw.ingest.jsonl import rows
from scrimshaw.ingest.outcome import read_report
from scrimshaw.ingest.payload import Json, section, share, shown, text

_EVENTS: Mapping[str, EventName] = MappingProxyType(
    {
        "SessionStart": EventName.START,
        "BeforeAgent": EventName.PROMPT,
        "AfterTool": EventName.TOOL,
        "AfterAgent": EventName.STOP,
        "PreCompress": EventName.COMPACT,
        "SessionEnd": EventName.END,
    }
)
_WINDOW = 1_048_576  # tokens of input, the documented limit of the Gemini models
_INJECTED = re.compile(r"\A(?:\s*<hook_context>.*?</hook_context>\s*)+", re.DOTALL)
_OPENING, _CLOSING = "<untrusted_context>", "</untrusted_context>"


def parse(payload: Json, hint: str = "") -> Event | None:
    """The event of a payload; `PreCompress` comes before every model call, so its occasion is maybe."""
    name = _EVENTS.get(text(payload.get("hook_event_name")) or hint)
    if name is None:
        return None
    event = read_event("gemini", name, payload)
    if name is EventName.TOOL:
        return _read_call(event, payload)
    if name is EventName.PROMPT:
        return structs.replace(event, prompt=_INJECTED.sub("", event.prompt))
    if name is EventName.COMPACT:
        return structs.replace(event, occasion="maybe")
    return structs.replace(event, output=text(payload.get("prompt_response")))


def usage(lines: Iterable[str]) -> float | None:
    """The share of the context that the last answer used; None for other models than Gemini's."""
    used = None
    for row in rows(lines, '"tokens"'):
        if row.get("type") == "gemini" and text(row.get("model")).startswith("gemini"):
            used = share(section(row, "tokens").get("total"), _WINDOW) or used
    return used


def turns(lines: Iterable[str]) -> Iterator[str]:
    """What the agent said, in order; a message is written again as its tools finish, and counts once."""
    said: dict[str, str] = {}
    for row in rows(lines, '"gemini"'):
        if row.get("type") == "gemini":
            said[text(row.get("id"))] = shown(row.get("content"))
    yield from said.values()


def _read_call(event: Event, payload: Json) -> Event:
    response = section(payload, "tool_response")
    output = "\n".join(_unwrapped(part) for part in _parts(response.get("llmContent"))) or shown(response)
    ending = read_report(output)
    failed = bool(response.get("error")) or bool(ending.failed)
    call = read_tool(event, payload, ending.output, failed)
    return structs.replace(call, tool="Mcp") if section(payload, "mcp_context") else call


def _parts(content: object) -> list[str]:
    return [shown(part) for part in content] if isinstance(content, list) else [shown(content)]


def _unwrapped(output: str) -> str:
    bare = output.strip()
    if not (bare.startswith(_OPENING) and bare.endswith(_CLOSING)):
        return output
    return bare.removeprefix(_OPENING).removesuffix(_CLOSING).removeprefix("\n").removesuffix("\n")
