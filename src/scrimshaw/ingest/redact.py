"""The redaction gate: removes secrets and personal data from a text before anything stores it.

Nothing else may build a `Redacted`. Each secret is replaced by `[REDACTED:class]`; the replacement is a fixed point:
redacting a redacted text changes nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from scrimshaw.ingest.secret_values import (
    TABLE,
    WORDS,
    SecretRule,
    entropy,
    find_assigned,
    is_identifier_or_hash,
    is_masked,
    is_placeholder,
    is_random,
    is_typed_sample,
)
from scrimshaw.models import Redacted, Span

VARIED = 9  # distinct characters; no key of 20 or more drawn ones has fewer
MOSTLY_REMOVED_RATIO = 0.90  # share of characters; above it an item is dropped (001 section 8)

_DIGIT_GROUPS = r"\d{3}\)?[-. ]\d{2,3}[-. ]\d{4}"
_LONG_WORD = r"[^\s\"'<>(),;`]{13,}"
_MAIL_DOMAIN = r"@(?<=[\w.+%-]@)(?P<domain>[\w-]{1,63}(?:\.[\w-]{1,63}){0,5}\.[A-Za-z]{2,24})(?![\w-])"
_MAIL_LOCAL = r"\w[\w.+%-]{0,63}\Z"
# A run is tried once and whole: a shorter piece of it could not match either, and trying them all is quadratic.
_ENTROPY_TOKEN = r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{32,}+={0,2}+(?![A-Za-z0-9+/_=-]|\.\.\.)"
_SECRET_WORD_NEAR = r"(?i)(?:secret|token|passw|credential|auth|api.?key|access.?key)[^\n]{0,80}(?:\n[^\n]{0,40})?\Z"
_MARKER = re.compile(r"\[REDACTED:[a-z0-9-]+\]")
_JOINT = re.compile(
    r"(?:(?P<quote>[\"'])(?=[\s+.\\])(?<=[\w/+=-].)\s{0,80}(?:[+.]\s{0,80}|\\?\r?\n\s{0,80})(?P=quote)"
    r"|\\(?<=[\w/+=-].)\r?\n[ \t]{0,80})(?=[\w/+=-])"
)
_TRANSLATION = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def _token_rule(line: str) -> SecretRule:
    """The rule of a vendor's key, whose prefix must begin a word.

    The look-behind comes after the prefix, because a pattern that begins with a literal is searched much faster.
    """
    secret_class, prefix, body = line.split(maxsplit=2)
    literal = prefix.replace(".", "[.]").replace("+", "[+]")
    return SecretRule(secret_class, prefix, rf"{literal}(?<![A-Za-z0-9]{literal}){body}")


TOKENS = [_token_rule(line) for line in TABLE.tokens.splitlines()]


def redact(text: str) -> Redacted:
    """Remove every secret from `text`; the spans index `text` and do not overlap."""
    return _replace(text, _find_all(text))


def redact_edit(before: str, after: str) -> Redacted:
    """Redact what an edit brings: lines of `after` are kept as they are as often as they stand in `before`."""
    spans = _find_all(after)
    return _replace(after, _outside(spans, _unchanged(before, after)) if spans else spans)


def is_mostly_removed(redacted: Redacted, limit: float = MOSTLY_REMOVED_RATIO) -> bool:
    """Whether so little is left that the text is not worth keeping."""
    return redacted.removed_ratio > limit


class _Cut(NamedTuple):
    """A stretch of the original text and what stands for it in a view."""

    start: int
    end: int
    replacement: str


class _View:
    """A text with cuts applied, whose offsets can be told back in the original."""

    def __init__(self, text: str, cuts: Sequence[_Cut]) -> None:
        pieces, self._shown, self._original, end = [], [0], [0], 0
        length = 0
        for cut in cuts:
            pieces += [text[end : cut.start], cut.replacement]
            length += cut.start - end + len(cut.replacement)
            end = cut.end
            self._shown.append(length)
            self._original.append(end)
        self.text = "".join([*pieces, text[end:]])

    def original(self, span: Span) -> Span:
        """The same span in the original text; one that crosses a cut covers it."""
        return Span(start=self._offset(span.start), end=self._offset(span.end - 1) + 1, secret_class=span.secret_class)

    def _offset(self, shown: int) -> int:
        piece = bisect_right(self._shown, shown) - 1
        return self._original[piece] + shown - self._shown[piece]


def _find_all(text: str) -> list[Span]:
    """Every secret, until a text with these removed shows no more; each round covers new characters, so it ends."""
    spans: list[Span] = []
    while True:
        view = _View(text, [_Cut(span.start, span.end, _marker(span)) for span in spans])
        found = [view.original(span) for span in _find(view.text)]
        if not found:
            return spans
        spans = _merge([*spans, *found])


def _find(text: str) -> list[Span]:
    found = [*_scan_joined(text), *_scan(text)]
    if "[REDACTED:" not in text:
        return _merge(found)
    return _outside(_merge(found), [match.span() for match in _MARKER.finditer(text)])


def _scan_joined(text: str) -> Iterator[Span]:
    """Secrets that a string concatenation or a line continuation splits; only the lines around one are read."""
    joints = [_Cut(*match.span(), "") for match in _JOINT.finditer(text)]
    if not joints:
        return
    gaps = _gaps(text, joints)
    view = _View(text, sorted([*joints, *gaps]))
    for span in map(view.original, _scan(view.text)):
        if _covers(span, joints) and not _covers(span, gaps):
            yield span


def _covers(span: Span, cuts: Sequence[_Cut]) -> bool:
    return any(span.start <= cut.start and cut.end <= span.end for cut in cuts)


def _gaps(text: str, joints: Sequence[_Cut]) -> list[_Cut]:
    """The lines that no joint touches."""
    gaps, end = [], 0
    for joint in joints:
        start = text.rfind("\n", 0, joint.start) + 1
        if start > end:
            gaps.append(_Cut(end, start, "\n"))
        end = max(end, text.find("\n", joint.end) + 1 or len(text))
    if end < len(text):
        gaps.append(_Cut(end, len(text), "\n"))
    return gaps


def _scan(text: str) -> Iterator[Span]:
    lowered = text.lower()
    if len(lowered) != len(text):
        lowered = text.translate(_TRANSLATION)
    yield from _find_shapes(text)
    yield from find_assigned(text, lowered)
    if "@" in text:
        yield from _find_emails(text)
    yield from _find_random(text)


def _find_shapes(text: str) -> Iterator[Span]:
    """Secrets whose text gives them away; each rule is tried only where its literal stands."""
    words = "\n".join(_compiled(_LONG_WORD).findall(text))
    rules = [rule for rule in TABLE.shapes if rule.hint in text]
    rules += [rule for rule in TOKENS if rule.hint in words]
    if _compiled(_DIGIT_GROUPS).search(text):
        rules += TABLE.personal
    for rule in rules:
        yield from _apply(rule, text)


def _apply(rule: SecretRule, text: str) -> Iterator[Span]:
    is_secret = _CHECKS.get(rule.secret_class, _is_unmasked)
    for match in _compiled(rule.pattern).finditer(text):
        start, end = match.span("secret" if "secret" in match.re.groupindex else 0)
        if is_secret(text[start:end]):
            yield Span(start=start, end=end, secret_class=rule.secret_class)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _is_unmasked(value: str) -> bool:
    return not is_masked(value)


def _is_url_password(value: str) -> bool:
    drawn = is_random(value.strip("{}"), 12)
    return drawn or (not is_placeholder(value) and not is_masked(value))


def _is_authorization(value: str) -> bool:
    strong = is_random(value, 8) or value.endswith("=") or (len(value) >= 16 and entropy(value) >= 3.5)
    return strong and bool(re.search(r"[\dA-Z]", value)) and not is_placeholder(value)


def _is_varied(value: str) -> bool:
    return not is_masked(value) and len(set(value)) >= VARIED


def _is_no_sample(value: str) -> bool:
    return not is_masked(value) and not is_typed_sample(value)


def _is_google_key(value: str) -> bool:
    return _is_varied(value) and not is_typed_sample(value)


def _has_digit(value: str) -> bool:
    return not is_masked(value) and bool(re.search(r"\d", value))


_CHECKS: dict[str, Callable[[str], bool]] = {
    "discord-token": is_random,
    "aws-key": _is_no_sample,
    "gitlab-token": _is_varied,
    "google-key": _is_google_key,
    "grafana-token": _is_varied,
    "vault-token": _has_digit,
    "slack-token": _has_digit,
    "openai-key": _has_digit,
    "auth-header": _is_authorization,
    "url-password": _is_url_password,
    "credential": _is_url_password,
    "password": _is_url_password,
    "phone": bool,
    "ssn": bool,
    "private-key": bool,
}


def _find_emails(text: str) -> Iterator[Span]:
    """Addresses of persons; reserved domains, git remotes and the host part of a URL's credentials are not."""
    for match in _compiled(_MAIL_DOMAIN).finditer(text):
        local = _compiled(_MAIL_LOCAL).search(text, max(0, match.start() - 64), match.start())
        if local and _is_person(local.group(), match["domain"].lower()) and not _in_url(text, local.start()):
            yield Span(start=local.start(), end=match.end(), secret_class="email")


