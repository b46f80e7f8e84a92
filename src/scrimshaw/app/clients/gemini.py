"""Gemini CLI. Transcripts are JSON lines of messages and changes to them, in older versions one JSON object."""

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

from msgspec import structs

from scrimshaw.app.clients.client import PATIENCE_S, Client, name_events, read_report
from scrimshaw.ingest import payload as js
from scrimshaw.ingest.events import Event, Transcript, TranscriptBuilder, add_call_id, parse_epoch
from scrimshaw.models import EventKind

_WINDOW = 1_048_576  # tokens of input, the documented limit of the Gemini models
_INJECTED_BY_HOOKS = r"(?s)\A(?:\s*<hook_context>.*?</hook_context>\s*)+|\n\n<hook_context>[^<]*</hook_context>\Z"
_FRAME = r"(?s)\A\s*<untrusted_context>\n?(.*?)\n?</untrusted_context>\s*\Z"
# Messages in the user's name: of the client itself, which may repeat a prompt, and what the user ran with `!`.
_NOT_ASKED = ("This is the Gemini CLI. We are ", "<session_context>", "[System: You ", "System: Potential loop ")
_SHELL = re.compile(r"(?s)\AI ran the following shell command:\n```sh\n(.*)\n```\n\nThis [^\n]*\n```\n(.*)\n```\Z")
_FEEDBACK = r"(?s)\APlan rejected\. User feedback: (.*?)\n\nThe plan is stored at: "
# A history that replaces the one before it; what a compaction lets its model answer to the summary; and both.
_REWRITE, _TAKEN_IN = '{"$set":{"messages":[', '"text":"Got it. Thanks for the additional context!"}'
_SUMMARY = rf'"text":("[^"\\]*+(?:\\.[^"\\]*+)*+")\}}\]\}},\{{[^{{}}]*\{{{re.escape(_TAKEN_IN)}'
_NOT_RUN = ("cancelled", "awaiting_approval", "validating", "scheduled", "executing")


class Gemini(Client):
    """Gemini CLI."""

    name, title, program, folder = "gemini", "Gemini CLI", "gemini", ".gemini"
    has_powershell = True
    events = name_events(
        start="SessionStart", prompt="BeforeAgent", tool="AfterTool",
        stop="AfterAgent", compact="PreCompress", end="SessionEnd",
    )  # fmt: skip
    reply_kinds = (EventKind.START, EventKind.PROMPT, EventKind.TOOL)
    answer_mark, rewrite_mark = '"gemini"', '],"lastUpdated":'
    transcript_glob = ".gemini/tmp/*/chats/session-*-{:.8}.json*"
    stored_globs = (".gemini/tmp/*/chats/**/*.json*",)
    guidance_file = "GEMINI.md"
    servers_file = hooks_file = ".gemini/settings.json"
    server_fields: Mapping[str, Any] = {"trust": True}
    hook_timeout = PATIENCE_S * 1000  # milliseconds
    shared_advice = "Gemini CLI reads a project's settings only in a folder that you trust."

    def read_event(self, payload: js.Json, kind: EventKind, wire: str) -> Event:
        """`PreCompress` comes before every model call, so its occasion is maybe."""
        event = super().read_event(payload, kind, wire)
        if kind is EventKind.TOOL:
            response = js.section(payload, "tool_response")
            content = response.get("llmContent")
            parts = content if isinstance(content, list) else [content]
            output = "\n".join(re.sub(_FRAME, r"\1", js.result_text(part)) for part in parts)
            output, code = read_report(output or js.result_text(response))
            is_mcp, failed = bool(js.section(payload, "mcp_context")), bool(response.get("error") or code)
            call = self.add_call(event, payload, output, failed, is_mcp=is_mcp)
            return structs.replace(call, said=(*filter(None, [_find_summary(call.tool_name, call.arguments)]),))
        if kind is EventKind.PROMPT:
            return structs.replace(event, prompt=re.sub(_INJECTED_BY_HOOKS, "", event.prompt))
        if kind is EventKind.COMPACT:
            return structs.replace(event, occasion="maybe")
        return structs.replace(event, output=js.text(payload.get("prompt_response")))

    def read_context_share(self, lines: Iterable[str]) -> float | None:
        """None for models other than Gemini's, whose windows are unknown."""
        used = None
        for row in js.select_rows(lines, '"tokens"'):
            if row.get("type") == "gemini" and js.text(row.get("model")).startswith("gemini"):
                used = js.share(js.section(row, "tokens").get("total"), _WINDOW) or used
        return used

    def read_missed_events(self, lines: Iterable[str]) -> list[Event]:
        """Compactions, known by their summaries, since ids change. Their lines may be too long to decode."""
        rows = (line for line in lines if line.startswith(_REWRITE) and _TAKEN_IN in line)
        texts = (js.text(js.decode_json(found[1])) for row in rows if (found := re.search(_SUMMARY, row)))
        return [add_call_id(Event(client=self.name, kind=EventKind.COMPACT, output=each), "") for each in texts]

    def read_answers(self, lines: Iterable[str]) -> list[str]:
        return super().read_answers(line for line in lines if not line.startswith(_REWRITE))

    def parse_transcript(self, source: str) -> Transcript:
        """A chat file does not name its folder, but contains a hash of the project's path."""
        whole = js.decode_json(source) if '"messages"' in source else None
        if isinstance(whole, Mapping) and "messages" in whole:
            about, messages, skipped = whole, list(js.sections(whole.get("messages"))), 0
        else:
            rows, skipped = js.parse_rows(source)
            about = next((row for row in rows if row.get("sessionId")), {})
            messages = _apply_changes(rows)
        builder, session = TranscriptBuilder(self.name), js.text(about.get("sessionId"))
        for message in messages:
            _read_message(message, builder, session if about.get("kind") == "subagent" else "")
        return builder.build(session, skipped=skipped)

    def find_folder(self, file: Path, head: str, begun: Transcript) -> str:
        """The folder above the file may have the path, the file has a hash of it."""
        for chats in (folder for folder in file.parents if folder.name == "chats"):
            with suppress(OSError):
                return chats.with_name(".project_root").read_text(encoding="utf-8", errors="replace").strip()
        return "".join(re.findall(r'"projectHash"\s*:\s*"([0-9a-f]{64})"', head)[:1])

    def session_of_file(self, file: Path, begun: Transcript) -> str:
        return file.parent.name if file.parent.parent.name == "chats" else begun.session


