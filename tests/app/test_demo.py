"""`make demo`: what a newcomer sees is what the hooks and the commands really do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"
DECISION = "Decimal with ROUND_HALF_UP instead of float"


@pytest.mark.slow
def test_the_demo_shows_a_session_in_its_memory_and_in_answers() -> None:
    result = subprocess.run([sys.executable, str(DEMO)], capture_output=True, text=True, check=True)

    said = " ".join(result.stdout.split())
    memory, _, later = said.partition("The next session begins.")
    state, *answers = later.split("A search for ")
    assert DECISION in memory
    assert "a cent too low" in state
    assert DECISION in answers[0]
    assert "session:f7cc547b#e27 " in answers[2]
    assert "strings with two decimals" in answers[2]
    assert len(answers) == 4
