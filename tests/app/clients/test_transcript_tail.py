"""What transcripts tell, from lines as the clients write them, cut to the fields that count."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.app.clients import CLIENT_NAMES, all_clients
from scrimshaw.app.hooks.record import LONGEST_ANSWER, MOST_ANSWERS, last_answers


def _lines(*rows: Any) -> list[str]:
    return [msgspec.json.encode(row).decode() + "\n" for row in rows]


def _claude(text: str, tokens: int, model: str = "claude-opus-4-6", **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 7, "cache_read_input_tokens": tokens - 10}
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}]
    message = {"model": model, "role": "assistant", "content": content, "usage": usage}
    return {"type": "assistant", "isSidechain": False, "message": message, **fields}


def _codex_tokens(last: int) -> dict[str, Any]:
    info = {"total_token_usage": {"total_tokens": 999_999}, "last_token_usage": {"total_tokens": last}}
    return {"type": "event_msg", "payload": {"type": "token_count", "info": {**info, "model_context_window": 190_000}}}


def _codex_said(role: str, text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text}]
    return {"type": "response_item", "payload": {"type": "message", "role": role, "content": content}}


def _codex_command(call_id: str, code: int) -> dict[str, Any]:
    item = {"type": "CommandExecution", "id": call_id, "status": "completed", "exit_code": code}
    return {"type": "event_msg", "payload": {"type": "item_completed", "item": item}}


def _gemini(text: str, tokens: int, model: str = "gemini-2.5-pro") -> dict[str, Any]:
    return {"id": f"m-{text}", "type": "gemini", "content": text, "tokens": {"total": tokens}, "model": model}


def _qwen(*parts: Any) -> dict[str, Any]:
    return {"type": "assistant", "message": {"role": "model", "parts": list(parts)}, "usageMetadata": {}}


def _copilot_usage(tokens: int, interaction: str = "conversation-agent") -> dict[str, Any]:
    usage = {"inputTokens": tokens, "maxPromptTokens": 128_000, "interactionType": interaction}
    return {"type": "session.usage_record", "data": {"usage": usage}}


_TOOL_CALL = {"id": "m-go", "type": "gemini", "content": "go", "tokens": {"total": 524_288}, "model": "gemini-2.5-pro"}


@pytest.mark.parametrize(
    ("client", "rows", "expected"),
    [
        ("claude", [_claude("a", 20_000), _claude("b", 100_000)], 0.5),
        ("claude", [_claude("a", 100_000), _claude("side", 10, isSidechain=True)], 0.5),
        ("claude", [_claude("a", 100_000, model="claude-opus-4-6[1m]")], 0.1),
        ("claude", [_claude("more than the short window holds", 500_000)], 0.5),
        ("claude", [_claude("a", 190_000), {"type": "system", "subtype": "compact_boundary"}], None),
        ("claude", [{"type": "user", "message": {"content": "hello"}}], None),
        ("codex", [_codex_tokens(19_000), _codex_tokens(95_000)], 0.5),
        ("codex", [_codex_tokens(250_000)], 1.0),
        ("codex", [_codex_tokens(95_000), {"type": "compacted", "payload": {}}], None),
        ("gemini", [_gemini("a", 5), _gemini("go", 524_288), _TOOL_CALL], 0.5),
        ("gemini", [_gemini("a", 5, model="some-other-model")], None),
        ("copilot", [_copilot_usage(32_000), _copilot_usage(9, "conversation-subagent")], 0.25),
        ("copilot", [_copilot_usage(32_000), {"type": "session.compaction_complete", "data": {}}], None),
        ("qwen", [_qwen({"text": "a"})], None),
        ("cline", [{"usage": 1}], None),
    ],
)
def test_context_used(client: str, rows: list[Any], expected: float | None) -> None:
    assert all_clients()[client].read_context_share(['{"usage": cut off here', *_lines(*rows), "\n"]) == expected


@pytest.mark.parametrize(
    ("client", "rows", "expected"),
    [
        ("claude", [_claude("one", 9), _claude("side", 9, isSidechain=True), _claude("two", 9)], ["one", "two"]),
        ("codex", [_codex_said("user", "go"), _codex_said("assistant", "done"), _codex_tokens(9)], ["done"]),
        ("gemini", [_gemini("go", 9), _TOOL_CALL, _gemini("", 9), _gemini("done", 9)], ["go", "done"]),
        ("qwen", [_qwen({"text": "hm", "thought": True}, {"text": "done"}), _qwen({"functionCall": {}})], ["done"]),
        (
            "copilot",
            [
                {"type": "assistant.message", "data": {"content": "done"}},
                {"type": "assistant.message", "data": {"content": "side", "parentToolCallId": "c"}},
            ],
            ["done"],
        ),
        ("opencode", [{"role": "assistant", "text": "done"}], []),
    ],
)
def test_assistant_turns(client: str, rows: list[Any], expected: list[str]) -> None:
    assert last_answers(all_clients()[client], _lines(*rows)) == expected


def test_turns_are_bounded() -> None:
    said = last_answers(
        all_clients()["claude"], _lines(*(_claude(f"{n} " + "x" * 20_000, 9) for n in range(MOST_ANSWERS + 5)))
    )
    assert len(said) == MOST_ANSWERS
    assert said[0].startswith("5 ")
    assert {len(turn) for turn in said} == {LONGEST_ANSWER}


def test_codex_tells_how_a_command_ended() -> None:
    lines = _lines(_codex_command("call_1", 0), _codex_command("call_2", 3), _codex_said("assistant", "call_3"))
    assert [all_clients()["codex"].read_outcome(lines, call) for call in ("call_1", "call_2", "call_3", "")] == [
        False,
        True,
        None,
        None,
    ]
    assert all_clients()["claude"].read_outcome(lines, "call_2") is None


_MARKS = ['"usage"', '"token_count"', '"tokens"', '"assistant"', '"gemini"', '"assistant.message"', "[", "{", "}", "]"]


@given(
    client=st.sampled_from(CLIENT_NAMES),
    lines=st.lists(st.lists(st.sampled_from(_MARKS) | st.text(max_size=9)).map("".join)),
)
def test_any_lines_are_survived(client: str, lines: list[str]) -> None:
    assert all_clients()[client].read_context_share(lines) is None
    assert last_answers(all_clients()[client], lines) == []


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "message", "payload", "data", "info", "usage", "tokens", "content", "parts", "item", "id"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@pytest.mark.slow
@given(
    client=st.sampled_from(CLIENT_NAMES),
    kind=st.sampled_from(["assistant", "gemini", "event_msg", "assistant.message", "session.usage_record"]),
    row=st.dictionaries(st.sampled_from(["message", "payload", "data", "tokens", "content", "usage", "id"]), _JSON),
)
def test_any_types_are_survived(client: str, kind: str, row: dict[str, Any]) -> None:
    lines = _lines({**row, "type": kind, "marks": ["usage", "token_count", "tokens", "assistant", "gemini"]})
    used = all_clients()[client].read_context_share(lines)
    assert used is None or 0.0 <= used <= 1.0
    assert all(turn for turn in last_answers(all_clients()[client], lines))
    all_clients()[client].read_outcome(lines, "id")
