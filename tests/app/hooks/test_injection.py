"""What a prompt brings up counts as shown only where the client hands it to its model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.app.clients.record import lines, load_records
from tests.app.clients.records import claude, cline, copilot, gemini
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


@pytest.mark.parametrize("client", [name for name, record in RECORDS.items() if record.prompt[0]])
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


def test_a_client_that_takes_answers_to_calls_alone_gets_them_at_the_next_call(
    engine: Engine, project: Path, vault: Path
) -> None:
    write_memory(vault, "wal", "# Why apsw\n\nThe log is lost.", "trigger_phrases: [wal reset]")
    write_memory(vault, "mole", "# The mole\n\nIt broke in May.", "trigger_phrases: [mole repair]")
    scan(engine)

    def report(session: str, **fields: Any) -> str:
        about = {"sessionContext": {"rootSessionId": session}, "workspaceRoots": [str(project)]}
        return handle_payload(["cline"], json.dumps(cline.payload(**about, **fields)).encode())

    def call(session: str, number: int) -> str:
        done = {"toolName": "run_commands", "parameters": {"commands": "make"}, "success": True}
        result = {"id": f"{session}{number}", "name": "run_commands", "input": {"commands": ["make lights"]}}
        return report(session, tool_result=result, postToolUse=done)

    report("s-1", userPromptSubmit={"prompt": "mend the harbour lights"})
    call("s-1", 1)
    assert report("s-2", taskStart={"taskMetadata": {}}) == ""
    assert report("s-2", userPromptSubmit={"prompt": ASKED}) == ""
    told = json.loads(call("s-2", 1))["contextModification"]
    assert "mend the harbour lights" in told
    assert "Why apsw" in told
    assert [each.occasion for each in engine.sessions.injections("s-2")] == ["prompt", "start"]
    assert call("s-2", 2) == ""
    report("s-2", userPromptSubmit={"prompt": "what of the mole repair?"})
    again = json.loads(call("s-2", 3))["contextModification"]
    assert "The mole" in again
    assert "harbour lights" not in again


def test_a_client_that_reports_only_the_start_of_a_compaction_is_told_at_the_next_call(
    engine: Engine, project: Path
) -> None:
    def report(event: str, **fields: Any) -> str:
        payload = copilot.payload(**fields) | {"cwd": str(project)}
        return handle_payload(["copilot", event], json.dumps(payload).encode())

    def call(at: int) -> str:
        done = {"resultType": "success", "textResultForLlm": "lit"}
        return report("postToolUse", toolName="bash", toolArgs={"command": "make"}, toolResult=done, timestamp=at)

    report("sessionStart", source="new")
    report("userPromptSubmitted", prompt="mend the harbour lights")
    assert call(1) == ""  # the start and the prompt have had replies of their own
    assert report("preCompact", trigger="auto") == ""
    assert "mend the harbour lights" in json.loads(call(2))["additionalContext"]
    assert call(3) == ""
    assert engine.sessions.injections("a0e847d5")[0].occasion == "compact"


@pytest.mark.parametrize("kept", [2, 9_000], ids=["short", "longer than what is read of a transcript"])
def test_a_compaction_that_only_the_transcript_tells_of_is_answered_at_the_next_call_or_prompt(
    engine: Engine, project: Path, tmp_path: Path, kept: int
) -> None:
    chat = tmp_path / "session.jsonl"
    chat.write_text(f"{lines(gemini.META)}\n")

    def report(event: str, **fields: Any) -> str:
        payload = gemini.payload(event, cwd=str(project), transcript_path=str(chat), **fields)
        return handle_payload(["gemini"], json.dumps(payload).encode())

    def call(number: int) -> str:
        done = {"llmContent": "Output: lit\nExit Code: 0"}
        return report(
            "AfterTool", tool_name="run_shell_command", tool_input={"command": f"make {number}"}, tool_response=done
        )

    def write(*rows: str) -> None:
        chat.write_text(chat.read_text() + "".join(f"{row}\n" for row in rows))

    said = gemini.row("gemini", "m-5", [{"text": "I light the harbour."}])
    report("BeforeAgent", prompt="mend the harbour lights")
    assert call(1) == ""  # `PreCompress` comes before every request, so nothing was compacted yet
    write(gemini.compaction('It was \\ "dark".', *[said] * kept), *map(lines, [gemini.answer("So.", 9)] * 3))
    assert "mend the harbour lights" in call(2)
    assert call(3) == ""
    write(gemini.compaction('It was \\ "dark".', gemini.answer("So.", 9)))  # as it is written when outputs are masked
    assert call(4) == ""
    assert report("PreCompress", trigger="manual") == ""
    write(gemini.compaction("It is light."))
    assert "mend the harbour lights" in report("BeforeAgent", prompt="go on")
    assert call(5) == ""
    assert [(each.occasion, each.times) for each in engine.sessions.injections("e09f02c6")] == [("compact", 2)]
    summaries = engine.sessions.events("e09f02c6", EventKind.COMPACT)
    assert [each.text for each in summaries] == ['It was \\ "dark".', "It is light."]


@pytest.mark.parametrize("hidden", ["tier: deprecated", "quality: {score: 0.05, flags: [sparse]}"])
def test_a_prompt_brings_up_only_what_a_search_shows(engine: Engine, project: Path, vault: Path, hidden: str) -> None:
    head = "trigger_phrases: [wal reset]\nprovenance: {source: session, trust: agent}"
    write_memory(vault, "old", "# An old way\n\nThe wal reset bug is fixed.", f"{head}\n{hidden}")
    scan(engine)
    assert ask("claude", project) == ""


def test_a_prompt_is_told_the_newest_first_and_each_title_once(engine: Engine, project: Path, vault: Path) -> None:
    for day, says in (("01", "Why apsw"), ("09", "Why not apsw")):
        head = f"trigger_phrases: [wal reset]\nupdated: 2026-05-{day}"
        write_memory(vault, day, f"# {says}\n\nThe log of day {day} is lost.", head)
    scan(engine)
    lines = json.loads(ask("claude", project))["hookSpecificOutput"]["additionalContext"].splitlines()
    told = [line for line in lines if "Why" in line]
    assert ["Why not apsw" in line for line in told] == [True, False]
    assert [line.count("Why") for line in told] == [1, 1]


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
