"""Scenario 10: every feature has its switch in the environment; with all of them off only base fusion is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest
from tests.samples import write_memory
from tests.scenarios.agent import Agent, Clock, started

from scrimshaw.engine import Engine
from scrimshaw.engine.index import scan
from scrimshaw.models import Channel, ItemKind
from scrimshaw.search.results import SearchRequest

QUERIES = ("harpoon", "the logbook of the voyage", "recent work", "who keeps the harpoon in the fog")
FEATURES = ("SESSION_BOOST", "CAUSAL_BOOST", "PRESSURE_POLICY", "EVENT_DECAY", "AUTO_RESUME", "EXTRACTION")


class Restart(Protocol):
    """The same project, opened by a new process with these variables; the agent goes on with its session."""

    def __call__(self, **variables: str) -> Agent: ...


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def restart(project: Path, clock: Clock) -> Iterator[Restart]:
    with ExitStack() as opened:

        def again(**variables: str) -> Agent:
            return Agent(opened.enter_context(started(project, variables, clock)), "s")

        yield again


@pytest.fixture
def agent(restart: Restart, vault: Path) -> Agent:
    """All on: a session that works with the third of five linked memories."""
    for number in range(5):
        relation = f"relations: {{supports: [ship/{(number + 1) % 5}]}}\ntier: important"
        write_memory(vault, f"ship/{number}", "The harpoon in the logbook. " * (number + 1), relation)
    write_memory(vault, "alone", "# Fog\n\nNobody sees a thing.", "relations: {caused: [ship/4]}")
    agent = restart()
    scan(agent.engine)
    agent.did("Edit", "sharpened the harpoon", 0.9, ItemKind.FILE, memory_id="ship/2")
    return agent


def base(engine: Engine, query: str) -> list[tuple[str, float]]:
    """Hits and scores as the searcher alone gives them, without a moment around it and without the graph."""
    channels = tuple(channel for channel in Channel if channel != Channel.GRAPH)
    hits = engine.searcher.search(SearchRequest(query=query, channels=channels)).hits
    return [(hit.memory.id, hit.score) for hit in hits]


def boosts(agent: Agent, query: str = "harpoon") -> set[str]:
    return {name for hit in agent.search(query) for name in hit["why"].get("boosts", ())}


def plain(hits: list[dict[str, Any]]) -> list[tuple[str, float]]:
    return [(hit["id"], hit["score"]) for hit in hits]


ALL_OFF = [
    {"SCRIMSHAW_PROFILE": "baseline"},
    {f"SCRIMSHAW_{name}": "false" for name in FEATURES},
    {f"SPECKIT_{name}": "false" for name in FEATURES},
    {f"SPECKIT_{name}": "off" for name in FEATURES} | {"SPECKIT_SESSION_BOOST": "true", "SCRIMSHAW_SESSION_BOOST": "0"},
]


@pytest.mark.parametrize("variables", ALL_OFF, ids=["profile", "scrimshaw", "speckit", "both names"])
def test_all_off_is_base_fusion(agent: Agent, restart: Restart, variables: dict[str, str]) -> None:
    assert boosts(agent) == {"session", "causal"}
    off = restart(**variables)
    for query in QUERIES:
        assert plain(off.search(query)) == base(off.engine, query)
    assert boosts(off) == set()
    reply = off.context("harpoon", token_usage=0.95)
    assert (reply["mode"], reply["token_budget"], reply.get("pressure_level")) == ("focused", 3000, None)


def test_what_was_switched_off_comes_back_as_it_was(agent: Agent, restart: Restart) -> None:
    before = [plain(agent.search(query)) for query in QUERIES]
    off = restart(SCRIMSHAW_PROFILE="baseline")
    assert [plain(off.search(query)) for query in QUERIES] != before
    assert [plain(restart().search(query)) for query in QUERIES] == before


@pytest.mark.parametrize("prefix", ["SCRIMSHAW", "SPECKIT"])
class TestEachSwitchAlone:
    def test_without_session_boost_hits_are_not_lifted(self, agent: Agent, restart: Restart, prefix: str) -> None:
        off = restart(**{f"{prefix}_SESSION_BOOST": "false"})
        assert boosts(off) == {"causal"}
        assert not [name for name in off.found("recent work") if name.startswith("session:")]
        assert "session:s/1" in agent.found("recent work")

    def test_without_causal_boost_neighbours_are_not_lifted(self, agent: Agent, restart: Restart, prefix: str) -> None:
        off = restart(**{f"{prefix}_CAUSAL_BOOST": "false"})
        assert boosts(off) == {"session"}
        assert ("alone" in agent.found("harpoon"), "alone" in off.found("harpoon")) == (True, False)

    def test_without_pressure_policy_a_full_context_changes_nothing(
        self, agent: Agent, restart: Restart, prefix: str
    ) -> None:
        off = restart(**{f"{prefix}_PRESSURE_POLICY": "false"})
        assert agent.context("harpoon", token_usage=0.95)["mode"] == "quick"
        reply = off.context("harpoon", token_usage=0.95)
        assert (reply["mode"], reply["pressure"]) == ("focused", {"source": "off"})
        assert boosts(off) == {"session", "causal"}

    def test_without_event_decay_attention_fades_by_minutes(
        self, agent: Agent, restart: Restart, clock: Clock, prefix: str
    ) -> None:
        off = restart(**{f"{prefix}_EVENT_DECAY": "false"})
        agent.passes(4)
        clock.wait(minutes=10)
        assert agent.attention() == pytest.approx([0.9 * 0.85**4])
        assert off.attention() == pytest.approx([0.9 * 0.95**10])

    def test_without_auto_resume_nothing_is_brought_back(self, agent: Agent, restart: Restart, prefix: str) -> None:
        off = restart(**{f"{prefix}_AUTO_RESUME": "false"})
        assert agent.context("where were we?")["mode"] == "resume"
        assert off.context("where were we?")["mode"] == "focused"
        assert off.context("where were we?", mode="resume")["state"]
