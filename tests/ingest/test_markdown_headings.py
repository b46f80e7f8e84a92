from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from scrimshaw.ingest.markdown import find_section, make_anchor, parse_headings, parse_page
from scrimshaw.models import Heading


def found_in(body: str) -> tuple[Heading, ...]:
    return parse_headings(body)


def test_headings_of_both_kinds_with_offsets() -> None:
    body = (
        "# One `code` & *more* #\r\ntext\r\n\r\nTwo\r\nlines\r\n---\r\n```\r\n# no\r\n```\r\n### [x](y) \\* ![i](z)\r\n"
    )
    assert [(h.level, h.text, h.anchor, body[h.start :][:4]) for h in found_in(body)] == [
        (1, "One code & more", "one-code--more", "# On"),
        (2, "Two lines", "two-lines", "Two\r"),
        (3, "x * i", "x--i", "### "),
    ]


@pytest.mark.parametrize(
    "body",
    [
        "~~~\n# a\n~~~\n",
        "    # indented code\n",
        "<!--\n# comment\n-->\n",
        "> # quoted\n",
        "- # in a list\n",
        "| a |\n|---|\n| b |\n---\n",
        "#no-space\n",
        "####### seven\n",
        "",
    ],
)
def test_what_only_looks_like_a_heading(body: str) -> None:
    assert found_in(body) == ()


def test_equal_headings_get_different_anchors() -> None:
    body = "# A\n# A\n# A-1\n# A\n# \n# !\n"
    assert [h.anchor for h in found_in(body)] == ["a", "a-1", "a-1-1", "a-2", "section", "section-1"]
    assert [h.anchor for h in found_in("# A-1\n# A\n# A\n")] == ["a-1", "a", "a-2"]


@pytest.mark.parametrize(
    ("text", "anchor"),
    [
        ("What's new in 2.0?", "whats-new-in-20"),
        ("snake_case & kebab-case", "snake_case--kebab-case"),
        ("Ärger mit Ü", "ärger-mit-ü"),
        ("हिन्दी", "हिन्दी"),
        ("日本語 の 見出し", "日本語-の-見出し"),
    ],
)
def test_an_anchor_is_the_one_github_makes(text: str, anchor: str) -> None:
    assert make_anchor(text) == anchor


@pytest.mark.parametrize(
    ("anchor", "text"),
    [
        ("a", "# A\n1\n## B\n2\n### C\n3\n## B\n4\n"),
        ("b", "## B\n2\n### C\n3\n"),
        ("#c", "### C\n3\n"),
        ("b-1", "## B\n4\n"),
        ("d", "# D\n5"),
        ("nowhere", None),
    ],
)
def test_section_ends_at_the_next_heading_of_its_rank(anchor: str, text: str | None) -> None:
    body = "intro\n# A\n1\n## B\n2\n### C\n3\n## B\n4\n# D\n5"
    assert find_section(body, found_in(body), anchor) == text


MARKED = """\
<!-- ANCHOR:summary -->
## 1. Summary
It prints.
<!-- ANCHOR:inner -->
Twice.
<!-- /ANCHOR:inner -->
<!-- /ANCHOR:summary -->
```
<!-- ANCHOR:code -->
<!-- /ANCHOR:code -->
```
- a list
  <!-- ANCHOR:decision-paper-1f -->
  Thermal paper.
  <!-- /ANCHOR:decision-paper-1f -->
<!-- ANCHOR:open -->
<!-- ANCHOR:summary -->
Later.
<!-- /ANCHOR:summary -->
"""


@pytest.mark.parametrize(
    ("anchor", "text"),
    [
        ("#inner", "Twice."),
        ("summary", MARKED[24:].partition("<!-- /ANCHOR:summary")[0].strip()),
        ("1-summary", MARKED[24:]),
        ("decision", "Thermal paper."),
        ("decision-paper-1f", "Thermal paper."),
        ("dec", None),
        ("open", None),
        ("code", None),
        ("", None),
    ],
)
def test_a_section_is_found_by_the_comments_around_it(anchor: str, text: str | None) -> None:
    assert find_section(MARKED, found_in(MARKED), anchor) == text


