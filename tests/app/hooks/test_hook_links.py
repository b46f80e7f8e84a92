"""A file that a client reads or edits and that is a memory is lifted in the next search, however it is named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import OpenMemory
from tests.samples import write_memory
from tests.scenarios.agent import Agent

from scrimshaw.app.hooks.record import handle_payload
from scrimshaw.engine import Engine
from scrimshaw.engine.index import scan

LONG = "# Harbour\n\n" + "The walrus sings in the harbour.\n" * 60


@pytest.fixture
def library(project: Path, vault: Path, open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.chdir(project)
    write_memory(vault, "harbour", LONG)
    write_memory(vault, "other", "The walrus of another story.")
    write_memory(project / "specs/001", "spec", "# Spec\n\nThe walrus sings on port 8443.\n")
    engine = open_memory()
    scan(engine)
    return engine


def report(project: Path, tool: str, path: str, **more: Any) -> None:
    """The client has used a tool on a file."""
    given: Mapping[str, Any] = {"file_path": path, **more}
    response = {"file": {"content": LONG}} if tool == "Read" else {"success": True}
    payload = {
        "session_id": "S",
        "cwd": str(project),
        "hook_event_name": "PostToolUse",
        "tool_name": tool,
        "tool_use_id": "t1",
        "tool_input": given,
        "tool_response": response,
    }
    handle_payload(["claude"], json.dumps(payload).encode())


def lifted(engine: Engine) -> set[str]:
    hits = Agent(engine, "S").search("walrus", limit=20)
    return {hit["id"] for hit in hits if hit["why"].get("boosts") and not hit["id"].startswith("session:")}


@pytest.mark.parametrize("form", ["{name}", "./{name}", "{project}/{name}", "{windows}"])
@pytest.mark.parametrize(
    ("name", "memory"), [(".scrimshaw/memories/harbour.md", "harbour"), ("specs/001/spec.md", "specs/001/spec")]
)
def test_a_memory_that_was_read_is_lifted(library: Engine, project: Path, name: str, memory: str, form: str) -> None:
    report(project, "Read", form.format(name=name, project=project, windows=name.replace("/", "\\")))
    assert lifted(library) == {memory}


def test_a_memory_that_was_edited_is_lifted(library: Engine, project: Path, vault: Path) -> None:
    report(project, "Edit", str(vault / "other.md"), old_string="another", new_string="a further")
    assert lifted(library) == {"other"}


def test_a_file_that_is_no_memory_lifts_nothing(library: Engine, project: Path) -> None:
    report(project, "Read", "src/harbour.md")
    assert len(library.sessions.items("S")) == 1
    assert lifted(library) == set()
