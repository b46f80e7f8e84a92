"""The commands on whether everything works: doctor, capabilities, and golden queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Struct
from rich.console import Console

from scrimshaw.app import setup
from scrimshaw.app.checks import ALL_CHECKS, CLIENT, PROCESS, process_checks
from scrimshaw.app.cli import options, project_files
from scrimshaw.app.cli.memory import describe_skip, open_memory, settings_of_memory
from scrimshaw.app.cli.options import command_group, example
from scrimshaw.app.cli.output import line, note, show
from scrimshaw.app.rules import check_rules
from scrimshaw.app.setup import check_connections
from scrimshaw.config import Settings
from scrimshaw.engine import Engine, canary, index, open_engine, trust
from scrimshaw.engine.core import MEMORIES
from scrimshaw.engine.health import Health, Severity, check_health, write_test_file
from scrimshaw.errors import ConfigError, StorageFailure
from scrimshaw.models import Capability
from scrimshaw.storage.git import ask_git, work_tree
from scrimshaw.storage.toml_files import GOLDEN_FILE, Golden

app = typer.Typer()
golden = command_group("Questions whose answers are known.", "scrimshaw golden list")

# Checks that the doctor makes in a way of its own.
_OWN_CHECKS = frozenset({"vault", "git"})
_STATUS_STYLES = {"on": "green", "degraded": "yellow", "off": "bold red"}
_VERDICT_STYLES = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "bold red"}
_ENDINGS = {
    "healthy": "healthy",
    "degraded": "degraded: it works, without what the warnings name",
    "broken": "needs repair",
}


class Finding(Struct, frozen=True):
    """One thing looked at; `fix` says what to do about it."""

    name: str
    verdict: Severity
    detail: str
    fix: str = ""


@app.command(epilog=example("scrimshaw doctor"))
def doctor(project: options.Project = None, as_json: options.AsJson = False) -> None:
    """Examine everything and say what to do.

    Exit code 1 when something needs repair, else 0.
    """
    findings = tuple(examine(settings_of_memory(project)))
    verdicts = {finding.verdict for finding in findings}
    status = "broken" if Severity.PROBLEM in verdicts else "degraded" if Severity.WARNING in verdicts else "healthy"
    diagnosis = {"status": status, "healthy": status == "healthy", "findings": findings}
    show(diagnosis, as_json, _render_diagnosis)
    if status == "broken":
        raise typer.Exit(1)


def examine(settings: Settings) -> Iterator[Finding]:
    """The findings on a project's memory, files first, then databases, then the clients that use it."""
    yield Finding("project", Severity.OK, str(settings.project))
    try:
        yield Finding("vault", Severity.OK, write_test_file(settings.folder / MEMORIES))
    except StorageFailure as error:
        yield Finding("vault", Severity.PROBLEM, error.message, error.hint)
    yield _examine_git(settings)
    yield from _examine_rules(settings)
    try:
        with open_engine(settings) as engine:
            yield _examine_files(engine)
            yield from _examine_claims(engine)
            yield from _examine_databases(engine)
    except StorageFailure as error:
        yield Finding("databases", Severity.PROBLEM, error.message, error.hint)
    yield from _examine_clients(settings.project)


def _examine_git(settings: Settings) -> Finding:
    """Whether git would commit what is derived or private."""
    names = [f"{settings.folder.name}/{name}" for name in project_files.HIDDEN]
    try:
        if not work_tree(settings.project):
            return Finding("git", Severity.NOTE, "the project is in no git repository")
        tracked = ask_git(settings.project, "ls-files", "--", *names).splitlines()
        ignored = ask_git(settings.project, "check-ignore", "--no-index", "--", *names, answers=(0, 1)).splitlines()
    except StorageFailure as error:
        return Finding("git", Severity.WARNING, error.message, error.hint)
    if tracked:
        fix = f"Run `git rm --cached {' '.join(tracked)}`."
        return Finding("git", Severity.PROBLEM, f"git holds {', '.join(tracked)}", fix)
    if visible := [name for name in names if name not in ignored]:
        fix = f"Put into .scrimshaw/.gitignore: {' '.join(project_files.GITIGNORE.splitlines()[1:])}"
        return Finding("git", Severity.PROBLEM, f"git would add {', '.join(visible)}", fix)
    return Finding("git", Severity.OK, "the databases are hidden from git")


def _examine_rules(settings: Settings) -> Iterator[Finding]:
    try:
        rules, warnings = check_rules(settings)
    except ConfigError as error:
        yield Finding("rules", Severity.PROBLEM, error.message, error.hint)
        return
    yield Finding("rules", Severity.OK, f"{len(rules)} extraction rules, {len(settings.rules)} of your own")
    for warning in warnings:
        yield Finding("rules", Severity.NOTE, warning.message, warning.advice)


def _examine_files(engine: Engine) -> Finding:
    try:
        report = index.scan(engine)
    except StorageFailure as error:
        return Finding("files", Severity.PROBLEM, f"The index cannot follow them: {error.message}", error.hint)
    if not report.skipped:
        return Finding("files", Severity.OK, f"all {report.files} can be read")
    names = "; ".join(map(describe_skip, report.skipped))
    return Finding("files", Severity.NOTE, f"{len(report.skipped)} passed over: {names}")


