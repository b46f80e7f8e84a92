"""The Index port: what is put comes back, what is retired is gone, and every filter restricts."""

from __future__ import annotations

import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.samples import digest, document, phrase, source_file
from tests.storage.contract import OpenStorage

from scrimshaw.errors import InvalidRequest
from scrimshaw.models import (
    ArtifactClass,
    Chunk,
    Filters,
    MemoryType,
    Provenance,
    Quality,
    Redacted,
    Tier,
    Trust,
)
from scrimshaw.search.tokens import query_terms
from scrimshaw.storage.index import Index
from scrimshaw.storage.ports import FileState, Piece, Query

EVERYTHING = Filters(include_deprecated=True)


def ids(index: Index, filters: Filters = EVERYTHING, *, sort: str = "id") -> list[str]:
    return [memory.id for memory in index.select(filters, sort=sort, limit=-1, offset=0)]


def found(index: Index, words: str, filters: Filters = EVERYTHING, limit: int = 10) -> list[str]:
    """The memories that hold any of the words."""
    return [match.id for match in index.match_text(Query((tuple(words.split()),)), filters, limit)]


# Writing and exact reading


def test_a_new_index_is_empty_and_sound(index: Index, index_storage: OpenStorage) -> None:
    assert ids(index) == []
    assert index.count(EVERYTHING) == {"": 0}
    assert index.count(EVERYTHING, by="tier") == {}
    assert index.manifest("vault") == {}
    assert index.phrases({"text"}, titles=True, holds=bool) == []
    assert index.near_duplicates((1,), shared=1, limit=5) == []
    assert index.vector_counts() == (0, {}, 0)
    maintenance = index_storage.maintenance
    assert maintenance.check("index") == maintenance.check("index", quick=True) == []
    assert maintenance.size_bytes("index") > 0
    assert maintenance.version


def test_a_memory_comes_back_as_it_was_put(index: Index) -> None:
    put = document(
        "storage/wal",
        "First piece.\n",
        "Zweites Stück 🚀",
        file=source_file("storage/wal", artifact=ArtifactClass.PLAN, writable=False, source="specs"),
        title="WAL reset",
        type=MemoryType.DECISION,
        tier=Tier.CRITICAL,
        triggers=("wal reset", "日本語 phrase"),
        topics=("SQLite", "Concurrency"),
        provenance=Provenance(source="agent", trust=Trust.TOOL, session="s1"),
        quality=Quality(score=0.25, flags=("thin", "no-triggers")),
        created="2026-01-01",
        updated="2026-02-01T10:00:00Z",
        tokens=7,
    )
    index.put([put])
    memory = index.get(["storage/wal", "absent"])["storage/wal"]
    assert list(index.get(["storage/wal", "absent"])) == ["storage/wal"]
    for name in ("title", "type", "tier", "triggers", "topics", "provenance", "quality", "created", "updated"):
        assert getattr(memory, name) == getattr(put, name), name
    assert (memory.source, memory.path, memory.artifact) == ("specs", put.file.path, ArtifactClass.PLAN)
    assert (memory.content_hash, memory.tokens, memory.writable) == (put.content_hash, 7, False)
    assert memory.length == len(put.body.text)
    assert index.bodies(["storage/wal", "absent"]) == {"storage/wal": put.body.text}
    (piece,) = index.pieces([("storage/wal", 1)]).values()
    assert (piece.text, piece.context) == ("Zweites Stück 🚀", put.chunks[1].context)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_any_text_comes_back_to_the_byte(index: Index, text: str) -> None:
    chunk = Chunk(ordinal=0, anchor=text, heading=text, start=0, end=len(text), context=text)
    put = document("note", text, title=text, triggers=(text,), topics=(text,), chunks=(chunk,))
    index.put([put])
    assert index.bodies(["note"]) == {"note": text}
    assert index.pieces([("note", 0)]) == {("note", 0): Piece(anchor=text, heading=text, text=text, context=text)}
    memory = index.get(["note"])["note"]
    assert (memory.title, memory.triggers, memory.topics) == (text, (text,), (text,))


