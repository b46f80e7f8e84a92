"""Characters that act without being seen are shown or left out; letters of every script stay."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.ingest.invisible_characters import REPLACEMENT, escape_invisible, replace_invisible


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a\x1b[31mred", f"a{REPLACEMENT}[31mred"),
        ("a\x9b31mred", f"a{REPLACEMENT}31mred"),
        ("a\x07\x7f", f"a{REPLACEMENT}{REPLACEMENT}"),
        ("ab\u202ecd\u2066", f"ab{REPLACEMENT}cd{REPLACEMENT}"),
        ("over\rwritten", f"over{REPLACEMENT}written"),
        ("ig\u200bno\u2060re\ufeff", "ignore"),
        ("a\u200db\u200cc", "abc"),
        ("hi\U000e0068\U000e0069", "hi"),
        ("a\ufe01\ufe02\U000e0101", "a"),
    ],
)
def test_what_acts_unseen_is_shown_or_left_out(text: str, wanted: str) -> None:
    assert replace_invisible(text) == wanted


@pytest.mark.parametrize(
    "text",
    [
        "a\tb\r\nc\n",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f\u200d\U0001f525 1\ufe0f\u20e3",
        "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "naïve Ünïcödé 文字 привет",
    ],
)
def test_letters_and_emoji_stay(text: str) -> None:
    assert replace_invisible(text) == text


@given(st.text())
def test_json_keeps_its_meaning(text: str) -> None:
    encoded = json.dumps([text], ensure_ascii=False)
    spelled = escape_invisible(encoded)
    assert json.loads(spelled) == [text]
    assert not {"\x9b", "\u202e", "\u200b"} & {*spelled}
