from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.ingest.markdown import CHUNK_CHARS, split_chunks
from scrimshaw.models import Chunk, Heading

_LINE = re.compile(r"^(#{1,6}) +(.+)$", re.MULTILINE)


def headings(body: str) -> list[Heading]:
    return [
        Heading(level=len(m[1]), text=m[2], anchor=m[2].lower().replace(" ", "-"), start=m.start())
        for m in _LINE.finditer(body)
    ]


def cut(title: str, body: str, size: int = CHUNK_CHARS) -> tuple[list[Chunk], list[str]]:
    chunks = list(split_chunks(title, body, headings(body), size=size))
    return chunks, [body[each.start : each.end] for each in chunks]


def test_a_small_memory_is_one_chunk() -> None:
    body = "# Title\n\nSome text.\n\n## Part\n\nMore.\n"
    assert cut("Title", body)[0] == [
        Chunk(ordinal=0, anchor="title", heading="Title", start=0, end=len(body), context="Title\n")
    ]


@pytest.mark.parametrize(("title", "context"), [("Bare", "Bare\n"), ("", "")])
def test_an_empty_body_still_has_a_chunk(title: str, context: str) -> None:
    assert split_chunks(title, "") == (Chunk(ordinal=0, anchor="", heading="", start=0, end=0, context=context),)


def test_sections_are_cut_apart_and_know_their_path() -> None:
    body = "# Top\n" + "a " * 20 + "\n## Why\n" + "b " * 20 + "\n### Cost\n" + "c " * 20 + "\n## How\n" + "d " * 20
    chunks, _ = cut("Top", body, 60)
    assert [(each.anchor, each.context) for each in chunks] == [
        ("top", "Top\n"),
        ("why", "Top\n"),
        ("cost", "Top > Why\n"),
        ("how", "Top\n"),
    ]


def test_the_rest_of_a_long_section_names_it() -> None:
    body = "# Other\n## Why\n" + "words " * 30
    chunks, _ = cut("Title", body, 80)
    assert [each.context for each in chunks] == ["Title > Other\n"] + ["Title > Other > Why\n"] * 2
    assert {each.anchor for each in chunks} == {"why"}


def test_small_neighbours_share_a_chunk_named_after_the_first() -> None:
    body = "## A\nx\n## B\ny\n## C\n" + "z" * 50
    chunks, texts = cut("T", body, 30)
    assert texts[0] == "## A\nx\n## B\ny\n"
    assert chunks[0].anchor == "a"
    assert chunks[1].anchor == "c"


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        ("one one one\n\ntwo two two", ["one one one\n\n", "two two two"]),
        ("one one one\ntwo two two.", ["one one one\n", "two two two."]),
        ("One one one. Two two two", ["One one one. ", "Two two two"]),
        ("abcdefghijklm nopqrstuvw", ["abcdefghijklm ", "nopqrstuvw"]),
        ("abcdefghijklmnopqrstuvwxyz", ["abcdefghijklmno", "pqrstuvwxyz"]),
        ("a\n\nbcdefghijklmnopqrstuvwx", ["a\n\nbcdefghijklm", "nopqrstuvwx"]),
    ],
)
def test_where_a_long_text_is_cut(body: str, texts: list[str]) -> None:
    assert cut("T", body, 15)[1] == texts


def test_headings_are_taken_as_given() -> None:
    body = "```\n# not a heading\n```\n" + "text " * 10
    assert {each.anchor for each in split_chunks("T", body, (), size=30)} == {""}


def test_blank_text_makes_no_chunk_of_its_own() -> None:
    body = "\n" * 40 + "## A\n" + "x" * 25 + "\n" * 40
    chunks, _ = cut("T", body, 30)
    assert [each.anchor for each in chunks] == ["a"]


def test_a_heading_goes_with_the_text_below_it() -> None:
    chunks, texts = cut("T", "# T\n\n## A\n" + "x" * 24 + "\n## B\n" + "y" * 24, 30)
    assert [each.anchor for each in chunks] == ["a", "b"]
    assert texts[0].startswith("# T\n\n## A\nxxx")
    assert [each.context for each in chunks] == ["T\n", "T\n"]


_blocks = st.lists(
    st.sampled_from(["# H\n", "## Sub part\n", "### Deep\n", "word ", "a sentence. ", "\n", "\n\n", "x" * 30, "é"]),
    max_size=60,
)


@given(title=st.sampled_from(["", "T", "H"]), blocks=_blocks, size=st.integers(1, 120))
def test_chunks_cover_the_body_in_order(title: str, blocks: list[str], size: int) -> None:
    body = "".join(blocks)
    chunks, texts = cut(title, body, size)
    assert "".join(texts) == body
    assert [each.ordinal for each in chunks] == list(range(len(chunks)))
    assert all(text.strip() for text in texts) or len(texts) == 1
    assert all(len(re.sub(r"(?m)^#+ .*$", "", text).strip()) <= size for text in texts)


@given(blocks=_blocks, size=st.integers(20, 120))
def test_each_chunk_lies_under_its_heading(blocks: list[str], size: int) -> None:
    body = "".join(blocks)
    found = headings(body)
    for each in split_chunks("T", body, found, size=size):
        above = [heading for heading in found if heading.start < each.end]
        assert each.heading in ("", *(heading.text for heading in above))
        assert each.context.startswith("T")
        assert each.context.endswith("\n")
