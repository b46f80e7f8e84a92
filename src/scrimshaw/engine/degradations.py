"""What one process cannot do at the moment; a server's threads record it, its answers report it."""

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from msgspec import Struct

from scrimshaw.errors import ScrimshawError, StorageFailure
from scrimshaw.ingest.tables import load_table
from scrimshaw.models import Degradation

# Parts: the index against the files, what the canary finds, the session of a question, the project, who watches files.
INDEX, RECALL, SESSION, PROJECT, WATCHER = "index", "recall", "session", "project", "watcher"

# For each part, in words: the failure, what is used instead, and what that costs.
WORDS = load_table(__file__, "degradations", dict[str, dict[str, str]])
SCAN_PENDING, NO_MEMORY = Degradation(**WORDS["scan"]), Degradation(**WORDS["project"])
REBUILD = "Run `scrimshaw doctor`; `scrimshaw rebuild` makes the index again."


class Lost(Struct, frozen=True, kw_only=True):
    """A question that does not find the ids `missing`; `sentence` says so, `advice` says what to do."""

    query: str = ""
    missing: tuple[str, ...] = ()
    sentence: str
    advice: str = REBUILD


class ProcessDegradations:
    """Degradations by the part that is affected, and the canary's last verdict on each question. Thread-safe."""

    def __init__(self) -> None:
        self._found: dict[str, Degradation] = {}
        #: None for a good answer; replaced as a whole while `guard` is held.
        self.judged: Mapping[str, Lost | None] = {}
        self.guard = threading.Lock()
        self._told: dict[tuple[str, str], float] = {}  # when each session last got each kind of failure

    def put(self, part: str, fault: Degradation | ScrimshawError) -> None:
        """Record that the part does not work from now on."""
        if isinstance(fault, ScrimshawError):
            fault = describe_loss(part, fault.message, fault.hint)
        self._found[part] = fault

    @contextmanager
    def note_failure(self, part: str) -> Iterator[None]:
        """Keep a system error in the block from failing work that is already done; the part is degraded instead."""
        try:
            yield
        except StorageFailure as error:
            self.put(part, error)

    def clear(self, part: str) -> None:
        """Record that the part works again."""
        self._found.pop(part, None)

    def of(self, *parts: str) -> tuple[Degradation, ...]:
        """The degradations of these parts, or of all if none is named; by part."""
        found = self._found.copy()  # atomic, as other threads change it
        return tuple(map(found.__getitem__, sorted(found.keys() & parts if parts else found)))

    def find_news(
        self, session: str, found: Iterable[Degradation], *, now: float, since: float
    ) -> tuple[Degradation, ...]:
        """Those of a kind that the session did not get since then; they are marked as given."""
        news = tuple(each for each in found if self._told.get((session, _kind(each)), -1.0) < since)
        self._told |= {(session, _kind(each)): now for each in news}
        return news


def describe_loss(part: str, message: str, advice: str) -> Degradation:
    """What it means that a part does not work; the message says why, the advice what to do."""
    failure = f"{WORDS[part]['failure_mode']}: {message}"
    return Degradation(**WORDS[part] | {"failure_mode": failure, "retry_recommendation": advice})


def _kind(degradation: Degradation) -> str:
    return degradation.failure_mode.partition(":")[0]  # the rest contains figures that change
