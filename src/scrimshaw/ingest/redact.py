"""The redaction gate: removes secrets and personal data from a text before anything stores it.

Nothing else may build a `Redacted`. Each secret is replaced by `[REDACTED:class]`; the replacement is a fixed point:
redacting a redacted text changes nothing.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import itemgetter

from scrimshaw.ingest import secret_values as values
from scrimshaw.ingest.secret_values import PATTERNS, TABLE, WORDS, SecretRule, is_masked, is_placeholder, is_random
from scrimshaw.models import Redacted, Span

VARIED = 9  # distinct characters; no random key of 20 or more has fewer
NAMED_SIZE, PREFIXED_SIZE, BARE_SIZE = 20, 24, 30  # letters and digits of a random value
MOSTLY_REMOVED_RATIO = 0.90  # share of characters; above it an item is dropped
Redact = Callable[[str], Redacted]

_AROUND = 40  # characters, beside digits, which may be the rest of a number or the word for it
_BETWEEN_WORDS = bytes.maketrans(b"\"'<>(),;`", b" " * 9)
_LONG_WORD = rb"\S{13,}"  # in bytes, which are searched in half the time
_TRANSLATION = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
# The patterns of vendors' keys, whose prefix begins a word; the look-behind follows it, for a faster search.
TOKENS = [
    SecretRule(secret_class, prefix, rf"{literal}(?<![A-Za-z0-9]{literal}){body}")
    for secret_class, prefix, body in (line.split(maxsplit=2) for line in TABLE.tokens.splitlines())
    for literal in [prefix.replace(".", "[.]").replace("+", "[+]")]
]
_PUBLIC_DOMAINS = tuple(WORDS["public_mail_domains"])


def redact(text: str, known: dict[str, str] | None = None) -> Redacted:
    """Remove every secret from `text`, also each in `known`, to which its own are added; the spans do not overlap."""
    spans = _find_all(text, {} if known is None else known)
    return _replace(text, spans) if spans else Redacted(text=text)


def redact_head(head: str, text: str) -> Redacted:
    """Redact text that is put before an already redacted text."""
    whole, spans = head + text, _find_all(head, {})
    return _replace(whole, spans) if spans else Redacted(text=whole)


def redact_edit(before: str, after: str, clean: Redact = redact) -> Redacted:
    """Redact what an edit adds: lines of `after` stay as they are as often as they occur in `before`."""
    known = Counter(before.splitlines(keepends=True))
    common: list[tuple[int, int]] = []
    start = 0
    for line in after.splitlines(keepends=True):
        if known[line] > 0:
            known[line] -= 1
            common.append((start, start + len(line)))
        start += len(line)
    spans = clean(after).spans
    return _replace(after, _outside(spans, common)) if spans else Redacted(text=after)


_Cut = tuple[int, int, str]  # start and end of a stretch of text, and its replacement in a view


class View:
    """A text with cuts applied, whose offsets can be mapped to the original."""

    def __init__(self, text: str, cuts: Iterable[_Cut]) -> None:
        pieces, self._places, self._originals, end = [], [0], [0], 0
        for start, stop, replacement in cuts:
            pieces += [text[end:start], replacement]
            self._places.append(self._places[-1] + start - end + len(replacement))
            self._originals.append(stop)
            end = stop
        self.text = "".join([*pieces, text[end:]])

    def find(self, place: int) -> int:
        """The offset in the original text; after a cut at that place."""
        piece = bisect_right(self._places, place) - 1
        return self._originals[piece] + place - self._places[piece]

    def find_original(self, span: Span) -> Span:
        """The same span in the original text; one that crosses a cut covers it."""
        start, end = self.find(span.start), self.find(span.end - 1) + 1
        return Span(start=start, end=end, secret_class=span.secret_class)


def _mark(text: str, spans: Iterable[Span]) -> View:
    return View(text, [(span.start, span.end, f"[REDACTED:{span.secret_class}]") for span in spans])


def _find_all(text: str, known: dict[str, str]) -> list[Span]:
    """Every secret, repeated until none is found in the rest; each round covers new characters, so it ends."""
    spans: list[Span] = []
    view = None
    while True:
        shown = view.text if view else text
        found = [*(_scan_joined(shown) if re.search(PATTERNS["joint"], shown) else ()), *_scan(shown)]
        if found:
            known.update((value, s.secret_class) for s in found if values.is_made_up(value := shown[s.start : s.end]))
        if known:
            echoes = re.finditer("|".join(map(re.escape, known)), shown)
            found += [Span(start=each.start(), end=each.end(), secret_class=known[each.group()]) for each in echoes]
        if found and "[REDACTED:" in shown:
            found = _outside(_merge(found), [match.span() for match in re.finditer(PATTERNS["marker"], shown)])
        if not found:
            return spans
        spans = _merge([*spans, *map(view.find_original, found)] if view else found)
        view = _mark(text, spans)


def _scan_joined(text: str) -> Iterator[Span]:
    """Secrets split by a string concatenation or a line continuation; only the lines around one are read."""
    joints: list[_Cut] = [(*match.span(), "") for match in re.finditer(PATTERNS["joint"], text)]
    gaps, end = list[_Cut](), 0  # the lines without a join
    for first, last, _ in joints:
        start = text.rfind("\n", 0, first) + 1
        if start > end:
            gaps.append((end, start, "\n"))
        end = max(end, text.find("\n", last) + 1 or len(text))
    if end < len(text):
        gaps.append((end, len(text), "\n"))
    view = View(text, sorted([*joints, *gaps]))
    for span in map(view.find_original, _scan(view.text)):
        if _covers_any(span, joints) and not _covers_any(span, gaps):
            yield span


def _covers_any(span: Span, cuts: Sequence[_Cut]) -> bool:
    return any(span.start <= start and end <= span.end for start, end, _ in cuts)


def _scan(text: str) -> Iterator[Span]:
    lowered = text.lower()
    lowered = lowered if len(lowered) == len(text) else text.translate(_TRANSLATION)
    # Secrets recognized by their text; each rule is tried only near its literal.
    found = re.findall(_LONG_WORD, text.encode(errors="surrogatepass").translate(_BETWEEN_WORDS))
    words = b"\n".join(dict.fromkeys(found)).decode(errors="surrogatepass")
    commands = TABLE.commands if text.split(maxsplit=1)[1:] else ()
    for rules, place in ((TABLE.shapes, text), (TOKENS, words), (commands, text)):
        for rule in rules if place else ():
            for match in re.finditer(rule.pattern, text) if rule.hint in place else ():
                start, end = match.span("secret" if "secret" in match.re.groupindex else 0)
                if _is_secret(rule.secret_class, text[start:end]):
                    yield Span(start=start, end=end, secret_class=rule.secret_class)
    for number in re.finditer(PATTERNS["digit_groups"], text):
        yield from find_personal_number(text, max(0, number.start() - _AROUND), number.end() + _AROUND)
    yield from values.find_assigned_secrets(text, lowered)
    if "@" in text:
        yield from _find_emails(text)
    if words:
        yield from _find_drawn(text, words)


def find_personal_number(text: str, first: int, last: int) -> Iterator[Span]:
    """Numbers of a person in a part of a text."""
    for rule in TABLE.personal:
        for match in re.compile(rule.pattern).finditer(text, first, last):
            start, end = match.span("secret" if "secret" in match.re.groupindex else 0)
            if _is_secret(rule.secret_class, text[start:end]):
                yield Span(start=start, end=end, secret_class=rule.secret_class)


def _is_secret(secret_class: str, value: str) -> bool:
    """Whether a value in the form of a secret is one, and not masked, typed or a placeholder."""
    if check := _CHECKS.get(secret_class):
        return check(value)
    return not (
        is_masked(value)
        or (secret_class in _WITH_DIGITS and not re.search(r"\d", value))
        or (secret_class in _VARIED and len(set(value)) < VARIED)
        or (secret_class in _NEVER_TYPED and values.is_typed_sample(value))
    )


def _is_url_password(value: str) -> bool:
    return is_random(value.strip("{}"), 12) or not (is_placeholder(value) or is_masked(value))


def _is_authorization(value: str) -> bool:
    is_strong = is_random(value, 8) or value.endswith("=") or (len(value) >= 16 and values.entropy(value) >= 3.5)
    return is_strong and bool(re.search(r"[\dA-Z]", value)) and not is_placeholder(value) and "uthoriz" not in value


def _is_iban(value: str) -> bool:
    """Whether country, length and checksum are right."""
    bare = value.replace(" ", "")
    number = "".join(str(int(each, 36)) for each in bare[4:] + bare[:4])
    return f"{bare[:2]}{len(bare)}" in WORDS["ibans"] and int(number) % 97 == 1


def _is_card(value: str) -> bool:
    """Whether the sum of Luhn is right for the digits, which no sample of two different ones has."""
    digits = [*map(int, re.sub(r"\D", "", value)[::-1])]
    total = sum(digits[::2]) + sum(sum(divmod(2 * each, 10)) for each in digits[1::2])
    return total % 10 == 0 and len({*digits}) > 2


_CHECKS: dict[str, Callable[[str], bool]] = {
    "discord-token": is_random,
    "auth-header": _is_authorization,
    **dict.fromkeys(("url-password", "credential", "password"), _is_url_password),
    **dict.fromkeys(("ssn", "private", "private-key"), bool),
    "phone": lambda value: 8 <= len(re.sub(r"\D", "", value)) <= 15,
    "card": _is_card,
    "iban": _is_iban,
}
_WITH_DIGITS = {"vault-token", "slack-token", "openai-key"}
_VARIED = {"gitlab-token", "google-key", "grafana-token"}
_NEVER_TYPED = {"aws-key", "google-key"}


def _find_emails(text: str) -> Iterator[Span]:
    """Addresses of persons, except reserved domains, accounts on hosts and the host part of a URL's credentials."""
    for match in re.finditer(PATTERNS["mail_domain"], text):
        local = re.compile(PATTERNS["mail_local"]).search(text, max(0, match.start() - 64), match.start())
        domain = match["domain"].lower()
        if not local or local.group().lower() in ("git", "noreply", "no-reply"):
            continue
        is_reserved = domain.endswith(_PUBLIC_DOMAINS) or domain.rpartition(".")[2] in WORDS["reserved_top_levels"]
        if is_reserved or re.match(r"\d+(?:\.\d+)?x\.", domain):
            continue
        start = local.start()
        lead = re.compile(PATTERNS["remote_lead"]).search(text, max(0, start - 200), start)
        if lead or re.compile(PATTERNS["remote_path"]).match(text, match.end()):
            continue
        if "://" not in re.split(r"[\s\"'<>]", text[max(0, start - 100) : start])[-1]:
            yield Span(start=start, end=match.end(), secret_class="email")


