"""The command that looks at everything and says what to do: doctor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import typer
from msgspec import Struct

from scrimshaw.app.cli import options, project_files, render
from scrimshaw.app.cli.memory import existing
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import show
from scrimshaw.app.probes import PROCESS
from scrimshaw.app.rule_gate import checked_rules
from scrimshaw.app.setup import programs
from scrimshaw.app.setup.status import Connection, connections
from scrimshaw.config import Settings
from scrimshaw.engine import Engine, index, inspecting, open_engine, trust
from scrimshaw.engine.capabilities import Verdict, takes_a_file
from scrimshaw.engine.core import MEMORIES
from scrimshaw.engine.inspecting import Health
from scrimshaw.errors import ConfigError, StorageFailure
from scrimshaw.models import Capability
from scrimshaw.storage.git import ask_git, work_tree
from scrimshaw.storage.sync import SyncReport

app = typer.Typer()

# Capabilities that have a finding of their own here.
LOOKED_AT = frozenset({"vault", "git"})


class Finding(Struct, frozen=True, kw_only=True):
    """One thing looked at; `fix` says what to do about it."""

    name: str
    verdict: Verdict
    detail: str
    fix: str = ""


class Diagnosis(Struct, frozen=True, kw_only=True):
    """All findings. `status` is broken with a problem among them, degraded with a warning, else healthy."""

    status: str
    healthy: bool
    findings: tuple[Finding, ...]


@app.command(epilog=example("scrimshaw doctor"))
def doctor(project: options.Project = None, as_json: options.AsJson = False) -> None:
    """Examine the memory thoroughly; exit code 1 when something needs repair, else 0."""
    findings = tuple(examine(existing(project)))
    verdicts = {finding.verdict for finding in findings}
    status = "broken" if Verdict.PROBLEM in verdicts else "degraded" if Verdict.WARNING in verdicts else "healthy"
    diagnosis = Diagnosis(status=status, healthy=status == "healthy", findings=findings)
    show(diagnosis, as_json, render.diagnosis)
    if status == "broken":
        raise typer.Exit(1)


def examine(settings: Settings) -> Iterator[Finding]:
    """The findings on a project's memory, files first, then databases, then the clients that use it."""
    yield Finding(name="project", verdict=Verdict.OK, detail=str(settings.project))
    yield _writable(settings.folder / MEMORIES)
    yield _hidden_from_git(settings)
    yield from _rules(settings)
    try:
        with open_engine(settings) as engine:
            yield _files(engine)
            yield from _claims(engine)
            yield from _databases(engine)
    except StorageFailure as error:
        yield _problem("databases", error.message, error.hint)
    yield from _clients(settings.project)


def _problem(name: str, detail: str, fix: str) -> Finding:
    return Finding(name=name, verdict=Verdict.PROBLEM, detail=detail, fix=fix)


def _writable(vault: Path) -> Finding:
    try:
        return Finding(name="vault", verdict=Verdict.OK, detail=takes_a_file(vault))
    except StorageFailure as error:
        return _problem("vault", error.message, error.hint)


def _rules(settings: Settings) -> Iterator[Finding]:
    try:
        rules, warnings = checked_rules(settings)
    except ConfigError as error:
        yield _problem("rules", error.message, error.hint)
        return
    own = len(settings.rules)
    yield Finding(name="rules", verdict=Verdict.OK, detail=f"{len(rules)} extraction rules, {own} of your own")
    for warning in warnings:
        yield Finding(name="rules", verdict=Verdict.NOTE, detail=warning.message, fix=warning.advice)


