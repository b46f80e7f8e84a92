"""A whole proof: rounds of real processes in a scratch folder, and the report."""

import os
import platform
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Thread
from typing import IO

import msgspec
from msgspec import Struct

from scrimshaw.config import CONFIG_FILE, PROJECT_FOLDER, Settings, limit_native_threads, load
from scrimshaw.engine import open_engine, write
from scrimshaw.engine.core import MEMORIES
from scrimshaw.engine.write import NewText, save
from scrimshaw.errors import ScrimshawError
from scrimshaw.storage.databases import Storage
from scrimshaw.storage.place import find_place
from scrimshaw.storage.ports import Row
from scrimshaw.storage.sql import insert
from scrimshaw.storage.sqlite.database import Database, find_newest_migration
from scrimshaw.storage.sqlite.maintenance import SCHEMA
from scrimshaw_lab.proving import faults
from scrimshaw_lab.proving.plan import (
    ROUNDS_PER_PROJECT,
    Fault,
    Message,
    Order,
    Point,
    Ready,
    Refused,
    Role,
    Round,
    message,
    planned,
)
from scrimshaw_lab.proving.verification import HURT_INDEX, Account, Finding, Kind, Step, steps, verify
from scrimshaw_lab.proving.writer import SHARED

# Without vectors, so that a process starts quickly.
_CONFIG = '[embedding]\nprovider = "none"\n'
_OWN = ("w0/first", "w0/second")


@dataclass
class Project:
    """A scratch project, and what it must contain."""

    folder: Path
    settings: Settings
    account: Account = field(default_factory=Account)


