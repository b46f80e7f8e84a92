"""Words and tokens of texts: query terms, trigger phrases; counting and cutting with the bundled tokenizer.

A token here is a WordPiece. White space costs nothing: the pieces alone already come to slightly more than the
tokens, white space included, that language models count (1.03-1.16 times one of a large vendor and 1.13-1.27 times
cl100k_base on notes, specifications, Python, JavaScript and JSON), so a budget kept here is kept there.
A word outside the vocabulary (emoji, rare scripts) costs one token per character.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from scrimshaw.ingest.comparison import contains_phrase, normalise_text, space_words

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

TOKENIZER_FILE = Path(__file__).with_name("model") / "tokenizer.json"

UNKNOWN = 100
START = 101
END = 102
# WordPiece gives up on a longer word, and a page of base64 would count as one token.
LONGEST_WORD = 100
_LONG_PIECE = re.compile(rf"\w{{{LONGEST_WORD}}}(?=\w)")
# Most texts have under 6 characters a token: a head of this size nearly always holds the whole cut.
HEAD_CHARACTERS = 12
# Most terms of a query; bounds the cost of a pasted page. Judged queries have 2 to 35.
MAX_TERMS = 64
_WORD = re.compile(r"[^\W_]+")
_NAME = re.compile(r"[^\W_]+(?:[_./:]+[^\W_]+)+")
MAX_NAMES = 8
_SPACED = re.compile(r"[^ \t\r\n]+")
# English words that name no subject, and what remains of contractions once the apostrophe has split them.
# Without the list nDCG@10 falls by .07 on the memories of a real project (docs/evaluation).
_STOP_LIST = """
a about after again all also am an and any are aren as at be because been before being between both but by
can cannot could couldn d did didn do does doesn doing don down during each few for from further had hadn
has hasn have haven having he her here hers herself him himself his how i if in into is isn it its itself
just let ll m me more most my myself no nor not now of on once only or other our ours ourselves out over own
re s same she should shouldn so some such t than that the their theirs them themselves then there these they
this those through to too until up us ve very was wasn we were weren what when where which while who whom
whose why will with won would wouldn you your yours yourself yourselves
"""
STOP_WORDS = frozenset(_STOP_LIST.split())


def query_terms(query: str, *, limit: int = MAX_TERMS) -> tuple[str, ...]:
    """The distinct words of a query in lower case, at most `limit`; without stop words where it has others."""
    words = tuple(dict.fromkeys(word.lower() for word in _WORD.findall(query)))
    return (tuple(word for word in words if word not in STOP_WORDS) or words)[:limit]


def find_names(query: str) -> tuple[str, ...]:
    """The names in a query that marks hold together, such as `a_b`, `a.b` and `a/b.c`, at most a few."""
    return tuple(dict.fromkeys(_NAME.findall(query)))[:MAX_NAMES]


def find_phrases(text: str, phrases: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Of (phrase, memory id) pairs those whose phrase occurs whole in the text: id -> its phrases, longest first."""
    text = normalise_text(text)
    words = space_words(text)
    found: dict[str, set[str]] = {}
    for phrase, rows in groupby(phrases, key=itemgetter(0)):  # many memories share a phrase, and it is read once
        if contains_phrase(phrase, words, text):
            for _, memory_id in rows:
                found.setdefault(memory_id, set()).add(phrase)
    return {memory_id: sorted(own, key=lambda phrase: (-len(phrase), phrase)) for memory_id, own in found.items()}


def count_tokens(text: str) -> int:
    """How many tokens `text` has; 0 for white space only."""
    return sum(map(_count_word_tokens, _SPACED.findall(text)))


@lru_cache(maxsize=8192)  # texts share most of their words
def _count_word_tokens(word: str) -> int:
    total = 0
    for _, encoding in _encode_parts(word):
        total += len(encoding.ids)
        if UNKNOWN in encoding.ids:
            places = zip(encoding.ids, encoding.offsets, strict=True)
            total += sum(end - start - 1 for piece, (start, end) in places if piece == UNKNOWN)
    return total


def clip(text: str, limit: int) -> str:
    """The longest start of `text` of at most `limit` tokens; one that was cut loses the white space at its end."""
    for size in (max(limit, 0) * HEAD_CHARACTERS, len(text)):
        used = 0
        for cost, place in _costs(text[:size]):
            used += cost
            if used > limit:
                return text[:place].rstrip()
        if size >= len(text):
            break
    return text


def piece_ids(text: str, limit: int) -> list[int]:
    """Vocabulary ids of `text` as the model reads it: start, at most `limit` - 2 pieces, end."""
    pieces = [piece for _, encoding in _encode_parts(text) for piece in encoding.ids]
    return [START, *pieces[: limit - 2], END]


def find_content(pieces: Sequence[int]) -> list[int]:
    """The places of the pieces that are no stop word, mark or bound; all places where there are no others."""
    return [place for place, piece in enumerate(pieces) if piece not in _empty_pieces()] or [*range(len(pieces))]


@cache
def _empty_pieces() -> frozenset[int | None]:
    find = load_tokenizer().token_to_id
    return frozenset((START, END, *map(find, STOP_WORDS), *map(find, string.punctuation)))


@cache
def load_tokenizer() -> Tokenizer:
    """The tokenizer, loaded once (20 ms, 13 MB); OSError or ValueError when its file is missing or broken."""
    from tokenizers import Tokenizer  # noqa: PLC0415 - heavy, only where text is measured

    tokenizer = Tokenizer.from_buffer(TOKENIZER_FILE.read_bytes())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _encode_parts(text: str) -> Iterator[tuple[int, Encoding]]:
    """Where each part of the text begins that WordPiece does not give up on, and its pieces."""
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    start, encode = 0, load_tokenizer().encode
    for piece in _LONG_PIECE.finditer(text):
        yield start, encode(text[start : piece.end()], add_special_tokens=False)
        start = piece.end()
    yield start, encode(text[start:], add_special_tokens=False)


def _costs(text: str) -> Iterator[tuple[int, int]]:
    """Cost and start, as a character offset, of each piece of a text."""
    for begin, encoding in _encode_parts(text):
        for piece, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            yield (end - start if piece == UNKNOWN else 1), begin + start
