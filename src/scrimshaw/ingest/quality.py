"""The quality gate: whether a memory file tells enough to be found and believed later (REQ-018 to REQ-023)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from scrimshaw.ingest import contamination, sheet
from scrimshaw.ingest.memory_file import MemoryFile
from scrimshaw.ingest.quality_rules import RULES, Case, Defect

ACCEPTED = 0.65  # score from which a file is accepted; one with a defect that rejects does not reach it
_REJECTED_MOST = 0.60
_BEARABLE = 0.08
_SLIGHT, _GRAVE = 0.08, 0.16
# Defects that leave little to believe, where the others leave a file that can be mended.
_GRAVE_FLAGS = frozenset({"foreign_references", "has_contamination", "has_fallback_decision", "mostly_boilerplate"})


class Verdict(Struct, frozen=True):
    """What the gate says of a file: a score (0..1), the defects by name, and for each a sentence to act on.

    A file without defects scores 1. Each defect that can be borne takes 0.08 off, never below 0.65. A file with defects
    that cannot be borne scores 0.60 less 0.16 for each that leaves little to believe and 0.08 for each other one.
    """

    score: float
    flags: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()

    @property
    def accepted(self) -> bool:
        """Whether the file may become a memory."""
        return self.score >= ACCEPTED


def judge(
    file: MemoryFile,
    *,
    tool_calls: int | None = None,
    phrases: Sequence[str] = contamination.DEFAULT,
) -> Verdict:
    """The verdict on a whole Markdown file of any shape, with or without front matter; never raises.

    `tool_calls` is how many its session made, None if that is not known or the file is no record of a session.
    `phrases` is how sentences of chatter begin.
    """
    case = Case(sheet.read(file), tool_calls, phrases)
    defects = [defect for rule in RULES for defect in rule(case)]
    defects.sort(key=lambda defect: not defect.rejects)
    flags = tuple(dict.fromkeys(defect.flag for defect in defects))
    return Verdict(_score(defects), flags, tuple(map(_reason, defects)))


def _score(defects: Sequence[Defect]) -> float:
    rejecting = [_GRAVE if defect.flag in _GRAVE_FLAGS else _SLIGHT for defect in defects if defect.rejects]
    if rejecting:
        return round(max(0.0, _REJECTED_MOST - sum(rejecting)), 2)
    return round(max(ACCEPTED, 1.0 - _BEARABLE * len(defects)), 2)


def _reason(defect: Defect) -> str:
    return f"Quality gate failed: {defect.reason}" if defect.rejects else defect.reason
