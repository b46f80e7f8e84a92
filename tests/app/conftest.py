"""The command line in a project, for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.app.command_line import Cli, command_line


@pytest.fixture
def cli(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs command lines in the project's folder, with a home of its own and without a model."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("SCRIMSHAW_HOME", str(project.parent / "home"))
    monkeypatch.setenv("SCRIMSHAW_EMBEDDING_PROVIDER", "none")
    return command_line(capsys)
