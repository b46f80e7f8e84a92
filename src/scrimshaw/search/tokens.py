"""Counting and cutting text in tokens, with the tokenizer of the bundled model.

A token here is a WordPiece. White space costs nothing: the pieces alone already come to slightly more than the
tokens, white space included, that language models count (1.03-1.16 times a Claude tokenizer and 1.13-1.27 times
cl100k_base on notes, specifications, Python, JavaScript and JSON), so a budget kept here is kept there.
A word outside the vocabulary (emoji, rare scripts) costs one token per character.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

TOKENIZER_FILE = Path(__file__).with_name("model") / "tokenizer.json"

UNKNOWN = 100
START = 101
END = 102
# WordPiece gives up on a longer word, and a page of base64 would count as one token.
LONGEST_WORD = 100
_LONG_WORD = re.compile(rf"\w{{{LONGEST_WORD + 1}}}")
# Most texts have under 6 characters a token: a head of this size nearly always holds the whole cut.
HEAD_CHARACTERS = 12
EXCERPT_CHARACTERS = 5


def count_tokens(text: str) -> int:
    """How many tokens `text` has; 0 for white space only."""
    return sum(_cost(encoding) for _, encoding in _encoded(text))


def clip(text: str, limit: int) -> str:
    """The longest start of `text` that ends between tokens and has at most `limit` of them.

    A text that fits comes back as it is; one that was cut loses the white space at its end.
    """
    for size in (max(limit, 0) * HEAD_CHARACTERS, len(text)):
        head = text[:size]
        fit = _fit(head, limit)
        if fit < len(head):
            return head[:fit].rstrip()
        if len(head) == len(text):
            break
    return text


def head(text: str, limit: int) -> tuple[str, int]:
    """A start of `text` of at most `limit` tokens, and how many it has; one look at the text.

    Unlike `clip` it may stop earlier than it must, where words are long: it reads EXCERPT_CHARACTERS per token.
    """
    start = text[: max(limit, 0) * EXCERPT_CHARACTERS]
    used = 0
    for cost, place in _costs(start):
        if used + cost > limit:
            return start[:place].rstrip(), used
        used += cost
    return start, used


def piece_ids(text: str, limit: int) -> list[int]:
    """Vocabulary ids of `text` as the model reads it: start, at most `limit` - 2 pieces, end."""
    pieces = [piece for _, encoding in _encoded(text) for piece in encoding.ids]
    return [START, *pieces[: limit - 2], END]


@cache
def load_tokenizer() -> Tokenizer:
    """The tokenizer, loaded once (about 20 ms, 13 MB); OSError or ValueError when its file is missing or broken.

    The file asks for padding and truncation to 128 tokens; both are switched off.
    """
    from tokenizers import Tokenizer  # noqa: PLC0415 - heavy, only where text is measured

    tokenizer = Tokenizer.from_buffer(TOKENIZER_FILE.read_bytes())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _encoded(text: str) -> Iterator[tuple[int, Encoding]]:
    """The text in parts that WordPiece does not give up on: where each begins, and its pieces.

    One text at a time: a batch call would start a thread pool.
    """
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    start = 0
    for end in (*_cuts(text), len(text)):
        yield start, load_tokenizer().encode(text[start:end], add_special_tokens=False)
        start = end


def _cuts(text: str) -> Iterator[int]:
    """Where to part the words that are too long."""
    for word in _LONG_WORD.finditer(text):
        yield from range(word.start() + LONGEST_WORD, word.end(), LONGEST_WORD)


def _cost(encoding: Encoding) -> int:
    if UNKNOWN not in encoding.ids:
        return len(encoding.ids)
    return sum(cost for cost, _ in _pieces(encoding))


def _costs(text: str) -> Iterator[tuple[int, int]]:
    """Cost and start, as a character offset, of each piece of a text."""
    for start, encoding in _encoded(text):
        yield from ((cost, start + place) for cost, place in _pieces(encoding))


def _pieces(encoding: Encoding) -> Iterator[tuple[int, int]]:
    pieces: Sequence[tuple[int, tuple[int, int]]] = list(zip(encoding.ids, encoding.offsets, strict=True))
    for piece, (start, end) in pieces:
        yield (end - start if piece == UNKNOWN else 1), start


def _fit(text: str, limit: int) -> int:
    """How many characters of `text` fit into `limit` tokens."""
    left = limit
    for cost, start in _costs(text):
        left -= cost
        if left < 0:
            return start
    return len(text)
