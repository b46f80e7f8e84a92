"""The user's extraction rules, `[[rules]]` of the configuration: read, checked, and joined with the default ones."""

from __future__ import annotations

import msgspec

from scrimshaw.config import Settings
from scrimshaw.errors import ConfigError
from scrimshaw.ingest.extraction import Rule, default_rules, join_rules
from scrimshaw.ingest.rule_checks import RuleProblem, find_pattern_problem, find_problems


def check_rules(settings: Settings) -> tuple[tuple[Rule, ...], list[RuleProblem]]:
    """All rules in the order of trial, and what deserves a warning; raises ConfigError when one must not be used.

    The default rules are checked by the tests; a start need not do it again.
    """
    own = read_rules(settings)
    rules = join_rules(own, default_rules())
    problems = find_problems(rules) if own else []
    fatal = [f"{problem.message}; {problem.advice}" for problem in problems if problem.fatal]
    if fatal:
        raise ConfigError(
            "The extraction rules cannot be used:\n  " + "\n  ".join(fatal), "Correct [[rules]] and start again."
        )
    return rules, problems


def usable_rules(settings: Settings) -> tuple[Rule, ...]:
    """All rules in the order of trial, without those of the user's own that must not be used: no hook stops for one."""
    if not settings.rules:
        return default_rules()
    own = []
    for number, table in enumerate(settings.rules, start=1):
        try:
            rule = _read_rule(number, table)
        except ConfigError:
            continue
        if not find_pattern_problem(rule):
            own.append(rule)
    return join_rules(own, default_rules())


def read_rules(settings: Settings) -> tuple[Rule, ...]:
    """The rules of the configuration, in its order; raises ConfigError for a table that is no rule."""
    return tuple(_read_rule(number, table) for number, table in enumerate(settings.rules, start=1))


def _read_rule(number: int, table: object) -> Rule:
    try:
        return msgspec.convert(table, Rule)
    except msgspec.ValidationError as error:
        name = table.get("id") if isinstance(table, dict) else None
        raise ConfigError(
            f"ExtractionRule #{number} ({name or 'without an id'}) cannot be used: {error}.",
            f"A rule has {', '.join(Rule.__struct_fields__)}; id, tool and attention are needed.",
        ) from error
