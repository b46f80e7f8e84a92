"""The check of all extraction rules at start. Apart from their reading, since a hook has no time for it."""

from __future__ import annotations

from scrimshaw.app.rules import own_rules
from scrimshaw.config import Settings
from scrimshaw.errors import ConfigError
from scrimshaw.ingest.default_rules import DEFAULT_RULES
from scrimshaw.ingest.rule_checks import Problem, check_rules
from scrimshaw.ingest.rules import Rule, with_defaults


def checked_rules(settings: Settings) -> tuple[tuple[Rule, ...], list[Problem]]:
    """All rules in the order of trial, and what deserves a warning; raises ConfigError when one must not be used.

    The default rules alone are checked by the tests: a start need not spend 70 ms on them again.
    """
    own = own_rules(settings)
    rules = with_defaults(own, DEFAULT_RULES)
    problems = check_rules(rules) if own else []
    fatal = [f"{problem.message}; {problem.advice}" for problem in problems if problem.fatal]
    if fatal:
        raise ConfigError(
            "The extraction rules cannot be used:\n  " + "\n  ".join(fatal), "Correct [[rules]] and start again."
        )
    return rules, problems
