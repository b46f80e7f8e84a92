"""What was said in a turn, by the transcript of a client, through the real hook process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.app.clients.record import Json, write_rows
from tests.app.clients.records import claude, cline, codex, copilot, gemini
from tests.app.hooks.test_hook_process import RUN, hook

from scrimshaw.app.cli.main import main
from scrimshaw.app.hooks.record import TAIL_BYTES
from scrimshaw.config import load
from scrimshaw.engine import Engine, index, open_engine
from scrimshaw.models import DRAFTS_LOCK, EventKind, Item, ItemKind, Trust
from scrimshaw.storage.transaction import lock

DECIDED = "I'll go with a file lock instead of a database row, because Windows has no advisory ones."
PLAN = "The next step is to wire the lock into the importer."
PATCH = "*** Begin Patch\n*** Update File: src/till.py\n@@\n-a = 1\n+a = 2\n*** End Patch"
_WORK = "from scrimshaw.app.background import make_drafts; make_drafts()"
_LONG = "x" * (TAIL_BYTES // 10)


def _stop(project: Path, client: str, transcript: Path, **fields: Any) -> None:
    named = {"session_id": "S1", "transcript_path": str(transcript)}
    if client == "copilot":
        _copilot_event(project, "agentStop", "S1", transcriptPath=str(transcript), stopReason="end_turn")
        return
    event = {"hook_event_name": {"gemini": "AfterAgent"}.get(client, "Stop")}
    done = hook(project, json.dumps({"cwd": str(project), **named, **event, **fields}).encode(), client)
    assert (done.returncode, done.stderr) == (0, b"")


def _items(engine: Engine, kind: ItemKind) -> list[Item]:
    return [item for item in engine.sessions.items("S1") if item.kind is kind]


def _qwen(role: str, text: str) -> Json:
    return {"type": role, "message": {"role": role, "parts": [{"text": text}]}}


def _copilot(role: str, text: str) -> Json:
    return {"type": f"{role}.message", "data": {"content": text}}


def _gemini(role: str, text: str, number: int) -> Json:
    return {"id": str(number), "type": role, "content": text}


# How a client writes a prompt, an answer, and a long thing between.
_ROWS: dict[str, tuple[Callable[[str], Json], Callable[[str], Json]]] = {
    "claude": (lambda text: claude.row("user", text), lambda text: claude.answer(text, 9)),
    "codex": (lambda text: codex.said("user", text), lambda text: codex.said("assistant", text)),
    "copilot": (lambda text: _copilot("user", text), lambda text: _copilot("assistant", text)),
    "gemini": (lambda text: _gemini("user", text, 1), lambda text: _gemini("gemini", text, hash(text))),
    "qwen": (lambda text: _qwen("user", text), lambda text: _qwen("assistant", text)),
}
assert copilot.RECORD
assert gemini.RECORD


@pytest.mark.parametrize("client", _ROWS)
def test_what_was_said_in_the_middle_of_a_long_turn_is_kept(engine: Engine, project: Path, client: str) -> None:
    ask, say = _ROWS[client]
    between = (say(f"{number} {_LONG}") for number in range(25))
    write_rows(project / "t.jsonl", ask("Lock the vault."), say(DECIDED), say(PLAN), *between, say("Done."))
    for _ in range(2):  # the second time all of it is known
        _stop(project, client, project / "t.jsonl")
    (decision,), (plan,) = _items(engine, ItemKind.DECISION), _items(engine, ItemKind.PLAN)
    assert (decision.text, decision.source.trust, decision.mentions) == (DECIDED, Trust.AGENT, 0)
    assert plan.text == PLAN
    answers = engine.sessions.events("S1", EventKind.ANSWER)
    assert [event.text[:20] for event in answers[:2]] == [DECIDED[:20], PLAN[:20]]
    assert len(answers) == 28


def _call(project: Path, client: str, transcript: Path, command: str) -> None:
    """Report a command as the client does when it has run."""
    named: Json = {"session_id": "S1", "transcript_path": str(transcript), "tool_use_id": command}
    named |= {"hook_event_name": "AfterTool" if client == "gemini" else "PostToolUse", "tool_name": "Bash"}
    event: Json = {
        **named,
        "tool_input": {"command": command},
        "tool_response": {"stdout": "done", "llmContent": "done"},
    }
    if client == "copilot":
        result = {"resultType": "success", "textResultForLlm": "done"}
        _copilot_event(project, "postToolUse", "S1", toolName="bash", toolArgs={"command": command}, toolResult=result)
        return
    if client in ("gemini", "qwen"):
        event["tool_name"] = "run_shell_command"
    done = hook(project, json.dumps({"cwd": str(project), **event}).encode(), client)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("client", _ROWS)
def test_what_was_said_between_two_calls_is_recorded_between_them(
    engine: Engine, project: Path, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project))
    transcript = project / ".copilot/session-state/S1/events.jsonl"  # which Copilot's calls do not name
    transcript.parent.mkdir(parents=True)
    ask, say = _ROWS[client]
    write_rows(transcript, ask("Lock the vault."))
    _call(project, client, transcript, "make test")
    write_rows(transcript, ask("Lock the vault."), say(DECIDED))
    _call(project, client, transcript, "make lint")
    write_rows(transcript, ask("Lock the vault."), say(DECIDED), say("Done."))
    _stop(project, client, transcript)
    texts = [event.text.partition("\n")[0] for event in engine.sessions.events("S1", EventKind.TOOL, EventKind.ANSWER)]
    assert texts == ["make test", DECIDED, "make lint", "Done."]


def test_what_was_said_before_an_interruption_is_recorded_before_the_next_prompt(engine: Engine, project: Path) -> None:
    rows = [claude.row("user", "Lock the vault."), claude.answer(DECIDED, 9)]
    asked = {"hook_event_name": "UserPromptSubmit", "prompt": "Use a database row after all."}
    write_rows(project / "t.jsonl", *rows)  # no hook says that the turn stopped
    _stop(project, "claude", project / "t.jsonl", **asked)
    write_rows(project / "t.jsonl", *rows, claude.row("user", asked["prompt"]), claude.answer("Done.", 9))
    _stop(project, "claude", project / "t.jsonl")
    heard = engine.sessions.events("S1", EventKind.PROMPT, EventKind.ANSWER)
    assert [event.text for event in heard] == [DECIDED, asked["prompt"], "Done."]


def test_calls_of_claude_are_in_their_order_whichever_hook_ends_first(engine: Engine, project: Path) -> None:
    commands, transcript = ["pytest", "pip install apsw", "pytest -q"], project / "t.jsonl"
    rows = [row for each in commands for row in (claude.call(each, "Bash", command=each), claude.result(each, "done"))]
    write_rows(transcript, claude.row("user", "Repair the tests."), *rows)
    for each in (commands[2], commands[0]):  # the hook of the second one was killed
        _call(project, "claude", transcript, each)
    calls = engine.sessions.events("S1", EventKind.TOOL)
    assert [event.text.partition("\n")[0] for event in calls] == commands


def test_what_was_said_between_calls_without_hooks_is_recorded_between_them(engine: Engine, project: Path) -> None:
    wrong, why = "<tool_use_error>String to replace not found in file.</tool_use_error>", "The file has tabs."
    edits = [row for each in "ab" for row in (claude.call(each, "Edit"), claude.result(each, wrong, failed=True))]
    said = [claude.answer(DECIDED, 9), *edits[:2], claude.answer(why, 9), *edits[2:], claude.call("make", "Bash")]
    write_rows(project / "t.jsonl", claude.row("user", "Lock the vault."), *said)
    _call(project, "claude", project / "t.jsonl", "make")
    kinds = [EventKind.ANSWER, EventKind.TOOL, EventKind.ANSWER, EventKind.TOOL, EventKind.TOOL]
    assert [event.kind for event in engine.sessions.events("S1")] == kinds


@pytest.mark.parametrize("is_reported", [False, True])
def test_what_a_person_says_while_claude_works_is_recorded_once(
    engine: Engine, project: Path, *, is_reported: bool
) -> None:
    """Some versions run the hook of a prompt for it, others do not."""
    asked, other = "Use a database row after all.", "Then the gate."
    queue = [
        {"type": "queue-operation", "operation": operation, "timestamp": "2026-11-21T20:58:00Z", **content}
        for operation, content in (("enqueue", {"content": other}), ("remove", {}))
    ]
    attachment = {"type": "attachment", "attachment": {"type": "queued_command", "prompt": asked}}
    rows = [claude.row("user", "Lock the vault."), *queue, *[claude.answer("So.", 9)] * 40, attachment]
    if is_reported:
        write_rows(project / "t.jsonl", rows[0])
        _stop(project, "claude", project / "t.jsonl", hook_event_name="UserPromptSubmit", prompt=asked)
    write_rows(project / "t.jsonl", *rows, claude.call("make", "Bash"))
    _call(project, "claude", project / "t.jsonl", "make")
    _stop(project, "claude", project / "t.jsonl")
    assert [event.text for event in engine.sessions.events("S1", EventKind.PROMPT)] == [asked, other]


def test_a_plan_said_before_a_kill_is_told_to_the_next_session(
    engine: Engine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project))
    transcript = project / ".qwen/projects/p/chats/S1.jsonl"
    transcript.parent.mkdir(parents=True)
    _call(project, "qwen", transcript, "make test")  # then it is killed: no hook says that it stopped
    write_rows(transcript, _qwen("user", "Lock the vault."), _qwen("assistant", PLAN))
    start = {"session_id": "S2", "cwd": str(project), "hook_event_name": "SessionStart", "source": "startup"}
    assert hook(project, json.dumps(start).encode(), "qwen").returncode == 0
    assert [item.text for item in _items(engine, ItemKind.PLAN)] == [PLAN]
    (session,) = engine.sessions.latest(before="S2")
    assert (session.id, session.state) == ("S1", "active")


def test_opencode_tells_with_a_call_what_was_said_before_it(engine: Engine, project: Path) -> None:
    told: Json = {"event": "tool.execute.after", "directory": str(project), "output": {"output": "done"}}
    told["input"] = {"sessionID": "S1", "tool": "bash", "callID": "c1", "args": {"command": "make"}}
    assert hook(project, json.dumps({**told, "texts": [DECIDED]}).encode(), "opencode").returncode == 0
    assert [event.kind for event in engine.sessions.events("S1")] == [EventKind.ANSWER, EventKind.TOOL]


def test_opencode_tells_itself_what_was_said(engine: Engine, project: Path) -> None:
    told = {"event": "session.idle", "directory": str(project), "input": {"sessionID": "S1"}}
    done = hook(project, json.dumps({**told, "texts": [DECIDED, "x" * 5_000, PLAN]}).encode(), "opencode")
    assert done.returncode == 0
    assert [item.text for item in engine.sessions.items("S1")] == [DECIDED, PLAN]


def test_what_was_said_before_a_session_broke_off_is_kept(engine: Engine, project: Path) -> None:
    write_rows(project / "t.jsonl", claude.row("user", "Lock the vault."), claude.answer(DECIDED, 9))
    _stop(project, "claude", project / "t.jsonl", hook_event_name="SessionEnd", reason="other")
    assert [item.text for item in _items(engine, ItemKind.DECISION)] == [DECIDED]
    session = engine.sessions.get("S1")
    assert session is not None
    assert session.state == "completed"


def test_what_cline_reports_by_no_hook_is_read_from_its_files(
    engine: Engine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files are as the command line writes them: indented, the messages some time after the task began."""
    monkeypatch.setenv("HOME", str(project))
    folder = project / ".cline/data/sessions/S1"
    folder.mkdir(parents=True)

    def say(role: str, words: str) -> Json:
        return {"role": role, "content": [{"type": "text", "text": words}]}

    def report(messages: list[Json], **fields: Any) -> None:
        text = json.dumps({"sessionId": "S1", "messages": messages}, indent=2)
        (folder / "S1.messages.json").write_text(text, encoding="utf-8")
        sent = cline.payload(**fields, sessionContext={"rootSessionId": "S1"}, workspaceRoots=[str(project)])
        assert hook(project, json.dumps(sent).encode(), "cline").stderr == b""

    first, second = "Lock the vault of the museum.", "Now lock the gate."
    settings = {"session_id": "S1", "prompt": first}
    (folder / "S1.json").write_text(json.dumps(settings, indent=2), encoding="utf-8")
    report([], taskStart={"taskMetadata": {}})
    assert [event.text for event in engine.sessions.events("S1", EventKind.PROMPT)] == [first]
    turn = [say("user", f'<user_input mode="act">{first}</user_input>'), say("assistant", DECIDED)]
    report([*turn, say("user", "<hook_context>x</hook_context>")], taskComplete={}, turn={"outputText": "Done."})
    assert [item.text for item in _items(engine, ItemKind.DECISION)] == [DECIDED]
    turn += [say("user", f'<user_input mode="act">{second}</user_input>'), say("assistant", PLAN)]
    report(turn, taskComplete={}, turn={"outputText": PLAN}, timestamp="2026-11-21T20:58:00.000Z")
    assert [event.text for event in engine.sessions.events("S1", EventKind.PROMPT)] == [first, second]
    assert [item.text for item in _items(engine, ItemKind.DECISION)] == [DECIDED]


