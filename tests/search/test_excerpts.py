from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.search.tokens import count_tokens, excerpt, head

TEXT = """# Rollback

The old journal mode copies pages.

Nothing of note here.
WAL reset corrupts the database.
It was fixed in a later version.
The end.
"""


def shown(text: str, *terms: str, limit: int = 100) -> str:
    return excerpt(text, terms, limit, head)[0]


@pytest.mark.parametrize(
    ("terms", "first_line"),
    [
        (("corrupts", "fixed", "version"), "Nothing of note here."),
        (("rollback",), "# Rollback"),
        (("absent",), "# Rollback"),
        ((), "# Rollback"),
        (("end",), "WAL reset corrupts the database."),
        (("corruption",), "The old journal mode copies pages."),
    ],
)
def test_it_starts_where_most_terms_begin_to_stand(terms: tuple[str, ...], first_line: str) -> None:
    assert shown(TEXT, *terms).splitlines()[0] == first_line


@pytest.mark.parametrize("text", ["", "   ", "\n\n\t\n"])
def test_an_empty_text_has_an_empty_excerpt(text: str) -> None:
    assert excerpt(text, ("term",), 10, head) == ("", 0)


def test_blank_lines_are_left_out() -> None:
    assert shown("a\n\n\nb\n") == "a\nb"


@given(st.text(max_size=300), st.lists(st.text(min_size=1, max_size=8), max_size=4), st.integers(0, 40))
def test_the_limit_holds_and_every_line_is_of_the_text(text: str, terms: list[str], limit: int) -> None:
    found, tokens = excerpt(text, terms, limit, head)
    assert tokens == count_tokens(found) <= limit
    lines = [line.strip() for line in text.splitlines()]
    for line in found.splitlines()[:-1]:
        assert line.strip() in lines
