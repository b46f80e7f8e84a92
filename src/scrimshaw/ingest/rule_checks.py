"""The user's extraction rules, `[[rules]]` of the configuration: read, checked, and joined with the default ones.

RE2 matches in linear time whatever it accepts. A pattern that would never end on a backtracking engine is rejected
anyway: it is a mistake, and rules are shared with tools that do backtrack.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import combinations
from typing import NamedTuple

import msgspec
from msgspec import Struct

from scrimshaw.errors import ConfigError
from scrimshaw.ingest.extraction import Rule, Summarizer, compile_pattern, default_rules, join_rules, order_rules
from scrimshaw.models import ItemKind


class RuleProblem(Struct, frozen=True, kw_only=True):
    """A problem of a rule: a fatal one stops the start, any other is a warning."""

    rule_id: str
    message: str
    advice: str
    fatal: bool


# Other tools' names for the keys of a rule and for its summarizers.
_OTHER_KEYS = {"toolPattern": "tool", "contentPattern": "content"}
_OTHER_SUMMARIZERS = {
    "firstLast500": Summarizer.FIRST_LAST,
    "matchCountSummary": Summarizer.MATCH_COUNT,
    "stdoutSummary": Summarizer.STDOUT,
}


class Danger(NamedTuple):
    """Why a pattern is rejected and how to rewrite it; `refused` if RE2 itself does not accept the syntax."""

    why: str
    rewrite: str
    refused: bool = False


def check_rules(tables: Sequence[object]) -> tuple[tuple[Rule, ...], list[RuleProblem]]:
    """The own and default rules in the order of trial, and the warnings; raises ConfigError."""
    own = read_rules(tables)
    rules = join_rules(own, default_rules())
    problems = find_problems(rules) if own else []  # the tests check the default rules
    fatal = [f"{problem.message}; {problem.advice}" for problem in problems if problem.fatal]
    if fatal:
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


def read_rules(tables: Sequence[object]) -> tuple[Rule, ...]:
    """The rules of the configuration, in its order; raises ConfigError for a table that is not a rule."""
    return tuple(_read_rule(number, table) for number, table in enumerate(tables, start=1))


def _read_rule(number: int, table: object) -> Rule:
    try:
        known = {_OTHER_KEYS.get(key, key): value for key, value in msgspec.convert(table, dict[str, object]).items()}
        if summarizer := _OTHER_SUMMARIZERS.get(str(known.get("summarizer"))):
            known["summarizer"] = summarizer
        return msgspec.convert(known, Rule)
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
        problems.append(RuleProblem(rule_id=name, message=f"two rules are called {name!r}", advice=advice, fatal=True))
    ordered = order_rules(rules)
    for position, late in enumerate(ordered):
        early = next((rule for rule in ordered[:position] if _covers(rule, late)), None)
        if early:
            message = f"rule {late.id!r} can never win: {early.id!r} comes first and matches all it matches"
            advice = f"give {late.id!r} a smaller priority than {early.priority}, or narrow {early.id!r}"
            problems.append(RuleProblem(rule_id=late.id, message=message, advice=advice, fatal=False))
    return problems


def find_pattern_problem(rule: Rule) -> RuleProblem | None:
    """The first of the rule's patterns that makes the rule unusable."""
    for pattern in filter(None, (rule.tool, rule.argument, rule.content)):
        if danger := find_danger(pattern):
            fault = "a regex that RE2 cannot compile" if danger.refused else "potentially catastrophic regex"
            message = f"ExtractionRule contains {fault}: {pattern} (rule {rule.id!r}: {danger.why})"
            return RuleProblem(rule_id=rule.id, message=message, advice=danger.rewrite, fatal=True)
    return None


def _covers(early: Rule, late: Rule) -> bool:
    """Whether every call that matches `late` also matches `early`, for certain."""
    pairs = ((early.tool, late.tool), (early.argument, late.argument), (early.content, late.content))
    return (
        early.failed in (None, late.failed)
        and early.min_lines <= late.min_lines
        and all(not one or one == two or (one in two and not _SPECIAL & set(one + two)) for one, two in pairs)
    )


# Dangerous patterns

_TOKEN = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\[pP](?:\{\^?\w+\}|\w)|\\x(?:\{\w+\}|\w\w)|\\[0-7]{1,3}|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]"
    r"|\(\?[a-zA-Z-]+\)|\((?:\?(?:P?<\w+>|[a-zA-Z-]*:))?|(?:[*+?]|\{\d+(?:,\d*)?\})\??|.",
    re.DOTALL,
)
_SPECIAL = set("\\^$.|?*+()[]{}")
_REPEAT = re.compile(r"([*+?])|\{(\d+)(,?)(\d*)\}")
_ANCHORS = frozenset(("^", "$", r"\A", r"\b", r"\B", r"\z", r"\Z"))
_SAMPLE = "".join(map(chr, range(128))) + "é"
_MANY = 10  # repeats of a possibly empty group: a backtracking engine's attempts double with each