@pytest.mark.parametrize("by_worker", [False, True])
def test_what_a_client_wrote_down_after_its_last_hook_is_told_to_the_next_session(
    engine: Engine, project: Path, monkeypatch: pytest.MonkeyPatch, *, by_worker: bool
) -> None:
    """Copilot CLI writes its transcript some time later, and names it at a stop only."""
    monkeypatch.setenv("HOME", str(project))
    transcript = project / ".copilot/session-state/S1/events.jsonl"
    for event, fields in (
        ("userPromptSubmitted", {"prompt": "Lock the vault of the museum."}),
        ("postToolUse", {"toolName": "bash", "toolArgs": {"command": "make"}, "toolResult": {"resultType": "success"}}),
        ("agentStop", {"transcriptPath": str(transcript), "stopReason": "end_turn"}),
        ("sessionEnd", {"reason": "complete"}),
    ):
        with lock(engine.folder / DRAFTS_LOCK, 0):  # so that the last hook starts no worker
            _copilot_event(project, event, "S1", **fields)
    transcript.parent.mkdir(parents=True)
    write_rows(transcript, _copilot("user", "Lock the vault of the museum."), _copilot("assistant", DECIDED))
    if by_worker:
        subprocess.run([sys.executable, "-c", _WORK, str(project)], check=True)
        transcript.unlink()
    told = _copilot_event(project, "sessionStart", "S2", source="new")
    assert DECIDED in told
    (session,) = engine.sessions.latest(before="S2")
    assert (session.id, session.state) == ("S1", "completed")
    _copilot_event(project, "sessionStart", "S3", source="new")
    assert len(_items(engine, ItemKind.DECISION)) == 1


