"""Recording the stages of a search as they happen."""

from __future__ import annotations

import time

from scrimshaw.models import Stage
from scrimshaw.search.results import StageTrace


class TraceRecorder:
    """Collects stages; the time of a stage is what passed since the one before."""

    def __init__(self) -> None:
        self._last = time.perf_counter()
        self._stages: list[StageTrace] = []

    def note(self, stage: Stage, entered: int, left: int, **notes: object) -> None:
        """A stage ended: so many memories entered it and left it."""
        now = time.perf_counter()
        ms = round((now - self._last) * 1000, 3)
        self._stages.append(StageTrace(stage=stage, entered=entered, left=left, ms=ms, notes=notes))
        self._last = now

    def stages(self) -> tuple[StageTrace, ...]:
        """The stages so far, in order."""
        return tuple(self._stages)
