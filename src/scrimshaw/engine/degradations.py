"""What one process cannot do at the moment; a server's threads set it, its answers say it."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from msgspec import Struct

from scrimshaw.errors import ScrimshawError
from scrimshaw.models import Degradation

# Parts: the index against the files, what the canary finds, the session of a question, who watches the files.
INDEX, RECALL, SESSION, WATCHER = "index", "recall", "session", "watcher"

REBUILD = "Run `scrimshaw doctor`; `scrimshaw rebuild` makes the index again."


class Lost(Struct, frozen=True, kw_only=True):
    """A question that does not bring the ids `missing`; `sentence` says it in words, `advice` what to do."""

    query: str = ""
    missing: tuple[str, ...] = ()
    sentence: str
    advice: str = REBUILD


class ProcessDegradations:
    """Degradations by the part that is affected, and the canary's last verdict on each question. Thread-safe."""

    def __init__(self) -> None:
        self._found: dict[str, Degradation] = {}
        #: None for a good answer, oldest verdict first; replaced as a whole while `guard` is held.
        self.judged: Mapping[str, Lost | None] = {}
        self.guard = threading.Lock()

    def put(self, part: str, degradation: Degradation) -> None:
        """From now on the part cannot do what it should."""
        self._found[part] = degradation

    def clear(self, part: str) -> None:
        """The part works again."""
        self._found.pop(part, None)

    def of(self, *parts: str) -> tuple[Degradation, ...]:
        """What is the matter with these parts, or with all where none is named; by part."""
        found = self._found.copy()  # atomic, as other threads change it
        return tuple(map(found.__getitem__, sorted(found.keys() & parts if parts else found)))


def index_behind(error: ScrimshawError) -> Degradation:
    """What it means that the index could not take what the files hold."""
    return Degradation(
        failure_mode=f"index_behind: {error.message}",
        fallback_mode="the files and the ledger have it, the index does not",
        confidence_impact="what changed in the files since is not found",
        retry_recommendation=error.hint,
    )


def without_session(error: ScrimshawError) -> Degradation:
    """What it means that a question could not be counted to its session."""
    return Degradation(
        failure_mode=f"session_off: {error.message}",
        fallback_mode="the question is answered as if it belonged to no session",
        confidence_impact="nothing is lifted by what the session works with, and hits may be shown again",
        retry_recommendation=error.hint,
    )
