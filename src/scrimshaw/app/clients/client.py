"""The base of agent clients: their hooks, their transcripts, and how they are connected."""

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from scrimshaw.errors import UnreadableFile
from scrimshaw.ingest.events import Event, StoredSession, Transcript, add_call_id
from scrimshaw.ingest.payload import Json, first_text, section, text
from scrimshaw.ingest.tool_calls import canonical_tool, is_own_tool
from scrimshaw.models import EventKind, content_hash

SERVER, HOOK = "scrimshaw", "scrimshaw-hook"
PATIENCE_S = 5  # the hook gives up after half a second of work itself; this is for a machine too busy to start it
# A transcript's beginning has its session and folder: its first line, which may be 50 KB, and this much.
HEAD_BYTES = 64 * 1024

# What the agent said at a stop; the summary that a compaction leaves.
_OUTPUT_KEYS = {EventKind.STOP: "last_assistant_message", EventKind.COMPACT: "compact_summary"}
_REPORT = (
    r"(?s)\A(?:Command: .*?\n)?(?:Directory: [^\n]*\n)?Output: (?:\(empty\)(?=\n|\Z))?(.*?)(?:\nError: \(none\))?"
    r"(?:\nExit Code: (\S+))?(?:\nSignal: ([^\n]+))?(?:\n(?:Background PIDs|Process Group PGID): [^\n]*)*\Z"
)
_STOPPED = ("Command injection detected: ", "Command was automatically cancelled ")


class Scope(StrEnum):
    """Where a client is set up: in files that a team commits, or in the user's own for the project or for all."""

    SHARED, LOCAL, USER = "shared", "local", "user"

    def root(self, project: Path) -> Path:
        """The folder with a client's files in this scope."""
        return Path.home() if self is Scope.USER else project


class Programs(Struct, frozen=True, kw_only=True):
    """The commands of this installation: absolute paths, or bare names for files that other machines will use."""

    server: str = SERVER
    hook: str = HOOK
    has_status_line: bool = False  #: whether a client gets the line below its prompt from the server's program

    def hook_command(self, *arguments: str, in_powershell: bool = False) -> str:
        """The hook with its arguments; a missing program does not stop a client.

        sh and PowerShell end with 0. cmd.exe passes the rest as arguments, which the hook does not read, and
        returns 1 for a missing program: clients take that as a warning, and only other codes as a refusal.
        """
        command = f"{shlex.join([Path(self.hook).as_posix(), *arguments])} ; exit 0"
        return f"& {command}" if in_powershell and command.startswith("'") else command  # otherwise it is a string

    def server_entry(self, **more: Any) -> dict[str, Any]:
        """The MCP entry that most clients understand."""
        return {"command": self.server, "args": ["serve"], **more}


class SharedFile(Struct, frozen=True, kw_only=True):
    """A JSON or TOML file of a client, and our part in it."""

    path: Path
    place: tuple[str, ...] = ()  #: the keys that lead to our entry, and the entry
    entry: Mapping[str, Any] = {}
    hooks: Mapping[str, Any] = {}  #: our hooks by event, below the key `hooks`
    base: Mapping[str, Any] = {}  #: the contents of a new file


class OwnFile(Struct, frozen=True, kw_only=True):
    """A file of ours alone, recognised by a `mark`; if it contains `served_by`, it works without a hook."""

    path: Path
    text: str
    mark: str = ""
    served_by: str = ""
    is_executable: bool = False


SetupFiles = tuple[SharedFile | OwnFile, ...]


def name_events(**names: str) -> Mapping[str, EventKind]:
    """The kind of each of a client's event names, from its names by kind."""
    return {name: EventKind(kind) for kind, given in names.items() for name in given.split()}


