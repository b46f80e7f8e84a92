from __future__ import annotations

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.search.tokens import MAX_TERMS, STOP_WORDS, query_terms
from scrimshaw.storage.ports import Query
from scrimshaw.storage.sqlite.index import match_expression


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ()),
        (" \n\t", ()),
        ("?!", ()),
        ("How do I stop the worker?", ("stop", "worker")),
        ("Worker WORKER worker", ("worker",)),
        ("src/app.py", ("src", "app", "py")),
        ("snake_case and kebab-case", ("snake", "case", "kebab")),
        ("camelCase", ("camelcase",)),
        ("don't panic", ("panic",)),
        ("what is this?", ("what", "is", "this")),
        ('NEAR("a" b) title:x OR -y', ("near", "b", "title", "x", "y")),
        ("größe 日本語 C++", ("größe", "日本語", "c")),
    ],
)
def test_a_query_is_split_into_terms(query: str, expected: tuple[str, ...]) -> None:
    assert query_terms(query) == expected


def test_terms_are_capped_at_the_first_ones() -> None:
    found = query_terms(" ".join(f"w{n}" for n in range(5 * MAX_TERMS)))
    assert found == tuple(f"w{n}" for n in range(MAX_TERMS))
    assert query_terms("red green blue", limit=2) == ("red", "green")


def test_the_stop_list_spares_words_that_name_things() -> None:
    assert not STOP_WORDS & {"off", "null", "true", "false", "none", "new", "test", "fix", "branch", "error"}


@pytest.mark.parametrize(
    ("words", "expected"), [((), ""), (("a",), '"a"'), (("a", "not"), '"a" OR "not"'), (('a"b',), '"a""b"')]
)
def test_terms_become_a_match_expression(words: tuple[str, ...], expected: str) -> None:
    assert match_expression(Query((words,))) == expected


@given(st.text(max_size=300))
def test_terms_are_distinct_lower_case_and_stable(query: str) -> None:
    found = query_terms(query)
    assert len(set(found)) == len(found) <= MAX_TERMS
    assert all(term == term.lower() and "_" not in term for term in found)
    assert set(found).isdisjoint(STOP_WORDS) or set(found) <= STOP_WORDS


@pytest.fixture(scope="module")
def index() -> apsw.Connection:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE t USING fts5 (title, body, tokenize = 'porter unicode61')")
    return connection


@given(query=st.text(max_size=300))
def test_no_query_breaks_the_engine(index: apsw.Connection, query: str) -> None:
    if expression := match_expression(Query((query_terms(query),))):
        assert index.execute("SELECT rowid FROM t WHERE t MATCH ?", (expression,)).fetchall() == []


@given(word=st.text(st.characters(categories=("Lu", "Ll", "Nd"), max_codepoint=0x17F), min_size=1, max_size=12))
def test_a_word_of_a_document_finds_it(word: str) -> None:
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE t USING fts5 (body, tokenize = 'porter unicode61')")
    connection.execute("INSERT INTO t VALUES (?)", (f"before {word}, after",))
    expression = match_expression(Query((query_terms(f"({word})?"),)))
    assert connection.execute("SELECT rowid FROM t WHERE t MATCH ?", (expression,)).fetchall() == [(1,)]
