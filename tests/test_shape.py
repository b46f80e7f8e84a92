"""The measures of `tests/shape.py` keep to the bounds of `tests/shape.toml`."""

from __future__ import annotations

from tests import shape


def test_no_measure_exceeds_its_bound_and_no_bound_is_loose() -> None:
    bounds = shape.read_settings()["bounds"]
    values = shape.measure()

    assert list(bounds) == list(values)
    assert {name: value for name, value in values.items() if value > bounds[name]} == {}
    assert {name: value for name, value in values.items() if shape.is_loose(value, bounds[name])} == {}


def test_the_functions_whose_calls_are_counted_exist() -> None:
    settings = shape.read_settings()
    for place in (*settings["parsers"], *settings["hashers"]):
        file, _, function = place.partition(":")
        assert f"def {function.rpartition('.')[2]}(" in (shape.ROOT / "src/scrimshaw" / file).read_text(), place


def test_a_participle_is_told_from_a_verb() -> None:
    words = ("told", "kept", "settled", "fenced", "telling", "embed", "read", "need", "found", "seed", "become")
    assert [shape.is_participle(word) for word in words] == [True] * 5 + [False] * 6