def test_of_two_that_are_put_at_once_under_one_id_the_last_stays(index: Index) -> None:
    index.put([document("a", "The first whale.\n"), document("b", "A squid.\n"), document("a", "The last harpoon.\n")])
    assert ids(index) == ["a", "b"]
    assert [found(index, word) for word in ("whale", "squid", "harpoon")] == [[], ["b"], ["a"]]


def test_putting_again_replaces_everything(index: Index) -> None:
    index.put([document("a", "old words\n", "zebra", triggers=("old phrase",), topics=("old",))])
    index.put([document("a", "new words", triggers=("new phrase",), topics=("new",))])
    assert index.bodies(["a"]) == {"a": "new words"}
    assert (found(index, "old"), found(index, "zebra"), found(index, "new")) == ([], [], ["a"])
    assert index.phrases({"phrase"}, titles=True, holds=bool) == [("new phrase", "a")]
    assert index.count(EVERYTHING, by="topic") == {"new": 1}
    assert index.count(EVERYTHING) == {"": 1}
    assert index.pieces([("a", 1)]) == {}


def test_a_path_read_under_another_id_is_one_memory(index: Index) -> None:
    index.put([document("old", file=source_file("old", path="/p.md"))])
    index.put([document("new", file=source_file("new", path="/p.md"))])
    assert ids(index) == ["new"]


def test_an_id_read_from_another_path_is_one_memory(index: Index) -> None:
    index.put([document("a", file=source_file("a", path="/1.md"))])
    index.put([document("a", file=source_file("a", path="/2.md"))])
    assert index.get(["a"])["a"].path == "/2.md"
    index.retire(["/1.md"])
    assert ids(index) == ["a"]


def test_a_failing_batch_stores_nothing(index: Index) -> None:
    broken = replace(document("b"), body=Redacted(text="lone \ud800"))
    with pytest.raises(UnicodeEncodeError):
        index.put([document("a"), broken])
    assert ids(index) == []
    assert found(index, "text") == []


def test_retired_files_are_forgotten(index: Index) -> None:
    index.put([document("a", triggers=("aa",), topics=("t",)), document("b")])
    index.retire([source_file("a").path, "/never/seen.md"])
    assert ids(index) == ["b"]
    assert found(index, "text") == ["b"]
    assert list(index.manifest("vault")) == ["/vault/b.md"]
    assert index.phrases({"aa"}, titles=True, holds=bool) == []
    assert index.count(EVERYTHING, by="topic") == {}
    assert index.pieces([("a", 0)]) == {}


def test_retiring_all_forgets_everything(index: Index, index_storage: OpenStorage) -> None:
    index.put([document("a", triggers=("aa",), topics=("t",))])
    index.record_file(source_file("b"), "", skipped="broken")
    index.retire(None)
    assert (ids(index), dict(index.manifest())) == ([], {})
    assert index.phrases({"aa"}, titles=True, holds=bool) == []
    assert found(index, "text") == []
    assert index.vector_counts().progress("m") == (0, 0)
    index.put([document("a")])
    assert found(index, "text") == ["a"]
    assert index_storage.maintenance.check("index") == []


# Files


def test_the_manifest_is_per_source(index: Index) -> None:
    index.put([document("a"), document("d", file=source_file("d", source="docs"))])
    state = FileState(path="/vault/a.md", source="vault", size=10, mtime_ns=1, memory_id="a",
                      content_hash=index.get(["a"])["a"].content_hash)  # fmt: skip
    assert index.manifest("vault") == {"/vault/a.md": state}
    assert list(index.manifest("docs")) == ["/vault/d.md"]
    assert list(index.manifest()) == ["/vault/a.md", "/vault/d.md"]


def test_a_recorded_file_changes_size_and_time_alone(index: Index) -> None:
    index.put([document("a")])
    before, generation = index.manifest("vault")["/vault/a.md"], index.generation()
    index.record_file(source_file("a", size=99, mtime_ns=77), before.content_hash)
    assert index.manifest("vault")["/vault/a.md"] == replace(before, size=99, mtime_ns=77)
    assert index.generation() == generation