def test_what_the_last_session_said_is_found_by_meaning_without_a_server(
    engine: Engine, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "minilm")
    _copilot_event(project, "userPromptSubmitted", "S1", prompt=f"Lock the vault of the museum. {DECIDED}")
    done = {"toolName": "bash", "toolArgs": {"command": "make"}, "toolResult": {"resultType": "success"}}
    _copilot_event(project, "postToolUse", "S1", **done)
    with lock(engine.folder / DRAFTS_LOCK, 0):  # so that the last hook starts no worker
        _copilot_event(project, "sessionEnd", "S1", reason="complete")
    subprocess.run([sys.executable, "-c", _WORK, str(project)], check=True)
    with open_engine(load(project)) as opened:
        ready, total = index.count_vectors(opened)
    assert ready == total > 0


def _copilot_event(project: Path, event: str, session: str, **fields: Any) -> str:
    payload = json.dumps({"sessionId": session, "cwd": str(project), "timestamp": 1, **fields}).encode()
    done = hook(
        project,
        payload,
        "copilot",
        RUN.replace("; main.run()", f"; import sys; sys.argv.append({event!r}); main.run()"),
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


@pytest.mark.parametrize("code", [0, 1])
def test_a_patch_inside_of_a_codex_shell_command_is_an_edit(engine: Engine, project: Path, code: int) -> None:
    sent = json.dumps({"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF"]})
    write_rows(
        project / "t.jsonl",
        codex.said("user", "Mend the till."),
        codex.call("k-1", "shell", sent),
        codex.row("event_msg", type="patch_apply_end", call_id="k-1", success=code == 0),
        codex.output("k-1", "Success. Updated the following files:\nM src/till.py\n"),
        codex.call("k-2", "shell", '{"command": ["ls"]}'),
        codex.output("k-2", "till.py"),
    )
    for _ in range(2):
        _stop(project, "codex", project / "t.jsonl")
    (event,) = engine.sessions.events("S1", EventKind.TOOL)
    assert (event.path, event.failed) == ("src/till.py", code == 1)
    assert [item.path for item in _items(engine, ItemKind.FILE)] == ["src/till.py"] * (code == 0)


