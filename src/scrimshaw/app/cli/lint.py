"""The command that judges memory files and follows files that moved: lint, as text, JSON or SARIF 2.1.0."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

import typer
from msgspec import to_builtins
from rich.console import Console
from rich.text import Text

from scrimshaw import __version__
from scrimshaw.app.cli import options
from scrimshaw.app.cli.memory import open_memory, settings_of, settings_of_memory
from scrimshaw.app.cli.options import Texts, example
from scrimshaw.app.cli.output import confirm, line, show, show_json
from scrimshaw.config import Settings
from scrimshaw.engine import lint as engine_lint
from scrimshaw.engine.lint import Linted, LintState, Measure, QualityFigures
from scrimshaw.errors import StorageFailure
from scrimshaw.ingest.references import Rename
from scrimshaw.toml_text import parse_toml

app = typer.Typer()

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"

_STYLES = {
    LintState.REJECTED: "bold red",
    LintState.WARNED: "yellow",
    LintState.SKIPPED: "dim",
    LintState.CLEAN: "green",
}


@app.command(epilog=example("scrimshaw lint --references", "scrimshaw lint --fix-paths specs=docs/specs --dry-run"))
def lint(
    paths: Annotated[
        list[Path] | None, typer.Argument(metavar="PATH", help="Files or folders; without, the project's memories.")
    ] = None,
    format_: Annotated[Literal["text", "json", "sarif"], typer.Option("--format", help="How to print.")] = "text",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 for warnings and skipped files too.")] = False,
    references: Annotated[bool, typer.Option("--references", help="Name references that lead nowhere.")] = False,
    fix_paths: Annotated[
        Texts, typer.Option(metavar="OLD=NEW", help="Rewrite references below OLD to NEW (repeatable, in order).")
    ] = None,
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
        show(report, as_json or format_ == "json", _render)
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


def _render(console: Console, report: Mapping[str, Any]) -> None:
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
    console.print(line((f"{one.state:<8}", _STYLES[one.state]), f" {score}  ", (one.path, "cyan"), (flags, "dim")))
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
    figures = engine_lint.quality_figures(settings, days=days)
    if as_json:
        measures = [{**to_builtins(one), "share": one.share, "met": one.is_met} for one in figures.measures]
        show_json({**to_builtins(figures), "measures": measures})
    else:
        show(figures, False, _render_figures)


def _render_figures(console: Console, figures: QualityFigures) -> None:
    console.print(f"{figures.files} memories created since {figures.since[:10]} ({figures.days:g} days)")
    for measure in figures.measures:
        console.print(_render_measure(measure))
    console.print("bands " + ", ".join(f"{name} {count}" for name, count in figures.bands.items()))
    if figures.undated:
        console.print(f"{figures.undated} files say no time of creation and are left out")
    if figures.unreadable:
        console.print(f"{figures.unreadable} files cannot be read; `scrimshaw lint` names them")


def _render_measure(measure: Measure) -> Text:
    word, style = ("met", "green") if measure.is_met else ("missed", "bold red")
    if measure.share is None:
        word, style = "none", "dim"
    share = "     -" if measure.share is None else f"{measure.share:6.1%}"
    bound = "at most" if measure.at_most else "at least"
    numbers = f"{measure.count} of {measure.of}, {bound} {measure.target:.0%}"
    return line((f"{word:<7}", style), f"{measure.name:<24}{share}  {numbers}")
