"""Finds a secret in bytes, in every encoding in which it may have been written, and replaces it by a marker."""

import base64
import json
import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from msgspec import Struct

from scrimshaw.errors import InvalidRequest, UnreadableFile
from scrimshaw.ingest.extraction import compile_pattern
from scrimshaw.ingest.memory_file import edit_memory_file, parse_memory_file
from scrimshaw.models import PURGED

MIN_CHARACTERS = 6  # shorter texts occur everywhere by chance, and too little of their base64 is specific
# Several of its words, or a random one, count as a part of it. Between these marks, words are a value: a phrase, a
# topic, a piece of an id; in a sentence they may be unrelated.
_PART_CHARACTERS, _PART_WORDS = 8, 5
_LEFT, _RIGHT = b"\"'[,-/", b"\"'],-/\r\n"
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_MEMORY_BYTES = 64 * 1024 * 1024
_WIDE = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")
# The end of a line, with a continuation mark, plain or escaped; the next line may be indented.
_END = rb"[ \t]*(?:[\\=]?\r?\n|(?:\\{1,2}r)?\\{1,2}n)[ \t]*"
_ESCAPE = re.compile(r"\\.")  # of one character in JSON
_GO = {ord(each): f"\\u{ord(each):04x}" for each in "<>&"}
_NET = {ord(each): f"\\u{ord(each):04X}" for each in "<>&'+"}
_FORMS = (
    "as it is", "in small and capital letters", "its words joined as in ids", "in JSON, once and twice",
    "in YAML and SQL quotes", "in a URL", "in base64 at any place, of both alphabets", "in hexadecimal",
    "in UTF-16 and UTF-32", "with the line ends of Windows and Unix", "in the Unicode forms NFC and NFD",
    "broken over lines, indented or not", "in part, as a phrase or in an id",
)  # fmt: skip


class SecretTraces(Struct, frozen=True):
    """Finds a text, or matches of an expression, in bytes; in linear time."""

    expression: Any  #: compiled by RE2, like the others; None for nothing
    markers: Mapping[bytes, bytes]  #: markers for forms that are not UTF-8
    forms: tuple[str, ...]  #: the forms searched for, in words
    ends: Any = None  #: finds the ends of lines, and `joined` the text without them
    joined: Any = None
    parts: Sequence[Any] = (None, None)  #: find adjacent words of it, and its random word

    def count(self, data: bytes) -> int:
        return len(self._spans(data))

    def found(self, data: bytes) -> set[bytes]:
        """The different forms in which it occurs in some bytes, on one line."""
        return {match.group() for match in self.expression.finditer(data)} if self.expression else set()

    def erase(self, data: bytes) -> bytes:
        """The bytes with markers in its place, which are put into front matter as values, so that it stays YAML."""
        if (spans := self._spans(data)) and data.startswith(b"---"):
            with suppress(UnreadableFile):
                file = parse_memory_file(data)
                masked = {key: self._mask_value(value) for key, value in file.values.items()}
                changes = {key: value for key, value in masked.items() if value != file.values[key]}
                data = edit_memory_file(file, changes).raw if changes else data
                spans = self._spans(data)
        parts, end = [], 0
        for start, stop, marker in spans:
            parts += [data[end:start], marker]
            end = stop
        return b"".join((*parts, data[end:]))

    def mask(self, text: str) -> str:
        """The text with the secret replaced by the marker."""
        return self.erase(text.encode(errors="surrogatepass")).decode(errors="replace")

    def _mask_value(self, value: object) -> object:
        if isinstance(value, str):  # in quotes, which say that it is a value
            return self.mask(f'"{value}"').removeprefix('"').removesuffix('"')
        if isinstance(value, list):
            return [*map(self._mask_value, value)]
        return {key: self._mask_value(each) for key, each in value.items()} if isinstance(value, Mapping) else value

    def _spans(self, data: bytes) -> list[tuple[int, int, bytes]]:
        """(start, end, marker) of all places, in order; no two overlap."""
        matches = self.expression.finditer(data) if self.expression else ()
        spans = [(*match.span(), self.markers.get(match.group().lower(), PURGED.encode())) for match in matches]
        for start, stop in (*self._over_lines(data), *self._find_parts(data)):
            place = bisect_left(spans, (start,))
            if (not place or spans[place - 1][1] <= start) and (place == len(spans) or stop <= spans[place][0]):
                spans.insert(place, (start, stop, PURGED.encode()))
        return spans

    def _find_parts(self, data: bytes) -> Iterator[tuple[int, int]]:
        """(start, end) of the places where some of its words are a value, and of its random word."""
        runs, drawn = ([match.span() for match in each.finditer(data)] if each else [] for each in self.parts)
        for start, end in runs:
            before = data[max(start - 2, 0) : start].removesuffix(b" ")[-1:]
            if before in _LEFT and data[end : end + 1] in _RIGHT:
                yield start, end
        yield from drawn

    def _over_lines(self, data: bytes) -> Iterator[tuple[int, int]]:
        """(start, end) of the places where it spans lines."""
        whole = self.ends.sub(b"", data) if self.joined else b""
        if not self.joined or not self.joined.search(whole):
            return
        at, removed = [0], [0]
        for end in self.ends.finditer(data):
            at.append(end.start() - removed[-1])
            removed.append(end.end() - at[-1])
        for match in self.joined.finditer(whole):
            first, final = bisect_right(at, match.start()) - 1, bisect_left(at, match.end()) - 1
            if first != final:
                yield match.start() + removed[first], match.end() + removed[final]


