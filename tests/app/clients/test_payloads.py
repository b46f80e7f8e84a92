"""What each client's payloads say, as a table; and that nothing a client sends can break a parser."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.app.clients import payloads
from tests.app.clients.payloads import COMMIT, DONE, ENDS_WITH_3, Payload

from scrimshaw.app.clients import CLIENT_NAMES, all_clients, load_client
from scrimshaw.app.mcp.tools import ALL_TOOLS
from scrimshaw.ingest.events import Event
from scrimshaw.ingest.tool_calls import canonical_tool, is_own_tool

_MCP_TEXT = [{"type": "text", "text": "two hits"}]
_QWEN_REPORT = (
    "Command: {command}\nDirectory: (root)\nOutput: to-stdout\nto-stderr\nError: (none)\nExit Code: {code}\n"
    "Signal: (none)\nProcess Group PGID: (none)"
)
_CLINE_SHELL: Payload = {
    "tool_result": {
        "id": "call_c246",
        "name": "run_commands",
        "input": {"commands": ["cd src", "cat notes.txt"]},
        "output": [{"query": "cat notes.txt", "result": "deploy port is 8443\n", "success": True}],
    },
    "postToolUse": {"toolName": "run_commands", "parameters": {}, "success": True, "executionTimeMs": 74},
}
_PATCH = "*** Begin Patch\n*** Update File: notes.txt\n@@\n-a\n+b\n*** End Patch"

# (case, client, hint, payload, what the event must say)
_TABLE: list[tuple[str, str, str, Payload, dict[str, Any]]] = [
    (
        "claude start",
        "claude",
        "",
        payloads.claude("SessionStart", source="startup", model="claude-sonnet-4-5"),
        {"kind": "start", "occasion": "startup", "session": "0e24cf7b"},
    ),
    (
        "claude resume tells the context",
        "claude",
        "",
        payloads.claude("SessionStart", source="resume", context_tokens=32619),
        {"kind": "start", "occasion": "resume", "context_used": 0.163095},
    ),
    (
        "claude prompt",
        "claude",
        "",
        payloads.claude("UserPromptSubmit", prompt="do it"),
        {"kind": "prompt", "prompt": "do it", "cwd": "/home/dev/project"},
    ),
    (
        "claude bash",
        "claude",
        "",
        payloads.claude(
            "PostToolUse",
            tool_name="Bash",
            tool_input={"command": COMMIT},
            tool_response={"stdout": "261abd5 scripted commit", "stderr": "hint", "interrupted": False},
            tool_use_id="toolu_d195",
            duration_ms=215,
        ),
        {
            "kind": "tool",
            "tool": "Bash",
            "arguments": {"command": COMMIT},
            "output": "261abd5 scripted commit\nhint",
            "failed": False,
            "call_id": "toolu_d195",
        },
    ),
    (
        "claude read",
        "claude",
        "",
        payloads.claude(
            "PostToolUse",
            tool_name="Read",
            tool_input={"file_path": "/p/notes.txt"},
            tool_response={"type": "text", "file": {"filePath": "/p/notes.txt", "content": "deploy port\n"}},
        ),
        {"tool": "Read", "output": "deploy port\n", "failed": False},
    ),
    (
        "claude failure",
        "claude",
        "",
        payloads.claude(
            "PostToolUseFailure",
            tool_name="Bash",
            tool_input={"command": ENDS_WITH_3},
            error="Exit code 3\nto-stdout\nto-stderr",
            is_interrupt=False,
        ),
        {"tool": "Bash", "failed": True, "output": "Exit code 3\nto-stdout\nto-stderr"},
    ),
    (
        "claude stopped by the user",
        "claude",
        "",
        payloads.claude("PostToolUseFailure", tool_name="Bash", error="", is_interrupt=True),
        {"failed": None},
    ),
    (
        "claude tool of another server",
        "claude",
        "",
        payloads.claude("PostToolUse", tool_name="mcp__memory__search_nodes", tool_response=_MCP_TEXT),
        {"tool": "Mcp", "tool_name": "mcp__memory__search_nodes", "output": "two hits"},
    ),
    (
        "claude sub-agent's call",
        "claude",
        "",
        payloads.claude("PostToolUse", tool_name="Grep", agent_id="acff", agent_type="Explore"),
        {"tool": "Grep", "agent": "acff"},
    ),
    (
        "claude sub-agent's stop",
        "claude",
        "",
        payloads.claude("SubagentStop", agent_id="acff", last_assistant_message=DONE),
        {"kind": "stop", "agent": "acff", "output": DONE},
    ),
    (
        "claude main agent of a type of its own",
        "claude",
        "",
        payloads.claude("Stop", agent_type="reviewer", last_assistant_message=DONE),
        {"kind": "stop", "agent": "", "output": DONE},
    ),
    (
        "claude before compaction",
        "claude",
        "",
        payloads.claude("PreCompact", trigger="manual", custom_instructions="keep ports"),
        {"kind": "compact", "occasion": "manual", "output": ""},
    ),
    (
        "claude after compaction",
        "claude",
        "",
        payloads.claude("PostCompact", trigger="auto", compact_summary="ports kept"),
        {"kind": "compact", "occasion": "auto", "output": "ports kept"},
    ),
    ("claude end", "claude", "", payloads.claude("SessionEnd", reason="other"), {"kind": "end", "occasion": "other"}),
    (
        "codex start",
        "codex",
        "",
        payloads.codex("SessionStart", source="compact"),
        {"kind": "start", "occasion": "compact"},
    ),
    (
        "codex quiet command",
        "codex",
        "",
        payloads.codex("PostToolUse", tool_name="Bash", tool_response="to-stdout\n", tool_use_id="call_c17c"),
        {"tool": "Bash", "output": "to-stdout\n", "failed": None, "call_id": "call_c17c"},
    ),
    (
        "codex command that complains",
        "codex",
        "",
        payloads.codex("PostToolUse", tool_name="Bash", tool_response="cat: x.txt: No such file or directory\n"),
        {"failed": True},
    ),
    (
        "codex patch",
        "codex",
        "",
        payloads.codex("PostToolUse", tool_name="apply_patch", tool_input={"command": _PATCH}, tool_response="Done"),
        {"tool": "Edit", "arguments": {"patch": _PATCH}, "output": "Done", "failed": None},
    ),
    (
        "codex stop",
        "codex",
        "",
        payloads.codex("Stop", last_assistant_message=DONE),
        {"kind": "stop", "output": DONE},
    ),
    (
        "codex compaction",
        "codex",
        "",
        payloads.codex("PreCompact", trigger="auto"),
        {"kind": "compact", "occasion": "auto"},
    ),
    (
        "gemini prompt without what was injected before it",
        "gemini",
        "",
        payloads.gemini("BeforeAgent", prompt="<hook_context>earlier\nnotes</hook_context>\n\ndo it"),
        {"kind": "prompt", "prompt": "do it"},
    ),
    (
        "gemini shell",
        "gemini",
        "",
        payloads.gemini(
            "AfterTool",
            tool_name="run_shell_command",
            tool_input={"command": ENDS_WITH_3},
            tool_response={
                "llmContent": "<untrusted_context>\nOutput: to-stdout\nto-stderr\nExit Code: 3\n"
                "Process Group PGID: 20771\n</untrusted_context>",
                "returnDisplay": "to-stdout\nto-stderr",
            },
        ),
        {"tool": "Bash", "output": "to-stdout\nto-stderr", "failed": True},
    ),
    (
        "gemini shell that ends well",
        "gemini",
        "",
        payloads.gemini(
            "AfterTool",
            tool_name="run_shell_command",
            tool_response={
                "llmContent": "<untrusted_context>\nOutput: ok\nProcess Group PGID: 5\n</untrusted_context>"
            },
        ),
        {"tool": "Bash", "output": "ok", "failed": False},
    ),
    (
        "gemini error",
        "gemini",
        "",
        payloads.gemini(
            "AfterTool",
            tool_name="read_file",
            tool_response={"llmContent": "File not found.", "error": {"type": "file_not_found"}},
        ),
        {"tool": "Read", "output": "File not found.", "failed": True},
    ),
    (
        "gemini tool of another server",
        "gemini",
        "",
        payloads.gemini(
            "AfterTool",
            tool_name="mcp_db_query",
            tool_response={"llmContent": [{"text": "<untrusted_context>\n3 rows\n</untrusted_context>"}]},
            mcp_context={"server_name": "db", "tool_name": "query"},
        ),
        {"tool": "Mcp", "output": "3 rows", "failed": False},
    ),
    (
        "gemini stop",
        "gemini",
        "",
        payloads.gemini("AfterAgent", prompt="do it", prompt_response=DONE),
        {"kind": "stop", "output": DONE, "prompt": ""},
    ),
    (
        "gemini compaction is a maybe",
        "gemini",
        "",
        payloads.gemini("PreCompress", trigger="auto"),
        {"kind": "compact", "occasion": "maybe"},
    ),
    (
        "qwen shell",
        "qwen",
        "",
        payloads.qwen(
            "PostToolUse",
            tool_name="run_shell_command",
            tool_input={"command": COMMIT},
            tool_response={"llmContent": _QWEN_REPORT.format(command=COMMIT, code=0), "returnDisplay": "x"},
            tool_use_id="toolu_1795",
            tool_call_id="call_e591",
        ),
        {"tool": "Bash", "output": "to-stdout\nto-stderr", "failed": False, "call_id": "toolu_1795"},
    ),
    (
        "qwen failure",
        "qwen",
        "",
        payloads.qwen(
            "PostToolUseFailure",
            tool_name="run_shell_command",
            error=_QWEN_REPORT.format(command=ENDS_WITH_3, code=3),
            is_interrupt=False,
        ),
        {"tool": "Bash", "output": "to-stdout\nto-stderr", "failed": True},
    ),
    (
        "qwen stop tells the context",
        "qwen",
        "",
        payloads.qwen("Stop", last_assistant_message=DONE, context_usage=0.10347, context_limit=200000),
        {"kind": "stop", "output": DONE, "context_used": 0.10347},
    ),
    (
        "copilot start",
        "copilot",
        "sessionStart",
        payloads.copilot(source="new", initialPrompt="do it"),
        {"kind": "start", "occasion": "startup", "session": "a0e847d5"},
    ),
    (
        "copilot shell",
        "copilot",
        "postToolUse",
        payloads.copilot(
            toolName="bash",
            toolArgs={"command": ENDS_WITH_3},
            toolResult={
                "resultType": "success",
                "textResultForLlm": "to-stdout\nto-stderr\n<shellId: 0 completed with exit code 3>",
            },
        ),
        {"tool": "Bash", "arguments": {"command": ENDS_WITH_3}, "output": "to-stdout\nto-stderr", "failed": True},
    ),
    (
        "copilot view, with arguments as a text and no hint",
        "copilot",
        "",
        payloads.copilot(
            toolName="view",
            toolArgs='{"path": "/p/notes.txt"}',
            toolResult={"resultType": "success", "textResultForLlm": "deploy port\n"},
        ),
        {"tool": "Read", "arguments": {"path": "/p/notes.txt"}, "output": "deploy port\n", "failed": False},
    ),
    (
        "copilot denied",
        "copilot",
        "postToolUse",
        payloads.copilot(toolName="edit", toolResult={"resultType": "denied", "textResultForLlm": "not allowed"}),
        {"tool": "Edit", "failed": True},
    ),
    (
        "copilot tool of another server",
        "copilot",
        "postToolUse",
        payloads.copilot(toolName="github-get_issue", toolResult={"resultType": "success", "textResultForLlm": "#1"}),
        {"tool": "Mcp"},
    ),
    (
        "copilot stop",
        "copilot",
        "agentStop",
        payloads.copilot(transcriptPath="/home/dev/.copilot/events.jsonl", stopReason="end_turn"),
        {"kind": "stop", "transcript": "/home/dev/.copilot/events.jsonl"},
    ),
    (
        "cline start",
        "cline",
        "TaskStart",
        payloads.cline(taskStart={"taskMetadata": {}}),
        {"kind": "start", "occasion": "startup", "session": "17952_ejzj4", "agent": ""},
    ),
    (
        "cline shell",
        "cline",
        "PostToolUse",
        payloads.cline(**_CLINE_SHELL),
        {
            "tool": "Bash",
            "arguments": {"commands": ["cd src", "cat notes.txt"], "command": "cd src\ncat notes.txt"},
            "output": "deploy port is 8443\n",
            "failed": False,
            "call_id": "call_c246",
        },
    ),
    (
        "cline failure inside a success",
        "cline",
        "PostToolUse",
        payloads.cline(
            tool_result={"id": "c", "output": [{"result": "", "error": "exit 1", "success": False}]},
            postToolUse={"toolName": "run_commands", "success": True},
        ),
        {"tool": "Bash", "failed": True, "output": "exit 1"},
    ),
    (
        "cline stop of a sub-agent",
        "cline",
        "TaskComplete",
        payloads.cline(taskComplete={}, turn={"outputText": DONE}, parent_agent_id="agent_0"),
        {"kind": "stop", "output": DONE, "agent": "agent_17952", "session": "17952_ejzj4"},
    ),
    (
        "cursor prompt",
        "cursor",
        "",
        payloads.cursor("beforeSubmitPrompt", prompt="do it"),
        {"kind": "prompt", "prompt": "do it", "session": "c-1", "cwd": "/home/dev/project"},
    ),
    (
        "cursor shell",
        "cursor",
        "",
        payloads.cursor(
            "postToolUse",
            tool_name="Shell",
            tool_input={"command": "make"},
            tool_output='{"exitCode": 2, "stdout": "boom"}',
            tool_use_id="t1",
            duration=12,
        ),
        {"tool": "Bash", "output": "boom", "failed": True, "call_id": "t1"},
    ),
    (
        "cursor failure",
        "cursor",
        "",
        payloads.cursor("postToolUseFailure", tool_name="Read", error_message="no such file", failure_type="error"),
        {"tool": "Read", "output": "no such file", "failed": True},
    ),
    (
        "cursor compaction tells the context",
        "cursor",
        "",
        payloads.cursor("preCompact", trigger="auto", context_usage_percent=85),
        {"kind": "compact", "occasion": "auto", "context_used": 0.85},
    ),
    (
        "opencode start",
        "opencode",
        "",
        payloads.opencode("session.created", {"info": {"directory": "/home/dev/project"}}),
        {"kind": "start", "occasion": "startup", "session": "ses_1", "cwd": "/home/dev/project"},
    ),
    (
        "opencode prompt",
        "opencode",
        "",
        payloads.opencode(
            "chat.message",
            {},
            {
                "message": {"id": "msg_1", "model": {"modelID": "m"}},
                "parts": [{"type": "text", "text": "do it"}, {"type": "text", "text": "a file", "synthetic": True}],
            },
        ),
        {"kind": "prompt", "prompt": "do it", "call_id": "msg_1"},
    ),
    (
        "opencode shell",
        "opencode",
        "",
        payloads.opencode(
            "tool.execute.after",
            {"tool": "bash", "callID": "call_84bb", "args": {"command": "make"}},
            {"title": "make", "metadata": {"output": "boom\n", "exit": 2}, "output": "boom\n"},
            tokens={"input": 100_000, "output": 2_000, "cache": {"read": 20_000, "write": 0}},
            limit=200_000,
        ),
        {"tool": "Bash", "output": "boom\n", "failed": True, "call_id": "call_84bb", "context_used": 0.61},
    ),
    (
        "opencode read",
        "opencode",
        "tool.execute.after",
        {
            "input": {"tool": "read", "sessionID": "ses_1", "callID": "c", "args": {"filePath": "/p/notes.txt"}},
            "output": {"output": "<content>\n1: port\n</content>", "metadata": {"display": {"text": "port"}}},
        },
        {"tool": "Read", "output": "port", "failed": False},
    ),
    (
        "opencode tool of another server",
        "opencode",
        "",
        payloads.opencode("tool.execute.after", {"tool": "db_query"}, {"content": _MCP_TEXT}),
        {"tool": "Mcp", "output": "two hits"},
    ),
    (
        "opencode tool that threw",
        "opencode",
        "",
        payloads.opencode("tool.error", {"tool": "edit", "callID": "c", "args": {}}, {"error": "no match"}),
        {"tool": "Edit", "output": "no match", "failed": True},
    ),
    (
        "opencode sub-agent",
        "opencode",
        "",
        payloads.opencode("session.idle", {}, parent="ses_0", texts=["Looked.", "Found it."]),
        {"kind": "stop", "session": "ses_0", "agent": "ses_1", "output": "Looked.\nFound it."},
    ),
    (
        "opencode after compaction",
        "opencode",
        "",
        payloads.opencode("session.compacted", {}),
        {"kind": "start", "occasion": "compact"},
    ),
]

_UNUSED: list[tuple[str, Payload, str]] = [
    ("claude", payloads.claude("PreToolUse", tool_name="Bash"), ""),
    ("claude", payloads.claude("PostToolBatch", tool_calls=[]), ""),
    ("claude", {**payloads.claude("Stop"), "session_id": ""}, ""),
    ("claude", payloads.claude("PostToolUse"), ""),
    ("codex", payloads.codex("PostCompact", trigger="auto"), ""),
    ("gemini", payloads.gemini("BeforeModel"), ""),
    ("gemini", payloads.gemini("AfterModel"), ""),
    ("qwen", payloads.qwen("UserPromptSubmit", prompt=""), ""),
    ("qwen", payloads.qwen("Notification", message="hello"), ""),
    ("copilot", payloads.copilot(toolName="bash", toolArgs={}), "preToolUse"),
    ("cline", payloads.cline(preToolUse={"toolName": "run_commands"}), "PreToolUse"),
    ("cursor", payloads.cursor("afterShellExecution", command="make"), ""),
    ("opencode", payloads.opencode("session.status", {}), ""),
]

_OWN_CALLS: list[tuple[str, Payload, str]] = [
    ("claude", payloads.claude("PostToolUse", tool_name="mcp__mem__memory_search"), ""),
    ("claude", payloads.claude("PostToolUse", tool_name="mcp__plugin_memplug_mem__memory_search"), ""),
    ("codex", payloads.codex("PostToolUse", tool_name="mcp__mem__task_preflight"), ""),
    ("gemini", payloads.gemini("AfterTool", tool_name="mcp_mem_memory_search"), ""),
    ("qwen", payloads.qwen("PostToolUse", tool_name="mcp__mem__memory_search"), ""),
    ("copilot", payloads.copilot(toolName="mem-memory_search", toolResult={}), "postToolUse"),
    ("cline", payloads.cline(postToolUse={"toolName": "mem__memory_search"}), ""),
    (
        "cline",
        payloads.cline(
            postToolUse={
                "toolName": "use_mcp_tool",
                "parameters": {"server_name": "mem", "tool_name": "memory_search"},
            }
        ),
        "",
    ),
    ("cursor", payloads.cursor("postToolUse", tool_name="MCP:memory_search"), ""),
    ("opencode", payloads.opencode("tool.execute.after", {"tool": "mem_memory_search"}, {"content": []}), ""),
]


def _parsed(client: str, payload: Payload, hint: str = "") -> Event:
    event = all_clients()[client].parse_payload(payload, hint)
    assert event is not None
    return event


@pytest.mark.parametrize(
    ("client", "hint", "payload", "expected"), [row[1:] for row in _TABLE], ids=[row[0] for row in _TABLE]
)
def test_a_payload_becomes_the_event_it_reports(
    client: str, hint: str, payload: Payload, expected: dict[str, Any]
) -> None:
    event = _parsed(client, payload, hint)
    assert {key: getattr(event, key) for key in expected} == expected
    assert event.client == client
    assert event.call_id


def test_every_client_is_in_the_table() -> None:
    assert {row[1] for row in _TABLE} == set(CLIENT_NAMES)


@pytest.mark.parametrize(("client", "payload", "hint"), _UNUSED)
def test_what_is_not_used_is_no_event(client: str, payload: Payload, hint: str) -> None:
    assert all_clients()[client].parse_payload(payload, hint) is None


@pytest.mark.parametrize(("client", "payload", "hint"), _OWN_CALLS)
def test_our_own_tools_are_no_events(client: str, payload: Payload, hint: str) -> None:
    assert all_clients()[client].parse_payload(payload, hint) is None


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
    for _, client, hint, payload, _ in _TABLE:
        again = msgspec.json.decode(msgspec.json.encode(payload))
        assert _parsed(client, payload, hint) == _parsed(client, again, hint)


def test_a_command_run_again_later_has_an_id_of_its_own() -> None:
    first = payloads.gemini("AfterTool", tool_name="read_file", tool_response={"llmContent": "same"})
    later = {**first, "timestamp": "2026-11-21T20:41:00.000Z"}
    assert _parsed("gemini", first).call_id != _parsed("gemini", later).call_id


def test_the_same_words_in_another_turn_are_another_prompt() -> None:
    first = payloads.codex("UserPromptSubmit", prompt="continue")
    assert _parsed("codex", first).call_id != _parsed("codex", {**first, "turn_id": "next"}).call_id


def test_two_answers_to_one_prompt_have_ids_of_their_own() -> None:
    first, second = (payloads.claude("Stop", last_assistant_message=said) for said in ("Done.", "Done again."))
    assert _parsed("claude", first).call_id != _parsed("claude", second).call_id


def test_a_prompt_and_a_stop_of_one_turn_have_ids_of_their_own() -> None:
    prompt = _parsed("claude", payloads.claude("UserPromptSubmit", prompt="go"))
    assert prompt.call_id != _parsed("claude", payloads.claude("Stop")).call_id


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)
_EVENT_NAMES = sorted(
    {str(row[3].get("hook_event_name") or row[3].get("event") or row[2]) for row in _TABLE} | {"postToolUseFailure"}
)
_KEYS = sorted({key for row in _TABLE for key in row[3]} | {"error", "llm_request", "tool_response", "agentName"})


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(
    client=st.sampled_from(CLIENT_NAMES),
    payload=st.dictionaries(st.sampled_from(_KEYS), _JSON),
    name=st.sampled_from(_EVENT_NAMES),
)
def test_any_types_are_survived(client: str, payload: Payload, name: str) -> None:
    event = all_clients()[client].parse_payload({**payload, "hook_event_name": name, "event": name}, name)
    assert event is None or (event.session and event.call_id)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(row=st.sampled_from(_TABLE), data=st.data())
def test_a_broken_field_is_survived(row: tuple[str, str, str, Payload, dict[str, Any]], data: st.DataObject) -> None:
    _, client, hint, payload, _ = row
    key = data.draw(st.sampled_from(sorted(payload)))
    all_clients()[client].parse_payload({**payload, key: data.draw(_JSON)}, hint)


@pytest.mark.slow
@given(
    client=st.sampled_from(CLIENT_NAMES),
    payload=st.dictionaries(st.text(max_size=12), _JSON),
    hint=st.text(max_size=12),
)
def test_any_object_is_survived(client: str, payload: Payload, hint: str) -> None:
    all_clients()[client].parse_payload(payload, hint)


def test_an_unknown_client_has_no_parser() -> None:
    assert load_client("zed") is None
