"""What a search sends: passages of a session under one head, nothing usual, everything counted."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from tests.app.hooks.test_fencing import POISON, hit_of

from scrimshaw.app.hooks import fencing
from scrimshaw.app.mcp.replies import count_reply, fit_reply, search_reply
from scrimshaw.models import RECORD, MemoryType, Provenance, Trust
from scrimshaw.search.results import Hit, SearchResult

SESSION, DAY = "6e44b9", "2026-11-04"


def passage(number: int, text: str, trust: Trust = Trust.AGENT) -> Hit:
    """A passage of a session's record, as a search finds it."""
    hit = hit_of(text, trust)
    fields: dict[str, Any] = {"id": f"session:{SESSION}#e{number}", "source": RECORD, "title": "Mend the login"}
    provenance = Provenance(trust=trust, session=SESSION)
    memory = replace(hit.memory, **fields, provenance=provenance, updated=f"2026-11-0{number % 9 + 1}T10:00:00Z")
    return replace(hit, memory=memory)


def own_memory(text: str) -> Hit:
    hit = hit_of(text, Trust.TOOL)
    provenance = Provenance(trust=Trust.TOOL, session=SESSION)
    return replace(hit, memory=replace(hit.memory, id="sessions/login", type=MemoryType.SESSION, provenance=provenance))


def result_of(*hits: Hit) -> SearchResult:
    return SearchResult(
        hits=hits, always_on=(), artifact=None, offset=0,
        next_offset=None, trace=(), degradations=(),
    )  # fmt: skip


def test_passages_of_a_session_and_its_memory_are_one_hit_in_their_order() -> None:
    found = result_of(passage(12, "second"), hit_of("alone", Trust.HUMAN), passage(3, "first"), own_memory("a summary"))
    reply = search_reply(found)
    assert reply.count == 4
    assert reply.hits == [
        {
            "id": f"session:{SESSION}",
            "title": "Mend the login",
            "trust": "tool",
            "updated": "2026-11-04",
            "passages": {"sessions/login": "a summary", "#e3": "first", "#e12": "second"},
        },
        {"id": "a", "title": "a", "trust": "human", "text": "alone"},
    ]
    over = (replace(passage(3, "first"), superseded_by=(f"session:{SESSION}#e12", "new")), passage(12, "second"))
    assert search_reply(result_of(*over)).hits[0]["superseded_by"] == ["#e12", "new"]


def test_one_passage_or_a_lone_session_memory_is_a_hit_by_itself() -> None:
    (one,) = search_reply(result_of(passage(3, "first"))).hits
    assert (one["id"], one["text"]) == (f"session:{SESSION}#e3", "first")
    (alone,) = search_reply(result_of(own_memory("a summary"))).hits
    assert alone["id"] == "sessions/login"
    dated = replace(own_memory("a"), memory=replace(own_memory("a").memory, id="sessions/2026-11-04-x", updated=DAY))
    assert search_reply(result_of(dated)).hits[0]["updated"] == DAY


def test_of_what_is_not_sure_to_answer_a_passage_is_named_by_what_it_says_and_a_memory_by_its_title() -> None:
    found = replace(result_of(), nearest=(passage(3, "The clock\nis injected."), hit_of("alone", Trust.HUMAN)))
    assert search_reply(found).nearest == [f"session:{SESSION}#e3: The clock is injected.", "a: a"]
    (poisoned,) = search_reply(replace(found, nearest=(passage(3, POISON, Trust.TOOL),))).nearest
    assert "<scrimshaw-memory" in poisoned


def test_a_passage_that_speaks_to_an_agent_is_fenced_within_its_group() -> None:
    (group,) = search_reply(result_of(passage(1, "harmless"), passage(2, POISON, Trust.TOOL))).hits
    assert group["passages"]["#e1"] == "harmless"
    assert group["passages"]["#e2"].startswith("<scrimshaw-memory")
    assert group["flags"]


@pytest.mark.parametrize("title", ["```", "\uff40\uff40\uff40 harmless", "Plain\n```", "Plain"])
def test_a_text_is_fenced_whatever_its_title_begins(title: str) -> None:
    hit = hit_of(POISON, Trust.TOOL)
    (sent,) = search_reply(result_of(replace(hit, memory=replace(hit.memory, title=title)))).hits
    assert sent["text"].startswith("<scrimshaw-memory")


def test_a_harmless_text_is_judged_once_with_its_title(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = list[str]()

    def note(text: str) -> bool:
        judged.append(text)
        return False

    monkeypatch.setattr(fencing, "is_suspicious", note)
    hits = [hit_of(f"The walrus sang {number} songs.", Trust.TOOL) for number in range(3)]
    found = result_of(*(replace(hit, memory=replace(hit.memory, title="Songs")) for hit in hits))
    fit_reply(found, ("walrus",), 600, {})
    assert sorted(text for text in judged if "walrus" in text) == [f"Songs\n{hit.text}" for hit in hits]


def test_a_trace_brings_every_hit_by_itself_with_its_score() -> None:
    hits = search_reply(result_of(passage(1, "one"), passage(2, "two")), trace=True).hits
    assert [{"id", "title", "text", "score", "why"} <= hit.keys() for hit in hits] == [True, True]


def test_all_that_is_sent_counts_and_the_next_page_goes_on_behind_it() -> None:
    found = result_of(*(passage(number, f"{number}: the walrus sang. " * 30) for number in range(1, 9)))
    fitted = fit_reply(found, ("walrus",), 350, {})
    reply = search_reply(fitted)
    assert 300 * 4 < count_reply(reply) <= 350 * 4
    assert reply.next_cursor == str(reply.count)
    assert reply.omitted == 8 - reply.count > 0


def test_what_a_session_says_twice_is_sent_once_and_not_left_for_a_next_page() -> None:
    sang = "The walrus sang on the mole at noon, and nobody paid for its song."
    found = result_of(
        passage(1, sang), passage(2, f"> sing\n{sang}"), passage(3, "The walrus sleeps now, says the crew.")
    )
    reply = search_reply(fit_reply(found, ("walrus",), 600, {}))
    assert [*reply.hits[0]["passages"]] == ["#e1", "#e3"]
    assert (reply.omitted, reply.next_cursor) == (0, "")
