"""OpenCode. Its hook is a plugin in JavaScript; sessions are in a SQLite database."""

import json
from collections import defaultdict
from functools import partial
from pathlib import Path

import msgspec
from msgspec import structs

from scrimshaw.app.clients.client import Client, OwnFile, Programs, Scope, SetupFiles, is_within, name_events
from scrimshaw.ingest import payload as js
from scrimshaw.ingest.events import Event, StoredSession, Transcript, TranscriptBuilder, parse_epoch
from scrimshaw.ingest.tool_calls import canonical_tool
from scrimshaw.models import EventKind
from scrimshaw.storage.databases import read_foreign_rows

_OCCASIONS = {
    "session.created": "startup", "session.resumed": "resume", "session.compacted": "compact",
    "experimental.session.compacting": "auto", "session.deleted": "deleted",
}  # fmt: skip
_PLUGIN = Path(__file__).with_name("opencode_plugin.js")
_PLUGIN_COMMAND = '["scrimshaw-hook", "opencode"]'
_DATA, _DATABASE = (".local", "share", "opencode"), "opencode.db"
_SESSIONS = "SELECT id, coalesce(parent_id, ''), directory, time_created, revert FROM session ORDER BY time_created, id"
_MESSAGES = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
_PARTS = "SELECT message_id, data FROM part WHERE session_id = ? ORDER BY message_id, id"
_HINT = "Export a session with `opencode export` and import that file."
_REFUSED = ("The user rejected permission", "The user dismissed this question", "The user has specified a rule")
_FEEDBACK = " with the following feedback: "


class OpenCode(Client):
    """OpenCode; a sub-agent's session belongs to its parent, the one that started it."""

    name, title, program, folder = "opencode", "OpenCode", "opencode", ".config/opencode"
    events = name_events(
        start="session.created session.resumed session.compacted", prompt="chat.message",
        tool="tool.execute.after tool.error", stop="session.idle",
        compact="experimental.session.compacting", end="session.deleted",
    )  # fmt: skip
    reply_key = "context"
    servers_key = "mcp"

    def event_name(self, payload: js.Json, hint: str) -> str:
        return js.text(payload.get("event")) or hint

    def read_event(self, payload: js.Json, kind: EventKind, wire: str) -> Event:
        sent, output = js.section(payload, "input"), js.section(payload, "output")
        tokens, about, parent = js.section(payload, "tokens"), js.section(sent, "info"), js.text(payload.get("parent"))
        session = js.text(sent.get("sessionID")) or js.text(about.get("id"))
        texts = payload.get("texts")
        said = tuple(filter(None, map(js.text, texts))) if isinstance(texts, list) else ()
        used = js.total(tokens, "input", "output") + js.total(js.section(tokens, "cache"), "read", "write")
        event = Event(
            client=self.name,
            kind=kind,
            session=parent or session,
            cwd=js.text(payload.get("directory")) or js.text(about.get("directory")),
            output=said[-1] if said and kind is EventKind.STOP else "",
            said=said,
            occasion=_OCCASIONS.get(wire, ""),
            agent=session if parent else "",
            context_used=js.share(used, payload.get("limit")),
        )
        if kind is EventKind.TOOL:
            name, is_mcp = js.text(sent.get("tool")), isinstance(output.get("content"), list)
            call = {"tool_name": name, "tool_input": sent.get("args"), "tool_use_id": sent.get("callID")}
            return self.add_call(event, call, *_read_result(name, output), is_mcp=is_mcp)
        if kind is not EventKind.PROMPT:
            return event
        typed = (js.text(part.get("text")) for part in js.sections(output.get("parts")) if not part.get("synthetic"))
        call_id = js.text(js.section(output, "message").get("id"))
        return structs.replace(event, prompt="\n".join(filter(None, typed)), call_id=call_id)

    def parse_transcript(self, source: str) -> Transcript:
        """`{"info": ..., "messages": [{"info": ..., "parts": [...]}]}`, as `opencode export` prints it."""
        known = js.read_object(source)
        about = js.section(known, "info")
        own, parent = js.text(about.get("id")), js.text(about.get("parentID"))
        builder, undone = TranscriptBuilder(self.name), js.text(js.read_object(about.get("revert")).get("messageID"))
        for message in js.sections(known.get("messages")):
            if not undone or js.text(js.section(message, "info").get("id")) < undone:  # ids ascend
                _read_message(message, builder, own if parent else "")
        skipped = 0 if known or not source.strip() else 1
        return builder.build(parent or own, cwd=js.text(about.get("directory")), skipped=skipped)

    def find_sessions(self, project: Path, home: Path) -> list[StoredSession]:
        return self._sessions_in(home.joinpath(*_DATA), project)

    def sessions_at(self, place: Path) -> list[StoredSession]:
        return self._sessions_in(place, None) if (place / _DATABASE).is_file() else super().sessions_at(place)

    def _sessions_in(self, folder: Path, project: Path | None) -> list[StoredSession]:
        """The sessions in OpenCode's data folder, oldest first; raises UnreadableFile."""
        groups: dict[str, list[js.Json]] = {}
        file = folder / _DATABASE
        rows = read_foreign_rows(file, _SESSIONS, hint=_HINT) if file.is_file() else ()
        for name, parent, directory, created, revert in rows:
            if project is None or is_within(directory, project):
                about = {"id": name, "parentID": parent, "directory": directory, "created": created, "revert": revert}
                groups.setdefault(parent or name, []).append(about)
        return [
            StoredSession(
                client=self.name,
                session=name,
                place=f"{folder}#{name}",
                folder=str(folder.parent),
                size=0,
                began=(js.number(group[0]["created"]) or 0.0) / 1000,
                cwd=js.text(group[0]["directory"]),
                read_texts=partial(_export_all, folder, sorted(group, key=lambda each: each["id"] != name)),
                parse=self.parse_transcript,
            )
            for name, group in groups.items()
        ]

    def setup_files(self, root: Path, scope: Scope, programs: Programs) -> SetupFiles:
        config, folder = (".config/opencode",) * 2 if scope == Scope.USER else (".", ".opencode")
        servers = self.name_server(root, programs)
        entry = {"type": "local", "command": [programs.server, "serve"], "enabled": True}
        base = {"$schema": "https://opencode.ai/config.json"}
        plugin = _PLUGIN.read_text(encoding="utf-8").replace(_PLUGIN_COMMAND, json.dumps([programs.hook, self.name]))
        return (
            structs.replace(servers, path=root / config / "opencode.json", entry=entry, base=base),
            OwnFile(path=root / folder / "plugin/scrimshaw.js", text=plugin, mark="// Scrimshaw for OpenCode"),
        )


