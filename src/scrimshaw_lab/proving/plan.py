"""Which round does what: a pure function of the seed, so that any round can be repeated."""

from __future__ import annotations

from random import Random

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw_lab.proving.points import PASSAGES
from scrimshaw_lab.proving.protocol import Fault

# State piles up over the rounds of a project; it stays small enough to be looked at whole after each of them.
ROUNDS_PER_PROJECT = 25
_MANY_AT = 12
_OPERATIONS, _OPERATIONS_OF_MANY = 40, 12
_WRITERS, _READERS, _HOOKS = 8, 4, 1
# A process is open after some 0.4 s and then needs some 10 ms for an operation, eight at once far more.
_LATEST_S, _LATEST_FROM_START_S, _LATEST_OF_MANY_S = 0.4, 0.6, 1.5

_FAULTS = (
    Fault.NONE,
    Fault.POWER_LOSS,
    Fault.DISK_FULL,
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
    """One round: who works, what hinders them, and when they are killed.

    With a `point` the kill comes at its `passage`-th passage; with `delay_s` so many seconds after all
    processes were open, or after its start `from_start`; with neither they finish their work.
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

    @property
    def project(self) -> int:
        """The number of the project it works on."""
        return self.number // ROUNDS_PER_PROJECT

    @property
    def is_first(self) -> bool:
        """Whether its project is new, with a journal of the oldest schema."""
        return self.number % ROUNDS_PER_PROJECT == 0


def planned(seed: int, number: int) -> Round:
    """The round of a number, counted from 0."""
    chance = Random(f"{seed}/{number}")
    if number % ROUNDS_PER_PROJECT == _MANY_AT:
        return _of_many(number, chance)
    fault = _FAULTS[number % len(_FAULTS)]
    return _with_end(Round(number=number, fault=fault, operations=_OPERATIONS), chance)


def _of_many(number: int, chance: Random) -> Round:
    """Two of three times all are killed at once."""
    return Round(
        number=number,
        fault=Fault.MANY_WRITERS,
        operations=_OPERATIONS_OF_MANY,
        writers=_WRITERS,
        readers=_READERS,
        hooks=_HOOKS,
        delay_s=None if chance.randrange(3) == 0 else chance.uniform(0.0, _LATEST_OF_MANY_S),
    )


def _with_end(plan: Round, chance: Random) -> Round:
    """Six of eight rounds end at a kill point, one at any moment, one when the work is done."""
    end = chance.randrange(8)
    if end == 0 and plan.fault != Fault.POWER_LOSS:
        return plan
    if end <= 1:
        from_start = chance.random() < 0.25
        delay_s = chance.uniform(0.0, _LATEST_FROM_START_S if from_start else _LATEST_S)
        return replace(plan, delay_s=delay_s, from_start=from_start)
    point = chance.choice(list(PASSAGES))
    return replace(plan, point=point, passage=chance.randint(1, PASSAGES[point]))
