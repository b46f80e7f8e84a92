"""Qwen Code."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import structs

from scrimshaw.app.clients.client import PATIENCE_S, Client, read_report
from scrimshaw.ingest import payload as js
from scrimshaw.ingest.events import Event
from scrimshaw.models import EventKind


class Qwen(Client):
    """Qwen Code. Its chat file has the tokens used but not the limit; the stop event has the share."""

    name, title, program, folder = "qwen", "Qwen Code", "qwen", ".qwen"
    has_powershell = True
    keeps_transcripts = False
    transcript_glob = ".qwen/projects/*/chats/{}.jsonl"
    servers_file = hooks_file = ".qwen/settings.json"
    server_fields: Mapping[str, Any] = {"trust": True}
    hook_timeout = PATIENCE_S * 1000  # milliseconds

    def read_event(self, payload: js.Json, kind: EventKind, wire: str) -> Event:
        event = super().read_event(payload, kind, wire)
        if kind is EventKind.TOOL:
            error = js.text(payload.get("error"))
            output, code = read_report(error or js.result_text(payload.get("tool_response")))
            failed = None if payload.get("is_interrupt") is True else bool(error or code)
            return self.add_call(event, payload, output, failed)
        if kind is EventKind.COMPACT:
            return event
        return structs.replace(event, context_used=js.share(payload.get("context_usage"), 1))

    def read_answers(self, lines: Iterable[str]) -> list[str]:
        rows = (row for row in js.select_rows(lines, '"assistant"') if row.get("type") == "assistant")
        messages = (js.sections(js.section(row, "message").get("parts")) for row in rows)
        spoken = ([part for part in parts if part.get("text") and not part.get("thought")] for parts in messages)
        return [js.join_texts(parts) for parts in spoken]

    def begins_turn(self, line: str) -> bool:
        rows = (row for row in js.select_rows([line], self.prompt_mark) if row.get("type") == "user")
        return any(js.join_texts(js.section(row, "message").get("parts")).strip() for row in rows)


CLIENT = Qwen()
