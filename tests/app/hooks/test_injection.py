"""What a prompt brings up counts as shown only where the client hands it to its model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.app.clients import payloads
from tests.samples import write_memory

from scrimshaw.app.hooks.record import handle_payload
from scrimshaw.engine import Engine
from scrimshaw.engine.index import scan

ASKED = "is the wal reset bug fixed?"


def prompt_of(client: str, project: Path) -> dict[str, Any]:
    """A prompt as the client reports it."""
    folder = str(project)
    made: dict[str, dict[str, Any]] = {
        "claude": payloads.claude("UserPromptSubmit", prompt=ASKED),
        "cline": payloads.cline(userPromptSubmit={"prompt": ASKED}) | {"workspaceRoots": [folder]},
        "cursor": payloads.cursor("beforeSubmitPrompt", prompt=ASKED, workspace_roots=[folder]),
        "gemini": payloads.gemini("BeforeAgent", prompt=ASKED),
    }
    return {key: folder if key == "cwd" else value for key, value in made[client].items() if key != "transcript_path"}


@pytest.mark.parametrize(
    ("client", "is_told"), [("claude", True), ("gemini", True), ("cline", False), ("cursor", False)]
)
def test_a_memory_counts_as_shown_where_the_client_shows_it(
    engine: Engine, project: Path, vault: Path, client: str, is_told: bool
) -> None:
    write_memory(vault, "wal", "# Why apsw\n\nThe log is lost.", "trigger_phrases: [wal reset]")
    scan(engine)
    printed = handle_payload([client], json.dumps(prompt_of(client, project)).encode())
    (session,) = engine.sessions.latest()
    assert ("Why apsw" in printed) is is_told
    assert engine.sessions.hashes_shown(session.id).keys() == ({"wal"} if is_told else set())
    assert engine.sessions.events(session.id)[0].text == ASKED


@pytest.mark.parametrize("hidden", ["tier: deprecated", "quality: {score: 0.05, flags: [sparse]}"])
def test_a_prompt_brings_up_only_what_a_search_shows(engine: Engine, project: Path, vault: Path, hidden: str) -> None:
    head = "trigger_phrases: [wal reset]\nprovenance: {source: session, trust: agent}"
    write_memory(vault, "old", "# An old way\n\nThe wal reset bug is fixed.", f"{head}\n{hidden}")
    scan(engine)
    assert handle_payload(["claude"], json.dumps(prompt_of("claude", project)).encode()) == ""


def test_a_second_compaction_is_answered_as_the_first(engine: Engine, project: Path) -> None:
    done: list[dict[str, Any]] = [
        payloads.claude("UserPromptSubmit", prompt="mend the harbour lights"),
        payloads.claude(
            "PostToolUse",
            tool_name="Bash",
            tool_use_id="t1",
            tool_input={"command": "git commit -m 'x: y'"},
            tool_response={"stdout": "[main 1a2b3c4] x: y\n 1 file changed", "stderr": ""},
        ),
    ]
    for each in done:
        handle_payload(["claude"], json.dumps(each | {"cwd": str(project), "transcript_path": ""}).encode())
    again = payloads.claude("SessionStart", source="compact") | {"cwd": str(project), "transcript_path": ""}
    told = [handle_payload(["claude"], json.dumps(again).encode()) for _ in range(2)]
    assert "mend the harbour lights" in told[0]
    assert told[0] == told[1]
