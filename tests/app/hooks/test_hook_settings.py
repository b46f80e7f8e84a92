"""The hook's settings: never other than what the files say, and read in no time if they say nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scrimshaw.app.cli.project_files import config_text
from scrimshaw.app.hooks.settings import load_settings
from scrimshaw.config import load
from scrimshaw.errors import ConfigError

VALUES = (
    "[search]\nlimit = 12\n[session]\npressure_thresholds = [0.5, 1]\n[features]\nprofile = 'baseline'\ndrafts = true\n"
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without a configuration, and a user's folder without one."""
    for name in [name for name in os.environ if name.startswith(("SCRIMSHAW_", "SPECKIT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "project" / ".scrimshaw").mkdir(parents=True)
    return tmp_path / "project"


def write(project: Path, text: str) -> Path:
    path = project / ".scrimshaw" / "config.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", ["", "\n \r\n", config_text(), VALUES, f"{config_text()}{VALUES}", f" {VALUES}"])
def test_the_settings_are_those_of_the_files(project: Path, text: str) -> None:
    write(project, text)
    assert load_settings(project) == load(project)


def test_the_files_of_project_and_user_both_count(project: Path, tmp_path: Path) -> None:
    assert load_settings(project) == load(project)
    write(project, config_text())
    (tmp_path / "home" / "config.toml").write_text("[context]\nquick_tokens = 900\n")
    assert load_settings(project).context.quick_tokens == 900


@pytest.mark.parametrize("name", ["SCRIMSHAW_SEARCH_LIMIT", "SPECKIT_EXTRACTION"])
def test_the_environment_counts(project: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    before = load_settings(project)
    monkeypatch.setenv(name, "1" if name.endswith("LIMIT") else "0")
    assert load_settings(project) == load(project) != before


def test_a_wrong_configuration_is_refused(project: Path) -> None:
    write(project, "[search]\nlimit = 0\n")
    with pytest.raises(ConfigError, match=r"search\.limit"):
        load_settings(project)


def test_a_configuration_that_cannot_be_read_is_named(project: Path) -> None:
    (project / ".scrimshaw/config.toml").mkdir()
    with pytest.raises(ConfigError, match=r"config\.toml"):
        load_settings(project)


def test_a_tool_event_imports_nothing_it_can_do_without(project: Path) -> None:
    """Each of these costs one to ten milliseconds, of the 60 that a hook may take."""
    write(project, config_text())
    event: dict[str, Any] = {
        "session_id": "S1",
        "cwd": str(project),
        "hook_event_name": "PostToolUse",
        "tool_name": "Bash",
        "tool_use_id": "t1",
        "tool_input": {"command": "make test"},
        "tool_response": {"stdout": "3 passed", "stderr": ""},
    }
    code = "import sys; from scrimshaw.app.hooks import main; main.import_lightly()\n"
    code += "from scrimshaw.app.hooks import record; record.handle_payload(['claude'], sys.stdin.buffer.read())\n"
    code += "print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], input=json.dumps(event).encode(), capture_output=True)
    loaded = done.stdout.decode().split()
    heavy = {"hashlib", "inspect", "json", "tomllib", "subprocess", "dataclasses", "numpy", "html", "asyncio"}
    assert "scrimshaw.storage.sessions" in loaded, done.stderr
    assert heavy.isdisjoint(loaded)
