"""Cline."""

from __future__ import annotations

from typing import Any

from tests.app.clients.record import Case, Json, Record
from tests.app.clients.words import CONTENT, CWD, DONE, SERVER

from scrimshaw.models import EventKind

_SHELL: Json = {
    "tool_result": {
        "id": "call_c246",
        "name": "run_commands",
        "input": {"commands": ["cd src", "cat notes.txt"]},
        "output": [{"query": "cat notes.txt", "result": "deploy port is 8443\n", "success": True}],
    },
    "postToolUse": {"toolName": "run_commands", "parameters": {}, "success": True, "executionTimeMs": 74},
}


def payload(**fields: Any) -> Json:
    return {
        "timestamp": "2026-11-21T20:56:04.089Z",
        "taskId": "conv_17952",
        "sessionContext": {"rootSessionId": "17952_ejzj4"},
        "workspaceRoots": [CWD],
        "agent_id": "agent_17952",
        "parent_agent_id": None,
        **fields,
    }


_SETTINGS = "h/.cline/data/settings/cline_mcp_settings.json"
_EVENTS = "PostToolUse PreCompact TaskCancel TaskComplete TaskResume TaskStart UserPromptSubmit"
HOOKS = [f"h/.cline/hooks/{event}" for event in _EVENTS.split()]

RECORD = Record(
    events=[
        Case(
            "start",
            payload(taskStart={"taskMetadata": {}}),
            {"kind": "start", "occasion": "startup", "session": "17952_ejzj4", "agent": ""},
            "TaskStart",
        ),
        Case(
            "shell",
            payload(**_SHELL),
            {
                "tool": "Bash",
                "arguments": {"commands": ["cd src", "cat notes.txt"], "command": "cd src\ncat notes.txt"},
                "output": "deploy port is 8443\n",
                "failed": False,
                "call_id": "call_c246",
            },
            "PostToolUse",
        ),
        Case(
            "failure inside a success",
            payload(
                tool_result={"id": "c", "output": [{"result": "", "error": "exit 1", "success": False}]},
                postToolUse={"toolName": "run_commands", "success": True},
            ),
            {"tool": "Bash", "failed": True, "output": "exit 1"},
            "PostToolUse",
        ),
        Case(
            "stop of a sub-agent",
            payload(taskComplete={}, turn={"outputText": DONE}, parent_agent_id="agent_0"),
            {"kind": "stop", "output": DONE, "agent": "agent_17952", "session": "17952_ejzj4"},
            "TaskComplete",
        ),
    ],
    unused=[(payload(preToolUse={"toolName": "run_commands"}), "PreToolUse")],
    own_calls=[
        (payload(postToolUse={"toolName": "mem__memory_search"}), ""),
        (
            payload(
                postToolUse={
                    "toolName": "use_mcp_tool",
                    "parameters": {"server_name": "mem", "tool_name": "memory_search"},
                }
            ),
            "",
        ),
    ],
    prompt=(payload(userPromptSubmit={"prompt": "continue"}), "UserPromptSubmit"),
    next_turn={"timestamp": "2026-11-21T20:58:00.000Z"},
    replies={EventKind.TOOL: {"contextModification": CONTENT}},
    files=([_SETTINGS, *HOOKS],),
    server=(_SETTINGS, "mcpServers", {**SERVER, "timeout": 60}),
    context=[([{"usage": 1}], None)],
)