class _Part(NamedTuple):
    """A piece of a pattern: whether it can be empty, and the positions of characters it may begin and end with."""

    is_nullable: bool = True
    first: tuple[int, ...] = ()
    last: tuple[int, ...] = ()


_BACKREFERENCE = Danger(
    "a backreference makes matching exponential", "match the repeated text once and compare it elsewhere"
)
_NESTED = Danger(
    "nested quantifiers can share the same text", "repeat once: (a+)+ is a+, (a?)* is a*, (\\w+\\s?)* is [\\w\\s]*"
)
_ALTERNATIVES = Danger(
    "ambiguous alternatives inside a quantifier", "let the alternatives start differently: (a|ab)* is (ab?)*"
)


@cache
def find_danger(pattern: str) -> Danger | None:
    """The reason to reject `pattern`, or None."""
    import re2  # noqa: PLC0415 - native library, needed only where rules are checked

    try:
        compile_pattern(pattern)
    except re2.error as error:
        if re.search(r"\\[1-9]|\(\?P=", pattern):
            return _BACKREFERENCE
        reason = error.args[0] if error.args else ""
        why = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        return Danger(why, "lookaround, conditionals and possessive quantifiers are not part of RE2", refused=True)
    return _PatternReader(pattern).danger


class _PatternReader:
    """Reads a pattern once, and notes which characters may follow each other.

    A repeated group is ambiguous if two of the possible next characters can be the same.
    """

    def __init__(self, pattern: str) -> None:
        self._tokens = _TOKEN.findall(pattern)[::-1]
        self._flags = f"(?{''.join(flag for flag in 'is' if re.search(rf'[(][?][a-zA-Z]*{flag}', pattern))}:"
        self._atoms: list[str] = []
        self._follow: list[list[int]] = []
        self.danger: Danger | None = None
        self._read_alternatives()

    def _read_alternatives(self) -> _Part:
        parts = [self._read_sequence()]
        while self._tokens and self._tokens[-1] == "|":
            self._tokens.pop()
            parts.append(self._read_sequence())
        first = tuple(place for part in parts for place in part.first)
        return _Part(any(part.is_nullable for part in parts), first, tuple(p for part in parts for p in part.last))

    def _read_sequence(self) -> _Part:
        whole = _Part()
        while self._tokens and self._tokens[-1] not in ("|", ")"):
            start = len(self._atoms)
            part = self._read_atom(self._tokens.pop())
            if self._tokens and (repeat := _REPEAT.match(self._tokens[-1])):
                self._tokens.pop()
                part = self._repeat(part, repeat, start)
            self._link(whole.last, part.first)
            first = whole.first + part.first if whole.is_nullable else whole.first
            last = part.last + whole.last if part.is_nullable else part.last
            whole = _Part(whole.is_nullable and part.is_nullable, first, last)
        return whole

    def _read_atom(self, token: str) -> _Part:
        if token.startswith("(") and not token.endswith(")"):
            part = self._read_alternatives()
            if self._tokens:
                self._tokens.pop()
            return part
        if token in _ANCHORS or token.startswith("(?"):
            return _Part()
        self._atoms.append(token)
        self._follow.append([])
        place = (len(self._atoms) - 1,)
        return _Part(False, place, place)

    def _repeat(self, part: _Part, repeat: re.Match[str], start: int) -> _Part:
        sign, least, comma, most = repeat.groups()
        rounds = 1 if sign == "?" else 1_000 if sign or (comma and not most) else int(most or least)
        is_varied = bool(sign or comma) or any(self._follow[start:])
        if rounds > 1 and is_varied:
            self._link(part.last, part.first)
        inside = (self._follow[place] for place in range(start, len(self._atoms)))
        if rounds > 1 and is_varied and not self.danger:
            self.danger = _ALTERNATIVES if self._overlap(part.first) else None
            self.danger = self.danger or (_NESTED if any(map(self._overlap, inside)) else None)
        if part.is_nullable and rounds >= _MANY:
            self.danger = self.danger or _NESTED
        return part._replace(is_nullable=part.is_nullable or sign in ("*", "?") or least == "0")

    def _link(self, before: tuple[int, ...], after: tuple[int, ...]) -> None:
        for place in before:
            self._follow[place] += after

    def _overlap(self, places: Sequence[int]) -> bool:
        sets = [_characters_of(f"{self._flags}{self._atoms[place]})") for place in places]
        return any(one & two for one, two in combinations(sets, 2))


@cache
def _characters_of(atom: str) -> frozenset[str]:
    pattern = compile_pattern(f"^{atom}$")
    return frozenset(character for character in _SAMPLE if pattern.search(character))
