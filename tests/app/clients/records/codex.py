"""Codex."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.app.clients.record import Case, Json, Record, Session, Store, group_handler, hook_reply, lines, write_rows
from tests.app.clients.words import AT, CWD, DONE, NOON, SERVER

from scrimshaw.models import EventKind

_PATCH = "*** Begin Patch\n*** Update File: notes.txt\n@@\n-a\n+b\n*** End Patch"


def payload(event: str, **fields: Any) -> Json:
    return {
        "session_id": "01a1ffe2",
        "turn_id": "01a1ffe2-1ce1",
        "transcript_path": "/home/dev/.codex/sessions/rollout.jsonl",
        "cwd": CWD,
        "hook_event_name": event,
        "model": "gpt-5-codex",
        **fields,
    }


def row(kind: str, **payload: Any) -> Json:
    return {"timestamp": NOON, "type": kind, "payload": payload}


def said(role: str, text: str) -> Json:
    return row("response_item", type="message", role=role, content=[{"type": "output_text", "text": text}])


def call(call_id: str, name: str, arguments: str, **fields: Any) -> Json:
    return row("response_item", type="function_call", call_id=call_id, name=name, arguments=arguments, **fields)


def output(call_id: str, output: Any) -> Json:
    return row("response_item", type="function_call_output", call_id=call_id, output=output)


def tokens(last: int) -> Json:
    info = {"total_token_usage": {"total_tokens": 999_999}, "last_token_usage": {"total_tokens": last}}
    return row("event_msg", type="token_count", info={**info, "model_context_window": 190_000})


def ending(call_id: str, code: int) -> Json:
    item = {"type": "CommandExecution", "id": call_id, "status": "completed", "exit_code": code}
    return row("event_msg", type="item_completed", item=item)


META = row("session_meta", id="c-1", cwd="/home/ann/shop", source="cli")


def _lay_out(home: Path, project: Path) -> None:
    file = home / ".codex/sessions/2026/03/01/rollout-2026-03-01T12-00-00-c-1.jsonl"
    about = row("session_meta", id="c-1", cwd=str(project), instructions="x" * 100_000)
    write_rows(file, about, call("k", "shell", '{"command": "make"}'), output("k", "ok"))


RECORD = Record(
    events=[
        Case("start", payload("SessionStart", source="compact"), {"kind": "start", "occasion": "compact"}),
        Case(
            "quiet command",
            payload("PostToolUse", tool_name="Bash", tool_response="to-stdout\n", tool_use_id="call_c17c"),
            {"tool": "Bash", "output": "to-stdout\n", "failed": None, "call_id": "call_c17c"},
        ),
        Case(
            "command that complains",
            payload("PostToolUse", tool_name="Bash", tool_response="cat: x.txt: No such file or directory\n"),
            {"failed": True},
        ),
        Case(
            "patch",
            payload("PostToolUse", tool_name="apply_patch", tool_input={"command": _PATCH}, tool_response="Done"),
            {"tool": "Edit", "arguments": {"patch": _PATCH}, "output": "Done", "failed": None},
        ),
        Case("stop", payload("Stop", last_assistant_message=DONE), {"kind": "stop", "output": DONE}),
        Case("compaction", payload("PreCompact", trigger="auto"), {"kind": "compact", "occasion": "auto"}),
    ],
    unused=[(payload("PostCompact", trigger="auto"), "")],
    own_calls=[(payload("PostToolUse", tool_name="mcp__mem__task_preflight"), "")],
    prompt=(payload("UserPromptSubmit", prompt="continue"), ""),
    next_turn={"turn_id": "next"},
    replies={EventKind.START: hook_reply("SessionStart"), EventKind.PROMPT: hook_reply("UserPromptSubmit")},
    files=(["h/.codex/config.toml", "h/.codex/hooks.json"], ["p/.codex/config.toml", "p/.codex/hooks.json"]),
    server=("h/.codex/config.toml", "mcp_servers", {**SERVER, "required": False}),
    handler=lambda event: group_handler("codex", 3 if event == "SessionEnd" else 5),
    report=lambda event: (payload(event, prompt="p", tool_name="Read"), ""),
    context=[
        ([tokens(19_000), tokens(95_000)], 0.5),
        ([tokens(250_000)], 1.0),
        ([tokens(95_000), row("compacted")], None),
    ],
    answers=[([said("user", "go"), said("assistant", "done"), tokens(9)], ["done"])],
    transcript=Session(
        source=lines(
            META,
            said("user", "# AGENTS.md instructions for /home/ann/shop"),
            said("user", "<environment_context><cwd>/home/ann/shop</cwd></environment_context>"),
            said("developer", "be brief"),
            said("user", "Fix the till."),
            row("event_msg", type="user_message", message="Fix the till."),
            call("k-1", "exec_command", '{"cmd": "make test"}'),
            output(
                "k-1",
                "Chunk ID: 1\nWall time: 0.1 seconds\nProcess exited with code 3\nOriginal token count: 2\n"
                "Output:\nboom",
            ),
            row("compacted", message="what was so far", replacement_history=[]),
            said("assistant", "Done."),
        ),
        session="c-1",
        cwd="/home/ann/shop",
        told=[("prompt", "Fix the till."), ("tool", "Bash: boom"), ("compact", "what was so far"), ("answer", "Done.")],
        call=("Bash", "exec_command", {"cmd": "make test"}, "boom", True, "k-1", AT),
    ),
    stores=[Store(lay_out=_lay_out, sessions=["c-1"], calls=1)],
)
