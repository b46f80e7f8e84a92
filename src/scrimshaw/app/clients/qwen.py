"""Qwen Code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import structs

from scrimshaw.app.clients.client import PATIENCE_S, Client, Programs, Scope, SetupFiles, SharedFile, read_report
from scrimshaw.ingest.events import Event
from scrimshaw.ingest.payload import Json, result_text, section, sections, select_rows, share, text
from scrimshaw.models import EventKind


class Qwen(Client):
    """Qwen Code. Its chat file counts tokens but not how many fit; the stop event says the share."""

    name, title, program, folder = "qwen", "Qwen Code", "qwen", ".qwen"
    events: Mapping[str, EventKind] = {
        "SessionStart": EventKind.START,
        "UserPromptSubmit": EventKind.PROMPT,
        "PostToolUse": EventKind.TOOL,
        "PostToolUseFailure": EventKind.TOOL,
        "Stop": EventKind.STOP,
        "SubagentStop": EventKind.STOP,
        "PreCompact": EventKind.COMPACT,
        "PostCompact": EventKind.COMPACT,
        "SessionEnd": EventKind.END,
    }
    keeps_transcripts = False

    def read_event(self, payload: Json, kind: EventKind, wire: str) -> Event:
        event = super().read_event(payload, kind, wire)
        if kind is EventKind.TOOL:
            error, stopped_by_user = text(payload.get("error")), payload.get("is_interrupt") is True
            ending = read_report(error or result_text(payload.get("tool_response")))
            failed = None if stopped_by_user else bool(error) or bool(ending.is_failure)
            return self.add_call(event, payload, ending.output, failed)
        if kind is EventKind.COMPACT:
            return structs.replace(event, output=text(payload.get("compact_summary")))
        return structs.replace(event, context_used=share(payload.get("context_usage"), 1))

    def read_answers(self, lines: Iterable[str]) -> Iterator[str]:
        for row in select_rows(lines, '"assistant"'):
            if row.get("type") == "assistant":
                parts = sections(section(row, "message").get("parts"))
                yield "\n".join(
                    text(part.get("text")) for part in parts if part.get("text") and not part.get("thought")
                )

    def setup_files(self, root: Path, scope: Scope, programs: Programs) -> SetupFiles:
        hooks = self.group_hooks(programs, timeout=PATIENCE_S * 1000)  # milliseconds
        entry = programs.server_entry(trust=True)
        return (SharedFile(path=root / ".qwen/settings.json", servers="mcpServers", entry=entry, hooks=hooks),)


CLIENT = Qwen()