@pytest.mark.parametrize("named", ["Why not float?", "## Why not float?", "why not FLOAT", "#why-not-float"])
def test_a_section_is_found_by_the_words_of_its_heading(named: str) -> None:
    body = "# Money\n\nDecimal.\n\n## Why not float?\n\nA cent was lost.\n\n## Section\n\nLast.\n"
    assert find_section(body, found_in(body), named) == "## Why not float?\n\nA cent was lost.\n\n"
    assert (find_section(body, found_in(body), "float"), find_section(body, found_in(body), "")) == (None, None)


def test_a_mark_counts_more_than_a_heading_of_the_same_name() -> None:
    scope, rest = "## Scope\n\nReceipts alone.", "\n\nNot in the scope.\n\n## Budget\n\nTwo weeks.\n"
    body = f"# Till\n\n<!-- ANCHOR:scope -->\n{scope}\n<!-- /ANCHOR:scope -->{rest}"
    assert find_section(body, found_in(body), "#scope") == scope
    assert find_section(body, found_in(body), "budget") == "## Budget\n\nTwo weeks.\n"


pieces = st.sampled_from(
    [
        "# a\n",
        "## b *c*\n",
        "text\n",
        "\n",
        "===\n",
        "---\r\n",
        "```\n",
        "~~~\n",
        "> ",
        "- ",
        "    ",
        "<!--",
        "-->\n",
        "|a|\n",
    ]
)


@given(st.lists(pieces).map("".join) | st.text())
def test_headings_are_those_of_a_full_parse(body: str) -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(body)
    full = [(int(t.tag[1]), t.map[0]) for t in tokens if t.type == "heading_open" and t.level == 0 and t.map]
    assert [(h.level, len(re.findall(r"\r\n?|\n", body[: h.start]))) for h in found_in(body)] == full


@given(st.lists(pieces).map("".join))
def test_anchors_are_unique_and_open_their_own_section(body: str) -> None:
    found = found_in(body)
    assert len({h.anchor for h in found}) == len(found)
    for heading in found:
        text = find_section(body, found, heading.anchor)
        assert text
        assert body.startswith(text, heading.start)


RST = """\
=======
 Whales
=======

Text.

Where they *live*
=================

::

    code
    ====

A line before
and a line
----------

Depths
------

=====  =====
A      B
=====  =====

Where they *live*
=================
"""

ADOC = """\
= Whales
:toc:

== Depths

----
== no heading
----

=== Cold  water
"""


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        (
            "a.rst",
            RST,
            [(1, "whales"), (2, "where-they-live"), (3, "depths"), (2, "where-they-live-1")],
        ),
        ("a.adoc", ADOC, [(1, "whales"), (2, "depths"), (3, "cold-water")]),
        ("a.md", ADOC, [(2, "-no-heading")]),
    ],
)
def test_headings_of_other_markup(name: str, body: str, expected: list[tuple[int, str]], line_end: str) -> None:
    headings = parse_headings(body.replace("\n", line_end), name=name)
    assert [(each.level, each.anchor) for each in headings] == expected


_LINES = """# one;two;---;===;- a;  - b;1. c;> d;  e;    f;```;~~~;<div>;<!-- g;-->;|h|i|;|-|-|;|j|;* * *;[k]: /l;"m";;
;	n;-;+ o;> ;>- p;12) q;| r"""


@given(
    st.lists(st.sampled_from(_LINES.split(";")), max_size=14)
    | st.lists(st.text("#-=*>`~|+1.:[]<a \t", max_size=8), max_size=8)
)
def test_blocks_are_those_that_every_rule_finds(lines: list[str]) -> None:
    """Only rules that can begin as a line does are tried."""
    body, env = "\n".join(lines), dict[str, Any]()
    page = parse_page(body)
    assert page.blocks == MarkdownIt("commonmark").enable("table").disable("inline").parse(body, env)
    assert page.env == env
