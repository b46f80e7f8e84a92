"""The command that measures the quality gate on labelled memory files: eval quality."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from scrimshaw.app.cli import options
from scrimshaw.app.cli.memory import settings_of
from scrimshaw.app.cli.options import example
from scrimshaw.app.cli.output import note, percent, show, show_json
from scrimshaw.engine.write import judge_file
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw_lab.commands import calibration
from scrimshaw_lab.quality import FlagScore, QualityReport, QualityScore, evaluate_quality, labelled_files

app = typer.Typer()

_HEAD = ("", "found", "wrong", "missed", "precision", "recall")


@app.command("quality", epilog=example("scrimshaw eval quality --files memories --labels labels.jsonl"))
def evaluate_quality_gate(
    files: Annotated[Path, typer.Option(exists=True, file_okay=False, help="The folder of the labelled files.")],
    labels: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="Band, acceptance and defects of each, as JSON lines.")
    ],
    record: Annotated[bool, typer.Option("--record", help=f"Write the run to {calibration.PAGE}.")] = False,
    project: options.Project = None,
    as_json: options.AsJson = False,
) -> None:
    """Measure which memory files the quality gate lets in, and which defects it finds."""
    settings = settings_of(project)
    report = evaluate_quality(
        labelled_files(files, labels), lambda text, name: judge_file(settings, parse_memory_file(text, name))
    )
    if as_json:
        show_json(figures(report))
    else:
        show(report, False, _render)
    if record:
        page = calibration.write_section(settings.project, "Quality", _section(report, labels))
        note(f"Recorded in {page}.")


def figures(report: QualityReport) -> dict[str, Any]:
    """The rates (0..1) and counts over all files, over those without a doubtful label, and the bands."""
    return {**_score(report.overall), "unambiguous": _score(report.unambiguous), "bands": report.bands}


def _score(score: QualityScore) -> dict[str, Any]:
    return {
        "files": score.files,
        "agreement": score.agreement,
        "accept_recall": score.accept_recall,
        "false_accepts": score.false_accepts,
        "false_rejects": score.false_rejects,
        "flags": {name: _flag(flag) for name, flag in score.flags.items()},
    }


def _flag(flag: FlagScore) -> dict[str, float | None]:
    return {
        "precision": flag.precision,
        "recall": flag.recall,
        "found": flag.found,
        "wrong": flag.wrong,
        "missed": flag.missed,
    }


def _render(console: Console, report: QualityReport) -> None:
    for text in _sentences(report):
        console.print(text)
    for name, cells in {"": _HEAD[1:], **_flag_rows(report.overall)}.items():
        console.print(f"{name:<28}" + "".join(f"{cell:>11}" for cell in cells))
    for name, cells in {"labelled": tuple(report.bands), **_band_rows(report)}.items():
        console.print(f"{name:<28}" + "".join(f"{cell:>11}" for cell in cells))
    for title, names in (("Accepted", report.overall.false_accepts), ("Rejected", report.overall.false_rejects)):
        for name in names:
            console.print(f"{title} wrongly: {name}")


def _sentences(report: QualityReport) -> tuple[str, ...]:
    return tuple(
        f"{score.files} {kind}: agreement {percent(score.agreement)}, "
        f"accepted files recalled {percent(score.accept_recall)}."
        for kind, score in (("files", report.overall), ("of them without doubt", report.unambiguous))
    )


def _flag_rows(score: QualityScore) -> dict[str, tuple[str, ...]]:
    return {
        name: (str(flag.found), str(flag.wrong), str(flag.missed), percent(flag.precision), percent(flag.recall))
        for name, flag in score.flags.items()
    }


def _band_rows(report: QualityReport) -> dict[str, tuple[str, ...]]:
    return {stated: tuple(map(str, given.values())) for stated, given in report.bands.items()}


def _section(report: QualityReport, labels: Path) -> str:
    parts = (
        f"Data: `{labels.name}`; {report.overall.files} labelled files.",
        "\n".join(_sentences(report)),
        calibration.table(_HEAD, _flag_rows(report.overall)),
        "Files per labelled band (rows) and band of their score (columns):",
        calibration.table(("", *report.bands), _band_rows(report)),
    )
    return "\n\n".join(parts)
