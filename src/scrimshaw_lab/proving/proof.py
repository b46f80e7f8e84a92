"""A whole proof: round after round in a scratch folder, and the report."""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import Struct

from scrimshaw.storage.databases import Storage
from scrimshaw_lab.proving.plan import ROUNDS_PER_PROJECT, planned
from scrimshaw_lab.proving.processes import WRITER
from scrimshaw_lab.proving.projects import Project, new_project
from scrimshaw_lab.proving.rounds import Played, play
from scrimshaw_lab.proving.verification import Kind

# Called after every round, with how many were played, of how many, and what came of this one.
Progress = Callable[[int, int, Played], None]

# So many are enough to look at.
MOST_FAILURES = 10
DURABLE = "journal_mode=wal synchronous=full"

_LEVELS = ("off", "normal", "full", "extra")


class Failure(Struct, frozen=True, kw_only=True):
    """A round that found something wrong; `folder` is kept to be looked at."""

    round: int
    fault: str
    findings: tuple[str, ...]
    folder: str


class Report(Struct, frozen=True, kw_only=True):
    """Counts over all rounds; `kill_points` are those where a process was really killed, `faults` count rounds.

    `folder` is what was kept.
    """

    seed: int
    rounds: int
    acknowledged: int
    refused: int
    acknowledged_lost: int
    corrupt_files: int
    index_differences: int
    ledger_breaks: int
    other_failures: int
    kill_points: Mapping[str, int]
    faults: Mapping[str, int]
    lost_to_power: int
    rounds_without_acknowledgement: int
    durable_settings: str
    seconds: float
    machine: Mapping[str, object]
    failures: tuple[Failure, ...] = ()
    folder: str = ""

    @property
    def is_clean(self) -> bool:
        """Whether nothing at all was wrong."""
        return not self.failures and self.durable_settings == DURABLE


def prove(
    *,
    rounds: int,
    seed: int,
    seconds: float | None = None,
    only: int | None = None,
    keep: bool = False,
    most_failures: int = MOST_FAILURES,
    progress: Progress = lambda done, total, played: None,
    command: Sequence[str] = WRITER,
) -> Report:
    """Play `rounds` rounds, or until `seconds` have passed or so many failed; the scratch folder is kept then.

    With `only` the rounds of that round's project are played up to it. Raises StorageFailure where no project can be
    made.
    """
    first = 0 if only is None else only - only % ROUNDS_PER_PROJECT
    numbers = range(first, rounds if only is None else only + 1)
    scratch = Path(tempfile.mkdtemp(prefix="scrimshaw-prove-")).resolve()
    run = _Run(seed=seed, scratch=scratch, command=command, keep=keep)
    try:
        for number in numbers:
            if (seconds is not None and run.seconds > seconds) or len(run.failures) >= most_failures:
                break
            played = run.round(number)
            progress(len(run.played), len(numbers), played)
    finally:
        if not run.is_kept:
            shutil.rmtree(scratch, ignore_errors=True)
    return run.report()


@dataclass
class _Run:
    """A proof under way."""

    seed: int
    scratch: Path
    command: Sequence[str]
    keep: bool
    started: float = field(default_factory=time.monotonic)
    played: list[Played] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    project: Project | None = None
    settings: str = ""

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self.started

    @property
    def is_kept(self) -> bool:
        """Whether there is something to look at, or was asked for."""
        return self.keep or bool(self.failures)

    def round(self, number: int) -> Played:
        """Play a round on the project that is its turn."""
        project = self._project(number)
        played = play(project, planned(self.seed, number), self.seed, self.command)
        self.played.append(played)
        if played.findings:
            self.failures.append(_failure(played, project, self.scratch / f"failed-round-{number}"))
        self.settings = self.settings or _durable_settings(project)
        return played

    def report(self) -> Report:
        """The counts so far."""
        played = self.played
        kinds = Counter(finding.kind for each in played for finding in each.findings)
        return Report(
            seed=self.seed,
            rounds=len(played),
            acknowledged=sum(each.acknowledged for each in played),
            refused=sum(each.refused for each in played),
            acknowledged_lost=kinds[Kind.LOST],
            corrupt_files=kinds[Kind.CORRUPT],
            index_differences=kinds[Kind.INDEX],
            ledger_breaks=kinds[Kind.LEDGER],
            other_failures=kinds[Kind.OTHER],
            kill_points=_counts(each.point for each in played if each.point),
            faults=_counts(each.plan.fault for each in played),
            lost_to_power=sum(each.lost_to_power for each in played),
            rounds_without_acknowledgement=sum(not each.acknowledged for each in played),
            durable_settings=self.settings,
            seconds=round(self.seconds, 1),
            machine=machine(),
            failures=tuple(self.failures),
            folder=str(self.scratch) if self.is_kept else "",
        )

    def _project(self, number: int) -> Project:
        """The project of a round; the one before it goes unless it is to be kept."""
        if self.project is None or number % ROUNDS_PER_PROJECT == 0:
            if self.project and not self.keep:
                shutil.rmtree(self.project.folder, ignore_errors=True)
            self.project = new_project(self.scratch, number // ROUNDS_PER_PROJECT)
        return self.project


def machine() -> dict[str, object]:
    """What the proof ran on."""
    return {"system": platform.platform(), "python": platform.python_version(), "cores": os.cpu_count()}


def _counts(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(map(str, names)).items()))


def _failure(played: Played, project: Project, kept: Path) -> Failure:
    """The findings of a round, with a copy of the project as it was after it."""
    shutil.copytree(project.folder, kept)
    return Failure(
        round=played.plan.number,
        fault=played.plan.fault,
        findings=tuple(f"{finding.kind}: {finding.what}" for finding in played.findings),
        folder=str(kept),
    )


def _durable_settings(project: Project) -> str:
    """How the durable database writes; a power loss can take what is less than full."""
    settings = project.settings
    with Storage(settings.folder, busy_timeout_ms=settings.index.busy_timeout_ms) as storage:
        found = [storage.journal_database.value(f"PRAGMA {name}") for name in ("journal_mode", "synchronous")]
    return f"journal_mode={found[0]} synchronous={_LEVELS[found[1]]}"
