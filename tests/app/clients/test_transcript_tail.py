"""What transcripts tell, from lines as the clients write them, cut to the fields that count."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.app.clients.record import Json, lines, load_records
from tests.app.clients.records import claude, codex

from scrimshaw.app.clients import CLIENT_NAMES, all_clients
from scrimshaw.app.hooks.record import LONGEST_ANSWER, MOST_ANSWERS, read_last_answers

_CONTEXT = [(client, *case) for client, record in load_records().items() for case in record.context]
_ANSWERS = [(client, *case) for client, record in load_records().items() for case in record.answers]


def _lines(*rows: Json) -> list[str]:
    return [f"{line}\n" for line in lines(*rows).split("\n")]


@pytest.mark.parametrize(("client", "rows", "expected"), _CONTEXT)
def test_context_used(client: str, rows: Sequence[Json], expected: float | None) -> None:
    assert all_clients()[client].read_context_share(['{"usage": cut off here', *_lines(*rows), "\n"]) == expected


@pytest.mark.parametrize(("client", "rows", "expected"), _ANSWERS)
def test_assistant_turns(client: str, rows: Sequence[Json], expected: list[str]) -> None:
    assert read_last_answers(all_clients()[client], _lines(*rows)) == expected


def test_turns_are_bounded() -> None:
    said = read_last_answers(
        all_clients()["claude"], _lines(*(claude.answer(f"{n} " + "x" * 20_000, 9) for n in range(MOST_ANSWERS + 5)))
    )
    assert len(said) == MOST_ANSWERS
    assert said[0].startswith("5 ")
    assert {len(turn) for turn in said} == {LONGEST_ANSWER}


def test_codex_tells_how_a_command_ended() -> None:
    lines = _lines(codex.ending("call_1", 0), codex.ending("call_2", 3), codex.said("assistant", "call_3"))
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
    assert read_last_answers(all_clients()[client], lines) == []


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
    assert all(turn for turn in read_last_answers(all_clients()[client], lines))
    all_clients()[client].read_outcome(lines, "id")
