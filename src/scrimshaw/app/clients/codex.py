"""Codex CLI. A transcript is a rollout of JSON lines per session, `session_meta` first."""

import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from scrimshaw.app.clients.client import Client
from scrimshaw.ingest import payload as js
from scrimshaw.ingest.events import Event, Transcript, TranscriptBuilder, parse_epoch
from scrimshaw.ingest.tables import load_lines, load_pattern
from scrimshaw.ingest.tool_calls import canonical_tool
from scrimshaw.models import EventKind
from scrimshaw.toml_text import parse_toml

_END_PATIENCE_S = 3  # Codex allows no longer time at the end, and warns of a hook that asks for it
_pattern = partial(load_pattern, __file__, "codex")
_NOT_ASKED = load_lines(__file__, "codex", "not_asked")
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_RESULTS = ("function_call_output", "custom_tool_call_output")
_HEAD_CODE = r"(?:Exit code:|Process exited with code) (-?\d{1,10})"
# How the first or last line of a command's output says that it failed.
_EXIT_CODE = r"\A(?:Error: )?(?:Exit code:?|Process exited with code|Command failed with exit code) (-?\d{1,10})\b"
_TALLY = r"\b[1-9]\d{0,6} (?:failed|failures?|errors?)\b"
_LONGEST_LINE = 400
_PATCHER, _REFUSED = "apply_patch", 'Rejected("rejected by user")'


