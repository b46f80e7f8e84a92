"""The commands that examine memories and what they need: lint, doctor, capabilities, golden queries."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec.structs import replace

from scrimshaw.app import setup
from scrimshaw.app.checks import ALL_CHECKS, list_process_checks
from scrimshaw.app.cli import frame, project_files
from scrimshaw.app.cli.frame import Texts, command, settings_of_memory
from scrimshaw.app.cli.output import Lines, confirm, line, note, print_lines, show
from scrimshaw.config import Settings
from scrimshaw.engine import Engine, canary, index, open_engine
from scrimshaw.engine import lint as engine_lint
from scrimshaw.engine.core import load_memory
from scrimshaw.engine.degradations import Lost
from scrimshaw.engine.drafts import list_rejected
from scrimshaw.engine.health import Finding, Health, Severity, check_health, examine_databases
from scrimshaw.engine.links import find_shared_titles
from scrimshaw.engine.lint import LintState
from scrimshaw.errors import ConfigError, ScrimshawError, StorageFailure
from scrimshaw.ingest.rule_checks import check_rules
from scrimshaw.models import EVERY, format_count
from scrimshaw.storage.git import ask_git, work_tree
from scrimshaw.storage.sync import SyncReport
from scrimshaw.storage.toml_files import GOLDEN_FILE, Golden

app = typer.Typer()
golden = frame.command_group(app, "golden", "Test questions with known answers.", "list")

_LINT_STYLES = {"rejected": "bold red", "warned": "yellow", "skipped": "dim", "clean": "green"}


@app.command(epilog=frame.example("scrimshaw lint --references", "scrimshaw lint --fix-paths docs/specs --dry-run"))
def lint(
    paths: Annotated[list[Path] | None, typer.Argument(metavar="PATH", help="Files or folders; default: all.")] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings and skipped files too.")] = False,
    references: Annotated[bool, typer.Option("--references", help="Also report references to missing files.")] = False,
    fix_paths: Annotated[
        Texts, typer.Option(metavar="OLD=NEW|PATH", help="Follow a moved folder, or repair these files (repeatable).")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what --fix-paths would change.")] = False,
    yes: frame.Yes = False,
    project: frame.Project = None,
    as_json: frame.AsJson = False,
) -> None:
    """Check memory files with the quality gate.

    Exit code 1 if one is rejected. Only --fix-paths writes, after showing changes: it renames folders at the start
    of paths, in the project's memories or the named files. Without OLD=NEW it follows the renames that git knows.
    """
    if fix_paths:
        _repair_references([*(paths or ())], fix_paths, dry_run, yes, project, as_json)
        return
    settings = frame.settings_of(project) if paths else settings_of_memory(project)
    found = engine_lint.lint(settings, paths or (), follow=references)
    counts = Counter(one.state for one in found)
    stale, followed = sum(len(one.stale) for one in found), sum(one.references for one in found)
    states = {str(state): counts[state] for state in LintState}
    show({"files": found, "counts": states, "references": followed, "stale": stale}, as_json, _render_report)
    fatal = {LintState.REJECTED, LintState.WARNED, LintState.SKIPPED} if strict else {LintState.REJECTED}
    if not fatal.isdisjoint(counts):
        raise typer.Exit(1)


def _repair_references(
    paths: list[Path], wanted: list[str], dry_run: bool, yes: bool, project: Path | None, as_json: bool
) -> None:
    """Rewrite stale references after the named renames, or those in git."""
    paths += (Path(text) for text in wanted if "=" not in text)
    renames = [engine_lint.parse_rename(text) for text in wanted if "=" in text]
    with frame.open_memory(project) as engine:
        if not renames:
            try:
                renames = engine_lint.propose_renames(engine, paths)
            except StorageFailure as error:
                raise StorageFailure(error.message, "Name the renames yourself: --fix-paths OLD=NEW.") from error
        repairs = engine_lint.plan_repairs(engine, renames, paths)
        if repairs and not dry_run:
            if not as_json:
                print_lines((repair.diff for repair in repairs), stderr=True)
            count = sum(len(repair.paths) for repair in repairs)
            confirm(f"Rewrite {format_count(count, 'path')} in {format_count(len(repairs), 'file')}?", yes)
            engine_lint.apply_repairs(engine, repairs, renames)
    show({"files": repairs, "dry_run": dry_run}, as_json, _render_repairs)


def _render_report(report: Mapping[str, Any]) -> Lines:
    for one in report["files"]:
        flags = f"  {' '.join(one.flags)}" if one.flags else ""
        score = "     " if one.state == LintState.SKIPPED else f"{one.score:5.2f}"
        yield line((f"{one.state:<8}", _LINT_STYLES[one.state]), f" {score}  ", (one.path, "cyan"), (flags, "dim"))
        for reason, number in zip(one.reasons, one.lines, strict=True):
            yield f"         {f'line {number}: ' if number else ''}{reason}"
        for path in dict.fromkeys(reference.path for reference in one.stale):
            numbers = dict.fromkeys(str(reference.line) for reference in one.stale if reference.path == path)
            yield f"         line {', '.join(numbers)}: {path} leads nowhere"
    counts = ", ".join(f"{count} {state}" for state, count in report["counts"].items() if count)
    yield f"{format_count(len(report['files']), 'file')}: {counts or 'nothing to judge'}"
    if references := report["references"]:
        yield f"{report['stale']} of {references} references lead nowhere ({report['stale'] / references:.1%})"


def _render_repairs(result: Mapping[str, Any]) -> Lines:
    is_dry, repairs = result["dry_run"], result["files"]
    done = (line((each.id or each.path, "cyan"), f"  paths rewritten: {len(each.paths)}") for each in repairs)
    yield from (each.diff for each in repairs) if is_dry else done
    yield f"{format_count(len(repairs), 'file')} {'would change' if is_dry else 'changed'}"


_STATUS_STYLES = {"on": "green", "degraded": "yellow", "off": "bold red"}
_VERDICT_STYLES = {"ok": "green", "note": "cyan", "warning": "yellow", "problem": "bold red"}
_ENDINGS = {"degraded": "degraded: it works, without what the warnings name", "broken": "needs repair"}


def _render_diagnosis(diagnosis: Mapping[str, Any]) -> Lines:
    for finding in diagnosis["findings"]:
        style = _VERDICT_STYLES[finding.verdict]
        yield line((f"{finding.verdict:<8}", style), f" {finding.name}: {finding.detail}")
        if finding.fix:
            yield line(("         -> ", style), finding.fix)
    yield _ENDINGS.get(diagnosis["status"], "healthy")


@command(
    app, "doctor", "", "--server https://memory.example.org --token-file token",
    render=_render_diagnosis, fails=lambda diagnosis: diagnosis["status"] == "broken",
)  # fmt: skip
def doctor(
    project: Path | None,
    server: Annotated[str, typer.Option(metavar="URL", help="Examine this team's server, as one of its clients.")] = "",
    token_file: Annotated[str, typer.Option(metavar="FILE", help="A token for that server; - is stdin.")] = "",
) -> dict[str, Any]:
    """Examine everything and say what to do.

    Exit code 1 if something needs repair, otherwise 0.
    """
    if server:
        from scrimshaw.app.http.diagnosis import examine_server  # noqa: PLC0415 - an HTTP client, only for a server

        secret = frame.content_of(token_file, None if token_file in ("", frame.STDIN) else Path(token_file))
        findings = tuple(examine_server(server, secret.strip()))
    else:
        unreadable = list[ConfigError]()
        settings = load_memory(frame.find_folder(project), unreadable)  # keys without effect are findings too
        findings = tuple(_examine(settings, unreadable))
    verdicts = {finding.verdict for finding in findings}
    status = "broken" if Severity.PROBLEM in verdicts else "degraded" if Severity.WARNING in verdicts else "healthy"
    return {"status": status, "healthy": status == "healthy", "findings": findings}


def _examine(settings: Settings, unreadable: Sequence[ConfigError]) -> Iterator[Finding]:
    """The findings on a project's memory, unless its settings are not known, and on the clients that use it."""
    yield Finding("project", Severity.OK, str(settings.project))
    yield from (Finding("config", Severity.WARNING, each, "Correct or remove it.") for each in settings.ignored)
    parts: tuple[tuple[str, type[ScrimshawError], Severity, Callable[[Settings], Iterable[Finding]]], ...] = (
        ("git", StorageFailure, Severity.WARNING, _examine_git),
        ("rules", ConfigError, Severity.PROBLEM, _examine_rules),
        ("databases", StorageFailure, Severity.PROBLEM, _examine_memory),
        ("clients", ConfigError, Severity.NOTE, _examine_clients),
    )
    for each in unreadable:
        yield Finding("config", Severity.PROBLEM, each.message, f"{each.hint} Only then is the rest looked at.")
    for name, fault, verdict, part in parts[::3] if unreadable else parts:
        try:
            yield from part(settings)
        except fault as error:
            yield Finding(name, verdict, error.message, error.hint)


