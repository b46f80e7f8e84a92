"""TOML that anybody may have written."""

from __future__ import annotations

import pytest

from scrimshaw.toml_text import DEEPEST, parse_toml


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 20_000,
        "a = " + "[" * 200 + "]" * 200,
        ".".join("a" * 100) + " = 1",
        "a = " + "{b = " * 100 + "1" + "}" * 100,
        "a = ",
    ],
)
def test_what_no_file_of_ours_needs_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - tomllib's own words, or ours
        parse_toml(text)


def test_what_is_deep_enough_is_read() -> None:
    inner = DEEPEST - 1
    assert str(parse_toml("a = " + "[" * inner + "]" * inner)["a"]).count("[") == inner