def _hidden_from_git(settings: Settings) -> Finding:
    """Whether git would commit what is derived or private."""
    names = [f"{settings.folder.name}/{name}" for name in project_files.HIDDEN]
    try:
        if not work_tree(settings.project):
            return Finding(name="git", verdict=Verdict.NOTE, detail="the project is in no git repository")
        tracked = ask_git(settings.project, "ls-files", "--", *names).splitlines()
        ignored = ask_git(settings.project, "check-ignore", "--no-index", "--", *names, answers=(0, 1)).splitlines()
    except StorageFailure as error:
        return Finding(name="git", verdict=Verdict.WARNING, detail=error.message, fix=error.hint)
    if tracked:
        return _problem("git", f"git holds {', '.join(tracked)}", f"Run `git rm --cached {' '.join(tracked)}`.")
    shown = [name for name in names if name not in ignored]
    if shown:
        lines = " ".join(project_files.GITIGNORE.splitlines()[1:])
        return _problem("git", f"git would add {', '.join(shown)}", f"Put into .scrimshaw/.gitignore: {lines}")
    return Finding(name="git", verdict=Verdict.OK, detail="the databases are hidden from git")


def _databases(engine: Engine) -> Iterator[Finding]:
    health = inspecting.health(engine, thorough=True, more=PROCESS)
    yield from (_capability(health, row) for row in health.capabilities if row.name not in LOOKED_AT)
    measured = {row.name for row in health.capabilities}
    faults = [problem for problem in health.problems if problem.partition(":")[0] not in measured]
    for problem in faults:
        what, _, fix = problem.partition("; ")
        yield _problem("databases", what, fix or "See `scrimshaw checkpoint list` for older copies.")
    if not faults:
        rows = engine.journal.verify()[0]
        detail = f"sound; {health.memories} memories, {rows} entries in the ledger"
        yield Finding(name="databases", verdict=Verdict.OK, detail=detail)


def _capability(health: Health, row: Capability) -> Finding:
    """A part as it was measured, what that means and what to do."""
    drift = f"; {row.was} -> {row.status} since {row.since}" if row.was else ""
    fix = health.advice.get(row.name, "")
    return Finding(name=row.name, verdict=health.verdicts[row.name], detail=f"{row.detail}{drift}", fix=fix)


def _files(engine: Engine) -> Finding:
    try:
        return _skipped(index.scan(engine))
    except StorageFailure as error:
        return _problem("files", f"The index cannot follow them: {error.message}", error.hint)


def _skipped(report: SyncReport) -> Finding:
    if not report.skipped:
        return Finding(name="files", verdict=Verdict.OK, detail=f"all {report.files} can be read")
    named = "; ".join(map(render.skipped, report.skipped))
    return Finding(name="files", verdict=Verdict.NOTE, detail=f"{len(report.skipped)} passed over: {named}")


def _claims(engine: Engine) -> Iterator[Finding]:
    """What is shown before every answer by a file alone, and what claims to be and is not."""
    for memory in trust.by_hand(engine):
        told = f"{memory.id} is shown before every answer, and no command of Scrimshaw's wrote it as it is"
        fix = f"Read {memory.path}; `scrimshaw edit {memory.id} --tier normal` takes it down."
        yield Finding(name="constitutional", verdict=Verdict.NOTE, detail=told, fix=fix)
    for name, lowest in trust.silenced(engine).items():
        told = (
            f"{name} is constitutional, and not shown before every answer: what it was derived from has trust {lowest}"
        )
        fix = f"Take that source out of `derived_from` with `scrimshaw edit {name}`, or undo what changed it."
        yield Finding(name="constitutional", verdict=Verdict.NOTE, detail=told, fix=fix)
    for memory in trust.claimants(engine):
        told, _, command = trust.notice(memory).partition(": `")
        fix = f"Run `{command.rstrip('.')}, or take the tier out of the file." if command else ""
        yield Finding(name="constitutional", verdict=Verdict.NOTE, detail=told, fix=fix)


def _clients(project: Path) -> Iterator[Finding]:
    """How agent clients are connected; those that are not on this machine are passed over."""
    try:
        yield from map(_client, connections(project, programs.installed()))
    except ConfigError as error:
        yield Finding(name="clients", verdict=Verdict.NOTE, detail=error.message, fix=error.hint)


def _client(found: Connection) -> Finding:
    verdict = Verdict.PROBLEM if found.is_broken else Verdict.NOTE if found.fault else Verdict.OK
    scope = f"{found.scope} scope: " if found.scope else ""
    return Finding(
        name=found.client, verdict=verdict, detail=f"{scope}{found.fault or 'server and hooks are set'}", fix=found.fix
    )
