"""Transcripts as five clients write them, cut to the fields that count."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.app.clients import all_clients
from scrimshaw.ingest.events import Transcript, parse_time
from scrimshaw.models import EventKind

Row = dict[str, Any]
NOON = "2026-03-01T12:00:00.000Z"
AT = 1772366400.0


def lines(*rows: Any) -> str:
    return "\n".join(row if isinstance(row, str) else msgspec.json.encode(row).decode() for row in rows)


def told(transcript: Transcript) -> list[tuple[str, str]]:
    """Kind and text of each event; for a call its tool and output."""
    return [
        (event.kind.value, f"{event.tool}: {event.output}" if event.tool else (event.prompt or event.output))
        for event in transcript.events
    ]


def only_call(transcript: Transcript) -> tuple[Any, ...]:
    """Tool, the client's name, arguments, output, failed, id and time of the one call."""
    (call,) = [event for event in transcript.events if event.tool]
    return call.tool, call.tool_name, dict(call.arguments), call.output, call.failed, call.call_id, call.at


# Codex


def codex(kind: str, **payload: Any) -> Row:
    return {"timestamp": NOON, "type": kind, "payload": payload}


def codex_said(role: str, text: str) -> Row:
    return codex("response_item", type="message", role=role, content=[{"type": "output_text", "text": text}])


def codex_call(call_id: str, name: str, arguments: str, **fields: Any) -> Row:
    return codex("response_item", type="function_call", call_id=call_id, name=name, arguments=arguments, **fields)


def codex_output(call_id: str, output: Any) -> Row:
    return codex("response_item", type="function_call_output", call_id=call_id, output=output)


META = codex("session_meta", id="c-1", cwd="/home/ann/shop", source="cli")


def test_codex_a_session_from_prompt_to_answer() -> None:
    head = "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 3\nOriginal token count: 2\nOutput:\n"
    source = lines(
        META,
        codex_said("user", "# AGENTS.md instructions for /home/ann/shop"),
        codex_said("user", "<environment_context><cwd>/home/ann/shop</cwd></environment_context>"),
        codex_said("developer", "be brief"),
        codex_said("user", "Fix the till."),
        codex("event_msg", type="user_message", message="Fix the till."),
        codex_call("k-1", "exec_command", '{"cmd": "make test"}'),
        codex_output("k-1", head + "boom"),
        codex("compacted", message="what was so far", replacement_history=[]),
        codex_said("assistant", "Done."),
    )
    transcript = all_clients()["codex"].parse_transcript(source)
    assert (transcript.session, transcript.client, transcript.cwd) == ("c-1", "codex", "/home/ann/shop")
    assert told(transcript) == [
        ("prompt", "Fix the till."),
        ("tool", "Bash: boom"),
        ("compact", "what was so far"),
        ("answer", "Done."),
    ]
    assert only_call(transcript) == ("Bash", "exec_command", {"cmd": "make test"}, "boom", True, "k-1", AT)


@pytest.mark.parametrize(
    ("output", "more", "failed"),
    [
        ('{"output": "ok", "metadata": {"exit_code": 0}}', [], False),
        ('{"output": "no", "metadata": {"exit_code": 1}}', [], True),
        ("quiet", [codex("event_msg", type="exec_command_end", call_id="k-1", exit_code=1)], True),
        (
            "quiet",
            [codex("event_msg", type="item_completed", item={"type": "CommandExecution", "id": "k-1", "exit_code": 0})],
            False,
        ),
        ([{"type": "input_text", "text": "make: *** [all] Error 2"}], [], True),
        ("quiet", [], None),
    ],
)
def test_codex_how_a_command_ended(output: Any, more: list[Row], failed: bool | None) -> None:
    source = lines(
        META, codex_call("k-1", "shell", '{"command": ["bash", "-lc", "x"]}'), codex_output("k-1", output), *more
    )
    assert only_call(all_clients()["codex"].parse_transcript(source))[4] is failed


def test_codex_a_patch_and_a_tool_of_a_server() -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n+x\n*** End Patch"
    source = lines(
        META,
        codex("response_item", type="custom_tool_call", call_id="k-1", name="apply_patch", input=patch),
        codex("event_msg", type="patch_apply_end", call_id="k-1", success=False),
        codex("response_item", type="custom_tool_call_output", call_id="k-1", output="no such line"),
        codex_call("k-2", "lookup", "{}", namespace="mcp__shop"),
        codex_output("k-2", "42"),
        codex_call("k-3", "memory_search", "{}", namespace="mcp__scrimshaw"),
        codex_output("k-3", "ours"),
    )
    first, second = all_clients()["codex"].parse_transcript(source).events
    assert (first.tool, dict(first.arguments), first.failed) == ("Edit", {"patch": patch}, True)
    assert (second.tool, second.output) == ("Mcp", "42")


