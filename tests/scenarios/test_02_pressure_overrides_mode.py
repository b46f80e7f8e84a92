"""Scenario 2: at 85 % of the context an answer in mode auto becomes a quick one, and says so."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.samples import report, write_memory
from tests.scenarios.agent import Agent, cost

from scrimshaw.engine import Engine, sessions
from scrimshaw.engine.index import scan

TASK = "implement a new endpoint that exports the archive of signed reports for the auditors"


@pytest.fixture
def agent(engine: Engine, vault: Path) -> Agent:
    """Thirty turns into a conversation about a project with forty memories that all say something on the task."""
    for number in range(40):
        text = (
            f"# Archive {number}\n\nThe export of signed reports, part {number}. " + "Auditors read the archive. " * 40
        )
        write_memory(vault, f"export/{number:02}", text)
    scan(engine)
    agent = Agent(engine, "long")
    agent.passes(30)
    return agent


def test_a_deep_answer_becomes_a_quick_one(agent: Agent) -> None:
    calm = agent.context(TASK, token_usage=0.3, enable_dedup=False)
    pressed = agent.context(TASK, token_usage=0.85, enable_dedup=False)
    assert (calm["mode"], calm["result"]["count"], calm["pressure_level"]) == ("deep", 10, "NORMAL")
    assert (pressed["mode"], pressed["requested_mode"], pressed["pressure_level"]) == ("quick", "auto", "HIGH")
    assert 3 <= pressed["result"]["count"] <= 5
    assert pressed["pressure"] == {
        "ratio": 0.85, "source": "argument", "warning": "The context is 85% full: answers are quick at most."
    }  # fmt: skip
    assert cost(pressed) <= pressed["token_budget"] <= 800 < cost(calm)


def test_what_the_client_reports_counts_where_the_agent_says_nothing(agent: Agent) -> None:
    report(agent.engine.sessions, "long", context_used=0.85)
    reply = agent.context(TASK)
    assert (reply["mode"], reply["pressure_level"], reply["pressure"]["source"]) == ("quick", "HIGH", "client")
    assert agent.context(TASK, token_usage=0.1)["pressure"]["source"] == "argument"


def test_another_session_is_under_no_pressure(agent: Agent) -> None:
    report(agent.engine.sessions, "long", context_used=0.85)
    reply = Agent(agent.engine, "fresh").context(TASK)
    assert (reply["mode"], reply.get("pressure_level")) == ("deep", None)
    assert sessions.bind_session(agent.engine, "long") != sessions.bind_session(agent.engine, "fresh")