def test_a_patch_inside_of_a_shell_command_is_recorded_before_the_call_after_it(engine: Engine, project: Path) -> None:
    sent = json.dumps({"command": ["bash", "-lc", f"apply_patch <<'EOF'\n{PATCH}\nEOF"]})
    write_rows(
        project / "t.jsonl",
        codex.said("user", "Mend the till."),
        codex.call("k-1", "shell", sent),
        codex.output("k-1", "Success. Updated the following files:\nM src/till.py\n"),
        codex.call("k-2", "shell", '{"command": ["make", "check"]}'),
        codex.output("k-2", "12 passed"),
    )
    call = {"tool_name": "Bash", "tool_input": {"command": "make check"}, "tool_response": "12 passed"}
    _stop(project, "codex", project / "t.jsonl", hook_event_name="PostToolUse", tool_use_id="k-2", **call)
    _stop(project, "codex", project / "t.jsonl")
    assert [event.tool for event in engine.sessions.events("S1", EventKind.TOOL)] == ["Edit", "Bash"]


def test_a_patch_that_could_not_be_applied_has_failed(engine: Engine, project: Path) -> None:
    ended = codex.row("event_msg", type="patch_apply_end", call_id="k-1", success=False)
    write_rows(project / "t.jsonl", ended)
    sent = {"tool_name": "apply_patch", "tool_input": {"command": PATCH}, "tool_response": "x", "tool_use_id": "k-1"}
    _stop(project, "codex", project / "t.jsonl", hook_event_name="PostToolUse", **sent)
    assert [event.failed for event in engine.sessions.events("S1")] == [True]


