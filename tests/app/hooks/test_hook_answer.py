"""What a hook prints is what its client reads."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scrimshaw.app.hooks.answer import answer
from scrimshaw.app.hooks.event import EventName
from scrimshaw.app.hooks.parse import CLIENTS

_TEXT = 'Ports: "8443"\nnächster Schritt'


def _hook(name: str) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": _TEXT}}


@pytest.mark.parametrize(
    ("client", "event", "expected"),
    [
        ("claude", "start", _hook("SessionStart")),
        ("claude", "prompt", _hook("UserPromptSubmit")),
        ("claude", "tool", _hook("PostToolUse")),
        ("claude", "PostToolUseFailure", _hook("PostToolUseFailure")),
        ("codex", EventName.PROMPT, _hook("UserPromptSubmit")),
        ("qwen", "SessionStart", _hook("SessionStart")),
        ("gemini", EventName.PROMPT, _hook("BeforeAgent")),
        ("gemini", "tool", _hook("AfterTool")),
        ("copilot", EventName.START, {"additionalContext": _TEXT}),
        ("copilot", "userPromptSubmitted", {"additionalContext": _TEXT}),
        ("cursor", EventName.START, {"additional_context": _TEXT}),
        ("cline", EventName.TOOL, {"cancel": False, "contextModification": _TEXT}),
        ("opencode", EventName.PROMPT, {"context": _TEXT}),
    ],
)
def test_the_answer_has_the_shape_of_the_client(client: str, event: str, expected: dict[str, Any]) -> None:
    printed = answer(client, event, _TEXT)
    assert "\n" not in printed
    assert msgspec.json.decode(printed) == expected


@pytest.mark.parametrize(
    ("client", "event"),
    [("claude", "compact"), ("claude", "end"), ("cursor", "prompt"), ("cline", "start"), ("zed", "start")],
)
def test_no_answer_where_the_client_takes_none(client: str, event: str) -> None:
    assert answer(client, event, _TEXT) == ""


@pytest.mark.parametrize("client", CLIENTS)
def test_nothing_to_say_prints_nothing(client: str) -> None:
    assert all(answer(client, event, "") == "" for event in EventName)
