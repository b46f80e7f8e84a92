"""Counting and cutting text in tokens, with the tokenizer of the bundled model.

A token here is a WordPiece. White space costs nothing: the pieces alone already come to slightly more than the
tokens, white space included, that language models count (1.03-1.16 times a Claude tokenizer and 1.13-1.27 times
cl100k_base on notes, specifications, Python, JavaScript and JSON), so a budget kept here is kept there.
A word outside the vocabulary (emoji, rare scripts) costs one token per character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
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
EXCERPT_CHARACTERS = 6


def count_tokens(text: str) -> int:
    """How many tokens `text` has; 0 for white space only."""
    encoding = _encode(text)
    if UNKNOWN not in encoding.ids:
        return len(encoding.ids)
    return sum(cost for cost, _ in _costs(encoding))


def count_many(texts: Iterable[str]) -> list[int]:
    """The token count of each text, in order."""
    return [count_tokens(text) for text in texts]


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
    for cost, place in _costs(_encode(start)):
        if used + cost > limit:
            return start[:place].rstrip(), used
        used += cost
    return start, used


def piece_ids(text: str, limit: int) -> list[int]:
    """Vocabulary ids of `text` as the model reads it: start, at most `limit` - 2 pieces, end."""
    return [START, *_encode(text).ids[: limit - 2], END]


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


@cache
def _splitting_tokenizer() -> Tokenizer:
    """One that parts long words first, which costs another half of the time."""
    from tokenizers import Regex, Tokenizer, pre_tokenizers  # noqa: PLC0415 - heavy, only where text is measured

    tokenizer = Tokenizer.from_str(load_tokenizer().to_str())
    long_words = pre_tokenizers.Split(Regex(f".{{{LONGEST_WORD}}}"), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.BertPreTokenizer(), long_words])
    return tokenizer


def _encode(text: str) -> Encoding:
    """One text at a time: a batch call would start a thread pool."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    tokenizer = _splitting_tokenizer() if _LONG_WORD.search(text) else load_tokenizer()
    return tokenizer.encode(text, add_special_tokens=False)


def _costs(encoding: Encoding) -> Iterator[tuple[int, int]]:
    """Cost and start, as a character offset, of each piece."""
    pieces: Sequence[tuple[int, tuple[int, int]]] = list(zip(encoding.ids, encoding.offsets, strict=True))
    for piece, (start, end) in pieces:
        yield (end - start if piece == UNKNOWN else 1), start


def _fit(text: str, limit: int) -> int:
    """How many characters of `text` fit into `limit` tokens."""
    left = limit
    for cost, start in _costs(_encode(text)):
        left -= cost
        if left < 0:
            return start
    return len(text)
