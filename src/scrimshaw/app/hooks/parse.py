"""A client's hook payload in, one event out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from scrimshaw.app.hooks import claude, cline, codex, copilot, cursor, gemini, opencode, qwen
from scrimshaw.app.hooks.event import Event, EventName, identified
from scrimshaw.ingest.payload import Json, first_text
from scrimshaw.ingest.tool_names import is_ours

_PARSERS: Mapping[str, Callable[[Json, str], Event | None]] = MappingProxyType(
    {
        "claude": claude.parse,
        "cline": cline.parse,
        "codex": codex.parse,
        "copilot": copilot.parse,
        "cursor": cursor.parse,
        "gemini": gemini.parse,
        "opencode": opencode.parse,
        "qwen": qwen.parse,
    }
)
CLIENTS: tuple[str, ...] = tuple(_PARSERS)


def parse(client: str, payload: Json, event_hint: str = "") -> Event | None:
    """The event that `payload` tells, with a `call_id` that is the same whenever the same report is delivered again.

    `event_hint` is the client's name of the event, for payloads that do not say it. None for an event that is not
    used, one without a session, an empty prompt (Qwen sends those between tool calls), and this server's own tools.
    Two starts or compactions of one session may share an id where the client marks no moment (Codex, Cline): use it to
    record each act once, not to withhold an answer.
    """
    parser = _PARSERS.get(client)
    event = parser(payload, event_hint) if parser else None
    if event is None or not event.session or _is_noise(event):
        return None
    return identified(event, _turn(payload))


def _is_noise(event: Event) -> bool:
    if event.name is EventName.TOOL:
        return not event.tool_name or is_ours(event.tool_name)
    return event.name is EventName.PROMPT and not event.prompt.strip()


def _turn(payload: Json) -> str:
    """The client's mark of the moment, which tells a repeated report from a repeated act."""
    return first_text(payload, "prompt_id", "turn_id", "generation_id") or str(payload.get("timestamp", ""))
