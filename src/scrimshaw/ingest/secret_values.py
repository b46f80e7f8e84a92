"""Judges values that may be secrets, and finds those announced by a name: `password = ...` in any notation."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from math import log2
from typing import NamedTuple

from msgspec import Struct

from scrimshaw.ingest.tables import load_table
from scrimshaw.models import Span


class SecretRule(Struct, frozen=True, rename={"secret_class": "class"}):
    """One form of secret; the table explains its fields."""

    secret_class: str
    hint: str
    pattern: str


class SecretTable(Struct, frozen=True):
    """`secrets.toml`."""

    tokens: str
    told: str
    exemptions: str
    words: dict[str, str]
    patterns: dict[str, str]
    shapes: list[SecretRule]
    commands: list[SecretRule]
    personal: list[SecretRule]


TABLE = load_table(__file__, "secrets", SecretTable)
WORDS = {name: frozenset(listing.split()) for name, listing in TABLE.words.items()}
# Compiled when first used: most events have nothing to judge.
PATTERNS = {name: "".join(listing.splitlines()) for name, listing in TABLE.patterns.items()}
_HINTS = TABLE.words["assignment_hints"].strip().split(",")
_HEADINGS = {"pass", "pw", "kennwort", "contrase"}  # those that may name a column
_TOLD = [SecretRule(*re.split("  +", line)) for line in TABLE.told.splitlines()]

_SAYS_PASSWORD, _COLONS = ("pass", "kennwort"), (": ", " is ", " ist ", " lautet ")
_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_SAMPLE = 256  # characters enough to judge a value by: for a row of names, each would otherwise scan the whole rest


def entropy(value: str) -> float:
    """The Shannon entropy of the characters of `value`, in bits per character; 0 for an empty text."""
    size = len(value)
    return -sum(n / size * log2(n / size) for n in Counter(value).values())


def is_placeholder(value: str) -> bool:
    """Whether `value` is a placeholder for a secret: `<your-key>`, `${VAR}`, `xxxx`, `changeme`, `null`."""
    value = value.strip(" '\">")
    lowered = value.lower()
    return (
        lowered.strip(" -_.:;!?") in WORDS["placeholder_words"]
        or is_reference(value)
        or any(part in lowered for part in WORDS["placeholder_parts"])
        or len(set(lowered)) <= 2
        or bool(re.search(PATTERNS["long_run"], lowered))
    )


def is_reference(value: str) -> bool:
    """Whether `value` only refers to a secret: a variable, a template, a call."""
    return bool(re.match(PATTERNS["reference"], value) or re.search(PATTERNS["template"], value))


def is_masked(token: str) -> bool:
    """Whether a token with a known prefix is masked, as in documentation."""
    return bool(re.search(PATTERNS["sample_parts"], token))


def is_typed_sample(token: str) -> bool:
    """Whether a token contains half the alphabet in order, as only samples typed by hand do."""
    return any(_ALPHABET[start : start + 13] in token.lower() for start in range(14))


def is_random(value: str, shortest: int = 16) -> bool:
    """Whether `value` looks random: letters and digits in short runs, >= 3 bits per character."""
    if len(value) < shortest or value.isdigit() or " " in value or not re.search(r"\d", value):
        return False
    if re.match(PATTERNS["long_hex"], value):
        return entropy(value) >= 3.0
    sample = value[:_SAMPLE]
    runs = re.findall(PATTERNS["segment"], sample)
    return bool(runs) and sum(map(len, runs)) <= 3.3 * len(runs) and entropy(sample) >= 3.0


def measure_drawn(value: str) -> int:
    """How many letters and digits `value` has, if they look random, with few sequences as in words; otherwise 0."""
    value = re.sub(r"(?<!\.)\.\.?$", "", value) if value[-1:] == "." else value  # the end of its sentence
    if len(value) > 200 or re.search(PATTERNS["no_key"], value) or is_masked(value):
        return 0
    plain = re.sub(r"[\W_]", "", value[:_SAMPLE])
    size, low, least = len(plain), plain.lower(), 0.85 * len(value)
    pairs = sum(map(WORDS["common_pairs"].__contains__, re.findall("..", low) + re.findall("..", low[1:])))
    is_wordy = pairs > 0.35 * size or size > 3.8 * len(re.findall(PATTERNS["segment"], plain))
    return 0 if is_wordy or size < least or entropy(plain) < 3.0 or re.match(PATTERNS["locator"], value) else size


def _is_secret_literal(value: str) -> bool:
    """Whether a quoted value under a name like `token` or `api_key` is a secret and not a word or a locator."""
    if len(value) < 8 or re.search(r"\s", value) or is_placeholder(value) or re.match(PATTERNS["version"], value):
        return False
    if re.match(PATTERNS["locator"], value) or (re.match(PATTERNS["dotted"], value) and not is_random(value)):
        return False
    if value.isdigit():
        return len(value) >= 10
    return (bool(re.search(r"\d", value)) and not re.match(PATTERNS["named"], value)) or _is_random_letters(value)


def _is_password_literal(value: str, name: str) -> bool:
    """Whether a quoted value under a name like `password` is one: not a label, not the name itself, not a template."""
    if len(value) < 4 or " " in value or is_placeholder(value) or re.match(PATTERNS["locator"], value):
        return False
    is_label = re.match(PATTERNS["words"], value) and re.search(r"[-_./:#]", value)
    return not (is_label and any(word in value.lower() for word in ("pass", "pwd", name)))


def _is_bare_secret(value: str) -> bool:
    """Whether an unquoted value is a secret; a name of a variable is not, a word with a digit inside is."""
    if len(value) < 6 or is_placeholder(value):
        return False
    if re.match(PATTERNS["dotted"], value) or re.match(PATTERNS["named"], value):
        return _is_random_letters(value) or is_random(value)
    if re.match(PATTERNS["version"], value) or re.match(PATTERNS["locator"], value):
        return False
    return bool(re.search(r"\d", value)) if not value.isdigit() else len(value) >= 10


def _is_random_letters(value: str) -> bool:
    runs = re.findall(PATTERNS["segment"], value)
    return len(value) >= 16 and value.isalpha() and sum(map(len, runs)) <= 2.6 * len(runs) and entropy(value) >= 3.5


def is_made_up(value: str) -> bool:
    """Whether a value is neither a word nor a name nor code, but of the kind that people think up as a password."""
    return bool(re.match(PATTERNS["made_up"], value[:_SAMPLE])) and not is_placeholder(value) and not is_masked(value)


class _Pair(NamedTuple):
    """A name, what joins it to its value (stripped), and the value; `lead` is `<`, `-`, `--` or nothing."""

    lead: str
    name: str
    operator: str
    value: str
    quote: str
    after: str
    is_tight: bool
    follows_user: bool


def find_assigned_secrets(text: str, lowered: str) -> Iterator[Span]:
    """Yield the values in `text` that a name or a sentence marks as secret; `lowered` is as long, in lower case."""
    hints = [*filter(lowered.__contains__, _HINTS)]
    for rule in _TOLD if hints and " " in text else ():
        for match in re.finditer(rule.pattern + PATTERNS["told"], lowered) if rule.hint in hints else ():
            start, end = match.span("secret")
            value, lead = text[start:end], lowered[match.start() : start]
            is_hex = re.match(PATTERNS["long_hex"], value) and re.match(PATTERNS["hex_lead"], lead) and is_random(value)
            is_key = rule.secret_class == "api-key" and is_random(value, 12)
            is_word = rule.hint in _SAYS_PASSWORD and lead.endswith(_COLONS) and re.match(PATTERNS["numbered"], value)
            if is_hex or is_word or (is_made_up(value) and (rule.secret_class == "password" or is_key)):
                yield Span(start=start, end=end, secret_class=rule.secret_class)
    for hint in hints:
        reach = 0
        for match in re.finditer(rf"{hint}[a-zñ0-9_.-]{{0,24}}(?: ?key)?{PATTERNS['operator']}", lowered):
            if match.start() >= reach and (span := _judge_pair(text, match)):
                reach = span.end
                yield span
    if "|" in text and not _HEADINGS.isdisjoint(hints):
        yield from _find_in_columns(text)


def _find_in_columns(text: str) -> Iterator[Span]:
    """Yield the passwords in Markdown tables: the heading of their column is their name."""
    for table in re.finditer(PATTERNS["rows"], text):
        heading = re.split(PATTERNS["bar"], text[text.rfind("\n", 0, table.start()) + 1 : table.start()])
        columns = [place for place, name in enumerate(heading) if _find_kind(name) == "password"]
        for row in re.finditer(r"[^\n]+", table["rows"]) if columns else ():
            cells = re.split(PATTERNS["bar"], row.group())
            for place in columns:
                value = "".join(cells[place : place + 1]).strip(" \t\r`*")
                if _is_composed(value):
                    start = table.start("rows") + row.start() + len("|".join([*cells[:place], ""]))
                    start += cells[place].index(value)
                    yield Span(start=start, end=start + len(value), secret_class="password")


def _judge_pair(text: str, match: re.Match[str]) -> Span | None:
    quoted = re.compile(PATTERNS["quoted_value"]).match(text, match.end())
    start = quoted.start("value") if quoted else match.end()
    end, last = (quoted.end("value"),) * 2 if quoted else _end_bare(text, match)
    head = re.compile(PATTERNS["head"]).search(text, max(0, match.start() - 40), match.start())
    if start == end or not head:
        return None
    name, operator = head["head"] + text[match.start() : match.start("close")], match["operator"]
    quote = quoted["quote"] if quoted else ""
    closes_string = head["lead"] and head["lead"] == quote and not match["close"]
    if closes_string or not (kind := _find_kind(name)):
        return None
    pair = _Pair(
        lead=head["lead"],
        name=name,
        operator=operator.strip() or ("," if match["close"] else " "),
        value=text[start:end],
        quote=quote,
        after="" if quoted else text[end : end + 1],
        is_tight=operator == "=",
        follows_user=bool(re.compile(PATTERNS["user_line"]).search(text, max(0, head.start() - 200), head.start())),
    )
    is_secret = _ACCEPTS.get(kind, _accepts_secret)(pair)
    return Span(start=start, end=last, secret_class="api-key" if kind == "key" else kind) if is_secret else None


def _end_bare(text: str, match: re.Match[str]) -> tuple[int, int]:
    """Where a value without quotes ends, for the judge and as a whole: alone on its line it has its last marks."""
    start, end = match.end(), next(re.compile(PATTERNS["bare_value"]).finditer(text, match.end())).end()
    after, shown = text[end : end + 1], text[start : end + 1].rstrip()
    if match["operator"] == ">" and after != "<":
        return start, start
    head = re.compile(PATTERNS["line_head"]).search(text, max(0, match.start() - 80), match.start())
    is_line = bool(head and re.compile(r"[ \t]*(?:\r?\n|\Z)").match(text, end))
    is_setting = is_line and match["operator"] == "=" and text[match.start() : start].isupper()
    if is_setting or match["operator"].strip() in _VERBS:
        shown = shown.rstrip("([,")
    is_code = re.search(PATTERNS["call"], shown) or (not is_line and re.search(PATTERNS["expression"], shown))
    if is_code and after != "<":
        return (next(re.compile(r"[^\s\"'`,;&<>()\[\]{}\\]{0,2000}").finditer(text, start)).end(),) * 2
    judged = start + len(text[start:end].rstrip(",;)]}"))
    return judged, end if is_line or after in tuple("\"'`<;&,") else judged


def _find_kind(name: str) -> str:
    """The kind that a name announces: `password`, `token`, `secret`, `api-key`, `key` (perhaps one) or nothing."""
    words = [word.lower() for word in re.findall(PATTERNS["name_word"], name)]
    while words and (words[-1] in WORDS["neutral_tails"] or words[-1].isdigit()):
        words.pop()
    if not words or not WORDS["public_qualifiers"].isdisjoint(words):
        return ""
    last = words[-1]
    kinds = (
        ("api-key", last == "key" and not WORDS["key_qualifiers"].isdisjoint(words[-2:-1])),
        ("password", last in WORDS["password_words"] or last.endswith(("password", "passwd"))),
        ("api-key", last.endswith(("apikey", "secretkey", "privatekey", "accesskey", "sharedkey"))),
        ("token", last == "pat" or last.endswith("token")),
        ("secret", last in ("credential", "credentials") or last.endswith("secret")),
        ("key", last in WORDS["weak_words"]),
    )
    return next((kind for kind, fits in kinds if fits), "")


def _accepts_password(pair: _Pair) -> bool:
    name, value, lead = pair.name.lower(), pair.value, pair.lead
    is_told = pair.operator in ("=", ":") or (pair.operator == " " and (pair.quote or not value.isalpha()))
    if pair.follows_user and is_told and pair.after not in _CODE:
        return _is_password_literal(value, name) or (bool(pair.quote) and not is_reference(value))
    if pair.quote:
        is_prose = pair.operator in (" ", *_VERBS) and (name == "pass" or pair.quote + pair.operator == "` ")
        is_name = pair.operator == "," and value.isidentifier() and not pair.name.isupper()
        is_argument = is_random(value, 8) or (_is_strange(value) and " " not in value and not is_name)
        return is_argument if pair.operator in _DEFAULTS else not is_prose and _is_password_literal(value, name)
    if pair.after in _CODE or pair.operator in (*_COMPARISONS, ","):
        return False
    # Contexts where a plain word is a value: settings files, markup and command lines.
    is_word = len(value) >= 4 and value.lower() != name and not is_placeholder(value)
    if pair.operator in (" ", ">", *_VERBS):
        is_option = lead in _OPTIONS and is_word and not (pair.operator == " " and value.isalpha())
        return _is_strange(value.rstrip(".!?")) if pair.operator in _VERBS else is_option
    if lead == "$" and pair.after == ";":
        return value.islower() and value not in _PERL_CALLS and not is_placeholder(value)
    if lead.strip() in (";", '"', "'") and pair.operator == "=" and pair.after == ";":
        return not is_reference(value)
    if lead in ("-", "--") or (pair.is_tight and (pair.name.isupper() or "." in name)):
        return is_word
    # Contexts that could also be code.
    is_marked = value.isdigit() or (re.search(r"[!@#^&*?~%]", value) and not is_placeholder(value))
    is_password = (bool(is_marked) and len(value) >= 6) or _is_strange(value)
    return is_password and (name != "pass" or _is_composed(value))


def _is_strange(value: str) -> bool:
    """Whether a value is neither a word nor a variable's name; six letters and two digits are a usual password."""
    is_numbered = re.match(r"[A-Za-z]{6,}\d\d$", value) and not re.search("(?i)pass|pwd", value)
    return _is_bare_secret(value) or (bool(is_numbered) and not is_placeholder(value))


