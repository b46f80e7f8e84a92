"""Claude Code. Transcripts are JSON lines, one file per session and one per sub-agent."""

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from scrimshaw.app.clients.client import SERVER, Client, Programs, Scope, SetupFiles, SharedFile, is_within
from scrimshaw.ingest import payload as js
from scrimshaw.ingest.events import Event, Transcript, TranscriptBuilder, hash_text, parse_epoch
from scrimshaw.ingest.tables import load_lines
from scrimshaw.models import EventKind
from scrimshaw.storage.place import find_main_tree

_WINDOW = 200_000  # tokens, as its status line reports for its models
_LONG_WINDOW = 1_000_000  # tokens, for models named ...[1m]; one that has used more than 200,000 must be such a one
_USAGE_KEYS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
# The sub-agent that summarises before a compaction: its answer is in the main file as the summary.
_COMPACTOR = "acompact"
_REMINDER = r"(?s)<system-reminder>.*?</system-reminder>"
_COMMAND = r"<command-name>\s*/?([\w:.-]+)\s*</command-name>"
_ARGUMENTS = r"(?s)<command-args>(.*?)</command-args>"
# What the user ran with `!`, and in the next row what it printed.
_SHELL = re.compile(r"(?s)\A<bash-input>(.*)</bash-input>\Z")
_SHELL_OUTPUT = re.compile(r"(?s)\A<bash-stdout>(.*)</bash-stdout>\s*<bash-stderr>(.*)</bash-stderr>\Z")
_NOT_ASKED = load_lines(__file__, "claude", "not_asked")
_NOT_RUN = load_lines(__file__, "claude", "not_run")
# A person's words about a call: in place of its result if it was refused, beside it if it was allowed.
_INSTEAD, _ASKED = "To tell you how to proceed, the user said:", "permissionDecision"
_RECENT_ROWS = 40  # hold the calls whose hooks may still run
_UNANSWERED = ("PostToolUse", "PostToolUseFailure", "SubagentStop")  # events whose hooks get no reply
_WITHOUT_TEXT = ("Ask", "Plan", "TaskCreate", "TaskUpdate")  # tools whose result is recorded as JSON


