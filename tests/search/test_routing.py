from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.models import ArtifactClass, Channel
from scrimshaw.search.routing import route


@pytest.mark.parametrize(
    ("query", "artifact"),
    [
        ("the checklist for releases", ArtifactClass.CHECKLIST),
        ("open tasks of phase two", ArtifactClass.TASKS),
        ("decision record about queues", ArtifactClass.DECISION_RECORD),
        ("what was implemented in March", ArtifactClass.IMPLEMENTATION_SUMMARY),
        ("implementation plan", ArtifactClass.PLAN),
        ("requirements of the export", ArtifactClass.SPEC),
        ("findings on latency", ArtifactClass.RESEARCH),
        ("my last session", ArtifactClass.MEMORY),
        ("multitasking planet inspector", None),
        ("", None),
    ],
)
def test_a_class_is_named_by_whole_words(query: str, artifact: ArtifactClass | None) -> None:
    assert route(query).artifact == artifact


@pytest.mark.parametrize(
    ("query", "asks"),
    [
        ("which tasks of 003 are still open?", True),
        ("next task of the export", True),
        ("what is left to do in the release checklist", True),
        ("tasks that are not yet done", True),
        ("which task opened the port", False),
        ("what is still open in the plan", False),
    ],
)
def test_a_query_asks_for_the_open_items_of_a_list(query: str, asks: bool) -> None:
    assert route(query).asks_for_open is asks


def test_the_class_named_in_most_letters_counts() -> None:
    assert route("the specifications, not the plan").artifact == ArtifactClass.SPEC
    assert route("the spec, not the roadmap").artifact == ArtifactClass.PLAN


def test_the_words_of_a_query_that_names_a_class_count_more() -> None:
    plain, named = route("apsw wal").weights, route("apsw wal spec").weights
    assert named[Channel.VECTOR] < plain[Channel.VECTOR]
    assert named[Channel.TEXT] == plain[Channel.TEXT]
    assert route("apsw wal memory").artifact == ArtifactClass.MEMORY
    assert route("apsw wal memory").weights == plain


@given(st.text(max_size=80))
def test_any_query_has_a_weight_for_every_channel_that_is_fused(query: str) -> None:
    weights = route(query).weights
    assert set(weights) == {Channel.TEXT, Channel.VECTOR, Channel.TRIGGER}
    assert all(weight > 0 for weight in weights.values())
