"""What a server does besides answering: catch up with the files, follow them, run jobs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from pathlib import Path

from scrimshaw.app.worker import Worker
from scrimshaw.engine import Engine, indexing
from scrimshaw.errors import ScrimshawError

# Start-up belongs to the client: catching up waits for its first question, or this long.
START_AFTER_S = 1.5
# An editor writes a file in several steps; one scan answers all of them.
SETTLE_MS = 300

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
        self._fresh.set()
        from watchfiles import watch  # noqa: PLC0415 - native and slow to import; start-up has no use for it

        roots = existing(source.root for source in self._engine.sources)
        if not roots:
            return
        for _ in watch(*roots, stop_event=self._stop, debounce=SETTLE_MS, watch_filter=_is_markdown, recursive=True):
            self._scan()

    def _scan(self) -> None:
        try:
            indexing.tidy(self._engine)
            indexing.scan(self._engine)
        except ScrimshawError as error:
            _log.warning("The files could not be scanned: %s", error)

    def _work(self) -> None:
        self._fresh.wait()
        self._worker.run()


def existing(roots: Iterable[Path]) -> list[Path]:
    """The folders that exist, without those that lie inside another."""
    found = sorted({root.resolve() for root in roots if root.is_dir()})
    return [root for root in found if not any(other in root.parents for other in found)]


def _is_markdown(_change: object, path: str) -> bool:
    return path.endswith((".md", "links.toml"))
