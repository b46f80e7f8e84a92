"""Extraction rules are data: what a rule says, in which order rules are tried, and how their patterns are compiled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cache
from typing import Annotated, Any, Protocol

from msgspec import Meta, Struct

from scrimshaw.ingest.tables import load_table


class Kind(StrEnum):
    """What a captured call leaves behind in working memory."""

    DECISION = "decision"
    ERROR = "error"
    FILE = "file"
    COMMIT = "commit"
    RESULT = "result"


class Summarizer(StrEnum):
    """How the text of an item is made from a call."""

    FIRST_LAST = "first_last_500"
    MATCH_COUNT = "match_count"
    STDOUT = "stdout"
    ERRORS = "errors"
    TEST_RUN = "test_run"
    EDIT = "edit"
    COMMIT = "commit"
    OUTLINE = "outline"


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One extraction rule; patterns are RE2, searched anywhere, and an empty one matches everything.

    `tool` is searched in the activity's name and in the tool's own name, `argument` in the activity's subject (path,
    search or command), `content` in the output. `min_lines` counts the output's lines. Attention 0 means: leave this
    call alone, whatever later rules say. Rules are tried by rising `priority`, then in the order given;
    a rule without one comes before the default rules, which start at 10.
    """

    id: str
    tool: str
    argument: str = ""
    content: str = ""
    failed: bool | None = None
    min_lines: Annotated[int, Meta(ge=0)] = 0
    attention: Annotated[float, Meta(ge=0.0, le=1.0)]
    kind: Kind = Kind.RESULT
    summarizer: Summarizer = Summarizer.STDOUT
    priority: int = 0


class RuleTable(Struct, frozen=True):
    """`rules.toml`."""

    rules: tuple[Rule, ...]


class Pattern(Protocol):
    """The part of a compiled RE2 pattern that matching uses."""

    def search(self, text: str) -> Any:
        """The first match, or None."""


@cache
def default_rules() -> tuple[Rule, ...]:
    """The rules Scrimshaw comes with, as given."""
    return load_table(__file__, "rules", RuleTable).rules


def join_rules(own: Sequence[Rule], defaults: Sequence[Rule]) -> tuple[Rule, ...]:
    """Own rules and defaults in the order of trial; an own rule that bears the id of a default takes its place."""
    taken = {rule.id for rule in own}
    return order_rules([*own, *(rule for rule in defaults if rule.id not in taken)])


def order_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules as they are tried: by rising priority, then as given."""
    return tuple(sorted(rules, key=lambda rule: rule.priority))


@cache
def compile_pattern(pattern: str) -> Pattern:
    """`pattern` on RE2, whose matching takes time linear in the text; compiled once, when first asked for.

    Raises re2.error when RE2 refuses it, which the check of the rules at start has ruled out.
    """
    import re2  # noqa: PLC0415 - native library, needed only where a call is matched

    options = re2.Options()
    options.log_errors = False
    compiled: Pattern = re2.compile(pattern, options)
    return compiled
