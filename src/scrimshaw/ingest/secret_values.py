"""Judges values that may be secrets, and finds those that a name announces: `password = ...` in any notation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from math import log2
from typing import NamedTuple

from msgspec import Struct

from scrimshaw.ingest.tables import load_table
from scrimshaw.models import Span


class SecretRule(Struct, frozen=True, rename={"secret_class": "class"}):
    """One shape of secret; the table says what its fields mean."""

    secret_class: str
    hint: str
    pattern: str


class SecretTable(Struct, frozen=True):
    """`secrets.toml`."""

    tokens: str
    exemptions: str
    words: dict[str, str]
    shapes: list[SecretRule]
    personal: list[SecretRule]


TABLE = load_table(__file__, "secrets", SecretTable)
WORDS = {name: frozenset(listing.split()) for name, listing in TABLE.words.items()}

_REFERENCE = re.compile(
    r"\$\(|\$?\{|\$+[A-Za-z_]\w*$|\$\d$|%\w+%$|%[sdr({]|<|@[A-Za-z_]+$|\*+$|\{\{|\[|#\{|\.\.|:\w+$|!(?:Ref|Sub|vault)\b"
)
_TEMPLATE = re.compile(r"\$\{|\{\{|\$\(|<%|#\{|\{[\w.]{0,40}\}|%\([\w.]+\)s|%[sdr]|\\\(")
_SEGMENT = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_SAME_RUN = re.compile(r"([X*.#0\-_?])\1{5,}|x{12}")
_LONG_RUN = re.compile(r"(.)\1{15}")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_WORDS = re.compile(r"[#./]?[A-Za-z][A-Za-z]*(?:[-_./: #][A-Za-z]+)*[.:!?]?$")
_UUID = re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$")
_LONG_HEX = re.compile(r"(?:[0-9a-f]{32,}|[0-9A-F]{32,})$")
_HASH = re.compile(r"(?:0x)?[0-9a-fA-F]+$|sha\d{1,3}[-:=]", re.ASCII)
_LOCATOR = re.compile(
    r"[a-z][a-z0-9+.-]*://|~?\.{0,2}/[\w.@~-]+(?:/|$)|[A-Za-z]:\\|arn:|[\w.-]+\.(?:json|ya?ml|pem|crt|key|txt|py|js|ts|go|rb|cer|p12|toml|md)$"
)
_DOTTED = re.compile(r"[A-Za-z_][\w-]*(?:(?:\.|->|::|\?\.)[A-Za-z_]\w*)+$")
_VERSION = re.compile(r"(?:[a-z][\w-]*-)?v?\d+(?:\.\d+)+[\w.+-]*$|\d{4}-\d\d-\d\d")
# Characters that tell how a value was drawn: names in a row would otherwise have each all that follows looked through.
_SAMPLE = 256
_NAMED = re.compile(r"[A-Za-z_]*\d{0,2}$")
_TYPE = r"(?:&?(?:'static )?str|string|optional\[str\]|str \| none|secretstr|bytes)"
_OPERATOR = (
    r"(?P<close>\\?[\"'`]?\]?)(?P<operator>"
    rf"\s{{0,2}}:?\s{{0,2}}{_TYPE}\s{{0,2}}=\s{{0,4}}"
    r"|\s{0,40}(?:===?|!==?|=>|:{1,3}=|\?=|=|:(?!:))[ \t]{0,40}"
    r"|>|\s{1,4}value\s?=\s?|\s{0,4}\n\s{0,40}[\"']?value[\"']?\s?:\s?|\s{0,2},\s{0,40}|\s{1,4}is\s|[ \t]{1,3})"
)
_HEAD = re.compile(r"(?P<lead>[<\"'`$]|--?|;[ ]?|)(?P<head>[A-Za-z0-9_.][A-Za-z0-9_.-]*|)\Z")
_NAME_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[A-Z]|[0-9]+")
_QUOTED_VALUE = re.compile(r"[rbfuRBFU]{0,2}(?P<quote>\\?[\"'`])(?!(?P=quote))(?P<value>[^\n]{1,2000}?)(?P=quote)")
_BARE_VALUE = re.compile(r"(?P<value>[^\s\"'`,;&<>()\[\]{}\\]{1,2000})(?P<next>.?)")
_USER_LINE = re.compile(
    r"user(?:name)?\s{0,3}[=: ]\s{0,3}[\"']?[\w.@-]+[\"']?;?[ \t]*(?:(?:#|//)[^\n]*)?\n"
    r"(?:\s*(?:#|//)[^\n]*\n){0,5}\s{0,40}(?:\$?\w{1,20}(?:->|\.))?\Z",
    re.IGNORECASE,
)


# Values


def entropy(value: str) -> float:
    """The Shannon entropy of the characters of `value`, in bits per character; 0 for an empty text."""
    size = len(value)
    return -sum(n / size * log2(n / size) for n in Counter(value).values())


def is_placeholder(value: str) -> bool:
    """Whether `value` stands for a secret without being one: `<your-key>`, `${VAR}`, `xxxx`, `changeme`, `null`."""
    value = value.strip(" '\">")
    lowered = value.lower()
    if lowered.strip(" -_.:;!?") in WORDS["placeholder_words"] or is_reference(value):
        return True
    if any(part in lowered for part in WORDS["placeholder_parts"]):
        return True
    return len(set(lowered)) <= 2 or bool(_LONG_RUN.search(lowered))


def is_reference(value: str) -> bool:
    """Whether `value` only names where the secret is: a variable, a template, a call."""
    return bool(_REFERENCE.match(value) or _TEMPLATE.search(value))


def is_masked(token: str) -> bool:
    """Whether a token with a known prefix is blanked out, as documentation prints it."""
    return bool(_SAME_RUN.search(token)) or "EXAMPLE" in token or "your" in token.lower()


def is_typed_sample(token: str) -> bool:
    """Whether a token holds half the alphabet in order, as only a sample typed by hand does."""
    lowered = token.lower()
    return any(_ALPHABET[start : start + 13] in lowered for start in range(14))


def is_random(value: str, shortest: int = 16) -> bool:
    """Whether `value` reads like drawn characters: letters and digits in short runs, >= 3 bits per character."""
    if len(value) < shortest or value.isdigit() or not re.search(r"\d", value):
        return False
    if _LONG_HEX.match(value):
        return entropy(value) >= 3.0
    sample = value[:_SAMPLE]
    runs = _SEGMENT.findall(sample)
    return bool(runs) and sum(map(len, runs)) <= 3.3 * len(runs) and entropy(sample) >= 3.0


def is_identifier_or_hash(value: str) -> bool:
    """Whether `value` is a commit, a digest, a UUID, a path, a URL, a version or a dotted name."""
    return any(pattern.match(value) for pattern in (_UUID, _HASH, _LOCATOR, _DOTTED, _VERSION))


def is_uuid(value: str) -> bool:
    """Whether `value` is a UUID."""
    return bool(_UUID.match(value))


def is_secret_literal(value: str) -> bool:
    """Whether a quoted value under a name like `token` or `api_key` is a secret and not a word or a locator."""
    if len(value) < 8 or re.search(r"\s", value) or is_placeholder(value) or _VERSION.match(value):
        return False
    if _LOCATOR.match(value) or (_DOTTED.match(value) and not is_random(value)):
        return False
    if value.isdigit():
        return len(value) >= 10
    return (bool(re.search(r"\d", value)) and not _NAMED.match(value)) or _is_random_letters(value)


def is_password_literal(value: str, name: str) -> bool:
    """Whether a quoted value under a name like `password` is one: not a label, not the name itself, not a template."""
    if len(value) < 4 or value.count(" ") > 0 or is_placeholder(value):
        return False
    words = _WORDS.match(value) and re.search(r"[-_./:#]", value)
    return not (words and any(word in value.lower() for word in ("pass", "pwd", name))) and not _LOCATOR.match(value)


def is_bare_secret(value: str) -> bool:
    """Whether an unquoted value is a secret; a name of a variable is not, a word with a digit inside is."""
    if len(value) < 6 or is_placeholder(value):
        return False
    if _DOTTED.match(value) or _NAMED.match(value):
        return _is_random_letters(value) or is_random(value)
    if _VERSION.match(value) or _LOCATOR.match(value):
        return False
    return bool(re.search(r"\d", value)) if not value.isdigit() else len(value) >= 10


def is_bare_password(value: str) -> bool:
    """Whether an unquoted value under a name like `password` is one where code could stand as well."""
    if value.isdigit():
        return len(value) >= 6
    strange = len(value) >= 6 and re.search(r"[!@#^&*?~%]", value) and not is_placeholder(value)
    return bool(strange) or is_bare_secret(value)


def _is_random_letters(value: str) -> bool:
    runs = _SEGMENT.findall(value)
    return len(value) >= 16 and value.isalpha() and sum(map(len, runs)) <= 2.6 * len(runs) and entropy(value) >= 3.5


# Values with a name


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


def find_assigned_secrets(text: str, lowered: str) -> Iterator[Span]:
    """Yield the values in `text` that a name marks as secret; `lowered` is `text` in lower case, of equal length."""
    seen: set[int] = set()
    for hint in TABLE.words["assignment_hints"].split():
        if hint not in lowered:
            continue
        reach = 0
        for match in _assignment_pattern(hint).finditer(lowered):
            if match.start() < reach or match.end() in seen:
                continue
            seen.add(match.end())
            span = _judge_pair(text, match)
            if span:
                reach = span.end
                yield span


@cache
def _assignment_pattern(hint: str) -> re.Pattern[str]:
    return re.compile(rf"{hint}[a-z0-9_.-]{{0,24}}(?: ?key)?{_OPERATOR}")


def _judge_pair(text: str, match: re.Match[str]) -> Span | None:
    found = _QUOTED_VALUE.match(text, match.end()) or _BARE_VALUE.match(text, match.end())
    head = _HEAD.search(text, max(0, match.start() - 40), match.start())
    if not found or not head:
        return None
    name = head["head"] + text[match.start() : match.start("close")]
    quote = found["quote"] if "quote" in found.re.groupindex else ""
    closes_string = head["lead"] and head["lead"] == quote and not match["close"]
    kind = "" if closes_string else _find_kind(name)
    if not kind:
        return None
    operator = match["operator"]
    pair = _Pair(
        lead=head["lead"],
        name=name,
        operator=operator.strip() or ("," if match["close"] else " "),
        value=found["value"],
        quote=quote,
        after="" if quote else found["next"],
        tight=operator == "=",
        follows_user=bool(_USER_LINE.search(text, max(0, head.start() - 200), head.start())),
    )
    if not _ACCEPTS[kind](pair):
        return None
    secret_class = "api-key" if kind == "key" else kind
    return Span(start=found.start("value"), end=found.end("value"), secret_class=secret_class)


def _split_name(name: str) -> list[str]:
    return [word.lower() for word in _NAME_WORD.findall(name)]


def _find_kind(name: str) -> str:
    """What a name announces: `password`, `token`, `secret`, `api-key`, `key` (perhaps one) or nothing."""
    words = _split_name(name)
    while words and (words[-1] in WORDS["neutral_tails"] or words[-1].isdigit()):
        words.pop()
    if not words or not WORDS["public_qualifiers"].isdisjoint(words):
        return ""
    last = words[-1]
    if last in WORDS["password_words"] or last.endswith(("password", "passwd")):
        return "password"
    if last == "key":
        return "api-key" if len(words) > 1 and words[-2] in WORDS["key_qualifiers"] else "key"
    if last.endswith(("apikey", "secretkey", "privatekey", "accesskey", "sharedkey")):
        return "api-key"
    if last in ("token", "pat") or last.endswith("token"):
        return "token"
    if last in ("credential", "credentials") or last.endswith("secret"):
        return "secret"
    return "key" if last in WORDS["weak_words"] else ""


def _accepts_password(pair: _Pair) -> bool:
    name = pair.name.lower()
    if pair.follows_user and pair.operator in ("=", ":", " "):
        return is_password_literal(pair.value, name) or (bool(pair.quote) and not is_reference(pair.value))
    if pair.quote:
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
    if pair.operator in _COMPARISONS and pair.quote and pair.name.lower().endswith("secret"):
        return is_password_literal(pair.value, pair.name.lower())
    if pair.quote:
        return is_random(pair.value, 12) if pair.operator == "," else is_secret_literal(pair.value)
    return pair.after not in _CODE and pair.operator != "," and len(pair.value) >= 8 and is_bare_secret(pair.value)


def _accepts_key(pair: _Pair) -> bool:
    """A name that only ends in `key` or `login`: the value must be drawn; a hash needs a full name."""
    if pair.operator in (" ", "is", ",", ">") or pair.after in _CODE:
        return False
    words = _split_name(pair.name)
    named = len(words) > 1 and WORDS["lookup_qualifiers"].isdisjoint(words)
    if is_uuid(pair.value):
        return bool(pair.quote) and named and pair.name.isupper()
    if not is_random(pair.value) or is_placeholder(pair.value):
        return False
    return named or not is_identifier_or_hash(pair.value)


_PERL_CALLS = ("shift", "pop", "undef", "wantarray")
_CODE = ("(", "[", "{")
_COMPARISONS = ("==", "!=", "===", "!==")
_ACCEPTS: dict[str, Callable[[_Pair], bool]] = {
    "password": _accepts_password,
    "token": _accepts_secret,
    "secret": _accepts_secret,
    "api-key": _accepts_secret,
    "key": _accepts_key,
}
