"""Values out of what other programs wrote, of which nothing is certain."""

from __future__ import annotations

import math

import pytest

from scrimshaw.ingest.payload import number, parse_rows, result_text, select_rows, share


@pytest.mark.parametrize("value", [None, True, False, "3", [], math.nan, math.inf, 10**400])
def test_what_is_no_finite_number_is_none(value: object) -> None:
    assert number(value) is None


@pytest.mark.parametrize(
    ("part", "whole", "expected"),
    [(1, 4, 0.25), (5, 4, 1.0), (0, 4, None), (1, 0, None), (-1, 4, None), (1, -4, None), ("1", 4, None)],
)
def test_a_share_is_one_of_two_positive_numbers(part: object, whole: object, expected: float | None) -> None:
    assert share(part, whole) == expected


def test_text_that_lies_too_deep_is_not_looked_for() -> None:
    value: object = "deep"
    for _ in range(50):
        value = [value]
    assert result_text(value) == ""
    assert result_text([["a"], {"text": "b"}, 3]) == "a\nb"


def test_lines_that_are_no_objects_are_passed_over_and_counted() -> None:
    text = '{"a": 1}\n\n[1]\n{half\n{"b": "one\u2028line"}\n'
    assert parse_rows(text) == ([{"a": 1}, {"b": "one\u2028line"}], 2)


def test_only_lines_with_a_mark_are_read() -> None:
    lines = ['{"kind": "x"}', '{"kind": "y"}', '["x"]', '{"x": broken']
    assert list(select_rows(lines, '"x"', '"z"')) == [{"kind": "x"}]
