"""What a hook prints so that its client hands a text to the model."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec

_CLAUDE = {"start": "SessionStart", "prompt": "UserPromptSubmit", "tool": "PostToolUse"}
# Client -> our name of the event -> the client's, for the events after which the client reads a text.
_EVENTS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "claude": {**_CLAUDE, "PostToolUseFailure": "PostToolUseFailure"},
        "codex": _CLAUDE,
        "qwen": _CLAUDE,
        "gemini": {"start": "SessionStart", "prompt": "BeforeAgent", "tool": "AfterTool"},
        "copilot": {"start": "sessionStart", "prompt": "userPromptSubmitted", "tool": "postToolUse"},
        "cursor": {"start": "sessionStart", "tool": "postToolUse"},
        "cline": {"tool": "PostToolUse"},
        "opencode": {"start": "session.created", "prompt": "chat.message"},
    }
)


def answer(client: str, event_name: str, text: str) -> str:
    """One line of JSON for stdout that injects `text`; empty when the client takes no text on that event.

    `event_name` is an EventName or the client's own name: Claude Code refuses an answer that names another event than
    the one it asked about, so after a failed tool call pass `PostToolUseFailure`.
    """
    wire = _wire(client, event_name)
    if not wire or not text:
        return ""
    return msgspec.json.encode(_shape(client, wire, text)).decode()


def takes_text(client: str, event_name: str) -> bool:
    """Whether `answer` can hand a text to the model of this client on this event."""
    return bool(_wire(client, event_name))


def _wire(client: str, event_name: str) -> str:
    names = _EVENTS.get(client, {})
    return names.get(event_name) or (event_name if event_name in names.values() else "")


def _shape(client: str, wire: str, text: str) -> Mapping[str, object]:
    if client == "cline":
        return {"cancel": False, "contextModification": text}
    if client == "copilot":
        return {"additionalContext": text}
    if client == "cursor":
        return {"additional_context": text}
    if client == "opencode":
        return {"context": text}
    return {"hookSpecificOutput": {"hookEventName": wire, "additionalContext": text}}
