"""Scenario 9: malformed settings stop the start at once, every one of them is named, no default is taken instead."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import scrimshaw
from scrimshaw.config import load
from scrimshaw.errors import ConfigError

MALFORMED = """
[session]
boost_limit = "invalid"
decay_rate = -0.5
pressure_thresholds = []
"""
EXPECTED = (
    "session.boost_limit = 'invalid' is not allowed; expected a number from 0 to 0.2",
    "session.decay_rate = -0.5 is not allowed; expected a number from 0 to 1",
    "session.pressure_thresholds = [] is not allowed; expected a list of 2, each a number from 0 to 1",
)
STARTER = "import scrimshaw; scrimshaw.open(); print('started')"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".scrimshaw").mkdir(parents=True)
    (folder / ".scrimshaw/config.toml").write_text(MALFORMED)
    return folder


def test_every_malformed_value_is_named_with_what_is_allowed(project: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(project, home=project / "home", environment={})
    for line in EXPECTED:
        assert line in caught.value.message
    assert str(project / ".scrimshaw/config.toml") in caught.value.message
    assert caught.value.exit_code == 2


def test_a_process_does_not_start_and_touches_nothing(project: Path) -> None:
    path = str(Path(scrimshaw.__file__).parents[1])
    environment = {**os.environ, "SCRIMSHAW_HOME": str(project / "home"), "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", STARTER], cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "started" not in done.stdout
    for line in EXPECTED:
        assert line in done.stderr
    assert [file.name for file in (project / ".scrimshaw").iterdir()] == ["config.toml"]


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("SCRIMSHAW_SESSION_BOOST_LIMIT", "invalid"),
        ("SCRIMSHAW_SESSION_DECAY_RATE", "-0.5"),
        ("SCRIMSHAW_SESSION_PRESSURE_THRESHOLDS", "[]"),
    ],
)
def test_the_environment_is_checked_as_strictly(tmp_path: Path, variable: str, text: str) -> None:
    with pytest.raises(ConfigError, match="environment: session"):
        load(tmp_path, home=tmp_path / "home", environment={variable: text})
