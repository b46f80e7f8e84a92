"""GitHub Copilot CLI; its payloads do not name their event."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.app.clients.record import Case, Json, Record, Session, Store, lines, write_rows
from tests.app.clients.words import AT, CONTENT, CWD, ENDS_WITH_3, HOOK, NOON, SERVER

from scrimshaw.models import EventKind


def payload(**fields: Any) -> Json:
    return {"sessionId": "a0e847d5", "timestamp": 1795294367087, "cwd": CWD, **fields}


def row(kind: str, **data: Any) -> Json:
    return {"type": kind, "data": data, "timestamp": NOON, "id": "e"}


def _usage(tokens: int, interaction: str = "conversation-agent") -> Json:
    usage = {"inputTokens": tokens, "maxPromptTokens": 128_000, "interactionType": interaction}
    return row("session.usage_record", usage=usage)


def _lay_out(home: Path, project: Path) -> None:
    write_rows(
        home / ".copilot/session-state/p-1/events.jsonl",
        row("session.start", sessionId="p-1", context={"cwd": str(project)}),
        row("tool.execution_start", toolCallId="k", toolName="bash", arguments={"command": "make"}),
        row("tool.execution_complete", toolCallId="k", success=True, result={"content": "ok"}),
    )


RECORD = Record(
    events=[
        Case(
            "start",
            payload(source="new", initialPrompt="do it"),
            {"kind": "start", "occasion": "startup", "session": "a0e847d5"},
            "sessionStart",
        ),
        Case(
            "shell",
            payload(
                toolName="bash",
                toolArgs={"command": ENDS_WITH_3},
                toolResult={
                    "resultType": "success",
                    "textResultForLlm": "to-stdout\nto-stderr\n<shellId: 0 completed with exit code 3>",
                },
            ),
            {"tool": "Bash", "arguments": {"command": ENDS_WITH_3}, "output": "to-stdout\nto-stderr", "failed": True},
            "postToolUse",
        ),
        Case(
            "view, with arguments as a text",
            payload(
                toolName="view",
                toolArgs='{"path": "/p/notes.txt"}',
                toolResult={"resultType": "success", "textResultForLlm": "deploy port\n"},
            ),
            {"tool": "Read", "arguments": {"path": "/p/notes.txt"}, "output": "deploy port\n", "failed": False},
            "postToolUse",
        ),
        Case(
            "command that still runs",
            payload(
                toolName="bash",
                toolArgs={"command": "make"},
                toolResult={
                    "resultType": "success",
                    "textResultForLlm": "a\n<command with shellId: 0 is still running.>",
                },
            ),
            {"tool": "Bash", "output": "a", "failed": None},
            "postToolUse",
        ),
        Case(
            "patch, which is plain text",
            payload(toolName="apply_patch", toolArgs="+x", toolResult={"textResultForLlm": "ok"}),
            {"tool": "Edit", "arguments": {"input": "+x"}, "failed": False},
            "postToolUse",
        ),
        Case(
            "denied",
            payload(toolName="edit", toolResult={"resultType": "denied", "textResultForLlm": "not allowed"}),
            {"tool": "Edit", "failed": True},
            "postToolUse",
        ),
        Case(
            "tool of another server",
            payload(toolName="github-get_issue", toolResult={"resultType": "success", "textResultForLlm": "#1"}),
            {"tool": "Mcp"},
            "postToolUse",
        ),
        Case(
            "stop",
            payload(transcriptPath="/home/dev/.copilot/events.jsonl", stopReason="end_turn"),
            {"kind": "stop", "transcript": "/home/dev/.copilot/events.jsonl"},
            "agentStop",
        ),
    ],
    unused=[(payload(toolName="bash", toolArgs={}), "preToolUse")],
    own_calls=[(payload(toolName="mem-memory_search", toolResult={}), "postToolUse")],
    prompt=(payload(prompt="continue"), "userPromptSubmitted"),
    next_turn={"timestamp": 1795294368087},
    replies={key: {"additionalContext": CONTENT} for key in (EventKind.START, EventKind.PROMPT, EventKind.TOOL)},
    files=(["h/.copilot/mcp-config.json", "h/.copilot/hooks/scrimshaw.json"],),
    server=("h/.copilot/mcp-config.json", "mcpServers", {"type": "local", **SERVER, "tools": ["*"]}),
    handler=lambda event: {
        "type": "command",
        "bash": f"{HOOK} copilot {event} ; exit 0",
        "powershell": f"& {HOOK} copilot {event} ; exit 0",
        "timeoutSec": 5,
    },
    report=lambda event: (payload(prompt="p", toolName="view"), event),
    context=[
        ([_usage(32_000), _usage(9, "conversation-subagent")], 0.25),
        ([_usage(32_000), row("session.compaction_complete")], None),
    ],
    answers=[
        (
            [row("assistant.message", content="done"), row("assistant.message", content="side", parentToolCallId="c")],
            ["done"],
        )
    ],
    transcript=Session(
        source=lines(
            row("session.start", sessionId="p-1", context={"cwd": "/home/ann/shop"}),
            row("user.message", content="Fix the till.", transformedContent="with context"),
            row(
                "assistant.message",
                content="I test.",
                toolRequests=[{"toolCallId": "q-1", "name": "bash", "arguments": '{"command": "make test"}'}],
            ),
            row("tool.execution_start", toolCallId="q-1", toolName="bash", arguments={"command": "make test"}),
            row(
                "tool.execution_complete",
                toolCallId="q-1",
                success=True,
                result={"content": "boom\n<shellId: 0 completed with exit code 2>"},
            ),
            row("tool.execution_start", toolCallId="q-2", toolName="edit", arguments={}),
            row("tool.execution_complete", toolCallId="q-2", success=False, error={"code": "denied"}),
            row("session.compaction_complete", summaryContent="so far"),
            row("assistant.message", content="Looked.", parentToolCallId="q-9"),
        ),
        session="p-1",
        cwd="/home/ann/shop",
        told=[
            ("prompt", "Fix the till."),
            ("answer", "I test."),
            ("tool", "Bash: boom"),
            ("compact", "so far"),
            ("answer", "Looked."),
        ],
        call=("Bash", "bash", {"command": "make test"}, "boom", True, "q-1", AT),
        last_agent="q-9",
    ),
    stores=[Store(lay_out=_lay_out, sessions=["p-1"], calls=1)],
)
