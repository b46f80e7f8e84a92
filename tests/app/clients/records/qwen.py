"""Qwen Code."""

from __future__ import annotations

from typing import Any

from tests.app.clients.record import Case, Json, Record, group_handler, hook_reply
from tests.app.clients.words import COMMIT, CWD, DONE, ENDS_WITH_3, SERVER

from scrimshaw.models import EventKind

_REPORT = (
    "Command: {command}\nDirectory: (root)\nOutput: to-stdout\nto-stderr\nError: (none)\nExit Code: {code}\n"
    "Signal: (none)\nProcess Group PGID: (none)"
)


def payload(event: str, **fields: Any) -> Json:
    return {
        "session_id": "d9ad0a32",
        "transcript_path": "/home/dev/.qwen/projects/p/chats/d9ad0a32.jsonl",
        "cwd": CWD,
        "hook_event_name": event,
        "timestamp": "2026-11-21T20:46:03.477Z",
        "prompt_id": "d9ad0a32########0",
        **fields,
    }


# Tools of servers are hidden behind a search; it says only what they are called.
_TOOL_SEARCH = payload(
    "PostToolUse",
    tool_name="tool_search",
    tool_input={"query": "memory_search"},
    tool_response={
        "llmContent": '<functions>\n<function>{"name":"mcp__mem__memory_search",'
        '"description":"Search the project memory.","parametersJsonSchema":{"type":"object",'
        '"properties":{"query":{"type":"string"}},"required":["query"]}}</function>\n</functions>',
        "returnDisplay": "Reviewed 1 tool(s)",
    },
    tool_use_id="toolu_1795293965242_44vrufvgg",
    tool_call_id="call_7fcea9511d0346c5b1e4",
    duration_ms=20,
)


def _answer(*parts: Any) -> Json:
    return {"type": "assistant", "message": {"role": "model", "parts": list(parts)}, "usageMetadata": {}}


RECORD = Record(
    events=[
        Case(
            "shell",
            payload(
                "PostToolUse",
                tool_name="run_shell_command",
                tool_input={"command": COMMIT},
                tool_response={"llmContent": _REPORT.format(command=COMMIT, code=0), "returnDisplay": "x"},
                tool_use_id="toolu_1795",
                tool_call_id="call_e591",
            ),
            {"tool": "Bash", "output": "to-stdout\nto-stderr", "failed": False, "call_id": "toolu_1795"},
        ),
        Case(
            "failure",
            payload(
                "PostToolUseFailure",
                tool_name="run_shell_command",
                error=_REPORT.format(command=ENDS_WITH_3, code=3),
                is_interrupt=False,
            ),
            {"tool": "Bash", "output": "to-stdout\nto-stderr", "failed": True},
        ),
        Case(
            "stop tells the context",
            payload("Stop", last_assistant_message=DONE, context_usage=0.10347, context_limit=200000),
            {"kind": "stop", "output": DONE, "context_used": 0.10347},
        ),
    ],
    unused=[
        (payload("UserPromptSubmit", prompt=""), ""),
        (payload("Notification", message="hello"), ""),
        (_TOOL_SEARCH, ""),
    ],
    own_calls=[(payload("PostToolUse", tool_name="mcp__mem__memory_search"), "")],
    prompt=(payload("UserPromptSubmit", prompt="continue"), ""),
    next_turn={"prompt_id": "d9ad0a32########1"},
    replies={EventKind.START: hook_reply("SessionStart"), EventKind.PROMPT: hook_reply("UserPromptSubmit")},
    files=(["h/.qwen/settings.json"], ["p/.qwen/settings.json"]),
    server=("h/.qwen/settings.json", "mcpServers", {**SERVER, "trust": True}),
    handler=lambda event: group_handler("qwen", 5000),
    report=lambda event: (payload(event, prompt="p", tool_name="Read"), ""),
    context=[([_answer({"text": "a"})], None)],
    answers=[([_answer({"text": "hm", "thought": True}, {"text": "done"}), _answer({"functionCall": {}})], ["done"])],
)
