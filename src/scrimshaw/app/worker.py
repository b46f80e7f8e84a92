"""Runs durable jobs: claim, run, finish or try again later."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from scrimshaw.engine import Engine, drafts, importers, index
from scrimshaw.errors import ScrimshawError, StorageFailure
from scrimshaw.ingest.redact import redact
from scrimshaw.models import DRAFT_JOB, Job, JobState

# A worker that says nothing for this long is taken for dead.
LEASE_S = 60.0
# So often a worker says that it lives, whatever the work at hand takes.
BEAT_S = LEASE_S / 4
IDLE_S = 0.5
FIRST_RETRY_S, MOST_ATTEMPTS = 5.0, 8
STOPPED = "its worker was stopped"

_log = logging.getLogger(__name__)

Handler = Callable[[Engine, Job, index.KeepGoing], str]

# In the order of urgency: what was said yesterday is asked for first, vectors only make the answers better.
HANDLERS: Mapping[str, Handler] = {
    DRAFT_JOB: drafts.run_draft_job,
    index.EMBED: index.run_embed_job,
    importers.INGEST: importers.run_ingest_job,
}


class Worker:
    """Runs the jobs of one engine until it is stopped. `run_once` suits a caller with a loop of its own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stop = threading.Event()

    def run(self) -> None:
        """Work until `stop` is called; while the journal refuses, jobs wait and health says so."""
        while not self._stop.is_set():
            try:
                is_idle = not self.run_once()
            except StorageFailure as error:
                self._engine.degradations.put("jobs", error)
                is_idle = True
            else:
                self._engine.degradations.clear("jobs")
            if is_idle:
                self._stop.wait(IDLE_S)

    def stop(self) -> None:
        """End `run`; the job at hand stops at its next report and is queued again."""
        self._stop.set()

    def run_once(self) -> bool:
        """Run one job that is due; False when there is none."""
        claims = (self._engine.journal.claim((kind,), LEASE_S) for kind in HANDLERS)
        job = next((job for job in claims if job), None)
        if job is None:
            return False
        if job.attempts > MOST_ATTEMPTS:
            self._engine.journal.finish(job, JobState.FAILED, f"its worker died {job.attempts - 1} times")
        else:
            self._run(job)
        return True

    def _run(self, job: Job) -> None:
        """Run a job; one that fails is queued again, later each time, and after the last attempt kept as failed."""
        state, wait_s = JobState.DONE, None
        try:
            with self._keep_lease(job) as keep_going:
                trouble = HANDLERS[job.kind](self._engine, job, keep_going)
            if self._stop.is_set():
                state, trouble = JobState.QUEUED, STOPPED
        except (KeyboardInterrupt, SystemExit):
            self._engine.journal.finish(job, JobState.QUEUED, STOPPED)
            raise
        except Exception as error:  # noqa: BLE001 - a job that fails in a new way must not end the others
            text = str(error) if isinstance(error, ScrimshawError) else f"{type(error).__name__}: {error}"
            trouble = redact(text).text  # it may quote anything, and is written down
            _log.warning("Job %s (%s), attempt %s: %s", job.id, job.kind, job.attempts, trouble)
            is_last = job.attempts >= MOST_ATTEMPTS
            state = JobState.FAILED if is_last else JobState.QUEUED
            wait_s = None if is_last else FIRST_RETRY_S * 2 ** (job.attempts - 1)
        self._engine.journal.finish(job, state, trouble, retry_in_s=wait_s)

    @contextmanager
    def _keep_lease(self, job: Job) -> Iterator[index.KeepGoing]:
        """Keep the lease while the block runs, however long one step of it takes; gives what reports its progress."""
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
