"""What agents show a person, in the forms that real clients report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrimshaw.ingest.tool_calls import ToolCall, canonical_tool, describe_call

STORAGE: Mapping[str, Any] = {
    "question": "Which storage should we use?",
    "header": "Storage",
    "multiSelect": False,
    "options": [
        {"label": "SQLite (Recommended)", "description": "No server to install."},
        {"label": "PostgreSQL", "description": "Scales to a team."},
    ],
}
KEYS = st.sampled_from(
    ["questions", "question", "options", "label", "answers", "todos", "findings", "taskId", "status"]
)
CHOSEN = "Which storage should we use? SQLite: No server to install (not PostgreSQL)"
# The client, the tool's name there, its arguments, its result, and the lines to record.
ANSWERS: tuple[tuple[str, str, Mapping[str, Any], object, str], ...] = (
    (
        "Claude Code, by its hook",
        "AskUserQuestion",
        {"questions": [STORAGE]},
        {"questions": [STORAGE], "answers": {STORAGE["question"]: "SQLite (Recommended)"}, "annotations": {}},
        CHOSEN,
    ),
    (
        "Claude Code, with a note",
        "AskUserQuestion",
        {"questions": [STORAGE]},
        {
            "answers": {STORAGE["question"]: "SQLite (Recommended)"},
            "annotations": {STORAGE["question"]: {"notes": "for now"}},
        },
        f"{CHOSEN} — for now",
    ),
    (
        "Claude Code, by its transcript",
        "AskUserQuestion",
        {"questions": [STORAGE, {"question": 'Call it "cache"?', "options": [{"label": "Yes"}, {"label": "No"}]}]},
        'Your questions have been answered: "Which storage should we use?"="SQLite (Recommended)", '
        '"Call it "cache"?"="No". You can now continue with these answers in mind.',
        f'{CHOSEN}\nCall it "cache"? No (not Yes)',
    ),
    (
        "Claude Code, several chosen",
        "AskUserQuestion",
        {"questions": [{"question": "Which?", "options": [{"label": "a"}, {"label": "b"}, {"label": "c"}]}]},
        {"answers": {"Which?": "a, c"}},
        "Which? a, c (not b)",
    ),
    (
        "Claude Code, own words",
        "AskUserQuestion",
        {"questions": [STORAGE]},
        {"answers": {STORAGE["question"]: "plain files"}},
        "Which storage should we use? plain files",
    ),
    (
        "OpenCode",
        "question",
        {"questions": [STORAGE]},
        'User has answered your questions: "Which storage should we use?"="PostgreSQL". You can now continue.',
        "Which storage should we use? PostgreSQL: Scales to a team (not SQLite)",
    ),
    (
        "Qwen Code",
        "ask_user_question",
        {"questions": [STORAGE, {"question": "Log it?", "options": [{"label": "Yes"}, {"label": "No"}]}]},
        "User has provided the following answers:\n\n**Storage**: SQLite (Recommended)\n**Question 2**: No",
        f"{CHOSEN}\nLog it? No (not Yes)",
    ),
    ("Gemini CLI", "ask_user", {"questions": [STORAGE]}, {"answers": {"0": "SQLite (Recommended)"}}, CHOSEN),
    (
        "Codex",
        "request_user_input",
        {"questions": [{"id": "storage", **STORAGE}]},
        {"answers": {"storage": {"answers": ["SQLite (Recommended)"]}}},
        CHOSEN,
    ),
    (
        "Cline",
        "ask_followup_question",
        {"question": "Keep the old name?", "options": ["Yes", "No"]},
        "<answer>\nYes\n</answer>",
        "Keep the old name? Yes (not No)",
    ),
)


def call(name: str, arguments: Mapping[str, Any], result: object, *, failed: bool = False) -> ToolCall:
    output = result if isinstance(result, str) else json.dumps(result)
    return ToolCall(tool=canonical_tool(name), arguments=arguments, output=output, failed=failed)


@pytest.mark.parametrize(("name", "arguments", "result", "lines"), [each[1:] for each in ANSWERS], ids=str)
def test_an_answered_question_is_recorded_with_what_was_not_chosen(
    name: str, arguments: Mapping[str, Any], result: object, lines: str
) -> None:
    activity = describe_call(call(name, arguments, result))
    assert (activity.subject, activity.output) == ("questions answered", lines)


@pytest.mark.parametrize(
    "result",
    [
        "The user did not answer the questions.",
        "User dismissed ask_user dialog without answering.",
        {"answers": {}},
        {"answers": {STORAGE["question"]: 1}},
        'User has answered your questions: "Which storage should we use?"="Unanswered". You can now continue.',
    ],
)
def test_a_question_without_an_answer_is_no_choice(result: object) -> None:
    assert describe_call(call("AskUserQuestion", {"questions": [STORAGE]}, result)).subject != "questions answered"


PLAN = "# Plan: Add a cache\n\n## Approach\n\nUse an LRU cache, not Redis."


@pytest.mark.parametrize(
    "result",
    [
        {"plan": PLAN, "isAgent": False, "filePath": "/p.md"},
        f"User has approved your plan. You can now start coding.\n\n## Approved Plan:\n{PLAN}\n",
        f"User has approved your plan.\n\n## Approved Plan (edited by user):\n{PLAN}",
    ],
)
def test_an_approved_plan_is_recorded(result: object) -> None:
    activity = describe_call(call("ExitPlanMode", {}, result))
    assert (activity.subject, activity.output) == ("plan approved", PLAN)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("plan", "User has approved your plan. You can now start coding."),
        ("summary", "Plan approved! Exited plan mode."),
    ],
)
def test_a_plan_that_only_the_call_shows_is_recorded_too(key: str, said: str) -> None:
    activity = describe_call(call("ExitPlanMode", {key: PLAN}, said))
    assert (activity.subject, activity.output) == ("plan approved", PLAN)


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        ({"plan": None}, False),
        ({"plan": PLAN}, True),
        ({"plan": PLAN, "awaitingLeaderApproval": True}, False),
        ("Rejected", False),
    ],
)
def test_a_plan_that_is_not_shown_or_not_approved_is_none(result: object, failed: bool) -> None:
    assert describe_call(call("ExitPlanMode", {}, result, failed=failed)).subject != "plan approved"


@pytest.mark.parametrize(
    ("name", "arguments", "result", "recorded"),
    [
        (
            "TaskCreate",
            {"subject": "Mend it", "description": "d"},
            {"task": {"id": "7"}},
            ("task #7", "[pending] Mend it"),
        ),
        (
            "TaskCreate",
            {"subject": "Mend it"},
            "Task #7 created successfully: Mend it",
            ("task #7", "[pending] Mend it"),
        ),
        ("TaskUpdate", {"taskId": "7", "status": "completed"}, {"success": True}, ("task #7", "[completed]")),
        (
            "TaskUpdate",
            {"taskId": "7", "status": "pending", "subject": "Mend both"},
            "",
            ("task #7", "[pending] Mend both"),
        ),
    ],
)
def test_one_task_of_a_list_is_recorded(
    name: str, arguments: Mapping[str, Any], result: object, recorded: tuple[str, str]
) -> None:
    activity = describe_call(call(name, arguments, result))
    assert (activity.subject, activity.output) == recorded


def test_a_change_of_a_task_that_leaves_its_status_is_none() -> None:
    assert describe_call(call("TaskUpdate", {"taskId": "7", "addBlocks": ["8"]}, "Updated")).output == "Updated"


def test_the_findings_of_a_review_are_recorded() -> None:
    found = [
        {"file": "io.py", "line": 9, "summary": "A file\nis left open.", "failure_scenario": "x"},
        {"file": "io.py", "summary": "The last row is lost.", "failure_scenario": "x", "outcome": "fixed"},
    ]
    activity = describe_call(call("ReportFindings", {"findings": found}, {"count": 2, "findings": found}))
    lines = "[open] io.py:9 A file is left open.\n[fixed] io.py The last row is lost."
    assert (activity.subject, activity.output) == ("findings reported", lines)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(
    name=st.sampled_from(
        ["TaskCreate", "TaskUpdate", "ReportFindings", "AskUserQuestion", "ExitPlanMode", "TodoWrite"]
    ),
    arguments=st.dictionaries(KEYS, VALUES, max_size=4),
    reply=VALUES,
)
def test_whatever_an_agent_sends_is_survived(name: str, arguments: Mapping[str, Any], reply: object) -> None:
    assert describe_call(call(name, arguments, reply)).tool == canonical_tool(name)


@pytest.mark.parametrize(
    ("name", "output", "lines"),
    [
        ("ExitPlanMode", "approved\n" * 20_000, "approved\n" * 20_000),
        ("ask_followup_question", "a" + " " * 60_000 + "b", "Which? a b"),
        ("ask_followup_question", '"Which?"="' * 6_000, "Which? " + '"Which?"="' * 5_999),
    ],
)
def test_long_results_are_read_in_one_pass(name: str, output: str, lines: str) -> None:
    """A pattern that goes back would take minutes."""
    assert describe_call(call(name, {"question": "Which?"}, output)).output.startswith(lines[:50])
