"""What transcripts say, from rows as the clients write them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.app.clients.record import Json, lines, load_records
from tests.app.clients.records import codex, copilot, gemini, opencode
from tests.app.clients.words import AT, NOON

from scrimshaw.app.clients import all_clients
from scrimshaw.ingest.events import Transcript, parse_epoch
from scrimshaw.models import EventKind

_RECORDS = load_records()
_KEPT = [name for name, record in _RECORDS.items() if record.transcript]


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


@pytest.mark.parametrize("client", _KEPT)
def test_a_session_from_prompt_to_answer(client: str) -> None:
    expected = _RECORDS[client].transcript
    assert expected
    transcript = all_clients()[client].parse_transcript(expected.source)
    assert (transcript.session, transcript.client, transcript.cwd) == (expected.session, client, expected.cwd)
    assert transcript.skipped == expected.skipped
    assert told(transcript) == expected.told
    assert only_call(transcript) == expected.call
    assert transcript.events[-1].agent == expected.last_agent


@pytest.mark.parametrize(
    ("output", "more", "failed"),
    [
        ('{"output": "ok", "metadata": {"exit_code": 0}}', [], False),
        ('{"output": "no", "metadata": {"exit_code": 1}}', [], True),
        ("quiet", [codex.row("event_msg", type="exec_command_end", call_id="k-1", exit_code=1)], True),
        (
            "quiet",
            [codex.ending("k-1", 0)],
            False,
        ),
        ([{"type": "input_text", "text": "make: *** [all] Error 2"}], [], True),
        ("quiet", [], None),
    ],
)
def test_codex_how_a_command_ended(output: Any, more: list[Json], failed: bool | None) -> None:
    source = lines(
        codex.META, codex.call("k-1", "shell", '{"command": ["bash", "-lc", "x"]}'), codex.output("k-1", output), *more
    )
    assert only_call(all_clients()["codex"].parse_transcript(source))[4] is failed


def test_codex_a_patch_and_a_tool_of_a_server() -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n+x\n*** End Patch"
    source = lines(
        codex.META,
        codex.row("response_item", type="custom_tool_call", call_id="k-1", name="apply_patch", input=patch),
        codex.row("event_msg", type="patch_apply_end", call_id="k-1", success=False),
        codex.row("response_item", type="custom_tool_call_output", call_id="k-1", output="no such line"),
        codex.call("k-2", "lookup", "{}", namespace="mcp__shop"),
        codex.output("k-2", "42"),
        codex.call("k-3", "memory_search", "{}", namespace="mcp__scrimshaw"),
        codex.output("k-3", "ours"),
    )
    first, second = all_clients()["codex"].parse_transcript(source).events
    assert (first.tool, dict(first.arguments), first.failed) == ("Edit", {"input": patch}, True)
    assert (second.tool, second.output) == ("Mcp", "42")


def test_codex_the_calls_of_a_script_stand_for_it() -> None:
    ran = {"type": "CommandExecution", "id": "exec-1", "command": ["bash", "-lc", "make"], "aggregated_output": "red"}
    files = {
        "a.py": {"type": "update", "unified_diff": "@@ -1 +1 @@\n-x\n+y\n"},
        "b.py": {"type": "add", "content": "z\n"},
    }
    source = lines(
        codex.META,
        codex.row("response_item", type="custom_tool_call", call_id="k-1", name="exec", input="await tools.x()"),
        codex.row("event_msg", type="item_completed", item={**ran, "status": "failed", "exit_code": 2}),
        codex.row("event_msg", type="item_completed", item={"type": "FileChange", "id": "exec-2", "changes": files}),
        codex.row("response_item", type="custom_tool_call_output", call_id="k-1", output="Script completed"),
        codex.call("k-2", "exec_command", '{"cmd": "rm a.py"}'),
        codex.output("k-2", 'exec_command failed: Rejected("rejected by user")'),
    )
    events = all_clients()["codex"].parse_transcript(source).events
    assert [(each.tool, each.failed, *each.arguments.values()) for each in events] == [
        ("Bash", True, "make"),
        ("Edit", False, "*** Update File: a.py\n@@ -1 +1 @@\n-x\n+y\n"),
        ("Edit", False, "*** Add File: b.py\n+z\n"),
    ]


def test_codex_a_sub_agent_counts_to_the_session_that_started_it() -> None:
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": "c-1", "depth": 1}}}
    transcript = all_clients()["codex"].parse_transcript(
        lines(codex.row("session_meta", id="c-2", source=spawned), codex.said("assistant", "x"))
    )
    assert (transcript.session, [event.agent for event in transcript.events]) == ("c-1", ["c-2"])


def test_gemini_says_what_it_did_through_a_tool() -> None:
    topics = [{"summary": "It never expires.", "strategic_intent": "Test it."}, {"strategic_intent": "Mend it."}]
    calls = [
        gemini.call("success", "ok", name="update_topic", id=f"g-{number}", args=each)
        for number, each in enumerate(topics)
    ]
    found = all_clients()["gemini"].parse_transcript(lines(gemini.META, gemini.row("gemini", "m", toolCalls=calls)))
    assert told(found) == [("answer", "It never expires."), ("tool", "update_topic: ok"), ("tool", "update_topic: ok")]


def test_gemini_what_happened_before_a_compaction_is_kept() -> None:
    call = gemini.row("gemini", "m-2", "Done.", toolCalls=[gemini.call("success", "ok")])
    summary, repeated = gemini.row("user", "m-8", "so far"), gemini.row("gemini", "m-9", [{"text": "Got it."}])
    source = lines(
        gemini.META,
        {"$set": {"messages": [gemini.row("user", "m-0", "<session_context>tree</session_context>")]}},
        gemini.row("user", "m-1", "Fix it."),
        call,
        {"$set": {"messages": [summary, repeated]}},
        gemini.row("user", "m-10", "Go on."),
        {"$set": {"messages": [summary, gemini.row("user", "m-2"), gemini.row("user", "m-10", "Go on.")]}},
    )
    assert told(all_clients()["gemini"].parse_transcript(source)) == [
        ("prompt", "Fix it."),
        ("answer", "Done."),
        ("tool", "Bash: ok"),
        ("compact", "so far"),
        ("prompt", "Go on."),
    ]


def test_gemini_what_a_person_typed_ran_and_said_about_a_plan() -> None:
    shell = (
        "I ran the following shell command:\n```sh\necho \\`x\n```\n\nThis produced the following result:\n```\n{}\n```"
    )
    rejected = "Plan rejected. User feedback: Tests first.\n\nThe plan is stored at: /p/plan.md\nRevise it."
    source = lines(
        gemini.META,
        gemini.row(
            "user", "m-1", [{"text": "See @a.txt"}, {"text": "its text"}], displayContent=[{"text": "See @a.txt"}]
        ),
        gemini.row("user", "m-2", [{"text": "<session_context>tree</session_context>"}, {"text": "See @a.txt"}]),
        gemini.row("user", "m-3", shell.format("Command exited with code 4.\nboom")),
        gemini.row("user", "m-4", shell.format("fine")),
        gemini.row("user", "m-6", "[System: You successfully executed a tool but returned an empty response.]"),
        gemini.row("user", "m-7", "This is the Gemini CLI. We are setting up the context for our chat."),
        gemini.row("gemini", "m-5", "", toolCalls=[gemini.call("success", rejected, name="exit_plan_mode", args={})]),
    )
    transcript = all_clients()["gemini"].parse_transcript(source)
    assert told(transcript) == [
        ("prompt", "See @a.txt"),
        ("tool", "Bash: Command exited with code 4.\nboom"),
        ("tool", "Bash: fine"),
        ("tool", f"Plan: {rejected}"),
        ("prompt", "Tests first."),
    ]
    assert [(event.arguments, event.failed) for event in transcript.events[1:3]] == [
        ({"command": "echo `x"}, True),
        ({"command": "echo `x"}, False),
    ]


@pytest.mark.parametrize(
    ("status", "ending"),
    [("success", [False]), ("error", [True]), ("cancelled", [])],
)
def test_gemini_older_files_are_one_object(status: str, ending: list[bool]) -> None:
    call = gemini.call(status, "<untrusted_context>\nOutput: x\n</untrusted_context>")
    source = msgspec.json.encode({**gemini.META, "messages": [gemini.row("gemini", "m", toolCalls=[call])]}).decode()
    assert [event.failed for event in all_clients()["gemini"].parse_transcript(source).events if event.tool] == ending


@pytest.mark.parametrize(
    ("call", "ending"),
    [
        (opencode.call("error", error="no such file"), [("no such file", True)]),
        (opencode.call("error", error="The user rejected permission to use this tool"), []),
        (opencode.call("error", error="The user dismissed this question"), []),
        (opencode.call("error", error="The user has specified a rule which prevents you from using this"), []),
        (opencode.call("error", error="aborted", metadata={"interrupted": True}), [("aborted", None)]),
        (opencode.call("running"), []),
        (opencode.call(output="ok", metadata={"exit": 0}), [("ok", False)]),
        (opencode.call(output="(no output)", metadata={"exit": 1}), [("", True)]),
        (opencode.call(output="cut short", metadata={"exit": None}), [("cut short", None)]),
        (opencode.call(output="a person's own"), [("a person's own", None)]),
        ({**opencode.call(output="no such tool"), "tool": "invalid"}, [("no such tool", True)]),
        ({**opencode.call(output="<f>1: x</f>", metadata={"display": {"text": "x"}}), "tool": "read"}, [("x", False)]),
    ],
)
def test_opencode_how_a_call_ended(call: Json, ending: list[tuple[str, bool]]) -> None:
    events = all_clients()["opencode"].parse_transcript(opencode.session(opencode.message("assistant", call))).events
    assert [(event.output, event.failed) for event in events if event] == ending


def test_opencode_keeps_what_a_person_said_about_a_refused_call() -> None:
    error = "The user rejected permission to use this specific tool call with the following feedback: Use trash."
    source = opencode.session(opencode.message("assistant", opencode.call("error", error=error)))
    assert told(all_clients()["opencode"].parse_transcript(source)) == [("prompt", "Use trash.")]


def test_opencode_a_sub_agent_counts_to_the_session_that_started_it() -> None:
    source = opencode.session(opencode.message("user", {"type": "text", "text": "look"}), id="ses_2", parentID="ses_1")
    transcript = all_clients()["opencode"].parse_transcript(source)
    assert (transcript.session, [event.agent for event in transcript.events]) == ("ses_1", ["ses_2"])


def test_copilot_tells_what_a_person_asked_from_what_its_agents_and_the_client_did() -> None:
    asked = copilot.row("user.message", content="Fix it.", parentAgentTaskId="t-1")
    source = lines(
        asked,
        {**copilot.row("user.message", content="Look.", source="agent-p-1"), "agentId": "a-1"},
        {**copilot.row("assistant.message", content="Looked."), "agentId": "a-1"},
        copilot.row("user.message", content="How to read a PDF", source="skill-pdf"),
        copilot.row("user.message", content="Go on.", isAutopilotContinuation=True),
        copilot.row("user.message", content="Review it.", source="command-review"),
        copilot.row("session.compaction_complete", success=False),
    )
    events = all_clients()["copilot"].parse_transcript(source).events
    assert [(event.prompt or event.output, event.agent) for event in events] == [
        ("Fix it.", ""),
        ("Looked.", "a-1"),
        ("Review it.", ""),
    ]
    assert all_clients()["copilot"].begins_turn(lines(asked))


def test_copilot_keeps_a_persons_command_and_words_about_a_refused_call() -> None:
    refusal = {"code": "denied", "message": "The user rejected this tool call. User feedback: Use trash."}
    source = lines(
        copilot.row("tool.user_requested", toolCallId="q-1", toolName="local_shell", arguments={"command": "make"}),
        copilot.row("tool.execution_complete", toolCallId="q-1", success=False, error={"message": "red"}),
        copilot.row("tool.execution_start", toolCallId="q-2", toolName="bash", arguments={"command": "rm -r x"}),
        copilot.row("tool.execution_complete", toolCallId="q-2", success=False, error=refusal),
        copilot.row("tool.execution_complete", toolCallId="q-9", success=False, error=refusal),
    )
    transcript = all_clients()["copilot"].parse_transcript(source)
    assert told(transcript) == [("tool", "Bash: red"), ("prompt", "Use trash.")]
    assert transcript.events[0].failed


def test_copilot_a_patch_is_plain_text() -> None:
    patch = "*** Begin Patch\n*** Update File: a.py\n+x\n*** End Patch"
    source = lines(
        copilot.row("tool.execution_start", toolCallId="q-1", toolName="apply_patch", arguments=patch),
        copilot.row("tool.execution_complete", toolCallId="q-1", success=True, result={"content": "ok"}),
    )
    assert only_call(all_clients()["copilot"].parse_transcript(source))[2] == {"input": patch}


def test_copilot_a_command_in_the_background_ends_with_what_is_read_of_it() -> None:
    def ran(tool: str, arguments: Json, output: str) -> list[Json]:
        begun = copilot.row("tool.execution_start", toolCallId="q", toolName=tool, arguments=arguments)
        return [begun, copilot.row("tool.execution_complete", toolCallId="q", success=True, result={"content": output})]

    run, read, runs = {"command": "make test"}, {"shellId": "0"}, "<command with shellId: 0 is still running. Wait.>"
    source = lines(
        *ran("bash", run, f"begun\n{runs}"),
        *ran("read_bash", read, f"begun\n{runs}"),
        *ran("read_bash", read, "red\n<shellId: 0 completed with exit code 2>"),
        *ran("read_bash", read, "\n<shellId: 0 completed with exit code 2>"),
    )
    events = all_clients()["copilot"].parse_transcript(source).events
    assert [(event.tool_name, event.arguments, event.output, event.failed) for event in events] == [
        ("bash", run, "begun", None),
        ("read_bash", read, "begun", None),
        ("bash", run, "red", True),
        ("read_bash", read, "", True),
    ]


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
    assert parse_epoch(value) == seconds


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
@pytest.mark.parametrize("client", _KEPT)
@given(source=st.text() | _ROWS.map(lambda rows: "\n".join(map(_encoded, rows))) | _VALUES.map(_encoded))
def test_no_text_is_an_error(client: str, source: str) -> None:
    transcript = all_clients()[client].parse_transcript(source)
    assert all(event.at >= 0 for event in transcript.events)
    assert all(bool(event.tool_name) == (event.kind is EventKind.TOOL) for event in transcript.events)