def test_a_skipped_file_is_remembered_and_its_memory_forgotten(index: Index) -> None:
    index.put([document("a"), document("b")])
    index.record_file(source_file("a", size=3), digest("broken"), skipped="line 2: no")
    assert ids(index) == ["b"]
    state = index.manifest("vault")["/vault/a.md"]
    assert (state.memory_id, state.reason, state.size, state.content_hash) == ("", "line 2: no", 3, digest("broken"))
    index.put([document("a")])
    assert (ids(index), index.manifest("vault")["/vault/a.md"].reason) == (["a", "b"], "")


# Filters, sorting, counting


def library(index: Index) -> None:
    spec = source_file("specs/one/spec", source="docs", artifact=ArtifactClass.SPEC, writable=False)
    memory = ArtifactClass.MEMORY
    agent = Provenance(source="agent", trust=Trust.AGENT)
    index.put(
        [
            document("a", file=source_file("a", artifact=memory), tier=Tier.CRITICAL, topics=("SQLite", "wal"),
                     updated="2026-01-10", created="2026-03-01", title="Zoo"),
            document("one/b", file=source_file("one/b", artifact=memory), type=MemoryType.DECISION,
                     topics=("sqlite",), updated="2026-02-10T12:00:00Z", created="2026-01-01", title="Yak"),
            document("one/deep/c", file=source_file("one/deep/c", artifact=memory), tier=Tier.TEMPORARY,
                     quality=Quality(score=0.2), provenance=agent, updated="2026-03-10"),
            document("onerous", file=source_file("onerous", artifact=memory), quality=Quality(score=0.2)),
            document("old", file=source_file("old", artifact=memory), tier=Tier.DEPRECATED, updated="2020-01-01"),
            document("specs/one/spec", file=spec, quality=Quality(score=0.9), provenance=agent, updated="2026-02-11"),
        ]
    )  # fmt: skip


EVERY = ["a", "old", "one/b", "one/deep/c", "onerous", "specs/one/spec"]
SHOWN = ["a", "one/b", "one/deep/c", "onerous", "specs/one/spec"]

FILTERS: list[tuple[Filters, list[str]]] = [
    (Filters(), SHOWN),
    (Filters(include_deprecated=True), EVERY),
    (Filters(tiers=(Tier.CRITICAL, Tier.TEMPORARY)), ["a", "one/deep/c"]),
    (Filters(tiers=(Tier.DEPRECATED,)), ["old"]),
    (Filters(types=(MemoryType.DECISION,)), ["one/b"]),
    (Filters(artifacts=(ArtifactClass.SPEC, ArtifactClass.PLAN)), ["specs/one/spec"]),
    (Filters(topics=("sqlite",)), ["a", "one/b"]),
    (Filters(topics=("SQLITE", "Wal")), ["a"]),
    (Filters(topics=("sql",)), []),
    (Filters(folder="one"), ["one/b", "one/deep/c"]),
    (Filters(folder="one/"), ["one/b", "one/deep/c"]),
    (Filters(folder="one/deep/c"), ["one/deep/c"]),
    (Filters(folder="specs/one"), ["specs/one/spec"]),
    (Filters(folder="deep"), ["one/deep/c"]),
    (Filters(folder="/deep/"), ["one/deep/c"]),
    (Filters(folder="eep"), []),
    (Filters(folder="%"), []),
    (Filters(source="docs"), ["specs/one/spec"]),
    (Filters(since="2026-02-10"), ["one/b", "one/deep/c", "specs/one/spec"]),
    (Filters(until="2026-02-10"), ["a", "one/b"]),
    (Filters(since="2026-02-01", until="2026-02"), ["one/b", "specs/one/spec"]),
    (Filters(since="2026-02-10T14:00:00+02:00", until="2026-02-11"), ["one/b", "specs/one/spec"]),
    (Filters(since="2026-02-10T12:00:00Z", until="2026-02-11"), ["one/b", "specs/one/spec"]),
    (Filters(since="2026-02-10T14:00:01+02:00", until="2026-02-11"), ["specs/one/spec"]),
    (Filters(since="2026-02-11T00:00:00Z"), ["one/deep/c", "specs/one/spec"]),
    (Filters(since="2026-02-11T01:00:00+01:00", until="2026-02-11T01:00:00+01:00"), ["specs/one/spec"]),
    (Filters(since="2026-02", until="2026-02-10T13:59:59+02:00"), []),
    (Filters(until="2026-01-10T00:00:00Z"), ["a"]),
    (Filters(until="2025", include_deprecated=True), ["old"]),
    (Filters(only=("a", "old", "nothing")), ["a"]),
    (Filters(only=()), []),
    (Filters(exclude=("a", "one/b")), ["one/deep/c", "onerous", "specs/one/spec"]),
    (Filters(min_quality_score=0.5), ["a", "one/b", "onerous", "specs/one/spec"]),
    (Filters(min_quality_score=0.95), ["a", "one/b", "onerous"]),
    (Filters(topics=("sqlite",), folder="one", types=(MemoryType.GENERAL,)), []),
]


