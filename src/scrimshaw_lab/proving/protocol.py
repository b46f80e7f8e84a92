"""What the prover and its processes say: an order on the command line, then a line of JSON for every message."""

from __future__ import annotations

from enum import StrEnum

import msgspec
from msgspec import Struct


class Role(StrEnum):
    """What a process does: everything, searches only, or the events of a client's hooks only."""

    WRITER = "writer"
    READER = "reader"
    HOOK = "hook"


class Fault(StrEnum):
    """What hinders the processes of a round, or was done to a database before it."""

    NONE = "none"
    POWER_LOSS = "power loss"
    DISK_FULL = "disk full"
    FILE_LIMIT = "file size limit"
    READ_ONLY = "read-only folder"
    CLOCK_JUMPS = "clock jumps"
    INDEX_DELETED = "index deleted"
    INDEX_DAMAGED = "index damaged"
    INDEX_LOG_CUT = "index log cut"
    JOURNAL_LOST = "journal lost"
    MANY_WRITERS = "many writers"


class Operation(StrEnum):
    """What a process asks of the engine. `edit` is a file written by hand and scanned."""

    SAVE = "save"
    UPDATE = "update"
    DELETE = "delete"
    LINK = "link"
    EDIT = "edit"
    UNDO = "undo"
    EVENT = "event"
    JOB = "job"
    CHECKPOINT = "checkpoint"
    SCAN = "scan"
    REBUILD = "rebuild"
    SEARCH = "search"


class Order(Struct, frozen=True, kw_only=True):
    """What a process is to do; `prefix` begins its tokens, `disk_log` is where it tells what it wrote, "" for nowhere.

    At the `passage`-th time that it comes to the kill point `point` it says so and stands still.
    """

    project: str
    home: str
    role: Role
    name: str
    prefix: str
    seed: str
    operations: int
    fault: Fault
    point: str = ""
    passage: int = 0
    disk_log: str = ""


class Ready(Struct, frozen=True, tag="ready"):
    """The memory is open and read."""


class Intent(Struct, frozen=True, kw_only=True, tag="intent"):
    """What will be done to `id`: `token` is a word that nothing else has.

    A memory will have a body of the SHA-256 `body` with the token in its file, or a file of the SHA-256 `exact`;
    an `exact` of "" says that the file will be gone.
    """

    token: str
    operation: Operation
    id: str = ""
    body: str = ""
    exact: str | None = None


class Ack(Struct, frozen=True, kw_only=True, tag="ack"):
    """The engine's answer: the SHA-256 of a memory's file ("" when gone) and the number of its ledger row, or job."""

    token: str
    hash: str = ""
    number: int = 0


class Refused(Struct, frozen=True, kw_only=True, tag="refused"):
    """The engine's error; whether anything was done is not promised."""

    token: str
    code: str
    message: str


class Point(Struct, frozen=True, tag="point"):
    """The process stands at its kill point and waits to be killed."""

    name: str


Message = Ready | Intent | Ack | Refused | Point
_MESSAGE = msgspec.json.Decoder(Message)


def line(message: Message) -> str:
    """A message as its line, without the end of line."""
    return msgspec.json.encode(message).decode()


def message(text: str) -> Message | None:
    """The message of a line; None for a line that was cut off, which says nothing."""
    return _MESSAGE.decode(text) if text.endswith("\n") else None