def _examine_claims(engine: Engine) -> Iterator[Finding]:
    """What is shown before every answer by a file alone, and what claims to be and is not."""
    for memory in trust.find_edited_constitutional(engine):
        detail = f"{memory.id} is shown before every answer, and no command of Scrimshaw's wrote it as it is"
        fix = f"Read {memory.path}; `scrimshaw edit {memory.id} --tier normal` takes it down."
        yield Finding("constitutional", Severity.NOTE, detail, fix)
    for name, level in trust.find_untrusted_constitutional(engine).items():
        detail = (
            f"{name} is constitutional, and not shown before every answer: what it was derived from has trust {level}"
        )
        fix = f"Take that source out of `derived_from` with `scrimshaw edit {name}`, or undo what changed it."
        yield Finding("constitutional", Severity.NOTE, detail, fix)
    for memory in trust.find_claims(engine):
        detail, _, command = trust.describe_claim(memory).partition(": `")
        fix = f"Run `{command.rstrip('.')}, or take the tier out of the file." if command else ""
        yield Finding("constitutional", Severity.NOTE, detail, fix)


def _examine_databases(engine: Engine) -> Iterator[Finding]:
    health = check_health(engine, thorough=True, more=PROCESS)
    for row in health.capabilities:
        if row.name not in _OWN_CHECKS:
            drift = f"; {row.was} -> {row.status} since {row.since}" if row.was else ""
            fix = health.advice.get(row.name, "")
            yield Finding(row.name, health.verdicts[row.name], f"{row.detail}{drift}", fix)
    names = {row.name for row in health.capabilities}
    faults = [problem for problem in health.problems if problem.partition(":")[0] not in names]
    for problem in faults:
        what, _, fix = problem.partition("; ")
        yield Finding("databases", Severity.PROBLEM, what, fix or "See `scrimshaw checkpoint list` for older copies.")
    if not faults:
        rows = engine.journal.verify()[0]
        yield Finding("databases", Severity.OK, f"sound; {health.memories} memories, {rows} entries in the ledger")


def _examine_clients(project: Path) -> Iterator[Finding]:
    """How agent clients are connected; those that are not on this machine are passed over."""
    try:
        for found in check_connections(project, setup.find_programs()):
            verdict = Severity.PROBLEM if found.is_broken else Severity.NOTE if found.fault else Severity.OK
            scope = f"{found.scope} scope: " if found.scope else ""
            yield Finding(found.client, verdict, f"{scope}{found.fault or 'server and hooks are set'}", found.fix)
    except ConfigError as error:
        yield Finding("clients", Severity.NOTE, error.message, error.hint)


def _render_diagnosis(console: Console, diagnosis: Mapping[str, Any]) -> None:
    for finding in diagnosis["findings"]:
        style = _VERDICT_STYLES[finding.verdict]
        console.print(line((f"{finding.verdict:<8}", style), f" {finding.name}: {finding.detail}"))
        if finding.fix:
            console.print(line(("         -> ", style), finding.fix))
    console.print(_ENDINGS[diagnosis["status"]])


# Capabilities


@app.command("capabilities", epilog=example("scrimshaw capabilities --markdown > CAPABILITIES.md"))
def measure_capabilities(
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a table in Markdown.")] = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure every part by using it.

    Shows what has changed since it was last looked at.
    """
    with open_memory(project, fresh=False) as engine:
        health = check_health(engine, more=process_checks(engine.settings.project))
    show(health, as_json, _render_table if markdown else _render_lines)


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table; the first row is its head."""
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]


def _drift(row: Capability) -> str:
    """What a part was until when; empty while it never changed."""
    return f"{row.was} -> {row.status} since {row.since[:10]}" if row.was else ""


def _measures(name: str) -> str:
    kind = CLIENT.name if name.startswith("client:") else name
    return next(check.measures for check in ALL_CHECKS if check.name == kind)


def _render_table(console: Console, health: Health) -> None:
    head = ("part", "status", "found", "changed", "measured by")
    rows = [(row.name, row.status, row.detail, _drift(row), _measures(row.name)) for row in health.capabilities]
    for each in table([head, *rows]):
        console.print(line(each))


def _render_lines(console: Console, health: Health) -> None:
    for row in health.capabilities:
        console.print(line((f"{row.status:<9}", _STATUS_STYLES[row.status]), (f"{row.name:<16}", "bold"), row.detail))
        if change := _drift(row):
            console.print(line(" " * 25, (change, "yellow")))
        console.print(line((f"{' ' * 25}{_measures(row.name)}", "dim")))


# Golden queries


@golden.command("add", epilog=example('scrimshaw golden add "why not the standard sqlite3" storage/apsw'))
def add_golden(
    query: Annotated[str, typer.Argument(help="A question as an agent would ask it.")],
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="The memories it must bring.")],
    within: Annotated[int, typer.Option(min=1, max=100, help="Among so many first hits.")] = canary.WITHIN,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Keep a question with its answers; `scrimshaw doctor` and every server's start ask it again."""
    with open_memory(project) as engine:
        added = canary.add_golden(engine, query, ids, within)
    show(added, as_json, lambda console, each: _render_golden(console, [each]))


@golden.command("list", epilog=example("scrimshaw golden list"))
def list_golden(project: options.Project = None, as_json: options.AsJson = False) -> None:
    """Show the questions and the memories they must bring, and on standard error those that cannot be asked."""
    with open_memory(project, fresh=False) as engine:
        found = canary.golden_file(engine)
    show(found.queries, as_json, _render_golden)
    for flaw in found.flaws:
        note(flaw)


def _render_golden(console: Console, queries: Sequence[Golden]) -> None:
    for each in queries:
        console.print(line((each.text, "bold"), f"  within {each.within}: ", (", ".join(each.expect), "cyan")))
    if not queries:
        note(f"There is none yet; `scrimshaw golden add` writes .scrimshaw/{GOLDEN_FILE}.")
