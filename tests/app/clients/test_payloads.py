"""What each client's payloads say, as a table; and that nothing a client sends can break a parser."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.app.clients.record import Case, Json, load_records
from tests.app.clients.records import claude, gemini

from scrimshaw.app.clients import CLIENT_NAMES, all_clients, load_client
from scrimshaw.app.mcp.tools import ALL_TOOLS
from scrimshaw.ingest.events import Event
from scrimshaw.ingest.tool_calls import canonical_tool, is_own_tool
from scrimshaw.models import EventKind

_RECORDS = load_records()
_CASES = [(client, case) for client, record in _RECORDS.items() for case in record.events]


def _parsed(client: str, payload: Json, hint: str = "") -> Event:
    event = all_clients()[client].parse_payload(payload, hint)
    assert event is not None
    return event


@pytest.mark.parametrize(("client", "case"), _CASES, ids=[f"{client} {case.name}" for client, case in _CASES])
def test_a_payload_becomes_the_event_it_reports(client: str, case: Case) -> None:
    event = _parsed(client, case.payload, case.hint)
    assert {key: getattr(event, key) for key in case.event} == case.event
    assert event.client == client
    assert event.call_id


@pytest.mark.parametrize("client", _RECORDS)
def test_what_is_not_used_and_our_own_tools_are_no_events(client: str) -> None:
    for payload, hint in (*_RECORDS[client].unused, *_RECORDS[client].own_calls):
        assert all_clients()[client].parse_payload(payload, hint) is None, payload


def test_every_tool_of_the_server_is_known_as_ours() -> None:
    names = [name for spec in ALL_TOOLS for name in (spec.name, f"mcp__plugin_scrimshaw_scrimshaw__{spec.name}")]
    assert [name for name in names if not is_own_tool(name)] == []


@pytest.mark.parametrize("name", ["mcp__memory__search_nodes", "save_memory", "write_memory", "Bash"])
def test_other_tools_are_not_ours(name: str) -> None:
    assert not is_own_tool(name)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("read_many_files", "Read"),
        ("ask_followup_question", "Ask"),
        ("exit_plan_mode", "Plan"),
        ("task", "Agent"),
        ("invoke_agent", "Agent"),
        ("search_file_content", "Grep"),
        ("list_directory", "Glob"),
        ("run_terminal_cmd", "Bash"),
        ("MultiEdit", "Edit"),
        ("str_replace_editor", "Edit"),
        ("write_to_file", "Write"),
        ("google_web_search", "Web"),
        ("mcp__db__query", "Mcp"),
        ("TodoWrite", "TodoWrite"),
    ],
)
def test_tools_have_one_name(name: str, kind: str) -> None:
    assert canonical_tool(name) == kind


def test_a_report_delivered_twice_has_one_id() -> None:
    for client, case in _CASES:
        again = msgspec.json.decode(msgspec.json.encode(case.payload))
        assert _parsed(client, case.payload, case.hint) == _parsed(client, again, case.hint)


def test_a_command_run_again_later_has_an_id_of_its_own() -> None:
    first = gemini.payload("AfterTool", tool_name="read_file", tool_response={"llmContent": "same"})
    later = {**first, "timestamp": "2026-11-21T20:41:00.000Z"}
    assert _parsed("gemini", first).call_id != _parsed("gemini", later).call_id


@pytest.mark.parametrize("client", [client for client, record in _RECORDS.items() if record.events])
def test_the_same_words_in_another_turn_are_another_prompt(client: str) -> None:
    (payload, hint), more = _RECORDS[client].prompt, _RECORDS[client].next_turn
    first, other = _parsed(client, payload, hint), _parsed(client, {**payload, **more}, hint)
    assert (first.kind, first.prompt) == (other.kind, other.prompt) == (EventKind.PROMPT, "continue")
    assert first.call_id != other.call_id


def test_two_answers_to_one_prompt_have_ids_of_their_own() -> None:
    first, second = (claude.payload("Stop", last_assistant_message=said) for said in ("Done.", "Done again."))
    assert _parsed("claude", first).call_id != _parsed("claude", second).call_id


def test_a_prompt_and_a_stop_of_one_turn_have_ids_of_their_own() -> None:
    prompt = _parsed("claude", claude.payload("UserPromptSubmit", prompt="go"))
    assert prompt.call_id != _parsed("claude", claude.payload("Stop")).call_id


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)
_SENT = [(case.payload, case.hint) for _, case in _CASES]
_EVENT_NAMES = sorted(
    {str(each.get("hook_event_name") or each.get("event") or hint) for each, hint in _SENT} | {"postToolUseFailure"}
)
_KEYS = sorted({key for each, _ in _SENT for key in each} | {"error", "llm_request", "tool_response", "agentName"})


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    client=st.sampled_from(CLIENT_NAMES),
    payload=st.dictionaries(st.sampled_from(_KEYS), _JSON),
    name=st.sampled_from(_EVENT_NAMES),
)
def test_any_types_are_survived(client: str, payload: Json, name: str) -> None:
    event = all_clients()[client].parse_payload({**payload, "hook_event_name": name, "event": name}, name)
    assert event is None or (event.session and event.call_id)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(sent=st.sampled_from(_CASES), data=st.data())
def test_a_broken_field_is_survived(sent: tuple[str, Case], data: st.DataObject) -> None:
    client, case = sent
    key = data.draw(st.sampled_from(sorted(case.payload)))
    all_clients()[client].parse_payload({**case.payload, key: data.draw(_JSON)}, case.hint)


@pytest.mark.slow
@given(
    client=st.sampled_from(CLIENT_NAMES),
    payload=st.dictionaries(st.text(max_size=12), _JSON),
    hint=st.text(max_size=12),
)
def test_any_object_is_survived(client: str, payload: Json, hint: str) -> None:
    all_clients()[client].parse_payload(payload, hint)


def test_an_unknown_client_has_no_parser() -> None:
    assert load_client("zed") is None
