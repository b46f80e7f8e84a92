"""`scrimshaw stats --context`: what hooks and tools handed to the models of sessions, as it is reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests import samples
from tests.samples import write_memory

from scrimshaw.app.cli.main import main
from scrimshaw.app.hooks import fencing
from scrimshaw.app.hooks.record import handle_payload
from scrimshaw.app.mcp.call_recorder import make_recorder
from scrimshaw.app.mcp.protocol import Dispatcher
from scrimshaw.app.mcp.tools import choose
from scrimshaw.engine import Engine
from scrimshaw.engine.index import scan


def report(project: Path, event: str, session: str, client: str = "claude", **fields: Any) -> str:
    """One event of a client; the text that the model is handed."""
    payload = {"session_id": session, "cwd": str(project), "hook_event_name": event, **fields}
    said = handle_payload([client], json.dumps(payload).encode())
    return str(json.loads(said)["hookSpecificOutput"]["additionalContext"]) if said else ""


@pytest.fixture
def handed(engine: Engine, project: Path, vault: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What two sessions were given: at a start, at a prompt, and by a tool."""
    monkeypatch.chdir(project)
    write_memory(
        vault,
        "walrus",
        "# Walrus\n\nThe walrus deploys on port 8443 of the harbour.\n",
        "trigger_phrases: [walrus port]",
    )
    scan(engine)
    bash: dict[str, Any] = {
        "tool_name": "Bash",
        "tool_use_id": "1",
        "tool_input": {"command": "git commit -m 'fix: port'"},
    }
    report(project, "PostToolUse", "S1", tool_response={"stdout": "[main 1a2b3c4] fix: port"}, **bash)
    texts = [
        report(project, "SessionStart", "S2", source="startup"),
        report(project, "UserPromptSubmit", "S2", prompt="which is the walrus port?"),
        report(project, "UserPromptSubmit", "S2", prompt="which is the walrus port?"),
    ]
    dispatcher = Dispatcher(choose("all"), engine, make_recorder(engine, ()))
    texts.append(
        dispatcher.dispatch("memory_search", {"query": "harbour", "session_id": "S2", "enable_dedup": False}).text
    )
    dispatcher.stop()
    return texts


def test_hooks_count_what_the_client_hands_on(engine: Engine, project: Path, handed: list[str]) -> None:
    rows = {row.occasion: row for row in engine.sessions.injections("S2")}
    assert set(rows) == {"start", "prompt", "memory_search"}
    assert "fix: port" in handed[0]
    assert rows["start"].tokens == fencing.max_tokens(handed[0])
    assert (rows["prompt"].times, rows["prompt"].hits, handed[2]) == (1, 1, "")
    assert engine.sessions.injections("S1") == []


def test_a_client_that_takes_no_text_was_handed_none(engine: Engine, project: Path, handed: list[str]) -> None:
    prompt = {"conversation_id": "C", "hook_event_name": "beforeSubmitPrompt", "prompt": "which is the walrus port?"}
    assert handle_payload(["cursor"], json.dumps({**prompt, "workspace_roots": [str(project)]}).encode()) == ""
    assert engine.sessions.get("C") is not None
    assert engine.sessions.injections("C") == []


def test_the_report_sums_up(
    engine: Engine, project: Path, handed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    samples.report(engine.sessions, "S2", context_used=0.25)
    assert main(["stats", "--context", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["session"], told["client"], told["context_used"]) == ("S2", "claude", 0.25)
    assert (told["times"], told["hits"]) == (3, sum(row["hits"] for row in told["occasions"]))
    assert told["tokens"] == sum(row.tokens for row in engine.sessions.injections("S2"))
    assert main(["stats", "--context"]) == 0
    said = capsys.readouterr().out
    assert "S2  claude, context in use 25%" in said
    assert f"Given in 1 session: 3 texts of {told['tokens']} tokens in all." in said
    unasked = sum(row["tokens"] for row in told["occasions"] if row["occasion"] in ("start", "prompt"))
    # Three lines of the state; the memory that the prompt brought up was shown again by the search.
    assert f"{unasked} of these tokens were given unasked. Of the 3 lines in them still known" in said
    assert "the model repeated or read 0, of 0 tokens." in said
    assert "Recorded by rule: none; a secret was removed from 0" in said
    samples_of = engine.sessions.items("S1")
    assert [item.source.extraction_rule_id for item in samples_of] == ["commit"]


def test_nothing_handed_is_said_too(
    engine: Engine, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(project)
    assert main(["stats", "--context"]) == 0
    assert capsys.readouterr().out.startswith("Given in 0 sessions: 0 texts of 0 tokens in all.\n")
