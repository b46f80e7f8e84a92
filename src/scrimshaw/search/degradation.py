"""What an answer does without when a part of the index is damaged: reported, never hidden, never fatal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from scrimshaw.errors import DamagedDatabase
from scrimshaw.ingest.tables import load_table
from scrimshaw.models import Degradation


class IndexPart(StrEnum):
    """A part of the index, or of the journal, that an answer can do without."""

    TEXT = "full_text"
    VECTORS = "vectors"
    TRIGGERS = "triggers"
    GRAPH = "graph"
    EXCERPTS = "excerpts"
    REVIEWS = "reviews"
    FILES = "files"


WITHOUT = load_table(__file__, "degradation", dict[str, dict[str, str]])


class Degradations:
    """Collects what one answer could not do, each failure once."""

    def __init__(self) -> None:
        self._found: dict[str, Degradation] = {}

    @contextmanager
    def tolerate(self, part: IndexPart) -> Iterator[None]:
        """Leave the block and note it where `part` is damaged; an index that is busy or without a disk still raises."""
        try:
            yield
        except DamagedDatabase as error:
            self.note(
                Degradation(
                    failure_mode=f"{part}_damaged: {error.message}",
                    fallback_mode=WITHOUT[part]["fallback"],
                    confidence_impact=WITHOUT[part]["impact"],
                    retry_recommendation=error.hint,
                )
            )

    def note(self, degradation: Degradation) -> None:
        """Add what could not be done."""
        self._found.setdefault(degradation.failure_mode, degradation)

    def as_tuple(self) -> tuple[Degradation, ...]:
        """All of it, in the order met."""
        return tuple(self._found.values())
