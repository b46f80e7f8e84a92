"""The scripted model: what it says, and what clients sent it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.samples import SECRET

PROMPT = "[[scenario:memory]] go"
SAVED_TITLE = "Release tags are signed"
SAVED_TEXT = "Release tags are signed with the team key; unsigned tags are refused by the server."
QUERY = "deploy port"
FINAL_TEXT = "Done: read, searched, saved."

Steps = Sequence[Mapping[str, Any]]
"""What the model does, one step after each tool result: calls a tool, or says a text and rests."""

SCENARIO: Steps = [
    {"tool": "read", "args": {"path": "$CWD/notes.txt"}},
    {"tool": "memory_search", "args": {"query": QUERY}},
    {"tool": "memory_save", "args": {"title": SAVED_TITLE, "content": f"{SAVED_TEXT}\n\nThe token was {SECRET}.\n"}},
    {"text": FINAL_TEXT},
]

LOOK: Steps = [{"tool": "bash", "args": {"command": "echo ready"}}, {"text": FINAL_TEXT}]


@dataclass(frozen=True)
class ToolResult:
    """What a client told the model about a tool call."""

    tool: str
    text: str


@dataclass(frozen=True)
class Model:
    """A running scripted model at `url`; `log` holds its requests as JSON lines."""

    url: str
    log: Path

    def requests(self) -> list[Mapping[str, Any]]:
        """The requests for an answer, oldest first."""
        lines = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        return [request for request in map(json.loads, lines) if "dialect" in request]

    def tool_results(self) -> list[ToolResult]:
        """The tool results that the model has seen in the end."""
        requests = self.requests()
        return max((_results_in(request["body"]) for request in requests), key=len, default=[])

    def call_ids(self) -> set[str]:
        """The ids of the tool calls that clients have answered, where their API has such ids."""
        bodies = (request["body"] for request in self.requests())
        blocks = (block for body in bodies for block in [*_messages(body), *_parts(body)])
        return {str(block[key]) for block in blocks for key in _CALL_ID_KEYS if key in block}


@contextmanager
def running_model(program: Path, folder: Path, project: Path, steps: Steps) -> Iterator[Model]:
    """Start `program` on a free port as a model that takes `steps`, its files in `folder`; it ends with the block."""
    scenarios, log = folder / "scenarios.json", folder / "requests.jsonl"
    scenarios.write_text(json.dumps({"memory": steps, "default": [{"text": "ok"}]}))
    command = [sys.executable, str(program), "--port", "0", "--scenarios", str(scenarios), "--log", str(log)]
    environment = {**os.environ, "FAKELLM_CWD": str(project)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            started = process.stdout.readline() if process.stdout else ""
            yield Model(url=started.split()[-1], log=log)
        finally:
            process.terminate()


def _results_in(body: Mapping[str, Any]) -> list[ToolResult]:
    """Tool results of a request in Anthropic's Messages or OpenAI's Responses or Chat form."""
    messages = _messages(body)
    called = {call["id"]: call["function"]["name"] for each in messages for call in each.get("tool_calls") or ()}
    if called:
        answers = (each for each in messages if each.get("role") == "tool")
        return [ToolResult(called.get(each["tool_call_id"], "?"), _text(each["content"])) for each in answers]
    blocks = _parts(body)
    names = {_call_id(block): str(block.get("name")) for block in blocks if block.get("type") in _CALLS}
    return [
        ToolResult(tool=names.get(_call_id(block), "?"), text=_text(block.get("content", block.get("output"))))
        for block in blocks
        if block.get("type") in _RESULTS
    ]


_CALL_ID_KEYS = ("tool_use_id", "call_id", "tool_call_id")
_CALLS = ("tool_use", "function_call")
_RESULTS = ("tool_result", "function_call_output")


def _messages(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return body.get("messages") or []


def _parts(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The content blocks of a request in Anthropic's form, the items of one in OpenAI's."""
    return [*_blocks(_messages(body)), *(body.get("input") or [])]


def _blocks(messages: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        if isinstance(message["content"], list):
            yield from message["content"]


def _call_id(block: Mapping[str, Any]) -> str:
    return str(block.get("tool_use_id") or block.get("call_id") or block.get("id"))


def _text(content: Any) -> str:
    """The text in a string or in content blocks."""
    if isinstance(content, list):
        return "\n".join(map(_text, content))
    return str(content.get("text", "")) if isinstance(content, dict) else str(content or "")