def _find_drawn(text: str, words: str) -> Iterator[Span]:
    """Tokens that look random: after a word that announces a secret, or if they are long or have a prefix."""
    sizes = dict[str, int]()
    for token in {*re.findall(PATTERNS["token"], words)}:
        if len(token) >= NAMED_SIZE and (size := values.measure_drawn(token)) >= NAMED_SIZE:
            sizes[token] = size
    for match in re.finditer(PATTERNS["token"], text) if sizes else ():
        value, start, size = match.group().rstrip("."), match.start(), sizes.get(match.group(), 0)
        if not size or re.compile(PATTERNS["blob_lead"]).search(text, max(0, start - 80), start):
            continue
        prefix = (re.match(r"[A-Za-z][A-Za-z0-9]{0,15}[-_.~]", value) or [""])[0][:-1].lower()
        is_blob = len(value) >= 60 and re.compile(PATTERNS["blob_tail"]).match(text, match.end())
        if is_blob or prefix in WORDS["id_prefixes"]:
            continue
        if not re.compile(PATTERNS["secret_near"]).search(text, max(0, start - 160), start):
            is_short = size < (PREFIXED_SIZE if prefix else BARE_SIZE)
            # One of a known vendor must have the form of its rule; a text of one token is a name, such as of a call.
            is_of_vendor = any(len(rule.hint) > 5 and value.lower().startswith(rule.hint.lower()) for rule in TOKENS)
            is_name = not prefix and re.compile(PATTERNS["name_lead"]).search(text, max(0, start - 80), start)
            if is_short or is_of_vendor or is_name or not re.search(r"\s", text):
                continue
        yield Span(start=start, end=start + len(value), secret_class="high-entropy")


