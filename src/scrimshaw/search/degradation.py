"""What an answer lacks when a part of the index is damaged: reported, never hidden, never fatal."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from scrimshaw.errors import DamagedDatabase
from scrimshaw.ingest.tables import load_table
from scrimshaw.models import Degradation

# A part of the index, or of the journal, that an answer can do without.
IndexPart = StrEnum("IndexPart", "FULL_TEXT VECTORS TRIGGERS GRAPH EXCERPTS REVIEWS FILES")
# The fallback without each part, and what that costs.
WITHOUT = load_table(__file__, "degradation", dict[str, dict[str, str]])


class Degradations:
    """Collects what one answer could not do, each failure once."""

    def __init__(self) -> None:
        self._found: dict[str, Degradation] = {}

    @contextmanager
    def tolerate(self, part: IndexPart) -> Iterator[None]:
        """Leave the block and note it if `part` is damaged; a busy index or a failing disk still raises."""
        try:
            yield
        except DamagedDatabase as error:
            failure = f"{part}_damaged: {error.message}"
            self.note(Degradation(failure_mode=failure, retry_recommendation=error.hint, **WITHOUT[part]))

    def note(self, degradation: Degradation) -> None:
        """Add what could not be done."""
        self._found.setdefault(degradation.failure_mode, degradation)

    def as_tuple(self) -> tuple[Degradation, ...]:
        """All of them, in order."""
        return tuple(self._found.values())
