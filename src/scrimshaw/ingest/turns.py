"""What a transcript tells, whatever client wrote it. Its text is raw: redact it before anything is stored."""

from __future__ import annotations

from msgspec import Struct

from scrimshaw.ingest.tool_calls import ToolCall
from scrimshaw.models import EventKind


class Turn(Struct, frozen=True, kw_only=True):
    """One thing that happened: a prompt, an answer, a finished tool call (`call`, with its normalised name) or a
    compaction.

    `at` is in seconds since 1970, 0.0 where the transcript does not say; `tool_name` is the client's own name of the
    tool; `agent` names a sub-agent and is empty for the main one.
    """

    kind: EventKind
    at: float = 0.0
    text: str = ""
    call: ToolCall | None = None
    tool_name: str = ""
    agent: str = ""


class Transcript(Struct, frozen=True, kw_only=True):
    """A session as its client recorded it, in order; `cwd` is the folder it ran in, empty where it is not told.

    `skipped` counts the lines that could not be read.
    """

    session: str
    client: str
    cwd: str = ""
    turns: tuple[Turn, ...] = ()
    skipped: int = 0