def _apply_changes(rows: Iterable[js.Json]) -> list[js.Json]:
    """The messages after all changes: a repeated one replaces the first, a rewind drops those from there on."""
    messages: dict[str, js.Json] = {}
    for row in rows:
        if isinstance(target := row.get("$rewindTo"), str):
            messages = dict(takewhile(lambda each: each[0] != target, messages.items()))
        elif "messages" in js.section(row, "$set"):
            listed = {js.text(each.get("id")): each for each in js.sections(js.section(row, "$set")["messages"])}
            new = [name for name in listed if name not in messages]
            if not messages:
                messages = listed
            elif new and listed[new[0]].get("type") == "user":  # the summary that a compaction adds
                messages[new[0]] = {**listed[new[0]], "type": "summary"}
        elif row.get("id") and row.get("type"):
            messages[str(row["id"])] = row
    return list(messages.values())


def _read_message(message: js.Json, builder: TranscriptBuilder, agent: str) -> None:
    at, words = parse_epoch(message.get("timestamp")), js.result_text(message.get("content"))
    if message.get("type") == "user" and (shell := _SHELL.match(words)):
        command, output = (re.sub(r"\\([\\`])", r"\1", text) for text in shell.groups())
        builder.begin_call(call_id := js.text(message.get("id")), "run_shell_command", {"command": command})
        builder.end_call(call_id, output, bool(re.match("Command (?:exited|terminated) ", output)), at, agent=agent)
    elif message.get("type") == "user":
        prompt = re.sub(_INJECTED_BY_HOOKS, "", js.result_text(message.get("displayContent")) or words)
        builder.add_text(EventKind.PROMPT, "" if prompt.lstrip().startswith(_NOT_ASKED) else prompt, at, agent)
    elif message.get("type") == "summary":
        builder.add_compaction(words, at)
    elif message.get("type") == "gemini":
        builder.add_text(EventKind.ANSWER, words, at, agent)
        for call in js.sections(message.get("toolCalls")):
            if call.get("status") not in _NOT_RUN:
                _read_call(call, builder, at, agent)


def _find_summary(tool: str, arguments: js.Json) -> str:
    """What the agent says about its work through a tool: what it did in a chapter, and why it begins another."""
    return js.text(arguments.get("summary")) if tool == "update_topic" else ""


def _read_call(call: js.Json, builder: TranscriptBuilder, at: float, agent: str) -> None:
    responses = [js.section(part, "functionResponse", "response") for part in js.sections(call.get("result"))]
    output = "\n".join(js.result_text(response) for response in responses) or js.result_text(call.get("resultDisplay"))
    output, code = read_report(re.sub(_FRAME, r"\1", re.sub(_INJECTED_BY_HOOKS, "", output)))
    failed = call.get("status") == "error" or any(response.get("error") for response in responses) or code != 0
    call_id, name, arguments = js.text(call.get("id")), js.text(call.get("name")), js.section(call, "args")
    builder.add_text(EventKind.ANSWER, _find_summary(name, arguments), at, agent)
    builder.begin_call(call_id, name, arguments)
    ended = parse_epoch(call.get("timestamp")) or at
    builder.end_call(call_id, output, failed, ended, agent=agent)
    builder.add_text(EventKind.PROMPT, "".join(re.findall(_FEEDBACK, output)), ended, agent, call_id)


CLIENT = Gemini()
