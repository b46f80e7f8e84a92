"""What a server does besides answering: catch up with the files, follow them, run durable jobs."""

import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from scrimshaw.app.hooks.record import record_late_answers
from scrimshaw.app.tracing import send_spans
from scrimshaw.config import load, traces_exporter
from scrimshaw.engine import Engine, canary, checkpoints, drafts, importers, index, open_engine
from scrimshaw.engine.core import EMBED, EMBED_TEAM
from scrimshaw.engine.degradations import INDEX, RECALL, SCAN_PENDING, WATCHER, describe_loss
from scrimshaw.errors import InvalidRequest, PeerFailed, ScrimshawError, StorageFailure, VaultBusy
from scrimshaw.ingest.redact import redact
from scrimshaw.models import DRAFT_JOB, DRAFTS_LOCK, Job, JobState, format_count
from scrimshaw.storage.scan import IGNORED_FOLDERS, SERENA_SETTINGS, SUFFIXES
from scrimshaw.storage.transaction import lock

# Answers wait at most so long in all for the first scan, from the first question on: longer than 1,000 unchanged files
# take. Without an index they would be empty; the longer time is for 1,000 new files on a slow machine.
FIRST_ANSWER_S, FIRST_INDEX_S = 0.5, 5.0
SETTLE_MS = 300  # an editor writes a file in several steps; one scan answers all of them
WATCH_TIMEOUT_MS = 1_000  # after this time a watch is assumed to have begun
POLL_S = 10.0  # between checks of files that the system cannot watch (degradations.toml says so); of 1,000: 20 ms
CANARY_S = 0.2  # how long the first answer waits: less than a person notices, enough for five to twenty questions
AGAIN_S = 300.0  # between checks without a file change

LEASE_S = 60.0  # a worker silent for this long counts as dead
BEAT_S = LEASE_S / 4  # how often a worker renews its lease, however long a step takes
PAUSE_S = 0.5  # how long an idle worker waits before it looks for jobs again
FIRST_RETRY_S, MOST_ATTEMPTS = 5.0, 8
STOPPED = "its worker was stopped"
SYNC = "sync"  # the job that brings the copies at peers up to date
MOST_DRAFTING_S = 120.0  # for drafts made without a server: far longer than one takes

_BUG = "a bug in Scrimshaw stopped it ({}); the log on standard error says where"

_log = logging.getLogger(__name__)


def _run_draft_job(engine: Engine, job: Job, keep_going: index.KeepGoing) -> str:
    """Make a draft, including what the client wrote after the session's last hook; returns why it was rejected."""
    if session := engine.sessions.get(job.key):
        record_late_answers(engine.storage, engine.settings, session)
    if not engine.settings.features.drafts:
        return ""
    outcome = drafts.make_draft(engine, job.key)
    keep_going(1, 1)
    return "\n".join(outcome.reasons)


def _run_sync_job(engine: Engine, _job: Job, keep_going: index.KeepGoing) -> str:
    """Sync the peers; refusals are reported, and a peer that does not answer is tried again."""
    from scrimshaw.router.peer_copies import sync_peer  # noqa: PLC0415 - asyncio, for who has peers

    def refuse(retired: int, total: int) -> None:
        raise InvalidRequest(f"{retired} of {total} copies would be retired.", "Run `scrimshaw sync`, which asks.")

    trouble = ""
    for stated in engine.settings.peers:
        if stated.sync:
            result = sync_peer(engine, stated, advance=keep_going, approve=refuse)
            if result.fault:
                raise PeerFailed(f"{stated.name}: {result.fault}")
            trouble += "".join(f"{stated.name}: {step.name}: {step.reason} " for step in result.failed)
    return trouble.strip()


# In order of urgency: yesterday's session is asked for first, vectors only improve answers.
HANDLERS: Mapping[str, Callable[[Engine, Job, index.KeepGoing], str]] = {
    DRAFT_JOB: _run_draft_job,
    EMBED: index.run_embed_job,
    EMBED_TEAM: index.run_embed_job,
    importers.INGEST: importers.run_ingest_job,
    SYNC: _run_sync_job,
}