def traces_of_secret(secret: str) -> SecretTraces:
    """The traces of a text in all encodings; raises InvalidRequest for one too short, too long, or not Unicode."""
    _require_unicode(secret, "secret")
    if len(secret.strip()) < MIN_CHARACTERS or secret in PURGED:
        message = f"A secret of less than {MIN_CHARACTERS} characters would be found everywhere."
        hint = "Describe it with the text around it as an expression, with --pattern."
        raise InvalidRequest(message, hint, parameter="secret")
    # Topics, phrases and ids are made of its words, in lower case. RE2 ignores case only for ASCII.
    words = re.findall(r"\w+", secret.casefold())
    is_word = len(words) < 2 and not re.search(r"\d", secret)  # it may occur anywhere without marks around it
    derived = {text for text in ("-".join(words), " ".join(words)) if len(text) >= MIN_CHARACTERS and not is_word}
    cases = {secret, secret.lower(), secret.upper(), secret.casefold()} | derived
    composed = {unicodedata.normalize(form, each) for form in ("NFC", "NFD") for each in cases} | cases
    spellings = composed | {each.replace("\r\n", "\n").replace("\n", "\r\n") for each in composed}
    narrow = {form: PURGED.encode() for text in spellings for form in _encode_narrow(text)}
    wide = {text.encode(code).lower(): PURGED.encode(code) for text in spellings for code in _WIDE}
    ends = _compile(_END)
    # Where a line ended, a space may be missing.
    joined = _compile_any({ends.sub(b"", text) for text in narrow}, space=b" ?", any_case=True)
    runs = (words[at : at + many] for many in range(2, _PART_WORDS + 1) for at in range(len(words) - many + 1))
    drawn = [word for word in words if re.search(r"\d", word) and not word.isdecimal()]
    texts = {*map(" ".join, runs)}, {max(drawn, key=len, default="")}
    long = ([text.encode() for text in each if len(text) >= _PART_CHARACTERS] for each in texts)
    parts = [_compile_any(each, space=b"[ _-]", any_case=True) for each in long]
    return SecretTraces(_compile_any({**narrow, **wide}, any_case=True), wide, _FORMS, ends, joined, parts)


