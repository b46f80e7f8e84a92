"""Claude Code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.app.clients.record import Case, Json, Record, Session, Store, group_handler, hook_reply, lines, write_rows
from tests.app.clients.words import AT, COMMIT, CWD, DONE, ENDS_WITH_3, MCP_TEXT, NOON, SERVER

from scrimshaw.models import EventKind


def payload(event: str, **fields: Any) -> Json:
    return {
        "session_id": "0e24cf7b",
        "transcript_path": "/home/dev/.claude/projects/p/0e24cf7b.jsonl",
        "cwd": CWD,
        "prompt_id": "489e1c54",
        "hook_event_name": event,
        **fields,
    }


def row(kind: str, content: Any, **fields: Any) -> Json:
    about = {"sessionId": "s-1", "cwd": "/home/ann/shop", "timestamp": NOON, "isSidechain": False}
    return {**about, "type": kind, "message": {"role": kind, "content": content}, **fields}


def call(call_id: str, name: str, **arguments: Any) -> Json:
    return row("assistant", [{"type": "tool_use", "id": call_id, "name": name, "input": arguments}])


def result(call_id: str, content: Any, *, failed: bool | None = None, **fields: Any) -> Json:
    part = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return row("user", [part if failed is None else {**part, "is_error": failed}], **fields)


def answer(text: str, tokens: int, model: str = "claude-opus-4-6", **fields: Any) -> Json:
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 7, "cache_read_input_tokens": tokens - 10}
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": text}]
    message = {"model": model, "role": "assistant", "content": content, "usage": usage}
    return {"type": "assistant", "isSidechain": False, "message": message, **fields}


def _handler(event: str) -> Json:
    """Claude Code goes on where there is no answer."""
    beside = event in ("PostToolUse", "PostToolUseFailure", "SubagentStop")
    return group_handler("claude", 5, **({"async": True} if beside else {}))


def _lay_out(home: Path, project: Path) -> None:
    folder = home / ".claude/projects" / "".join(char if char.isalnum() else "-" for char in str(project))
    for name, cwd in (("s-1", project), ("s-2", home)):
        rows = (call("t-1", "Bash", command="make"), result("t-1", "ok"))
        write_rows(folder / f"{name}.jsonl", *({**each, "sessionId": name, "cwd": str(cwd)} for each in rows))


RECORD = Record(
    events=[
        Case(
            "start",
            payload("SessionStart", source="startup", model="claude-sonnet-4-5"),
            {"kind": "start", "occasion": "startup", "session": "0e24cf7b"},
        ),
        Case(
            "resume tells the context",
            payload("SessionStart", source="resume", context_tokens=32619),
            {"kind": "start", "occasion": "resume", "context_used": 0.163095},
        ),
        Case("prompt", payload("UserPromptSubmit", prompt="do it"), {"kind": "prompt", "prompt": "do it", "cwd": CWD}),
        Case(
            "bash",
            payload(
                "PostToolUse",
                tool_name="Bash",
                tool_input={"command": COMMIT},
                tool_response={"stdout": "261abd5 scripted commit", "stderr": "hint", "interrupted": False},
                tool_use_id="toolu_d195",
                duration_ms=215,
            ),
            {
                "kind": "tool",
                "tool": "Bash",
                "arguments": {"command": COMMIT},
                "output": "261abd5 scripted commit\nhint",
                "failed": False,
                "call_id": "toolu_d195",
            },
        ),
        Case(
            "read",
            payload(
                "PostToolUse",
                tool_name="Read",
                tool_input={"file_path": "/p/notes.txt"},
                tool_response={"type": "text", "file": {"filePath": "/p/notes.txt", "content": "deploy port\n"}},
            ),
            {"tool": "Read", "output": "deploy port\n", "failed": False},
        ),
        Case(
            "output of a task in the background",
            payload(
                "PostToolUse",
                tool_name="TaskOutput",
                tool_response={"retrieval_status": "success", "task": {"task_id": "b0", "output": "2 failed\n"}},
            ),
            {"tool": "TaskOutput", "output": "2 failed\n", "failed": False},
        ),
        Case(
            "failure",
            payload(
                "PostToolUseFailure",
                tool_name="Bash",
                tool_input={"command": ENDS_WITH_3},
                error="Exit code 3\nto-stdout\nto-stderr",
                is_interrupt=False,
            ),
            {"tool": "Bash", "failed": True, "output": "Exit code 3\nto-stdout\nto-stderr"},
        ),
        Case(
            "stopped by the user",
            payload("PostToolUseFailure", tool_name="Bash", error="", is_interrupt=True),
            {"failed": None},
        ),
        Case(
            "tool of another server",
            payload("PostToolUse", tool_name="mcp__memory__search_nodes", tool_response=MCP_TEXT),
            {"tool": "Mcp", "tool_name": "mcp__memory__search_nodes", "output": "two hits"},
        ),
        Case(
            "sub-agent's call",
            payload("PostToolUse", tool_name="Grep", agent_id="acff", agent_type="Explore"),
            {"tool": "Grep", "agent": "acff"},
        ),
        Case(
            "sub-agent's stop",
            payload("SubagentStop", agent_id="acff", last_assistant_message=DONE),
            {"kind": "stop", "agent": "acff", "output": DONE},
        ),
        Case(
            "main agent of a type of its own",
            payload("Stop", agent_type="reviewer", last_assistant_message=DONE),
            {"kind": "stop", "agent": "", "output": DONE},
        ),
        Case(
            "before compaction",
            payload("PreCompact", trigger="manual", custom_instructions="keep ports"),
            {"kind": "compact", "occasion": "manual", "output": ""},
        ),
        Case(
            "after compaction",
            payload("PostCompact", trigger="auto", compact_summary="ports kept"),
            {"kind": "compact", "occasion": "auto", "output": "ports kept"},
        ),
        Case("end", payload("SessionEnd", reason="other"), {"kind": "end", "occasion": "other"}),
    ],
    unused=[
        (payload("PreToolUse", tool_name="Bash"), ""),
        (payload("PostToolBatch", tool_calls=[]), ""),
        (payload("UserPromptSubmit", prompt="<task-notification>\n<task-id>b0be39e</task-id>"), ""),
        ({**payload("Stop"), "session_id": ""}, ""),
        (payload("PostToolUse"), ""),
        (
            payload(
                "PostToolUse",
                tool_name="ToolSearch",
                tool_input={"query": "memory_save", "max_results": 5},
                tool_response={
                    "matches": ["mcp__scrimshaw__memory_save"],
                    "query": "memory_save",
                    "total_deferred_tools": 25,
                },
            ),
            "",
        ),
    ],
    own_calls=[
        (payload("PostToolUse", tool_name="mcp__mem__memory_search"), ""),
        (payload("PostToolUse", tool_name="mcp__plugin_memplug_mem__memory_search"), ""),
    ],
    prompt=(payload("UserPromptSubmit", prompt="continue"), ""),
    next_turn={"prompt_id": "next"},
    replies={EventKind.START: hook_reply("SessionStart"), EventKind.PROMPT: hook_reply("UserPromptSubmit")},
    files=(
        ["h/.claude.json", "p/.claude/settings.local.json"],
        ["p/.mcp.json", "p/.claude/settings.json"],
        ["h/.claude.json", "h/.claude/settings.json"],
    ),
    server=("h/.claude.json", "mcpServers", SERVER),
    handler=_handler,
    report=lambda event: (payload(event, prompt="p", tool_name="Read"), ""),
    context=[
        ([answer("a", 20_000), answer("b", 100_000)], 0.5),
        ([answer("a", 100_000), answer("side", 10, isSidechain=True)], 0.5),
        ([answer("a", 100_000, model="claude-opus-4-6[1m]")], 0.1),
        ([answer("more than the short window holds", 500_000)], 0.5),
        ([answer("a", 190_000), {"type": "system", "subtype": "compact_boundary"}], None),
        ([{"type": "user", "message": {"content": "hello"}}], None),
    ],
    answers=[([answer("one", 9), answer("side", 9, isSidechain=True), answer("two", 9)], ["one", "two"])],
    transcript=Session(
        source=lines(
            {"type": "file-history-snapshot", "messageId": "m"},
            row("user", "Fix the till."),
            row("assistant", [{"type": "thinking", "thinking": "hm"}]),
            row("assistant", [{"type": "text", "text": "I look first."}]),
            call("t-1", "Bash", command="make test"),
            result("t-1", "Exit code 2\nboom", failed=True, toolUseResult="Error: Exit code 2\nboom"),
            row("user", [{"type": "text", "text": "Go on."}]),
            row("assistant", "Done."),
            {"type": "summary", "summary": "The till", "leafUuid": "x"},
        ),
        session="s-1",
        cwd="/home/ann/shop",
        told=[
            ("prompt", "Fix the till."),
            ("answer", "I look first."),
            ("tool", "Bash: Exit code 2\nboom"),
            ("prompt", "Go on."),
            ("answer", "Done."),
        ],
        call=("Bash", "Bash", {"command": "make test"}, "Exit code 2\nboom", True, "t-1", AT),
    ),
    stores=[Store(lay_out=_lay_out, sessions=["s-1"], calls=1)],
)
