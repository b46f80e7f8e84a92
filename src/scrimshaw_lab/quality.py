"""Measures the quality gate on labelled memory files: which it lets in, which it turns away, and for what defects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct

from scrimshaw.engine.lint import BANDS, band
from scrimshaw.errors import InvalidRequest, describe_os_error
from scrimshaw.ingest.quality import QualityVerdict
from scrimshaw_lab.labelled import lines_of
from scrimshaw_lab.metrics import share

Judge = Callable[[str, str], QualityVerdict]
Band = Literal["A", "B", "C", "D"]


class FileLabel(Struct, frozen=True, kw_only=True):
    """What a person says of a memory file: its band, whether to keep it, its defects, and those in doubt."""

    file: str
    band: Band
    accept: bool
    flags: dict[str, bool]
    ambiguous: tuple[str, ...] = ()


class LabelledFile(NamedTuple):
    """A memory file's text beside its label."""

    label: FileLabel
    text: str


class FlagScore(Struct, frozen=True, kw_only=True):
    """Files in which a defect was found rightly, found wrongly, and missed; rates 0..1, 1 where nothing was to do."""

    found: int = 0
    wrong: int = 0
    missed: int = 0

    @property
    def precision(self) -> float | None:
        """Rightly found of all found."""
        return share(self.found, self.found + self.wrong)

    @property
    def recall(self) -> float | None:
        """Found of all that are there."""
        return share(self.found, self.found + self.missed)


class QualityScore(Struct, frozen=True, kw_only=True):
    """How far the gate agrees with the labels: `kept` are accepted rightly; the other two are names of files."""

    files: int
    kept: int
    false_accepts: tuple[str, ...]
    false_rejects: tuple[str, ...]
    flags: Mapping[str, FlagScore]

    @property
    def agreement(self) -> float | None:
        """Files on whose acceptance gate and label agree, 0..1; None without a file."""
        return share(self.files - len(self.false_accepts + self.false_rejects), self.files)

    @property
    def accept_recall(self) -> float | None:
        """Accepted of those that should be, 0..1; None where none should."""
        return share(self.kept, self.kept + len(self.false_rejects))


class QualityReport(Struct, frozen=True, kw_only=True):
    """The score over all files, and over those without a defect in doubt; files per (labelled, judged) band."""

    overall: QualityScore
    unambiguous: QualityScore
    bands: Mapping[str, Mapping[str, int]]


def labelled_files(folder: Path, labels: Path) -> list[LabelledFile]:
    """The labelled files; a label names its file below `folder` or below the folder that holds it.

    Raises InvalidRequest for a label without a file, and for one that cannot be read.
    """
    return [LabelledFile(label, _text(folder, label.file)) for label in lines_of(labels, FileLabel)]


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


def _flag_score(name: str, judged: Iterable[tuple[FileLabel, QualityVerdict]]) -> FlagScore:
    counts = Counter((label.flags.get(name, False), name in verdict.flags) for label, verdict in judged)
    return FlagScore(found=counts[True, True], wrong=counts[False, True], missed=counts[True, False])


def _text(folder: Path, name: str) -> str:
    path = next((base / name for base in (folder, folder.parent) if (base / name).is_file()), None)
    if path is None:
        raise InvalidRequest(f"{folder} has no {name}.", "Name the folder of the files that were labelled.")
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(
            f"{path} cannot be read: {describe_os_error(error)}.", "Name a folder of UTF-8 text files."
        ) from error
