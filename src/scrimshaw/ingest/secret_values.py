"""Judges a value found where a secret could stand: a real one, a placeholder, or code that only names one."""

from __future__ import annotations

import re
from collections import Counter
from math import log2

from scrimshaw.ingest.secret_rules import PLACEHOLDER_PARTS, PLACEHOLDER_WORDS

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


def entropy(value: str) -> float:
    """The Shannon entropy of the characters of `value`, in bits per character; 0 for an empty text."""
    size = len(value)
    return -sum(n / size * log2(n / size) for n in Counter(value).values())


def is_placeholder(value: str) -> bool:
    """Whether `value` stands for a secret without being one: `<your-key>`, `${VAR}`, `xxxx`, `changeme`, `null`."""
    value = value.strip(" '\">")
    lowered = value.lower()
    if lowered.strip(" -_.:;!?") in PLACEHOLDER_WORDS or is_reference(value):
        return True
    if any(part in lowered for part in PLACEHOLDER_PARTS):
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