def _examine_git(settings: Settings) -> Iterator[Finding]:
    """Whether git would commit what is derived or private."""
    if not work_tree(settings.project):
        yield Finding("git", Severity.NOTE, "the project is not in a git repository")
        return
    names = [f"{settings.folder.name}/{name}" for name in project_files.HIDDEN]
    tracked = ask_git(settings.project, "ls-files", "--", *names).splitlines()
    ignored = ask_git(settings.project, "check-ignore", "--no-index", "--", *names, answers=(0, 1)).splitlines()
    if tracked:
        fix = f"Run `git rm --cached {' '.join(tracked)}`."
        yield Finding("git", Severity.PROBLEM, f"git tracks {', '.join(tracked)}", fix)
    elif visible := [name for name in names if name not in ignored]:
        fix = f"Put into .scrimshaw/.gitignore: {' '.join(project_files.GITIGNORE.splitlines()[1:])}"
        yield Finding("git", Severity.PROBLEM, f"git would add {', '.join(visible)}", fix)
    else:
        yield Finding("git", Severity.OK, "the databases are hidden from git")
    yield from _examine_merging(settings)


def _examine_merging(settings: Settings) -> Iterator[Finding]:
    """Whether this clone can merge memories as the attributes that came with it say."""
    attributes, key = settings.folder / ".gitattributes", "merge.scrimshaw.driver"
    is_named = attributes.is_file() and b"merge=scrimshaw" in attributes.read_bytes()
    if is_named and not ask_git(settings.project, "config", "--get", key, answers=(0, 1)):
        what = f"{attributes} lets Scrimshaw merge memories, but this clone does not know how"
        yield Finding("git", Severity.NOTE, what, "Run `scrimshaw git install`.")


