"""Cline."""

import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import structs

from scrimshaw.app.clients.client import HOOK, Client, OwnFile, Programs, Scope, SetupFiles, name_events
from scrimshaw.ingest.events import Event, add_call_id
from scrimshaw.ingest.payload import Json, first_text, join_texts, read_object, result_text, section, sections, text
from scrimshaw.models import EventKind

_OCCASIONS = {"taskStart": "startup", "taskResume": "resume", "preCompact": "auto", "taskCancel": "cancel"}
_MARK = "# Written by `scrimshaw setup cline`; `--remove` takes it away."
_ASKED = re.compile(r"\A<user_input\b[^>]*>(.*)</user_input>", re.DOTALL)  # hooks and results have the role `user` too
_START_S = 60  # Cline waits 3 seconds by default, which a cold start on a busy machine can exceed


class Cline(Client):
    """Cline. A payload has one section named after its event; its model only gets replies to tool calls.

    The command line reports no prompts. They are in the session's own files: the first next to its settings, before
    anything is done, and all of them among the messages.
    """

    name, title, program, folder = "cline", "Cline", "cline", ".cline"
    events = name_events(
        start="taskStart taskResume", prompt="userPromptSubmit", tool="postToolUse",
        compact="preCompact", stop="taskComplete", end="taskCancel",
    )  # fmt: skip
    reply_kinds = (EventKind.TOOL,)
    reply_key = "contextModification"
    keeps_transcripts = False
    hides_prompts = True
    transcript_glob = ".cline/data/sessions/{0}/{0}.messages.json"
    scopes = (Scope.USER,)
    servers_file = ".cline/data/settings/cline_mcp_settings.json"
    server_fields: Mapping[str, Any] = {"timeout": _START_S}

    def event_name(self, payload: Json, hint: str) -> str:
        return next((name for name in self.events if name in payload), hint[:1].lower() + hint[1:])

    def read_event(self, payload: Json, kind: EventKind, wire: str) -> Event:
        """Sub-agents belong to the session of the agent that started them."""
        roots, fields = payload.get("workspaceRoots"), section(payload, wire)
        first_root = text(roots[0]) if isinstance(roots, list) and roots else ""
        session = text(section(payload, "sessionContext").get("rootSessionId")) or text(payload.get("taskId"))
        messages = self.find_transcript(session, Path.home())
        if messages and kind is EventKind.START:
            messages = messages.with_name(f"{session}.json")
        event = Event(
            client=self.name,
            kind=kind,
            session=session,
            transcript=str(messages or ""),
            cwd=first_root or text(section(payload, "workspaceInfo").get("rootPath")),
            prompt=first_text(fields, "prompt") or first_text(section(fields, "taskMetadata"), "initialTask"),
            output=text(section(payload, "turn").get("outputText")),
            occasion=_OCCASIONS.get(wire, ""),
            agent=text(payload.get("agent_id")) if payload.get("parent_agent_id") else "",
        )
        if kind is not EventKind.TOOL:
            return event
        result = section(payload, "tool_result")
        arguments, output = section(result, "input") or section(fields, "parameters"), result.get("output")
        name = text(fields.get("toolName")) or text(result.get("name"))
        if name == "use_mcp_tool":
            name = f"{text(arguments.get('server_name'))}__{text(arguments.get('tool_name'))}"
        if isinstance(commands := arguments.get("commands"), list):  # to its shell tool; they count as one script
            scripts = (result_text(each) or text(read_object(each).get("command")) for each in commands)
            arguments = {**arguments, "command": "\n".join(scripts)}
        verdicts = [fields.get("success"), *(part.get("success") for part in sections(output))]
        failed = True if False in verdicts else False if True in verdicts else None
        call = {"tool_name": name, "tool_input": arguments, "tool_use_id": result.get("id")}
        words = result_text(output) or text(fields.get("result"))
        return self.add_call(event, call, words, failed, is_mcp="__" in name)

    def read_answers(self, lines: Iterable[str]) -> list[str]:
        """What the agent said since the last prompt. All lines make one object."""
        answers = list[str]()
        for role, words in _read_messages(read_object("\n".join(lines))):
            if role == "assistant":
                answers.append(words)
            elif _ASKED.match(words):
                answers.clear()
        return answers

    def read_missed_events(self, lines: Iterable[str]) -> list[Event]:
        """The prompts; each has the same id in both files."""
        found = read_object("\n".join(lines))
        asked = (_ASKED.match(words) for role, words in _read_messages(found) if role == "user")
        prompts = [text(found.get("prompt")), *(words[1] for words in asked if words)]
        begun = Event(client=self.name, kind=EventKind.PROMPT, session=first_text(found, "session_id", "sessionId"))
        return [add_call_id(structs.replace(begun, prompt=each), "") for each in prompts if each.strip()]

    def setup_files(self, root: Path, scope: Scope, programs: Programs) -> SetupFiles:
        events = [name[:1].upper() + name[1:] for name in self.events]
        texts = {each: f"#!/bin/sh\n{_MARK}\n{programs.hook_command(self.name, each)}\n" for each in events}
        make = partial(OwnFile, mark=_MARK, served_by=f"{HOOK} {self.name}", is_executable=True)
        hooks = (make(path=root / ".cline/hooks" / event, text=text) for event, text in texts.items())
        return (self.name_server(root, programs), *hooks)


def _read_messages(found: Json) -> list[tuple[str, str]]:
    """The role and words of each message in a session's file."""
    return [(text(each.get("role")), join_texts(each.get("content"))) for each in sections(found.get("messages"))]


CLIENT = Cline()