def test_codex_a_sub_agent_counts_to_the_session_that_started_it() -> None:
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": "c-1", "depth": 1}}}
    transcript = all_clients()["codex"].parse_transcript(
        lines(codex("session_meta", id="c-2", source=spawned), codex_said("assistant", "x"))
    )
    assert (transcript.session, [event.agent for event in transcript.events]) == ("c-1", ["c-2"])


# Gemini


def gemini(kind: str, name: str, content: Any = "", **fields: Any) -> Row:
    return {"id": name, "timestamp": NOON, "type": kind, "content": content, **fields}


def gemini_call(status: str, output: str, **fields: Any) -> Row:
    result = [{"functionResponse": {"id": "g-1", "response": {"output": output}}}]
    return {
        "id": "g-1",
        "name": "run_shell_command",
        "args": {"command": "make test"},
        "status": status,
        "result": result,
        "timestamp": NOON,
        **fields,
    }


GEMINI_META = {"sessionId": "g-s", "projectHash": "ab" * 32, "startTime": NOON, "kind": "main"}


def test_gemini_messages_are_read_as_they_stand_at_the_end() -> None:
    report = "Command: make test\nDirectory: (root)\nOutput: boom\nError: (none)\nExit Code: 2\nSignal: 0"
    source = lines(
        GEMINI_META,
        gemini("user", "m-1", [{"text": "<session_context>tree</session_context>"}]),
        gemini("user", "m-2", [{"text": "<hook_context>x</hook_context>\nFix the till."}]),
        gemini("gemini", "m-3", "", toolCalls=[gemini_call("executing", "")]),
        gemini("gemini", "m-3", "I test.", toolCalls=[gemini_call("success", report)]),
        gemini("info", "m-4", "Request cancelled."),
        {"$set": {"lastUpdated": NOON}},
        gemini("gemini", "m-5", "taken back"),
        {"$rewindTo": "m-5"},
        gemini("gemini", "m-6", "Done."),
    )
    transcript = all_clients()["gemini"].parse_transcript(source)
    assert (transcript.session, transcript.cwd) == ("g-s", "")
    assert told(transcript) == [
        ("prompt", "Fix the till."),
        ("answer", "I test."),
        ("tool", "Bash: boom"),
        ("answer", "Done."),
    ]
    assert only_call(transcript)[4:] == (True, "g-1", AT)


def test_gemini_a_checkpoint_replaces_all_messages() -> None:
    source = lines(GEMINI_META, gemini("user", "m-1", "old"), {"$set": {"messages": [gemini("user", "m-9", "new")]}})
    assert told(all_clients()["gemini"].parse_transcript(source)) == [("prompt", "new")]


@pytest.mark.parametrize(
    ("status", "ending"),
    [("success", [False]), ("error", [True]), ("cancelled", [])],
)
def test_gemini_older_files_are_one_object(status: str, ending: list[bool]) -> None:
    call = gemini_call(status, "<untrusted_context>\nOutput: x\n</untrusted_context>")
    source = msgspec.json.encode({**GEMINI_META, "messages": [gemini("gemini", "m", toolCalls=[call])]}).decode()
    assert [event.failed for event in all_clients()["gemini"].parse_transcript(source).events if event.tool] == ending


# Copilot


def copilot(kind: str, **data: Any) -> Row:
    return {"type": kind, "data": data, "timestamp": NOON, "id": "e"}


def test_copilot_a_session_from_prompt_to_answer() -> None:
    shell = "boom\n<shellId: 0 completed with exit code 2>"
    source = lines(
        copilot("session.start", sessionId="p-1", context={"cwd": "/home/ann/shop"}),
        copilot("user.message", content="Fix the till.", transformedContent="with context"),
        copilot(
            "assistant.message",
            content="I test.",
            toolRequests=[{"toolCallId": "q-1", "name": "bash", "arguments": '{"command": "make test"}'}],
        ),
        copilot("tool.execution_start", toolCallId="q-1", toolName="bash", arguments={"command": "make test"}),
        copilot("tool.execution_complete", toolCallId="q-1", success=True, result={"content": shell}),
        copilot("tool.execution_start", toolCallId="q-2", toolName="edit", arguments={}),
        copilot("tool.execution_complete", toolCallId="q-2", success=False, error={"code": "denied"}),
        copilot("session.compaction_complete", summaryContent="so far"),
        copilot("assistant.message", content="Looked.", parentToolCallId="q-9"),
    )
    transcript = all_clients()["copilot"].parse_transcript(source)
    assert (transcript.session, transcript.cwd) == ("p-1", "/home/ann/shop")
    assert told(transcript) == [
        ("prompt", "Fix the till."),
        ("answer", "I test."),
        ("tool", "Bash: boom"),
        ("compact", "so far"),
        ("answer", "Looked."),
    ]
    assert only_call(transcript) == ("Bash", "bash", {"command": "make test"}, "boom", True, "q-1", AT)
    assert transcript.events[-1].agent == "q-9"


