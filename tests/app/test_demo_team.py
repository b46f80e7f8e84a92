"""`make demo-team`: what a newcomer sees of a team is what server, tokens and git really do."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "examples" / "demo_team.py"


@pytest.mark.slow
def test_the_demo_tells_each_person_what_is_theirs() -> None:
    said = " ".join(
        subprocess.run([sys.executable, str(DEMO)], capture_output=True, text=True, check=True).stdout.split()
    )

    ana, bo, refused, private, saved, digest = split(said)
    assert "shop:checkout/retries" in ana
    assert "billing:invoices/retries" in ana
    assert "invoices/retries" in bo
    assert "shop:" not in bo
    assert refused.count("There is no memory") == 2
    assert "dissolved" not in said
    assert "There is no memory" in private
    assert "ana@example.org memory_save: retries-since-may" in saved
    assert "saved retries-since-may Retries since May ana@example.org" in digest


def split(said: str) -> list[str]:
    """What the demo shows, step by step."""
    heads = ("asks it:", "asks the same:", "are alike:", "asks for it:", "commits it:", "others did:", "That took")
    begins = [said.index(head) for head in heads]
    return [said[begin:end] for begin, end in pairwise(begins)]
