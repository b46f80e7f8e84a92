"""Gemini CLI: JSON lines of messages and changes to them, in older versions one JSON object."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from scrimshaw.ingest.jsonl import all_rows
from scrimshaw.ingest.outcome import read_report
from scrimshaw.ingest.payload import Json, decoded, section, sections, shown, text
from scrimshaw.ingest.transcripts.gathering import Gathering, moment
from scrimshaw.ingest.turns import Transcript
from scrimshaw.models import EventKind

_INJECTED = re.compile(r"\A(?:\s*<(hook_context|session_context)>.*?</\1>\s*)+", re.DOTALL)
_FRAME = re.compile(r"\A\s*<untrusted_context>\n?(.*?)\n?</untrusted_context>\s*\Z", re.DOTALL)
_SET_UP = "This is the Gemini CLI. We are setting up the context for our chat."
_PROJECT = re.compile(r'"projectHash"\s*:\s*"([0-9a-f]{64})"')
_NOT_RUN = ("cancelled", "awaiting_approval", "validating", "scheduled", "executing")


def parse_gemini(source: str) -> Transcript:
    """The session in a chat file. It does not name its folder: `project_hash` tells which project it belongs to."""
    about, messages, skipped = _read(source)
    gathered = Gathering()
    agent = text(about.get("sessionId")) if about.get("kind") == "subagent" else ""
    for message in messages:
        _read_message(message, gathered, agent)
    return Transcript(
        session=text(about.get("sessionId")),
        client="gemini",
        turns=gathered.in_order(),
        skipped=skipped,
    )


def project_hash(source: str) -> str:
    """The SHA-256 of the project's path, in hex, as a chat file has it; empty where it has none."""
    found = _PROJECT.search(source)
    return found[1] if found else ""


def _read(source: str) -> tuple[Json, list[Json], int]:
    """What a file says of its session, its messages as they stand at the end, and how many lines were broken."""
    whole = decoded(source) if '"messages"' in source else None
    if isinstance(whole, Mapping) and "messages" in whole:
        return whole, list(sections(whole.get("messages"))), 0
    rows, skipped = all_rows(source)
    about = next((row for row in rows if row.get("sessionId")), {})
    return about, _final(rows), skipped


def _final(rows: Iterable[Json]) -> list[Json]:
    """The messages after all changes: one told again replaces the first, a rewind drops those from there on."""
    kept: dict[str, Json] = {}
    for row in rows:
        if isinstance(row.get("$rewindTo"), str):
            kept = _before(kept, row["$rewindTo"])
        elif "messages" in section(row, "$set"):
            kept = {text(each.get("id")): each for each in sections(section(row, "$set")["messages"])}
        elif row.get("id") and row.get("type"):
            kept[str(row["id"])] = row
    return list(kept.values())


def _before(kept: Mapping[str, Json], name: str) -> dict[str, Json]:
    order = list(kept)
    end = order.index(name) if name in kept else len(order)
    return {key: kept[key] for key in order[:end]}


def _read_message(message: Json, gathered: Gathering, agent: str) -> None:
    at, words = moment(message.get("timestamp")), shown(message.get("content"))
    if message.get("type") == "user":
        asked = _INJECTED.sub("", words)
        if not asked.startswith(_SET_UP):
            gathered.say(EventKind.PROMPT, asked, at, agent)
    elif message.get("type") == "gemini":
        gathered.say(EventKind.ANSWER, words, at, agent)
        for call in sections(message.get("toolCalls")):
            _read_call(call, gathered, at, agent)


def _read_call(call: Json, gathered: Gathering, at: float, agent: str) -> None:
    status, call_id = text(call.get("status")), text(call.get("id"))
    if status in _NOT_RUN:
        return
    responses = [section(part, "functionResponse", "response") for part in sections(call.get("result"))]
    told = "\n".join(shown(response) for response in responses) or shown(call.get("resultDisplay"))
    framed = _FRAME.match(told)
    ending = read_report(framed[1] if framed else told)
    failed = status == "error" or any(response.get("error") for response in responses) or bool(ending.failed)
    gathered.ask(call_id, text(call.get("name")), section(call, "args"))
    gathered.finish(call_id, ending.output, failed, moment(call.get("timestamp")) or at, agent=agent)
