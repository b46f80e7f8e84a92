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
# Not good enough to refuse answers: refusing 1 of 20 true questions, it lets a third of those on other subjects pass.
WORDS_ONLY = Calibration(-5.5, 0.0, 13.1)


def judge_answer(text: str, terms: Sequence[str], cosine: float | None, model: str) -> float:
    """The probability 0..1 that a passage answers; without a cosine or a calibrated model, by words alone."""
    base, by_cosine, by_words = (CALIBRATIONS.get(model) if cosine is not None else None) or WORDS_ONLY
    spaced, stems = space_words(normalise_text(text)), [term[:_STEM].casefold() for term in terms]
    found = sum((f" {stem}" if stem.isascii() else stem) in spaced for stem in stems)
    odds = base + by_cosine * (cosine or 0.0) + by_words * found / max(len(stems), 1)
    return 1 / (1 + math.exp(-odds))
