"""Checks a set of extraction rules at start: unsafe patterns, double ids, rules that can never win."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from scrimshaw.ingest.patterns import Danger, find_danger
from scrimshaw.ingest.rules import Rule, in_order


class Problem(Struct, frozen=True, kw_only=True):
    """What is wrong with a rule: the start fails on a fatal one, any other is a warning."""

    rule_id: str
    message: str
    advice: str
    fatal: bool


def check_rules(rules: Sequence[Rule]) -> list[Problem]:
    """Every unsafe or impossible pattern (fatal, REQ-012), then double ids (fatal) and rules that can never win."""
    problems = [problem for rule in rules for problem in _pattern_problems(rule)]
    return [*problems, *_double_ids(rules), *_shadowed(in_order(rules))]


def _pattern_problems(rule: Rule) -> Iterator[Problem]:
    for pattern in (rule.tool, rule.argument, rule.content):
        danger = find_danger(pattern) if pattern else None
        if danger:
            yield Problem(rule_id=rule.id, message=_message(rule, pattern, danger), advice=danger.rewrite, fatal=True)


def _message(rule: Rule, pattern: str, danger: Danger) -> str:
    fault = "a regex that RE2 cannot compile" if danger.refused else "potentially catastrophic regex"
    return f"ExtractionRule contains {fault}: {pattern} (rule {rule.id!r}: {danger.why})"


def _double_ids(rules: Sequence[Rule]) -> Iterator[Problem]:
    seen: set[str] = set()
    for rule in rules:
        if rule.id in seen:
            yield Problem(
                rule_id=rule.id,
                message=f"two rules are called {rule.id!r}",
                advice="give every rule its own id: items name the rule that made them",
                fatal=True,
            )
        seen.add(rule.id)


def _shadowed(ordered: Sequence[Rule]) -> Iterator[Problem]:
    for position, late in enumerate(ordered):
        early = next((rule for rule in ordered[:position] if _covers(rule, late)), None)
        if early:
            yield Problem(
                rule_id=late.id,
                message=f"rule {late.id!r} can never win: {early.id!r} comes first and matches all it matches",
                advice=f"give {late.id!r} a smaller priority than {early.priority}, or narrow {early.id!r}",
                fatal=False,
            )


def _covers(early: Rule, late: Rule) -> bool:
    return (
        early.failed in (None, late.failed)
        and early.min_lines <= late.min_lines
        and _admits(early.tool, late.tool)
        and _admits(early.argument, late.argument)
        and _admits(early.content, late.content)
    )


def _admits(early: str, late: str) -> bool:
    """Whether every text that holds `late` surely holds `early`: no pattern, the same, or a plain part of it."""
    if not early or early == late:
        return True
    return _is_plain(early) and _is_plain(late) and early in late


def _is_plain(pattern: str) -> bool:
    return not any(character in "\\^$.|?*+()[]{}" for character in pattern)
