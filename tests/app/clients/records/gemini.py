"""Gemini CLI."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
from tests.app.clients.record import Case, Json, Record, Session, Store, group_handler, hook_reply, lines, write_rows
from tests.app.clients.words import AT, CWD, DONE, ENDS_WITH_3, NOON, SERVER

from scrimshaw.models import EventKind

META = {"sessionId": "g-s", "projectHash": "ab" * 32, "startTime": NOON, "kind": "main"}
_REPORT = "Command: make test\nDirectory: (root)\nOutput: boom\nError: (none)\nExit Code: 2\nSignal: 0"
_FRAMED = f"<untrusted_context>\n{_REPORT}\n</untrusted_context>"
_TOLD = '\n\n<hook_context>&lt;scrimshaw-memory note="x"&gt;\n- task: y\n&lt;/scrimshaw-memory&gt;</hook_context>'


def payload(event: str, **fields: Any) -> Json:
    return {
        "session_id": "e09f02c6",
        "transcript_path": "/home/dev/.gemini/tmp/p/chats/session.jsonl",
        "cwd": CWD,
        "hook_event_name": event,
        "timestamp": "2026-11-21T20:40:38.907Z",
        **fields,
    }


def row(kind: str, name: str, content: Any = "", **fields: Any) -> Json:
    return {"id": name, "timestamp": NOON, "type": kind, "content": content, **fields}


def call(status: str, output: str, **fields: Any) -> Json:
    return {
        "id": "g-1",
        "name": "run_shell_command",
        "args": {"command": "make test"},
        "status": status,
        "result": [{"functionResponse": {"id": "g-1", "response": {"output": output}}}],
        "timestamp": NOON,
        **fields,
    }


def answer(text: str, tokens: int, model: str = "gemini-2.5-pro") -> Json:
    return row("gemini", f"m-{text}", text, tokens={"total": tokens}, model=model)


def rewrite(*messages: Json) -> str:
    """The line of a history that replaces the one before it, as Gemini CLI writes it."""
    history = {"messages": messages, "lastUpdated": "2026-11-29T22:24:41.136Z"}
    return msgspec.json.encode({"$set": history}).decode()


def compaction(summary: str, *kept: Json) -> str:
    """The line of a compaction: the client's own context, the summary, what it lets the model answer, what it kept."""
    context = row(
        "user", "m-0", [{"text": "<session_context>\nThis is the Gemini CLI.\n└───.git/...\n</session_context>"}]
    )
    taken_in = row("gemini", "m-00", [{"text": "Got it. Thanks for the additional context!"}])
    return rewrite(context, row("user", "m-01", [{"text": summary}]), taken_in, *kept)


def _lay_out(home: Path, project: Path) -> None:
    chats = home / ".gemini/tmp/shop/chats"
    message = row("gemini", "m", toolCalls=[call("success", "ok")])
    about = {"sessionId": "12345678-g", "projectHash": hashlib.sha256(str(project).encode()).hexdigest()}
    write_rows(chats / "session-2026-03-01T12-00-12345678.jsonl", about, message)
    whole = {"sessionId": "old-file", "projectHash": about["projectHash"], "messages": [message]}
    (chats / "session-2026-02-01T12-00-old-file.json").write_bytes(msgspec.json.format(msgspec.json.encode(whole)))
    write_rows(chats / "session-other.jsonl", {"sessionId": "other", "projectHash": "0" * 64}, message)


