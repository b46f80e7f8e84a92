"""The user's extraction rules, `[[rules]]` of the configuration: read, and joined with the default ones."""

from __future__ import annotations

import msgspec

from scrimshaw.config import Settings
from scrimshaw.errors import ConfigError
from scrimshaw.ingest.default_rules import DEFAULT_RULES
from scrimshaw.ingest.rules import Rule, compile_pattern, in_order, with_defaults


def own_rules(settings: Settings) -> tuple[Rule, ...]:
    """The rules of the configuration, in its order; raises ConfigError for a table that is no rule."""
    return tuple(_rule(number, table) for number, table in enumerate(settings.rules, start=1))


def usable_rules(settings: Settings) -> tuple[Rule, ...]:
    """All rules in the order of trial, or the default ones alone where one of the user's own cannot run.

    Cheap enough for a hook: RE2 matches in linear time whatever it accepts, so the thorough check is the server's.
    """
    if not settings.rules:
        return in_order(DEFAULT_RULES)
    import re2  # noqa: PLC0415 - native library, needed only where the user has rules

    try:
        own = own_rules(settings)
        for rule in own:
            _compile(rule)
    except (ConfigError, re2.error):
        return in_order(DEFAULT_RULES)
    return with_defaults(own, DEFAULT_RULES)


def _rule(number: int, table: object) -> Rule:
    try:
        return msgspec.convert(table, Rule)
    except msgspec.ValidationError as error:
        name = table.get("id") if isinstance(table, dict) else None
        raise ConfigError(
            f"ExtractionRule #{number} ({name or 'without an id'}) cannot be used: {error}.",
            f"A rule has {', '.join(Rule.__struct_fields__)}; id, tool and attention are needed.",
        ) from error


def _compile(rule: Rule) -> None:
    for pattern in (rule.tool, rule.argument, rule.content):
        compile_pattern(pattern)
