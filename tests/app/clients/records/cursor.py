"""Cursor, by its documentation."""

from __future__ import annotations

from typing import Any

from tests.app.clients.record import Case, Json, Record
from tests.app.clients.words import CONTENT, CWD, HOOK, SERVER

from scrimshaw.models import EventKind


def payload(event: str, **fields: Any) -> Json:
    return {
        "conversation_id": "c-1",
        "generation_id": "g-1",
        "hook_event_name": event,
        "workspace_roots": [CWD],
        "model": "auto",
        **fields,
    }


RECORD = Record(
    events=[
        Case(
            "prompt",
            payload("beforeSubmitPrompt", prompt="do it"),
            {"kind": "prompt", "prompt": "do it", "session": "c-1", "cwd": CWD},
        ),
        Case(
            "shell",
            payload(
                "postToolUse",
                tool_name="Shell",
                tool_input={"command": "make"},
                tool_output='{"exitCode": 2, "stdout": "boom"}',
                tool_use_id="t1",
                duration=12,
            ),
            {"tool": "Bash", "output": "boom", "failed": True, "call_id": "t1"},
        ),
        Case(
            "failure",
            payload("postToolUseFailure", tool_name="Read", error_message="no such file", failure_type="error"),
            {"tool": "Read", "output": "no such file", "failed": True},
        ),
        Case(
            "compaction tells the context",
            payload("preCompact", trigger="auto", context_usage_percent=85),
            {"kind": "compact", "occasion": "auto", "context_used": 0.85},
        ),
    ],
    unused=[(payload("afterShellExecution", command="make"), "")],
    own_calls=[(payload("postToolUse", tool_name="MCP:memory_search"), "")],
    prompt=(payload("beforeSubmitPrompt", prompt="continue"), ""),
    next_turn={"generation_id": "g-2"},
    replies={EventKind.START: {"additional_context": CONTENT}},
    files=(["h/.cursor/mcp.json", "h/.cursor/hooks.json"], ["p/.cursor/mcp.json", "p/.cursor/hooks.json"]),
    server=("h/.cursor/mcp.json", "mcpServers", SERVER),
    handler=lambda event: {"command": f"{HOOK} cursor ; exit 0", "timeout": 5},
    report=lambda event: (payload(event, prompt="p", tool_name="Read"), ""),
)