class Worker:
    """Runs the jobs of one engine until it is stopped. `run_once` suits a caller with a loop of its own."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._stop = engine, threading.Event()
        # Jobs of an index are for processes that have it open, and a team's server does not handle sessions.
        others = (DRAFT_JOB, EMBED) if engine.team else (EMBED_TEAM,)
        self._kinds = [kind for kind in HANDLERS if kind not in others]

    def run(self) -> None:
        """Work until `stop` is called; while the journal fails, jobs wait and health says so."""
        while not self._stop.is_set():
            is_busy = False
            with self._engine.degradations.note_failure("jobs"):
                is_busy = self.run_once()
                self._engine.degradations.clear("jobs")
            if not is_busy:
                self._stop.wait(PAUSE_S)

    def stop(self) -> None:
        """End `run`; the current job stops at its next report and is queued again."""
        self._stop.set()

    def run_once(self, kinds: Iterable[str] = ()) -> bool:
        """Run one job that is due, of these kinds if any are named; False when there is none."""
        if (job := self._engine.journal.claim([*kinds] or self._kinds, LEASE_S)) is None:
            return False
        gone = JobState.FAILED, f"its worker died {format_count(job.attempts - 1, 'time')}", None
        state, trouble, wait_s = self._run(job) if job.attempts <= MOST_ATTEMPTS else gone
        self._engine.journal.finish(job, state, trouble, retry_in_s=wait_s)
        return True

    def _run(self, job: Job) -> tuple[JobState, str, float | None]:
        """Run a job: its new state, the reason, and when a failed one is due again, later each time."""
        try:
            with self._keep_lease(job) as keep_going:
                trouble = HANDLERS[job.kind](self._engine, job, keep_going)
            return (JobState.QUEUED, STOPPED, None) if self._stop.is_set() else (JobState.DONE, trouble, None)
        except (KeyboardInterrupt, SystemExit):
            self._engine.journal.finish(job, JobState.QUEUED, STOPPED)
            raise
        except Exception as error:  # noqa: BLE001 - a job that fails in a new way must not end the others
            text = str(error) if isinstance(error, ScrimshawError) else f"{type(error).__name__}: {error}"
            trouble = redact(text).text  # it may quote anything, and is stored
            _log.warning("Job %s (%s), attempt %s: %s", job.id, job.kind, job.attempts, trouble)
            if job.attempts >= MOST_ATTEMPTS:
                return JobState.FAILED, trouble, None
            return JobState.QUEUED, trouble, FIRST_RETRY_S * 2 ** (job.attempts - 1)

    @contextmanager
    def _keep_lease(self, job: Job) -> Iterator[index.KeepGoing]:
        """Keep the lease while the block runs, however long a step takes; yields the function that reports progress."""
        progress = [job.done, job.total]
        ended = threading.Event()

        def keep_going(done: int, total: int) -> bool:
            progress[:] = done, total
            return self._engine.journal.renew_lease(job, done, total, LEASE_S) and not self._stop.is_set()

        def beat() -> None:
            while not ended.wait(BEAT_S):
                with suppress(StorageFailure):  # the next beat may get through
                    self._engine.journal.renew_lease(job, progress[0], progress[1], LEASE_S)

        thread = threading.Thread(target=beat, name="job-heartbeat", daemon=True)
        thread.start()
        try:
            yield keep_going
        finally:
            ended.set()
            thread.join()


def make_drafts() -> None:
    """In a process that a session's last hook starts: make the project's pending memories, then its missing vectors."""
    give_up = threading.Timer(MOST_DRAFTING_S, os._exit, (1,))
    give_up.daemon = True
    give_up.start()
    with open_engine(load(Path(sys.argv[1]))) as engine, suppress(VaultBusy):
        run, made = partial(Worker(engine).run_once, (DRAFT_JOB,)), 1
        while made and drafts.queue_drafts(engine):  # again, for a session that ended while the lock was held
            with lock(engine.folder / DRAFTS_LOCK, PAUSE_S):
                index.scan(engine)
                made = sum(1 for _ in iter(run, False))
    make_vectors()


def make_vectors() -> None:
    """In a process that `init` and `import` start: make the project's missing vectors, unless another already does."""
    with open_engine(load(Path(sys.argv[1]))) as engine:
        worker = Worker(engine)
        while worker.run_once((EMBED,)):
            pass