def _is_composed(value: str) -> bool:
    """Whether a value can only be a password, also where a name such as `pass` announces other things as well."""
    return is_made_up(value) or (bool(re.match(PATTERNS["composed"], value)) and _is_strange(value))


def _accepts_secret(pair: _Pair) -> bool:
    if pair.operator in (" ", ">", *_VERBS) and pair.lead not in _OPTIONS:
        return False
    if pair.operator in _COMPARISONS and pair.quote and pair.name.lower().endswith("secret"):
        return _is_password_literal(pair.value, pair.name.lower())
    if pair.quote:
        return is_random(pair.value, 12) if pair.operator == "," else _is_secret_literal(pair.value)
    return pair.after not in _CODE and pair.operator != "," and len(pair.value) >= 8 and _is_bare_secret(pair.value)


def _accepts_key(pair: _Pair) -> bool:
    """For a name that only ends in `key` or `login` the value must be random; a hash needs a full name."""
    if pair.operator in (" ", ",", ">", *_VERBS) or pair.after in _CODE:
        return False
    words = re.findall(PATTERNS["name_word"], pair.name)
    is_named = len(words) > 1 and WORDS["lookup_qualifiers"].isdisjoint(word.lower() for word in words)
    if re.match(PATTERNS["uuid"], pair.value):
        return bool(pair.quote) and is_named and pair.name.isupper()
    if not is_random(pair.value) or is_placeholder(pair.value):
        return False
    kinds = ("hash", "locator", "dotted", "version")
    return is_named or not any(re.match(PATTERNS[kind], pair.value) for kind in kinds)


_OPTIONS = ("<", "-", "--")
_PERL_CALLS = ("shift", "pop", "undef", "wantarray")
_CODE = ("(", "[", "{")
_VERBS = ("is", "to", "was", "from", "ist", "lautet")
_DEFAULTS = (",", "||", "||=", "??", "??=", "from")  # after these a word is a name, not a value
_COMPARISONS = ("==", "!=", "===", "!==")
# The other kinds are judged as secrets.
_ACCEPTS: dict[str, Callable[[_Pair], bool]] = {"password": _accepts_password, "key": _accepts_key}
