"""What mutation starts from: the repository's own tests, examples and documents."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from tests.app.clients import test_transcripts as rows
from tests.app.clients.test_payloads import _TABLE
from tests.app.clients.test_transcripts_claude import claude, claude_call, claude_result

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
NAUGHTY: tuple[str, ...] = tuple(json.loads((TESTS / "data/naughty_strings.json").read_text(encoding="utf-8")))


@cache
def literals(folder: str) -> tuple[str, ...]:
    """The texts that stand in the tests of a room, from which their tables are made."""
    found: dict[str, None] = {}
    for path in sorted((TESTS / folder).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        texts = (
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )
        found |= dict.fromkeys(text for text in texts if len(text) > 3)
    return tuple(found)


@cache
def documents() -> tuple[str, ...]:
    """Markdown files: the good and bad ones of the quality gate, the examples, the project's own pages."""
    folders = (TESTS / "ingest/quality_fixtures", ROOT / "examples/memories", ROOT / "docs")
    files = (path for folder in folders for path in sorted(folder.rglob("*.md"))[:60])
    return tuple(path.read_text(encoding="utf-8") for path in files) + literals("ingest")


def texts() -> tuple[str, ...]:
    """Anything that people, agents and tools write."""
    return (*documents(), *literals("session"), *NAUGHTY)


def payloads(client: str) -> tuple[str, ...]:
    """What a client's hooks send, as `[event hint, payload]`."""
    return tuple(json.dumps([hint, payload]) for _, who, hint, payload, _ in _TABLE if who == client)


def transcripts(client: str) -> tuple[str, ...]:
    """Sessions as a client writes them down."""
    return tuple(rows.lines(*session) for session in _SESSIONS[client])


def configurations() -> tuple[str, ...]:
    """Configurations in TOML, as tests and the generated page write them."""
    found = (each for folder in (".", "app", "scenarios", "engine") for each in literals(folder) if "=" in each)
    return tuple(dict.fromkeys([*found, *_commented()]))


def _commented() -> Iterable[str]:
    from scrimshaw.app.cli.project_files import config_text

    text = config_text()
    return text, "\n".join(line.removeprefix("# ") for line in text.splitlines())


_CLAUDE: list[Any] = [
    claude("user", "Fix the till."),
    claude("assistant", [{"type": "text", "text": "I look first."}]),
    claude_call("t-1", "Bash", command="make test"),
    claude_result("t-1", "Exit code 2\nboom", failed=True, toolUseResult="Error: Exit code 2\nboom"),
    {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "more"}, "timestamp": rows.NOON},
]
_CODEX: list[Any] = [
    rows.META,
    rows.codex_said("user", "Fix the till."),
    rows.codex_call("c-1", "shell", '{"command": ["bash", "-lc", "make test"]}'),
    rows.codex_output("c-1", "Exit code: 1\nOutput:\nboom"),
    rows.codex_said("assistant", "Done."),
]
_GEMINI: list[Any] = [
    rows.GEMINI_META,
    {"id": "1", "type": "user", "content": [{"text": "Fix the till."}], "timestamp": rows.NOON},
    {
        "id": "2",
        "type": "gemini",
        "content": "Done.",
        "timestamp": rows.NOON,
        "toolCalls": [{"id": "g", "name": "read_file", "args": {"path": "a"}, "status": "success", "result": [{}]}],
    },
    {"$rewindTo": "1"},
]
_COPILOT: list[Any] = [
    {"type": "session.start", "data": {"sessionId": "p-1", "context": {"cwd": "/work"}}, "timestamp": rows.NOON},
    {"type": "user.message", "data": {"content": "Fix the till."}, "timestamp": rows.NOON},
    {"type": "tool.execution_start", "data": {"toolCallId": "x", "toolName": "bash", "arguments": {"command": "ls"}}},
    {"type": "tool.execution_complete", "data": {"toolCallId": "x", "success": True, "result": {"content": "a"}}},
    {"type": "assistant.message", "data": {"content": "Done."}, "timestamp": rows.NOON},
]
_OPENCODE: list[Any] = [
    {
        "info": {"id": "ses_1", "directory": "/work", "parentID": ""},
        "messages": [
            {"info": {"role": "user", "time": {"created": 1}}, "parts": [{"type": "text", "text": "Fix the till."}]},
            {
                "info": {"role": "assistant", "time": {"created": 2}},
                "parts": [
                    {
                        "type": "tool",
                        "tool": "bash",
                        "callID": "c",
                        "state": {"status": "completed", "input": {"command": "ls"}, "output": "a", "metadata": {}},
                    }
                ],
            },
        ],
    }
]
_SESSIONS = {
    "claude": [_CLAUDE],
    "codex": [_CODEX],
    "gemini": [_GEMINI, _GEMINI[:-1]],
    "copilot": [_COPILOT],
    "opencode": [_OPENCODE],
}