@pytest.mark.parametrize(("filters", "expected"), FILTERS)
def test_every_filter_restricts_every_way_of_asking(index: Index, filters: Filters, expected: list[str]) -> None:
    library(index)
    assert ids(index, filters) == expected
    assert index.count(filters) == {"": len(expected)}
    assert sorted(found(index, "text", filters)) == expected
    assert sum(index.count(filters, by="tier").values()) == len(expected)


@pytest.mark.parametrize("date", ["2026-02-30", "2026-13-01", "2026-00", "0000", "yesterday", "2026-02-01T25:00:00Z"])
def test_an_impossible_date_is_refused_with_a_sentence(index: Index, date: str) -> None:
    for filters in (Filters(since=date), Filters(until=date)):
        with pytest.raises(InvalidRequest, match=f"'{date}' is not an ISO date") as refused:
            index.select(filters, sort="id", limit=1, offset=0)
        assert "2026-11-21" in refused.value.hint


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("tier", {"critical": 1, "deprecated": 1, "normal": 3, "temporary": 1}),
        ("type", {"decision": 1, "general": 5}),
        ("artifact", {"memory": 5, "spec": 1}),
        ("source", {"docs": 1, "vault": 5}),
        ("folder", {"": 3, "one": 2, "specs": 1}),
        ("topic", {"sqlite": 2, "wal": 1}),
    ],
)
def test_counts_by_group(index: Index, by: str, expected: dict[str, int]) -> None:
    library(index)
    assert index.count(EVERYTHING, by=by) == expected


def test_all_chunks_are_counted(index: Index) -> None:
    index.put([document("a", "alpha\n", "beta\n"), document("b", "gamma\n")])
    assert index.count(None) == {"": 3}


def test_an_unknown_group_or_order_is_refused(index: Index) -> None:
    with pytest.raises(KeyError, match="colour"):
        index.count(EVERYTHING, by="colour")
    with pytest.raises(KeyError, match="id; DROP"):
        index.select(EVERYTHING, sort="id; DROP TABLE memories", limit=1, offset=0)


def test_memories_are_sorted_by_every_key(index: Index) -> None:
    library(index)
    assert ids(index, sort="id") == EVERY
    assert ids(index, sort="title")[:2] == ["one/b", "a"]
    assert ids(index, sort="updated") == ["one/deep/c", "specs/one/spec", "one/b", "a", "old", "onerous"]
    assert ids(index, sort="created")[:2] == ["a", "one/b"]


@pytest.mark.parametrize("sort", ["id", "title", "created", "updated"])
def test_pages_join_to_the_whole(index: Index, sort: str) -> None:
    library(index)
    pages = [index.select(EVERYTHING, sort=sort, limit=2, offset=offset) for offset in range(0, 8, 2)]
    assert [memory.id for page in pages for memory in page] == ids(index, sort=sort)


def test_the_same_text_is_found_by_its_hash(index: Index) -> None:
    index.put([document("b", "Same  TEXT"), document("a", "same text"), document("c", "other")])
    same = document("x", "same\ntext").text_hash
    assert index.find_ids(text_hash=same) == ["a", "b"]
    assert index.find_ids(text_hash=digest("nothing")) == []


