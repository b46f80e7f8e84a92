"""Finds secrets by the name they are given: `password = ...` in code, settings, JSON, headers, flags and URLs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from scrimshaw.ingest.secret_rules import (
    ASSIGNMENT_HINTS,
    KEY_QUALIFIERS,
    LOOKUP_QUALIFIERS,
    NEUTRAL_TAILS,
    PASSWORD_WORDS,
    PUBLIC_QUALIFIERS,
    WEAK_WORDS,
)
from scrimshaw.ingest.secret_values import (
    is_bare_password,
    is_bare_secret,
    is_identifier_or_hash,
    is_password_literal,
    is_placeholder,
    is_random,
    is_reference,
    is_secret_literal,
    is_uuid,
)
from scrimshaw.models import Span

_TYPE = r"(?:&?(?:'static )?str|string|optional\[str\]|str \| none|secretstr|bytes)"
_OPERATOR = (
    r"(?P<close>\\?[\"'`]?\]?)(?P<operator>"
    rf"\s{{0,2}}:?\s{{0,2}}{_TYPE}\s{{0,2}}=\s{{0,4}}"
    r"|\s{0,40}(?:===?|!==?|=>|:{1,3}=|\?=|=|:(?!:))[ \t]{0,40}"
    r"|>|\s{1,4}value\s?=\s?|\s{0,4}\n\s{0,40}[\"']?value[\"']?\s?:\s?|\s{0,2},\s{0,40}|\s{1,4}is\s|[ \t]{1,3})"
)
_HEAD = re.compile(r"(?P<lead>[<\"'`$]|--?|;[ ]?|)(?P<head>[A-Za-z0-9_.][A-Za-z0-9_.-]*|)\Z")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[A-Z]|[0-9]+")
_QUOTED = re.compile(r"[rbfuRBFU]{0,2}(?P<quote>\\?[\"'`])(?!(?P=quote))(?P<value>[^\n]{1,2000}?)(?P=quote)")
_BARE = re.compile(r"(?P<value>[^\s\"'`,;&<>()\[\]{}\\]{1,2000})(?P<next>.?)")
_USER_LINE = re.compile(
    r"user(?:name)?\s{0,3}[=: ]\s{0,3}[\"']?[\w.@-]+[\"']?;?[ \t]*(?:(?:#|//)[^\n]*)?\n"
    r"(?:\s*(?:#|//)[^\n]*\n){0,5}\s{0,40}(?:\$?\w{1,20}(?:->|\.))?\Z",
    re.IGNORECASE,
)


class _Pair(NamedTuple):
    """A name, what joins it to its value (stripped), and the value; `lead` is `<`, `-`, `--` or nothing."""

    lead: str
    name: str
    operator: str
    value: str
    quote: str
    after: str
    tight: bool
    follows_user: bool

    @property
    def quoted(self) -> bool:
        return bool(self.quote)


def find_assigned(text: str, lowered: str) -> Iterator[Span]:
    """Yield the values in `text` that a name marks as secret; `lowered` is `text` in lower case, of equal length."""
    seen: set[int] = set()
    for hint in ASSIGNMENT_HINTS:
        if hint not in lowered:
            continue
        reach = 0
        for match in _pattern(hint).finditer(lowered):
            if match.start() < reach or match.end() in seen:
                continue
            seen.add(match.end())
            span = _judge(text, match)
            if span:
                reach = span.end
                yield span


@cache
def _pattern(hint: str) -> re.Pattern[str]:
    return re.compile(rf"{hint}[a-z0-9_.-]{{0,24}}(?: ?key)?{_OPERATOR}")


def _judge(text: str, match: re.Match[str]) -> Span | None:
    found = _QUOTED.match(text, match.end()) or _BARE.match(text, match.end())
    head = _HEAD.search(text, max(0, match.start() - 40), match.start())
    if not found or not head:
        return None
    name = head["head"] + text[match.start() : match.start("close")]
    closes_string = head["lead"] and head["lead"] == found.groupdict().get("quote") and not match["close"]
    kind = "" if closes_string else _kind(name)
    if not kind or not _ACCEPTS[kind](_pair(text, match, head, name, found)):
        return None
    return Span(start=found.start("value"), end=found.end("value"), secret_class=_CLASSES.get(kind, kind))


def _pair(text: str, match: re.Match[str], head: re.Match[str], name: str, found: re.Match[str]) -> _Pair:
    quote = found["quote"] if "quote" in found.re.groupindex else ""
    operator = match["operator"]
    return _Pair(
        lead=head["lead"],
        name=name,
        operator=operator.strip() or ("," if match["close"] else " "),
        value=found["value"],
        quote=quote,
        after="" if quote else found["next"],
        tight=operator == "=",
        follows_user=bool(_USER_LINE.search(text, max(0, head.start() - 200), head.start())),
    )


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _kind(name: str) -> str:
    """What a name announces: `password`, `token`, `secret`, `api-key`, `key` (perhaps one) or nothing."""
    words = _words(name)
    while words and (words[-1] in NEUTRAL_TAILS or words[-1].isdigit()):
        words.pop()
    if not words or not PUBLIC_QUALIFIERS.isdisjoint(words):
        return ""
    last = words[-1]
    if last in PASSWORD_WORDS or last.endswith(("password", "passwd")):
        return "password"
    if last == "key":
        return "api-key" if len(words) > 1 and words[-2] in KEY_QUALIFIERS else "key"
    if last.endswith(("apikey", "secretkey", "privatekey", "accesskey", "sharedkey")):
        return "api-key"
    if last in ("token", "pat") or last.endswith("token"):
        return "token"
    if last in ("credential", "credentials") or last.endswith("secret"):
        return "secret"
    return "key" if last in WEAK_WORDS else ""


def _accepts_password(pair: _Pair) -> bool:
    name = pair.name.lower()
    if pair.follows_user and pair.operator in ("=", ":", " "):
        return is_password_literal(pair.value, name) or (pair.quoted and not is_reference(pair.value))
    if pair.quoted:
        return _accepts_quoted_password(pair)
    if pair.after in _CODE or pair.operator in _COMPARISONS or pair.operator in (",", "is"):
        return False
    if pair.operator in (" ", ">"):
        return pair.lead in ("<", "-", "--") and _is_word_password(pair)
    if pair.lead == "$" and pair.after == ";":
        return pair.value.islower() and pair.value not in _PERL_CALLS and not is_placeholder(pair.value)
    if pair.lead.strip() in (";", '"', "'") and pair.after == ";":
        return not is_reference(pair.value)
    if _is_setting(pair):
        return _is_word_password(pair)
    return name != "pass" and is_bare_password(pair.value)


def _accepts_quoted_password(pair: _Pair) -> bool:
    if pair.operator == ",":
        return is_random(pair.value, 8)
    if pair.operator == " " and (pair.quote == "`" or pair.name.lower() == "pass"):
        return False
    return is_password_literal(pair.value, pair.name.lower())


def _is_setting(pair: _Pair) -> bool:
    """Whether the pair stands in a settings file or on a command line, where a plain word is a value."""
    if pair.lead in ("-", "--"):
        return True
    return pair.tight and (pair.name.isupper() or "." in pair.name)


def _is_word_password(pair: _Pair) -> bool:
    return len(pair.value) >= 4 and not is_placeholder(pair.value) and pair.value.lower() != pair.name.lower()


def _accepts_secret(pair: _Pair) -> bool:
    if pair.operator in (" ", "is", ">") and pair.lead not in ("<", "-", "--"):
        return False
    if pair.operator in _COMPARISONS and pair.quoted and pair.name.lower().endswith("secret"):
        return is_password_literal(pair.value, pair.name.lower())
    if pair.quoted:
        return is_random(pair.value, 12) if pair.operator == "," else is_secret_literal(pair.value)
    return pair.after not in _CODE and pair.operator != "," and len(pair.value) >= 8 and is_bare_secret(pair.value)


def _accepts_key(pair: _Pair) -> bool:
    """A name that only ends in `key` or `login`: the value must be drawn; a hash needs a full name."""
    if pair.operator in (" ", "is", ",", ">") or pair.after in _CODE:
        return False
    words = _words(pair.name)
    named = len(words) > 1 and LOOKUP_QUALIFIERS.isdisjoint(words)
    if is_uuid(pair.value):
        return pair.quoted and named and pair.name.isupper()
    if not is_random(pair.value) or is_placeholder(pair.value):
        return False
    return named or not is_identifier_or_hash(pair.value)


_PERL_CALLS = ("shift", "pop", "undef", "wantarray")
_CODE = ("(", "[", "{")
_CLASSES = {"key": "api-key"}
_COMPARISONS = ("==", "!=", "===", "!==")
_ACCEPTS: dict[str, Callable[[_Pair], bool]] = {
    "password": _accepts_password,
    "token": _accepts_secret,
    "secret": _accepts_secret,
    "api-key": _accepts_secret,
    "key": _accepts_key,
}
