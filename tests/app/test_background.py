"""What runs beside a server: recall is tested at the start, and what fails is told until it works again."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import OpenMemory
from tests.engine.breaking import tamper, written_by_another
from tests.samples import write_memory

from scrimshaw.app import background as module
from scrimshaw.app.background import Background, Worker
from scrimshaw.engine import Engine, read
from scrimshaw.engine.drafts import find_draft
from scrimshaw.engine.health import check_health
from scrimshaw.engine.index import rebuild, scan
from scrimshaw.engine.sessions import record_event
from scrimshaw.errors import StorageFailure
from scrimshaw.ingest.events import Event, make_observation
from scrimshaw.models import EventKind, JobState
from scrimshaw.search.results import SearchRequest

PATIENCE_S = 60.0


@pytest.fixture
def library(engine: Engine, vault: Path) -> Engine:
    write_memory(vault, "tides", "# Tides\nThe tide turns at noon.")
    scan(engine)
    return engine


@pytest.fixture
def started(library: Engine) -> Iterator[Callable[[], Background]]:
    begun: list[Background] = []

    def start() -> Background:
        begun.append(Background(library))
        begun[-1].start()
        return begun[-1]

    yield start
    for each in begun:
        each.stop()


def told(engine: Engine) -> list[str]:
    found = read.search(engine, SearchRequest(query="tide")).degradations
    return [each.failure_mode for each in found if not each.failure_mode.startswith("embedder_off")]


def until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


OTHER_WORDS = "UPDATE memory_text SET name = 'x', title = 'x', triggers = 'x', body = 'x'"


def test_the_first_answer_knows_of_a_loss_and_later_ones_that_it_is_mended(
    library: Engine, vault: Path, started: Callable[[], Background], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrimshaw.app.background.CANARY_S", PATIENCE_S)
    tamper(library.folder / "index.db", OTHER_WORDS)
    assert told(library) == []
    background = started()
    assert background.wait_until_fresh(PATIENCE_S)
    assert told(library)[0].startswith("recall_red: The memory tides is not found by words of its own")
    rebuild(library)
    write_memory(vault, "beef", "# Salt beef\nIt is kept in barrels.")
    assert until(lambda: told(library) == [])


def test_a_loss_while_the_server_runs_is_told_though_no_file_changes(
    library: Engine, started: Callable[[], Background], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrimshaw.app.background.AGAIN_S", 0.05)
    started().wait_until_fresh(PATIENCE_S)
    assert told(library) == []
    tamper(library.folder / "index.db", OTHER_WORDS)
    assert until(lambda: told(library) != [])
    rebuild(library)
    assert until(lambda: told(library) == [])
    assert [hit.memory.id for hit in read.search(library, SearchRequest(query="tide")).hits] == ["tides"]


def test_a_session_that_falls_silent_beside_a_server_becomes_a_memory(
    library: Engine, started: Callable[[], Background], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrimshaw.app.background.AGAIN_S", 0.05)
    started().wait_until_fresh(PATIENCE_S)
    asks = Event(kind=EventKind.PROMPT, session="silent", prompt="Let the tide clock show the ebb", call_id="p")
    call: dict[str, Any] = {"tool": "Bash", "arguments": {"command": "git commit -m 'Show the ebb'"}, "call_id": "c"}
    commits = Event(kind=EventKind.TOOL, session="silent", output="[main 1a2b3c4] Show the ebb", **call)
    for event in (asks, commits):
        record_event(library, make_observation(event, (), process=0, extraction=True), at=time.time() - 3_600)
    assert until(lambda: find_draft(library, "silent") is not None)


def test_recall_is_tested_when_the_index_changed(
    library: Engine, vault: Path, started: Callable[[], Background]
) -> None:
    started().wait_until_fresh(PATIENCE_S)
    tamper(library.folder / "index.db", OTHER_WORDS)
    write_memory(vault, "beef", "# Salt beef\nIt is kept in barrels.")
    assert until(lambda: any(mode.startswith("recall_red") for mode in told(library)))


def test_what_fails_beside_the_server_is_in_health_until_it_works(
    library: Engine, started: Callable[[], Background], monkeypatch: pytest.MonkeyPatch
) -> None:
    tamper(library.folder / "index.db", "ALTER TABLE files RENAME TO lost")
    started().wait_until_fresh(PATIENCE_S)
    said = [each.failure_mode for each in check_health(library).degradations]
    assert any(mode.startswith("index_behind") for mode in said)
    assert told(library)[0].startswith("index_behind")
    tamper(library.folder / "index.db", "ALTER TABLE lost RENAME TO files")
    started().wait_until_fresh(PATIENCE_S)
    assert told(library) == []


def test_the_canary_keeps_no_question_waiting(
    library: Engine, started: Callable[[], Background], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []
    release = threading.Event()

    def slow(_engine: Engine, *, by_meaning: bool) -> None:
        asked.append(by_meaning)
        release.wait(PATIENCE_S)

    monkeypatch.setattr("scrimshaw.app.background.canary.check", slow)
    assert started().wait_until_fresh(PATIENCE_S)
    assert until(lambda: asked == [False])
    release.set()


def test_jobs_wait_while_the_journal_refuses_and_go_on_after(
    open_memory: OpenMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = open_memory("[index]\nbusy_timeout_ms = 50\n")
    monkeypatch.setattr("scrimshaw.app.background.HANDLERS", {"count": lambda *_: ""})
    number = engine.journal.enqueue("count", "", {})
    worker = Worker(engine)
    thread = threading.Thread(target=worker.run, daemon=True)
    with written_by_another(engine.folder / "journal.db"):
        thread.start()
        assert until(lambda: bool(engine.degradations.of("jobs")))
        assert any(each.failure_mode.startswith("jobs_waiting") for each in check_health(engine).degradations)
    assert until(lambda: job_state(engine, number) == JobState.DONE)
    assert until(lambda: engine.degradations.of("jobs") == ())
    worker.stop()
    thread.join(PATIENCE_S)


def job_state(engine: Engine, number: int) -> JobState | None:
    return next((job.state for job in engine.journal.jobs(number=number)), None)


def test_a_bug_in_one_part_is_told_and_ends_no_other(
    started: Callable[[], Background], library: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bug(*_: object, **__: object) -> None:
        raise KeyError("a text")

    with monkeypatch.context() as broken:
        broken.setattr("scrimshaw.app.background.index.scan", bug)
        begun = started()
        assert begun.wait_until_fresh(PATIENCE_S)
        (said,) = [each for each in told(library) if each.startswith("index_behind")]
        assert "a bug in Scrimshaw stopped it (KeyError)" in said
    job = library.journal.enqueue("embed", "", {})
    assert until(lambda: job_state(library, job) == JobState.DONE)


def test_whatever_part_fails_is_degraded_and_what_follows_the_files_goes_on(library: Engine) -> None:
    background = Background(library)
    parts = set(re.findall(r'self\._attempt,? ?\(?"?(\w+)"?,', Path(module.__file__ or "").read_text()))
    assert {"SYNC", "spans", "drafts"} <= parts

    def fail() -> None:
        raise StorageFailure("The disk is full.")

    for part in (getattr(module, name) if name.isupper() else name for name in parts):
        background._attempt(part, fail)
        (found,) = library.degradations.of(part)
        assert "The disk is full." in found.failure_mode


def test_a_folder_that_is_renamed_or_moved_away_is_followed(
    library: Engine, vault: Path, started: Callable[[], Background], tmp_path: Path
) -> None:
    started().wait_until_fresh(PATIENCE_S)
    write_memory(vault, "old/beef", "# Salt beef\nIt is kept in barrels.")
    assert until(lambda: "old/beef" in library.index.get(["old/beef"]))
    (vault / "old").rename(vault / "new")
    assert until(lambda: [*library.index.get(["old/beef", "new/beef"])] == ["new/beef"])
    (vault / "new").rename(tmp_path / "elsewhere")
    assert until(lambda: not library.index.get(["new/beef"]))


def test_a_change_of_serenas_settings_is_followed(project: Path, open_memory: OpenMemory) -> None:
    write_memory(project / ".serena/memories", "tides", "The tide turns at noon.")
    engine = open_memory()
    background = Background(engine)
    background.start()
    try:
        assert until(lambda: bool(engine.index.get(["tides"])))
        time.sleep(2 * module.WATCH_TIMEOUT_MS / 1000)  # the watch has begun
        (project / ".serena/project.yml").write_text("ignored_memory_patterns: [tides]\n")
        assert until(lambda: not engine.index.get(["tides"]))
    finally:
        background.stop()
