"""One round: what is done to the project before, the processes at work and killed, and the look at it after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from msgspec import Struct

from scrimshaw.engine import open_engine
from scrimshaw.engine.write import NewText, save
from scrimshaw.errors import ScrimshawError
from scrimshaw_lab.proving import disk, faults
from scrimshaw_lab.proving.account import Step, steps
from scrimshaw_lab.proving.plan import Round
from scrimshaw_lab.proving.processes import WRITER, Talk, run
from scrimshaw_lab.proving.projects import Project
from scrimshaw_lab.proving.protocol import Fault, Order, Refused, Role
from scrimshaw_lab.proving.verification import HURT_INDEX, Finding, Kind, verify

# Where these come, an error is the right answer.
_HINDERED = frozenset({Fault.DISK_FULL, Fault.FILE_LIMIT, Fault.READ_ONLY}) | HURT_INDEX


class Played(Struct, frozen=True, kw_only=True):
    """What came of a round; `point` is the kill point where a process stood, `lost_to_power` counts files."""

    plan: Round
    acknowledged: int
    refused: int
    findings: tuple[Finding, ...]
    point: str = ""
    lost_to_power: int = 0


def play(project: Project, plan: Round, seed: int, command: Sequence[str] = WRITER) -> Played:
    """Play a round on a project, whose account is brought up to date."""
    chance = Random(f"{seed}/{plan.number}/after")
    scratch = project.folder.parent
    _prepare(project, plan, chance)
    log = scratch / "disk.jsonl"
    log.unlink(missing_ok=True)
    talk = run(plan, list(_orders(project, plan, seed, log)), scratch, command)
    if plan.fault == Fault.READ_ONLY:
        faults.make_writable(project.vault)
    lost = disk.lose_power(log) if plan.fault == Fault.POWER_LOSS else 0
    taken = steps(talk.messages)
    findings = [*_misbehaved(talk, plan, taken), *_looked_at(project, plan, taken, chance)]
    after = [] if findings else list(_unwritable(project, plan))
    return Played(
        plan=plan,
        acknowledged=sum(step.ack is not None for step in taken) + (not findings and not after),
        refused=sum(isinstance(step.answer, Refused) for step in taken),
        findings=(*findings, *after),
        point=talk.point,
        lost_to_power=lost,
    )


def _prepare(project: Project, plan: Round, chance: Random) -> None:
    """Do to the databases what the plan says."""
    if plan.fault == Fault.JOURNAL_LOST:
        project.account.checkpoints.append(f"t{plan.number}before")
        faults.lose_journal(project.settings, project.account.checkpoints[-1], chance)
    else:
        faults.hurt_index(plan.fault, project.settings.folder, chance)


def _orders(project: Project, plan: Round, seed: int, log: Path) -> Iterator[Order]:
    """An order for each process; where there are many, only the first stands still at the kill point."""
    roles = [Role.WRITER] * plan.writers + [Role.READER] * plan.readers + [Role.HOOK] * plan.hooks
    for place, role in enumerate(roles):
        name = f"{role[0]}{place}"
        yield Order(
            project=str(project.folder),
            home=str(project.settings.home),
            role=role,
            name=name,
            prefix=f"t{plan.number}{name}",
            seed=f"{seed}/{plan.number}/{place}",
            operations=plan.operations,
            fault=plan.fault,
            point=plan.point if place == 0 else "",
            passage=plan.passage,
            disk_log=str(log) if plan.fault == Fault.POWER_LOSS else "",
        )


def _misbehaved(talk: Talk, plan: Round, taken: Sequence[Step]) -> Iterator[Finding]:
    """Crashes, hanging, and errors where nothing hindered."""
    for crash in talk.crashes:
        yield Finding(Kind.OTHER, f"a process crashed: {crash}")
    if talk.hung:
        yield Finding(Kind.OTHER, "the processes hung")
    for step in taken:
        if isinstance(step.answer, Refused) and plan.fault not in _HINDERED:
            yield Finding(Kind.OTHER, f"{step.intent.operation} {step.intent.id}: {step.answer.message}")


def _unwritable(project: Project, plan: Round) -> Iterator[Finding]:
    """Nothing where the memory takes a save again, now that nothing hinders; it is there in the rounds that follow."""
    word = f"t{plan.number}after"  # the last word of a memory is its own, for the search that looks for it
    new = NewText(content=f"The round is over: {word}", id=word, title=f"Round {plan.number}")
    try:
        with open_engine(project.settings) as engine:
            saved = save(engine, new, force=True)
    except ScrimshawError as error:
        yield Finding(Kind.OTHER, f"a save after the round: {error}")
    else:
        project.account.files[saved.id] = saved.content_hash


def _looked_at(project: Project, plan: Round, taken: list[Step], chance: Random) -> list[Finding]:
    try:
        return verify(project.settings, project.account, taken, plan.fault, chance)
    except ScrimshawError as error:
        return [Finding(Kind.OTHER, f"the memory cannot be used: {error}")]
