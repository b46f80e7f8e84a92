"""The probability that a passage answers a query: by its meaning and by the query's words in it."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from scrimshaw.ingest.comparison import normalise_text, space_words
from scrimshaw.search.embedders import MODEL

_STEM = 5  # words are compared by so many characters


class Calibration(NamedTuple):
    """The log odds of an answer: at a cosine of 0 and no word, and what a cosine of 1 and all words each add."""

    base: float
    cosine: float
    words: float


# Fitted on 264 judged questions about notes and sessions, and 220 on other subjects, asked of both
# (docs/evaluation.md).
CALIBRATIONS: Mapping[str, Calibration] = {MODEL: Calibration(-12.1, 31.0, 6.2)}
# The best of few passages is less near to any question: in projects of one to ten of the 45 recorded sessions, with 112
# to 781 passages, 9 to 14 % of the true ones were refused; with this 4 to 6 %, and .8 to 1.4 % of others are answered.
CALIBRATED_ON, _BY_SIZE = 5000, 0.45  # passages, and the log odds for each factor of e that there are fewer
# Not good enough to refuse answers: refusing 1 of 20 true questions, it lets a third of those on other subjects pass.
WORDS_ONLY = Calibration(-5.5, 0.0, 13.1)


def judge_answer(text: str, terms: Sequence[str], cosine: float | None, model: str, passages: int) -> float:
    """The probability 0..1 that one of so many passages answers; without a cosine or a calibrated model, by words."""
    base, by_cosine, by_words = (CALIBRATIONS.get(model) if cosine is not None else None) or WORDS_ONLY
    base += _BY_SIZE * max(0.0, math.log(CALIBRATED_ON / max(passages, 1))) if by_cosine else 0.0
    spaced, stems = space_words(normalise_text(text)), [term[:_STEM].casefold() for term in terms]
    found = sum((f" {stem}" if stem.isascii() else stem) in spaced for stem in stems)
    odds = base + by_cosine * (cosine or 0.0) + by_words * found / max(len(stems), 1)
    return 1 / (1 + math.exp(-odds))
