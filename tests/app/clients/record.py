"""What the tests know of a client: one `Record` in `records/NAME.py`, from which all their tables are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from tests.app.clients.words import CONTENT, HOOK

from scrimshaw.app.clients import CLIENT_NAMES
from scrimshaw.models import EventKind

Json = dict[str, Any]
Sent = tuple[Json, str]  #: a payload, and the hint of its event that the hook command is given

RECORDS = Path(__file__).parent / "records"


class Case(NamedTuple):
    """A payload and what the event that it reports must say."""

    name: str
    payload: Json
    event: Json
    hint: str = ""


@dataclass(frozen=True, kw_only=True)
class Session:
    """A transcript with one call of a tool, and what is read from it."""

    source: str
    session: str
    cwd: str
    told: Sequence[tuple[str, str]]  #: the kind and the text of each event; for a call its tool and output
    call: tuple[Any, ...]  #: tool, the client's name, arguments, output, failed, id and time
    last_agent: str = ""  #: the sub-agent of the last event
    skipped: int = 0  #: the lines that cannot be read


@dataclass(frozen=True, kw_only=True)
class Store:
    """Where a client keeps its sessions."""

    lay_out: Callable[[Path, Path], None]  #: writes them below a home, for a project
    sessions: Sequence[str]  #: those that are of the project
    calls: int  #: how many calls of tools they hold


@dataclass(frozen=True, kw_only=True)
class Record:
    """Payloads as the real client sent them, transcripts as it writes them, and what set-up does for it."""

    events: Sequence[Case]
    unused: Sequence[Sent]  #: payloads that are no event
    own_calls: Sequence[Sent]  #: payloads that report a call of our own tools
    prompt: Sent  #: the words `continue`, in the folder CWD
    next_turn: Json  #: the fields of `prompt` that differ where the same words are a prompt of another turn
    replies: Mapping[EventKind, Json]  #: what the hook prints for CONTENT, by the events that take an answer
    files: Sequence[Sequence[str]]  #: for each scope the files of set-up, below a project `p` or a home `h`
    #: The file that holds the MCP server in the user's scope, its key there, and our entry.
    server: tuple[str, str, Json] | None = None
    #: The handler that set-up writes for an event, and the least payload of that event; None without hooks in JSON.
    handler: Callable[[str], Json] | None = None
    report: Callable[[str], Sent] | None = None
    #: Rows of a transcript, and the share of the context in use after them, or the answers in them.
    context: Sequence[tuple[Sequence[Json], float | None]] = ()
    answers: Sequence[tuple[Sequence[Json], list[str]]] = ()
    transcript: Session | None = None  #: these two for each client that keeps transcripts
    stores: Sequence[Store] = ()


def load_records() -> dict[str, Record]:
    """The record of each client that has one, by its name."""
    names = [name for name in CLIENT_NAMES if (RECORDS / f"{name}.py").exists()]
    return {name: import_module(f"tests.app.clients.records.{name}").RECORD for name in names}


def hook_reply(event: str) -> Json:
    """What a client takes that reads replies as Claude Code does."""
    return {"hookSpecificOutput": {"hookEventName": event, "additionalContext": CONTENT}}


def group_handler(client: str, timeout: int, **more: Any) -> Json:
    """The handler of a client that reads hooks as Claude Code does."""
    return {"type": "command", "command": f"{HOOK} {client} ; exit 0", "timeout": timeout, **more}


def lines(*rows: Any) -> str:
    """Rows as JSON, one a line; a text stands for itself."""
    return "\n".join(row if isinstance(row, str) else msgspec.json.encode(row).decode() for row in rows)


def write_rows(file: Path, *rows: Json) -> None:
    """A file of JSON lines, with its folders."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(lines(*rows) + "\n", encoding="utf-8")
