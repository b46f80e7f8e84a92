"""`scrimshaw serve` as clients start it: what is there before the memory is open, and where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.raw_session import LEGACY, RawSession, request
from tests.samples import write_memory

PROGRAM = (sys.executable, "-c", "from scrimshaw.app.cli import run; run()", "serve")
Start = Callable[[], AbstractContextManager[RawSession]]


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """The user's Scrimshaw folder, with one note."""
    write_memory(tmp_path / "user/memories", "tides", "# Tides\nThe harbour tide turns at noon.")
    return tmp_path / "user"


@pytest.fixture
def serve(project: Path, user: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts a server of the project, or of the folder that is gone to."""
    monkeypatch.chdir(project)
    known = {"SCRIMSHAW_HOME": str(user), "SCRIMSHAW_EMBEDDING_PROVIDER": "none"}

    @contextmanager
    def start() -> Iterator[RawSession]:
        with RawSession(PROGRAM, LEGACY, {**os.environ, **known}) as session:
            yield session

    return start


def call(session: RawSession, tool: str, **arguments: object) -> Any:
    (answer,) = session.ask(request(1, "tools/call", name=tool, arguments=arguments), 1)
    return answer["result"]["structuredContent"] if "result" in answer else answer["error"]["data"]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_tools_are_listed_before_the_memory_is_loaded(serve: Start, vault: Path) -> None:
    write_memory(vault, "gate", "# Gate\nThe harbour gate shuts at dusk.")
    with serve() as session:
        maps = Path(f"/proc/{session.process.pid}/maps")
        (listed,) = session.ask(request(1, "tools/list"), 1)
        loaded = maps.read_text()
        found = call(session, "memory_search", query="harbour gate")
        assert "apsw" in maps.read_text()
    assert "apsw" not in loaded
    assert "memory_search" in [each["name"] for each in listed["result"]["tools"]]
    assert [hit["id"] for hit in found["hits"]][:1] == ["gate"]


def test_a_project_without_a_memory_is_served_the_users_own_notes(
    serve: Start, tmp_path: Path, user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bare").mkdir()
    monkeypatch.chdir(tmp_path / "bare")
    with serve() as session:
        assert "scrimshaw init" in session.opened["result"]["instructions"]
        assert [hit["id"] for hit in call(session, "memory_search", query="harbour tide")["hits"]] == ["global/tides"]
        refused = call(session, "memory_save", content="The pilot sleeps in the quay house.")
        saved = call(session, "memory_save", content="The pilot sleeps in the quay house.", id="global/pilot")
    assert refused["error"]["code"] == "read_only"
    assert "scrimshaw init" in refused["error"]["hint"]
    assert saved["status"] == "saved"
    assert (user / "memories/pilot.md").is_file()
    assert list((tmp_path / "bare").iterdir()) == []


def faults_of(answer: Any) -> list[str]:
    faults = (each["failure_mode"].partition(":")[0] for each in answer.get("degraded", ()))
    return [fault for fault in faults if fault != "embedder_off"]


def test_a_memory_that_is_made_while_the_server_runs_is_served(
    serve: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bare").mkdir()
    monkeypatch.chdir(tmp_path / "bare")
    with serve() as session:
        alone = call(session, "memory_search", query="pilot house")
        health = call(session, "memory_health")
        subprocess.run([*PROGRAM[:-1], "init"], check=True, capture_output=True, stdin=subprocess.DEVNULL)
        saved = call(session, "memory_save", content="The pilot sleeps in the quay house.")
        found = call(session, "memory_search", query="pilot house")
    assert (faults_of(alone), health["status"]) == (["no_memory"], "degraded")
    assert [saved["id"]] == [hit["id"] for hit in found["hits"]]
    assert faults_of(found) == []


def test_an_empty_memory_that_was_read_does_not_ask_to_wait(serve: Start, user: Path) -> None:
    (user / "memories/tides.md").unlink()
    with serve() as session:
        call(session, "memory_search", query="pilot house")
        assert faults_of(call(session, "memory_search", query="quay house")) == []


def test_a_memory_that_cannot_be_opened_is_the_answer_until_it_can(serve: Start, vault: Path) -> None:
    write_memory(vault, "gate", "# Gate\nThe harbour gate shuts at dusk.")
    journal = vault.parent / "journal.db"
    journal.write_bytes(b"This is no database. " * 500)
    with serve() as session:
        refused = call(session, "memory_search", query="harbour gate")
        assert refused["error"]["code"] == "damaged"
        journal.unlink()
        assert [hit["id"] for hit in call(session, "memory_search", query="harbour gate")["hits"]][:1] == ["gate"]


def test_a_setting_of_another_version_is_named_and_the_server_starts(serve: Start, project: Path, vault: Path) -> None:
    write_memory(vault, "gate", "# Gate\nThe harbour gate shuts at dusk.")
    (vault.parent / "config.toml").write_text("[search]\nsnippet_tokens = 60\n")
    with serve() as session:
        assert [hit["id"] for hit in call(session, "memory_search", query="harbour gate")["hits"]][:1] == ["gate"]
    done = subprocess.run(PROGRAM, cwd=project, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"snippet_tokens = 60 is not known, and has no effect" in done.stderr


def test_settings_that_cannot_be_used_end_the_server_before_it_says_anything(project: Path, vault: Path) -> None:
    (vault.parent / "config.toml").write_text("[search]\nlimit = -1\n")
    done = subprocess.run(PROGRAM, cwd=project, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"limit" in done.stderr