class Claude(Client):
    """Claude Code; a compaction is reported twice, the second time with its summary."""

    name, title, program, folder = "claude", "Claude Code", "claude", ".claude"
    answer_mark = '"assistant"'
    transcript_glob = ".claude/projects/*/{}.jsonl"
    guidance_file = "CLAUDE.md"
    scopes = (Scope.LOCAL, Scope.SHARED, Scope.USER)
    hook_fields: Mapping[str, Any] = {name: {"async": True} for name in _UNANSWERED}  # so the agent need not wait
    shared_advice = "Claude Code asks once whether it may start a server of shared files; say yes, or look at /mcp."

    def read_event(self, payload: js.Json, kind: EventKind, wire: str) -> Event:
        event = super().read_event(payload, kind, wire)
        if wire == "PostToolUse":
            cut_short = js.section(payload, "tool_response").get("interrupted") is True
            output = js.result_text(payload.get("tool_response"))
            call = self.add_call(event, payload, output, None if cut_short else False)
            if not output and call.tool in _WITHOUT_TEXT:
                return structs.replace(call, output=msgspec.json.encode(payload.get("tool_response")).decode())
            return call
        if kind is EventKind.TOOL:
            stopped_by_user = payload.get("is_interrupt") is True
            return self.add_call(event, payload, js.text(payload.get("error")), None if stopped_by_user else True)
        used = _context_share(js.total(payload, "context_tokens"), js.text(payload.get("model")))
        return structs.replace(event, prompt=event.prompt and _user_prompt(event.prompt), context_used=used)

    def read_context_share(self, lines: Iterable[str]) -> float | None:
        used = None
        for row in js.select_rows(lines, '"usage"', "compact_boundary"):
            if row.get("subtype") == "compact_boundary":
                used = None
            elif row.get("type") == "assistant" and not row.get("isSidechain"):
                message = js.section(row, "message")
                tokens = js.total(js.section(message, "usage"), *_USAGE_KEYS)
                used = _context_share(tokens, js.text(message.get("model"))) or used
        return used

    def read_missed_events(self, lines: Iterable[str]) -> list[Event]:
        """The last calls, as hooks end in any order, and what a person said while the agent worked or about a call."""
        rows, found, said = [*lines], list[Event](), tuple[str, ...]()
        queue = [row for row in rows[:-_RECENT_ROWS] if '"queue-operation"' in row]
        for event in self.parse_transcript("\n".join([*queue, *rows[-_RECENT_ROWS:]])).events:
            if event.kind is EventKind.ANSWER and not event.agent:
                said = (*said, event.output)
            elif event.call_id and not event.agent:
                found, said = [*found, structs.replace(event, said=said)], ()
        return found

    def parse_transcript(self, source: str) -> Transcript:
        """Leaves out meta records, output of hooks and local commands, and calls that were refused or did not end."""
        rows, skipped = js.parse_rows(source)
        reader = _ClaudeReader(self.name)
        for row in rows:
            if not js.text(row.get("agentId")).startswith(_COMPACTOR):
                reader.read_row(row)
        session, cwd = (next(filter(None, (js.text(row.get(key)) for row in rows)), "") for key in ("sessionId", "cwd"))
        return reader.build(session, cwd=cwd, skipped=skipped)

    def transcript_files(self, project: Path, home: Path) -> Iterable[Path]:
        """`~/.claude/projects/FOLDER/SESSION.jsonl`, sub-agents in `SESSION/subagents/`, in old versions next to it."""
        folders, names = home.glob(".claude/projects/*/"), _folder_names(project)
        ours = [folder for folder in folders if any(f"{folder.name}-".startswith(f"{name}-") for name in names)]
        return [file for folder in ours for glob in ("*.jsonl", "*/subagents/*.jsonl") for file in folder.glob(glob)]

    def is_of_project(self, file: Path, head: str, begun: Transcript, project: Path) -> bool:
        """A long first prompt may hide the folder; then its encoded name is used."""
        if begun.cwd:
            return is_within(begun.cwd, project)
        return not _folder_names(project).isdisjoint(each.name for each in file.parents)

    def session_of_file(self, file: Path, begun: Transcript) -> str:
        return file.parent.parent.name if file.parent.name == "subagents" else begun.session or file.stem

    def setup_files(self, root: Path, scope: Scope, programs: Programs) -> SetupFiles:
        """The user's file has the servers of all projects, and those of one below its folder."""
        servers = root / ".mcp.json" if scope is Scope.SHARED else Path.home() / ".claude.json"
        inside = ("projects", find_main_tree(root).as_posix()) if scope is Scope.LOCAL else ()
        settings = root / (".claude/settings.local.json" if scope is Scope.LOCAL else ".claude/settings.json")
        line = {"type": "command", "command": shlex.join([Path(programs.server).as_posix(), "statusline"])}
        status: js.Json = {"place": ("statusLine",), "entry": line} if programs.has_status_line else {}
        return (
            SharedFile(path=servers, place=(*inside, "mcpServers", SERVER), entry=programs.server_entry()),
            SharedFile(path=settings, **status, hooks=self.make_hooks(programs)),
        )