def _read_message(message: js.Json, builder: TranscriptBuilder, agent: str) -> None:
    about, parts = js.section(message, "info"), list(js.sections(message.get("parts")))
    at = parse_epoch(js.section(about, "time").get("created"))
    words = "\n".join(js.text(part.get("text")) for part in parts if _is_spoken(part))
    if about.get("role") == "user":
        builder.add_text(EventKind.PROMPT, words, at, agent)
    elif about.get("summary") is True:
        builder.add_compaction(words, at)
    elif about.get("role") == "assistant":
        for part in parts:
            if _is_spoken(part):
                begun = parse_epoch(js.section(part, "time").get("start")) or at
                builder.add_text(EventKind.ANSWER, js.text(part.get("text")), begun, agent)
            elif part.get("type") == "tool":
                _read_call(part, builder, at, agent)


def _read_call(part: js.Json, builder: TranscriptBuilder, at: float, agent: str) -> None:
    state, call_id, name = js.section(part, "state"), js.text(part.get("callID")), js.text(part.get("tool"))
    error, ended = js.text(state.get("error")), parse_epoch(js.section(state, "time").get("end")) or at
    if error.startswith(_REFUSED):
        builder.add_text(EventKind.PROMPT, error.partition(_FEEDBACK)[2], ended, agent, call_id)
    elif state.get("status") in ("completed", "error"):
        builder.begin_call(call_id, name, js.section(state, "input"))
        builder.end_call(call_id, *_read_result(name, state), ended, agent=agent)


def _read_result(tool: str, result: js.Json) -> tuple[str, bool | None]:
    """The output of a call, and whether it failed: None for one that was interrupted or a person's own command."""
    metadata = js.section(result, "metadata")
    shown = js.text(js.section(metadata, "display").get("text")) or js.text(result.get("output"))
    output, code = (shown or js.result_text(result)).removeprefix("(no output)"), js.number(metadata.get("exit"))
    if result.get("error") or result.get("isError") is True or tool == "invalid" or code:
        return output, None if metadata.get("interrupted") is True else True
    return output, None if code is None and canonical_tool(tool) == "Bash" else False


def _is_spoken(part: js.Json) -> bool:
    return part.get("type") == "text" and not part.get("synthetic") and not part.get("ignored")


def _export_all(folder: Path, group: list[js.Json]) -> list[str]:
    """Each session as `opencode export` prints it; raises UnreadableFile."""
    ask, texts = partial(read_foreign_rows, folder / _DATABASE, hint=_HINT), list[str]()
    for about in group:
        parts = defaultdict[str, list[js.Json]](list)
        for message, data in ask(_PARTS, about["id"]):
            parts[message].append(js.read_object(data))
        rows = ask(_MESSAGES, about["id"])
        messages = [{"info": dict(js.read_object(data), id=name), "parts": parts[name]} for name, data in rows]
        info = {name: about[name] for name in ("id", "parentID", "directory", "revert")}
        texts.append(msgspec.json.encode({"info": info, "messages": messages}).decode())
    return texts


CLIENT = OpenCode()
