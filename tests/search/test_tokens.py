from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from scrimshaw.search.tokens import END, START, TOKENIZER_FILE, UNKNOWN, clip, find_pieces, piece_ids

PAGES = (*(Path(__file__).parents[2] / "docs").glob("*.md"), Path(__file__))

# Letters, white space, marks that are stripped, syllables that fall apart, characters outside the vocabulary.
ANY_TEXT = st.one_of(
    st.text(max_size=300),
    st.text(alphabet="ab Z_.\n\té́한글日本😀ქა\x00", max_size=300),
    st.text(alphabet="xyz0", min_size=80, max_size=400),
)


def count_pieces(text: str) -> int:
    """The number of pieces that `clip` counts."""
    return sum(piece.cost for piece in find_pieces(text))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        (" \n\t\n", 0),
        ("hello", 1),
        ("Hello, world!", 4),
        ("snake_case", 3),
        ("one\n\n    two", 2),
        ("😀😀😀", 3),
        ("日本", 2),
    ],
)
def test_tokens_are_counted(text: str, tokens: int) -> None:
    assert count_pieces(text) == tokens


def test_a_long_text_is_counted_whole() -> None:
    assert count_pieces("memory " * 5000) == 5000


def test_a_long_word_is_not_one_token() -> None:
    assert count_pieces("ab12" * 1000) > 1000


def test_a_lone_surrogate_counts() -> None:
    assert count_pieces("broken \ud800 text") == 3
    assert clip("broken \ud800 text", 2) == "broken \ud800"


@pytest.mark.parametrize(
    ("text", "limit", "start"),
    [
        ("one two three", 2, "one two"),
        ("one two three", 3, "one two three"),
        ("one two\n", 2, "one two\n"),
        ("one two three", 0, ""),
        ("one two three", -1, ""),
        ("", 5, ""),
        ("one" + " " * 500 + "two three", 2, "one" + " " * 500 + "two"),
        ("한국", 4, "한"),
    ],
)
def test_a_text_is_clipped_to_its_tokens(text: str, limit: int, start: str) -> None:
    assert clip(text, limit) == start


@settings(deadline=None)
@given(text=ANY_TEXT, limit=st.integers(0, 80))
def test_a_clip_is_a_start_within_the_limit(text: str, limit: int) -> None:
    cut = clip(text, limit)
    assert text.startswith(cut)
    assert count_pieces(cut) <= limit
    assert clip(cut, limit) == cut


@settings(deadline=None)
@given(text=ANY_TEXT)
def test_what_fits_is_not_touched(text: str) -> None:
    assert clip(text, count_pieces(text)) == text


@settings(deadline=None)
@given(words=st.lists(st.sampled_from(["memory", "index", "42", "."]), max_size=60), limit=st.integers(0, 80))
def test_a_clip_uses_its_room(words: list[str], limit: int) -> None:
    assert count_pieces(clip(" ".join(words), limit)) == min(len(words), limit)


def test_piece_ids_are_cut_between_the_markers() -> None:
    ids = piece_ids("memory " * 400, 256)
    assert (ids[0], ids[-1], len(ids)) == (START, END, 256)
    assert piece_ids("", 256) == [START, END]
    assert UNKNOWN not in piece_ids("x" * 150, 256)


@pytest.fixture(scope="module")
def reference() -> Tokenizer:
    """The tokenizer that the model was trained with."""
    tokenizer = Tokenizer.from_file(str(TOKENIZER_FILE))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pieces_and_their_places_are_those_of_the_model(reference: Tokenizer, page: Path) -> None:
    for line in page.read_text().splitlines():
        expected = reference.encode(line, add_special_tokens=False)
        found = [*find_pieces(line)]
        assert [piece.id for piece in found] == expected.ids, line
        assert [(piece.start, piece.end) for piece in found] == expected.offsets, line


@given(st.text(alphabet="aZé0 \n\té한글日本😀ქİΣßﬁ_.-'\x00\x0b\x1c\x85\u200b\u3000", max_size=80))
def test_pieces_of_odd_texts_are_those_of_the_model(reference: Tokenizer, text: str) -> None:
    assert [piece.id for piece in find_pieces(text)] == reference.encode(text, add_special_tokens=False).ids
