"""What to look for when a text has to go: the forms it may have taken, and the marker that comes in their place."""

from __future__ import annotations

import base64
import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from scrimshaw.errors import InvalidRequest
from scrimshaw.models import PURGED

# Shorter texts stand everywhere by chance, and too little of their base64 is their own.
MIN_CHARACTERS = 6
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_MEMORY_BYTES = 64 * 1024 * 1024
_WIDE = ("utf-16-le", "utf-16-be")


class ByteTraces:
    """Finds a text, or what an expression describes, in bytes; linear in their number."""

    def __init__(self, expression: Any, markers: Mapping[bytes, bytes], *, is_literal: bool) -> None:
        """`expression` is compiled by RE2, None for nothing; `markers` by form, for those that need their own."""
        self._expression = expression
        self._markers = markers
        self.is_literal = is_literal

    def count(self, data: bytes) -> int:
        """How often it stands in some bytes."""
        return sum(1 for _ in self._expression.finditer(data)) if self._expression else 0

    def found(self, data: bytes) -> set[bytes]:
        """The different forms in which it stands in some bytes."""
        return {match.group() for match in self._expression.finditer(data)} if self._expression else set()

    def erase(self, data: bytes) -> bytes:
        """The bytes with a marker in its place."""
        if not self._expression or not self._expression.search(data):
            return data
        erased: bytes = self._expression.sub(self._marker, data)
        return erased

    def masked(self, text: str) -> str:
        """A text that may be shown."""
        return self.erase(text.encode(errors="replace")).decode(errors="replace")

    def _marker(self, match: Any) -> bytes:
        return self._markers.get(match.group(), PURGED.encode())


def of_secret(secret: str) -> ByteTraces:
    """The traces of a text as it is, in JSON, YAML, a URL, base64, hexadecimal and UTF-16.

    Raises InvalidRequest for one so short that it stands everywhere.
    """
    if len(secret.strip()) < MIN_CHARACTERS or secret in PURGED:
        raise InvalidRequest(
            f"A secret of less than {MIN_CHARACTERS} characters would be found everywhere.",
            "Describe it and what stands around it by an expression, with --pattern.",
            parameter="secret",
        )
    forms = {form: PURGED.encode() for text in _spellings(secret) for form in _narrow(text)}
    wide = {text.encode(code): PURGED.encode(code) for text in _spellings(secret) for code in _WIDE}
    return _literal({**forms, **wide})


def of_pattern(pattern: str) -> ByteTraces:
    """The traces of whatever an expression describes, as RE2 reads it, in plain UTF-8.

    Raises InvalidRequest for what RE2 refuses, and for an expression that describes nothing or the marker.
    """
    import re2  # noqa: PLC0415 - native library, needed only where something is purged

    options = re2.Options()
    options.log_errors = False
    try:
        expression = re2.compile(pattern, options)
    except re2.error as error:
        why = error.args[0].decode(errors="replace") if error.args else ""
        raise InvalidRequest(f"RE2 refuses the pattern: {why}.", "Correct it.", parameter="pattern") from error
    if expression.search("") or expression.search(PURGED):
        raise InvalidRequest(
            f"The pattern describes nothing at all, or the marker {PURGED} too.",
            "Describe the secret more closely.",
            parameter="pattern",
        )
    return ByteTraces(expression, {}, is_literal=False)


def of_passages(passages: Iterable[str]) -> ByteTraces:
    """The traces of longer texts, as they are and in JSON."""
    return _literal({form: PURGED.encode() for text in passages for form in passage_forms(text)})


def passage_forms(text: str) -> set[bytes]:
    """The forms of a longer text."""
    return {text.encode(), *_in_json(text)}


def _literal(markers: Mapping[bytes, bytes]) -> ByteTraces:
    import re2  # noqa: PLC0415 - native library, needed only where something is purged

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem = _MEMORY_BYTES
    longest_first = sorted(markers, key=lambda form: (-len(form), form))
    expression = re2.compile(b"|".join(map(re2.escape, longest_first)), options) if markers else None
    return ByteTraces(expression, markers, is_literal=True)


def _spellings(text: str) -> set[str]:
    composed = {unicodedata.normalize(form, text) for form in ("NFC", "NFD")} | {text}
    return composed | {each.replace("\r\n", "\n").replace("\n", "\r\n") for each in composed}


def _narrow(text: str) -> Iterator[bytes]:
    """The forms in which every character takes the bytes of UTF-8 or ASCII."""
    data = text.encode()
    yield from (data, text.replace("'", "''").encode(), data.hex().encode(), data.hex().upper().encode())
    yield from _in_json(text)
    yield from _in_url(data)
    yield from _in_base64(data)


def _in_json(text: str) -> Iterator[bytes]:
    """Inside a JSON string, and inside one that stands in another."""
    for ascii_only in (True, False):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        twice = json.dumps(once, ensure_ascii=ascii_only)[1:-1]
        yield from (form.encode() for form in (once, twice, once.replace("/", "\\/")))


def _in_url(data: bytes) -> Iterator[bytes]:
    for kept in (b"", b"/"):
        quoted = "".join(chr(byte) if byte in _UNRESERVED or byte in kept else f"%{byte:02X}" for byte in data)
        lower = "".join(chr(byte) if byte in _UNRESERVED or byte in kept else f"%{byte:02x}" for byte in data)
        yield from (form.encode() for form in (quoted, lower, quoted.replace("%20", "+")))


def _in_base64(data: bytes) -> Iterator[bytes]:
    """The characters that are the text's own, wherever it begins among the groups of three bytes."""
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + data)
        own = whole[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        yield from (own, own.translate(bytes.maketrans(b"+/", b"-_")))
