"""What the memories of the last days are worth, counted from the files by the quality gate, beside the targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from msgspec import Struct

from scrimshaw.config import Settings
from scrimshaw.engine.core import MEMORIES
from scrimshaw.engine.linting import memory_files
from scrimshaw.engine.quality import judged
from scrimshaw.errors import UnreadableFile
from scrimshaw.ingest import sheet
from scrimshaw.ingest.front_matter import parse_quality, parse_time
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.ingest.quality import Verdict
from scrimshaw.ingest.quality_rules import Case, decisions
from scrimshaw.ingest.sheet import Sheet

DAYS = 14  # 001 SC-006: the rolling window
# Least score of each band; the seeds name the bands without numbers, so own choice.
BANDS: Mapping[str, float] = {"A": 0.85, "B": 0.65, "C": 0.40, "D": 0.0}
GOOD_BANDS = ("A", "B")
SCORED_TARGET = 1.0  # 001 SC-013


class JudgedFile(Struct, frozen=True):
    """A memory file taken apart, and the gate's verdict."""

    sheet: Sheet
    verdict: Verdict

    @property
    def is_session(self) -> bool:
        """Whether it is the record of a session, which a note somebody wrote is not."""
        return Case(self.sheet, None, ()).shows_session


class Measure(Struct, frozen=True, kw_only=True):
    """A share of `of` files, and its target: the share may be at most that, or has to be at least that."""

    name: str
    count: int
    of: int
    target: float
    at_most: bool
    source: str

    @property
    def share(self) -> float | None:
        """0..1; None without files."""
        return self.count / self.of if self.of else None

    @property
    def is_met(self) -> bool:
        """Whether the target is met; without files nothing is missed."""
        share = self.share
        return share is None or (share <= self.target if self.at_most else share >= self.target)


class QualityFigures(Struct, frozen=True, kw_only=True):
    """The figures of the memories created since `since` (ISO date and time).

    `undated` files say no time of creation and are left out; `unreadable` ones are no memories.
    """

    days: float
    since: str
    files: int
    undated: int
    unreadable: int
    bands: Mapping[str, int]
    measures: tuple[Measure, ...]


Test = Callable[[JudgedFile], bool]


def quality_figures(settings: Settings, *, days: float = DAYS, now: datetime | None = None) -> QualityFigures:
    """Judge every memory of the project's vault anew, and count those created in the last `days` days."""
    since = (now or datetime.now(UTC)) - timedelta(days=days)
    paths = memory_files(settings, settings.folder / MEMORIES)
    read = [_judged(settings, path) for path in paths]
    found = [file for file in read if file]
    dates = [_created(file.sheet) for file in found]
    new = [file for file, created in zip(found, dates, strict=True) if created and created >= since]
    return QualityFigures(
        days=days,
        since=since.strftime("%Y-%m-%dT%H:%M:%SZ"),
        files=len(new),
        undated=dates.count(None),
        unreadable=len(paths) - len(found),
        bands=_bands(new),
        measures=tuple(_measures(new)),
    )


def band(score: float) -> str:
    """The band of a score, A to D."""
    return next(name for name, least in BANDS.items() if score >= least)


def _judged(settings: Settings, path: Path) -> JudgedFile | None:
    try:
        file = parse_memory_file(path.read_bytes(), path.stem)
    except (OSError, UnreadableFile):
        return None
    return JudgedFile(sheet.read(file), judged(settings, file))


def _created(found: Sheet) -> datetime | None:
    """When a file says it was made; a time without an offset is taken as UTC."""
    stated = (parse_time(found.values.get(key)) for key in ("created", "created_at"))
    text = next(filter(None, stated), "")
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _bands(files: Sequence[JudgedFile]) -> dict[str, int]:
    counts = Counter(band(file.verdict.score) for file in files)
    return {name: counts[name] for name in BANDS}


def _measures(files: Sequence[JudgedFile]) -> list[Measure]:
    sessions = [file for file in files if file.is_session]

    def share(name: str, source: str, test: Test, target: float, *, at_most: bool = True) -> Measure:
        among = sessions if name == "decisions captured" else files
        count = sum(map(test, among))
        return Measure(name=name, count=count, of=len(among), target=target, at_most=at_most, source=source)

    return [
        share("placeholder leakage", "001 SC-006", _flagged("has_placeholders"), 0.02),
        share("fallback decisions", "001 SC-007", _flagged("has_fallback_decision"), 0.10),
        share("contamination", "001 SC-008", _flagged("has_contamination"), 0.01),
        share("empty trigger phrases", "001 SC-009", _lacks("trigger_phrases"), 0.05),
        share("empty topics", "001 SC-010", _lacks("topics", "key_topics"), 0.05),
        share("decisions captured", "001 SC-011", _decides, 0.70, at_most=False),
        share("bands A and B", "001 SC-012", _is_good, 0.70, at_most=False),
        share("score and flags present", "001 SC-013", _is_scored, SCORED_TARGET, at_most=False),
    ]


def _flagged(flag: str) -> Test:
    return lambda file: flag in file.verdict.flags


def _lacks(*keys: str) -> Test:
    return lambda file: not any(file.sheet.phrases(key) for key in keys)


def _decides(file: JudgedFile) -> bool:
    return bool(decisions(file.sheet))


def _is_good(file: JudgedFile) -> bool:
    return band(file.verdict.score) in GOOD_BANDS


def _is_scored(file: JudgedFile) -> bool:
    """Whether the front matter holds a score and a list of flags, empty or not."""
    values = file.sheet.values
    stated = values.get("quality")
    has_flags = "flags" in stated if isinstance(stated, Mapping) else "quality_flags" in values
    return has_flags and parse_quality(values) is not None
