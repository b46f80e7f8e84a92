"""Words ranked from lists in memory, beside FTS5's own ranks over the same file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.samples import document, source_file

from scrimshaw.models import RECORD, Document, Filters, Match, Tier
from scrimshaw.storage.ports import Query
from scrimshaw.storage.sqlite.database import Database
from scrimshaw.storage.sqlite.index import SqliteIndex
from scrimshaw.storage.sqlite.words import WordScan

# Common and rare words, words of one stem, words of several tokens and of none, and one that takes two bytes to count.
WORDS = ("the", "index", "indexes", "Straße", "a_b", "b", "search-path", "×", "rare", "日本語", "wal")
EVERYTHING = Filters(include_deprecated=True)
FILTERS = (EVERYTHING, Filters(), Filters(folder="in"), Filters(exclude=("m1", "in/m2")), Filters(source=RECORD))

texts = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)
pieces = st.lists(texts.map(lambda text: f"{text}\n"), min_size=1, max_size=3)
names = st.sampled_from(["m1", "in/m2", "in/the-index", "m4", "m5"])
documents = st.builds(
    lambda name, text, title, tier, source: document(
        name, *text, title=title, tier=tier, triggers=(title,), file=source_file(name, source=source)
    ),
    names,
    pieces,
    texts,
    st.sampled_from([Tier.NORMAL, Tier.DEPRECATED]),
    st.sampled_from(["vault", "vault", RECORD]),
)
steps = st.lists(st.one_of(st.lists(documents, min_size=1, max_size=4), names), min_size=1, max_size=8)
queries = st.lists(st.sampled_from(WORDS), min_size=1, max_size=5).map(tuple)


@contextmanager
def two_ways(folder: Path, most_mb: int = 1) -> Iterator[tuple[SqliteIndex, SqliteIndex]]:
    """An index whose words FTS5 ranks, and one over the same file that ranks them from lists, however few they are."""
    database = Database(folder / "index.db", "index", durable=False, busy_timeout_ms=1000)
    by_fts5 = SqliteIndex(database, ram_scan_max=0, word_lists_mb=0)
    from_lists = SqliteIndex(database, ram_scan_max=0, word_lists_mb=most_mb)
    from_lists.few_chunks = 0
    from_lists.match_text(Query((("first",),)), EVERYTHING, 1)  # which is FTS5's
    yield by_fts5, from_lists
    database.close()


def assert_same(indexes: Sequence[SqliteIndex], words: tuple[str, ...]) -> None:
    """Ids, passages and scores are the same to the last bit, whatever is asked for."""
    for filters in FILTERS:
        for limit in (1, 3, 50):
            one, other = ([*index.match_text(Query((words,)), filters, limit)] for index in indexes)
            assert one == other


def test_what_is_put_during_a_search_is_never_found_against_its_filters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with two_ways(tmp_path) as (_, index):
        index.put([document("in/a", "rare")])
        satisfy = index._rows_satisfying

        def satisfy_before_a_change(filters: Filters, generation: int) -> object:
            found = satisfy(filters, generation)
            index.put([document("out/b", "rare")])
            return found

        monkeypatch.setattr(index, "_rows_satisfying", satisfy_before_a_change)
        assert [match.id for match in index.match_text(Query((("rare",),)), Filters(folder="in"), 5)] == ["in/a"]


@given(steps, queries)
def test_scores_are_those_of_fts5_whatever_was_put_and_retired(
    changes: list[list[Document] | str], words: tuple[str, ...]
) -> None:
    with TemporaryDirectory() as folder, two_ways(Path(folder)) as indexes:
        for number, change in enumerate(changes):
            writer = indexes[number % 2]  # either of them, as another process would
            if isinstance(change, str):
                writer.retire([f"/vault/{change}.md"])
            else:
                writer.put(change)
            assert_same(indexes, words)


def test_most_rows_gone_are_forgotten(tmp_path: Path) -> None:
    with two_ways(tmp_path) as indexes:
        indexes[0].put([document(f"m{number}", "the index\n", "the wal") for number in range(30)])
        assert_same(indexes, ("index", "the"))
        indexes[0].retire([f"/vault/m{number}.md" for number in range(25)])
        indexes[0].put([document("new", "index of the new")])
        assert_same(indexes, ("index", "the"))
        indexes[0].retire(None)
        assert_same(indexes, ("index",))
        indexes[0].put([document("m1", "the index again")])
        assert_same(indexes, ("index", "again"))
        assert (indexes[0]._scans[2], indexes[1]._scans[2]._many) == (None, 1)


def test_another_file_in_its_place_has_its_own_ids(tmp_path: Path) -> None:
    with two_ways(tmp_path) as (_, index):
        for name in ("old", "new"):
            index.put([document(name, "the same text")])
            assert [match.id for match in index.match_text(Query((("text",),)), EVERYTHING, 5)] == [name]
            for file in tmp_path.glob("index.db*"):
                file.unlink()


def test_long_texts_and_many_rows_keep_their_scores(tmp_path: Path) -> None:
    with two_ways(tmp_path) as indexes:
        many = [document(f"m{number}", "index " * (number * 40), "wal " * (number % 7)) for number in range(1, 80)]
        indexes[0].put(many)
        assert_same(indexes, ("index", "wal"))


def test_what_is_asked_for_least_recently_is_forgotten_first(tmp_path: Path) -> None:
    with two_ways(tmp_path) as (index, _):
        index.put([document(f"m{number}", "one two three") for number in range(100)])
        scan, all_ = WordScan(index._file, (2.0, 2.0, 2.0, 1.0), 20, most_bytes=2_000), np.ones(200, dtype=bool)
        for words in (("one", "two"), ("one",), ("three",)):
            assert scan(words, 1, all_, 5)
        assert [*scan._lists] == [("on",), ("three",)]
        assert scan(("two", "one", "three"), 1, all_, -1) == WordScan(index._file, (2.0, 2.0, 2.0, 1.0), 20, 1)(
            ("two", "one", "three"), 1, all_, -1
        )


@pytest.mark.parametrize("query", [Query((("index",), ("wal",))), Query((("ind",),), is_prefix=True)])
def test_other_queries_are_left_to_fts5(tmp_path: Path, query: Query) -> None:
    with two_ways(tmp_path) as indexes:
        indexes[0].put([document("a", "index of the wal"), document("b", "index")])
        found: list[list[Match]] = [index.match_text(query, EVERYTHING, 5) for index in indexes]
        assert found[0] == found[1] != []
