"""The probability that a passage answers a query: by its meaning, and by how near the best come to all of its words."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from scrimshaw.search.embedders import MODEL
from scrimshaw.search.tokens import count_shared


class Calibration(NamedTuple):
    """The log odds of an answer if all of these are 0, and what each of them adds where it is 1."""

    base: float
    cosine: float  #: of the query and the passage
    words: float = 0.0  #: the share of the query's words that the passage has
    coverage: float = 0.0  #: how near the tokens of the best passages come to those of the query
    fewer: float = 0.0  #: the logarithm of how many times fewer passages there are than CALIBRATED_ON


# Fitted on 443 questions about recorded sessions, nine public sets, and others that they cannot answer; the second is
# for passages without token vectors (docs/evaluation.md). The best of few passages is less near to any question.
CALIBRATIONS: Mapping[str, tuple[Calibration, Calibration]] = {
    MODEL: (Calibration(-30.7, 22.2, coverage=31.1, fewer=0.72), Calibration(-12.1, 31.0, words=6.2, fewer=0.45))
}
CALIBRATED_ON = 5000  # passages
# Not good enough to refuse answers: refusing 1 of 20 true questions, it lets a third of those on other subjects pass.
WORDS_ONLY = Calibration(-5.5, 0.0, words=13.1)
# The least where one or two of the best have an identifier of the query (`SHOP-1207`): it has no meaning to judge.
NAMED, MOST_NAMED = 0.6, 2
_IDENTIFIER = re.compile(r"(?<![\w-])(?=[\w.-]*[^\W\d_])[\w.-]*\d\d[\w.-]*(?<![.-])")  # letters and a number


def has_identifier(texts: Iterable[str], query: str) -> bool:
    """Whether an identifier of the query is in one or two of the texts."""
    if not (asked := {*_IDENTIFIER.findall(query.lower())}):
        return False
    found = Counter(chain.from_iterable(asked.intersection(_IDENTIFIER.findall(text.lower())) for text in texts))
    return any(many <= MOST_NAMED for many in found.values())


def judge_answer(
    text: str, terms: Sequence[str], cosine: float | None, coverage: float | None, model: str, passages: int
) -> float:
    """The probability 0..1 that one of so many passages answers; `coverage` is None without token vectors.

    Without a cosine or a calibrated model, the query's words alone decide.
    """
    by_meaning = CALIBRATIONS.get(model) if cosine is not None else None
    fitted = by_meaning[coverage is None] if by_meaning else WORDS_ONLY
    odds = fitted.base + fitted.cosine * (cosine or 0.0)
    if fitted.words:  # otherwise the text need not be normalised, which takes .3 ms for a page
        odds += fitted.words * count_shared(text, terms) / max(len(terms), 1)
    odds += fitted.coverage * (coverage or 0.0) + fitted.fewer * max(0.0, math.log(CALIBRATED_ON / max(passages, 1)))
    return 1 / (1 + math.exp(-odds))