RECORD = Record(
    events=[
        Case(
            "prompt without what was injected before it",
            payload("BeforeAgent", prompt="<hook_context>earlier\nnotes</hook_context>\n\ndo it"),
            {"kind": "prompt", "prompt": "do it"},
        ),
        Case(
            "shell",
            payload(
                "AfterTool",
                tool_name="run_shell_command",
                tool_input={"command": ENDS_WITH_3},
                tool_response={
                    "llmContent": "<untrusted_context>\nOutput: to-stdout\nto-stderr\nExit Code: 3\n"
                    "Process Group PGID: 20771\n</untrusted_context>",
                    "returnDisplay": "to-stdout\nto-stderr",
                },
            ),
            {"tool": "Bash", "output": "to-stdout\nto-stderr", "failed": True},
        ),
        Case(
            "shell that ends well",
            payload(
                "AfterTool",
                tool_name="run_shell_command",
                tool_response={
                    "llmContent": "<untrusted_context>\nOutput: ok\nProcess Group PGID: 5\n</untrusted_context>"
                },
            ),
            {"tool": "Bash", "output": "ok", "failed": False},
        ),
        Case(
            "error",
            payload(
                "AfterTool",
                tool_name="read_file",
                tool_response={"llmContent": "File not found.", "error": {"type": "file_not_found"}},
            ),
            {"tool": "Read", "output": "File not found.", "failed": True},
        ),
        Case(
            "tool of another server",
            payload(
                "AfterTool",
                tool_name="mcp_db_query",
                tool_response={"llmContent": [{"text": "<untrusted_context>\n3 rows\n</untrusted_context>"}]},
                mcp_context={"server_name": "db", "tool_name": "query"},
            ),
            {"tool": "Mcp", "output": "3 rows", "failed": False},
        ),
        Case(
            "what the agent says through a tool",
            payload(
                "AfterTool",
                tool_name="update_topic",
                tool_input={"summary": "I read the cache. It never expires.", "strategic_intent": "Test it."},
                tool_response={"llmContent": "Strategic Intent: Test it."},
            ),
            {"tool": "update_topic", "said": ("I read the cache. It never expires.",)},
        ),
        Case(
            "stop",
            payload("AfterAgent", prompt="do it", prompt_response=DONE),
            {"kind": "stop", "output": DONE, "prompt": ""},
        ),
        Case("compaction is a maybe", payload("PreCompress", trigger="auto"), {"kind": "compact", "occasion": "maybe"}),
    ],
    unused=[(payload("BeforeModel"), ""), (payload("AfterModel"), "")],
    own_calls=[(payload("AfterTool", tool_name="mcp_mem_memory_search"), "")],
    prompt=(payload("BeforeAgent", prompt="continue"), ""),
    next_turn={"timestamp": "2026-11-21T20:41:00.000Z"},
    replies={
        EventKind.START: hook_reply("SessionStart"),
        EventKind.PROMPT: hook_reply("BeforeAgent"),
        EventKind.TOOL: hook_reply("AfterTool"),
    },
    files=(["h/.gemini/settings.json"], ["p/.gemini/settings.json"]),
    server=("h/.gemini/settings.json", "mcpServers", {**SERVER, "trust": True}),
    handler=lambda event: group_handler("gemini", 5000),
    report=lambda event: (payload(event, prompt="p", tool_name="Read"), ""),
    context=[
        ([answer("a", 5), answer("go", 524_288), answer("go", 524_288)], 0.5),
        ([answer("a", 5, model="some-other-model")], None),
    ],
    # A message is written again with each call that it makes.
    answers=[([answer("go", 9), answer("go", 524_288), answer("", 9), answer("done", 9)], ["go", "done"])],
    transcript=Session(
        source=lines(
            META,
            row("user", "m-1", [{"text": "<session_context>tree</session_context>"}]),
            row("user", "m-2", [{"text": "<hook_context>x</hook_context>\nFix the till."}]),
            row("gemini", "m-3", "", toolCalls=[call("executing", "")]),
            row("gemini", "m-3", "I test.", toolCalls=[call("success", _FRAMED + _TOLD)]),
            row("info", "m-4", "Request cancelled."),
            {"$set": {"lastUpdated": NOON}},
            row("gemini", "m-5", "taken back"),
            {"$rewindTo": "m-5"},
            row("gemini", "m-6", "Done."),
        ),
        session="g-s",
        cwd="",
        told=[("prompt", "Fix the till."), ("answer", "I test."), ("tool", "Bash: boom"), ("answer", "Done.")],
        call=("Bash", "run_shell_command", {"command": "make test"}, "boom", True, "g-1", AT),
    ),
    stores=[Store(lay_out=_lay_out, sessions=["12345678-g", "old-file"], calls=2)],
)
