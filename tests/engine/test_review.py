"""Forgetting: what fades sinks and is hidden, never deleted; reviews bring it back; each parameter has its effect."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.samples import vouch_for, write_memory
from tests.scenarios.agent import Agent, Clock

from scrimshaw.config import ForgettingSettings
from scrimshaw.engine import Engine, read
from scrimshaw.engine.index import scan
from scrimshaw.engine.read import MOST_STABLE_DAYS, validate
from scrimshaw.engine.sessions import item_as_memory
from scrimshaw.models import Item, ItemKind, ItemSource, Memory, MemoryType, Retention, Tier
from scrimshaw.search.candidates import presence
from scrimshaw.storage.ports import Review

AGES = {"hot": 1, "warm": 30, "cold": 100, "dormant": 200, "archived": 400}
"""Days since the last change, for a half-life of sixty; the states begin at 11, 60, 143 and 300."""
VISIBLE = ["hot", "warm", "cold", "dormant"]
NEVER_FADE = ("tier: constitutional", "tier: critical", "type: decision")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def agent(engine: Engine, vault: Path, clock: Clock) -> Agent:
    """One memory of every state, all alike."""
    for name, days in AGES.items():
        write_memory(vault, name, "The walrus sang all night and nobody slept on board.", f"updated: {clock.ago(days)}")
    scan(engine)
    return Agent(engine, clock=clock)


# Parameters of memory_search


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, [*VISIBLE, "archived"]),
        ({"include_archived": False}, VISIBLE),
        ({"use_decay": False}, ["archived", *sorted(VISIBLE)]),
        ({"min_state": "hot"}, ["hot"]),
        ({"min_state": "warm"}, ["hot", "warm"]),
        ({"min_state": "cold"}, ["hot", "warm", "cold"]),
        ({"min_state": "dormant"}, VISIBLE),
        ({"min_state": "archived"}, [*VISIBLE, "archived"]),
        ({"min_state": "archived", "include_archived": False}, VISIBLE),
        ({"min_state": "hot", "use_decay": False}, ["hot"]),
        ({"min_state": "archived", "use_decay": False}, ["archived", *sorted(VISIBLE)]),
    ],
    ids=str,
)
def test_states_are_what_was_asked_for(agent: Agent, arguments: dict[str, Any], expected: list[str]) -> None:
    assert agent.found("walrus", **arguments) == expected


def test_state_limits_pass_on_what_a_state_leaves(agent: Agent, vault: Path, clock: Clock) -> None:
    """5 hot, 10 warm, 3 cold, 2 dormant, 1 archived."""
    for number in range(14):
        write_memory(vault, f"new/{number:02}", "walrus", f"updated: {clock.ago(1)}")
        write_memory(vault, f"old/{number:02}", "walrus", f"updated: {clock.ago(200)}")
    scan(agent.engine)
    every = {"limit": 50}
    assert len(agent.found("walrus", **every)) == 5 + 28
    limited = agent.found("walrus", apply_state_limits=True, **every)
    assert len([name for name in limited if name.startswith("new/") or name == "hot"]) == 5
    assert {"warm", "cold", "archived"} <= {*limited}
    assert len([name for name in limited if name.startswith("old/") or name == "dormant"]) == 9 + 2 + 2
    assert limited == [name for name in agent.found("walrus", **every) if name in limited]


def test_use_decay_off_takes_the_factor_away(agent: Agent) -> None:
    faded = {hit["id"]: hit for hit in agent.search("walrus")}
    assert faded["dormant"]["why"]["factors"]["retrievability"] < faded["warm"]["why"]["factors"]["retrievability"] < 1
    assert all("retrievability" not in hit["why"].get("factors", {}) for hit in agent.search("walrus", use_decay=False))


def test_the_length_penalty_can_be_switched_off(agent: Agent, vault: Path) -> None:
    write_memory(vault, "short", "harpoon")
    scan(agent.engine)
    (with_it,) = agent.search("harpoon")
    (without,) = agent.search("harpoon", apply_length_penalty=False)
    assert with_it["why"]["factors"] == {"length": 0.9}
    assert "factors" not in without["why"]
    assert with_it["score"] == pytest.approx(0.9 * without["score"])


# Parameters of memory_match_triggers


@pytest.fixture
def triggered(agent: Agent, vault: Path) -> Agent:
    write_memory(vault, "t", "A long text. " * 40, "trigger_phrases: [sealing wax]")
    scan(agent.engine)
    return agent


@pytest.mark.parametrize(
    ("turn", "state", "length"),
    [(None, "hot", 520), (1, "hot", 520), (20, "warm", 150), (40, "cold", 0), (99, "archived", 0)],
)
def test_text_follows_attention_by_turn(triggered: Agent, turn: int | None, state: str, length: int) -> None:
    arguments = {"turn_number": turn} if turn else {}
    (match,) = triggered.call("memory_match_triggers", prompt="the sealing wax", **arguments)["matches"]
    assert match["state"] == state
    assert len(match["content"].rstrip()) == pytest.approx(length, abs=1)
    assert match["attention"] == pytest.approx(0.98 ** ((turn or 1) - 1), abs=1e-3)
    (whole,) = triggered.call("memory_match_triggers", prompt="sealing wax", include_cognitive=False, **arguments)[
        "matches"
    ]
    assert len(whole["content"].rstrip()) >= 519


def test_what_a_session_works_with_stays_present(triggered: Agent, clock: Clock) -> None:
    agent = Agent(triggered.engine, "s", clock)
    agent.did("Read", "about wax", 0.9, memory_id="t")
    (match,) = agent.call("memory_match_triggers", prompt="sealing wax", turn_number=99)["matches"]
    assert (match["attention"], match["state"]) == (0.9, "hot")


# Reviews


def test_track_access_makes_a_review_and_nothing_else_does(agent: Agent, clock: Clock) -> None:
    for _ in range(3):
        agent.found("walrus", min_state="dormant")
    assert agent.engine.journal.reviews(list(AGES)) == {}
    agent.found("walrus", track_access=True)
    reviews = agent.engine.journal.reviews(list(AGES))
    assert set(reviews) == {*AGES}
    assert {review.reviews for review in reviews.values()} == {1}
    assert agent.found("walrus", min_state="hot") == sorted(AGES)
    clock.wait(days=12)
    assert agent.found("walrus", min_state="hot") != sorted(AGES)


def test_items_of_a_session_are_not_reviewed(agent: Agent, clock: Clock) -> None:
    inside = Agent(agent.engine, "s", clock)
    inside.did("Read", "The walrus sang.", 0.9)
    assert "session:s/1" in inside.found("walrus", track_access=True)
    assert agent.engine.journal.reviews(["session:s/1"]) == {}


def test_what_was_nearly_forgotten_gains_most(agent: Agent) -> None:
    agent.found("walrus", track_access=True)
    reviews = agent.engine.journal.reviews(list(AGES))
    assert [reviews[name].stability for name in AGES] == sorted(reviews[name].stability for name in AGES)


def test_a_validation_moves_confidence_and_is_a_review(agent: Agent) -> None:
    good = agent.call("memory_validate", id="warm", was_useful=True)
    bad = agent.call("memory_validate", id="cold", was_useful=False)
    assert (good["confidence"], bad["confidence"]) == (0.6, 0.45)
    reviews = agent.engine.journal.reviews(["warm", "cold"])
    assert reviews["warm"].stability > reviews["cold"].stability
    hits = {hit["id"]: hit["why"].get("factors", {}) for hit in agent.search("walrus")}
    assert ("validation" in hits["cold"], "validation" in hits["warm"]) == (True, False)


# Never


@pytest.mark.parametrize("name", ["mem:hot", "hot.md", "[[hot]]"])
def test_a_validation_by_another_name_goes_on_from_the_last(agent: Agent, name: str) -> None:
    agent.found("walrus", track_access=True)  # a review as well, and no validation
    validate(agent.engine, "hot", useful=True)
    validated = validate(agent.engine, name, useful=True)
    assert (validated.id, validated.confidence, validated.validations) == ("hot", 0.7, 2)


@pytest.mark.parametrize("front_matter", NEVER_FADE)
def test_some_memories_never_fade(agent: Agent, vault: Path, clock: Clock, front_matter: str) -> None:
    write_memory(vault, "stays", "The walrus sang all night.", f"{front_matter}\nupdated: {clock.ago(9000)}")
    vouch_for(agent.engine, "stays")
    hits = {hit["id"]: hit for hit in agent.search("walrus", min_state="hot")}
    assert "retrievability" not in hits["stays"].get("why", {}).get("factors", {})
    agent.call("memory_validate", id="stays", was_useful=False)
    clock.wait(days=36_500)
    assert "stays" in agent.found("walrus", min_state="hot")


@given(
    tier=st.sampled_from([Tier.CONSTITUTIONAL, Tier.CRITICAL]),
    type_=st.sampled_from(MemoryType),
    years=st.floats(0, 1000),
    review=st.none() | st.builds(
        Review,
        memory_id=st.just("m"),
        stability=st.floats(0.1, 1000),
        difficulty=st.floats(1, 10),
        last_review=st.floats(0, 1e9),
        reviews=st.integers(0, 9),
    ),
)  # fmt: skip
def test_constitutional_and_critical_stay_hot(
    tier: Tier, type_: MemoryType, years: float, review: Review | None
) -> None:
    memory = _memory(tier=tier, type_=type_)
    assert presence(memory, review, years * 365 * 86_400, ForgettingSettings()) == (1.0, Retention.HOT)


def test_nothing_is_deleted_by_forgetting(agent: Agent, vault: Path, clock: Clock) -> None:
    before = {path.name: path.read_bytes() for path in vault.iterdir()}
    clock.wait(days=36_500)
    assert {*agent.found("walrus")} == {*AGES}
    assert {path.name: path.read_bytes() for path in vault.iterdir()} == before
    scan(agent.engine)
    for name in AGES:
        assert read.get(agent.engine, name).body.startswith("The walrus")
    assert {*agent.found("walrus", use_decay=False)} == {*AGES}
    agent.call("memory_validate", id="archived", was_useful=True)
    assert agent.found("walrus", include_archived=False) == ["archived"]


def test_reviews_without_end_stay_finite(agent: Agent, clock: Clock) -> None:
    for _ in range(60):
        clock.wait(days=400)
        agent.call("memory_validate", id="warm", was_useful=True)
    review = agent.engine.journal.reviews(["warm"])["warm"]
    assert (review.reviews, review.confidence) == (60, 1.0)
    assert review.stability <= MOST_STABLE_DAYS


def _memory(*, tier: Tier, type_: MemoryType) -> Memory:
    item = Item(
        session="s", number=1, text="x", kind=ItemKind.RESULT, attention=0.5, event=0, at=0.0, source=ItemSource()
    )
    return replace(item_as_memory(item), tier=tier, type=type_, updated="2000-01-01")


def test_no_review_is_lost_between_three_at_once(agent: Agent) -> None:
    def judge() -> None:
        for _ in range(20):
            validate(agent.engine, "warm", useful=False)

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(judge) for _ in range(3)]:
            done.result()
    review = agent.engine.journal.reviews(["warm"])["warm"]
    assert (review.reviews, review.not_useful, review.confidence) == (60, 60, 0.0)


# What counts as an access


def test_a_read_counts_once_a_day(agent: Agent, clock: Clock) -> None:
    for _ in range(3):
        agent.call("memory_get", id="cold")
    assert agent.engine.journal.reviews(["cold"])["cold"].reviews == 1
    assert "cold" in agent.found("walrus", min_state="hot")
    clock.wait(days=1)
    agent.call("memory_get", id="cold")
    assert agent.engine.journal.reviews(["cold"])["cold"].reviews == 2


def test_a_hit_counts_in_a_session(agent: Agent, clock: Clock) -> None:
    inside = Agent(agent.engine, "s", clock)
    inside.found("walrus", limit=2)
    assert {each.reviews for each in agent.engine.journal.reviews(list(AGES)).values()} == {1}


def test_what_did_not_help_fades_faster_and_is_never_lifted(agent: Agent, clock: Clock) -> None:
    for name, months in (("warm", 1), ("archived", 3)):
        before = presence_of(agent, name, clock)
        agent.call("memory_validate", id=name, was_useful=False)
        assert presence_of(agent, name, clock) < before
        clock.wait(days=30 * months)
    assert agent.found("walrus")[-1] == "archived"
    agent.call("memory_validate", id="archived", was_useful=True)
    assert presence_of(agent, "archived", clock) == 1.0


def presence_of(agent: Agent, name: str, clock: Clock) -> float:
    review = agent.engine.journal.reviews([name]).get(name)
    return presence(agent.engine.memory(name), review, clock(), agent.engine.settings.forgetting)[0]


def test_a_change_is_as_good_as_a_review(agent: Agent, vault: Path, clock: Clock) -> None:
    agent.call("memory_validate", id="cold", was_useful=False)
    clock.wait(days=100)
    write_memory(vault, "cold", "The walrus came back.", f"updated: {clock.ago(0)}")
    scan(agent.engine)
    assert presence_of(agent, "cold", clock) == pytest.approx(1.0, abs=0.01)


def test_archived_matches_are_counted_where_they_are_left_out(agent: Agent) -> None:
    found = agent.call("memory_search", query="walrus", include_archived=False)
    assert (found["archived"], [hit["id"] for hit in found["hits"]]) == (1, VISIBLE)
    assert "archived" not in agent.call("memory_search", query="walrus")
    assert "archived" not in agent.call("memory_search", query="narwhal", include_archived=False)


def test_an_archived_memory_that_answers_comes_before_a_fresh_one_that_hardly_does(agent: Agent, vault: Path) -> None:
    write_memory(vault, "faded", "The narwhal has one tooth, which is long.", "updated: 2001-01-01")
    write_memory(vault, "fresh", "A tooth of the walrus was sold. It was sold at once, and for much money.")
    scan(agent.engine)
    assert agent.found("how long is the tooth of a narwhal")[0] == "faded"


def test_what_a_session_left_is_not_archived(agent: Agent, vault: Path, clock: Clock) -> None:
    write_memory(vault, "sessions/old", "The narwhal was moved.", f"type: session\nupdated: {clock.ago(400)}")
    scan(agent.engine)
    (hit,) = agent.search("narwhal")
    assert hit["id"] == "sessions/old"
    assert agent.call("memory_search", query="narwhal", min_state="cold")["hits"] == []
