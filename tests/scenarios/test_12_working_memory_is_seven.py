"""Scenario 12: working memory holds seven items; the weakest makes room, and stays in the record."""

from __future__ import annotations

import pytest
from tests.conftest import OpenMemory
from tests.scenarios.agent import Agent, Clock

from scrimshaw.engine import Engine, sessions
from scrimshaw.models import Item

BASES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
CAPACITY = 7


def filled(engine: Engine) -> Agent:
    agent = Agent(engine, "s", Clock())
    for number, base in enumerate(BASES):
        agent.did("Read", f"entry {number}", base)
    return agent


@pytest.fixture
def agent(engine: Engine) -> Agent:
    return filled(engine)


def held(agent: Agent) -> list[Item]:
    return agent.engine.sessions.items("s", held=True)


def test_the_lowest_score_makes_room(open_memory: OpenMemory) -> None:
    """Nothing fades here, so that the scores are those of the scenario."""
    agent = filled(open_memory("[session]\ndecay_rate = 1.0\n"))
    assert agent.attention() == list(BASES)
    assert agent.did("Bash", "the newcomer", 0.75).held
    assert agent.attention() == [0.9, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4]
    assert [item.number for item in held(agent)] == [1, 2, 3, 4, 5, 6, 8]
    assert len(agent.engine.sessions.items("s")) == CAPACITY + 1


def test_what_counts_is_the_score_as_it_has_faded(agent: Agent) -> None:
    now = {number: base * 0.85 ** (CAPACITY - number) for number, base in enumerate(BASES, start=1)}
    agent.did("Bash", "the newcomer", 0.75)
    gone = {*now} - {item.number for item in held(agent)}
    assert gone == {min(now, key=lambda number: now[number])}
    assert agent.attention()[0] == 0.75


def test_the_counter_goes_on(agent: Agent) -> None:
    new = agent.did("Bash", "the newcomer", 0.75)
    session = sessions.bind_session(agent.engine, "s")
    assert session
    assert (session.counter, new.event) == (8, 8)
    assert [item.event for item in agent.engine.sessions.items("s")] == list(range(1, 9))


def test_a_newcomer_weaker_than_all_is_recorded_but_not_held(agent: Agent) -> None:
    new = agent.did("Bash", "the newcomer", 0.01)
    assert not new.held
    assert len(held(agent)) == CAPACITY
    assert agent.call("memory_get", id=f"session:s/{new.number}")["content"] == "the newcomer"


def test_what_left_is_still_found(agent: Agent) -> None:
    for number in range(20):
        agent.did("Bash", f"later {number}", 0.9)
    assert not [item for item in held(agent) if item.text == "entry 0"]
    assert "session:s/1" in agent.found("entry 0", limit=50)
