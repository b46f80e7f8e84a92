from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.models import ArtifactClass, Channel, Intent
from scrimshaw.search.routing import detect_artifact, detect_intent, route

INTENTS = [
    ("the index crashes with an exception", Intent.FIX_BUG),
    ("tests are flaky and fail", Intent.FIX_BUG),
    ("why did we choose apsw, the rationale", Intent.FIND_DECISION),
    ("ADR on tokens versus cookies", Intent.FIND_DECISION),
    ("path traversal vulnerability by untrusted symlinks", Intent.SECURITY_AUDIT),
    ("refactor the duplicated code", Intent.REFACTOR),
    ("I want to add support for Postgres", Intent.ADD_FEATURE),
    ("which document holds the requirements", Intent.FIND_SPEC),
    ("how does fusion work", Intent.UNDERSTAND),
]


@pytest.mark.parametrize(("query", "intent"), INTENTS)
def test_words_speak_for_an_intent(query: str, intent: Intent) -> None:
    found, confidence = detect_intent(query)
    assert found == intent
    assert 0 < confidence <= 1
    assert detect_intent(query.upper()) == (found, confidence)


@pytest.mark.parametrize("query", ["", "apsw wal", "日本語", "debugger prefixes", "suffix"])
def test_without_a_cue_it_is_to_understand(query: str) -> None:
    assert detect_intent(query) == (Intent.UNDERSTAND, 0.0)


def test_a_cue_counts_once_and_confidence_is_its_share() -> None:
    assert detect_intent("error error error error") == (Intent.FIX_BUG, 1.0)
    intent, confidence = detect_intent("error error, refactor the unused")
    assert intent == Intent.REFACTOR
    assert confidence == pytest.approx(2 / 3)


def test_the_earlier_intent_wins_a_tie() -> None:
    assert detect_intent("refactor the error") == (Intent.FIX_BUG, 0.5)


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
    assert detect_artifact(query) == artifact


def test_the_class_named_in_most_letters_counts() -> None:
    assert detect_artifact("the specifications, not the plan") == ArtifactClass.SPEC
    assert detect_artifact("the spec, not the roadmap") == ArtifactClass.PLAN


def test_what_is_given_is_taken_as_it_is() -> None:
    profile = route("the spec crashes", Intent.REFACTOR, ArtifactClass.TASKS)
    assert (profile.intent, profile.confidence, profile.artifact) == (Intent.REFACTOR, 1.0, ArtifactClass.TASKS)


def test_weights_follow_from_intent_and_class() -> None:
    plain = route("apsw wal").weights
    bug = route("apsw wal", Intent.FIX_BUG).weights
    spec = route("apsw wal", artifact=ArtifactClass.SPEC).weights
    text_share = [weights[Channel.TEXT] / weights[Channel.VECTOR] for weights in (plain, bug, spec)]
    assert text_share == sorted(set(text_share))
    assert route("apsw wal", artifact=ArtifactClass.MEMORY).weights == plain


@given(st.text(max_size=80), st.sampled_from([None, *Intent]), st.sampled_from([None, *ArtifactClass]))
def test_any_query_has_a_weight_for_every_channel_that_is_fused(
    query: str, intent: Intent | None, artifact: ArtifactClass | None
) -> None:
    profile = route(query, intent, artifact)
    assert set(profile.weights) == {Channel.TEXT, Channel.VECTOR, Channel.TRIGGER}
    assert all(weight > 0 for weight in profile.weights.values())
    assert 0 <= profile.confidence <= 1
