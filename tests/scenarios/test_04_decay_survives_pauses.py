"""Scenario 4: attention fades by what happens in a session, never by how long it rests."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.samples import write_memory
from tests.scenarios.agent import Agent, Clock

from scrimshaw.engine import Engine
from scrimshaw.engine.index import scan

BASES = (0.9, 0.8, 0.7, 0.6, 0.5)
FLOOR = 0.05


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def agent(engine: Engine, vault: Path, clock: Clock) -> Agent:
    """Five items, each about a memory that its phrase brings up."""
    for number in range(5):
        write_memory(vault, f"m{number}", f"Text {number}.", f"trigger_phrases: [phrase{number}]")
    scan(engine)
    agent = Agent(engine, "s", clock)
    for number, base in enumerate(BASES):
        agent.did("Read", f"entry {number}", base, memory_id=f"m{number}")
    return agent


def faded(base: float, events: int, mentions: int = 0) -> float:
    return max(FLOOR, base * 0.85**events + 0.05 * mentions)


def expected(events: int) -> list[float]:
    """The item that came first has seen four events more than the last."""
    return sorted((faded(base, events + 4 - number) for number, base in enumerate(BASES)), reverse=True)


def as_tools_say(agent: Agent) -> list[float]:
    """Attention as memory_match_triggers answers it, so late that only working memory speaks."""
    found = [
        agent.call("memory_match_triggers", prompt=f"phrase{number}", turn_number=2000)["matches"][0]["attention"]
        for number in range(5)
    ]
    return sorted(found, reverse=True)


def test_a_day_without_events_changes_nothing(agent: Agent, clock: Clock) -> None:
    before = agent.attention()
    assert before == pytest.approx(expected(0))
    clock.wait(hours=24)
    assert agent.attention() == before
    assert as_tools_say(agent) == pytest.approx(expected(0), abs=1e-3)


def test_ten_events_fade_attention_where_a_pause_does_not(agent: Agent, clock: Clock) -> None:
    clock.wait(hours=24)
    agent.passes(10)
    assert agent.attention() == pytest.approx(expected(10))
    assert as_tools_say(agent) == pytest.approx(expected(10), abs=1e-3)


def test_reading_attention_never_changes_it(agent: Agent) -> None:
    """The original compounded: 0.85, 0.61, 0.38 in three reads at one place."""
    agent.passes(3)
    assert [agent.attention() for _ in range(5)] == [pytest.approx(expected(3))] * 5


def test_nothing_is_read_below_the_floor(agent: Agent) -> None:
    agent.passes(200)
    assert agent.attention() == [FLOOR] * 5


@pytest.mark.parametrize("times", [1, 3])
def test_every_reading_of_an_item_adds_a_mention(agent: Agent, times: int) -> None:
    agent.passes(10)
    for _ in range(times):
        assert agent.call("memory_get", id="session:s/1")["content"] == "entry 0"
    held = {item.number: item.mentions for item in agent.engine.sessions.items("s", held=True)}
    assert held == {1: times, 2: 0, 3: 0, 4: 0, 5: 0}
    others = [faded(base, 14 - number) for number, base in enumerate(BASES)][1:]
    assert agent.attention() == pytest.approx(sorted([faded(0.9, 14, times), *others], reverse=True))
