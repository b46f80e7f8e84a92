"""GitHub Copilot CLI: JSON lines of events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from scrimshaw.ingest.jsonl import all_rows
from scrimshaw.ingest.outcome import read_shell_mark
from scrimshaw.ingest.payload import Json, decoded, first_text, section, sections, shown, text
from scrimshaw.ingest.transcripts.gathering import Gathering, moment
from scrimshaw.ingest.turns import Transcript
from scrimshaw.models import EventKind

_REFUSED = ("denied", "rejected")


def parse_copilot(source: str) -> Transcript:
    """The session in the lines of `events.jsonl`."""
    rows, skipped = all_rows(source)
    gathered = Gathering()
    for row in rows:
        read = _READERS.get(text(row.get("type")))
        if read:
            read(section(row, "data"), moment(row.get("timestamp")), gathered)
    about = next((section(row, "data") for row in rows if row.get("type") == "session.start"), {})
    return Transcript(
        session=text(about.get("sessionId")),
        client="copilot",
        cwd=text(section(about, "context").get("cwd")),
        turns=gathered.in_order(),
        skipped=skipped,
    )


def _read_user(data: Json, at: float, gathered: Gathering) -> None:
    gathered.say(EventKind.PROMPT, text(data.get("content")), at, text(data.get("parentAgentTaskId")))


def _read_assistant(data: Json, at: float, gathered: Gathering) -> None:
    gathered.say(EventKind.ANSWER, text(data.get("content")), at, text(data.get("parentToolCallId")))
    for call in sections(data.get("toolRequests")):
        gathered.ask(text(call.get("toolCallId")), text(call.get("name")), _arguments(call))


def _read_start(data: Json, at: float, gathered: Gathering) -> None:
    gathered.ask(text(data.get("toolCallId")), text(data.get("toolName")), _arguments(data))


def _read_complete(data: Json, at: float, gathered: Gathering) -> None:
    call_id, error = text(data.get("toolCallId")), section(data, "error")
    if text(error.get("code")) in _REFUSED:
        gathered.drop(call_id)
        return
    ending = read_shell_mark(shown(data.get("result")) or shown(error))
    failed = data.get("success") is False or bool(ending.failed)
    tool = "Mcp" if "-" in gathered.tool_of(call_id) else ""
    gathered.finish(call_id, ending.output, failed, at, agent=text(data.get("parentToolCallId")), tool=tool)


def _read_compaction(data: Json, at: float, gathered: Gathering) -> None:
    gathered.compact(first_text(data, "summaryContent", "summary"), at)


_READERS: Mapping[str, Callable[[Json, float, Gathering], None]] = MappingProxyType(
    {
        "user.message": _read_user,
        "assistant.message": _read_assistant,
        "tool.execution_start": _read_start,
        "tool.execution_complete": _read_complete,
        "session.compaction_complete": _read_compaction,
    }
)


def _arguments(call: Json) -> Json:
    """The arguments, which some versions write as JSON text."""
    sent = call.get("arguments")
    return section({"sent": decoded(sent) if isinstance(sent, str) else sent}, "sent")
