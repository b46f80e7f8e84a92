"""Measures the defence against text that speaks to an agent: how much is flagged, what a fence holds."""

from __future__ import annotations

import hashlib
import html
import re
import time
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from scrimshaw.ingest.instructions import is_suspicious
from scrimshaw.ingest.invisible_characters import fold_text
from scrimshaw_lab.redaction import Rate

_LEAST_TIMED = 2_000  # characters: of shorter texts the clock says little
_TEN_KB = 10_240
_FORGED_AROUND = 300  # characters of an attack between two forged marks
_APART = re.compile(r"[^\w/.,:;]|_")

# The ways in which a text may spell the mark that ends a fence.
FORGERIES: Mapping[str, Callable[[str], str]] = {
    "plain": lambda name: f"</{name}>",
    "upper case": lambda name: f"</{name.upper()}>",
    "spaces": lambda name: f"< / {name.replace('-', ' - ')} >",
    "line break": lambda name: f"</{name[:9]}\n{name[9:]}>",
    "entities": lambda name: f"&lt;/{name}&gt;",
    "numeric entities": lambda name: "".join(f"&#{ord(each)};" for each in f"</{name}>"),
    "escaped twice": lambda name: html.escape(html.escape(f"</{name}>")),
    "zero width": lambda name: "</" + "\u200b".join(name) + ">",
    "look-alikes": lambda name: f"</{name.replace('s', 'ѕ').replace('a', 'а').replace('o', 'о')}>",
    "full width": lambda name: "".join(chr(ord(each) + 0xFEE0) for each in f"</{name}>"),
    "underscore": lambda name: f"</{name.replace('-', '_')}>",
    "letters apart": lambda name: f"</{' '.join(name)}>",
}


class Sample(NamedTuple):
    """A document and where it comes from."""

    source: str
    text: str


class InjectionReport(Struct, frozen=True, kw_only=True):
    """Documents flagged, by source; of attacks the tuned half and the other; `broken` fences by way of forging.

    `fenced` counts attacks that stayed inside the fence on every way in; times are the processor's, for 10 KB.
    """

    flagged: Rate
    flagged_tuned: Rate
    flagged_held_out: Rate
    false_flags: Rate
    fenced: Rate
    attacks_by_source: dict[str, Rate]
    benign_by_source: dict[str, Rate]
    broken: dict[str, int]
    p50_ms: float
    p95_ms: float


def evaluate_injection(
    attacks: Sequence[Sample], benign: Sequence[Sample], name: str, ways_in: Sequence[Callable[[str], str]]
) -> InjectionReport:
    """Judge every document; each of `ways_in` puts a text into the fence called `name`."""
    attacked = [(sample, is_suspicious(sample.text)) for sample in attacks]
    harmless, times = _timed(benign)
    broken = {way: _broken(attacks, forge, name, ways_in) for way, forge in FORGERIES.items()}
    return InjectionReport(
        flagged=_rate(attacked),
        flagged_tuned=_rate(pair for pair in attacked if is_tuned_on(pair[0].text)),
        flagged_held_out=_rate(pair for pair in attacked if not is_tuned_on(pair[0].text)),
        false_flags=_rate(harmless),
        fenced=Rate(hit=sum(is_held(sample.text, name, ways_in) for sample in attacks), total=len(attacks)),
        attacks_by_source=_by_source(attacked),
        benign_by_source=_by_source(harmless),
        broken={way: count for way, count in broken.items() if count},
        p50_ms=_quantile(times, 0.5),
        p95_ms=_quantile(times, 0.95),
    )


def is_tuned_on(text: str) -> bool:
    """Whether a text belongs to the half that the cues were weighed on, told by its hash."""
    return hashlib.sha256(text.encode(errors="replace")).digest()[0] % 2 == 0


def is_held(text: str, name: str, ways_in: Iterable[Callable[[str], str]]) -> bool:
    """Whether a text stays between the marks: each mark reads once, however one reads."""
    return all(_marks(wrap(text), name) == 2 for wrap in ways_in)


def _broken(
    attacks: Sequence[Sample], forge: Callable[[str], str], name: str, ways_in: Sequence[Callable[[str], str]]
) -> int:
    return sum(
        not is_held(f"{forge(name)}\n{each.text[:_FORGED_AROUND]}\n{forge(name)}", name, ways_in) for each in attacks
    )


def _marks(text: str, name: str) -> int:
    """How often the name of the fence can be read in a text, by a reader who resolves whatever is escaped."""
    plain = text
    for _ in range(2):
        plain = html.unescape(plain)
    shown, _origin = fold_text(unicodedata.normalize("NFKC", plain))
    return _APART.sub("", shown).count(_APART.sub("", name))


def _timed(samples: Sequence[Sample]) -> tuple[list[tuple[Sample, bool]], list[float]]:
    judged: list[tuple[Sample, bool]] = []
    times: list[float] = []
    for sample in samples:
        begun = time.thread_time()
        judged.append((sample, is_suspicious(sample.text)))
        if len(sample.text) >= _LEAST_TIMED:
            times.append((time.thread_time() - begun) * 1000 * _TEN_KB / len(sample.text))
    return judged, times


def _rate(judged: Iterable[tuple[Sample, bool]]) -> Rate:
    hits = [hit for _, hit in judged]
    return Rate(hit=sum(hits), total=len(hits))


def _by_source(judged: Iterable[tuple[Sample, bool]]) -> dict[str, Rate]:
    groups: dict[str, list[tuple[Sample, bool]]] = defaultdict(list)
    for pair in judged:
        groups[pair[0].source].append(pair)
    return {source: _rate(pairs) for source, pairs in sorted(groups.items())}


def _quantile(values: Sequence[float], share: float) -> float:
    return round(sorted(values)[min(int(len(values) * share), len(values) - 1)], 3) if values else 0.0
