"""Scenario 15: an item says which call it came from and which rule kept it, wherever it comes up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.conftest import OpenMemory
from tests.scenarios.agent import Agent

from scrimshaw.app.hooks.record import handle_payload
from scrimshaw.engine import Engine
from scrimshaw.models import Trust

CALL = "toolu_01A2b3C4"
RULE = """
[[rules]]
id = "rule-0"
tool = "^Read"
argument = 'spec\\.md$'
attention = 0.9
summarizer = "first_last_500"
"""
PROVENANCE = {
    "source_tool": "Read",
    "source_call_id": CALL,
    "extraction_rule_id": "rule-0",
    "redaction_applied": False,
    "trust": Trust.TOOL,
}


def read(project: Path, text: str, call_id: str = CALL) -> None:
    """The client has read spec.md, and reports it."""
    payload = {
        "session_id": "S1",
        "cwd": str(project),
        "hook_event_name": "PostToolUse",
        "tool_name": "Read",
        "tool_use_id": call_id,
        "tool_input": {"file_path": str(project / "specs/001/spec.md")},
        "tool_response": {"type": "text", "file": {"content": text}},
    }
    handle_payload(["claude"], json.dumps(payload).encode())


@pytest.fixture
def engine(open_memory: OpenMemory) -> Engine:
    return open_memory(RULE)


def test_the_item_carries_call_and_rule(engine: Engine, project: Path) -> None:
    read(project, "# Goal\n\nThe walrus serves on port 8443.\n")
    (item,) = engine.sessions.items("S1")
    assert (item.attention, item.text.count("8443")) == (0.9, 1)
    source = item.source
    assert {name: getattr(source, name) for name in source.__struct_fields__} == PROVENANCE


def test_the_same_report_again_is_no_second_item(engine: Engine, project: Path) -> None:
    for _ in range(2):
        read(project, "# Goal\n\nThe walrus serves on port 8443.\n")
    assert len(engine.sessions.items("S1")) == 1


def test_a_search_that_brings_the_item_up_says_so_too(engine: Engine, project: Path) -> None:
    read(project, "# Goal\n\nThe walrus serves on port 8443.\n")
    (hit,) = [hit for hit in Agent(engine, "S1").search("walrus port") if hit["id"] == "session:S1/1"]
    assert hit["trust"] == "tool"
    assert hit["why"]["source"] == PROVENANCE


def test_what_was_redacted_says_so(engine: Engine, project: Path) -> None:
    read(project, "# Goal\n\nThe walrus has the key ghp_" + "a1B2" * 9 + "\n")
    (item,) = engine.sessions.items("S1")
    assert item.source.redaction_applied
    assert item.source.extraction_rule_id == "rule-0"
