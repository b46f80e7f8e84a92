"""The command that measures the extraction rules on labelled calls: eval extract."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from scrimshaw.app.cli import options
from scrimshaw.app.cli.memory import settings_of
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import note, percent, show, show_json
from scrimshaw.app.rules import check_rules
from scrimshaw.ingest.extraction import Rule, extract
from scrimshaw_lab.commands import calibration
from scrimshaw_lab.extraction import ExtractionReport, ExtractionScore, LabelledCall, evaluate_extraction
from scrimshaw_lab.labelled import labelled_calls

app = typer.Typer()

_HEAD = ("", "kept", "wrong", "missed", "precision", "recall", "key recall")


@app.command("extract", epilog=example("scrimshaw eval extract --calls calls.jsonl.gz --labels labels.jsonl"))
def evaluate_extract(
    calls: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Tool calls, .jsonl or .jsonl.gz.")],
    labels: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Which of them should be kept.")],
    record: Annotated[bool, typer.Option("--record", help=f"Write the run to {calibration.PAGE}.")] = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure which calls the extraction rules keep, your own included."""
    settings = settings_of(project)
    rules, _ = check_rules(settings)
    judged = labelled_calls(calls, labels)
    report = evaluate_extraction(judged, partial(extract, rules=rules))
    if as_json:
        show_json(figures(report, len(judged)))
    else:
        show(report, False, _render)
    if record:
        page = calibration.write_section(
            settings.project, "Extraction", _section(report, judged, rules, (calls, labels))
        )
        note(f"Recorded in {page}.")


def figures(report: ExtractionReport, calls: int) -> dict[str, Any]:
    """The rates (0..1) and counts over all calls, and for each kind and source."""
    return {
        "calls": calls,
        **_rates(report.overall),
        "by_kind": {name: _rates(score) for name, score in sorted(report.by_kind.items())},
        "by_source": {name: _rates(score) for name, score in sorted(report.by_source.items())},
    }


def _rates(score: ExtractionScore) -> dict[str, float | None]:
    return {
        "precision": score.precision,
        "recall": score.recall,
        "key_recall": score.key_recall,
        "kept": score.kept,
        "wrong": score.wrong,
        "missed": score.missed,
    }


def _render(console: Console, report: ExtractionReport) -> None:
    for name, cells in {"": _HEAD[1:], **_rows(report)}.items():
        console.print(f"{name:<32}" + "".join(f"{cell:>11}" for cell in cells))


def _rows(report: ExtractionReport) -> dict[str, tuple[str, ...]]:
    scores = {"all": report.overall, **dict(sorted(report.by_source.items())), **dict(sorted(report.by_kind.items()))}
    return {name or "-": _cells(score) for name, score in scores.items()}


def _cells(score: ExtractionScore) -> tuple[str, ...]:
    counts = (score.kept, score.wrong, score.missed)
    return (*map(str, counts), *map(percent, (score.precision, score.recall, score.key_recall)))


def _section(
    report: ExtractionReport, judged: list[LabelledCall], rules: tuple[Rule, ...], names: tuple[Path, ...]
) -> str:
    parts = (
        f"Data: {', '.join(f'`{path.name}`' for path in names)}; {len(judged)} labelled calls.",
        f"Rules, in the order of trial: {', '.join(rule.id for rule in rules)}.",
        calibration.table(_HEAD, _rows(report)),
    )
    return "\n\n".join(parts)