def traces_of_pattern(pattern: str) -> SecretTraces:
    """The traces of an expression's matches, in UTF-8; raises InvalidRequest for an invalid or too general one."""
    import re2  # noqa: PLC0415 - native library, needed only where something is purged

    _require_unicode(pattern, "pattern")
    try:
        expression = compile_pattern(pattern)
    except re2.error as error:
        why = error.args[0].decode(errors="replace")
        raise InvalidRequest(f"RE2 does not accept the pattern: {why}.", "Correct it.", parameter="pattern") from error
    if expression.search("") or expression.search(PURGED):
        message = f"The pattern also matches the empty text or the marker {PURGED}."
        raise InvalidRequest(message, "Describe the secret more closely.", parameter="pattern")
    return SecretTraces(expression, {}, ("what the expression describes, in UTF-8",))


def traces_of_passages(passages: Iterable[str], which: str = "lines") -> SecretTraces:
    """The traces of longer texts, plain and in JSON; `which` names them in words."""
    markers = {form: PURGED.encode() for text in passages for form in passage_forms(text)}
    return SecretTraces(_compile_any(markers), markers, (f"{which} as they are", "in JSON"))


def passage_forms(text: str) -> set[bytes]:
    """The forms of a longer text."""
    return {text.encode(), *_encode_json(text)}


def _require_unicode(text: str, parameter: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        hint = "Describe the text around it, with --pattern."
        raise InvalidRequest(f"The {parameter} is not UTF-8 text.", hint, parameter=parameter) from error


def _compile_any(texts: Iterable[bytes], space: bytes = b"\\ ", *, any_case: bool = False) -> Any:
    """An expression for any of some texts, preferring longer ones; None without texts."""
    import re2  # noqa: PLC0415 - native library, needed only where something is purged

    longest_first = sorted(texts, key=lambda text: (-len(text), text))
    expressions = (bytes(re2.escape(text)).replace(b"\\ ", space) for text in longest_first)
    return _compile(b"|".join(expressions), any_case=any_case) if longest_first else None


def _compile(expression: bytes, *, any_case: bool = False) -> Any:
    """An expression over bytes; raises InvalidRequest for one that is too long."""
    import re2  # noqa: PLC0415 - native library, needed only where something is purged

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.max_mem, options.case_sensitive = _MEMORY_BYTES, not any_case
    options.log_errors = False  # logs would show the secret
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        hint = "Give a part of it that occurs in nothing else."
        raise InvalidRequest("The text is too long to search for.", hint, parameter="secret") from error


def _encode_narrow(text: str) -> Iterator[bytes]:
    """The forms in which characters are bytes of UTF-8 or ASCII; those that differ only in case are found as one."""
    data = text.encode()
    yield from (data, text.replace("'", "''").encode(), data.hex().encode())
    yield from _encode_json(text)
    # As Go, .NET and Java write JSON, once and twice: characters of HTML as numbers.
    plain, numbers = json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]
    html = _ESCAPE.sub(lambda found: "\\u0022" if found[0] == '\\"' else found[0], numbers)
    for once in (plain.translate(_GO), html.translate(_NET)):
        yield from (once.encode(), json.dumps(once, ensure_ascii=False)[1:-1].encode())
    for safe in (_UNRESERVED, _UNRESERVED | set(b"/")):
        quoted = "".join(chr(byte) if byte in safe else f"%{byte:02X}" for byte in data)
        yield from (quoted.encode(), quoted.replace("%20", "+").encode())
    for before in range(3):  # base64 characters that depend on the text alone, at each offset in a group of three bytes
        own = base64.b64encode(b"\0" * before + data)[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        yield from (own, own.translate(bytes.maketrans(b"+/", b"-_")))


def _encode_json(text: str) -> Iterator[bytes]:
    """The text inside a JSON string, and inside a nested one."""
    for ascii_only in (True, False):
        once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
        twice = json.dumps(once, ensure_ascii=ascii_only)[1:-1]
        yield from (form.encode() for form in (once, twice, once.replace("/", "\\/")))
