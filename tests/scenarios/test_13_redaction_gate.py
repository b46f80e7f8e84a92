"""Scenario 13: a key and an address are out of what a tool printed before anything is written, and it is said so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scrimshaw.app.hooks.record import handle_payload
from scrimshaw.engine import Engine

KEY = "sk-" + "abc123" * 8
MAIL = "jane.roe" + "@" + "corp-mail.io"
OUTPUT = f"[main 1a2b3c4] fix: port, by {MAIL}\n 1 file changed\nAPI_KEY={KEY}"


@pytest.fixture
def reported(engine: Engine, project: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """A project whose client has reported a commit that printed both."""
    monkeypatch.chdir(project)
    payload = {
        "session_id": "S1",
        "cwd": str(project),
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_use_id": "t1",
        "tool_input": {"command": f"git commit -m 'fix: port' --author 'Jane <{MAIL}>'"},
        "tool_response": {"stdout": OUTPUT, "stderr": ""},
    }
    handle_payload(["claude"], json.dumps(payload).encode())
    return engine


def test_working_memory_holds_neither_and_its_provenance_says_so(reported: Engine) -> None:
    (item,) = reported.sessions.items("S1")
    assert "fix: port" in item.text
    assert KEY not in item.text
    assert MAIL not in item.text
    assert "[REDACTED:email]" in item.text
    assert item.source.redaction_applied
    assert item.source.extraction_rule_id == "commit"


def test_the_log_warns_with_the_classes_and_no_file_holds_either(reported: Engine, project: Path) -> None:
    log = (project / ".scrimshaw/hook.log").read_text()
    assert "WARN Redaction applied: " in log
    assert "email" in log
    for file in (project / ".scrimshaw").rglob("*"):
        content = file.read_bytes() if file.is_file() else b""
        assert KEY.encode() not in content, file
        assert MAIL.encode() not in content, file