def new_project(scratch: Path, number: int) -> Project:
    """A project with some memories, and a journal of an older schema, each in turn.

    Every other one is in a repository, into whose folder the journal is moved.
    """
    folder = scratch / f"project-{number}"
    home = folder / PROJECT_FOLDER
    if number % 2:
        for each in ("objects", "refs"):
            (folder / ".git" / each).mkdir(parents=True)
        (folder / ".git/HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
    (home / MEMORIES).mkdir(parents=True)
    (home / CONFIG_FILE).write_text(_CONFIG, encoding="utf-8")
    project = Project(folder, load(folder, home=folder / "home", environment={}))
    with open_engine(project.settings) as engine:
        for place, name in enumerate((*SHARED, *_OWN)):
            token = f"seed{place}x"
            new = write.NewText(content=f"# What {token} says\n\nIt was there before: {token}\n", id=name)
            project.account.files[name] = write.save(engine, new, force=True).content_hash
        rows = list(engine.maintenance.dump_rows())
    rewind(home, 1 + number % find_newest_migration(SCHEMA), rows)
    return project


def rewind(folder: Path, schema: int, rows: Iterable[tuple[str, Row]]) -> None:
    """Replace the journal of a folder by one of an older schema, with the rows that fit into it."""
    for path in find_place(folder).glob("journal.db*"):
        path.unlink()
    older = Database(folder / "journal.db", SCHEMA, durable=True, busy_timeout_ms=10_000, through=schema)
    with closing(older), older.write() as write:
        write.execute("PRAGMA defer_foreign_keys = ON")
        for table, row in rows:
            if columns := write.execute("SELECT name FROM pragma_table_info(?)", (table,)).fetchall():
                insert(write, table, {str(name): row.get(str(name), 0) for (name,) in columns})


WRITER = (sys.executable, "-m", "scrimshaw_lab.proving.writer")
# Longer than any round takes, even one of a dozen processes on a slow machine.
PATIENCE_S = 120.0

_Heard = tuple[int, Message | None]


@dataclass
class Talk:
    """The messages of each process of a round, how they ended, and the kill point that one reached."""

    messages: list[list[Message]]
    point: str = ""
    hung: bool = False
    crashes: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Running:
    process: subprocess.Popen[str]
    errors: Path
    listener: Thread


def run(plan: Round, orders: Sequence[Order], scratch: Path, command: Sequence[str] = WRITER) -> Talk:
    """Start a process per order, and kill all as planned; returns their messages until then."""
    limit_native_threads()
    heard: queue.Queue[_Heard] = queue.Queue()
    started = time.monotonic()
    running = [_start(place, order, scratch, command, heard) for place, order in enumerate(orders)]
    talk = Talk([[] for _ in orders])
    try:
        _listen(plan, started, heard, talk)
    finally:
        _end(running, talk)
    while not heard.empty():
        _note(talk, heard.get_nowait())
    return talk


def _start(place: int, order: Order, scratch: Path, command: Sequence[str], heard: queue.Queue[_Heard]) -> _Running:
    errors = scratch / f"errors-{order.name}.txt"
    with errors.open("w") as file:
        process = subprocess.Popen(
            [*command, msgspec.json.encode(order).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            encoding="utf-8",
            cwd=scratch,
        )
    assert process.stdout is not None
    listener = Thread(target=_pass_on, args=(place, process.stdout, heard), daemon=True)
    listener.start()
    return _Running(process, errors, listener)


def _pass_on(place: int, lines: IO[str], heard: queue.Queue[_Heard]) -> None:
    for text in lines:
        found = message(text)
        if found is not None:
            heard.put((place, found))
    heard.put((place, None))


def _listen(plan: Round, started: float, heard: queue.Queue[_Heard], talk: Talk) -> None:
    """Wait until it is time to kill, or all have finished."""
    patience = deadline = started + PATIENCE_S
    if plan.delay_s is not None and plan.from_start:
        deadline = started + plan.delay_s
    at_work = to_open = len(talk.messages)
    while at_work:
        try:
            place, found = heard.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            talk.hung = deadline == patience
            return
        _note(talk, (place, found))
        if found is None:
            at_work -= 1
        elif isinstance(found, Point):
            return
        elif isinstance(found, Ready):
            to_open -= 1
            if to_open == 0 and plan.delay_s is not None:
                deadline = min(deadline, time.monotonic() + plan.delay_s)


def _note(talk: Talk, heard: _Heard) -> None:
    place, found = heard
    if isinstance(found, Point):
        talk.point = talk.point or found.name
    if found is not None:
        talk.messages[place].append(found)


def _end(running: Sequence[_Running], talk: Talk) -> None:
    """Kill the processes that still run; a process that ended with an error has crashed."""
    for each in running:
        if each.process.poll() is None:
            each.process.kill()
        elif each.process.returncode != 0:
            talk.crashes.append(f"exit code {each.process.returncode}: {each.errors.read_text()[-2000:]}")
    for each in running:
        each.process.wait()
        each.listener.join()
        for stream in (each.process.stdin, each.process.stdout):
            if stream:
                stream.close()


# Under these faults an error is a correct answer.
_HINDERED = HURT_INDEX | {
    Fault.DISK_FULL, Fault.FULL_AT_A_STEP, Fault.FILE_LIMIT, Fault.READ_ONLY, Fault.GROUND_MOVED
}  # fmt: skip


class Played(Struct, frozen=True, kw_only=True):
    """The result of a round; `point` is the kill point that a process reached, `lost_to_power` counts files."""

    plan: Round
    acknowledged: int
    refused: int
    findings: tuple[Finding, ...]
    point: str = ""
    lost_to_power: int = 0


def play(project: Project, plan: Round, seed: int, command: Sequence[str] = WRITER) -> Played:
    """Run a round on a project, and update its account."""
    chance = Random(f"{seed}/{plan.number}/after")
    scratch = project.folder.parent
    if plan.fault == Fault.JOURNAL_LOST:
        project.account.checkpoints.append(f"t{plan.number}before")
        faults.lose_journal(project.settings, project.account.checkpoints[-1], chance)
    else:
        faults.hurt_index(plan.fault, project.settings.folder, chance)
    log = scratch / "disk.jsonl"
    log.unlink(missing_ok=True)
    talk = run(plan, list(_orders(project, plan, seed, log)), scratch, command)
    if plan.fault == Fault.READ_ONLY:
        (project.settings.folder / MEMORIES).chmod(0o755)  # a killed process may have left it read-only
    lost = faults.lose_power(log) if plan.fault == Fault.POWER_LOSS else 0
    taken = steps(talk.messages)
    made = faults.put_ground_back(project.settings.folder)
    findings = [Finding(Kind.OTHER, f"{path} was created after its folder had been moved") for path in made]
    findings += [*_misbehaved(talk, plan, taken), *_looked_at(project, plan, taken, chance)]
    after = [] if findings else list(_unwritable(project, plan))
    return Played(
        plan=plan,
        acknowledged=sum(step.ack is not None for step in taken) + (not findings and not after),
        refused=sum(isinstance(step.answer, Refused) for step in taken),
        findings=(*findings, *after),
        point=talk.point,
        lost_to_power=lost,
    )


def _orders(project: Project, plan: Round, seed: int, log: Path) -> Iterator[Order]:
    """An order for each process; of several, only the first waits at the kill point."""
    work = Role.ERASER if plan.fault == Fault.FULL_AT_A_STEP else Role.WRITER
    roles = [work] * plan.writers + [Role.READER] * plan.readers + [Role.HOOK] * plan.hooks
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
    """Crashes, hangs, and errors without a fault."""
    for crash in talk.crashes:
        yield Finding(Kind.OTHER, f"a process crashed: {crash}")
    if talk.hung:
        yield Finding(Kind.OTHER, "the processes hung")
    for step in taken:
        if isinstance(step.answer, Refused) and plan.fault not in _HINDERED:
            yield Finding(Kind.OTHER, f"{step.intent.operation} {step.intent.id}: {step.answer.message}")


def _unwritable(project: Project, plan: Round) -> Iterator[Finding]:
    """A finding if a save fails after the round; the saved memory stays for the following rounds."""
    word = f"t{plan.number}after"  # the last word of a memory is unique, so that a search can find it
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


# Called after every round: how many were run, of how many, and the result of this one.
Progress = Callable[[int, int, Played], None]

MOST_FAILURES = 10  # more are not needed
DURABLE = "journal_mode=wal synchronous=full"

_LEVELS = ("off", "normal", "full", "extra")


class Failure(Struct, frozen=True, kw_only=True):
    """A round that found something wrong; `folder` remains for examination."""

    round: int
    fault: str
    findings: tuple[str, ...]
    folder: str


class Report(Struct, frozen=True, kw_only=True):
    """Counts over all rounds; `kill_points` are those at which a process was killed, `faults` count rounds.

    `folder` is the scratch folder if it remains.
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
        """Whether nothing was wrong."""
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
    """Run `rounds` rounds, or until `seconds` have passed or too many failed; then the scratch folder remains.

    With `only` the rounds of that round's project are run up to it. Raises StorageFailure if no project can be created.
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
    """A running proof."""

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
        """The seconds so far."""
        return time.monotonic() - self.started

    @property
    def is_kept(self) -> bool:
        """Whether the scratch folder remains: after a failure, or if asked for."""
        return self.keep or bool(self.failures)

    def round(self, number: int) -> Played:
        """Run a round on its project."""
        project = self._project(number)
        played = play(project, planned(self.seed, number), self.seed, self.command)
        self.played.append(played)
        if played.findings:
            kept = self.scratch / f"failed-round-{number}"
            shutil.copytree(project.folder, kept)
            what = tuple(f"{finding.kind}: {finding.what}" for finding in played.findings)
            self.failures.append(Failure(round=number, fault=played.plan.fault, findings=what, folder=str(kept)))
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
            **{str(kind): kinds[kind] for kind in Kind},
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
        """The project of a round; the previous one is deleted unless `keep`."""
        if self.project is None or number % ROUNDS_PER_PROJECT == 0:
            if self.project and not self.keep:
                shutil.rmtree(self.project.folder, ignore_errors=True)
            self.project = new_project(self.scratch, number // ROUNDS_PER_PROJECT)
        return self.project


def machine() -> dict[str, object]:
    """The machine of the proof."""
    return {"system": platform.platform(), "python": platform.python_version(), "cores": os.cpu_count()}


def _counts(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(map(str, names)).items()))


def _durable_settings(project: Project) -> str:
    """How the durable database writes; below full, a power loss can undo writes."""
    with closing(Storage(project.settings.folder, busy_timeout_ms=project.settings.index.busy_timeout_ms)) as storage:
        found = [storage.journal_database.value(f"PRAGMA {name}") for name in ("journal_mode", "synchronous")]
    return f"journal_mode={found[0]} synchronous={_LEVELS[found[1]]}"
