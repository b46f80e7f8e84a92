"""Scenario 1: a session that comes back after two hours finds what it worked on before anything older."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.samples import write_memory
from tests.scenarios.agent import Agent, Clock

from scrimshaw.engine import Engine
from scrimshaw.engine.index import scan
from scrimshaw.models import ItemKind

SPEC = "Exports are signed with the key of the release, and readers refuse what is not signed."
COMMIT = "feat(export): sign archives before upload"
OLD = ("archive/recent-work", "archive/work-log", "archive/recent-changes", "docs/work", "docs/recent")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def agent(engine: Engine, vault: Path, clock: Clock) -> Agent:
    """Fifteen tool calls; all memories are half a year old, and every one of them speaks of recent work."""
    for number, name in enumerate(OLD):
        body = f"# Recent work {number}\n\nRecent work on the importer and more recent work on its tests.\n"
        write_memory(vault, name, body, f"updated: {clock.ago(180)}" if number % 2 else "type: decision")
    scan(engine)
    agent = Agent(engine, "session-1", clock)
    agent.passes(6)
    agent.did("Read", SPEC, 0.9, ItemKind.FILE, path="specs/export/spec.md")
    agent.passes(5)
    agent.did("Bash", COMMIT, 0.7, ItemKind.COMMIT)
    agent.passes(2)
    return agent


@pytest.mark.parametrize("query", ["recent work", "what did we do last", "continue where we left off"])
def test_what_was_read_and_committed_comes_before_old_documents(agent: Agent, clock: Clock, query: str) -> None:
    clock.wait(hours=2)
    hits = agent.search(query, limit=5)
    assert [hit["id"] for hit in hits[:2]] == ["session:session-1/1", "session:session-1/2"]
    assert SPEC in hits[0]["text"]
    assert COMMIT in hits[1]["text"]
    assert {hit["id"] for hit in hits[2:]} <= set(OLD)
    assert agent.call("memory_get", id=hits[0]["id"])["content"] == SPEC


def test_a_pause_counts_no_events(agent: Agent, clock: Clock) -> None:
    before = agent.attention()
    clock.wait(hours=2)
    reply = agent.context("recent work")
    assert reply["session"]["events"] == 15
    assert agent.attention() == before


def test_resume_tells_the_state_of_the_session(agent: Agent, clock: Clock) -> None:
    clock.wait(hours=2)
    reply = agent.context("where were we", token_usage=0.1)
    assert reply["mode"] == "resume"
    lines = {line["origin"]: line for line in reply["state"]}
    assert lines["session:session-1/1"]["part"] == "files"
    assert SPEC in lines["session:session-1/1"]["text"]
    assert (lines["/2"]["part"], lines["/2"]["text"]) == ("commits", COMMIT)  # of the same session


def test_a_session_that_is_over_is_recalled_by_the_next(agent: Agent, clock: Clock) -> None:
    clock.wait(hours=2)
    after = Agent(agent.engine, "session-2")
    assert set(after.found("recent work", limit=5)[:2]) == {"session:session-1/1", "session:session-1/2"}
    assert after.context("where were we")["session"]["continues"] == "session-1"


def test_without_a_session_nothing_of_it_is_told(agent: Agent) -> None:
    assert not [name for name in Agent(agent.engine).found("recent work") if name.startswith("session:")]
