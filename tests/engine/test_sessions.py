"""Sessions through the tools: whose call it is, what it was shown, what it recorded, and that none sees another's."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import OpenMemory
from tests.samples import SECRET, vouch_for, write_memory
from tests.scenarios.agent import Agent, Clock

from scrimshaw.engine import Engine, sessions
from scrimshaw.engine.index import scan
from scrimshaw.errors import StorageFailure
from scrimshaw.ingest.redact import redact
from scrimshaw.models import EventKind, ItemKind, Observation, Redacted, SessionState
from scrimshaw.search.passages import SENTENCE


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def library(engine: Engine, vault: Path) -> Engine:
    for number in range(12):
        write_memory(vault, f"n{number:02}", f"The walrus of story {number}. " + "It sang. " * number)
    scan(engine)
    return engine


@pytest.fixture
def agent(library: Engine, clock: Clock) -> Agent:
    return Agent(library, "s", clock)


# What it was shown


def texts(reply: Any) -> dict[str, str]:
    return {hit["id"]: hit["text"] for hit in reply["hits"]}


def test_what_was_shown_comes_again_named_and_as_a_sentence(agent: Agent, vault: Path) -> None:
    write_memory(vault, "song", "The walrus sang of ivory all night, said the mate. " + "Then it was quiet. " * 20)
    scan(agent.engine)
    first = agent.call("memory_search", query="ivory")
    second = agent.call("memory_search", query="ivory")
    assert (first.get("already_shown"), second["already_shown"]) == (None, ["song"])
    assert texts(second)["song"].startswith("The walrus sang of ivory all night, said the mate.")
    assert len(texts(second)["song"]) <= SENTENCE < len(texts(first)["song"])
    assert texts(agent.call("memory_search", query="ivory", enable_dedup=False)) == texts(first)


def test_search_and_context_know_of_each_other(agent: Agent) -> None:
    agent.call("memory_search", query="walrus", limit=4)
    assert len(agent.context("walrus", mode="quick")["result"]["already_shown"]) == 4


def test_a_rule_that_was_told_whole_comes_as_a_sentence_on_top(agent: Agent, vault: Path) -> None:
    write_memory(vault, "law", "Never feed the walrus, said the mate. " + "It bites. " * 40, "tier: constitutional")
    scan(agent.engine)
    vouch_for(agent.engine, "law")
    first, second = (agent.call("memory_search", query="story", limit=2) for _ in range(2))
    assert (first["hits"][0]["id"], second["hits"][0]["id"]) == ("law", "law")
    assert len(second["hits"][0]["text"]) <= SENTENCE < len(first["hits"][0]["text"])
    assert "law" in second["already_shown"]


def test_another_passage_of_what_was_shown_comes_whole(agent: Agent, vault: Path) -> None:
    parts = (
        f"## {name}\n\nOn {name}: {'there is much to say of it in every port. ' * 18}" for name in ("amber", "pearl")
    )
    write_memory(vault, "gems", "\n\n".join(parts))
    scan(agent.engine)
    assert "already_shown" not in agent.call("memory_search", query="amber")
    assert "already_shown" not in agent.call("memory_search", query="pearl")


def test_what_changed_comes_whole_again(agent: Agent, vault: Path) -> None:
    agent.call("memory_search", query="walrus", limit=12, token_budget=5000)
    write_memory(vault, "n05", "The walrus of story 5 sings no more.")
    scan(agent.engine)
    again = agent.call("memory_search", query="walrus", limit=12, token_budget=5000)
    assert {*texts(again)} - {*again["already_shown"]} == {"n05"}


def test_what_was_cut_for_want_of_room_counts_as_not_shown(agent: Agent, vault: Path) -> None:
    write_memory(vault, "long", "The narwhal of a long story. " * 30)
    scan(agent.engine)
    agent.call("memory_search", query="narwhal", token_budget=80)
    assert "already_shown" not in agent.call("memory_search", query="narwhal")


@pytest.mark.parametrize("kind", [EventKind.START, EventKind.COMPACT])
def test_a_context_that_begins_anew_has_been_shown_nothing(agent: Agent, kind: EventKind) -> None:
    agent.call("memory_search", query="walrus")
    seen = Observation(session="s", kind=kind, text=redact(""))
    sessions.record_event(agent.engine, seen)
    assert "already_shown" not in agent.call("memory_search", query="walrus")


def test_after_half_an_hour_everything_is_shown_anew(agent: Agent, clock: Clock) -> None:
    agent.call("memory_search", query="walrus")
    clock.wait(minutes=29)
    assert agent.call("memory_search", query="walrus")["already_shown"]
    clock.wait(minutes=2)
    assert "already_shown" not in agent.call("memory_search", query="walrus")


def test_pages_neither_repeat_nor_skip(agent: Agent) -> None:
    agent.call("memory_search", query="walrus", limit=3)
    assert sorted(all_pages(agent, query="walrus", limit=3)) == [f"n{number:02}" for number in range(12)]


def all_pages(agent: Agent, **asked: object) -> list[str]:
    """The ids of every page, as an agent who follows `next_cursor` gets them."""
    page = agent.call("memory_search", **asked)
    told = [hit["id"] for hit in page["hits"]]
    for _ in range(100):
        if not page.get("next_cursor"):
            return told
        page = agent.call("memory_search", **{**asked, "cursor": page["next_cursor"]})
        told += [hit["id"] for hit in page["hits"]]
    raise AssertionError("the pages come to no end")


@pytest.mark.parametrize("session", ["s", ""])
@pytest.mark.parametrize("shown", [True, False])
def test_pages_bring_a_constitutional_memory_once(engine: Engine, vault: Path, session: str, shown: bool) -> None:
    write_memory(vault, "rule", "walrus rule: never feed the walrus", "tier: constitutional")
    for number in range(7):
        write_memory(vault, f"n{number}", f"walrus note {number} {'tusks ' * number}")
    vouch_for(engine, "rule")
    told = all_pages(Agent(engine), query="walrus", limit=2, session_id=session, include_constitutional=shown)
    assert sorted(told) == [*(f"n{number}" for number in range(7)), "rule"]


@pytest.mark.parametrize("session", ["s", ""])
@pytest.mark.parametrize("dedup", [True, False])
@pytest.mark.parametrize("budget", [50, 70, 200, 100_000])
def test_pages_within_a_budget_bring_everything_once(library: Engine, session: str, dedup: bool, budget: int) -> None:
    agent = Agent(library, session)
    told = all_pages(agent, query="walrus", limit=5, token_budget=budget, enable_dedup=dedup)
    assert sorted(told) == [f"n{number:02}" for number in range(12)]


def test_of_a_name_longer_than_the_budget_an_id_a_title_and_a_sentence_come(library: Engine, vault: Path) -> None:
    for number in range(3):
        write_memory(vault, f"long/{number}", "The walrus of stories. " * 30, f"title: {'walrus ' * 40}")
    scan(library)
    told = all_pages(Agent(library, "s"), query="walrus", limit=2, token_budget=50)
    assert len(told) == len({*told}) == 15
    page = Agent(library).call("memory_search", query="stories", limit=1, token_budget=50)
    assert page["hits"][0]["title"].endswith("...")
    assert page["hits"][0]["text"].startswith("The walrus of stories.")


@pytest.mark.parametrize("dedup", [True, False])
def test_entries_come_once_and_displace_nothing_for_good(agent: Agent, dedup: bool) -> None:
    for number in range(5):
        agent.did("Read", f"A walrus was seen at {number} o'clock", 0.9)
    told = all_pages(agent, query="walrus", limit=4, enable_dedup=dedup)
    entries = [name for name in told if name.startswith("session:")]
    assert len(entries) == len({*entries}) == 3
    assert sorted(name for name in told if name not in entries) == [f"n{number:02}" for number in range(12)]


def test_pages_go_on_where_the_journal_cannot_keep_what_was_shown(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise StorageFailure("The disk is full.", "Make room.")

    monkeypatch.setattr(agent.engine.sessions, "mark_shown", refuse)
    told = all_pages(agent, query="walrus", limit=5)
    assert sorted(told) == [f"n{number:02}" for number in range(12)]


def test_outside_a_session_everything_is_sent_every_time(library: Engine) -> None:
    nobody = Agent(library)
    assert nobody.call("memory_search", query="walrus") == nobody.call("memory_search", query="walrus")
    assert library.sessions.latest() == []


# What it recorded


def test_an_item_is_found_and_read_by_its_id(agent: Agent) -> None:
    agent.did("Grep", "E1734: sealing wax missing", 0.8, ItemKind.ERROR, path="src/seal.py")
    (hit, *_) = agent.search("sealing wax")
    assert (hit["id"], hit["type"], hit["trust"]) == ("session:s/1", "session", "tool")
    assert hit["title"] == "error: E1734: sealing wax missing"
    read = agent.call("memory_get", id=hit["id"])
    assert read["content"] == "E1734: sealing wax missing"
    assert read["memory"]["read_only"]


@pytest.mark.parametrize("name", ["session:s/99", "session:other/1", "session:s", "session:", "session:s/1/"])
def test_an_item_that_does_not_exist_is_told(agent: Agent, name: str) -> None:
    agent.did("Read", "something", 0.5)
    with pytest.raises(AssertionError, match="not_found"):
        agent.call("memory_get", id=name)


def test_a_session_name_may_hold_slashes(library: Engine) -> None:
    agent = Agent(library, "client/2026/a b")
    agent.did("Read", "sealing wax", 0.9)
    (hit, *_) = agent.search("sealing wax")
    assert agent.call("memory_get", id=hit["id"])["content"] == "sealing wax"


def test_what_is_recorded_is_redacted(agent: Agent, project: Path) -> None:
    agent.did("Bash", f"pushed with {SECRET} to the sealing wax archive", 0.9)
    assert SECRET not in agent.sent("memory_search", query="sealing wax")
    assert SECRET not in agent.sent("memory_get", id="session:s/1")
    for path in (project / ".scrimshaw").glob("journal.db*"):
        assert SECRET.encode() not in path.read_bytes()


@pytest.mark.parametrize(
    ("query", "items"),
    [("sealing wax", 1), ("walrus", 0), ("what did we do so far", 3), ("latest walrus", 3), ("unrelated things", 0)],
)
def test_the_record_answers_what_is_about_it(agent: Agent, query: str, items: int) -> None:
    for text in ("sealing wax", "a needle", "a lamp"):
        agent.did("Read", text, 0.9)
    found = [name for name in agent.found(query) if name.startswith("session:")]
    assert len(found) == items


def test_a_subject_with_recall_wording_keeps_memories_in_sight(agent: Agent) -> None:
    for number in range(20):
        agent.did("Read", f"unrelated {number}", 0.9)
    found = agent.found("latest walrus", limit=10)
    assert len(found) == 10
    assert len([name for name in found if name.startswith("session:")]) == 3


# Several at once


def test_sessions_do_not_mix(library: Engine, clock: Clock) -> None:
    one, two = Agent(library, "one", clock), Agent(library, "two", clock)
    sessions.bind_session(one.engine, "one")
    sessions.bind_session(two.engine, "two")
    clock.wait(minutes=1)
    one.did("Read", "sealing wax of one", 0.9, memory_id="n01")
    two.did("Read", "sealing wax of two", 0.9, memory_id="n02")
    for agent, own, other in ((one, "n01", "n02"), (two, "n02", "n01")):
        hits = {hit["id"]: hit for hit in agent.search("walrus", limit=12)}
        assert set(hits[own]["why"]["boosts"]) == {"session"}
        assert "boosts" not in hits[other]["why"]
        for query in ("sealing wax", "recent work"):
            recorded = [name for name in agent.found(query) if name.startswith("session:")]
            assert recorded == [f"session:{agent.session}/1"]
        state = agent.context("where were we?")["state"]
        assert {line["origin"] for line in state} == {f"session:{agent.session}/1"}


def test_what_one_was_shown_is_new_to_the_other(library: Engine) -> None:
    first = Agent(library, "one").found("walrus", limit=4, enable_dedup=True)
    assert Agent(library, "two").found("walrus", limit=4, enable_dedup=True) == first


def test_counters_are_their_own_and_continue(library: Engine) -> None:
    one, two = Agent(library, "one"), Agent(library, "two")
    one.passes(3)
    two.passes(5)
    sessions.record_event(library, Observation(session="one", kind=EventKind.END, text=Redacted(text="")))
    one.passes(1)
    assert one.context("walrus")["session"]["events"] == 4
    assert two.context("walrus")["session"]["events"] == 5
    assert Agent(library, "three").context("walrus")["session"]["events"] == 0


def test_events_of_many_threads_are_all_counted(library: Engine) -> None:
    agents = [Agent(library, f"s{number % 2}") for number in range(8)]

    def work(agent: Agent, place: int) -> None:  # a thread's own number may be given again to a later one
        for number in range(5):
            agent.did("Read", f"{place} {number}", 0.5)

    threads = [threading.Thread(target=work, args=(agent, place)) for place, agent in enumerate(agents)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in ("s0", "s1"):
        items = library.sessions.items(name)
        session = library.sessions.get(name)
        assert session
        assert (session.counter, len(items), len({item.number for item in items})) == (20, 20, 20)
        assert sum(item.held for item in items) == 7


# Whose call it is


def test_a_call_without_a_name_belongs_to_the_session_of_an_ancestor(library: Engine, clock: Clock) -> None:
    library.sessions.open("of the client", process=os.getppid(), now=clock())
    library.sessions.open("of another", process=1_000_000_000, now=clock())
    assert Agent(library).context("walrus")["session"]["id"] == "of the client"
    assert Agent(library, "named").context("walrus")["session"]["id"] == "named"


def test_a_silent_session_is_interrupted_and_comes_back(agent: Agent, clock: Clock) -> None:
    agent.did("Read", "sealing wax", 0.9)
    clock.wait(hours=25)
    Agent(agent.engine, "next").found("walrus")
    before = agent.engine.sessions.get("s")
    agent.found("walrus")
    after = agent.engine.sessions.get("s")
    assert before
    assert after
    assert (before.state, after.state) == (SessionState.INTERRUPTED, SessionState.ACTIVE)
    assert after.counter == 1


# Attention


@pytest.mark.parametrize(
    ("memory", "path"),
    [
        ("n03", ".scrimshaw/memories/n03.md"),
        ("n03", ".scrimshaw\\memories\\n03.md"),
        ("n03", "{project}/.scrimshaw/memories/n03.md"),
        ("n03", "{project}/docs/../.scrimshaw/memories/n03.md"),
        ("n03", "{project}/link/n03.md"),
        ("specs/001/spec", "specs/001/spec.md"),
        ("specs/001/spec", "./specs/001/spec.md"),
        ("", ".scrimshaw/memories/absent.md"),
        ("", "n03.md"),
        ("", "n\0.md"),
        ("", ""),
    ],
)
def test_the_memory_in_a_file_that_was_worked_with_is_lifted(
    library: Engine, open_memory: OpenMemory, project: Path, vault: Path, memory: str, path: str
) -> None:
    write_memory(project / "specs/001", "spec", "# Walrus\n\nThe walrus of the specification sings.")
    agent = Agent(open_memory(), "s")
    scan(agent.engine)
    (project / "docs").mkdir()
    (project / "link").symlink_to(vault, target_is_directory=True)
    agent.did("Read", "a text", 0.8, path=path.format(project=project))
    lifted = {hit["id"] for hit in agent.search("walrus", limit=20) if "session" in hit["why"].get("boosts", {})}
    assert {name for name in lifted if not name.startswith("session:")} == ({memory} if memory else set())


def test_a_link_follows_the_file(agent: Agent, vault: Path) -> None:
    """What is read before it is a memory, or moves, is linked as it is at the time of the search."""
    agent.did("Write", "a text", 0.8, path=".scrimshaw/memories/new.md")
    assert agent.search("zebra") == []
    write_memory(vault, "new", "A zebra.")
    scan(agent.engine)
    (hit,) = agent.search("zebra")
    assert hit["why"]["boosts"] == {"session": pytest.approx(0.15 * 0.8)}


def test_without_event_decay_attention_fades_by_minutes(open_memory: OpenMemory, clock: Clock) -> None:
    agent = Agent(open_memory("[features]\nevent_decay = false\n"), "s", clock)
    agent.did("Read", "sealing wax", 0.8)
    agent.passes(10)
    assert agent.attention() == [0.8]
    clock.wait(minutes=1)
    assert agent.attention() == pytest.approx([0.8 * 0.95])
    clock.wait(minutes=2)
    assert agent.attention() == pytest.approx([0.8 * 0.95**3])
    clock.wait(days=1)
    assert agent.attention() == [0.05]


def test_a_boost_follows_attention_and_its_weight(agent: Agent) -> None:
    agent.did("Edit", "story", 0.8, memory_id="n03")
    for events in (0, 1, 4):
        agent.passes(events)
        hits = {hit["id"]: hit for hit in agent.search("walrus", limit=12)}
        assert hits["n03"]["why"]["boosts"] == {"session": pytest.approx(0.15 * agent.attention()[0])}
