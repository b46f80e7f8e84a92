"""What a prompt brings up counts as shown only where the client hands it to its model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.app.clients.record import load_records
from tests.app.clients.records import claude
from tests.app.clients.words import CWD
from tests.samples import write_memory

from scrimshaw.app.hooks.record import handle_payload
from scrimshaw.engine import Engine
from scrimshaw.engine.index import scan
from scrimshaw.models import EventKind

RECORDS = load_records()
ASKED = "is the wal reset bug fixed?"


def ask(client: str, project: Path) -> str:
    """What the hook prints for a prompt, as the client reports it."""
    payload, hint = RECORDS[client].prompt
    sent = json.dumps({key: value for key, value in payload.items() if key != "transcript_path"})
    return handle_payload([client, hint], sent.replace("continue", ASKED).replace(CWD, str(project)).encode())


@pytest.mark.parametrize("client", RECORDS)
def test_a_memory_counts_as_shown_where_the_client_shows_it(
    engine: Engine, project: Path, vault: Path, client: str
) -> None:
    is_told = EventKind.PROMPT in RECORDS[client].replies
    write_memory(vault, "wal", "# Why apsw\n\nThe log is lost.", "trigger_phrases: [wal reset]")
    scan(engine)
    printed = ask(client, project)
    (session,) = engine.sessions.latest()
    assert ("Why apsw" in printed) is is_told
    assert engine.sessions.hashes_shown(session.id).keys() == ({"wal"} if is_told else set())
    assert engine.sessions.events(session.id)[0].text == ASKED


@pytest.mark.parametrize("hidden", ["tier: deprecated", "quality: {score: 0.05, flags: [sparse]}"])
def test_a_prompt_brings_up_only_what_a_search_shows(engine: Engine, project: Path, vault: Path, hidden: str) -> None:
    head = "trigger_phrases: [wal reset]\nprovenance: {source: session, trust: agent}"
    write_memory(vault, "old", "# An old way\n\nThe wal reset bug is fixed.", f"{head}\n{hidden}")
    scan(engine)
    assert ask("claude", project) == ""


def test_a_second_compaction_is_answered_as_the_first(engine: Engine, project: Path) -> None:
    done: list[dict[str, Any]] = [
        claude.payload("UserPromptSubmit", prompt="mend the harbour lights"),
        claude.payload(
            "PostToolUse",
            tool_name="Bash",
            tool_use_id="t1",
            tool_input={"command": "git commit -m 'x: y'"},
            tool_response={"stdout": "[main 1a2b3c4] x: y\n 1 file changed", "stderr": ""},
        ),
    ]
    for each in done:
        handle_payload(["claude"], json.dumps(each | {"cwd": str(project), "transcript_path": ""}).encode())
    again = claude.payload("SessionStart", source="compact") | {"cwd": str(project), "transcript_path": ""}
    told = [handle_payload(["claude"], json.dumps(again).encode()) for _ in range(2)]
    assert "mend the harbour lights" in told[0]
    assert told[0] == told[1]