class Client:
    """A client, by default like Claude Code, which several clients copied."""

    name: str
    title: str
    program: str  #: its command and its folder in the home; either shows that it is installed
    folder: str
    #: The client's names of the events that are used.
    events = name_events(
        start="SessionStart", prompt="UserPromptSubmit", tool="PostToolUse PostToolUseFailure",
        stop="Stop SubagentStop", compact="PreCompact PostCompact", end="SessionEnd",
    )  # fmt: skip
    #: The events after which it gives its model a text, and the key of that text; empty for Claude Code's way.
    reply_kinds: tuple[EventKind, ...] = (EventKind.START, EventKind.PROMPT)
    reply_key = ""
    has_powershell = False  #: whether PowerShell runs its hooks on Windows
    hides_prompts = False  #: whether prompts have to be read from the transcript, from a start on
    keeps_transcripts = True
    #: A string in every line of a transcript with an answer; empty if answers are only read from events.
    answer_mark = ""
    prompt_mark = '"user"'  #: a string in every line of a transcript with a prompt
    rewrite_mark = ""  #: a string near the end of a line that repeats messages, whose beginning says why
    transcript_glob = ""  #: a session's own transcript below the home, `{}` for its id
    stored_globs: tuple[str, ...] = ()  #: the files below the home that may contain sessions of a project
    guidance_file = ""  #: its guidance file in a project; empty if it uses another client's
    scopes: tuple[Scope, ...] = (Scope.USER, Scope.SHARED)  #: the usual scope first
    #: The file below the root that names MCP servers, the key of their table, and what our entry has besides a command.
    servers_file, servers_key = "", "mcpServers"
    server_fields: Mapping[str, Any] = {}
    hooks_file = ""  #: the file with hooks, which may be the same
    hooks_base: Mapping[str, Any] = {}  #: the contents of a new file with hooks
    hook_timeout = PATIENCE_S  #: in the client's unit
    hook_fields: Mapping[str, Any] = {}  #: by event, fields of its handler besides command and timeout
    advice = shared_advice = ""  #: what the user must still do after setup, in any scope and with shared files

    def parse_payload(self, payload: Json, hint: str = "") -> Event | None:
        """The event of a hook's payload, with a `call_id` that is the same if the report is delivered again.

        `hint` is the client's name of the event, for payloads without it. None for an unused event,
        one without a session, an empty prompt, and this server's own tools. Two starts or compactions of one session
        may share an id if the client gives no time.
        """
        wire = self.event_name(payload, hint)
        kind = self.events.get(wire)
        event = self.read_event(payload, kind, wire) if kind else None
        if event is None or not event.session:
            return None
        if event.kind is EventKind.TOOL and (not event.tool_name or is_own_tool(event.tool_name)):
            return None
        if event.kind is EventKind.PROMPT and not event.prompt.strip():
            return None
        if event.call_id:
            return event
        # What tells one turn from another, in some client's words.
        turn = first_text(payload, "prompt_id", "turn_id", "generation_id") or str(payload.get("timestamp", ""))
        return add_call_id(event, turn)

    def event_name(self, payload: Json, hint: str) -> str:
        """The client's name of the event in a payload."""
        return text(payload.get("hook_event_name")) or hint

    def read_event(self, payload: Json, kind: EventKind, wire: str) -> Event:
        """The event of a payload, without its tool call."""
        return Event(
            client=self.name,
            kind=kind,
            session=text(payload.get("session_id")),
            cwd=text(payload.get("cwd")),
            transcript=text(payload.get("transcript_path")),
            prompt=text(payload.get("prompt")) if kind is EventKind.PROMPT else "",
            output=text(payload.get(_OUTPUT_KEYS.get(kind, ""))),
            occasion=first_text(payload, "source", "trigger", "reason"),
            agent=text(payload.get("agent_id")),
        )

    def add_call(self, event: Event, payload: Json, output: str, failed: bool | None, *, is_mcp: bool = False) -> Event:
        """`event` with the tool call of a payload in Claude Code's words; `is_mcp` for a tool of another server."""
        name = text(payload.get("tool_name"))
        return structs.replace(
            event,
            tool="Mcp" if is_mcp else canonical_tool(name),
            tool_name=name,
            arguments=section(payload, "tool_input"),
            output=output,
            failed=failed,
            call_id=first_text(payload, "tool_use_id", "tool_call_id"),
        )

    def format_reply(self, kind: EventKind, content: str) -> str:
        """One line of JSON for stdout that gives the model a text; empty if the client takes none."""
        if not content or kind not in self.reply_kinds:
            return ""
        wire = next(name for name, found in self.events.items() if found is kind)
        own_way = {"hookSpecificOutput": {"hookEventName": wire, "additionalContext": content}}
        return msgspec.json.encode({self.reply_key: content} if self.reply_key else own_way).decode()

    def read_context_share(self, lines: Iterable[str]) -> float | None:
        """The share of the context in use after the last line of a transcript; None if unknown."""
        return None

    def read_answers(self, lines: Iterable[str]) -> list[str]:
        """The main agent's texts in the lines of a transcript, in order."""
        marked = [line for line in lines if self.answer_mark and self.answer_mark in line]
        events = self.parse_transcript("\n".join(marked)).events if marked else ()
        return [event.output for event in events if event.kind is EventKind.ANSWER and not event.agent]

    def begins_turn(self, line: str) -> bool:
        """Whether a line of a transcript has a person's prompt."""
        if not self.keeps_transcripts or self.prompt_mark not in line:
            return False
        return any(event.kind is EventKind.PROMPT and not event.agent for event in self.parse_transcript(line).events)

    def read_missed_events(self, lines: Iterable[str]) -> list[Event]:
        """The calls and prompts in the lines of a transcript that no hook reports, with what was `said` before each."""
        return []

    def read_outcome(self, lines: Iterable[str], call_id: str) -> bool | None:
        """Whether a call failed, by the lines of a transcript; None if unknown."""
        return None

    def parse_transcript(self, source: str) -> Transcript:
        """The session in the text of a transcript; malformed text is not an error."""
        raise NotImplementedError

    def transcript_files(self, project: Path, home: Path) -> Iterable[Path]:
        """The files below the user's home that may contain sessions of a project."""
        return [file for glob in self.stored_globs for file in home.glob(glob)]

    def find_transcript(self, session: str, home: Path) -> Path | None:
        """The transcript of a session below the user's home; None if there is none."""
        is_name = self.transcript_glob and re.fullmatch(r"[\w-]+", session)
        return next(home.glob(self.transcript_glob.format(session)), None) if is_name else None

    def find_folder(self, file: Path, head: str, begun: Transcript) -> str:
        """The folder that a session ran in, or the SHA-256 of its path, by the beginning of its file; or empty."""
        return begun.cwd

    def is_of_project(self, file: Path, head: str, begun: Transcript, project: Path) -> bool:
        """Whether a session ran in a project or a folder of it, by the beginning of its file."""
        return is_within(self.find_folder(file, head, begun), project)

    def session_of_file(self, file: Path, begun: Transcript) -> str:
        """The session that a file belongs to; empty for a file without one."""
        return begun.session

    def find_sessions(self, project: Path, home: Path) -> list[StoredSession]:
        """The sessions of a project that the client keeps below `home`; raises UnreadableFile."""
        return [*self._group_files(self.transcript_files(project, home), project)]

    def sessions_at(self, place: Path) -> list[StoredSession]:
        """The sessions in a file, or in all files below a folder, of any project."""
        files = place.rglob("*.json*") if place.is_dir() else [place]
        return [*self._group_files((file for file in files if file.suffix in (".json", ".jsonl")), None)]

    def _group_files(self, files: Iterable[Path], project: Path | None) -> Iterator[StoredSession]:
        """One entry per session: its own file, then those of its sub-agents. A file that names none is left out."""
        groups: dict[str, list[tuple[Path, float, str]]] = {}
        for file in sorted(files):
            head = _read_head(file)
            begun = self.parse_transcript(head)
            session = self.session_of_file(file, begun)
            if session and (project is None or self.is_of_project(file, head, begun, project)):
                at, folder = begun.events[0].at if begun.events else 0.0, self.find_folder(file, head, begun)
                groups.setdefault(session, []).append((file, at, folder))
        for session, group in groups.items():
            # Every client puts the session's id, or its beginning, into the name of its own file or folder.
            own_first = sorted((file for file, _, _ in group), key=lambda file: session[:8] not in file.name)
            yield StoredSession(
                client=self.name,
                session=session,
                place=str(own_first[0]),
                folder=str(own_first[0].parent),
                size=sum(file.stat().st_size for file in own_first if file.exists()),
                began=min((at for _, at, _ in group if at), default=0.0),
                cwd=next((folder for _, _, folder in group if folder), ""),
                read_texts=partial(_read_texts, own_first),
                parse=self.parse_transcript,
            )

    def setup_files(self, root: Path, scope: Scope, programs: Programs) -> SetupFiles:
        """Its files below the root of a scope, with what setup puts there."""
        servers, hooks = self.name_server(root, programs), self.make_hooks(programs)
        if self.hooks_file == self.servers_file:
            return (structs.replace(servers, hooks=hooks),)
        return (servers, SharedFile(path=root / self.hooks_file, hooks=hooks, base=self.hooks_base))

    def name_server(self, root: Path, programs: Programs) -> SharedFile:
        """The file that names our server."""
        entry = programs.server_entry(**self.server_fields)
        return SharedFile(path=root / self.servers_file, place=(self.servers_key, SERVER), entry=entry)

    def make_hooks(self, programs: Programs) -> dict[str, Any]:
        """The hooks by event: one group with one handler; tool events match every tool."""
        command = programs.hook_command(self.name, in_powershell=self.has_powershell and os.name == "nt")
        handler = {"type": "command", "command": command, "timeout": self.hook_timeout}
        hooks = {event: [handler | self.hook_fields.get(event, {})] for event in self.events}
        return {event: ({"matcher": "*"} if "Tool" in event else {}) | {"hooks": each} for event, each in hooks.items()}

    def check_trust(self, root: Path) -> str:
        """The known reason why the hooks below a root do not run; otherwise empty."""
        return ""


