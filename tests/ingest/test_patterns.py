"""The check that rejects patterns which repeat a repeat."""

from __future__ import annotations

import time

import pytest
import re2
from hypothesis import given, settings
from hypothesis import strategies as st

from scrimshaw.ingest.extraction import compile_pattern
from scrimshaw.ingest.rule_checks import DANGEROUS, REFUSED, find_danger

CATASTROPHIC = [
    "(a+)+$",
    "(a*)*b",
    "(a?)*b",
    r"(\w+\s?)*$",
    r"(?:\d+,?)+;",
    "([a-z]+)*!",
    "(a{1,3}){2,}b",
    "^(a?){30}a{30}$",
    r"(\w)\1+",
]
HARMLESS = [
    # An engine that backtracks would need long for these; RE2 does not.
    "(a|ab|b)*c",
    "(?:x+x+)+y",
    "(.*,)*x",
    "(?i)(A|a)+z",
    r"((?:\s|[^x])*)y",
    "(.*a){20}",
    "error",
    r"^Read$",
    r"spec\.md$",
    r"(?i)\berrors?\b",
    r"(?:\w+\s)+end",
    r"(?:ab|cd)*e",
    r"([^,\n]*,)*x",
    r"(?:[^\n]*\n)*end",
    r"error.*timeout",
    r"^(?:\S*/)?plan\.md",
    r"\d+ (?:passed|failed)",
    r"a{2,5}b{2,5}",
    r"(\d{1,3}\.){3}\d{1,3}",
    r"(?m)^\[[^\]\n]{1,200} [0-9a-f]{7,40}\] ",
    r"(?:\s+\w+)*;",
    r"(?:/[^/\s]+)+",
    r"(?:\d\d){3}",
    r"(?i)(?:a|b)+",
    r"\s*\s*x",
    r"\x41\101\x{1F600}\pL[[:alpha:]\-\]]\Q(a)+\E",
]


@pytest.mark.parametrize("pattern", CATASTROPHIC)
def test_catastrophic_pattern_is_turned_away(pattern: str) -> None:
    danger = find_danger(pattern)
    assert danger is not None
    assert danger[0] == DANGEROUS
    assert all(danger)


@pytest.mark.parametrize("pattern", HARMLESS)
def test_harmless_pattern_is_accepted(pattern: str) -> None:
    assert find_danger(pattern) is None


@pytest.mark.parametrize("pattern", ["(?=a)b", "(?<!a)b", "a++", "(?(1)a|b)", "(unclosed", "[a", "(a{1,100}){1,100}b"])
def test_pattern_that_re2_refuses_is_named_as_such(pattern: str) -> None:
    danger = find_danger(pattern)
    assert danger is not None
    assert danger[0] == REFUSED


def test_matching_is_linear_even_for_a_missed_pattern() -> None:
    text = "a" * 200_000 + "!"
    started = time.thread_time()
    assert not compile_pattern("(a+)+$").search(text)
    assert time.thread_time() - started < 2


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab|()*+?[]{}1,2^$.\\dws-", max_size=14))
def test_whatever_re2_accepts_is_judged(pattern: str) -> None:
    danger = find_danger(pattern)
    try:
        compile_pattern(pattern)
    except re2.error:
        assert danger is not None
