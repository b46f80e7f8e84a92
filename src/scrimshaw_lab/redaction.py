"""Measures the redaction gate on labelled lines: how much of what is secret it removes, and how much of the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from msgspec import Struct

from scrimshaw.models import Redacted

PERSONAL_CLASSES = frozenset({"email", "phone", "ssn"})

Redact = Callable[[str], Redacted]


class Case(NamedTuple):
    """A labelled text: where it comes from, whether it holds a secret, and of which kind."""

    text: str
    group: str
    secret: bool
    kind: str = ""


class Rate(Struct, frozen=True, kw_only=True):
    """Of `total` texts, `hit` were touched by the gate."""

    hit: int
    total: int

    @property
    def value(self) -> float:
        """Hits per text, 0..1; 0 where there is no text."""
        return self.hit / self.total if self.total else 0.0


class RedactionReport(Struct, frozen=True, kw_only=True):
    """Recall over the secret cases and the false positive rate over the benign ones, whole, per group and per kind."""

    recall: Rate
    false_positive_rate: Rate
    recall_by_group: dict[str, Rate]
    false_positive_rate_by_group: dict[str, Rate]
    recall_by_kind: dict[str, Rate]
    false_positive_rate_by_kind: dict[str, Rate]


def evaluate_redaction(cases: Iterable[Case], redact: Redact) -> RedactionReport:
    """Run `redact` over every case; an e-mail address removed beside a secret does not count as finding the secret."""
    judged = [(case, _is_hit(redact(case.text))) for case in cases]
    secret = [(case, hit) for case, hit in judged if case.secret]
    benign = [(case, hit) for case, hit in judged if not case.secret]
    return RedactionReport(
        recall=_rate(hit for _, hit in secret),
        false_positive_rate=_rate(hit for _, hit in benign),
        recall_by_group=_by(secret, lambda case: case.group),
        false_positive_rate_by_group=_by(benign, lambda case: case.group),
        recall_by_kind=_by(secret, lambda case: case.kind),
        false_positive_rate_by_kind=_by(benign, lambda case: case.kind),
    )


def touched_rate(texts: Iterable[str], redact: Redact) -> Rate:
    """The share of `texts`, taken to hold no secret, in which the gate finds one."""
    return _rate(_is_hit(redact(text)) for text in texts)


def removed_token_rate(texts: Iterable[str], redact: Redact) -> Rate:
    """The share of white-space separated tokens that the gate touches in `texts`, taken to hold no secret."""
    hit = total = 0
    for text in texts:
        spans = redact(text).spans
        total += len(text.split())
        hit += sum(max(1, len(text[span.start : span.end].split())) for span in spans)
    return Rate(hit=hit, total=total)


def _is_hit(redacted: Redacted) -> bool:
    return any(span.secret_class not in PERSONAL_CLASSES for span in redacted.spans)


def _rate(hits: Iterable[bool]) -> Rate:
    found = list(hits)
    return Rate(hit=sum(found), total=len(found))


def _by(judged: Iterable[tuple[Case, bool]], name: Callable[[Case], str]) -> dict[str, Rate]:
    groups: dict[str, list[bool]] = defaultdict(list)
    for case, hit in judged:
        groups[name(case)].append(hit)
    return {group: _rate(hits) for group, hits in sorted(groups.items())}
