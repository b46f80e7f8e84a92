"""Comparing and measuring texts: the same text, phrases that occur in one, how similar two are, length, where to cut.

A phrase of words is found by its longest word, a phrase of a script without spaces by its first character, so the time
to find phrases in a text grows with the text and not with the number of phrases.
"""

import re
import unicodedata
import zlib
from collections.abc import Set
from functools import lru_cache

_WORD = re.compile(r"\w+")
# Scripts that are written without spaces: Thai, Lao, Myanmar, Khmer, Hiragana, Katakana, Han.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_SHORTEST = 2
# Two texts of so many characters that say the same in other words hardly share three words in a row. They are compared
# by words: numbers, and the first letters of those with more letters than the words that any text has.
BRIEF, _BEGINNING = 600, re.compile(r"\b(?:\w{4,5}|\d+)")
# A text's smallest hashes are a random sample of its runs. Of 24, texts that share 80 % of their runs have about 20
# in common, texts that share 30 % about 11.
MINHASH_SIZE = 24
TOKEN_CHARACTERS = 4  # of a token


@lru_cache(maxsize=16)  # a save needs it twice
def hash_normalised_text(body: str) -> str:
    """SHA-256, in hex, of a body, ignoring case, white space, Unicode composition and the last full stop."""
    import hashlib  # noqa: PLC0415 - loads OpenSSL, which a hook does not need

    folded = unicodedata.normalize("NFC", unicodedata.normalize("NFC", body).casefold())
    return hashlib.sha256(" ".join(folded.split()).removesuffix(".").encode()).hexdigest()


def count_characters(text: str) -> int:
    """The length of a text in budgets; a character outside of ASCII counts as four."""
    others = 0 if text.isascii() else len(text) - len(text.encode("ascii", "ignore"))
    return len(text) + (TOKEN_CHARACTERS - 1) * others


def count_tokens(text: str) -> int:
    """The tokens that a text costs a client: four ASCII characters each, or one other character."""
    plain = len(text.encode("ascii", "ignore"))
    return -(-plain // TOKEN_CHARACTERS) + len(text) - plain


def find_break(text: str, start: int, end: int) -> int:
    """Where to cut a text between two places: behind a paragraph, else a line, sentence or word, else at the end."""
    places = ((text.rfind(mark, start, end), mark) for mark in ("\n\n", "\n", ". ", " "))
    return next((place + len(mark) for place, mark in places if place >= 0), end)


def normalise_text(text: str) -> str:
    """Text in the form for comparison: composed, case folded, white space collapsed."""
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def find_head(phrase: str) -> str:
    """The key of a phrase: its longest word, which few others have, or a character; empty for one that is too short."""
    text = normalise_text(phrase)
    words = _WORD.findall(text)
    if len("".join(words)) < _SHORTEST:
        return ""
    unspaced = _UNSPACED.search(text)
    return unspaced[0] if unspaced else max(words, key=len)


def find_heads(text: str) -> set[str]:
    """The heads of all phrases that could occur in a text."""
    text = normalise_text(text)
    return {*_WORD.findall(text), *_UNSPACED.findall(text)}


def contains_phrase(phrase: str, words: Set[str], spaced: str, text: str) -> bool:
    """Whether a normalised text contains a phrase as whole words; `spaced` are its `words`, by `space_words`."""
    if phrase.isascii():  # like most of the many titles that begin with a common word; composing does not change it
        lower = phrase.lower()
        return words >= {*filter(str.isalnum, lower.split())} and space_words(lower) in spaced
    wanted = normalise_text(phrase)
    return wanted in text if _UNSPACED.search(wanted) else space_words(wanted) in spaced


def space_words(text: str) -> str:
    """The words of a normalised text with one space around each, for searching whole words."""
    return f" {' '.join(_WORD.findall(text))} "


@lru_cache(maxsize=16)  # a save needs its own three times, and saves of similar texts need the others'
def split_runs(text: str, brief: int = 0) -> frozenset[str]:
    """The runs of three words in a text; of one with at most `brief` characters the beginnings of its longer words."""
    words = _WORD.findall(folded := text.casefold())
    triples = map(" ".join, zip(words, words[1:], words[2:], strict=False))
    return frozenset(_BEGINNING.findall(folded) if len(text) <= brief else triples) or frozenset([" ".join(words)])


@lru_cache(maxsize=16)  # a save needs it twice, and a change of anything but the text once more
def compute_minhash(text: str) -> tuple[int, ...]:
    """The smallest hashes (32 bits) of the runs of a text, at most MINHASH_SIZE, in rising order."""
    runs = "\n".join(split_runs(text, BRIEF)).encode().split(b"\n")
    return tuple(sorted(set(map(zlib.crc32, runs)))[:MINHASH_SIZE])


def jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    """The share of common runs."""
    common = len(one & other)
    return common / (len(one) + len(other) - common)
