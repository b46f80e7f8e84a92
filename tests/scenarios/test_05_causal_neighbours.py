"""Scenario 5: what caused a match, or came of it, comes with it, lifted a little, and the reply says by what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import OpenMemory
from tests.samples import write_memory
from tests.scenarios.agent import Agent

from scrimshaw.engine import Engine
from scrimshaw.engine.index import scan
from scrimshaw.ingest.redact import redact
from scrimshaw.models import ItemKind, ItemSource, NewItem

QUERY = "session ranking improvements"
PER_HOP = 0.05


@pytest.fixture
def agent(engine: Engine, vault: Path) -> Agent:
    """The memory that matches, neighbours one and two hops away that share no word with the query, and noise."""
    write_memory(
        vault,
        "boost",
        "# Implement session boost\n\nSession ranking improvements: attention lifts what is worked with.",
        "relations: {caused: [counter], supports: [fusion]}",
    )
    write_memory(
        vault, "counter", "# Add event_counter column\n\nA migration of the table.", "relations: {enabled: [decay]}"
    )
    write_memory(vault, "fusion", "# Update RRF fusion\n\nWeights by intent.")
    write_memory(vault, "decay", "# Fading by events\n\nNothing fades over lunch.", "relations: {caused: [far]}")
    write_memory(vault, "far", "# Three hops away\n\nToo far.")
    for number in range(30):
        write_memory(vault, f"noise/{number:02}", f"# Note {number}\n\nImprovements of the kitchen, number {number}.")
    scan(engine)
    return Agent(engine, "s")


def by_id(hits: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {hit["id"]: hit for hit in hits}


def test_neighbours_of_two_hops_are_among_ten(agent: Agent) -> None:
    hits = by_id(agent.search(QUERY, limit=10))
    assert next(iter(hits)) == "boost"
    assert {"counter", "fusion", "decay"} <= set(hits)
    assert "far" not in hits


def test_what_lifted_a_hit_is_named(agent: Agent) -> None:
    hits = by_id(agent.search(QUERY, limit=10))
    for name in ("counter", "fusion"):
        assert hits[name]["why"]["boosts"] == {"causal": pytest.approx(PER_HOP)}


def test_a_second_hop_lifts_half_as_much(agent: Agent, vault: Path) -> None:
    write_memory(vault, "boost", "# Implement session boost\n\n" + QUERY, "relations: {caused: [counter]}")
    scan(agent.engine)
    hits = by_id(agent.search(QUERY, limit=10))
    for name, hops in (("counter", 1), ("decay", 2)):
        assert hits[name]["why"]["boosts"] == {"causal": pytest.approx(PER_HOP / hops)}


def test_a_boost_is_a_share_of_the_score(agent: Agent) -> None:
    for hit in agent.search(QUERY):
        why = hit["why"]
        lowered = why.get("fused", 0.0)
        for factor in why.get("factors", {}).values():
            lowered *= factor
        assert hit["score"] == pytest.approx(lowered * (1 + sum(why.get("boosts", {}).values())), abs=2e-6)


def test_an_answer_names_in_short_what_was_lifted_and_kept(agent: Agent) -> None:
    agent.did("Edit", "changed the column", 1.0, memory_id="counter")
    source = ItemSource(redaction_applied=True)
    agent.remember(NewItem(text=redact("a token"), kind=ItemKind.RESULT, attention=0.5, source=source))
    lifted = [hit["why"].get("boosts", {}) for hit in agent.search(QUERY)]
    counts = {kind: sum(kind in each for each in lifted) for kind in ("session", "causal")}
    assert counts["session"] == 1 < counts["causal"]
    answer = json.loads(agent.sent("memory_search", query=QUERY, min_confidence=0.0))
    assert answer["applied_boosts"] == counts
    assert "applied_boosts" not in json.loads(agent.sent("memory_search", query="zzz", min_confidence=0.0))
    context = json.loads(agent.sent("memory_context", query=QUERY))
    assert (context["extraction_count"], context["redaction_count"]) == (2, 1)


def test_both_boosts_together_are_named(agent: Agent) -> None:
    agent.did("Edit", "changed the column", 1.0, memory_id="counter")
    assert by_id(agent.search(QUERY))["counter"]["why"]["boosts"] == {
        "session": pytest.approx(0.15),
        "causal": pytest.approx(PER_HOP),
    }


@pytest.mark.parametrize("limit", [0.20, 0.07])
def test_both_boosts_together_stay_under_one_cap(agent: Agent, open_memory: OpenMemory, limit: float) -> None:
    toml = f"[session]\nattention_boost = 0.2\ncausal_boost = 0.2\nboost_limit = {limit}\n"
    strong = Agent(open_memory(toml), "s")
    strong.did("Edit", "changed the column", 1.0, memory_id="counter")
    hit = by_id(strong.search(QUERY))["counter"]
    assert set(hit["why"]["boosts"]) == {"session", "causal"}
    assert sum(hit["why"]["boosts"].values()) == pytest.approx(limit)
    assert sum(hit["why"]["boosts"].values()) <= limit
    session_items = [found for found in strong.search("recent work") if found["id"].startswith("session:")]
    assert session_items[0]["score"] <= 1 + limit


def test_a_neighbour_that_matches_by_itself_stands_once(agent: Agent, vault: Path) -> None:
    write_memory(vault, "fusion", "# Update RRF fusion\n\nWeights by intent, for ranking improvements.")
    scan(agent.engine)
    hits = agent.search(QUERY, limit=50)
    assert [hit["id"] for hit in hits].count("fusion") == 1
    assert by_id(hits)["fusion"]["why"]["boosts"] == {"causal": pytest.approx(PER_HOP)}


def test_a_chain_of_decisions_comes_whole_and_the_old_is_not_lifted(agent: Agent, vault: Path) -> None:
    write_memory(
        vault, "lock/v3", "# Advisory locks\n\nWriters take turns on the vault.", "relations: {supersedes: [lock/v2]}"
    )
    write_memory(vault, "lock/v2", "# Lock files\n\nGone stale too often.", "relations: {supersedes: [lock/v1]}")
    write_memory(vault, "lock/v1", "# No locking\n\nLast one wins.")
    scan(agent.engine)
    newest = by_id(agent.search("writers take turns", limit=10))
    assert list(newest)[:3] == ["lock/v3", "lock/v2", "lock/v1"]
    assert "boosts" not in newest["lock/v1"]["why"]
    oldest = by_id(agent.search("last one wins", limit=10))
    # what supersedes the best hit stands just above it, so that it is no more the very best
    assert oldest["lock/v2"]["why"]["boosts"] == {"causal": pytest.approx(PER_HOP, abs=1e-5)}
    assert oldest["lock/v3"]["why"]["boosts"] == {"causal": pytest.approx(PER_HOP / 2, abs=1e-5)}


def test_no_edges_are_no_error(agent: Agent) -> None:
    hits = agent.search("kitchen")
    assert hits
    assert not [hit for hit in hits if "boosts" in hit["why"]]