def _in_url(text: str, start: int) -> bool:
    return "://" in re.split(r"[\s\"'<>]", text[max(0, start - 100) : start])[-1]


def _is_person(local: str, domain: str) -> bool:
    reserved = (
        domain.endswith(tuple(WORDS["public_mail_domains"]))
        or domain.rsplit(".", 1)[-1] in WORDS["reserved_top_levels"]
    )
    return (
        not reserved
        and local.lower() not in ("git", "noreply", "no-reply")
        and not re.match(r"\d+(?:\.\d+)?x\.", domain)
    )


def _find_random(text: str) -> Iterator[Span]:
    """Long tokens that read like drawn characters, close behind a word for a secret.

    Beyond 200 characters it is a file, not a key; without such a word it is an id, a digest or a key of the wrong form.
    """
    for match in _compiled(_ENTROPY_TOKEN).finditer(text):
        value = match.group()
        if len(value) <= 200 and _is_drawn(value) and _is_announced(text, match.start()):
            yield Span(start=match.start(), end=match.end(), secret_class="high-entropy")


def _is_drawn(value: str) -> bool:
    kinds = (re.search(r"[a-z]", value), re.search(r"[A-Z]", value), re.search(r"\d", value))
    return (
        all(kinds)
        and not is_masked(value)
        and is_random(value, 32)
        and entropy(value) >= 4.2
        and not is_identifier_or_hash(value)
    )


