"""Durable work by hand: seen, cancelled, tried again, run; and one bad job never stops the others."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import OpenMemory
from tests.samples import SECRET

from scrimshaw.app import background
from scrimshaw.app.background import MOST_ATTEMPTS, Worker
from scrimshaw.app.cli.main import main
from scrimshaw.engine import Engine
from scrimshaw.models import DRAFT_JOB, Job, JobState


@pytest.fixture
def engine(open_memory: OpenMemory) -> Engine:
    return open_memory()


def run(project: Path, *arguments: str) -> int:
    return main([*arguments, "--project", str(project)])


def state(engine: Engine, job: int) -> JobState:
    (found,) = engine.journal.jobs(number=job)
    return found.state


def test_a_job_is_listed_cancelled_and_tried_again(
    engine: Engine, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = engine.journal.enqueue(DRAFT_JOB, "nobody", {})
    assert run(project, "jobs", "list", "--json") == 0
    assert [each["id"] for each in json.loads(capsys.readouterr().out)] == [job]
    assert run(project, "jobs", "retry", str(job)) == 1
    assert run(project, "jobs", "cancel", str(job)) == 0
    assert state(engine, job) == JobState.CANCELLED
    assert run(project, "jobs", "cancel", str(job)) == 1
    assert run(project, "jobs", "retry", str(job)) == 0
    assert state(engine, job) == JobState.QUEUED


def test_a_worker_runs_what_is_due(engine: Engine, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    engine.journal.enqueue(DRAFT_JOB, "nobody", {})
    assert run(project, "jobs", "run", "--once", "--json") == 0
    assert json.loads(capsys.readouterr().out)["jobs"] >= 1
    (job,) = engine.journal.jobs((JobState.QUEUED,))
    assert "nobody" in job.error


def test_a_worker_that_is_stopped_gives_its_job_back(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(_engine: Engine, _job: Job, keep_going: Callable[[int, int], bool]) -> str:
        working.stop()
        assert not keep_going(2, 5)
        return ""

    monkeypatch.setattr(background, "HANDLERS", {"test": stopped})
    working = Worker(engine)
    number = engine.journal.enqueue("test", "", {})
    assert working.run_once()
    (found,) = engine.journal.jobs(number=number)
    assert (found.state, found.attempts, found.done, found.total) == (JobState.QUEUED, 0, 2, 5)


def test_a_worker_that_is_interrupted_gives_its_job_back(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(background, "HANDLERS", {"test": interrupted})
    number = engine.journal.enqueue("test", "", {})
    with pytest.raises(KeyboardInterrupt):
        Worker(engine).run_once()
    assert state(engine, number) == JobState.QUEUED


def test_one_long_step_does_not_lose_the_lease(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "BEAT_S", 0.05)
    beats = threading.Semaphore(0)
    heartbeat = type(engine.journal).renew_lease

    def counted(*arguments: Any, **options: Any) -> bool:
        kept = heartbeat(*arguments, **options)
        beats.release()
        return kept

    def long(*_: object) -> str:
        assert all(beats.acquire(timeout=60) for _ in range(3))
        return ""

    monkeypatch.setattr(type(engine.journal), "renew_lease", counted)
    monkeypatch.setattr(background, "HANDLERS", {"test": long})
    number = engine.journal.enqueue("test", "", {})
    assert Worker(engine).run_once()
    assert state(engine, number) == JobState.DONE


def test_a_retry_says_when_the_same_work_waits(
    engine: Engine, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = engine.journal.enqueue(DRAFT_JOB, "nobody", {})
    assert engine.journal.change_job(first, JobState.CANCELLED)
    engine.journal.enqueue(DRAFT_JOB, "nobody", {})
    assert run(project, "jobs", "retry", str(first)) == 1
    assert "is queued already" in capsys.readouterr().err


def test_a_job_that_fails_in_a_new_way_is_given_back(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> str:
        raise OSError("the disk is gone")

    monkeypatch.setattr(background, "HANDLERS", {"test": breaks})
    job = engine.journal.enqueue("test", "", {})
    assert Worker(engine).run_once()
    (found,) = engine.journal.jobs(number=job)
    assert (found.state, found.error) == (JobState.QUEUED, "OSError: the disk is gone")


def test_a_job_whose_workers_keep_dying_is_given_up(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "HANDLERS", {"test": lambda *_: pytest.fail("it must not run once more")})
    job = engine.journal.enqueue("test", "", {})
    for _ in range(MOST_ATTEMPTS):
        assert engine.journal.claim(("test",), lease_s=-1.0)
    assert Worker(engine).run_once()
    (found,) = engine.journal.jobs(number=job)
    assert (found.state, found.error) == (JobState.FAILED, f"its worker died {MOST_ATTEMPTS} times")


def test_what_a_bug_quotes_is_not_written_down(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_engine: Engine, _job: Job, _keep_going: Callable[[int, int], bool]) -> str:
        raise ValueError(f"key={SECRET}")

    monkeypatch.setattr(background, "HANDLERS", {DRAFT_JOB: failing})
    engine.journal.enqueue(DRAFT_JOB, "nobody", {})
    assert Worker(engine).run_once()
    (job,) = engine.journal.jobs((JobState.QUEUED,))
    assert job.error.startswith("ValueError: key=")
    assert SECRET not in job.error
