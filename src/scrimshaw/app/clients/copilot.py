"""GitHub Copilot CLI. Transcripts are JSON lines of events."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from scrimshaw.app.clients.client import PATIENCE_S, Client, Programs, Scope, name_events
from scrimshaw.ingest import payload as js
from scrimshaw.ingest.events import Event, Transcript, TranscriptBuilder, parse_epoch
from scrimshaw.ingest.tool_calls import canonical_tool
from scrimshaw.models import EventKind

# Its payloads do not name their event; without a hint it is recognised by a field of that event alone.
_FIELD_EVENTS = {
    "toolResult": "postToolUse",
    "prompt": "userPromptSubmitted",
    "source": "sessionStart",
    "agentName": "subagentStop",
    "stopReason": "agentStop",
    "trigger": "preCompact",
    "reason": "sessionEnd",
}
_SHELL_MARK = r"\n?<shellId: [^>\n]{0,80}completed with exit code (-?\d{1,10})>\s*\Z"
_SHELL_MARK_LENGTH = 160
_REFUSED = ("denied", "rejected")


class Copilot(Client):
    """GitHub Copilot CLI."""

    name, title, program, folder = "copilot", "Copilot CLI", "copilot", ".copilot"
    events = name_events(
        start="sessionStart",
        prompt="userPromptSubmitted",
        tool="postToolUse postToolUseFailure",
        stop="agentStop subagentStop",
        compact="preCompact",
        end="sessionEnd",
    )
    reply_key = "additionalContext"
    answer_mark, prompt_mark = '"assistant.message"', '"user.message"'
    transcript_glob = ".copilot/session-state/{}/events.jsonl"
    scopes = (Scope.USER,)
    servers_file, hooks_file = ".copilot/mcp-config.json", ".copilot/hooks/scrimshaw.json"
    server_fields: Mapping[str, Any] = {"type": "local", "tools": ["*"]}
    hooks_base: Mapping[str, Any] = {"version": 1}

    def event_name(self, payload: js.Json, hint: str) -> str:
        return hint or next((name for field, name in _FIELD_EVENTS.items() if field in payload), "")

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
        output, code = read_shell_mark(js.result_text(result) or js.result_text(payload.get("error")))
        is_refused = bool(payload.get("error")) or js.text(result.get("resultType")) not in ("", "success")
        return structs.replace(
            event,
            tool="Mcp" if "-" in name else canonical_tool(name),
            tool_name=name,
            arguments=js.read_object(payload.get("toolArgs")),
            output=output,
            failed=is_refused or code != 0,
        )

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
        builder = TranscriptBuilder(self.name)
        for row in rows:
            _read_row(row, builder)
        about = next((js.section(row, "data") for row in rows if row.get("type") == "session.start"), {})
        cwd = js.text(js.section(about, "context").get("cwd"))
        return builder.build(js.text(about.get("sessionId")), cwd=cwd, skipped=skipped)

    def make_hooks(self, programs: Programs) -> dict[str, Any]:
        """The commands name the event, since payloads do not."""
        return {
            event: {
                "type": "command",
                "bash": programs.hook_command(self.name, event),
                "powershell": programs.hook_command(self.name, event, in_powershell=True),
                "timeoutSec": PATIENCE_S,
            }
            for event in self.events
        }


def read_shell_mark(output: str) -> tuple[str, int]:
    """A shell's output without the line that Copilot adds, and the exit code in that line, 0 without one."""
    start = max(0, len(output) - _SHELL_MARK_LENGTH)
    mark = re.search(_SHELL_MARK, output[start:])
    return (output[: start + mark.start()], int(mark[1])) if mark else (output, 0)


def _read_row(row: js.Json, builder: TranscriptBuilder) -> None:
    data, at = js.section(row, "data"), parse_epoch(row.get("timestamp"))
    words, agent = js.text(data.get("content")), js.text(data.get("parentToolCallId"))
    match row.get("type"):
        case "user.message":
            builder.add_text(EventKind.PROMPT, words, at, js.text(data.get("parentAgentTaskId")))
        case "assistant.message":
            builder.add_text(EventKind.ANSWER, words, at, agent)
            for call in js.sections(data.get("toolRequests")):
                arguments = js.read_object(call.get("arguments"))
                builder.begin_call(js.text(call.get("toolCallId")), js.text(call.get("name")), arguments)
        case "tool.execution_start":
            arguments = js.read_object(data.get("arguments"))  # some versions send JSON text
            builder.begin_call(js.text(data.get("toolCallId")), js.text(data.get("toolName")), arguments)
        case "tool.execution_complete":
            call_id, error = js.text(data.get("toolCallId")), js.section(data, "error")
            if js.text(error.get("code")) in _REFUSED:
                builder.drop_call(call_id)
                return
            output, code = read_shell_mark(js.result_text(data.get("result")) or js.result_text(error))
            tool = "Mcp" if "-" in builder.tool_of(call_id) else ""
            builder.end_call(call_id, output, data.get("success") is False or code != 0, at, agent=agent, tool=tool)
        case "session.compaction_complete":
            builder.add_compaction(js.first_text(data, "summaryContent", "summary"), at)


CLIENT = Copilot()
