"""Events of clients, handled as by the hook but in the process of the test; `test_hook_process.py` starts it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scrimshaw.app import processes
from scrimshaw.app.hooks import record


def payload_of(project: Path, event: str, session: str = "S1", **fields: Any) -> bytes:
    """What Claude Code writes to the hook."""
    known = {"session_id": session, "cwd": str(project), "hook_event_name": event, "transcript_path": ""}
    return json.dumps({**known, **fields}).encode()


def bash_call(command: str, output: str, call_id: str) -> Mapping[str, Any]:
    """The fields of an event after a command."""
    response = {"stdout": output, "stderr": "", "interrupted": False}
    return {"tool_use_id": call_id, "tool_name": "Bash", "tool_input": {"command": command}, "tool_response": response}


def handle(project: Path, payload: bytes, client: str = "claude", event: str = "", home: Path | None = None) -> str:
    """Handle an event of a client; what the hook prints."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCRIMSHAW_HOME", str(home or project / "home"))
        patch.chdir(project)
        return record.handle_payload([client, *filter(None, [event])], payload, at_end=processes.start_drafting)


def report(project: Path, event: str, session: str = "S1", **fields: Any) -> str:
    """Send one event; what the hook prints."""
    return handle(project, payload_of(project, event, session, **fields))


def bash(project: Path, command: str, output: str, call_id: str, session: str = "S1") -> str:
    return report(project, "PostToolUse", session, **bash_call(command, output, call_id))


def context_of(answer: str) -> str:
    """What the model is told."""
    return str(json.loads(answer)["hookSpecificOutput"]["additionalContext"]) if answer else ""
