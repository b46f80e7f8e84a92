"""Phrases as they are compared, and the head by which a stored phrase is looked up. Pure.

A phrase of words is found by its first word, a phrase of a script without spaces by its first character, so the time to
find phrases in a text grows with the text and not with the number of phrases.
"""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"\w+")
# Scripts that are written without spaces: Thai, Lao, Myanmar, Khmer, Hiragana, Katakana, Han.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_SHORTEST = 2


def normalise(text: str) -> str:
    """Text as it is compared: composed, case folded, white space collapsed."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def head(phrase: str) -> str:
    """What a phrase is looked up by: its first word or character; empty for one too short to mean anything."""
    text = normalise(phrase)
    words = _WORD.findall(text)
    if len("".join(words)) < _SHORTEST:
        return ""
    unspaced = _UNSPACED.search(text)
    return unspaced[0] if unspaced else words[0]


def heads(text: str) -> set[str]:
    """The heads of all phrases that could stand in a text."""
    text = normalise(text)
    return {*_WORD.findall(text), *_UNSPACED.findall(text)}


def stands_in(phrase: str, words: str, text: str) -> bool:
    """Whether a phrase stands in a normalised text as whole words; `words` are those of the text, as `spaced` gives."""
    wanted = normalise(phrase)
    return wanted in text if _UNSPACED.search(wanted) else spaced(wanted) in words


def spaced(text: str) -> str:
    """The words of a normalised text with one space around each, so that whole words can be looked for."""
    return f" {' '.join(_WORD.findall(text))} "
