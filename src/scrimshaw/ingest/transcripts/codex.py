"""Codex CLI: a rollout of JSON lines per session, `session_meta` first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from scrimshaw.ingest.jsonl import all_rows
from scrimshaw.ingest.outcome import seems_failed
from scrimshaw.ingest.payload import Json, decoded, first_text, number, section, sections, shown, text
from scrimshaw.ingest.tool_names import normalised
from scrimshaw.ingest.transcripts.gathering import Gathering, moment
from scrimshaw.ingest.turns import Transcript
from scrimshaw.models import EventKind

# What the client tells its model in the user's name.
_NOT_ASKED = (
    "<environment_context>",
    "<user_instructions>",
    "<permissions instructions>",
    "<turn_aborted>",
    "<user_shell_command>",
    "<subagent_notification>",
    "<skill>",
    "# AGENTS.md instructions",
)
# The head that a command's output has, with its exit code.
_HEAD = re.compile(
    r"\A(?:(?:Chunk ID|Wall time|Exit code|Process exited with code|Process running with session ID"
    r"|Total output lines|Original token count)\b[^\n]*\n)+Output:\n?"
)
_EXIT = re.compile(r"(?:Exit code:|Process exited with code) (-?\d{1,10})")


def parse_codex(source: str) -> Transcript:
    """The session in a rollout; that of a sub-agent counts to the session that started it, where that is told."""
    rows, skipped = all_rows(source)
    about = next((section(row, "payload") for row in rows if row.get("type") == "session_meta"), {})
    own, spawned = text(about.get("id")), section(about, "source", "subagent")
    parent = text(section(spawned, "thread_spawn").get("parent_thread_id"))
    reading = _Reading(rows, agent=own if spawned else "")
    for row in rows:
        reading.read(row)
    return Transcript(
        session=parent or own,
        client="codex",
        cwd=text(about.get("cwd")),
        turns=reading.gathered.in_order(),
        skipped=skipped,
    )


class _Reading:
    """One rollout on its way into turns."""

    def __init__(self, rows: Iterable[Json], agent: str) -> None:
        self.gathered = Gathering()
        self._agent = agent
        self._codes = _exit_codes(rows)
        self._items: Mapping[str, Callable[[Json, float], None]] = MappingProxyType(
            {
                "message": self._read_message,
                "function_call": self._read_call,
                "custom_tool_call": self._read_call,
                "local_shell_call": self._read_call,
                "function_call_output": self._read_output,
                "custom_tool_call_output": self._read_output,
            }
        )

    def read(self, row: Json) -> None:
        item, at = section(row, "payload"), moment(row.get("timestamp"))
        if row.get("type") == "compacted":
            self.gathered.compact(text(item.get("message")), at)
        elif row.get("type") == "response_item" and (read := self._items.get(text(item.get("type")))):
            read(item, at)

    def _read_message(self, item: Json, at: float) -> None:
        said = "\n".join(text(part.get("text")) for part in sections(item.get("content")))
        if item.get("role") == "assistant":
            self.gathered.say(EventKind.ANSWER, said, at, self._agent)
        elif item.get("role") == "user" and not said.lstrip().startswith(_NOT_ASKED):
            self.gathered.say(EventKind.PROMPT, said, at, self._agent)

    def _read_call(self, item: Json, at: float) -> None:
        server, name = text(item.get("namespace")), text(item.get("name"))
        called = f"{server}__{name}" if server else name or "local_shell"
        self.gathered.ask(text(item.get("call_id")), called, _arguments(item, called))

    def _read_output(self, item: Json, at: float) -> None:
        call_id, told = text(item.get("call_id")), _told(item.get("output"))
        output = shown(told)
        code = self._codes.get(call_id, _code(told, output))
        output = _HEAD.sub("", output)
        failed = code != 0 if code is not None else self._seems_failed(call_id, output)
        self.gathered.finish(call_id, output, failed, at, agent=self._agent)

    def _seems_failed(self, call_id: str, output: str) -> bool | None:
        return seems_failed(output) if normalised(self.gathered.tool_of(call_id)) == "Bash" else None


def _exit_codes(rows: Iterable[Json]) -> dict[str, float]:
    """Call id -> exit code, where an event tells one; a patch that could not be applied has 1."""
    codes: dict[str, float] = {}
    for row in rows:
        event = section(row, "payload")
        item = section(event, "item") or event
        code = number(item.get("exit_code"))
        if event.get("type") == "patch_apply_end" and event.get("success") is False:
            code = 1
        if code is not None:
            codes[first_text(item, "call_id", "id")] = code
    return codes


def _arguments(item: Json, called: str) -> Json:
    """The arguments of a call: an object, its JSON text, or a patch as plain text."""
    sent = item.get("arguments", item.get("input", item.get("action")))
    found = decoded(sent) if isinstance(sent, str) else sent
    if isinstance(found, Mapping):
        return found
    return {"patch" if normalised(called) == "Edit" else "input": sent} if isinstance(sent, str) else {}


def _told(output: object) -> object:
    """A result, which may be wrapped in JSON text with its exit code."""
    found = decoded(output) if isinstance(output, str) and output.startswith("{") else None
    return found if isinstance(found, Mapping) and "output" in found else output


def _code(told: object, output: str) -> float | None:
    """The exit code that a result tells."""
    if isinstance(told, Mapping):
        code = number(section(told, "metadata").get("exit_code"))
        if code is not None:
            return code
    head = _HEAD.match(output)
    found = _EXIT.search(head[0]) if head else None
    return float(found[1]) if found else None
