"""The messages of the prover and its processes, and the plan of each round, which its seed repeats."""

from enum import StrEnum
from random import Random

import msgspec
from msgspec import Struct
from msgspec.structs import replace

# Kill points, and about how often a process passes each in a round.
BEFORE_RENAME, AFTER_RENAME = "before rename", "after rename"
BEFORE_FSYNC = "before fsync"
BEFORE_COMMIT, AFTER_COMMIT = "before commit", "after commit"
PASSAGES = {BEFORE_RENAME: 16, AFTER_RENAME: 16, BEFORE_FSYNC: 36, BEFORE_COMMIT: 50, AFTER_COMMIT: 50}


class Role(StrEnum):
    """What a process does: everything, deleting and restoring, searching, or the events of a client's hooks."""

    WRITER = "writer"
    ERASER = "eraser"
    READER = "reader"
    HOOK = "hook"


class Fault(StrEnum):
    """A fault during a round, or damage done to a database before it."""

    NONE = "none"
    POWER_LOSS = "power loss"
    DISK_FULL = "disk full"
    FULL_AT_A_STEP = "disk full from a step on"
    FILE_LIMIT = "file size limit"
    READ_ONLY = "read-only folder"
    CLOCK_JUMPS = "clock jumps"
    INDEX_DELETED = "index deleted"
    INDEX_DAMAGED = "index damaged"
    INDEX_LOG_CUT = "index log cut"
    JOURNAL_LOST = "journal lost"
    MANY_WRITERS = "many writers"
    GROUND_MOVED = "databases moved"


class Operation(StrEnum):
    """An operation of the engine. `edit` is a file written by hand and scanned."""

    SAVE = "save"
    UPDATE = "update"
    DELETE = "delete"
    LINK = "link"
    EDIT = "edit"
    UNDO = "undo"
    RESTORE = "restore"
    EVENT = "event"
    JOB = "job"
    CHECKPOINT = "checkpoint"
    SCAN = "scan"
    REBUILD = "rebuild"
    SEARCH = "search"


class Order(Struct, frozen=True, kw_only=True):
    """The work of a process; `prefix` begins its tokens, `disk_log` is the log of its writes, "" for none.

    When it passes the kill point `point` for the `passage`-th time, it reports that and waits, or its databases move.
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
    """The memory is open and scanned."""


class Intent(Struct, frozen=True, kw_only=True, tag="intent"):
    """The next change of `id`; `token` is a word that is nowhere else.

    The memory will have a body with the SHA-256 `body` and the token in its file, or a file with the SHA-256 `exact`;
    an `exact` of "" means that the file will be deleted.
    """

    token: str
    operation: Operation
    id: str = ""
    body: str = ""
    exact: str | None = None


class Ack(Struct, frozen=True, kw_only=True, tag="ack"):
    """The engine's answer: the SHA-256 of a memory's file ("" if deleted) and the number of its ledger row, or job."""

    token: str
    hash: str = ""
    number: int = 0


class Refused(Struct, frozen=True, kw_only=True, tag="refused"):
    """The engine's error; only with a disk that is full from a step on, it means that nothing was changed."""

    token: str
    code: str
    message: str


class Point(Struct, frozen=True, tag="point"):
    """The process is at its kill point and waits to be killed."""

    name: str


Message = Ready | Intent | Ack | Refused | Point
_MESSAGE = msgspec.json.Decoder(Message)


def line(message: Message) -> str:
    """A message as a line, without the end of line."""
    return msgspec.json.encode(message).decode()


def message(text: str) -> Message | None:
    """The message of a line; None for a line that was cut off."""
    return _MESSAGE.decode(text) if text.endswith("\n") else None


# State accumulates over the rounds of a project; it must stay small enough to be checked completely after each.
ROUNDS_PER_PROJECT = 25
_MANY_AT, _MOVING_AT = 12, (19, 22)
_OPERATIONS, _OPERATIONS_OF_MANY = 40, 12
_WRITERS, _READERS, _HOOKS = 8, 4, 1
# A process opens in about 0.4 s and then needs about 10 ms for an operation, or far more if there are eight.
_LATEST_S, _LATEST_FROM_START_S, _LATEST_OF_MANY_S = 0.4, 0.6, 1.5

_FAULTS = (
    Fault.NONE,
    Fault.POWER_LOSS,
    Fault.DISK_FULL,
    Fault.FULL_AT_A_STEP,
    Fault.INDEX_DELETED,
    Fault.POWER_LOSS,
    Fault.CLOCK_JUMPS,
    Fault.NONE,
    Fault.INDEX_DAMAGED,
    Fault.POWER_LOSS,
    Fault.READ_ONLY,
    Fault.FILE_LIMIT,
    Fault.INDEX_LOG_CUT,
    Fault.JOURNAL_LOST,
)


class Round(Struct, frozen=True, kw_only=True):
    """One round: its processes, its fault, and when they are killed.

    With a `point` they are killed at its `passage`-th passage; with `delay_s` so many seconds after all processes have
    opened, or after the start if `from_start`; with neither they finish their work.
    """

    number: int
    fault: Fault
    operations: int
    writers: int = 1
    readers: int = 0
    hooks: int = 0
    point: str = ""
    passage: int = 0
    delay_s: float | None = None
    from_start: bool = False


def planned(seed: int, number: int) -> Round:
    """The round with a number, counted from 0."""
    chance = Random(f"{seed}/{number}")
    if number % ROUNDS_PER_PROJECT == _MANY_AT:  # in two of three cases all are killed at once
        return Round(
            number=number,
            fault=Fault.MANY_WRITERS,
            operations=_OPERATIONS_OF_MANY,
            writers=_WRITERS,
            readers=_READERS,
            hooks=_HOOKS,
            delay_s=None if chance.randrange(3) == 0 else chance.uniform(0.0, _LATEST_OF_MANY_S),
        )
    is_moving = number % ROUNDS_PER_PROJECT in _MOVING_AT
    fault = Fault.GROUND_MOVED if is_moving else _FAULTS[number % len(_FAULTS)]
    return _with_end(Round(number=number, fault=fault, operations=_OPERATIONS), chance)


def _with_end(plan: Round, chance: Random) -> Round:
    """Six of eight rounds end at a kill point, one at any moment, one when the work is done.

    If databases are moved, this happens at the kill point, and the work continues.
    """
    end = chance.randrange(2 if plan.fault == Fault.GROUND_MOVED else 0, 8)
    if end == 0 and plan.fault != Fault.POWER_LOSS:
        return plan
    if end <= 1:
        from_start = chance.random() < 0.25
        delay_s = chance.uniform(0.0, _LATEST_FROM_START_S if from_start else _LATEST_S)
        return replace(plan, delay_s=delay_s, from_start=from_start)
    point = chance.choice(list(PASSAGES))
    return replace(plan, point=point, passage=chance.randint(1, PASSAGES[point]))
