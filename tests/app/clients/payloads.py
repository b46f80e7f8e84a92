"""Payloads as real clients sent them, cut to the fields that count; Cursor's follow its documentation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Payload = dict[str, Any]

COMMIT = "git add -A && git commit -q -m 'scripted commit' && git log --oneline | head -1"
ENDS_WITH_3 = "echo to-stdout; echo to-stderr >&2; exit 3"
DONE = "Done: read, committed, searched memory."


def claude(event: str, **fields: Any) -> Payload:
    return {
        "session_id": "0e24cf7b",
        "transcript_path": "/home/dev/.claude/projects/p/0e24cf7b.jsonl",
        "cwd": "/home/dev/project",
        "prompt_id": "489e1c54",
        "hook_event_name": event,
        **fields,
    }


def codex(event: str, **fields: Any) -> Payload:
    return {
        "session_id": "01a1ffe2",
        "turn_id": "01a1ffe2-1ce1",
        "transcript_path": "/home/dev/.codex/sessions/rollout.jsonl",
        "cwd": "/home/dev/project",
        "hook_event_name": event,
        "model": "gpt-5-codex",
        **fields,
    }


def gemini(event: str, **fields: Any) -> Payload:
    return {
        "session_id": "e09f02c6",
        "transcript_path": "/home/dev/.gemini/tmp/p/chats/session.jsonl",
        "cwd": "/home/dev/project",
        "hook_event_name": event,
        "timestamp": "2026-11-21T20:40:38.907Z",
        **fields,
    }


def qwen(event: str, **fields: Any) -> Payload:
    return {
        "session_id": "d9ad0a32",
        "transcript_path": "/home/dev/.qwen/projects/p/chats/d9ad0a32.jsonl",
        "cwd": "/home/dev/project",
        "hook_event_name": event,
        "timestamp": "2026-11-21T20:46:03.477Z",
        "prompt_id": "d9ad0a32########0",
        **fields,
    }


def copilot(**fields: Any) -> Payload:
    return {"sessionId": "a0e847d5", "timestamp": 1795294367087, "cwd": "/home/dev/project", **fields}


def cline(**fields: Any) -> Payload:
    return {
        "timestamp": "2026-11-21T20:56:04.089Z",
        "taskId": "conv_17952",
        "sessionContext": {"rootSessionId": "17952_ejzj4"},
        "workspaceRoots": ["/home/dev/project"],
        "agent_id": "agent_17952",
        "parent_agent_id": None,
        **fields,
    }


def cursor(event: str, **fields: Any) -> Payload:
    return {
        "conversation_id": "c-1",
        "generation_id": "g-1",
        "hook_event_name": event,
        "workspace_roots": ["/home/dev/project"],
        "model": "auto",
        **fields,
    }


def opencode(event: str, told: Mapping[str, Any], output: Mapping[str, Any] | None = None, **fields: Any) -> Payload:
    told = {"sessionID": "ses_1", **told}
    return {"event": event, "directory": "/home/dev/project", "input": told, "output": output or {}, **fields}
