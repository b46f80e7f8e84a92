"""A memory on a read-only disk, or of another account: what can be read is told, and the rest says why it failed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.samples import write_memory

from scrimshaw.engine import Engine
from scrimshaw.engine.index import scan

READ_ONLY = (
    "unshare", "--map-root-user", "--mount", "sh", "-c",
    'mount --bind . . && mount -o remount,ro,bind . && cd "$PWD" && exec "$@"', "sh",
)  # fmt: skip
POWERLESS = ("setpriv", "--inh-caps=-all", "--bounding-set=-all") if hasattr(os, "geteuid") and not os.geteuid() else ()
CLI = (sys.executable, "-c", "from scrimshaw.app.cli.main import run; run()")
HOOK = "from scrimshaw.app.hooks import main; main.PATIENCE_S = main.DEADLINE_S = 120; main.run()"
GATE = "The gate is opened at high tide, as the keel is deep."


def run(project: Path, command: Sequence[str], payload: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SCRIMSHAW_HOME": str(project.parent / "home")}
    return subprocess.run(
        command, input=payload, capture_output=True, text=True, cwd=project, env=environment, check=False
    )


def can_mount(folder: Path) -> bool:
    return bool(shutil.which("unshare")) and run(folder, [*READ_ONLY, "true"]).returncode == 0


@pytest.fixture
def read_only(engine: Engine, project: Path, vault: Path) -> Path:
    """A project with a memory, whose commands are run where its folder is mounted read-only."""
    if not can_mount(project):
        pytest.skip("nothing can be mounted here")
    write_memory(vault, "gate", GATE, "title: Gate\ntrigger_phrases: [high tide]")
    scan(engine)
    engine.close()
    return project


def hook(project: Path, event: str, **fields: str) -> str:
    payload = {"session_id": "S1", "cwd": str(project), "hook_event_name": event, "transcript_path": "", **fields}
    done = run(project, [*READ_ONLY, sys.executable, "-c", HOOK, "claude"], json.dumps(payload))
    assert (done.returncode, done.stderr) == (0, "")
    return str(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]) if done.stdout else ""


def test_hooks_tell_what_can_be_read_and_a_start_that_nothing_is_recorded(read_only: Path) -> None:
    run(read_only, [*CLI, "save", "# Rule\n\nNever sail on a Friday.", "--tier", "constitutional", "--yes"])
    start = hook(read_only, "SessionStart", source="startup")
    assert "Never sail on a Friday." in start
    assert "could not be recorded" in start
    assert "Read-only file system" in start
    assert GATE in hook(read_only, "UserPromptSubmit", prompt="what do we do at high tide?")
    assert hook(read_only, "SessionEnd", reason="exit") == ""


@pytest.mark.parametrize(
    "command", [["digest"], ["why", "gate"], ["log", "gate"], ["graph"], ["ledger", "show"], ["list"]]
)
def test_commands_that_only_read_answer(read_only: Path, command: list[str]) -> None:
    (read_only / ".scrimshaw/memories/late.md").write_text("# Late\n\nNot in the index yet.\n")
    done = run(read_only, [*READ_ONLY, *CLI, *command])
    assert (done.returncode, done.stderr.count("Read-only file system")) == (0, 1)


@pytest.mark.parametrize("command", [["scan"], ["save", "Ropes are coiled clockwise."], ["delete", "gate", "--yes"]])
def test_commands_that_write_say_that_the_disk_is_read_only(read_only: Path, command: list[str]) -> None:
    (read_only / ".scrimshaw/memories/late.md").write_text("# Late\n\nNot in the index yet.\n")
    done = run(read_only, [*READ_ONLY, *CLI, *command])
    assert (done.returncode, "mount it writable" in done.stderr) == (3, True)


def test_a_search_without_an_index_says_that_none_can_be_made(read_only: Path) -> None:
    (read_only / ".scrimshaw/index.db").unlink()
    done = run(read_only, [*READ_ONLY, *CLI, "search", "tide"])
    assert (done.returncode, "mount it writable" in done.stderr) == (3, True)


@pytest.mark.skipif(os.name == "nt", reason="files there have no modes")
def test_a_memory_of_another_account_says_who_may_read_it(engine: Engine, project: Path) -> None:
    engine.close()
    (project / ".scrimshaw/index.db").chmod(0)
    for command in ("search", "doctor"):
        done = run(project, [*POWERLESS, *CLI, command, *(["tide"] if command == "search" else [])])
        assert done.returncode > 0
        assert "act as their owner" in " ".join((done.stdout + done.stderr).split())
