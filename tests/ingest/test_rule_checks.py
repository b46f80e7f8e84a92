"""A set of rules is checked as a whole before any is used."""

from __future__ import annotations

import msgspec
import pytest

from scrimshaw.errors import ConfigError
from scrimshaw.ingest.extraction import Rule, default_rules, join_rules, order_rules
from scrimshaw.ingest.rule_checks import check_rules, find_problems


def rule(id: str, **fields: object) -> Rule:
    return msgspec.convert({"id": id, "tool": "^Run$", "attention": 0.5, **fields}, Rule)


def test_default_rules_have_no_problem() -> None:
    assert find_problems(default_rules()) == []


@pytest.mark.parametrize("field", ["tool", "argument", "content"])
def test_catastrophic_pattern_fails_the_start_with_the_seeds_message(field: str) -> None:
    (problem,) = find_problems([rule("mine", **{field: "(a+)+$"})])
    assert problem.message.startswith("ExtractionRule contains potentially catastrophic regex: (a+)+$")
    assert "'mine'" in problem.message
    assert problem.advice
    assert problem.fatal


def test_pattern_re2_cannot_compile_is_named() -> None:
    (problem,) = find_problems([rule("mine", content="(?=a)b")])
    assert "RE2 cannot compile: (?=a)b (rule 'mine'" in problem.message
    assert problem.fatal


def test_double_id_is_fatal() -> None:
    problems = find_problems([rule("twice", content="a"), rule("twice", content="b")])
    assert [problem.fatal for problem in problems] == [True]


@pytest.mark.parametrize(
    ("early", "late", "warned"),
    [
        ({}, {"content": "error"}, True),
        ({"tool": ""}, {}, True),
        ({"content": "error"}, {"content": "syntax error"}, True),
        ({"content": "error"}, {"content": "error", "failed": True}, True),
        ({"failed": True}, {}, False),
        ({"min_lines": 5}, {}, False),
        ({"content": "error"}, {"content": "warning"}, False),
        ({"content": "e.r"}, {"content": "e.r two"}, False),
        ({"priority": 2}, {"content": "error", "priority": 1}, False),
    ],
)
def test_rule_that_can_never_win_is_warned_about(
    early: dict[str, object], late: dict[str, object], warned: bool
) -> None:
    problems = find_problems([rule("early", **early), rule("late", **late)])
    named = [(problem.message.split("'")[1], problem.fatal) for problem in problems]
    assert named == ([("late", False)] if warned else [])


def test_rules_keep_their_order_within_a_priority() -> None:
    rules = [rule("b", priority=1), rule("c"), rule("a", priority=1)]
    assert [each.id for each in order_rules(rules)] == ["c", "b", "a"]


def test_own_rule_replaces_the_default_of_its_name_and_comes_first() -> None:
    merged = join_rules([rule("commit", argument="jj commit")], default_rules())
    assert merged[0].argument == "jj commit"
    assert [each.id for each in merged].count("commit") == 1
    assert len(merged) == len(default_rules())


def test_a_refused_rule_says_what_is_allowed() -> None:
    with pytest.raises(ConfigError) as caught:
        check_rules([{"id": "a", "tool": "^Run$", "attention": 0.5, "summarizer": "short"}])
    assert {"stdout,", "first_last_500,"} <= {*caught.value.hint.split()}


@pytest.mark.parametrize("fields", [{"attention": 1.5}, {"summarizer": "none"}, {"kind": "noise"}, {"colour": "red"}])
def test_rule_rejects_what_it_does_not_know(fields: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        rule("mine", **fields)