# OpenCode


def opencode(role: str, *parts: Row, **info: Any) -> Row:
    return {"info": {"role": role, "time": {"created": AT * 1000}, **info}, "parts": list(parts)}


def opencode_call(status: str = "completed", **state: Any) -> Row:
    time = {"start": AT * 1000, "end": (AT + 1) * 1000}
    told = {"status": status, "input": {"command": "make test"}, "time": time, **state}
    return {"type": "tool", "callID": "o-1", "tool": "bash", "state": told}


def opencode_session(*messages: Row, **info: Any) -> str:
    about = {"id": "ses_1", "directory": "/home/ann/shop", **info}
    return msgspec.json.encode({"info": about, "messages": list(messages)}).decode()


def test_opencode_a_session_from_prompt_to_answer() -> None:
    source = opencode_session(
        opencode("user", {"type": "text", "text": "Fix the till."}, {"type": "text", "text": "x", "synthetic": True}),
        opencode(
            "assistant",
            {"type": "reasoning", "text": "hm"},
            opencode_call(output="boom", metadata={"exit": 2}),
            {"type": "text", "text": "Done."},
        ),
        opencode("assistant", {"type": "text", "text": "so far"}, summary=True),
    )
    transcript = all_clients()["opencode"].parse_transcript(source)
    assert (transcript.session, transcript.cwd) == ("ses_1", "/home/ann/shop")
    assert told(transcript) == [
        ("prompt", "Fix the till."),
        ("tool", "Bash: boom"),
        ("answer", "Done."),
        ("compact", "so far"),
    ]
    assert only_call(transcript) == ("Bash", "bash", {"command": "make test"}, "boom", True, "o-1", AT + 1)


@pytest.mark.parametrize(
    ("call", "ending"),
    [
        (opencode_call("error", error="no such file"), [("no such file", True)]),
        (opencode_call("error", error="The user rejected permission to use this tool"), []),
        (opencode_call("running"), []),
        (opencode_call(output="ok", metadata={"exit": 0}), [("ok", False)]),
    ],
)
def test_opencode_how_a_call_ended(call: Row, ending: list[tuple[str, bool]]) -> None:
    events = all_clients()["opencode"].parse_transcript(opencode_session(opencode("assistant", call))).events
    assert [(event.output, event.failed) for event in events if event] == ending


def test_opencode_a_sub_agent_counts_to_the_session_that_started_it() -> None:
    source = opencode_session(opencode("user", {"type": "text", "text": "look"}), id="ses_2", parentID="ses_1")
    transcript = all_clients()["opencode"].parse_transcript(source)
    assert (transcript.session, [event.agent for event in transcript.events]) == ("ses_1", ["ses_2"])


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (NOON, AT),
        ("2026-03-01T13:00:00+01:00", AT),
        ("2026-03-01 12:00:00", AT),
        (AT, AT),
        (AT * 1000, AT),
        (-1, 0.0),
        ("0001-01-01T00:00:00+14:00", 0.0),
        ("2026-03-99T12:00:00Z", 0.0),
        (None, 0.0),
        (True, 0.0),
    ],
)
def test_times_of_every_spelling_are_read(value: object, seconds: float) -> None:
    assert parse_time(value) == seconds


# Whatever stands in a file

_KEY_NAMES = """
type role message content text timestamp sessionId cwd id payload data item info parts messages toolCalls result
toolUseResult tool_use_id call_id output arguments input state metadata exit_code status error name toolCallId isMeta
isSidechain agentId attachment operation $set $rewindTo source subagent namespace summary time start created
"""
_WORD_NAMES = """
user assistant system tool_use tool_result response_item message function_call function_call_output tool text
session_meta compacted gemini user.message tool.execution_start tool.execution_complete queue-operation enqueue remove
attachment queued_command completed error 2026-03-01T12:00:00Z
"""
_KEYS, _WORDS = _KEY_NAMES.split(), _WORD_NAMES.split()
_LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
_VALUES = st.recursive(
    _LEAVES | st.sampled_from(_WORDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_KEYS), inner, max_size=6),
    max_leaves=25,
)
_ROWS = st.lists(st.dictionaries(st.sampled_from(_KEYS), _VALUES, max_size=8), max_size=6)


def _encoded(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeError, OverflowError):
        return "{}"


@pytest.mark.slow
@pytest.mark.parametrize("client", [name for name, client in all_clients().items() if client.keeps_transcripts])
@given(source=st.text() | _ROWS.map(lambda rows: "\n".join(map(_encoded, rows))) | _VALUES.map(_encoded))
def test_no_text_is_an_error(client: str, source: str) -> None:
    transcript = all_clients()[client].parse_transcript(source)
    assert all(event.at >= 0 for event in transcript.events)
    assert all(bool(event.tool_name) == (event.kind is EventKind.TOOL) for event in transcript.events)