class Background:
    """Threads of a server: one follows the files, one runs jobs, one checks again now and then."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._worker = Worker(engine)
        self._stop, self._fresh = threading.Event(), threading.Event()
        self._first_question, self._opening = 0.0, 0
        self._tested_generation, self._synced_generation = -1, -1
        self._is_new = False  #: whether no file was ever indexed
        parts = {"follow-files": self._follow_files, "run-jobs": self._run_jobs, "look-again": self._look_again}
        if (exporter := traces_exporter()) not in ("", "none", "console"):  # the console is for the protocol
            parts["send-spans"] = partial(self._attempt, "spans", partial(send_spans, engine, exporter, self._stop))
        self._threads = [threading.Thread(target=work, name=name, daemon=True) for name, work in parts.items()]

    def start(self) -> None:
        """Start; returns at once. Until the first scan is done, answers say so."""
        self.engine.degradations.put(INDEX, SCAN_PENDING)
        for thread in self._threads:
            thread.start()

    def wait_until_fresh(self, timeout_s: float) -> bool:
        """Wait at most so long for the first scan; returns whether it is done."""
        self._first_question = self._first_question or time.monotonic()
        return self._fresh.wait(timeout_s)

    def wait_briefly(self) -> None:
        """Wait for the first scan before an answer, but not for long: an old index is better than none."""
        for most_s in (FIRST_ANSWER_S, FIRST_INDEX_S):
            waited_s = time.monotonic() - (self._first_question or time.monotonic())
            if self.wait_until_fresh(most_s - waited_s) or not self._is_new:
                break

    def stop(self) -> None:
        """End the threads; the current job is finished, or released when its lease ends."""
        self._stop.set()
        self._worker.stop()
        for thread in self._threads:
            thread.join(timeout=2.0)

    def _follow_files(self) -> None:
        self._attempt(INDEX, self._scan)
        self._attempt("drafts", self._finish_drafts)
        # The first answer should report lost recall, but only waits for CANARY_S.
        patience = threading.Timer(CANARY_S, self._fresh.set)
        patience.daemon = True
        patience.start()
        self._attempt("canary", self._test_recall)
        patience.cancel()
        self._fresh.set()
        roots = find_outermost_folders(source.root for source in self.engine.sources)
        self._attempt(SYNC, self._request_sync)
        for _ in self._watch(roots) if roots else ():
            self._attempt(INDEX, self._scan)
            self._attempt(SYNC, self._request_sync)
            self._attempt("checkpoint", partial(checkpoints.backup_if_due, self.engine))
            self._attempt("canary", partial(self._test_recall, only_change=True))

    def _watch(self, roots: list[Path]) -> Iterator[None]:
        """Yield soon, for changes before the watch, then for every change; every POLL_S if files cannot be watched."""
        from watchfiles import Change, watch  # noqa: PLC0415 - native and slow to import; start-up has no use for it

        changes_seen = watch(
            *roots,
            stop_event=self._stop,
            debounce=SETTLE_MS,
            step=SETTLE_MS // 2,  # each wakes the process; the default is 20 times a second
            watch_filter=None,  # the default would delay the first turn while other files keep changing
            rust_timeout=WATCH_TIMEOUT_MS,
            yield_on_timeout=True,
        )
        try:
            for number, changes in enumerate(changes_seen):
                is_ours = any(path.lower().endswith((*SUFFIXES, "links.toml", *SERENA_SETTINGS)) for _, path in changes)
                # Of a folder that is new or gone, the system does not name the files.
                is_ours |= any(what != Change.modified and may_be_folder(path) for what, path in changes)
                if is_ours or number == 0 or self._find_opening() != self._opening:
                    yield
        except (OSError, RuntimeError) as error:  # watchfiles' own failures are RuntimeErrors
            _log.warning("The files cannot be watched: %s", error)
            advice = "Raise the system's limit on watched files (fs.inotify), then start the server again."
            self.engine.degradations.put(WATCHER, describe_loss(WATCHER, str(error), advice))
        while not self._stop.wait(POLL_S):
            yield

    def _find_opening(self) -> int:
        """A number that changes when somebody removes the index, so that a new one is opened."""
        with suppress(StorageFailure):  # the next question reports it
            self.engine.index.generation()  # opens the current file
        return self.engine.storage.index_database.openings

    def _scan(self) -> None:
        self._opening = self._find_opening()
        self._is_new = not self.engine.index.generation()
        index.scan(self.engine)
        if self._fresh.is_set():
            with suppress(VaultBusy):  # no question waits for a writer; the next scan tidies up
                index.tidy(self.engine)

    def _finish_drafts(self) -> None:
        """Queue the drafts of sessions that ended or fell silent, and remove those that have expired."""
        drafts.queue_drafts(self.engine)
        drafts.expire_drafts(self.engine)

    def _request_sync(self) -> None:
        """Queue a sync where the settings want one after each change."""
        settings = self.engine.settings
        if settings.router.sync_immediate and any(peer.sync for peer in settings.peers):
            before, self._synced_generation = self._synced_generation, self.engine.index.generation()
            if before != self._synced_generation:
                self.engine.journal.enqueue(SYNC, "", {})

    def _test_recall(self, *, only_change: bool = False) -> None:
        """Ask known questions again; answers then report what is not found."""
        before, self._tested_generation = self._tested_generation, self.engine.index.generation()
        if not only_change or before != self._tested_generation or self.engine.degradations.of(RECALL):
            canary.check(self.engine, by_meaning=False)

    def _look_again(self) -> None:
        """Check again now and then: an index may be damaged without a change of any file."""
        self._fresh.wait()
        while not self._stop.wait(AGAIN_S):
            self._attempt(INDEX, self._scan)
            self._attempt("canary", self._test_recall)
            self._attempt("drafts", self._finish_drafts)

    def _attempt(self, part: str, work: Callable[[], object]) -> None:
        """Do a part of the work; while it fails, health reports it."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - a bug in one part must not end what follows the files in silence
            fault, name = error, type(error).__name__
            if isinstance(fault, ScrimshawError):
                _log.warning("%s: %s", part, fault)
            else:  # its message may quote anything
                _log.error("%s failed with %s\n%s", part, name, "".join(traceback.format_tb(error.__traceback__)))
                fault = ScrimshawError(_BUG.format(name), "Report the bug with what the log says.")
            self.engine.degradations.put(part, fault)
        else:
            self.engine.degradations.clear(part)

    def _run_jobs(self) -> None:
        self._fresh.wait()
        self._attempt("checkpoint", partial(checkpoints.backup_if_due, self.engine))
        self._worker.run()


def may_be_folder(path: str) -> bool:
    """Whether a path that may lead to documents is a folder, or may have been one: most files have a suffix."""
    place = Path(path)
    is_outside = {".git", *IGNORED_FOLDERS}.isdisjoint(place.parts)
    return is_outside and (place.is_dir() or not (place.suffix or place.name.startswith(".")))


def find_outermost_folders(roots: Iterable[Path]) -> list[Path]:
    """The folders that exist, without those that lie inside another."""
    folders = sorted({root.resolve() for root in roots if root.is_dir()})
    return [folder for folder in folders if not any(other in folder.parents for other in folders)]
