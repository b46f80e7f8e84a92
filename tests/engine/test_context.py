"""memory_context: which mode, under which pressure, and a reply that keeps to the budget it states."""

from __future__ import annotations

import dataclasses
import logging
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.samples import report, vouch_for, write_memory
from tests.scenarios.agent import Agent, cost, started

from scrimshaw.engine import Engine, context
from scrimshaw.engine.index import scan
from scrimshaw.models import ItemKind
from scrimshaw.session.pressure import SMALLEST_ANSWER

DEEP_TASK = "refactor the duplicated code of the channels into one place and rename it"
MODES = ("quick", "focused", "deep", "resume")
LIMITS = {"quick": 5, "focused": 8, "deep": 10, "resume": 5}
# Without a single hit a reply says its mode, its pressure and what is degraded.
SMALLEST_BUDGET = 400
BUDGETS = {"quick": 800, "focused": 3000, "deep": 3500, "resume": 1200}


@pytest.fixture
def agent(engine: Engine, vault: Path) -> Agent:
    for number in range(20):
        write_memory(vault, f"n{number:02}", f"Duplicated code of channel {number}. " * 60)
    scan(engine)
    return Agent(engine)


@pytest.mark.parametrize(
    ("percent", "level", "mode", "budget"),
    [
        (0, "NORMAL", "deep", 3500),
        (59.9, "NORMAL", "deep", 3500),
        (60, "ELEVATED", "focused", 3000),
        (65, "ELEVATED", "focused", 3000),
        (70, "ELEVATED", "focused", 3000),
        (75, "ELEVATED", "focused", 3000),
        (80, "ELEVATED", "focused", 3000),
        (80.1, "HIGH", "quick", 796),
        (85, "HIGH", "quick", 600),
        (90, "HIGH", "quick", 400),
        (95, "HIGH", "quick", SMALLEST_ANSWER),
        (100, "HIGH", "quick", SMALLEST_ANSWER),
    ],
)
def test_the_boundaries_of_pressure(agent: Agent, percent: float, level: str, mode: str, budget: int) -> None:
    reply = agent.context(DEEP_TASK, token_usage=percent / 100)
    assert (reply["pressure_level"], reply["mode"], reply["token_budget"]) == (level, mode, budget)
    assert reply["pressure"]["ratio"] == percent / 100
    assert ("warning" in reply["pressure"]) == (level != "NORMAL")
    assert cost(reply) <= budget


def test_whoever_asked_often_gets_shorter_answers_while_the_context_fills(engine: Engine, agent: Agent) -> None:
    asking = Agent(engine, "s")
    budgets = [
        asking.context(f"duplicated code of channel {n}", mode="focused", token_usage=0.7)["token_budget"]
        for n in (1, 9, 17)
    ]
    assert budgets[0] == 3000
    assert budgets == sorted(set(budgets), reverse=True)
    assert asking.context("duplicated code", mode="focused", token_usage=0.1)["token_budget"] == 3000
    assert Agent(engine, "other").context("duplicated code", mode="focused", token_usage=0.7)["token_budget"] == 3000


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("usage", "most"), [(0.1, 3500), (0.7, 3000), (0.9, 400)])
def test_a_mode_that_was_asked_for_is_kept_but_for_its_budget(agent: Agent, mode: str, usage: float, most: int) -> None:
    reply = agent.context("duplicated code", mode=mode, token_usage=usage)
    assert (reply["mode"], reply["requested_mode"]) == (mode, mode)
    assert reply["token_budget"] == min(most, BUDGETS[mode])
    assert reply["result"]["count"] + reply["result"].get("omitted", 0) == LIMITS[mode]
    assert cost(reply) <= reply["token_budget"]
    assert ("warning" in reply["pressure"]) == (usage > 0.5)


def test_what_the_agent_says_beats_what_its_client_reported(agent: Agent) -> None:
    inside = Agent(agent.engine, "s")
    inside.passes(1)
    report(agent.engine.sessions, "s", context_used=0.9)
    reported, said = inside.context(DEEP_TASK), inside.context(DEEP_TASK, token_usage=0.2)
    assert (reported["mode"], reported["pressure"]["source"], reported["pressure"]["ratio"]) == ("quick", "client", 0.9)
    assert (said["mode"], said["pressure"]["source"], said["pressure"]["ratio"]) == ("deep", "argument", 0.2)
    assert inside.context(DEEP_TASK, token_usage=0.0)["mode"] == "deep"


