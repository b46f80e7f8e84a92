"""What an answer does without when a part of the index is damaged: reported, never hidden, never fatal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from types import MappingProxyType

from scrimshaw.errors import DamagedDatabase
from scrimshaw.models import Degradation


class Part(StrEnum):
    """A part of the index, or of the journal, that an answer can do without."""

    TEXT = "full_text"
    VECTORS = "vectors"
    TRIGGERS = "triggers"
    GRAPH = "graph"
    EXCERPTS = "excerpts"
    REVIEWS = "reviews"
    FILES = "files"


WITHOUT_VECTORS = ("keyword search", "memories that say the same in other words are missed")
# Part -> what is done instead, and what that means for the answer.
_WITHOUT: Mapping[Part, tuple[str, str]] = MappingProxyType(
    {
        Part.TEXT: (
            "search by meaning and by trigger phrases",
            "memories that merely share words with the query are missed",
        ),
        Part.VECTORS: WITHOUT_VECTORS,
        Part.TRIGGERS: (
            "search by words and by meaning",
            "memories whose trigger phrases stand in the query may rank lower or be missed",
        ),
        Part.GRAPH: (
            "hits without their neighbours; whatever may be derived from elsewhere is trusted least",
            "related memories are missed, and constitutional memories are hits like others",
        ),
        Part.EXCERPTS: ("hits without an excerpt", "none on which memories are found; read them with memory_get"),
        Part.FILES: ("counts without the files passed over", "which files are no memory is not known"),
        Part.REVIEWS: ("no memory counts as reviewed", "what proved useful or faded is ranked like the rest"),
    }
)


class Degradations:
    """Collects what one answer could not do, each failure once."""

    def __init__(self) -> None:
        self._found: dict[str, Degradation] = {}

    @contextmanager
    def tolerate(self, part: Part) -> Iterator[None]:
        """Leave the block and note it where `part` is damaged.

        An index that cannot be used at all (busy, no permission, no disk) still raises, since every part would fail.
        """
        try:
            yield
        except DamagedDatabase as error:
            fallback, impact = _WITHOUT[part]
            self.note(
                Degradation(
                    failure_mode=f"{part}_damaged: {error.message}",
                    fallback_mode=fallback,
                    confidence_impact=impact,
                    retry_recommendation=error.hint,
                )
            )

    def note(self, degradation: Degradation) -> None:
        """Add what could not be done."""
        self._found.setdefault(degradation.failure_mode, degradation)

    def as_tuple(self) -> tuple[Degradation, ...]:
        """All of it, in the order met."""
        return tuple(self._found.values())
