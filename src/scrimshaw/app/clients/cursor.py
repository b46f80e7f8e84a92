"""Cursor, according to its documentation: never tested with a running Cursor."""

from collections.abc import Mapping
from typing import Any

from scrimshaw.app.clients.client import PATIENCE_S, Client, Programs, name_events
from scrimshaw.ingest import payload as js
from scrimshaw.ingest.events import Event
from scrimshaw.models import EventKind


class Cursor(Client):
    """Cursor; before a compaction it reports the share of the context in use."""

    name, title, program, folder = "cursor", "Cursor", "cursor", ".cursor"
    # Separate shell, MCP and edit events are not used: postToolUse reports each of those calls already.
    events = name_events(
        start="sessionStart", prompt="beforeSubmitPrompt", tool="postToolUse postToolUseFailure",
        stop="afterAgentResponse stop subagentStop", compact="preCompact", end="sessionEnd",
    )  # fmt: skip
    reply_kinds = (EventKind.START,)
    reply_key = "additional_context"
    keeps_transcripts = False
    servers_file, hooks_file = ".cursor/mcp.json", ".cursor/hooks.json"
    hooks_base: Mapping[str, Any] = {"version": 1}

    def read_event(self, payload: js.Json, kind: EventKind, wire: str) -> Event:
        roots = payload.get("workspace_roots")
        first_root = js.text(roots[0]) if isinstance(roots, list) and roots else ""
        event = Event(
            client=self.name,
            kind=kind,
            session=js.first_text(payload, "parent_conversation_id", "conversation_id", "session_id"),
            cwd=js.text(payload.get("cwd")) or first_root,
            transcript=js.text(payload.get("transcript_path")),
            prompt=js.text(payload.get("prompt")),
            output=js.first_text(payload, "text", "summary"),
            occasion="startup" if kind is EventKind.START else js.first_text(payload, "trigger", "reason"),
            agent=js.first_text(payload, "subagent_id", "subagent_type"),
            context_used=js.share(payload.get("context_usage_percent"), 100)
            or js.share(payload.get("context_tokens"), payload.get("context_window_size")),
        )
        if kind is not EventKind.TOOL:
            return event
        sent = js.text(payload.get("tool_output"))
        is_error = "error_message" in payload or "failure_type" in payload
        has_failed = is_error or bool(js.number(js.read_object(sent).get("exitCode")))
        output = js.text(payload.get("error_message")) or js.result_text(js.decode_json(sent)) or sent
        return self.add_call(event, payload, output, None if payload.get("is_interrupt") is True else has_failed)

    def make_hooks(self, programs: Programs) -> dict[str, Any]:
        return {event: {"command": programs.hook_command(self.name), "timeout": PATIENCE_S} for event in self.events}


CLIENT = Cursor()
