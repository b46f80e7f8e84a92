"""What a page of a search holds: what is present, what fits, and where the next one begins."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.samples import edge
from tests.search.test_pipeline import OFF, Search, configured, ids, measured, note
from tests.storage.contract import open_storage

from scrimshaw.config import SessionSettings
from scrimshaw.engine.sessions import item_as_memory
from scrimshaw.models import Channel, Item, ItemKind, ItemSource, Memory, Retention, Stage, Tier
from scrimshaw.search.pipeline import Searcher
from scrimshaw.search.results import Explanation, Hit, SearchRequest, SearchResult, SessionSignals, StageTrace
from scrimshaw.search.routing import route
from scrimshaw.storage.databases import Storage
from scrimshaw.storage.index import Index

NOW = datetime(2026, 6, 1, tzinfo=UTC)
TIERS = [Tier.NORMAL, Tier.TEMPORARY, Tier.DEPRECATED, Tier.IMPORTANT]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with open_storage("sqlite", tmp_path) as storage:
        yield storage.index


def ago(days: float) -> str:
    return (NOW - timedelta(days=days)).isoformat()


def stage(result: SearchResult, name: Stage) -> StageTrace:
    return next(each for each in result.trace if each.stage == name)


# What is present


@pytest.mark.parametrize("old", [60, 99])
@pytest.mark.parametrize("vectors", [False, True])
def test_what_is_archived_pushes_nothing_out(index: Index, old: int, vectors: bool) -> None:
    archived = [note(f"old/{number:03}", "walrus walrus walrus", updated=ago(4000)) for number in range(old)]
    search = Search(index, *archived, note("fresh", "a walrus was seen", updated=ago(1)), vectors=vectors)
    result = search.ask("walrus", now=NOW.timestamp(), include_archived=False)
    assert (ids(result), result.next_offset) == (["fresh"], None)
    assert len(ids(search.ask("walrus", now=NOW.timestamp(), limit=100))) == min(old + 1, 100)


def test_a_state_asked_for_holds_without_decay(index: Index) -> None:
    search = Search(index, note("new", "walrus", updated=ago(1)), note("old", "walrus", updated=ago(4000)))
    asked = {"now": NOW.timestamp(), "decay": False}
    assert ids(search.ask("walrus", min_state=Retention.DORMANT, **asked)) == ["new"]
    hits = search.ask("walrus", **asked).hits
    assert [(hit.memory.id, hit.state) for hit in hits] == [("new", Retention.HOT), ("old", Retention.ARCHIVED)]
    assert all("retrievability" not in hit.explanation.factors for hit in hits)


# Figures of the trace


def test_the_filter_counts_what_it_left_out(index: Index) -> None:
    archived = [note(f"old/{number}", "walrus", updated=ago(4000)) for number in range(3)]
    search = Search(index, *archived, note("fresh", "walrus", updated=ago(1)))
    filtered = stage(search.ask("walrus", now=NOW.timestamp(), include_archived=False), Stage.FILTER)
    assert (filtered.entered, filtered.left) == (4, 1)


def test_the_weights_told_are_those_that_were_used(index: Index) -> None:
    found = stage(Search(index, note("a", "walrus"), vectors=True).ask("walrus"), Stage.FUSION).notes["weights"]
    assert found == {Channel.TEXT: 1.0, Channel.VECTOR: route("walrus").weights[Channel.VECTOR]}


def test_what_has_no_vector_yet_stands_where_its_words_put_it(index: Index) -> None:
    search = Search(index, note("near", "walrus " + "ivory " * 30), vectors=True)
    index.put([measured(note(name, f"walrus {name}")) for name in ("b", "c", "d", "e")])
    assert ids(search.ask("walrus"))[-1] == "near"


# Pages


def entry(number: int) -> Hit:
    """An entry of a session's record, as a hit."""
    source = ItemSource(source_tool="Read", source_call_id=f"call-{number}", extraction_rule_id="rule")
    item = Item(
        session="s", number=number, text="walrus", kind=ItemKind.RESULT, attention=1.0, event=1, at=0.0, source=source
    )  # fmt: skip
    memory = item_as_memory(item)
    why = Explanation(ranks={"session": number}, raw={}, fused=1.0)
    return Hit(
        memory=memory, score=1.0, anchor="", heading="", text="walrus", explanation=why
    )  # fmt: skip


ENTRIES = tuple(entry(number) for number in range(5))


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Searcher]:
    """Memories of all kinds that answer one query; factors part them from the order they were found in."""
    storage = Storage(tmp_path_factory.mktemp("crowd"), busy_timeout_ms=1000)
    opened = storage.index
    documents = [
        note(
            f"n{number:02}",
            "walrus " * (number % 9 + 1) + "🚀 " * (number % 4 * 20),
            title="walrus " * (number % 5 * 12 + 1),
            tier=TIERS[number % 4],
            updated=ago(number * 7),
        )
        for number in range(90)
    ]
    found = Search(opened, *documents, vectors=True)
    yield found.searcher
    storage.close()


