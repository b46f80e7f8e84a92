"""What a hook prints is what its client reads."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scrimshaw.app.clients import CLIENT_NAMES, all_clients
from scrimshaw.models import EventKind

_TEXT = 'Ports: "8443"\nnächster Schritt'


def _hook(name: str) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": _TEXT}}


@pytest.mark.parametrize(
    ("client", "event", "expected"),
    [
        ("claude", EventKind.START, _hook("SessionStart")),
        ("claude", EventKind.PROMPT, _hook("UserPromptSubmit")),
        ("codex", EventKind.PROMPT, _hook("UserPromptSubmit")),
        ("qwen", EventKind.START, _hook("SessionStart")),
        ("gemini", EventKind.PROMPT, _hook("BeforeAgent")),
        ("copilot", EventKind.START, {"additionalContext": _TEXT}),
        ("copilot", EventKind.PROMPT, {"additionalContext": _TEXT}),
        ("cursor", EventKind.START, {"additional_context": _TEXT}),
        ("opencode", EventKind.PROMPT, {"context": _TEXT}),
    ],
)
def test_the_answer_has_the_shape_of_the_client(client: str, event: EventKind, expected: dict[str, Any]) -> None:
    printed = all_clients()[client].format_reply(event, _TEXT)
    assert "\n" not in printed
    assert msgspec.json.decode(printed) == expected


@pytest.mark.parametrize(
    ("client", "event"),
    [
        ("claude", EventKind.TOOL),
        ("claude", EventKind.COMPACT),
        ("claude", EventKind.END),
        ("cursor", EventKind.PROMPT),
        ("cline", EventKind.START),
    ],
)
def test_no_answer_where_the_client_takes_none(client: str, event: EventKind) -> None:
    assert all_clients()[client].format_reply(event, _TEXT) == ""


@pytest.mark.parametrize("client", CLIENT_NAMES)
def test_nothing_to_say_prints_nothing(client: str) -> None:
    assert all(all_clients()[client].format_reply(event, "") == "" for event in EventKind)
