"""The Index port: nearest memories, on whichever scan the engine uses."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.samples import digest, document, source_file
from tests.storage.contract import ENGINES, open_storage, vector

from scrimshaw.errors import StorageFailure
from scrimshaw.models import RECORD, Document, Filters, Redacted, Tier, Trust
from scrimshaw.storage.index import Index
from scrimshaw.storage.ports import Query

M = "model"
EVERYTHING = Filters(include_deprecated=True)
EAST, NORTH, UP, FOURTH = vector(1, 0, 0, 0), vector(0, 1, 0, 0), vector(0, 0, 1, 0), vector(0, 0, 0, 1)


def embed(index: Index, *named: tuple[str, object], model: str = M) -> None:
    """Give the chunk whose text is named its vector."""
    keys = {chunk.text: chunk.key for chunk in index.chunks_to_embed(model, after=0, limit=1000)}
    index.put_vectors(model, [(keys[text], row) for text, row in named])


def nearest(
    index: Index, query: object, filters: Filters = EVERYTHING, limit: int = 10, model: str = M
) -> list[tuple[str, int]]:
    return [(match.id, match.chunk) for match in index.match_vector(model, query, filters, limit)]


def test_nothing_is_near_in_an_index_without_vectors(index: Index) -> None:
    assert index.match_vector(M, EAST, EVERYTHING, 5) == []
    index.put([document("a")])
    assert index.match_vector(M, EAST, EVERYTHING, 5) == []


def test_pending_names_the_texts_in_the_order_of_their_places(index: Index) -> None:
    index.put([document("b", "two\n", " one "), document("a", "one"), document("c", "three")])
    pending = index.chunks_to_embed(M, after=0, limit=10)
    assert [chunk.text for chunk in pending] == ["two", "one", "one", "three"]
    assert [chunk.place for chunk in pending] == sorted({chunk.place for chunk in pending})
    assert pending[1].key == pending[2].key
    assert [chunk.text for chunk in index.chunks_to_embed(M, after=0, limit=2)] == ["two", "one"]
    embed(index, ("one", EAST))
    assert [chunk.text for chunk in index.chunks_to_embed(M, after=0, limit=10)] == ["two", "three"]
    assert index.vector_counts().progress(M) == (2, 4)
    assert len(index.chunks_to_embed("other", after=0, limit=10)) == 4


def test_pending_goes_on_behind_a_place(index: Index) -> None:
    index.put([document("a", "one\n", "two\n"), document("b", "three")])
    first, second, third = index.chunks_to_embed(M, after=0, limit=10)
    assert index.chunks_to_embed(M, after=first.place, limit=10) == [second, third]
    assert index.chunks_to_embed(M, after=first.place, limit=1) == [second]
    assert index.chunks_to_embed(M, after=third.place, limit=10) == []


def test_pending_is_the_text_that_the_chunk_says(index: Index) -> None:
    put = document("a", "first 🚀 piece\n", "zweites Stück\n\n", "  ")
    index.put([put])
    expected = [chunk.embedded_text(put.body.text) for chunk in put.chunks]
    assert [chunk.text for chunk in index.chunks_to_embed(M, after=0, limit=10)] == expected


def test_the_nearest_comes_first_with_its_cosine(index: Index) -> None:
    index.put([document("a", "ta"), document("b", "tb"), document("c", "tc")])
    embed(index, ("ta", vector(1, 1, 0, 0)), ("tb", EAST), ("tc", NORTH))
    matches = index.match_vector(M, EAST, EVERYTHING, 10)
    assert [match.id for match in matches] == ["b", "a", "c"]
    assert [match.score for match in matches] == pytest.approx([1.0, 0.7071, 0.0], abs=1e-3)
    assert nearest(index, EAST, limit=1) == [("b", 0)]


def test_a_near_question_brings_the_nearest_of_the_body(index: Index) -> None:
    index.put([document("a", "a0\n", "a1", questions=("When?", "Where?")), document("b", "b0")])
    embed(index, ("a0", UP), ("a1", vector(1, 2, 0, 0)), ("When?", NORTH), ("Where?", EAST), ("b0", vector(2, 1, 0, 0)))
    asked, other = index.match_vector(M, EAST, EVERYTHING, 10)
    assert (asked.id, asked.chunk, asked.question) == ("a", 1, 1)
    assert asked.score == pytest.approx(1.0, abs=1e-3)
    assert (other.id, other.chunk, other.question) == ("b", 0, -1)
    assert [(match.chunk, match.question) for match in index.match_vector(M, UP, EVERYTHING, 1)] == [(0, -1)]


def test_the_best_chunk_counts(index: Index) -> None:
    index.put([document("a", "a0\n", "a1\n", "a2"), document("b", "b0")])
    embed(index, ("a0", NORTH), ("a1", vector(9, 1, 0, 0)), ("a2", vector(1, 1, 0, 0)), ("b0", vector(2, 1, 0, 0)))
    assert nearest(index, EAST) == [("a", 1), ("b", 0)]
    assert nearest(index, NORTH)[0] == ("a", 0)


def test_many_chunks_of_one_memory_leave_room_for_others(index: Index) -> None:
    pieces = [f"piece {number}\n" for number in range(40)]
    index.put([document("long", *pieces), document("x", "tx"), document("y", "ty")])
    close = [(piece.strip(), vector(100, number, 0, 0)) for number, piece in enumerate(pieces)]
    embed(index, *close, ("tx", UP), ("ty", FOURTH))
    assert nearest(index, EAST, limit=3) == [("long", 0), ("x", 0), ("y", 0)]


def test_filters_are_respected(index: Index) -> None:
    index.put([document("a", "ta"), document("in/b", "tb"), document("in/c", "tc", tier=Tier.DEPRECATED)])
    embed(index, ("ta", EAST), ("tb", NORTH), ("tc", vector(1, 1, 0, 0)))
    assert nearest(index, EAST, Filters()) == [("a", 0), ("in/b", 0)]
    assert nearest(index, EAST, Filters(folder="in")) == [("in/b", 0)]
    assert nearest(index, EAST, Filters(folder="in", include_deprecated=True)) == [("in/c", 0), ("in/b", 0)]
    assert nearest(index, EAST, Filters(only=())) == []
    index.put([document("in/d", "ta")])
    assert nearest(index, EAST, Filters(folder="in"))[0] == ("in/d", 0)


def test_equal_scores_are_in_the_order_of_ids(index: Index) -> None:
    for name in ("c", "a", "b"):
        index.put([document(name, f"t{name}")])
    embed(index, ("tc", EAST), ("ta", EAST), ("tb", EAST))
    assert [name for name, _ in nearest(index, EAST)] == ["a", "b", "c"]


def test_a_search_follows_edits_and_deletes(index: Index) -> None:
    index.put([document("a", "ta"), document("b", "tb")])
    embed(index, ("ta", EAST), ("tb", NORTH))
    assert nearest(index, EAST)[0] == ("a", 0)
    index.put([document("a", "ta changed")])
    assert nearest(index, EAST) == [("b", 0)]
    embed(index, ("ta changed", UP))
    assert nearest(index, UP)[0] == ("a", 0)
    index.put([document("c", "tc")])
    embed(index, ("tc", UP))
    assert [name for name, _ in nearest(index, UP)][:2] == ["a", "c"]
    index.retire(["/vault/a.md"])
    assert [name for name, _ in nearest(index, UP)] == ["c", "b"]
    index.retire(None)
    assert nearest(index, UP) == []
    index.put([document("a", "again")])
    embed(index, ("again", UP))
    assert nearest(index, UP) == [("a", 0)]


@pytest.mark.parametrize("engine", ENGINES)
def test_another_engine_sees_what_was_written(engine: str, tmp_path: Path) -> None:
    with open_storage(engine, tmp_path) as storage, open_storage(engine, tmp_path) as again:
        index, other = storage.index, again.index
        index.put([document("a", "ta")])
        embed(index, ("ta", EAST))
        assert nearest(other, EAST) == [("a", 0)]
        index.put([document("b", "tb")])
        embed(index, ("tb", vector(3, 1, 0, 0)))
        assert nearest(other, EAST) == [("a", 0), ("b", 0)]


def test_an_unchanged_text_keeps_its_vector(index: Index) -> None:
    index.put([document("a", "same\n", "old")])
    embed(index, ("same", EAST), ("old", NORTH))
    embed(index, ("same", UP), model="second")
    index.put([document("a", "new\n", "same\n")])
    assert [chunk.text for chunk in index.chunks_to_embed(M, after=0, limit=10)] == ["new"]
    assert nearest(index, EAST) == [("a", 1)]
    assert nearest(index, UP, model="second") == [("a", 1)]
    index.put([document("moved", "same")])
    assert index.chunks_to_embed(M, after=0, limit=10)[0].text == "new"
    assert nearest(index, EAST) == [("a", 1), ("moved", 0)]


def test_models_do_not_mix(index: Index) -> None:
    index.put([document("a", "ta")])
    embed(index, ("ta", EAST))
    embed(index, ("ta", vector(1, 0)), model="small")
    assert index.vector_counts().by_model == {M: 1, "small": 1}
    assert nearest(index, vector(1, 0), model="small") == [("a", 0)]
    index.put_vectors("small", (), only=True)
    assert index.vector_counts().by_model == {"small": 1}
    assert nearest(index, EAST) == []
    assert index.vector_counts().progress(M) == (0, 1)


def test_mixed_dimensions_are_refused(index: Index) -> None:
    index.put([document("a", "ta"), document("b", "tb")])
    embed(index, ("ta", EAST))
    with pytest.raises(StorageFailure, match=r"model gave a vector of 3 numbers; the index holds 4"):
        embed(index, ("tb", vector(1, 0, 0)))
    assert index.vector_counts().by_model == {M: 1}
    with pytest.raises(StorageFailure):
        embed(index, ("ta", EAST), ("tb", vector(1, 0, 0)), model="fresh")
    assert index.vector_counts().by_model == {M: 1}
    index.put_vectors("other", (), only=True)
    embed(index, ("ta", vector(1, 0, 0)))
    assert nearest(index, vector(1, 0, 0)) == [("a", 0)]


def test_a_vector_for_a_text_that_is_gone_is_ignored(index: Index) -> None:
    index.put([document("a", "ta")])
    index.put_vectors(M, [(digest("gone")[:32], EAST)])
    assert index.vector_counts().by_model == {}


def test_the_same_vector_twice_is_stored_once(index: Index) -> None:
    index.put([document("a", "ta")])
    key = index.chunks_to_embed(M, after=0, limit=1)[0].key
    index.put_vectors(M, [(key, EAST), (key, EAST)])
    index.put_vectors(M, [(key, EAST)])
    assert index.vector_counts().progress(M) == (1, 1)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), steps=st.integers(1, 5), limit=st.integers(1, 6))
def test_both_scans_agree(tmp_path_factory: pytest.TempPathFactory, seed: int, steps: int, limit: int) -> None:
    """Random edits and deletes; the copy in memory follows, the scan on disk has nothing to follow."""
    random = np.random.default_rng(seed)
    folder = tmp_path_factory.mktemp("scans")
    with open_storage("sqlite", folder) as one_storage, open_storage("sqlite-disk-scan", folder) as other_storage:
        ram, disk = one_storage.index, other_storage.index
        for step in range(steps):
            for name in random.choice(list("abcdef"), size=3):
                pieces = [f"{name}{step}{number}\n" for number in range(random.integers(1, 4))]
                ram.put([document(str(name), *pieces)])
            ram.retire([f"/vault/{random.choice(list('abcdef'))}.md"])
            rows = [(chunk.key, vector(*random.normal(size=4))) for chunk in ram.chunks_to_embed(M, after=0, limit=100)]
            ram.put_vectors(M, rows)
            query = vector(*random.normal(size=4))
            for filters in (EVERYTHING, Filters(only=("a", "b", "c"))):
                one, two = (each.match_vector(M, query, filters, limit) for each in (ram, disk))
                assert [(match.id, match.chunk) for match in one] == [(match.id, match.chunk) for match in two]
                assert [match.score for match in one] == pytest.approx([match.score for match in two], abs=1e-6)


@pytest.mark.parametrize("engine", ["sqlite", "sqlite-disk-scan"])
def test_of_many_vectors_the_nearest_are_found_by_their_signs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setattr("scrimshaw.storage.sqlite.vectors.ALL_COMPARED", 500)
    monkeypatch.setattr("scrimshaw.storage.sqlite.vectors.LEAST_COMPARED", 150)
    monkeypatch.setattr("scrimshaw.storage.sqlite.vectors._BLOCK", 100)
    random = np.random.default_rng(3)
    subjects = random.normal(size=(60, 200))  # no multiple of 64
    with (
        open_storage(engine, tmp_path / "one") as one_storage,
        open_storage("memory", tmp_path / "two") as other_storage,
    ):
        found = dict[str, list[list[tuple[str, int]]]]()
        for name, index in (("some", one_storage.index), ("all", other_storage.index)):
            random = np.random.default_rng(4)
            found[name] = []
            for step in range(3):  # each puts some anew
                index.put(
                    [
                        document(f"m{number}", f"{number} {step}\n", f"b {number} {step}")
                        for number in range(0, 900, 1 + step)
                    ]
                )
                index.retire([f"/vault/m{step}.md"])
                keys = [chunk.key for chunk in index.chunks_to_embed(M, after=0, limit=3000)]
                rows = subjects[np.arange(len(keys)) % 60] + random.normal(size=(len(keys), 200)) * 0.6
                index.put_vectors(M, [(key, vector(*row)) for key, row in zip(keys, rows, strict=True)])
                for query in subjects[:20]:
                    found[name].append(nearest(index, vector(*query), limit=10))
                    found[name].append(nearest(index, vector(*query), Filters(folder="absent")))
                    found[name].append(nearest(index, vector(*query), Filters(only=("m6", "m12")), limit=1))
                if name == "some":
                    with open_storage(engine, tmp_path / "one") as opened:  # reads blocks, of which some rows are gone
                        again = [nearest(opened.index, vector(*query), limit=10) for query in subjects[:20]]
                    assert again == found[name][-60::3]
    pairs = list(zip(found["some"], found["all"], strict=True))
    assert sum(len({*some} & {*every}) for some, every in pairs) >= 0.99 * sum(len(every) for _, every in pairs)
    assert all(some[:1] == every[:1] for some, every in pairs)


def test_blocks_of_signs_begin_anew_once_most_of_their_vectors_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrimshaw.storage.sqlite.vectors._BLOCK", 10)
    with open_storage("sqlite", tmp_path) as storage:
        index = storage.index
        blocks = list[tuple[object, ...]]()
        for step in range(4):
            index.put([document(f"m{number}", f"{number} {step}") for number in range(34)])
            embed(index, *((f"{number} {step}", EAST) for number in range(34)))
            with closing(apsw.Connection(str(tmp_path / "index.db"))) as connection:
                blocks += connection.execute("SELECT count(*) FROM vector_blocks").fetchall()
    assert blocks == [(3,)] * 4


def recorded(session: str, *pieces: str) -> Document:
    """The record of a session, a passage a piece."""
    name = f"session:{session}"
    made = document(name, *pieces, file=source_file(name, source=RECORD, path=name, writable=False))
    passages = [
        replace(chunk, anchor=f"e{chunk.ordinal}", at=f"2026-01-0{chunk.ordinal + 1}", trust=Trust.TOOL)
        for chunk in made.chunks
    ]
    return replace(made, chunks=tuple(passages), body=Redacted(text="".join(pieces)))


def test_the_record_of_the_session_that_came_last_is_embedded_first(index: Index) -> None:
    index.put([recorded("old", "seal. ", "otter. "), recorded("new", "walrus. "), document("a", "gull")])
    waiting = index.chunks_to_embed(M, after=0, limit=9, record=True)
    assert [chunk.text for chunk in waiting] == ["walrus.", "otter.", "seal."]


def test_of_a_record_passages_are_found_and_only_where_it_is_named(index: Index) -> None:
    index.put([document("a", "seal"), recorded("s", "seal one. ", "seal two. ", "walrus. "), recorded("t", "otter. ")])
    embed(index, ("seal", EAST))
    index.put_vectors(M, [(c.key, NORTH) for c in index.chunks_to_embed(M, after=0, limit=9, record=True)])
    assert index.chunks_to_embed(M, after=0, limit=9) == []
    assert (index.vector_counts().progress(M), index.vector_counts(record=True).progress(M)) == ((1, 1), (4, 4))
    query, of_record = Query((("seal",),)), Filters(source=RECORD)
    assert [match.id for match in index.match_text(query, EVERYTHING, 9)] == ["a"]
    assert nearest(index, NORTH) == [("a", 0)]
    assert sorted((match.id, match.chunk) for match in index.match_text(query, of_record, 9)) == [
        ("session:s", 0),
        ("session:s", 1),
    ]
    assert len(nearest(index, NORTH, of_record)) == 4
    assert len(nearest(index, NORTH, of_record, limit=2)) == 2
    places = [("session:s", 1), ("session:s", 2), ("session:none", 0), ("session:t", 0)]
    found = index.passages(places, index.get(["session:s", "session:none"]))
    assert {place: (each.id, each.updated) for place, each in found.items()} == {
        ("session:s", 1): ("session:s#e1", "2026-01-02"),
        ("session:s", 2): ("session:s#e2", "2026-01-03"),
    }
    assert {each.provenance.trust for each in found.values()} == {Trust.TOOL}
    assert index.passages([], {}) == {}
    assert sorted(index.get(["a", "session:t"])) == ["a", "session:t"]


def test_a_session_of_one_passage_stands_behind_none_of_several(index: Index) -> None:
    index.put([recorded("a", "seal. ", "walrus. "), recorded("b", "seal. ")])
    matches = index.match_text(Query((("seal",),)), Filters(source=RECORD), 9)
    assert matches[0].score == pytest.approx(matches[1].score, rel=0.1)


def test_token_vectors_belong_to_the_text_and_are_read_with_it(index: Index) -> None:
    put = document("a", "one\n", "two")
    index.put([put, recorded("s", "one\n")])
    embed(index, ("one", EAST), ("two", NORTH))
    first = index.chunks_to_embed(M, after=0, limit=9, tokens=True)[0]
    assert [chunk.text for chunk in index.chunks_to_embed(M, after=0, limit=9, tokens=True)] == ["one", "two"]
    index.put_vectors(M, (), tokens={first.key: b"packed"})
    assert [chunk.text for chunk in index.chunks_to_embed(M, after=0, limit=9, tokens=True)] == ["two"]
    assert index.chunks_to_embed(M, after=0, limit=9) == []
    wanted = [("a", 0), ("a", 1)]
    assert [piece.tokens for piece in index.pieces(wanted, vectors_of=M).values()] == [b"packed", b""]
    assert [piece.tokens for piece in index.pieces(wanted, vectors_of="other").values()] == [b"", b""]
    assert [piece.text for piece in index.pieces(wanted, vectors_of=M).values()] == ["", ""]
    own = [np.frombuffer(piece.vector, np.float16) for piece in index.pieces(wanted, vectors_of=M).values()]
    assert np.array_equal(own, np.array([EAST, NORTH], np.float16))
    assert [piece.vector for piece in index.pieces(wanted, vectors_of="other").values()] == [b"", b""]
    assert [piece.tokens for piece in index.pieces(wanted).values()] == [b"", b""]
    assert index.vector_counts().with_tokens == index.vector_counts(record=True).with_tokens == 2  # both have the text


def test_a_text_that_stays_keeps_its_token_vectors_and_one_that_goes_takes_them(index: Index) -> None:
    index.put([document("a", "one\n", "two")])
    keys = [chunk.key for chunk in index.chunks_to_embed(M, after=0, limit=9)]
    index.put_vectors(M, [(key, EAST) for key in keys], tokens=dict.fromkeys(keys, b"packed"))
    index.put([document("a", "one\n", "three")])
    assert [piece.tokens for piece in index.pieces([("a", 0), ("a", 1)], vectors_of=M).values()] == [b"packed", b""]
    index.put_vectors("other", [(keys[0], NORTH)], only=True)
    assert index.vector_counts().with_tokens == 0
