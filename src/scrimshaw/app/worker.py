"""Runs durable jobs: claim, run, finish or try again later."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

from scrimshaw.engine import Engine, drafts, importing, index
from scrimshaw.errors import ScrimshawError, StorageFailure
from scrimshaw.ingest.redact import redact
from scrimshaw.models import DRAFT_JOB, Degradation, Job, JobState

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
    importing.INGEST: importing.run_ingest_job,
}


@dataclass
class _Progress:
    """How far a job said it is."""

    done: int
    total: int


class Worker:
    """Runs the jobs of one engine until it is stopped. `run_once` suits a caller with a loop of its own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._stop = threading.Event()

    def run(self) -> None:
        """Work until `stop` is called."""
        while not self._stop.is_set():
            if not self._worked():
                self._stop.wait(IDLE_S)

    def _worked(self) -> bool:
        """Run one job; while the journal refuses, jobs wait and health says so."""
        try:
            worked = self.run_once()
        except StorageFailure as error:
            self._engine.degradations.put("jobs", waiting(error))
            return False
        self._engine.degradations.clear("jobs")
        return worked

    def stop(self) -> None:
        """End `run`; the job at hand stops at its next report and is queued again."""
        self._stop.set()

    def run_once(self) -> bool:
        """Run one job that is due; False when there is none."""
        claims = (self._engine.journal.claim((kind,), LEASE_S) for kind in HANDLERS)
        job = next((claimed for claimed in claims if claimed), None)
        if job is None:
            return False
        if job.attempts > MOST_ATTEMPTS:
            self._engine.journal.finish(job, JobState.FAILED, f"its worker died {job.attempts - 1} times")
        else:
            self._run(job)
        return True

    def _run(self, job: Job) -> None:
        told = _Progress(job.done, job.total)
        try:
            with self._beating(job, told):
                trouble = HANDLERS[job.kind](self._engine, job, partial(self._keep_going, job, told))
        except (KeyboardInterrupt, SystemExit):
            self._engine.journal.release(job, STOPPED)
            raise
        except ScrimshawError as error:
            self._give_back(job, str(error))
        except Exception as error:  # noqa: BLE001 - a job that fails in a new way must not end the others
            self._give_back(job, f"{type(error).__name__}: {error}")
        else:
            self._finish(job, trouble)

    def _keep_going(self, job: Job, told: _Progress, done: int, total: int) -> bool:
        """Report progress; whether the job is still ours and wanted."""
        told.done, told.total = done, total
        return self._engine.journal.heartbeat(job, done, total, LEASE_S) and not self._stop.is_set()

    @contextmanager
    def _beating(self, job: Job, told: _Progress) -> Iterator[None]:
        """Keep the lease while the block runs, however long one step of it takes."""
        ended = threading.Event()

        def beat() -> None:
            while not ended.wait(BEAT_S):
                with suppress(StorageFailure):  # the next beat may get through
                    self._engine.journal.heartbeat(job, told.done, told.total, LEASE_S)

        beating = threading.Thread(target=beat, name="job-heartbeat", daemon=True)
        beating.start()
        try:
            yield
        finally:
            ended.set()
            beating.join()

    def _finish(self, job: Job, trouble: str) -> None:
        if self._stop.is_set():
            self._engine.journal.release(job, STOPPED)
        else:
            self._engine.journal.finish(job, JobState.DONE, trouble)

    def _give_back(self, job: Job, trouble: str) -> None:
        """Queue a failed job again, later each time; after the last attempt it is kept as failed."""
        trouble = redact(trouble).text  # it may quote anything, and is written down
        _log.warning("Job %s (%s), attempt %s: %s", job.id, job.kind, job.attempts, trouble)
        if job.attempts >= MOST_ATTEMPTS:
            self._engine.journal.finish(job, JobState.FAILED, trouble)
        else:
            wait = FIRST_RETRY_S * 2 ** (job.attempts - 1)
            self._engine.journal.finish(job, JobState.QUEUED, trouble, retry_in_s=wait)


def waiting(error: StorageFailure) -> Degradation:
    """What it means that no job can be taken."""
    return Degradation(
        failure_mode=f"jobs_waiting: {error.message}",
        fallback_mode="jobs stay queued and are taken up when the journal allows it",
        confidence_impact="new memories are found by words and not yet by meaning",
        retry_recommendation=error.hint,
    )
