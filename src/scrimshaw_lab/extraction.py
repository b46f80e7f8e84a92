"""Measures extraction rules on labelled tool calls: what they keep that matters, and what they keep that does not."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple

from msgspec import Struct

from scrimshaw.ingest.extraction import Extraction
from scrimshaw.ingest.tool_calls import ToolCall
from scrimshaw_lab.metrics import share

Extract = Callable[[ToolCall], Extraction | None]


class LabelledCall(NamedTuple):
    """A call, whether it should be kept ("maybe" counts for neither side), and what its summary must then hold."""

    call: ToolCall
    capture: Literal["yes", "no", "maybe"]
    keys: tuple[str, ...]
    kind: str
    source: str


class ExtractionScore(Struct, frozen=True, kw_only=True):
    """Counts over labelled calls; the rates are 0..1, None where there was nothing to measure.

    `kept` and `wrong` are the extracted calls labelled yes and no, `missed` the yes that were not extracted;
    `keys_kept` of `keys` substrings are found in the texts of the kept calls.
    """

    kept: int = 0
    wrong: int = 0
    missed: int = 0
    keys_kept: int = 0
    keys: int = 0

    @property
    def precision(self) -> float | None:
        """Kept of all that was extracted."""
        return share(self.kept, self.kept + self.wrong)

    @property
    def recall(self) -> float | None:
        """Kept of all that should have been."""
        return share(self.kept, self.kept + self.missed)

    @property
    def key_recall(self) -> float | None:
        """Key substrings kept, of those of the kept calls."""
        return share(self.keys_kept, self.keys)

    def __add__(self, other: ExtractionScore) -> ExtractionScore:
        return ExtractionScore(
            kept=self.kept + other.kept,
            wrong=self.wrong + other.wrong,
            missed=self.missed + other.missed,
            keys_kept=self.keys_kept + other.keys_kept,
            keys=self.keys + other.keys,
        )


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
        score = _judge(labelled, extract(labelled.call))
        overall += score
        by_kind[labelled.kind] += score
        by_source[labelled.source] += score
    return ExtractionReport(overall=overall, by_kind=dict(by_kind), by_source=dict(by_source))


def _judge(labelled: LabelledCall, extraction: Extraction | None) -> ExtractionScore:
    if labelled.capture == "maybe":
        return ExtractionScore()
    if labelled.capture == "no":
        return ExtractionScore(wrong=int(extraction is not None))
    if extraction is None:
        return ExtractionScore(missed=1)
    found = sum(key in extraction.text for key in labelled.keys)
    return ExtractionScore(kept=1, keys_kept=found, keys=len(labelled.keys))
