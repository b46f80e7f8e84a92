"""What a hook imports: it has a few milliseconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scrimshaw.app.cli.project_files import render_config


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without a configuration, and a user's folder without one."""
    for name in [name for name in os.environ if name.startswith(("SCRIMSHAW_", "SPECKIT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    (tmp_path / "project" / ".scrimshaw").mkdir(parents=True)
    return tmp_path / "project"


def test_a_tool_event_imports_nothing_it_can_do_without(project: Path) -> None:
    """Each of these costs one to ten milliseconds, of the 60 that a hook may take."""
    (project / ".scrimshaw/config.toml").write_text(render_config())
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


def test_the_state_that_a_start_tells_imports_no_reader_of_packages() -> None:
    """It costs five milliseconds; data beside a module is read by its path."""
    code = "import sys; import scrimshaw.session.state; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    loaded = done.stdout.decode().split()
    assert "scrimshaw.session.selection" in loaded, done.stderr
    assert "importlib.resources" not in loaded