def test_a_file_is_known_by_its_path(index: Index) -> None:
    files = {name: source_file(name, path=f"/p/{name}.md") for name in ("a", "ü b", "skipped", "gone")}
    index.put([document(name, file=files[name]) for name in ("a", "ü b", "gone")])
    index.record_file(files["skipped"], "hash", skipped="too large")
    index.retire(["/p/gone.md"])
    paths = [file.path for file in files.values()]
    assert index.find_ids(paths=[*paths, "/p/A.md", "a"]) == ["a", "ü b"]
    assert index.find_ids(paths=[]) == []


def test_pieces_are_named_by_memory_and_ordinal(index: Index) -> None:
    chunks = tuple(
        Chunk(ordinal=n, anchor=f"a{n}", heading=f"H{n}", start=n * 3, end=n * 3 + 3, context="T") for n in range(2)
    )
    index.put([document("a", "ü1\n", "🚀2\n", chunks=chunks), document("b", "b0")])
    found = index.pieces([("a", 1), ("b", 0), ("b", 7), ("absent", 0)])
    assert found["a", 1] == Piece(anchor="a1", heading="H1", text="🚀2\n", context="T")
    assert (found["b", 0].text, set(found)) == ("b0", {("a", 1), ("b", 0)})
    assert index.pieces([]) == {}


def test_ids_that_differ_in_case_at_most_are_found(index: Index) -> None:
    index.put([document("Notes/README"), document("notes/readme"), document("notes/readme-2"), document("STRASSE")])
    assert sorted(index.find_ids(differing_in_case="NOTES/readme")) == ["Notes/README", "notes/readme"]
    assert index.find_ids(differing_in_case="straße") == ["STRASSE"]
    assert index.find_ids(differing_in_case="absent") == []


# Full text


def test_words_are_found_in_every_field_and_stemmed(index: Index) -> None:
    index.put(
        [
            document("zebra/one"),
            document("b", title="zebras in titles"),
            document("c", triggers=("ride a zebra",)),
            document("d", "many zebras run"),
            document("e", "first\n", "second with a zebra\n", "third"),
            document("f", topics=("zebra",)),
            document("g", "no such animal"),
        ]
    )
    assert sorted(found(index, "zebra")) == ["b", "c", "d", "e", "f", "zebra/one"]


def test_the_words_of_a_question_find_its_memory(index: Index) -> None:
    index.put(
        [document("tide", "High water is at noon.\n", "Walk in the morning.", questions=("When does the sea rise?",))]
    )
    index.put([document("other", "Nothing of that.")])
    (match,) = index.match_text(Query((("sea", "rise"),)), EVERYTHING, 5)
    assert (match.id, match.question) == ("tide", 0)
    (match,) = index.match_text(Query((("noon",),)), EVERYTHING, 5)
    assert (match.id, match.chunk, match.question) == ("tide", 0, -1)
    assert index.get(["tide", "other"])["tide"].questions == ("When does the sea rise?",)


def test_words_of_several_pieces_count_together(index: Index) -> None:
    index.put([document("a", "alpha\n", "beta\n"), document("b", "alpha\n", "gamma\n")])
    both = Query((("alpha",), ("beta",)))
    assert [match.id for match in index.match_text(both, EVERYTHING, 10)] == ["a"]


def test_a_long_memory_does_not_crowd_out_the_others(index: Index) -> None:
    index.put([document("long", *["the wal was reset wal wal\n"] * 300)])
    index.put([document(f"short/{number}", "one wal among very many other words " * 5) for number in range(4)])
    assert sorted(found(index, "wal", limit=5)) == ["long", *(f"short/{number}" for number in range(4))]


def test_scores_fall_and_the_limit_holds(index: Index) -> None:
    index.put([document(f"n{number}", "wal " * number + "filler " * 20) for number in range(1, 8)])
    matches = index.match_text(Query((("wal",),)), EVERYTHING, 5)
    assert len(matches) == 5
    assert [match.score for match in matches] == sorted((match.score for match in matches), reverse=True)
    assert matches[0].id == "n7"


