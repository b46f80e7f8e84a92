"""The command that judges memory files, and follows files that moved: lint."""

from __future__ import annotations

import shlex
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct
from rich.console import Console

from scrimshaw.app.cli import options, sarif
from scrimshaw.app.cli.memory import existing, open_memory, settings_of
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import confirm, line, show, show_json
from scrimshaw.engine import linting, moving_paths
from scrimshaw.engine.linting import Linted, LintState
from scrimshaw.engine.moving_paths import Repair
from scrimshaw.errors import StorageFailure
from scrimshaw.ingest.references import Rename

app = typer.Typer()

STYLES = {
    LintState.REJECTED: "bold red",
    LintState.WARNED: "yellow",
    LintState.SKIPPED: "dim",
    LintState.CLEAN: "green",
}


class Format(StrEnum):
    """How the verdicts are written; SARIF is what code hosts show beside the lines of a change."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


class Report(Struct, frozen=True, kw_only=True):
    """The verdicts, worst first, how many there are of each, and references in all and stale."""

    files: tuple[Linted, ...]
    counts: dict[str, int]
    references: int
    stale: int


class Repaired(Struct, frozen=True, kw_only=True):
    """What a rename of paths changed, or would change."""

    memories: tuple[Repair, ...]
    dry_run: bool


@app.command(
    epilog=example("scrimshaw lint --references", "scrimshaw lint --fix-paths specs=.opencode/specs --dry-run")
)
def lint(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH", help="Files or folders; without, the project's memories.")
    ] = None,
    format_: Annotated[Format, typer.Option("--format", help="How to print.")] = Format.TEXT,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings and skipped files too.")] = False,
    references: Annotated[bool, typer.Option("--references", help="Name references that lead nowhere.")] = False,
    fix_paths: Annotated[
        list[str] | None,
        typer.Option(metavar="OLD=NEW", help="Rewrite stale references below OLD to NEW (repeatable, in this order)."),
    ] = None,
    propose: Annotated[
        bool, typer.Option("--propose", help="Print what --fix-paths could take from git's history, and do no more.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what --fix-paths would change.")] = False,
    yes: options.Yes = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Judge memory files as the quality gate does, whoever wrote them; exit with 1 when one is rejected.

    Only --fix-paths writes: it takes whole folders at the start of a path, and the journal keeps the text before.
    """
    if paths and (fix_paths or propose):
        raise typer.BadParameter("Paths are followed in the project's memories; give no PATH.")
    if propose:
        show(_proposed(project), as_json, _render_renames)
        return
    if fix_paths:
        show(_fixed(project, fix_paths, dry_run, yes), as_json, _render_repairs)
        return
    settings = settings_of(project) if paths else existing(project)
    report = _report(linting.lint(settings, paths or (), follow=references))
    if format_ == Format.SARIF:
        show_json(sarif.log(report.files))
    else:
        show(report, as_json or format_ == Format.JSON, _render)
    states = {LintState.REJECTED, LintState.WARNED, LintState.SKIPPED} if strict else {LintState.REJECTED}
    if any(one.state in states for one in report.files):
        raise typer.Exit(1)


def _report(found: list[Linted]) -> Report:
    counts = Counter(one.state for one in found)
    return Report(
        files=tuple(found),
        counts={str(state): counts[state] for state in LintState},
        references=sum(one.references for one in found),
        stale=sum(len(one.stale) for one in found),
    )


def _fixed(project: Path | None, renames: list[str], dry_run: bool, yes: bool) -> Repaired:
    wanted = [moving_paths.rename_of(text) for text in renames]
    with open_memory(project) as engine:
        repairs = moving_paths.planned(engine, wanted)
        if repairs and not dry_run:
            number = sum(len(repair.paths) for repair in repairs)
            confirm(f"Rewrite {number} paths in {len(repairs)} memories?", yes)
            moving_paths.apply(engine, repairs, wanted, actor="human")
    return Repaired(memories=tuple(repairs), dry_run=dry_run)


def _proposed(project: Path | None) -> list[Rename]:
    with open_memory(project) as engine:
        try:
            return moving_paths.worth_following(engine)
        except StorageFailure as error:
            raise StorageFailure(error.message, "Name the renames yourself: --fix-paths OLD=NEW.") from error


def _render_renames(console: Console, renames: list[Rename]) -> None:
    options_ = " ".join(f"--fix-paths {shlex.quote(f'{old}={new}')}" for old, new in renames)
    console.print(line(f"scrimshaw lint {options_} --dry-run" if renames else "No stale reference follows a rename."))


def _render(console: Console, report: Report) -> None:
    for one in report.files:
        _file(console, one)
    counts = ", ".join(f"{count} {state}" for state, count in report.counts.items() if count)
    console.print(f"{len(report.files)} files: {counts or 'nothing to judge'}")
    if report.references:
        share = report.stale / report.references
        console.print(f"{report.stale} of {report.references} references lead nowhere ({share:.1%})")


def _file(console: Console, one: Linted) -> None:
    flags = f"  {' '.join(one.flags)}" if one.flags else ""
    score = "     " if one.state == LintState.SKIPPED else f"{one.score:5.2f}"
    console.print(line((f"{one.state:<8}", STYLES[one.state]), f" {score}  ", (one.path, "cyan"), (flags, "dim")))
    for reason, number in zip(one.reasons, one.lines, strict=True):
        console.print(line(f"         {f'line {number}: ' if number else ''}{reason}"))
    lines: dict[str, list[int]] = {}
    for reference in one.stale:
        lines.setdefault(reference.path, []).append(reference.line)
    for path, numbers in lines.items():
        console.print(line(f"         line {', '.join(map(str, dict.fromkeys(numbers)))}: {path} leads nowhere"))


def _render_repairs(console: Console, result: Repaired) -> None:
    for repair in result.memories:
        if result.dry_run:
            console.print(line(repair.diff))
        else:
            console.print(line((repair.id, "cyan"), f"  {len(repair.paths)} paths rewritten"))
    verb = "would change" if result.dry_run else "changed"
    console.print(f"{len(result.memories)} memories {verb}")
