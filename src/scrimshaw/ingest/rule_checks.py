"""The user's extraction rules, `[[rules]]` of the configuration: read, checked, and joined with the default ones.

RE2 matches in linear time whatever it accepts. A pattern that repeats a repeat is rejected anyway: it is a mistake, and
would never end on an engine that backtracks.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache

import msgspec
from msgspec import Struct

from scrimshaw.errors import ConfigError
from scrimshaw.ingest.extraction import Rule, Summarizer, compile_pattern, default_rules, join_rules, order_rules
from scrimshaw.models import ItemKind


class RuleProblem(Struct, frozen=True, kw_only=True):
    """A problem of a rule: a fatal one stops the start, any other is a warning."""

    message: str
    advice: str
    fatal: bool


def check_rules(tables: Sequence[object]) -> tuple[tuple[Rule, ...], list[RuleProblem]]:
    """The own and default rules in the order of trial, and the warnings; raises ConfigError."""
    own = [_read_rule(number, table) for number, table in enumerate(tables, start=1)]
    rules = join_rules(own, default_rules())
    problems = find_problems(rules) if own else []  # the tests check the default rules
    if fatal := [f"{problem.message}; {problem.advice}" for problem in problems if problem.fatal]:
        listing = "\n  ".join(["The extraction rules cannot be used:", *fatal])
        raise ConfigError(listing, "Correct [[rules]] and start again.")
    return rules, problems


def usable_rules(tables: Sequence[object]) -> tuple[Rule, ...]:
    """All rules in the order of trial, without unusable ones of the user, so that no hook fails because of one."""
    own = []
    for number, table in enumerate(tables, start=1):
        with suppress(ConfigError):
            if not find_pattern_problem(rule := _read_rule(number, table)):
                own.append(rule)
    return join_rules(own, default_rules())


def _read_rule(number: int, table: object) -> Rule:
    try:
        return msgspec.convert(table, Rule)
    except msgspec.ValidationError as error:
        name = (table.get("id") if isinstance(table, dict) else None) or "without an id"
        allowed = f"summarizers: {', '.join(Summarizer)}; kinds: {', '.join(ItemKind)}"
        hint = f"A rule has {', '.join(Rule.__struct_fields__)}; id, tool and attention are needed; {allowed}."
        raise ConfigError(f"ExtractionRule #{number} ({name}) cannot be used: {error}.", hint) from error


def find_problems(rules: Sequence[Rule]) -> list[RuleProblem]:
    """Every dangerous or impossible pattern and duplicate id (fatal), then rules that can never match first."""
    problems = [problem for rule in rules if (problem := find_pattern_problem(rule))]
    ids = [rule.id for rule in rules]
    for name in dict.fromkeys(name for name in ids if ids.count(name) > 1):
        advice = "give every rule its own id: items name the rule that made them"
        problems.append(RuleProblem(message=f"two rules are called {name!r}", advice=advice, fatal=True))
    ordered = order_rules(rules)
    for position, late in enumerate(ordered):
        if early := next((rule for rule in ordered[:position] if _covers(rule, late)), None):
            message = f"rule {late.id!r} can never win: {early.id!r} comes first and matches all it matches"
            advice = f"give {late.id!r} a smaller priority than {early.priority}, or narrow {early.id!r}"
            problems.append(RuleProblem(message=message, advice=advice, fatal=False))
    return problems


def find_pattern_problem(rule: Rule) -> RuleProblem | None:
    """The first of the rule's patterns that makes the rule unusable."""
    for pattern in filter(None, (rule.tool, rule.argument, rule.content)):
        if danger := find_danger(pattern):
            fault, why, rewrite = danger
            message = f"ExtractionRule contains {fault}: {pattern} (rule {rule.id!r}: {why})"
            return RuleProblem(message=message, advice=rewrite, fatal=True)
    return None


def _covers(early: Rule, late: Rule) -> bool:
    """Whether every call that matches `late` also matches `early`, for certain."""
    pairs = ((early.tool, late.tool), (early.argument, late.argument), (early.content, late.content))
    return (
        early.failed in (None, late.failed)
        and early.min_lines <= late.min_lines
        and all(not one or one == two or (one in two and not _SPECIAL & set(one + two)) for one, two in pairs)
    )


_SPECIAL = set("\\^$.|?*+()[]{}")
_ATOM, _REPEAT = r"(?:\\.|\[\^?\]?[^\]]*\]|[^\\()\[\]|*+?{}])", r"(?:[*+?]|\{\d+(?:,\d*)?\})\??"
# A repeated group of one repeated piece, with nothing after it that must be there.
_REPEATED_REPEAT = re.compile(rf"(?<!\\)\((?:\?:|\?P?<\w+>)?{_ATOM}{_REPEAT}(?:{_ATOM}[?*]\??)*\)(?:[*+]|\{{)")

REFUSED, DANGEROUS = "a regex that RE2 cannot compile", "potentially catastrophic regex"
_COMPARE = "match the text once and compare it elsewhere"
_REPEAT_ONCE = "repeat once: (a+)+ is a+, (a?)* is a*, (\\w+\\s?)* is [\\w\\s]*"


@cache
def find_danger(pattern: str) -> tuple[str, str, str] | None:
    """(REFUSED or DANGEROUS, why, how to rewrite it) for a pattern that is rejected, or None."""
    import re2  # noqa: PLC0415 - native library, needed only where rules are checked

    try:
        compile_pattern(pattern)
    except re2.error as error:
        if re.search(r"\\[1-9]|\(\?P=", pattern):
            return DANGEROUS, "a backreference makes matching exponential", _COMPARE
        why = error.args[0].decode(errors="replace")
        return REFUSED, why, "lookaround, conditionals and possessive quantifiers are not part of RE2"
    is_nested = _REPEATED_REPEAT.search(pattern)
    return (DANGEROUS, "nested quantifiers can share the same text", _REPEAT_ONCE) if is_nested else None