class Codex(Client):
    """Codex CLI. Its hooks do not say whether a command failed; the rollout, written before them, does."""

    name, title, program, folder = "codex", "Codex", "codex", ".codex"
    # PostCompact is left out: it has no summary, and a start with occasion compact follows it.
    events: Mapping[str, EventKind] = {
        name: kind for name, kind in Client.events.items() if name not in ("PostToolUseFailure", "PostCompact")
    }
    answer_mark = '"assistant"'
    transcript_glob = ".codex/sessions/*/*/*/rollout-*{}.jsonl"
    stored_globs = (".codex/sessions/**/rollout-*.jsonl", ".codex/archived_sessions/**/rollout-*.jsonl")
    guidance_file = "AGENTS.md"
    servers_file, servers_key, hooks_file = ".codex/config.toml", "mcp_servers", ".codex/hooks.json"
    # A missing required server stops Codex. An optional one gets a second before the first request.
    server_fields: Mapping[str, Any] = {"required": False}
    hook_fields: Mapping[str, Any] = {"SessionEnd": {"timeout": _END_PATIENCE_S}}
    advice = "Codex silently skips hooks until you trust them: open Codex here, trust the folder, then /hooks."

    def read_event(self, payload: js.Json, kind: EventKind, wire: str) -> Event:
        event = super().read_event(payload, kind, wire)
        if kind is not EventKind.TOOL:
            return event
        output = js.result_text(payload.get("tool_response"))
        call = self.add_call(event, payload, output, None)
        if call.tool == "Edit":  # a patch arrives under the name of a command
            arguments = {("patch" if key == "command" else key): value for key, value in call.arguments.items()}
            return structs.replace(call, arguments=arguments)
        is_error = js.section(payload, "tool_response").get("isError") is True
        return structs.replace(call, failed={"Bash": guess_failure(output), "Mcp": is_error}.get(call.tool))

    def read_context_share(self, lines: Iterable[str]) -> float | None:
        used = None
        for row in js.select_rows(lines, '"token_count"', '"compacted"'):
            if row.get("type") == "compacted":
                used = None
            info = js.section(row, "payload", "info")
            last = js.section(info, "last_token_usage").get("total_tokens")
            used = js.share(last, info.get("model_context_window")) or used
        return used

    def read_missed_events(self, lines: Iterable[str]) -> list[Event]:
        """A patch in a shell command is removed from it before the shell and its hooks run."""
        rows = list(lines)
        events = self.parse_transcript("\n".join(rows)).events if any(_PATCHER in row for row in rows) else ()
        return [event for event in events if event.tool == "Bash" and _PATCHER in repr(event.arguments)]

    def read_outcome(self, lines: Iterable[str], call_id: str) -> bool | None:
        code = _exit_codes(js.select_rows(lines, call_id)).get(call_id) if call_id else None
        return None if code is None else code != 0

    def parse_transcript(self, source: str) -> Transcript:
        """A sub-agent's session belongs to the one that started it, if that is known."""
        rows, skipped = js.parse_rows(source)
        about = next((js.section(row, "payload") for row in rows if row.get("type") == "session_meta"), {})
        own, spawned = js.text(about.get("id")), js.section(about, "source", "subagent")
        parent = js.text(js.section(spawned, "thread_spawn").get("parent_thread_id"))
        reader = _RolloutReader(self.name, own if spawned else "", _exit_codes(rows))
        for row in rows:
            reader.read_row(row)
        return reader.build(parent or own, cwd=js.text(about.get("cwd")), skipped=skipped)

    def check_trust(self, root: Path) -> str:
        """Codex notes which hooks it trusts as `FILE:EVENT:GROUP:HANDLER`, with a hash that only Codex can judge."""
        try:
            config = parse_toml((Path.home() / self.servers_file).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            config = {}
        hooks = (root / self.hooks_file).resolve()
        if any(key.startswith(f"{hooks}:") for key in js.section(config, "hooks", "state")):
            return ""
        return "its hooks are not trusted, so Codex silently skips them; open Codex here and trust them in /hooks"


class _RolloutReader(TranscriptBuilder):
    """Turns a rollout into events, row by row."""

    def __init__(self, client: str, agent: str, codes: Mapping[str, float]) -> None:
        super().__init__(client)
        self._agent, self._codes = agent, codes
        self._script = ""  #: the id of the last call, which may be a script whose own calls are events

    def read_row(self, row: js.Json) -> None:
        item, at = js.section(row, "payload"), parse_epoch(row.get("timestamp"))
        kind = item.get("type") if row.get("type") == "response_item" else ""
        if row.get("type") == "compacted":
            self.add_compaction(js.text(item.get("message")), at)
        elif kind == "message":
            words = js.join_texts(item.get("content"))
            if item.get("role") == "assistant":
                self.add_text(EventKind.ANSWER, words, at, self._agent)
            elif item.get("role") == "user" and not words.lstrip().startswith(_NOT_ASKED):
                self.add_text(EventKind.PROMPT, words, at, self._agent)
        elif kind in _CALLS:
            server, name = js.text(item.get("namespace")), js.text(item.get("name"))
            tool = f"{server}__{name}" if server else name or "local_shell"
            self._script = js.text(item.get("call_id"))
            sent = item.get("arguments", item.get("input", item.get("action")))
            self.begin_call(self._script, tool, js.read_object(sent, "input"))
        elif kind in _RESULTS:
            self._read_result(item, at)
        elif item.get("type") == "item_completed":
            self._read_item(js.section(item, "item"), at)

    def _read_item(self, item: js.Json, at: float) -> None:
        """A command that a script ran, or the files of a patch; they stand for the script or the patch."""
        call_id, command, changes = js.text(item.get("id")), item.get("command"), js.section(item, "changes")
        is_scripted = call_id.startswith("exec-")
        calls = [("exec_command", {"cmd": command[-1]})] if is_scripted and isinstance(command, list) else []
        for path, change in ((path, js.section(changes, path)) for path in changes):
            lines = js.text(change.get("unified_diff")) or re.sub("(?m)^(?=.)", "+", js.text(change.get("content")))
            calls.append((_PATCHER, {"patch": f"*** {js.text(change.get('type')).title()} File: {path}\n{lines}"}))
        for number, (tool, arguments) in enumerate(calls):
            self.drop_call(self._script if is_scripted else call_id)
            name = f"{call_id}.{number}" if number else call_id
            self.begin_call(name, tool, arguments)
            output = js.first_text(item, "aggregated_output", "stdout")
            self.end_call(name, output, item.get("status") == "failed", at, agent=self._agent)

    def _read_result(self, item: js.Json, at: float) -> None:
        call_id, result = js.text(item.get("call_id")), item.get("output")
        decoded = js.read_object(result)  # may be wrapped in JSON with its exit code
        result = decoded if "output" in decoded else result
        output = js.result_text(result)
        if _REFUSED in output:
            self.drop_call(call_id)
        head = _pattern("head").match(output)
        code = self._codes.get(call_id)
        if code is None and isinstance(result, Mapping):
            code = js.number(js.section(result, "metadata").get("exit_code"))
        if code is None and head and (found := re.search(_HEAD_CODE, head[0])):
            code = float(found[1])
        output = output[head.end() :] if head else output
        failed = None if code is None else code != 0
        if code is None and canonical_tool(self.tool_of(call_id)) == "Bash":
            failed = guess_failure(output)
        self.end_call(call_id, output, failed, at, agent=self._agent)


def guess_failure(output: str) -> bool | None:
    """True if the first or last line of an output reports a failure; otherwise None, as silence proves nothing."""
    lines = output.strip().splitlines() or [""]
    if code := re.match(_EXIT_CODE, lines[0]):
        return int(code[1]) != 0
    first, last = lines[0][:_LONGEST_LINE], lines[-1][:_LONGEST_LINE]
    is_complaint = any(map(_pattern("complaint").match, (first, last))) or re.search(_TALLY, last)
    return True if is_complaint else None


def _exit_codes(rows: Iterable[js.Json]) -> dict[str, float]:
    """Call id -> exit code, if an event has one; 1 for a patch that could not be applied."""
    codes: dict[str, float] = {}
    for row in rows:
        event = js.section(row, "payload")
        item = js.section(event, "item") or event
        code = js.number(item.get("exit_code"))
        if event.get("type") == "patch_apply_end" and isinstance(event.get("success"), bool):
            code = 0 if event["success"] else 1
        if code is not None:
            codes[js.first_text(item, "call_id", "id")] = code
    return codes


CLIENT = Codex()
