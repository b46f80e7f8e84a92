"""Scenario 17: a session without a decision says so in a number, not in a sentence."""

from __future__ import annotations

from tests.session.recording import Recording

from scrimshaw.ingest.memory_file import render_memory_file
from scrimshaw.ingest.quality import judge
from scrimshaw.session.draft import render_body


def undecided() -> Recording:
    recording = Recording().prompt("List the tables of the billing schema.")
    for name in ("invoices", "taxes", "currencies", "payments", "refunds"):
        recording.read(f"schema/{name}.sql")
    return recording.answer("The billing schema holds five tables, one for each kind of booking.")


def test_no_decision_is_a_count_of_zero() -> None:
    made = undecided().draft()
    assert len(made.decisions) == 0
    text = render_body(made)
    assert "Decisions" not in text
    assert "decision" not in text.lower()


def test_the_gate_finds_no_fallback_sentence() -> None:
    made = undecided().draft()
    meta = {"title": made.title, "trigger_phrases": made.trigger_phrases, "topics": made.topics}
    verdict = judge(render_memory_file(meta, f"\n{render_body(made)}"), tool_calls=made.tool_calls)
    assert "has_fallback_decision" not in verdict.flags
    assert verdict.is_accepted


def test_a_choice_is_counted() -> None:
    recording = undecided().prompt("Let's keep the refunds table instead of merging it into payments.")
    assert len(recording.draft().decisions) == 1
