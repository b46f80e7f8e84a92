"""Scenario 8: fifty sessions fill their context from 50 to 95 %, and no reply carries one of them over the edge."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.samples import vouch_for, write_memory
from tests.scenarios.agent import Agent, cost

from scrimshaw.engine import Engine

WINDOW = 64_000
"""Tokens of a client's context; at 95 % a deep reply (3,500) would not fit any more."""
STEPS = tuple(step / 100 for step in range(50, 100, 5))
TASKS = (
    "refactor the walrus and the harpoon into one place and rename what is left of the logbook",
    "where is the harpoon kept when the ship is at anchor",
    "walrus",
    "continue the logbook of the last voyage",
    "implement a harpoon that tells the walrus and the whale apart in the fog off Nantucket",
)
MODES = ("auto", "quick", "focused", "deep", "resume")


@pytest.fixture
def engine_with_library(engine: Engine, vault: Path) -> Engine:
    for number in range(30):
        text = "The walrus, the harpoon and the logbook of the voyage. " * (5 + 12 * (number % 7))
        write_memory(vault, f"ship/{number:02}", f"# Voyage {number}\n\n{text}")
    write_memory(vault, "law", "Never sail on a Friday.", "tier: constitutional")
    vouch_for(engine, "law")
    return engine


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("mode", MODES)
def test_no_context_is_exceeded(engine_with_library: Engine, task: str, mode: str) -> None:
    """Two sessions for each task and mode."""
    for number in range(2):
        agent = Agent(engine_with_library, f"{mode}-{number}")
        for event in range(12):
            agent.did("Grep", f"the harpoon was found at place {event} " * (1 + 8 * number), 0.5 + 0.04 * event)
        for share in STEPS:
            reply = agent.context(task, mode=mode, token_usage=share)
            assert cost(reply) <= reply["token_budget"]
            assert share * WINDOW + cost(reply) < WINDOW
            expect_narrowed(reply, share)


def expect_narrowed(reply: dict[str, object], share: float) -> None:
    level = "HIGH" if share > 0.80 else "ELEVATED" if share >= 0.60 else "NORMAL"
    assert reply["pressure_level"] == level
    assert reply["token_budget"] <= {"NORMAL": 3500, "ELEVATED": 3000, "HIGH": 800}[level]  # type: ignore[operator]  # JSON
    pressure = reply["pressure"]
    assert isinstance(pressure, dict)
    assert ("warning" in pressure) == (level != "NORMAL")
    if reply["requested_mode"] == "auto" and reply["mode"] != "resume":
        allowed = {"NORMAL": ["focused", "deep"], "ELEVATED": ["focused"], "HIGH": ["quick"]}
        assert reply["mode"] in allowed[level]
    elif reply["requested_mode"] != "auto":
        assert reply["mode"] == reply["requested_mode"]