def test_equal_scores_are_in_the_order_of_ids(index: Index) -> None:
    for name in ("c", "a", "b"):
        index.put([document(f"x/{name}", "the same words")])
    assert found(index, "words") == ["x/a", "x/b", "x/c"]


HOSTILE = [
    '"',
    "'",
    "''; DROP TABLE memories; --",
    "AND OR NOT NEAR",
    "NEAR(a b, 5)",
    "title:secret",
    "{name title}: x",
    "^start*",
    "a*",
    "(((",
    "-x +y",
    'say "hello" now',
    "a\\b%_c",
    "日本語 🚀 ﷽",
    "\u202eevil",
    "naïve Straße ΣΊΣΥΦΟΣ",
    "²³ ½ ⅷ",
    "x" * 5000,
    "\ud800 lone",
    "?1 :name @p $v",
]


@pytest.mark.parametrize("query", HOSTILE)
def test_hostile_queries_are_only_words(index: Index, query: str) -> None:
    index.put([document("a", "plain hello")])
    for is_prefix in (False, True):
        matches = index.match_text(Query((query_terms(query),), is_prefix), EVERYTHING, 10)
        assert [match.id for match in matches] in ([], ["a"])
    assert ids(index) == ["a"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(st.text(max_size=40))
def test_any_query_can_be_asked(index: Index, query: str) -> None:
    for is_prefix in (False, True):
        index.match_text(Query((query_terms(query),), is_prefix), EVERYTHING, 3)


# Triggers and generation


def test_phrases_are_looked_up_by_their_heads(index: Index) -> None:
    title = phrase("Busy wait", is_title=True)
    index.put([document("b", triggers=("WAL reset", "busy")), document("a", triggers=("busy",))])
    index.put([document("c", phrases=(title, phrase("データ")))])
    assert index.phrases({"busy"}, titles=False, holds=bool) == [("busy", "a"), ("busy", "b")]
    assert index.phrases({"busy"}, titles=True, holds=bool) == [("Busy wait", "c"), ("busy", "a"), ("busy", "b")]
    assert index.phrases({"wait", "デ", "reset"}, titles=True, holds=bool) == [("WAL reset", "b"), ("データ", "c")]
    assert index.phrases({"busy"}, titles=True, holds=str.islower) == [("busy", "a"), ("busy", "b")]
    assert index.phrases(set(), titles=True, holds=bool) == []


def test_texts_that_share_hashes_are_near_duplicates(index: Index) -> None:
    index.put([document("a", sketch=(1, 2, 3)), document("c", sketch=(1, 9)), document("b", sketch=(9, 1, 7))])
    assert index.near_duplicates((1, 2, 3, 9), shared=1, limit=5) == ["a", "b", "c"]
    assert index.near_duplicates((9,), shared=1, limit=1) == ["b"]
    assert index.near_duplicates((1, 2, 3, 9), shared=2, limit=5) == ["a", "b", "c"]
    assert index.near_duplicates((1, 2, 3, 9), shared=3, limit=5) == ["a"]
    assert index.near_duplicates((4,), shared=1, limit=5) == index.near_duplicates((), shared=1, limit=5) == []
    index.put([document("a", sketch=(4,))])
    assert index.near_duplicates((1, 2, 3), shared=1, limit=5) == ["b", "c"]


def test_the_generation_follows_every_change(index: Index) -> None:
    seen = [index.generation()]
    index.put([document("a")])
    seen.append(index.generation())
    index.record_file(source_file("b"), "", skipped="broken")
    seen.append(index.generation())
    index.retire(["/vault/a.md"])
    seen.append(index.generation())
    index.retire(None)
    seen.append(index.generation())
    assert len(set(seen)) == len(seen)
    index.get(["a"])
    assert index.generation() == seen[-1]


def test_threads_write_and_read_at_once(index: Index, index_storage: OpenStorage) -> None:
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(10):
                index.put([document(f"{name}/{number}")])
                assert found(index, "text", Filters(folder=f"{name}/{number}")) == [f"{name}/{number}"]
        except BaseException as error:  # noqa: BLE001 - a thread's failure is the test's
            failures.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b", "c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert index.count(EVERYTHING) == {"": 30}
    assert index_storage.maintenance.check("index") == []
