"""The commands that examine memories and what they need: lint, doctor, capabilities, golden queries."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

import typer
from msgspec import Struct
from rich.console import Console

from scrimshaw import __version__
from scrimshaw.app import setup
from scrimshaw.app.checks import ALL_CHECKS, CLIENT, PROCESS, process_checks
from scrimshaw.app.cli import options, project_files
from scrimshaw.app.cli.memory import describe_skip, open_memory, settings_of, settings_of_memory
from scrimshaw.app.cli.options import Texts, command_group, example
from scrimshaw.app.cli.output import confirm, line, note, show, show_json
from scrimshaw.app.rules import check_rules
from scrimshaw.app.setup import check_connections
from scrimshaw.config import Settings
from scrimshaw.engine import Engine, canary, index, open_engine, trust
from scrimshaw.engine import lint as engine_lint
from scrimshaw.engine.core import MEMORIES
from scrimshaw.engine.health import Health, Severity, check_health, write_test_file
from scrimshaw.engine.lint import Linted, LintState
from scrimshaw.errors import ConfigError, StorageFailure
from scrimshaw.ingest.references import Rename
from scrimshaw.models import Capability
from scrimshaw.storage.git import ask_git, work_tree
from scrimshaw.storage.toml_files import GOLDEN_FILE, Golden
from scrimshaw.toml_text import parse_toml

app = typer.Typer()
golden = command_group("Questions whose answers are known.", "scrimshaw golden list")

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

_LINT_STYLES = {
    LintState.REJECTED: "bold red",
    LintState.WARNED: "yellow",
    LintState.SKIPPED: "dim",
    LintState.CLEAN: "green",
}


@app.command(epilog=example("scrimshaw lint --references", "scrimshaw lint --fix-paths specs=docs/specs --dry-run"))
def lint(
    paths: Annotated[list[Path] | None, typer.Argument(metavar="PATH", help="Files or folders; else all.")] = None,
    format_: Annotated[Literal["text", "json", "sarif"], typer.Option("--format", help="How to print.")] = "text",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings and skipped files too.")] = False,
    references: Annotated[bool, typer.Option("--references", help="Name references that lead nowhere.")] = False,
    fix_paths: Annotated[Texts, typer.Option(metavar="OLD=NEW", help="Follow a moved folder (repeatable).")] = None,
    propose: Annotated[bool, typer.Option("--propose", help="Print what --fix-paths could take from git.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what --fix-paths would change.")] = False,
    yes: options.Yes = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Judge memory files as the quality gate does.

    Exit code 1 when one is rejected. Only --fix-paths writes: it takes whole folders at the start of a path, and the
    journal keeps the text before.
    """
    if paths and (fix_paths or propose):
        raise typer.BadParameter("Paths are followed in the project's memories; give no PATH.")
    if propose:
        show(_propose(project), as_json, _render_renames)
        return
    if fix_paths:
        show(_repair(project, fix_paths, dry_run, yes), as_json, _render_repairs)
        return
    settings = settings_of(project) if paths else settings_of_memory(project)
    found = engine_lint.lint(settings, paths or (), follow=references)
    counts = Counter(one.state for one in found)
    report = {
        "files": found,
        "counts": {str(state): counts[state] for state in LintState},
        "references": sum(one.references for one in found),
        "stale": sum(len(one.stale) for one in found),
    }
    if format_ == "sarif":
        show_json(sarif_log(found))
    else:
        show(report, as_json or format_ == "json", _render_report)
    states = {LintState.REJECTED, LintState.WARNED, LintState.SKIPPED} if strict else {LintState.REJECTED}
    if any(one.state in states for one in found):
        raise typer.Exit(1)


def _repair(project: Path | None, renames: list[str], dry_run: bool, yes: bool) -> dict[str, Any]:
    wanted = [engine_lint.parse_rename(text) for text in renames]
    with open_memory(project) as engine:
        repairs = engine_lint.plan_repairs(engine, wanted)
        if repairs and not dry_run:
            number = sum(len(repair.paths) for repair in repairs)
            confirm(f"Rewrite {number} paths in {len(repairs)} memories?", yes)
            engine_lint.apply_repairs(engine, repairs, wanted, actor="human")
    return {"memories": repairs, "dry_run": dry_run}


def _propose(project: Path | None) -> list[Rename]:
    with open_memory(project) as engine:
        try:
            return engine_lint.propose_renames(engine)
        except StorageFailure as error:
            raise StorageFailure(error.message, "Name the renames yourself: --fix-paths OLD=NEW.") from error


def _render_renames(console: Console, renames: list[Rename]) -> None:
    options_ = " ".join(f"--fix-paths {shlex.quote(f'{old}={new}')}" for old, new in renames)
    console.print(line(f"scrimshaw lint {options_} --dry-run" if renames else "No stale reference follows a rename."))


