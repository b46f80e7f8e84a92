"""Merging front matter: nothing that a side added is lost, what a side took away is gone, order does not matter."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.ingest.memory_file import MemoryFile, merge_front_matter, parse_memory_file, render_memory_file

words = st.sampled_from(["tide", "gate", "pilot", "log", "quay"])
values = st.fixed_dictionaries(
    {},
    optional={
        "title": words,
        "tier": st.sampled_from(["normal", "important"]),
        "topics": st.lists(words, min_size=1, unique=True),
        "trigger_phrases": st.lists(words, min_size=1, unique=True),
        "relations": st.dictionaries(st.sampled_from(["caused", "supports"]), st.lists(words, min_size=1, unique=True)),
        "updated": st.sampled_from(["2026-01-01", "2026-02-01", "2026-03-01"]),
    },
)


def file(fields: Mapping[str, object]) -> MemoryFile:
    return render_memory_file(fields, "text\n")


def as_sets(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: as_sets(item) for key, item in value.items() if item}
    return frozenset(value) if isinstance(value, list) else value


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged"),
    [
        ({"tier": "normal"}, {"tier": "normal"}, {"tier": "important"}, {"tier": "important"}),
        ({"tier": "normal"}, {"tier": "critical"}, {"tier": "normal"}, {"tier": "critical"}),
        ({"topics": ["a", "b"]}, {"topics": ["b"]}, {"topics": ["a", "b", "c"]}, {"topics": ["b", "c"]}),
        ({}, {"topics": ["a"]}, {"topics": ["b"]}, {"topics": ["a", "b"]}),
        ({"topics": ["a"]}, {}, {"topics": ["a"]}, {}),
        (
            {"title": "x", "updated": "2026-01-01"},
            {"title": "y", "updated": "2026-01-02"},
            {"title": "z", "updated": "2026-01-03"},
            {"title": "y", "updated": "2026-01-03"},
        ),
        (
            {"relations": {"caused": ["a"]}},
            {"relations": {"caused": ["a", "b"]}},
            {"relations": {"caused": ["a"], "supports": ["c"]}},
            {"relations": {"caused": ["a", "b"], "supports": ["c"]}},
        ),
    ],
)
def test_each_key_is_merged_by_its_kind(
    base: dict[str, object], ours: dict[str, object], theirs: dict[str, object], merged: dict[str, object]
) -> None:
    assert merge_front_matter(file(base), file(ours), file(theirs))[1].values == merged


def test_what_did_not_change_keeps_its_form() -> None:
    ours = parse_memory_file("---\ntitle: 'Gate'   # quoted\n\ntopics:\n    - tide\n---\ntext\n")
    theirs = parse_memory_file("---\ntitle: 'Gate'   # quoted\n\ntopics:\n    - tide\ntier: important\n---\ntext\n")
    assert [each.text for each in merge_front_matter(ours, ours, theirs)] == [theirs.text] * 3


def test_what_both_sides_changed_differs_in_the_forms_and_nothing_else_does() -> None:
    forms = merge_front_matter(
        file({"title": "x", "tier": "normal", "quality": {"score": 1.0}, "updated": "2026-01-01"}),
        file({"title": "y", "tier": "important", "quality": {"score": 0.8}, "updated": "2026-01-03"}),
        file({"title": "x", "tier": "critical", "quality": {"score": 0.7}, "updated": "2026-01-02", "topics": ["a"]}),
    )
    same = {"title": "y", "quality": {"score": "0.8"}, "updated": "2026-01-03", "topics": ["a"]}
    assert [each.values for each in forms] == [{**same, "tier": tier} for tier in ("normal", "important", "critical")]


@given(values, values, values)
def test_order_does_not_matter_and_nothing_added_is_lost(
    base: dict[str, object], one: dict[str, object], two: dict[str, object]
) -> None:
    old, merged, theirs = merge_front_matter(file(base), file(one), file(two))
    same, ours, other_way = merge_front_matter(file(base), file(two), file(one))
    assert [as_sets(each.values) for each in (old, merged, theirs)] == [
        as_sets(each.values) for each in (same, other_way, ours)
    ]
    for key in ("topics", "trigger_phrases"):
        before, own, other = (set(each.get(key, ())) for each in (base, one, two))  # type: ignore[call-overload]
        assert set(merged.values.get(key, ())) == (own | other) - (before - own) - (before - other)  # type: ignore[call-overload]
    assert parse_memory_file(merged.text).values == merged.values


@given(values, values)
def test_a_side_that_changed_nothing_yields(base: dict[str, object], one: dict[str, object]) -> None:
    for ours, theirs in ((one, base), (base, one)):
        forms = merge_front_matter(file(base), file(ours), file(theirs))
        assert [as_sets(each.values) for each in forms] == [as_sets(file(one).values)] * 3
    assert [each.text for each in merge_front_matter(file(base), file(one), file(one))] == [file(one).text] * 3
