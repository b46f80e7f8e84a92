"""What a server does besides answering: catch up with the files, follow them, run jobs."""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from scrimshaw.app.worker import Worker
from scrimshaw.engine import Engine, canary, checkpoints, drafts, index
from scrimshaw.engine.degradations import INDEX, RECALL, WATCHER, index_behind
from scrimshaw.errors import ScrimshawError
from scrimshaw.models import Degradation

# Start-up belongs to the client: catching up waits for its first question, or this long.
START_AFTER_S = 1.5
# An editor writes a file in several steps; one scan answers all of them.
SETTLE_MS = 300
# How soon after its begin a watch is trusted to have begun.
LOOK_MS = 1_000
# How often the files are looked at where the system will not watch them; a look at 1,000 files takes some 20 ms.
POLL_S = 10.0
# What the canary may take of the first answer's time: less than a person notices, enough for five to twenty questions.
CANARY_S = 0.2
# How often everything is looked at although no file changed, and how long nobody has asked anything by then.
AGAIN_S, IDLE_S = 300.0, 2.0

_BUG = "a bug in Scrimshaw stopped it ({}); the log on standard error says where"
_REPORT = "Report the bug with what the log says."

_log = logging.getLogger(__name__)


class Background:
    """Threads beside a server: one that follows the files, one that runs jobs, one that looks again now and then."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._worker = Worker(engine)
        self._stop = threading.Event()
        self._fresh = threading.Event()
        self._asked = threading.Event()
        self._last_question, self._tested = 0.0, -1
        self._threads = (
            threading.Thread(target=self._follow, name="follow-files", daemon=True),
            threading.Thread(target=self._work, name="run-jobs", daemon=True),
            threading.Thread(target=self._look_again, name="look-again", daemon=True),
        )

    def start(self) -> None:
        """Begin; returns at once."""
        for thread in self._threads:
            thread.start()

    def wait_until_fresh(self, timeout_s: float) -> bool:
        """Whether the first scan is done, after waiting for it at most so long; a question makes it start at once."""
        self._last_question = time.monotonic()
        self._asked.set()
        return self._fresh.wait(timeout_s)

    def stop(self) -> None:
        """End the threads; a job at hand is finished or given back by its lease."""
        self._stop.set()
        self._asked.set()
        self._worker.stop()
        for thread in self._threads:
            thread.join(timeout=2.0)

    def _follow(self) -> None:
        self._asked.wait(START_AFTER_S)
        self._scan()
        self._settle()
        self._test_before_the_first_answer()
        roots = existing(source.root for source in self._engine.sources)
        for _ in self._changes(roots) if roots else ():
            self._scan()
            self._back_up()
            self._attempt("canary", self._test_what_changed, untested)

    def _changes(self, roots: list[Path]) -> Iterator[None]:
        """A turn soon after the watch began, for what changed before it did, and one for every change.

        Where the system will not watch the files, there is one every POLL_S.
        """
        from watchfiles import watch  # noqa: PLC0415 - native and slow to import; start-up has no use for it

        watched = watch(
            *roots,
            stop_event=self._stop,
            debounce=SETTLE_MS,
            watch_filter=_is_markdown,
            rust_timeout=LOOK_MS,
            yield_on_timeout=True,
        )
        try:
            is_first = True
            for changes in watched:
                if changes or is_first:
                    yield
                is_first = False
        except (OSError, RuntimeError) as error:  # watchfiles' own failures are RuntimeErrors
            _log.warning("The files cannot be watched: %s", error)
            self._engine.degradations.put(WATCHER, polling(error))
        while not self._stop.wait(POLL_S):
            yield

    def _scan(self) -> None:
        self._attempt(INDEX, self._read_files, index_behind)

    def _read_files(self) -> None:
        index.tidy(self._engine)
        if mended := index.scan(self._engine).mended:
            _log.warning("The index had lost %s memories; their files were read again.", mended)

    def _settle(self) -> None:
        """What earlier sessions left to do: drafts nobody was there to make, and what has expired."""
        self._attempt("drafts", self._leave_nothing, undrafted)

    def _leave_nothing(self) -> None:
        drafts.queue_drafts(self._engine)
        drafts.expire_drafts(self._engine)

    def _back_up(self) -> None:
        """The checkpoint of the day, unless there is one."""
        self._attempt("checkpoint", lambda: checkpoints.backup_if_due(self._engine), unsaved)

    def _test_before_the_first_answer(self) -> None:
        """Test recall, so that the first answer can say what is lost; it waits for CANARY_S and no longer."""
        patience = threading.Timer(CANARY_S, self._fresh.set)
        patience.daemon = True
        patience.start()
        self._attempt("canary", self._test_recall, untested)
        patience.cancel()
        self._fresh.set()

    def _test_recall(self) -> None:
        """Whether known questions still bring their answers; what they lost is said with every answer."""
        self._tested = self._engine.index.generation()
        canary.check(self._engine, budget_s=CANARY_S)

    def _test_what_changed(self) -> None:
        """Test recall anew where the index is another by now, or something was lost."""
        if self._engine.degradations.of(RECALL) or self._tested != self._engine.index.generation():
            self._test_recall()

    def _look_again(self) -> None:
        """Now and then, while nobody asks: an index may be spoiled without a change of any file."""
        self._fresh.wait()
        wait = AGAIN_S
        while not self._stop.wait(wait):
            if time.monotonic() - self._last_question < IDLE_S:
                wait = IDLE_S
                continue
            self._scan()
            self._attempt("canary", self._test_recall, untested)
            wait = AGAIN_S

    def _attempt(self, part: str, work: Callable[[], object], meaning: Callable[[ScrimshawError], Degradation]) -> None:
        """Do a part of the work; while it fails, health says so."""
        try:
            work()
        except ScrimshawError as error:
            _log.warning("%s: %s", part, error)
            self._engine.degradations.put(part, meaning(error))
        except Exception as error:  # noqa: BLE001 - a bug in one part must not end what follows the files in silence
            frames = "".join(traceback.format_tb(error.__traceback__))  # its text may quote anything
            _log.error("%s failed with %s\n%s", part, type(error).__name__, frames)
            self._engine.degradations.put(part, meaning(ScrimshawError(_BUG.format(type(error).__name__), _REPORT)))
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