def pages(searcher: Searcher, request: SearchRequest, recalled: tuple[Hit, ...] = ()) -> Iterator[SearchResult]:
    """Every page, as one who follows `next_offset` gets them; it must come to an end."""
    offset: int | None = 0
    for number in range(1000):
        if offset is None:
            return
        page = replace(request, offset=offset, first=number == 0)
        result = searcher.search(page, SessionSignals(now=NOW.timestamp(), recalled=recalled))
        yield result
        offset = result.next_offset
    raise AssertionError("the pages come to no end")


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    limit=st.integers(1, 100),
    whole=st.booleans(),
    recalled=st.integers(0, 5),
    archived=st.booleans(),
)
def test_over_all_pages_each_match_comes_once(
    crowd: Searcher, limit: int, whole: bool, recalled: int, archived: bool
) -> None:
    asked = SearchRequest(query="walrus", limit=limit, include_content=whole, include_archived=archived)
    everything = SearchRequest(query="walrus", limit=1000, include_archived=archived)
    whole_answer = crowd.search(everything, SessionSignals(now=NOW.timestamp())).hits
    expected = [hit.memory.id for hit in whole_answer]
    found = [hit for page in pages(crowd, asked, ENTRIES[:recalled]) for hit in page.hits]
    assert [hit.memory.id for hit in found if hit.memory.content_hash] == expected
    assert len({hit.memory.id for hit in found}) == len(found)
    assert len(expected) > 10


def test_the_crowd_is_parted_by_its_factors(crowd: Searcher) -> None:
    """Else the pages above would join however they were cut."""
    hits = crowd.search(SearchRequest(query="walrus", limit=100), SessionSignals(now=NOW.timestamp())).hits
    fused = [hit.explanation.fused for hit in hits]
    assert fused != sorted(fused, reverse=True)


def test_entries_of_the_record_push_memories_to_the_next_page(index: Index) -> None:
    search = Search(index, *(note(f"n{number}", "walrus") for number in range(6)))
    first = search.ask("walrus", limit=4, recalled=ENTRIES)
    assert [hit.memory.id for hit in first.hits if hit.memory.content_hash] == ["n0"]
    assert first.next_offset == 1
    second = search.ask("walrus", limit=4, recalled=ENTRIES, first=False, offset=1)
    assert ids(second) == ["n1", "n2", "n3", "n4"]


def test_a_page_of_entries_alone_still_leads_on(index: Index) -> None:
    search = Search(index, note("n0", "walrus"))
    first = search.ask("walrus", limit=1, recalled=ENTRIES)
    assert (len(first.hits), first.next_offset) == (1, 0)
    assert ids(search.ask("walrus", limit=1, recalled=ENTRIES, first=False)) == ["n0"]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_what_stands_before_the_hits_is_on_the_first_page_alone(index: Index, limit: int) -> None:
    rules = [note(f"rule{number}", f"seal {number}", tier=Tier.CONSTITUTIONAL) for number in range(2)]
    notes = [note(f"n{number}", "walrus " + "tusk " * number) for number in range(6)]
    search = Search(index, *rules, *notes)
    found = [*pages(search.searcher, SearchRequest(query="walrus", limit=limit))]
    assert sorted(hit.memory.id for page in found for hit in page.hits) == [f"n{number}" for number in range(6)]
    assert [len(page.always_on) for page in found] == [2, *[0] * (len(found) - 1)]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_rule_that_answers_shifts_no_page(index: Index, limit: int) -> None:
    rules = [note(f"rule{number}", f"walrus {number}", tier=Tier.CONSTITUTIONAL) for number in range(2)]
    notes = [note(f"n{number}", "walrus " + "tusk " * number) for number in range(6)]
    found = [*pages(Search(index, *rules, *notes).searcher, SearchRequest(query="walrus", limit=limit))]
    told = [hit.memory.id for page in found for hit in (*page.always_on, *page.hits)]
    assert sorted(told) == [*(f"n{number}" for number in range(6)), "rule0", "rule1"]
    assert sum(len(page.always_on) for page in found[1:]) == 0


def test_a_constitutional_memory_that_is_deleted_meanwhile_stops_no_search(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = note("rule", "walrus", tier=Tier.CONSTITUTIONAL)
    search, select = Search(index, rule, note("n", "walrus")), index.select

    def then_deleted(*given: Any, **named: Any) -> list[Memory]:
        found = select(*given, **named)
        index.retire([rule.file.path])
        return found

    monkeypatch.setattr(index, "select", then_deleted)
    found = search.ask("walrus")
    assert (found.always_on, ids(found)) == ((), ["n"])


def test_the_settings_say_how_many_hits_there_are_by_default(index: Index) -> None:
    search = Search(index, *(note(f"n{number}", "walrus") for number in range(9)), limit=4)
    assert len(search.ask("walrus").hits) == 4
    assert len(search.ask("walrus", limit=7).hits) == 7


def test_neighbours_are_looked_for_as_far_as_the_settings_say(index: Index) -> None:
    edges = [("a", "b"), ("b", "c"), ("c", "d")]
    names = {"a": "walrus", "b": "other", "c": "more", "d": "last"}
    Search(index, *(note(n, t, edges=tuple(edge(*e, "caused") for e in edges if e[0] == n)) for n, t in names.items()))
    for hops, expected in ((1, ["a", "b"]), (2, ["a", "b", "c"]), (3, ["a", "b", "c", "d"])):
        changed = replace(configured(), session=SessionSettings(causal_hops=hops))
        searcher = Searcher(index, changed, OFF)
        assert ids(searcher.search(SearchRequest(query="walrus"))) == expected


def test_a_page_does_not_depend_on_how_many_were_looked_at_for_it(index: Index) -> None:
    """The last one found is the best after all: it stands on the first page, and on no other."""
    lowered = [note(f"n{number:02}", "walrus", tier=Tier.TEMPORARY) for number in range(60)]
    search = Search(index, *lowered, note("z", "walrus in one word"))
    result = search.ask("walrus", limit=5)
    assert ids(result)[0] == "z"
    assert "z" not in ids(search.ask("walrus", limit=50, offset=5))