def read_report(report: str) -> tuple[str, int]:
    """The output and exit code in the report that some clients make of a shell command, 0 if it has none."""
    if not (found := re.match(_REPORT, report)):
        return report, int(report.startswith(_STOPPED))
    is_killed, code = found[3] not in (None, "0", "(none)"), found[2] or ""
    return found[1], int(code) if re.fullmatch(r"-?\d{1,10}", code) else int(is_killed)


def is_within(cwd: str, project: Path) -> bool:
    """Whether a session ran in the project or in a folder of it, by a path or the SHA-256 of one."""
    places = (project, project.resolve())
    return bool(cwd) and any(Path(cwd).is_relative_to(x) or cwd == content_hash(str(x).encode()) for x in places)


def _read_head(file: Path) -> str:
    """The first lines of a file; all of a file with a single object. Empty if it cannot be read."""
    try:
        with file.open("rb") as stream:
            head = stream.read() if file.suffix == ".json" else stream.readline() + stream.read(HEAD_BYTES)
        return head.decode("utf-8", "replace")
    except OSError:
        return ""


def _read_texts(files: Iterable[Path]) -> list[str]:
    try:
        return [file.read_bytes().decode("utf-8", "replace") for file in files]
    except OSError as error:
        raise UnreadableFile(f"{error.filename} cannot be read: {error.strerror}.", "Check its permissions.") from error
