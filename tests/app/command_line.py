"""A command line run in this process, and what it said."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.samples import write_memory

from scrimshaw.app.cli.main import main

PATIENCE_S = 60.0


@dataclass(frozen=True)
class Run:
    """What a command line left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        return json.loads(self.err)["error"]


Cli = Callable[..., Run]


def command_line(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs command lines in the working folder."""

    def run(*arguments: str) -> Run:
        code = main(arguments)
        said = capsys.readouterr()
        return Run(code, said.out, said.err)

    return run


def enter_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one memory and a home of its own, which becomes the working folder."""
    folder = tmp_path / "project"
    write_memory(folder / ".scrimshaw/memories", "north", "The harbour of north closes at dusk.\n")
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "none")
    monkeypatch.chdir(folder)
    return folder


def wait_for_vectors(cli: Cli) -> list[int]:
    """How many vectors there are, and pieces, once the process in the background is done."""
    deadline = time.monotonic() + PATIENCE_S
    while (stats := cli("stats", "--no-scan", "--json").json)["waiting_jobs"] and time.monotonic() < deadline:
        time.sleep(0.1)
    found: list[int] = stats["vectors"]
    return found