def test_unknown_use_narrows_nothing_and_is_logged_once(agent: Agent, caplog: pytest.LogCaptureFixture) -> None:
    context._warn_once.cache_clear()
    with caplog.at_level(logging.WARNING):
        replies = [agent.context(DEEP_TASK) for _ in range(3)]
    assert [record.message for record in caplog.records] == [
        "tokenUsage not provided and estimator unavailable; pressure policy inactive"
    ]
    assert all(reply["mode"] == "deep" and not reply.keys() & {"pressure_level", "pressure"} for reply in replies)


@pytest.mark.parametrize("usage", [-0.1, 1.1, 85])
def test_a_use_that_is_no_share_is_refused(agent: Agent, usage: float) -> None:
    with pytest.raises(AssertionError, match="token_usage"):
        agent.context(DEEP_TASK, token_usage=usage)


def test_a_known_session_alone_does_not_mean_resume(agent: Agent) -> None:
    inside = Agent(agent.engine, "s")
    inside.did("Bash", "fix: duplicated code", 0.9, ItemKind.COMMIT)
    assert inside.context(DEEP_TASK)["mode"] == "deep"
    assert inside.context("where were we?")["mode"] == "resume"


TEXTS = st.lists(
    st.text(alphabet=st.sampled_from('walrus "ivory"\\ \n\té漢🦭<|}{'), max_size=60).map(lambda text: f"walrus {text}"),
    max_size=6,
)


CALLS = st.fixed_dictionaries(
    {"mode": st.sampled_from(["auto", *MODES]), "input": st.sampled_from(["what did we do with the walrus", "ivory"])},
    optional={
        "token_usage": st.floats(0, 1),
        "limit": st.integers(1, 100),
        "include_content": st.booleans(),
        "include_trace": st.booleans(),
    },
)


@pytest.mark.slow
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    memories=st.lists(st.tuples(st.sampled_from(["x", "a very long name of a memory " * 4]), TEXTS), max_size=8),
    events=TEXTS,
    budgets=st.lists(st.tuples(st.integers(SMALLEST_BUDGET, 1500), CALLS), min_size=3, max_size=6),
)
def test_no_reply_exceeds_the_budget_it_states(
    memories: list[tuple[str, list[str]]], events: list[str], budgets: list[tuple[int, dict[str, Any]]]
) -> None:
    """As it is sent: names, scores, warnings, state and trace count like text."""
    with tempfile.TemporaryDirectory() as folder:
        vault = Path(folder) / "project/.scrimshaw/memories"
        vault.mkdir(parents=True)
        write_memory(vault, "law", "The law of the sea, which every sailor knows by heart.", "tier: constitutional")
        for number, (title, parts) in enumerate(memories):
            write_memory(vault, f"m{number}", f"# {title}\n\n" + "\n".join(parts) * 20)
        with started(Path(folder) / "project") as engine:
            vouch_for(engine, "law")
            for event in events:
                Agent(engine, "s").did("Grep", event, 0.8)
            for budget, arguments in budgets:
                reply = Agent(with_budget(engine, budget), "s").call("memory_context", **arguments)
                assert min(budget, SMALLEST_ANSWER) <= reply["token_budget"] <= budget
                assert cost(reply) <= reply["tokens"] <= budget


def test_hits_that_are_cut_are_not_counted(agent: Agent, vault: Path) -> None:
    for number in range(9):
        write_memory(vault, f"walrus/{number}", f"# Walrus {number}\n\n" + "The walrus sings in the fog. " * 12)
    scan(agent.engine)
    replies = [
        Agent(with_budget(agent.engine, tokens)).context("walrus", mode="deep", limit=9) for tokens in (400, 5000)
    ]
    assert 0 < replies[0]["result"]["count"] < replies[1]["result"]["count"] == 9
    for reply in replies:
        assert reply["result"]["count"] + reply["result"].get("omitted", 0) == 9


def with_budget(engine: Engine, tokens: int) -> Engine:
    """The same memory with one budget for every mode."""
    budgets = msgspec.structs.replace(engine.settings.context, **{f"{mode}_tokens": tokens for mode in MODES})
    return dataclasses.replace(engine, settings=msgspec.structs.replace(engine.settings, context=budgets))
