"""GitHub Copilot CLI. Transcripts are JSON lines of events."""

import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from scrimshaw.app.clients.client import PATIENCE_S, Client, Programs, Scope, name_events
from scrimshaw.ingest import payload as js
from scrimshaw.ingest.events import Event, Transcript, TranscriptBuilder, parse_epoch
from scrimshaw.models import EventKind

# What it adds to a shell's output: how the command ended, or that it still runs.
_SHELL_MARK = r"\n?<(?:shellId: [^>]*exit code (-?\d{1,10})|command [^>]*shellId: ([^\s>]+)[^>]*)>\s*\Z"
_SHELL_MARK_LENGTH = 700
_REFUSED, _FEEDBACK = ("denied", "rejected"), "User feedback: "
_BY_PERSON = ("", "user", "command", "schedule")  # what sends a message; others are agents and the client itself


class Copilot(Client):
    """GitHub Copilot CLI."""

    name, title, program, folder = "copilot", "Copilot CLI", "copilot", ".copilot"
    events = name_events(
        start="sessionStart", prompt="userPromptSubmitted", tool="postToolUse postToolUseFailure",
        stop="agentStop subagentStop", compact="preCompact", end="sessionEnd",
    )  # fmt: skip
    reply_kinds, reply_key = (EventKind.START, EventKind.PROMPT, EventKind.TOOL), "additionalContext"
    answer_mark, prompt_mark = '"assistant.message"', '"user.message"'
    transcript_glob, stored_globs = ".copilot/session-state/{}/events.jsonl", (".copilot/session-state/*/events.jsonl",)
    scopes, servers_file, hooks_file = (Scope.USER,), ".copilot/mcp-config.json", ".copilot/hooks/scrimshaw.json"
    server_fields: Mapping[str, Any] = {"type": "local", "tools": ["*"]}
    hooks_base: Mapping[str, Any] = {"version": 1}

    def read_event(self, payload: js.Json, kind: EventKind, wire: str) -> Event:
        occasion = js.first_text(payload, "source", "trigger", "reason")
        session = js.text(payload.get("sessionId"))
        event = Event(
            client=self.name,
            kind=kind,
            session=session,
            cwd=js.text(payload.get("cwd")),
            transcript=js.text(payload.get("transcriptPath")) or str(self.find_transcript(session, Path.home()) or ""),
            prompt=js.first_text(payload, "prompt", "initialPrompt"),
            occasion="startup" if occasion == "new" else occasion,
            agent=js.text(payload.get("agentName")),
        )
        if kind is not EventKind.TOOL:
            return event
        name, result = js.text(payload.get("toolName")), js.section(payload, "toolResult")
        output, failed, _ = read_shell_mark(js.result_text(result) or js.result_text(payload.get("error")))
        is_refused = bool(payload.get("error")) or js.text(result.get("resultType")) not in ("", "success")
        call = {"tool_name": name, "tool_input": js.read_object(payload.get("toolArgs"), "input")}
        return self.add_call(event, call, output, is_refused or failed, is_mcp="-" in name)

    def read_context_share(self, lines: Iterable[str]) -> float | None:
        used = None
        for row in js.select_rows(lines, "session.usage_record", "session.compaction_complete"):
            if row.get("type") == "session.compaction_complete":
                used = None
            record = js.section(row, "data", "usage")
            if record.get("interactionType") == "conversation-agent":
                used = js.share(record.get("inputTokens"), record.get("maxPromptTokens")) or used
        return used

    def parse_transcript(self, source: str) -> Transcript:
        rows, skipped = js.parse_rows(source)
        reader = _EventReader(self.name)
        for row in rows:
            reader.read_row(row)
        about = next((js.section(row, "data") for row in rows if row.get("type") == "session.start"), {})
        session, cwd = js.text(about.get("sessionId")), js.text(js.section(about, "context").get("cwd"))
        return reader.build(session, cwd=cwd, skipped=skipped)

    def make_hooks(self, programs: Programs) -> dict[str, Any]:
        """The commands name the event, since payloads do not."""
        run = partial(programs.hook_command, self.name)
        shells = {event: {"bash": run(event), "powershell": run(event, in_powershell=True)} for event in self.events}
        return {event: {"type": "command", **each, "timeoutSec": PATIENCE_S} for event, each in shells.items()}


class _EventReader(TranscriptBuilder):
    """Turns a transcript into events, row by row."""

    def __init__(self, client: str) -> None:
        super().__init__(client)
        self._running: dict[str, js.Json] = {}  #: the arguments of a command that went on in a shell, by the shell's id

    def read_row(self, row: js.Json) -> None:
        data, at = js.section(row, "data"), parse_epoch(row.get("timestamp"))
        words, agent = js.text(data.get("content")), js.text(row.get("agentId") or data.get("parentToolCallId"))
        match row.get("type"):
            case "user.message" if js.text(data.get("source")).partition("-")[0] in _BY_PERSON:
                self.add_text(EventKind.PROMPT, "" if data.get("isAutopilotContinuation") else words, at, agent)
            case "assistant.message":
                self.add_text(EventKind.ANSWER, words, at, agent)
            case "tool.execution_start" | "tool.user_requested":
                arguments = js.read_object(data.get("arguments"), "input")  # a patch is plain text
                self.begin_call(js.text(data.get("toolCallId")), js.text(data.get("toolName")), arguments)
            case "tool.execution_complete":
                self._end_call(js.text(data.get("toolCallId")), data, at, agent)
            case "session.compaction_complete" if data.get("success") is not False:
                self.add_compaction(js.first_text(data, "summaryContent", "summary"), at)

    def _end_call(self, call_id: str, data: js.Json, at: float, agent: str) -> None:
        """What was read at last of a command that went on is the command's own result."""
        error, (name, arguments) = js.section(data, "error"), self._waiting.get(call_id, ("", {}))
        output, failed, shell = read_shell_mark(js.result_text(data.get("result")) or js.result_text(error))
        if js.text(error.get("code")) in _REFUSED:
            self.drop_call(call_id)
            self.add_text(EventKind.PROMPT, output.partition(_FEEDBACK)[2] if name else "", at, agent, call_id)
        elif shell and not name.startswith("read_"):
            self._running[shell] = arguments
        elif not shell and (command := self._running.pop(js.text(arguments.get("shellId")), None)):
            self.begin_call(call_id, name.removeprefix("read_"), command)
        tool = "Mcp" if "-" in name else ""
        self.end_call(call_id, output, data.get("success") is False or failed, at, agent=agent, tool=tool)


def read_shell_mark(output: str) -> tuple[str, bool | None, str]:
    """A shell's output without what Copilot adds, whether it failed, and the shell if it still runs there."""
    if not (mark := re.search(_SHELL_MARK, output[-_SHELL_MARK_LENGTH:])):
        return output, False, ""
    return output.removesuffix(mark[0]), None if mark[2] else int(mark[1]) != 0, mark[2] or ""


CLIENT = Copilot()
