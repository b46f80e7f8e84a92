"""What a server does besides answering: catch up with the files, follow them, run jobs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from scrimshaw.app.worker import Worker
from scrimshaw.engine import Engine, canary, checkpoints, drafts, indexing
from scrimshaw.engine.degradations import INDEX, RECALL, WATCHER, index_behind
from scrimshaw.errors import ScrimshawError
from scrimshaw.models import Degradation

# Start-up belongs to the client: catching up waits for its first question, or this long.
START_AFTER_S = 1.5
# An editor writes a file in several steps; one scan answers all of them.
SETTLE_MS = 300
# How often the files are looked at where the system will not watch them; a look at 1,000 files takes some 20 ms.
POLL_S = 10.0
# Processor time of the canary when a server starts: less than a person notices, enough for a hundred questions.
CANARY_S = 0.2

_log = logging.getLogger(__name__)


class Background:
    """Threads beside a server: one that follows the files, one that runs jobs."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._worker = Worker(engine)
        self._stop = threading.Event()
        self._fresh = threading.Event()
        self._asked = threading.Event()
        self._threads = (
            threading.Thread(target=self._follow, name="follow-files", daemon=True),
            threading.Thread(target=self._work, name="run-jobs", daemon=True),
        )

    def start(self) -> None:
        """Begin; returns at once."""
        for thread in self._threads:
            thread.start()

    def wait_until_fresh(self, timeout_s: float) -> bool:
        """Whether the first scan is done, after waiting for it at most so long; a question makes it start at once."""
        self._asked.set()
        return self._fresh.wait(timeout_s)

    def stop(self) -> None:
        """End both threads; a job at hand is finished or given back by its lease."""
        self._stop.set()
        self._asked.set()
        self._worker.stop()
        for thread in self._threads:
            thread.join(timeout=2.0)

    def _follow(self) -> None:
        self._asked.wait(START_AFTER_S)
        self._scan()
        self._settle()
        self._fresh.set()
        self._test_recall()
        roots = existing(source.root for source in self._engine.sources)
        for _ in self._changes(roots) if roots else ():
            self._scan()
            self._back_up()
            if self._engine.degradations.of(RECALL):
                self._test_recall()

    def _changes(self, roots: list[Path]) -> Iterator[None]:
        """A turn for every change or, where the system will not watch the files, one every POLL_S."""
        from watchfiles import watch  # noqa: PLC0415 - native and slow to import; start-up has no use for it

        watched = watch(*roots, stop_event=self._stop, debounce=SETTLE_MS, watch_filter=_is_markdown, recursive=True)
        try:
            for _ in watched:
                yield
        except (OSError, RuntimeError) as error:  # watchfiles' own failures are RuntimeErrors
            _log.warning("The files cannot be watched: %s", error)
            self._engine.degradations.put(WATCHER, polling(error))
        while not self._stop.wait(POLL_S):
            yield

    def _scan(self) -> None:
        self._attempt(INDEX, self._read_files, index_behind)

    def _read_files(self) -> None:
        indexing.tidy(self._engine)
        indexing.scan(self._engine)

    def _settle(self) -> None:
        """What earlier sessions left to do: drafts nobody was there to make, and what has expired."""
        self._attempt("drafts", self._leave_nothing, undrafted)

    def _leave_nothing(self) -> None:
        drafts.queue_drafts(self._engine)
        drafts.expire(self._engine)

    def _back_up(self) -> None:
        """The checkpoint of the day, unless there is one."""
        self._attempt("checkpoint", lambda: checkpoints.backup_if_due(self._engine), unsaved)

    def _test_recall(self) -> None:
        """Whether known questions still bring their answers; what they lost is said with every answer."""
        self._attempt("canary", lambda: canary.check(self._engine, budget_s=CANARY_S), untested)

    def _attempt(self, part: str, work: Callable[[], object], meaning: Callable[[ScrimshawError], Degradation]) -> None:
        """Do a part of the work; while it fails, health says so."""
        try:
            work()
        except ScrimshawError as error:
            _log.warning("%s: %s", part, error)
            self._engine.degradations.put(part, meaning(error))
        else:
            self._engine.degradations.clear(part)

    def _work(self) -> None:
        self._fresh.wait()
        self._back_up()
        self._worker.run()


def existing(roots: Iterable[Path]) -> list[Path]:
    """The folders that exist, without those that lie inside another."""
    found = sorted({root.resolve() for root in roots if root.is_dir()})
    return [root for root in found if not any(other in root.parents for other in found)]


def polling(error: Exception) -> Degradation:
    """What it means that the system will not watch the files."""
    return Degradation(
        failure_mode=f"watcher_off: {error}",
        fallback_mode=f"the files are looked at every {POLL_S:g} s",
        confidence_impact="a change by hand is found that much later",
        retry_recommendation="Raise the system's limit on watched files (fs.inotify), then start the server again.",
    )


def undrafted(error: ScrimshawError) -> Degradation:
    """What it means that earlier sessions were not settled."""
    return Degradation(
        failure_mode=f"drafts_failed: {error.message}",
        fallback_mode="sessions stay recorded, without a draft",
        confidence_impact="what earlier sessions decided may not be found",
        retry_recommendation=error.hint,
    )


def untested(error: ScrimshawError) -> Degradation:
    """What it means that recall was not tested."""
    return Degradation(
        failure_mode=f"canary_failed: {error.message}",
        fallback_mode="none",
        confidence_impact="nobody has looked whether known questions bring their answers",
        retry_recommendation=error.hint,
    )


def unsaved(error: ScrimshawError) -> Degradation:
    """What it means that the checkpoint of the day could not be made."""
    return Degradation(
        failure_mode=f"checkpoint_failed: {error.message}",
        fallback_mode="older checkpoints",
        confidence_impact="none on what is found; a restore goes back further",
        retry_recommendation=error.hint,
    )


def _is_markdown(_change: object, path: str) -> bool:
    return path.endswith((".md", "links.toml"))
