"""What one process cannot do at the moment; a server's threads set it, its answers say it."""

from __future__ import annotations

import threading

from scrimshaw.errors import ScrimshawError
from scrimshaw.models import Degradation

# Parts: the index against the files, what the canary finds, the session of a question, who watches the files.
INDEX, RECALL, SESSION, WATCHER = "index", "recall", "session", "watcher"


class Degradations:
    """Degradations by the part that is affected. Safe to use from several threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._found: dict[str, Degradation] = {}

    def put(self, part: str, degradation: Degradation) -> None:
        """From now on the part cannot do what it should."""
        with self._guard:
            self._found[part] = degradation

    def clear(self, part: str) -> None:
        """The part works again."""
        with self._guard:
            self._found.pop(part, None)

    def of(self, *parts: str) -> tuple[Degradation, ...]:
        """What is the matter with these parts, or with all where none is named; by part."""
        with self._guard:
            return tuple(self._found[part] for part in sorted(self._found) if not parts or part in parts)


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
