"""Measures the quality gate on labelled memory files: which it accepts, and which defects it finds."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer
from msgspec import Struct
from msgspec.structs import asdict

from scrimshaw.app.cli import frame
from scrimshaw.app.cli.frame import example, settings_of
from scrimshaw.app.cli.output import Lines, note, percent, show
from scrimshaw.errors import InvalidRequest
from scrimshaw.ingest.memory_file import decode_text, parse_memory_file
from scrimshaw.ingest.quality import BANDS, QualityVerdict, band, judge
from scrimshaw_lab import calibration
from scrimshaw_lab.labelled import lines_of
from scrimshaw_lab.metrics import DetectionScore, share

Judge = Callable[[str, str], QualityVerdict]
Band = Literal["A", "B", "C", "D"]


class FileLabel(Struct, frozen=True, kw_only=True):
    """A person's label of a memory file: its band, whether to accept it, its defects, and those in doubt."""

    file: str
    band: Band
    accept: bool
    flags: dict[str, bool]
    ambiguous: tuple[str, ...] = ()


class LabelledFile(NamedTuple):
    """A memory file's text and its label."""

    label: FileLabel
    text: str


class QualityScore(Struct, frozen=True, kw_only=True):
    """How far the gate agrees with the labels: `kept` counts files accepted rightly; the wrong ones are named."""

    files: int
    kept: int
    false_accepts: tuple[str, ...]
    false_rejects: tuple[str, ...]
    flags: Mapping[str, DetectionScore]

    @property
    def agreement(self) -> float | None:
        """The share of files on which gate and label agree, 0..1; None without files."""
        return share(self.files - len(self.false_accepts + self.false_rejects), self.files)

    @property
    def accept_recall(self) -> float | None:
        """The share of acceptable files that are accepted, 0..1; None without such files."""
        return share(self.kept, self.kept + len(self.false_rejects))


class QualityReport(Struct, frozen=True, kw_only=True):
    """The score over all files, over those without a doubtful defect, and files per labelled and judged band."""

    overall: QualityScore
    unambiguous: QualityScore
    bands: Mapping[str, Mapping[str, int]]


def labelled_files(folder: Path, labels: Path) -> list[LabelledFile]:
    """The labelled files; a label names its file relative to `folder` or to the folder above.

    Raises InvalidRequest for a label without a file, UnreadableFile for one that is no text.
    """
    found = list[LabelledFile]()
    for label in lines_of(labels, FileLabel):
        places = (base / label.file for base in (folder, folder.parent))
        path = next(filter(Path.is_file, places), None)
        if path is None:
            raise InvalidRequest(f"{folder} has no {label.file}.", "Name the folder of the files that were labelled.")
        found.append(LabelledFile(label, decode_text(path.read_bytes(), str(path))))
    return found


def evaluate_quality(files: Iterable[LabelledFile], judge: Judge) -> QualityReport:
    """Judge every file, by text and name, and compare with the labels."""
    judged = [(file.label, judge(file.text, Path(file.label.file).stem)) for file in files]
    certain = [(label, verdict) for label, verdict in judged if not label.ambiguous]
    bands: Counter[tuple[str, str]] = Counter((label.band, band(verdict.score)) for label, verdict in judged)
    return QualityReport(
        overall=_score(judged),
        unambiguous=_score(certain),
        bands={stated: {given: bands[stated, given] for given in BANDS} for stated in BANDS},
    )


def _score(judged: Sequence[tuple[FileLabel, QualityVerdict]]) -> QualityScore:
    names = dict.fromkeys(name for label, _ in judged for name in label.flags)
    return QualityScore(
        files=len(judged),
        kept=sum(label.accept and verdict.is_accepted for label, verdict in judged),
        false_accepts=tuple(label.file for label, verdict in judged if verdict.is_accepted and not label.accept),
        false_rejects=tuple(label.file for label, verdict in judged if label.accept and not verdict.is_accepted),
        flags={name: _flag_score(name, judged) for name in names},
    )


def _flag_score(name: str, judged: Iterable[tuple[FileLabel, QualityVerdict]]) -> DetectionScore:
    counts = Counter((label.flags.get(name, False), name in verdict.flags) for label, verdict in judged)
    return DetectionScore(found=counts[True, True], wrong=counts[False, True], missed=counts[True, False])


app = typer.Typer()

_HEAD = ("", "found", "wrong", "missed", "precision", "recall")


@app.command("quality", epilog=example("scrimshaw eval quality --files memories --labels labels.jsonl"))
def evaluate_quality_gate(
    files: Annotated[Path, typer.Option(exists=True, file_okay=False, help="The folder of the labelled files.")],
    labels: Annotated[
        Path, typer.Option(exists=True, dir_okay=False, help="Band, acceptance and defects of each, as JSON lines.")
    ],
    record: Annotated[bool, typer.Option("--record", help=f"Write the run to {calibration.PAGE}.")] = False,
    project: frame.Project = None,
    as_json: frame.AsJson = False,
) -> None:
    """Measure which memory files the quality gate accepts, and which defects it finds."""
    settings = settings_of(project)
    report = evaluate_quality(
        labelled_files(files, labels),
        lambda text, name: judge(parse_memory_file(text, name), phrases=settings.quality.phrases),
    )
    show(figures(report) if as_json else report, as_json, _render)
    if record:
        page = calibration.write_section(settings.project, "Quality", _section(report, labels))
        note(f"Recorded in {page}.")


def figures(report: QualityReport) -> dict[str, Any]:
    """The rates (0..1) and counts over all files, over those without a doubtful label, and the bands."""
    return {
        **_describe_score(report.overall),
        "unambiguous": _describe_score(report.unambiguous),
        "bands": report.bands,
    }


def _describe_score(score: QualityScore) -> dict[str, Any]:
    names, rates = ("files", "agreement", "accept_recall", "false_accepts", "false_rejects"), ("precision", "recall")
    flags = {name: asdict(each) | {rate: getattr(each, rate) for rate in rates} for name, each in score.flags.items()}
    return {**{name: getattr(score, name) for name in names}, "flags": flags}


def _render(report: QualityReport) -> Lines:
    yield from _sentences(report)
    for name, cells in {"": _HEAD[1:], **_flag_rows(report.overall)}.items():
        yield f"{name:<28}" + "".join(f"{cell:>11}" for cell in cells)
    for name, cells in {"labelled": tuple(report.bands), **_band_rows(report)}.items():
        yield f"{name:<28}" + "".join(f"{cell:>11}" for cell in cells)
    for title, names in (("Accepted", report.overall.false_accepts), ("Rejected", report.overall.false_rejects)):
        yield from (f"{title} wrongly: {name}" for name in names)


def _sentences(report: QualityReport) -> tuple[str, ...]:
    return tuple(
        f"{score.files} {kind}: agreement {percent(score.agreement)}, "
        f"acceptable files accepted {percent(score.accept_recall)}."
        for kind, score in (("files", report.overall), ("of them without doubtful labels", report.unambiguous))
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
