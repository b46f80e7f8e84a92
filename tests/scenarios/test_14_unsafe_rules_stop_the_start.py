"""Scenario 14: a rule with an unsafe pattern stops the server, which names rule, pattern, reason and rewrite."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import scrimshaw

RULES = """
[[rules]]
id = "fine"
tool = "^Run$"
attention = 0.5

[[rules]]
id = "greedy"
tool = "^Bash$"
content = "(a+)+$"
attention = 0.8
"""
STARTER = "import sys; from scrimshaw.app.cli.main import main; sys.exit(main(['serve']))"
HELLO = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'


@pytest.fixture
def refused(tmp_path: Path) -> subprocess.CompletedProcess[bytes]:
    """A server that was asked to start with these rules, and greeted."""
    (tmp_path / ".scrimshaw").mkdir()
    (tmp_path / ".scrimshaw/config.toml").write_text(RULES)
    path = str(Path(scrimshaw.__file__).parents[1])
    environment = {**os.environ, "SCRIMSHAW_HOME": str(tmp_path / "home"), "PYTHONPATH": path}
    return subprocess.run(
        [sys.executable, "-c", STARTER], input=HELLO, cwd=tmp_path, env=environment, capture_output=True, check=False
    )


def test_the_server_never_becomes_ready(refused: subprocess.CompletedProcess[bytes], tmp_path: Path) -> None:
    assert refused.returncode == 2
    assert refused.stdout == b""
    assert [file.name for file in (tmp_path / ".scrimshaw").iterdir()] == ["config.toml"]


def test_rule_pattern_reason_and_rewrite_are_named(refused: subprocess.CompletedProcess[bytes]) -> None:
    said = refused.stderr.decode()
    assert "ExtractionRule contains potentially catastrophic regex: (a+)+$ (rule 'greedy'" in said
    assert "nested quantifiers" in said
    assert "(a+)+ is a+" in said
    assert "Correct [[rules]] and start again." in said