def _examine_rules(settings: Settings) -> Iterator[Finding]:
    rules, warnings = check_rules(settings.rules)
    yield Finding("rules", Severity.OK, f"{len(rules)} extraction rules, {len(settings.rules)} of your own")
    yield from (Finding("rules", Severity.NOTE, warning.message, warning.advice) for warning in warnings)


def _examine_memory(settings: Settings) -> Iterator[Finding]:
    with open_engine(settings) as engine:
        try:
            report = index.scan(engine)
        except StorageFailure as error:
            yield Finding("files", Severity.PROBLEM, f"The index cannot follow them: {error.message}", error.hint)
        else:
            yield from _describe_files(report)
        health = check_health(engine, more=list_process_checks(engine.settings))
        for row in health.capabilities:
            part = row.name.partition(":")[0]
            if part not in {"git", "files", "client"}:  # the doctor has its own checks of these
                drift = f"; {row.was} -> {row.status} since {row.since}" if row.was else ""
                fix = health.advice.get(row.name, "")
                yield Finding(row.name, health.verdicts[row.name], f"{row.detail}{drift}", fix)
        if rejected := list_rejected(engine):
            fix = "See `scrimshaw drafts list`; `scrimshaw review NAME --accept` saves one."
            yield Finding("drafts", Severity.NOTE, f"set aside: {len(rejected)}", fix)
        fix = "Merge them, or say which one counts: `scrimshaw link NEWER supersedes OLDER`."
        shared = map(", ".join, find_shared_titles(engine))
        yield from (Finding("titles", Severity.NOTE, f"{names} have the same title", fix) for names in shared)
        faults = [*examine_databases(engine)]
        fix = "See `scrimshaw checkpoint list` for older copies."
        yield from (replace(fault, fix=fault.fix or fix) for fault in faults)
        if not faults:
            memories = format_count(engine.index.count(EVERY)[""], "memory")
            rows = next((row["seq"] for row in engine.journal.history(limit=1)), 0)
            yield Finding("databases", Severity.OK, f"sound; {memories}, {format_count(rows, 'entry')} in the ledger")


