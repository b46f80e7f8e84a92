"""Words and tokens of texts: query terms, trigger phrases; the pieces that the bundled model reads.

They are those of Hugging Face's tokenizers, which would bring six packages and 36 MB for this alone.
"""

import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from unicodedata import category, normalize

import msgspec

from scrimshaw.ingest.comparison import contains_phrase, find_heads, normalise_text, space_words
from scrimshaw.ingest.tables import load_pattern, load_words

TOKENIZER_FILE = Path(__file__).with_name("model") / "tokenizer.json"

UNKNOWN, START, END = 100, 101, 102
# A longer word is cut in parts of this length: trying all ends of a page of base64 takes quadratic time.
LONGEST_WORD = 100
_CONTROL = re.compile(r"[\0-\x08\x0b\x0c\x0e-\x1f\x7f]")
_UNSPACED = re.compile(r"[^ ]+")
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+|[!-~]")
_ALONE = load_pattern(__file__, "tokens", "alone")
# Maximum of terms in a query; bounds the cost of a pasted page. Judged queries have 2 to 35.
MAX_TERMS = 64
STEM = 5  # first characters by which words are compared
_WORD = re.compile(r"[^\W_]+")
_NAME = re.compile(r"[^\W_]+(?:[_./:]+[^\W_]+)+")
MAX_NAMES = 8
STOP_WORDS = load_words(__file__, "tokens", "stop_words")


class WordPiece(NamedTuple):
    """A piece of a text: its id in the vocabulary, its characters, and its cost where a text is cut.

    A word outside the vocabulary (emoji, rare scripts) counts as one per character.
    """

    id: int
    start: int
    end: int
    cost: int = 1


def query_terms(query: str, *, limit: int = MAX_TERMS) -> tuple[str, ...]:
    """The distinct words of a query in lower case, at most `limit`; without stop words if it has others."""
    words = tuple(dict.fromkeys(word.lower() for word in _WORD.findall(query)))
    return (tuple(word for word in words if word not in STOP_WORDS) or words)[:limit]


def count_shared(text: str, words: Iterable[str]) -> int:
    """How many of the words have their beginning at that of a word of a text; in other scripts than ASCII anywhere."""
    spaced = space_words(normalise_text(text))
    stems = [word[:STEM].casefold() for word in words]
    return sum((f" {stem}" if stem.isascii() else stem) in spaced for stem in stems)


def find_names(query: str) -> tuple[str, ...]:
    """The names in a query that contain punctuation, such as `a_b`, `a.b` and `a/b.c`, at most a few."""
    return tuple(dict.fromkeys(_NAME.findall(query)))[:MAX_NAMES]


def find_phrases(
    text: str, look_up: Callable[..., Iterable[tuple[str, str]]], *, titles: bool = False
) -> dict[str, list[str]]:
    """The phrases, and `titles`, whole in a text, by memory id, longest first; `look_up` is `Index.phrases`."""
    text = normalise_text(text)
    words = {*(spaced := space_words(text)).split()}
    holds = cache(partial(contains_phrase, words=words, spaced=spaced, text=text))  # many memories share a phrase
    found: dict[str, set[str]] = {}
    for phrase, memory_id in look_up(find_heads(text), titles=titles, holds=holds):
        found.setdefault(memory_id, set()).add(phrase)
    return {memory_id: sorted(own, key=lambda phrase: (-len(phrase), phrase)) for memory_id, own in found.items()}


def clip(text: str, limit: int) -> str:
    """The longest start of `text` of at most `limit` tokens; a cut text loses the white space at its end."""
    used = 0
    for piece in find_pieces(text):
        used += piece.cost
        if used > limit:
            return text[: piece.start].rstrip()
    return text


def piece_ids(text: str, limit: int) -> list[int]:
    """Vocabulary ids of `text` for the model: start, at most `limit` - 2 pieces, end."""
    return [START, *(piece.id for piece in islice(find_pieces(text), limit - 2)), END]


def find_content(pieces: Sequence[int]) -> list[int]:
    """The positions of pieces that are not stop words, punctuation or bounds; all positions if there are none."""
    find = load_vocabulary().get
    empty = {START, END, *map(find, STOP_WORDS), *map(find, string.punctuation)}
    return [place for place, piece in enumerate(pieces) if piece not in empty] or [*range(len(pieces))]


@cache
def load_vocabulary() -> Mapping[str, int]:
    """The pieces that the model knows, loaded once (10 ms); OSError, KeyError or ValueError for a bad file."""
    return dict(msgspec.json.decode(TOKENIZER_FILE.read_bytes())["model"]["vocab"])


def find_pieces(text: str) -> Iterator[WordPiece]:
    """The pieces of a text in their order."""
    places: Sequence[int] = range(len(text))
    words, plain = _ASCII_WORD, text.lower()
    if not text.isascii() or _CONTROL.search(text):
        parts = [*map(normalise_character, text)]
        words, plain = _UNSPACED, "".join(parts)
        places = [place for place, part in enumerate(parts) for _ in part]
    for found in words.finditer(plain):
        for start in range(found.start(), found.end(), LONGEST_WORD):
            for piece, begin, end, cost in cut_word(plain[start : min(start + LONGEST_WORD, found.end())]):
                yield WordPiece(piece, places[start + begin], places[start + end - 1] + 1, cost)


@lru_cache(maxsize=4096)
def normalise_character(character: str) -> str:
    """A character in the model's form: lower case, no accents or controls, spaces around single-character words."""
    if character not in "\t\n\r" and (character == "\ufffd" or category(character) in ("Cc", "Cf", "Co")):
        return ""
    if character.isspace():
        return " "
    plain = "".join(part.lower() for part in normalize("NFD", character) if category(part) != "Mn")
    is_alone = _ALONE.match(plain) or (plain and category(plain[0])[0] == "P")
    return f" {plain} " if is_alone else plain


@lru_cache(maxsize=8192)  # texts share most of their words
def cut_word(word: str) -> list[WordPiece]:
    """The longest known pieces of a word from its start on; UNKNOWN for the whole word if a part is unknown."""
    vocabulary, found, start = load_vocabulary(), list[WordPiece](), 0
    while start < len(word):
        prefix, end = "##" if start else "", len(word)
        while end > start and prefix + word[start:end] not in vocabulary:
            end -= 1
        if end == start:
            return [WordPiece(UNKNOWN, 0, len(word), len(word))]
        found.append(WordPiece(vocabulary[prefix + word[start:end]], start, end))
        start = end
    return found
