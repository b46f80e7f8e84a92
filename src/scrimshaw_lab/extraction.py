"""Measures extraction rules on labelled tool calls: what they rightly record, wrongly record, and miss."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import Struct
from msgspec.structs import asdict, replace

from scrimshaw.app.cli import frame
from scrimshaw.app.cli.frame import example, settings_of
from scrimshaw.app.cli.output import Lines, note, percent, show
from scrimshaw.ingest.extraction import Rule, extract, find_rule
from scrimshaw.ingest.rule_checks import check_rules
from scrimshaw.ingest.tool_calls import describe_call
from scrimshaw_lab import calibration
from scrimshaw_lab.labelled import CallLabel, LabelledCall, labelled_calls
from scrimshaw_lab.metrics import DetectionScore, share

Extract = Callable[[LabelledCall], tuple[Rule, str] | None]


class ExtractionScore(DetectionScore, frozen=True, kw_only=True):
    """Counts over labelled calls: `found` and `wrong` are the extracted ones labelled yes and no.

    `keys_kept` of `keys` substrings are in the texts of the calls that were rightly extracted.
    """

    keys_kept: int = 0
    keys: int = 0

    @property
    def key_recall(self) -> float | None:
        """The share of key substrings that are in the texts."""
        return share(self.keys_kept, self.keys)

    def __add__(self, other: ExtractionScore) -> ExtractionScore:
        return ExtractionScore(**{name: each + getattr(other, name) for name, each in asdict(self).items()})


class ExtractionReport(Struct, frozen=True, kw_only=True):
    """The score over all calls, and for each labelled kind and each source."""

    overall: ExtractionScore
    by_kind: dict[str, ExtractionScore]
    by_source: dict[str, ExtractionScore]


def evaluate_extraction(calls: Iterable[LabelledCall], extract: Extract) -> ExtractionReport:
    """Run `extract` over every call and compare with the labels."""
    overall = ExtractionScore()
    by_kind: dict[str, ExtractionScore] = defaultdict(ExtractionScore)
    by_source: dict[str, ExtractionScore] = defaultdict(ExtractionScore)
    for labelled in calls:
        score = _judge(labelled.label, extract(labelled))
        overall += score
        by_kind[labelled.label.kind] += score
        by_source[labelled.label.source] += score
    return ExtractionReport(overall=overall, by_kind=dict(by_kind), by_source=dict(by_source))


def hold_out_sessions(calls: Sequence[LabelledCall], rules: Sequence[Rule]) -> ExtractionReport:
    """Judge every session without the rules that only decide calls of that session; `by_source` has sessions instead.

    Rules are written by hand and cannot be fitted again, so those that only this session supports are left out.
    """
    homes: dict[str, set[str]] = defaultdict(set)
    for each in calls:
        if each.label.capture != "maybe" and (rule := find_rule(describe_call(each.call), rules)):
            homes[rule.id].add(each.label.session)
    sessions = {each.label.session for each in calls}
    left = {session: [rule for rule in rules if homes.get(rule.id) != {session}] for session in sessions}
    names = {session: f"…{session[-_NAME:]} (-{len(rules) - len(left[session])})" for session in sessions}
    named = [LabelledCall(call, replace(label, source=names[label.session])) for call, label in calls]
    return evaluate_extraction(named, lambda each: extract(describe_call(each.call), left[each.label.session]))


def _judge(label: CallLabel, extracted: tuple[Rule, str] | None) -> ExtractionScore:
    if label.capture == "maybe":
        return ExtractionScore()
    if label.capture == "no":
        return ExtractionScore(wrong=int(extracted is not None))
    if extracted is None:
        return ExtractionScore(missed=1)
    found = sum(key in extracted[1] for key in label.key)
    return ExtractionScore(found=1, keys_kept=found, keys=len(label.key))


app = typer.Typer()

_NAME = 24  # characters of a session's name that are shown, with the number of rules that only it supports

_HEAD = ("", "kept", "wrong", "missed", "precision", "recall", "key recall")


@app.command("extract", epilog=example("scrimshaw eval extract --calls calls.jsonl.gz --labels labels.jsonl"))
def evaluate_extract(
    calls: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Tool calls, .jsonl or .jsonl.gz.")],
    labels: Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Which of them should be recorded.")],
    record: Annotated[bool, typer.Option("--record", help=f"Write the run to {calibration.PAGE}.")] = False,
    project: frame.Project = None,
    as_json: frame.AsJson = False,
) -> None:
    """Measure which calls the extraction rules record, including your own rules."""
    settings = settings_of(project)
    rules, _ = check_rules(settings.rules)
    judged = labelled_calls(calls, labels)
    report = evaluate_extraction(judged, lambda each: extract(describe_call(each.call), rules))
    held_out = hold_out_sessions(judged, rules)
    if as_json:
        show({**figures(report, len(judged)), "held_out": figures(held_out, len(judged))}, as_json, _render)
    else:
        show(report, False, _render)
        note("Each session without the rules that only it supports:")
        show(held_out, False, _render)
    if record:
        section = _section((report, held_out), judged, rules, (calls, labels))
        page = calibration.write_section(settings.project, "Extraction", section)
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
    names = ("precision", "recall", "key_recall", "wrong", "missed")
    return {"kept": score.found, **{name: getattr(score, name) for name in names}}


def _render(report: ExtractionReport) -> Lines:
    for name, cells in {"": _HEAD[1:], **_rows(report)}.items():
        yield f"{name:<32}" + "".join(f"{cell:>11}" for cell in cells)


def _rows(report: ExtractionReport) -> dict[str, tuple[str, ...]]:
    scores = {"all": report.overall, **dict(sorted(report.by_source.items())), **dict(sorted(report.by_kind.items()))}
    rows = dict[str, tuple[str, ...]]()
    for name, each in scores.items():
        counts = map(str, (each.found, each.wrong, each.missed))
        rows[name or "-"] = (*counts, *map(percent, (each.precision, each.recall, each.key_recall)))
    return rows


def _section(
    reports: tuple[ExtractionReport, ...], judged: list[LabelledCall], rules: tuple[Rule, ...], names: tuple[Path, ...]
) -> str:
    parts = (
        f"Data: {', '.join(f'`{path.name}`' for path in names)}; {len(judged)} labelled calls.",
        f"Rules, in the order of trial: {', '.join(rule.id for rule in rules)}.",
        calibration.table(_HEAD, _rows(reports[0])),
        "### Held out\n\nEach session without the rules that only it supports (their number is after its name).",
        calibration.table(_HEAD, _rows(reports[1])),
    )
    return "\n\n".join(parts)