def _merge(spans: Iterable[Span]) -> list[Span]:
    """Join what overlaps or touches; the class of the rule that comes first in the tables names the whole."""
    merged: list[tuple[int, Span]] = []
    for rank, span in sorted(enumerate(spans), key=lambda item: (item[1].start, item[1].end)):
        if merged and span.start <= merged[-1][1].end:
            first, last = merged[-1]
            name = last.secret_class if first <= rank else span.secret_class
            merged[-1] = min(first, rank), Span(start=last.start, end=max(last.end, span.end), secret_class=name)
        else:
            merged.append((rank, span))
    return [span for _, span in merged]


def _outside(spans: Iterable[Span], regions: Sequence[tuple[int, int]]) -> list[Span]:
    """The parts of `spans` that lie outside `regions`, which are sorted and do not overlap."""
    kept = list[Span]()
    for span in spans:
        first = bisect_right(regions, span.start, key=itemgetter(1))
        last = bisect_left(regions, span.end, key=itemgetter(0))
        edges = [span.start, *chain.from_iterable(regions[first:last]), span.end]
        gaps = zip(edges[::2], edges[1::2], strict=True)
        kept += [Span(start=start, end=end, secret_class=span.secret_class) for start, end in gaps if start < end]
    return kept


def _replace(text: str, spans: Sequence[Span]) -> Redacted:
    return Redacted(
        text=_mark(text, spans).text,
        classes=tuple(sorted({span.secret_class for span in spans})),
        spans=tuple(spans),
        removed_ratio=sum(span.end - span.start for span in spans) / len(text),
    )
