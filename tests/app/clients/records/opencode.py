"""OpenCode; its payloads are made by our plugin."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import apsw
from tests.app.clients.record import Case, Json, Record, Session, Store, lines
from tests.app.clients.words import AT, CONTENT, CWD, MCP_TEXT, OURS

from scrimshaw.models import EventKind

TABLES = """
CREATE TABLE session (id TEXT, parent_id TEXT, directory TEXT, time_created INTEGER, revert TEXT);
CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT);
"""


def payload(event: str, told: Mapping[str, Any], output: Mapping[str, Any] | None = None, **fields: Any) -> Json:
    told = {"sessionID": "ses_1", **told}
    return {"event": event, "directory": CWD, "input": told, "output": output or {}, **fields}


def message(role: str, *parts: Json, **info: Any) -> Json:
    return {"info": {"role": role, "time": {"created": AT * 1000}, **info}, "parts": list(parts)}


def call(status: str = "completed", **state: Any) -> Json:
    time = {"start": AT * 1000, "end": (AT + 1) * 1000}
    told = {"status": status, "input": {"command": "make test"}, "time": time, **state}
    return {"type": "tool", "callID": "o-1", "tool": "bash", "state": told}


def session(*messages: Json, **info: Any) -> str:
    return lines({"info": {"id": "ses_1", "directory": "/home/ann/shop", **info}, "messages": list(messages)})


def _prompt(name: str) -> Json:
    return payload("chat.message", {}, {"message": {"id": name}, "parts": [{"type": "text", "text": "continue"}]})


_ABOUT, _PART = {"role": "assistant", "time": {"created": AT * 1000}}, call(output="ok")


def _write_database(home: Path, project: Path) -> None:
    folder = home / ".local/share/opencode"
    folder.mkdir(parents=True)
    database = apsw.Connection(str(folder / "opencode.db"))
    database.execute(TABLES)
    for name, parent in (("ses_1", None), ("ses_2", "ses_1")):
        database.execute("INSERT INTO session VALUES (?,?,?,?,NULL)", (name, parent, str(project), int(AT * 1000)))
        database.execute("INSERT INTO message VALUES (?,?,?,?)", (f"m-{name}", name, 1, lines(_ABOUT)))
        part = lines({**_PART, "callID": f"k-{name}"})
        database.execute("INSERT INTO part VALUES (?,?,?,?)", ("x", f"m-{name}", name, part))
    database.execute("INSERT INTO session VALUES ('ses_3', NULL, '/elsewhere', 5, NULL)")
    database.close()


RECORD = Record(
    events=[
        Case(
            "start",
            payload("session.created", {"info": {"directory": CWD}}),
            {"kind": "start", "occasion": "startup", "session": "ses_1", "cwd": CWD},
        ),
        Case(
            "prompt",
            payload(
                "chat.message",
                {},
                {
                    "message": {"id": "msg_1", "model": {"modelID": "m"}},
                    "parts": [{"type": "text", "text": "do it"}, {"type": "text", "text": "a file", "synthetic": True}],
                },
            ),
            {"kind": "prompt", "prompt": "do it", "call_id": "msg_1"},
        ),
        Case(
            "shell",
            payload(
                "tool.execute.after",
                {"tool": "bash", "callID": "call_84bb", "args": {"command": "make"}},
                {"title": "make", "metadata": {"output": "boom\n", "exit": 2}, "output": "boom\n"},
                tokens={"input": 100_000, "output": 2_000, "cache": {"read": 20_000, "write": 0}},
                limit=200_000,
            ),
            {"tool": "Bash", "output": "boom\n", "failed": True, "call_id": "call_84bb", "context_used": 0.61},
        ),
        Case(
            "read",
            {
                "input": {"tool": "read", "sessionID": "ses_1", "callID": "c", "args": {"filePath": "/p/notes.txt"}},
                "output": {"output": "<content>\n1: port\n</content>", "metadata": {"display": {"text": "port"}}},
            },
            {"tool": "Read", "output": "port", "failed": False},
            "tool.execute.after",
        ),
        Case(
            "patch",
            payload("tool.execute.after", {"tool": "apply_patch", "args": {"patchText": "+x"}}, {"output": "Success."}),
            {"tool": "Edit", "arguments": {"patchText": "+x"}, "output": "Success.", "failed": False},
        ),
        Case(
            "tool of another server",
            payload("tool.execute.after", {"tool": "db_query"}, {"content": MCP_TEXT}),
            {"tool": "Mcp", "output": "two hits", "failed": False},
        ),
        Case(
            "tool that threw",
            payload("tool.error", {"tool": "edit", "callID": "c", "args": {}}, {"error": "no match"}),
            {"tool": "Edit", "output": "no match", "failed": True},
        ),
        Case(
            "sub-agent",
            payload("session.idle", {}, parent="ses_0", texts=["Looked.", "Found it."]),
            {
                "kind": "stop",
                "session": "ses_0",
                "agent": "ses_1",
                "output": "Found it.",
                "said": ("Looked.", "Found it."),
            },
        ),
        Case("after compaction", payload("session.compacted", {}), {"kind": "start", "occasion": "compact"}),
    ],
    unused=[(payload("session.status", {}), "")],
    own_calls=[(payload("tool.execute.after", {"tool": "mem_memory_search"}, {"content": []}), "")],
    prompt=(_prompt("msg_1"), ""),
    next_turn=_prompt("msg_2"),
    replies={EventKind.START: {"context": CONTENT}, EventKind.PROMPT: {"context": CONTENT}},
    files=(
        ["h/.config/opencode/opencode.json", "h/.config/opencode/plugin/scrimshaw.js"],
        ["p/opencode.json", "p/.opencode/plugin/scrimshaw.js"],
    ),
    server=(
        "h/.config/opencode/opencode.json",
        "mcp",
        {"type": "local", "command": [OURS.server, "serve"], "enabled": True},
    ),
    answers=[([{"role": "assistant", "text": "done"}], [])],
    transcript=Session(
        source=session(
            message(
                "user", {"type": "text", "text": "Fix the till."}, {"type": "text", "text": "x", "synthetic": True}
            ),
            message(
                "assistant",
                {"type": "reasoning", "text": "hm"},
                call(output="boom", metadata={"exit": 2}),
                {"type": "text", "text": "Done."},
            ),
            message("assistant", {"type": "text", "text": "so far"}, summary=True),
        ),
        session="ses_1",
        cwd="/home/ann/shop",
        told=[("prompt", "Fix the till."), ("tool", "Bash: boom"), ("answer", "Done."), ("compact", "so far")],
        call=("Bash", "bash", {"command": "make test"}, "boom", True, "o-1", AT + 1),
    ),
    stores=[
        Store(lay_out=_write_database, sessions=["ses_1"], calls=2),
    ],
)