def test_what_a_person_settles_in_a_prompt_is_kept(engine: Engine, project: Path) -> None:
    asked = {"hook_event_name": "UserPromptSubmit", "prompt": "I'd rather exclude the diary folder from the checks."}
    _stop(project, "claude", project / "t.jsonl", **asked)
    (item,) = _items(engine, ItemKind.DECISION)
    assert (item.text, item.source.trust) == (asked["prompt"], Trust.FILE)


def test_what_was_said_in_a_pause_is_not_heard_after_it(engine: Engine, project: Path) -> None:
    for act in ("pause", "resume"):
        assert main(["capture", act, "--project", str(project)]) == 0
    before, after = ({"timestamp": f"{year}-01-01T00:00:00Z"} for year in (2020, 2090))
    rows = (claude.answer("I decided to keep quiet about the harbour.", 9), claude.answer(DECIDED, 9))
    write_rows(project / "t.jsonl", {**rows[0], **before}, {**rows[1], **after})
    _stop(project, "claude", project / "t.jsonl")
    assert [item.text for item in engine.sessions.items("S1")] == [DECIDED]


@pytest.mark.parametrize(("began", "heard"), [(-60, []), (60, ["Lock the vault."])])
def test_after_a_pause_new_sessions_of_cline_are_heard_though_its_files_tell_no_times(
    engine: Engine, project: Path, monkeypatch: pytest.MonkeyPatch, began: int, heard: list[str]
) -> None:
    monkeypatch.setenv("HOME", str(project))
    for act in ("pause", "resume"):
        assert main(["capture", act, "--project", str(project)]) == 0
    session = f"{int((time.time() + began) * 1000)}_ejzj4"
    file = project / f".cline/data/sessions/{session}/{session}.messages.json"
    file.parent.mkdir(parents=True)
    asked = {"role": "user", "content": [{"type": "text", "text": "<user_input>Lock the vault.</user_input>"}]}
    file.write_text(json.dumps({"sessionId": session, "messages": [asked]}, indent=2), encoding="utf-8")
    about: Json = {"sessionContext": {"rootSessionId": session}, "workspaceRoots": [str(project)]}
    sent = cline.payload(**about, taskComplete={}, turn={"outputText": "Done."})
    assert hook(project, json.dumps(sent).encode(), "cline").stderr == b""
    assert [event.text for event in engine.sessions.events(session, EventKind.PROMPT)] == heard