def _describe_files(report: SyncReport) -> Iterator[Finding]:
    broken = [frame.describe_skip(skip) for skip in report.skipped if skip.is_found]
    skipped = [frame.describe_skip(skip) for skip in report.skipped if not skip.is_found]
    if broken:
        found = f"{len(broken)} to correct: {'; '.join(broken)}"
        yield Finding("files", Severity.WARNING, found, "Correct those lines in an editor.")
    if skipped:
        yield Finding("files", Severity.NOTE, f"{len(skipped)} skipped: {'; '.join(skipped)}")
    if not report.skipped:
        yield Finding("files", Severity.OK, f"all {report.files} can be read")


def _examine_clients(settings: Settings) -> Iterator[Finding]:
    """How agent clients are connected, except those not on this machine."""
    for found in setup.check_connections(settings.project, setup.find_programs()):
        verdict = Severity.PROBLEM if found.is_broken else Severity.NOTE if found.fault else Severity.OK
        scope = f"{found.scope} scope: " if found.scope else ""
        yield Finding(found.client, verdict, f"{scope}{found.fault or 'server and hooks are set'}", found.fix)


def _render_capabilities(health: Health) -> Lines:
    measures = {check.name: check.measures for check in ALL_CHECKS}
    for row in health.capabilities:
        yield line((f"{row.status:<9}", _STATUS_STYLES[row.status]), (f"{row.name:<16}", "bold"), row.detail)
        if row.was:
            yield line(" " * 25, (f"{row.was} -> {row.status} since {row.since[:10]}", "yellow"))
        kind = row.name if ":" not in row.name else f"{row.name.partition(':')[0]}:NAME"
        yield line((f"{' ' * 25}{measures[kind]}", "dim"))


@command(app, "capabilities", "--json", render=_render_capabilities, fresh=False)
def measure_capabilities(engine: Engine) -> Health:
    """Measure every part by using it.

    Shows what has changed since the last check.
    """
    return check_health(engine, more=list_process_checks(engine.settings))


def _render_golden(found: Golden | Sequence[Golden]) -> Lines:
    queries = [found] if isinstance(found, Golden) else found
    for each in queries:
        yield line((each.text, "bold"), f"  within {each.within}: ", (", ".join(each.expect), "cyan"))
    if not queries:
        note(f"There are none yet; `scrimshaw golden add` writes .scrimshaw/{GOLDEN_FILE}.")


@command(golden, "add", '"why not the standard sqlite3" storage/apsw', render=_render_golden)
def add_golden(
    engine: Engine,
    query: Annotated[str, typer.Argument(help="A question, as an agent would ask it.")],
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="The memories it must find.")],
    within: Annotated[int, typer.Option(min=1, max=100, help="How many of the first hits to look in.")] = canary.WITHIN,
) -> Golden:
    """Add a question with its answers; `scrimshaw doctor` and each server at its start ask it again."""
    added = canary.add_golden(engine, query, [frame.find_id(engine, each) for each in ids], within)
    frame.fill_few(engine)
    if isinstance(lost := canary.ask_golden(engine, added), Lost):
        note(f"{lost.sentence} {lost.advice}")
    return added


@command(golden, "list", render=_render_golden, fresh=False)
def list_golden(engine: Engine) -> Sequence[Golden]:
    """Show the questions and the memories they must find; those that cannot be asked go to standard error."""
    found = canary.read_golden_file(engine)
    note(*found.flaws)
    return found.queries