def _is_announced(text: str, start: int) -> bool:
    named = _compiled(_SECRET_WORD_NEAR).search(text, max(0, start - 160), start)
    return bool(named) and not _is_blob(text, start)


def _is_blob(text: str, start: int) -> bool:
    """Whether what precedes a token says that it is a digest, an image, an id, public, or a part of a path or URL."""
    return bool(_compiled(_BLOB_LEAD).search(text, max(0, start - 40), start))


_BLOB_LEAD = r"(?i)(?:[/.@#%]|base64,|(?:sha\d{1,3}|md5|integrity|id)\W{0,5}|(?:csrf|public|nonce)[^\n]{0,30})\Z"


def _merge(spans: Iterable[Span]) -> list[Span]:
    """Join what overlaps or touches; the class of the rule that stands first in the tables names the whole."""
    ranked = sorted(enumerate(spans), key=lambda item: (item[1].start, item[1].end))
    merged: list[tuple[int, Span]] = []
    for rank, span in ranked:
        if merged and span.start <= merged[-1][1].end:
            first, last = merged[-1]
            name = last.secret_class if first <= rank else span.secret_class
            joined = Span(start=last.start, end=max(last.end, span.end), secret_class=name)
            merged[-1] = (min(first, rank), joined)
        else:
            merged.append((rank, span))
    return [span for _, span in merged]


def _outside(spans: Iterable[Span], regions: Sequence[tuple[int, int]]) -> list[Span]:
    """The parts of `spans` that lie outside `regions`, which are sorted and do not overlap."""
    kept = []
    ends = [end for _, end in regions]
    for span in spans:
        start = span.start
        for place in range(bisect_right(ends, start), len(regions)):
            begin, end = regions[place]
            if begin >= span.end:
                break
            if start < begin:
                kept.append(Span(start=start, end=begin, secret_class=span.secret_class))
            start = end
        if start < span.end:
            kept.append(Span(start=start, end=span.end, secret_class=span.secret_class))
    return kept


def _unchanged(before: str, after: str) -> list[tuple[int, int]]:
    """The lines of `after`, in characters, that stand in `before`; each as often as it stands there."""
    known = Counter(before.splitlines(keepends=True))
    found, start = [], 0
    for line in after.splitlines(keepends=True):
        if known[line] > 0:
            known[line] -= 1
            found.append((start, start + len(line)))
        start += len(line)
    return found


def _marker(span: Span) -> str:
    return f"[REDACTED:{span.secret_class}]"


def _replace(text: str, spans: Sequence[Span]) -> Redacted:
    if not spans:
        return Redacted(text=text)
    view = _View(text, [_Cut(span.start, span.end, _marker(span)) for span in spans])
    removed = sum(span.end - span.start for span in spans)
    return Redacted(
        text=view.text,
        classes=tuple(sorted({span.secret_class for span in spans})),
        spans=tuple(spans),
        removed_ratio=removed / len(text),
    )
