"""The measure of extraction counts what it says."""

from __future__ import annotations

from typing import Literal

import pytest
from msgspec.structs import replace

from scrimshaw.ingest.extraction import Rule
from scrimshaw.ingest.tool_calls import ToolCall
from scrimshaw_lab.extraction import ExtractionScore, evaluate_extraction, hold_out_sessions
from scrimshaw_lab.labelled import CallLabel, LabelledCall


def labelled(capture: Literal["yes", "no", "maybe"], output: str, source: str = "s") -> LabelledCall:
    label = CallLabel(source=source, session="", step=1, capture=capture, kind="error", key=("key", "other"))
    return LabelledCall(ToolCall(tool="Bash", output=output), label)


def keep_what_says_so(each: LabelledCall) -> tuple[Rule, str] | None:
    if "keep" not in each.call.output:
        return None
    return Rule(id="r", tool="", attention=0.5), each.call.output


def test_maybe_counts_for_neither_side() -> None:
    cases = [
        labelled("yes", "keep key"),
        labelled("yes", "keep key other"),
        labelled("yes", "nothing", "t"),
        labelled("no", "keep", "t"),
        labelled("no", "nothing"),
        labelled("maybe", "keep"),
        labelled("maybe", "nothing"),
    ]
    report = evaluate_extraction(cases, keep_what_says_so)
    assert report.overall == ExtractionScore(found=2, wrong=1, missed=1, keys_kept=3, keys=4)
    assert report.overall.precision == pytest.approx(2 / 3)
    assert report.overall.recall == pytest.approx(2 / 3)
    assert report.overall.key_recall == pytest.approx(3 / 4)
    assert report.by_source == {
        "s": ExtractionScore(found=2, keys_kept=3, keys=4),
        "t": ExtractionScore(wrong=1, missed=1),
    }
    assert report.by_kind == {"error": report.overall}


def test_a_session_is_judged_without_the_rules_that_it_alone_speaks_for() -> None:
    def said(output: str, session: str) -> LabelledCall:
        call, label = labelled("yes", output)
        return LabelledCall(call, replace(label, session=session))

    rules = [Rule(id=word, tool="", content=word, attention=0.5) for word in ("lone", "shared", "silent")]
    report = hold_out_sessions([said("lone", "a"), said("shared", "a"), said("shared", "b")], rules)
    assert report.overall == ExtractionScore(found=2, missed=1, keys=4)
    assert report.by_source == {
        "…a (-1)": ExtractionScore(found=1, missed=1, keys=2),
        "…b (-0)": ExtractionScore(found=1, keys=2),
    }


def test_nothing_to_judge_is_no_figure() -> None:
    nothing = ExtractionScore()
    assert nothing.precision is nothing.recall is nothing.key_recall is None
    assert (ExtractionScore(missed=10).precision, ExtractionScore(missed=10).recall) == (None, 0.0)