class _ClaudeReader(TranscriptBuilder):
    """Turns a transcript into events, row by row."""

    def __init__(self, client: str) -> None:
        super().__init__(client)
        # What the user typed while the agent worked: delivered if removed; if dequeued, it has its own record.
        self._queue: list[str] = []
        self._shell = ""  #: the id of the command that the user ran last

    def read_row(self, row: js.Json) -> None:
        at, content = parse_epoch(row.get("timestamp")), js.section(row, "message").get("content")
        agent = js.text(row.get("agentId")) or ("sub-agent" if row.get("isSidechain") is True else "")
        match row.get("type"):
            case "user":
                self._read_user(row, content, at, agent)
            case "assistant":
                words = "" if row.get("isApiErrorMessage") else _message_text(content)
                self.add_text(EventKind.ANSWER, words, at, agent)
                for part in js.sections(content):
                    if part.get("type") == "tool_use":
                        call_id = js.first_text(part, "id") or js.text(row.get("uuid"))
                        self.begin_call(call_id, js.text(part.get("name")), js.section(part, "input"))
            case "system" if row.get("subtype") == "compact_boundary":
                self.add_compaction("", at)
            case "attachment":
                self._read_attachment(js.section(row, "attachment"), at, agent)
            case "queue-operation":
                self._read_queue(js.text(row.get("operation")), js.text(row.get("content")), at)

    def _read_queue(self, operation: str, content: str, at: float) -> None:
        if operation == "enqueue":
            prompt = _user_prompt(content)
            self._queue += [prompt] if prompt and not prompt.startswith("/") else []
        elif operation == "popAll":
            self._queue.clear()
        elif self._queue:
            prompt = self._queue.pop(0)
            if operation == "remove":
                self.add_text(EventKind.PROMPT, prompt, at, call_id=hash_text(f"{at} {prompt}"))

    def _read_attachment(self, attachment: js.Json, at: float, agent: str) -> None:
        """Newer versions record a queued prompt that was delivered here as well."""
        prompt = _user_prompt(_message_text(attachment.get("prompt")))
        is_known = any(event.kind is EventKind.PROMPT and event.prompt == prompt for event in self.events[-5:])
        if attachment.get("type") == "queued_command" and not is_known:
            self.add_text(EventKind.PROMPT, prompt, at, agent, hash_text(f"{at} {prompt}"))

    def _read_user(self, row: js.Json, content: object, at: float, agent: str) -> None:
        results = [part for part in js.sections(content) if part.get("type") == "tool_result"]
        response = js.section(row, "toolUseResult")
        beside = _user_prompt(_message_text(content)) if _ASKED in row else ""
        for part in results:
            call_id = js.first_text(part, "tool_use_id") or js.first_text(row, "sourceToolAssistantUUID", "parentUuid")
            output = js.result_text(part.get("content"))
            said, beside = output.partition(_INSTEAD)[2].strip() or beside, ""  # of several calls the first has it
            comment = Event(kind=EventKind.PROMPT, at=at, agent=agent, prompt=said, call_id=call_id)
            comments = [comment] if said and self.tool_of(call_id) else []  # a row alone has no call: begins no turn
            if output.startswith(_NOT_RUN):
                self.drop_call(call_id)
            else:
                failed = None if response.get("interrupted") is True else part.get("is_error") is True
                output = (js.result_text(response) if len(results) == 1 else "") or output
                self.end_call(call_id, output, failed, at, agent=agent)
            self.events += comments
        words = _message_text(content).strip()
        if shell := _SHELL.match(words):
            self._shell = js.text(row.get("uuid"))
            self.begin_call(self._shell, "Bash", {"command": shell[1].strip()})
        elif shell := _SHELL_OUTPUT.match(words):
            self.end_call(self._shell, "\n".join(filter(None, shell.groups())), None, at, agent=agent)
        elif row.get("isCompactSummary"):
            self.add_compaction(js.result_text(content), at)
        elif not results and not row.get("isMeta") and js.section(row, "origin").get("kind") != "task-notification":
            self.add_text(EventKind.PROMPT, _user_prompt(words), at, agent)


def _context_share(tokens: float, model: str) -> float | None:
    return js.share(tokens, _LONG_WINDOW if tokens > _WINDOW or "[1m]" in model.lower() else _WINDOW)


def _folder_names(project: Path) -> set[str]:
    return {re.sub(r"[^A-Za-z0-9]", "-", str(place)) for place in (project, project.resolve())}


def _message_text(content: object) -> str:
    """The text of a message without thinking, calls and results."""
    if isinstance(content, str):
        return content
    return "\n".join(js.text(part.get("text")) for part in js.sections(content) if part.get("type") == "text")


def _user_prompt(words: str) -> str:
    """What the user asked: without reminders, a command with its arguments; empty for the client's own text."""
    bare = re.sub(_REMINDER, "", words).strip()
    if command := re.search(_COMMAND, bare):
        given = "".join(re.findall(_ARGUMENTS, bare)[:1]).strip()
        return f"/{command[1]} {given}" if given else ""
    return "" if bare.startswith(_NOT_ASKED) else bare


CLIENT = Claude()