def _render_report(console: Console, report: Mapping[str, Any]) -> None:
    for one in report["files"]:
        _render_file(console, one)
    counts = ", ".join(f"{count} {state}" for state, count in report["counts"].items() if count)
    console.print(f"{len(report['files'])} files: {counts or 'nothing to judge'}")
    if references := report["references"]:
        stale = report["stale"]
        console.print(f"{stale} of {references} references lead nowhere ({stale / references:.1%})")


def _render_file(console: Console, one: Linted) -> None:
    flags = f"  {' '.join(one.flags)}" if one.flags else ""
    score = "     " if one.state == LintState.SKIPPED else f"{one.score:5.2f}"
    console.print(line((f"{one.state:<8}", _LINT_STYLES[one.state]), f" {score}  ", (one.path, "cyan"), (flags, "dim")))
    for reason, number in zip(one.reasons, one.lines, strict=True):
        console.print(line(f"         {f'line {number}: ' if number else ''}{reason}"))
    lines: dict[str, list[int]] = {}
    for reference in one.stale:
        lines.setdefault(reference.path, []).append(reference.line)
    for path, numbers in lines.items():
        console.print(line(f"         line {', '.join(map(str, dict.fromkeys(numbers)))}: {path} leads nowhere"))


def _render_repairs(console: Console, result: Mapping[str, Any]) -> None:
    for repair in result["memories"]:
        if result["dry_run"]:
            console.print(line(repair.diff))
        else:
            console.print(line((repair.id, "cyan"), f"  {len(repair.paths)} paths rewritten"))
    console.print(f"{len(result['memories'])} memories {'would change' if result['dry_run'] else 'changed'}")


# SARIF


def sarif_log(found: Sequence[Linted]) -> dict[str, Any]:
    """A log of one run: a rule per flag that occurs or is known, a result per reason and per stale reference.

    Paths are relative URIs under the project. A result has a line where it is known.
    """
    rules: Mapping[str, Mapping[str, str]] = parse_toml(
        Path(__file__).with_name("lint_rules.toml").read_text(encoding="utf-8")
    )
    results = [result for one in found for result in _list_results(one)]
    names = list(dict.fromkeys([*rules, *(str(result["ruleId"]) for result in results)]))
    for result in results:
        result["ruleIndex"] = names.index(result["ruleId"])
    driver = {
        "name": "scrimshaw lint",
        "version": __version__,
        "rules": [_describe_rule(name, rules.get(name, {})) for name in names],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _describe_rule(name: str, texts: Mapping[str, str]) -> dict[str, Any]:
    means = texts.get("means", f"The quality gate found {name.replace('_', ' ')}.")
    return {
        "id": name,
        "name": name.title().replace("_", ""),
        "shortDescription": {"text": means},
        "fullDescription": {"text": means},
        "help": {"text": texts.get("remedy", "See the message.")},
        "defaultConfiguration": {"level": "warning"},
    }


def _list_results(one: Linted) -> Iterator[dict[str, Any]]:
    level = {LintState.REJECTED: "error", LintState.SKIPPED: "note"}.get(one.state, "warning")
    unnamed = "skipped_file" if one.state == LintState.SKIPPED else "quality_defect"
    flags = one.flags if len(one.flags) == len(one.reasons) else (unnamed,) * len(one.reasons)
    for flag, reason, number in zip(flags, one.reasons, one.lines, strict=True):
        yield _result(flag, level, reason, one.path, number)
    for reference in one.stale:
        yield _result("dead_reference", "warning", f"{reference.path} leads nowhere.", one.path, reference.line)


def _result(rule: str, level: str, message: str, path: str, number: int) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(path)}}
    if number:
        place["region"] = {"startLine": number}
    return {"ruleId": rule, "level": level, "message": {"text": message}, "locations": [{"physicalLocation": place}]}


# Figures of `scrimshaw stats --quality`


def show_quality(settings: Settings, days: float, as_json: bool) -> None:
    """Count and print the figures of the newest memories; reads files alone, no index."""
    show(engine_lint.quality_figures(settings, days=days), as_json, _render_figures)


def _render_figures(console: Console, figures: Mapping[str, Any]) -> None:
    console.print(f"{figures['files']} memories created since {figures['since'][:10]} ({figures['days']:g} days)")
    for each in figures["measures"]:
        word, style = ("met", "green") if each["met"] else ("missed", "bold red")
        word, style = ("none", "dim") if each["share"] is None else (word, style)
        share = "     -" if each["share"] is None else f"{each['share']:6.1%}"
        bound = f"{'at most' if each['at_most'] else 'at least'} {each['target']:.0%}"
        numbers = f"{each['name']:<24}{share}  {each['count']} of {each['of']}, {bound}"
        console.print(line((f"{word:<7}", style), numbers))
    console.print("bands " + ", ".join(f"{name} {count}" for name, count in figures["bands"].items()))
    if figures["undated"]:
        console.print(f"{figures['undated']} files say no time of creation and are left out")
    if figures["unreadable"]:
        console.print(f"{figures['unreadable']} files cannot be read; `scrimshaw lint` names them")


# Doctor

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
