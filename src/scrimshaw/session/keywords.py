"""The words under which a session will be looked for: trigger phrases and topics. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, groupby

from scrimshaw.models import MemoryType
from scrimshaw.search.tokens import STOP_WORDS
from scrimshaw.session.statements import FENCE, LANGUAGES, PATTERNS, WORDS

MOST_PHRASES, MOST_WORDS, MOST_TOPICS = 8, 4, 4
_LONGEST_PHRASE, _SHORTEST_WORD = 40, 3
_OPENING_LINES = 3  # of a text, after its title: they say of which type it is
_WEIGHED = 80  # phrases that are counted in all that was said
_FEW = 3
_SOLID = 2  # occurrences that make a plain word worth a topic
# By its number of words: two or three words say most, a name alone says as much as two.
_WORTH = {1: 1.3, 2: 1.5, 3: 1.5, 4: 1.2}

_TOKEN = re.compile(r"`[^`\n]{2,60}`|[^\W\d_][\w.'’/-]*[\w]|[^\w\s]|\d[\w.-]*|\w")
_IDENTIFIER = re.compile(
    r"\A(?:[a-z][a-z0-9]*(?:_[a-z0-9]+)+|[A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+|[a-z]+(?:[A-Z][a-z0-9]+)+"
    r"|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\Z"
)
_ISSUE = re.compile(r"\A[A-Za-z]{2,12}-(?=[\w.]*\d)?[a-z0-9]{2,6}(?:\.\d+)?\Z|\A[A-Z]{2,8}-\d{1,6}\Z")
_NO_NAME = re.compile(r"\A[0-9a-f]{7,40}\Z|\A\d|REDACTED|[<>{}()=$\\|]|\A\W|https?:|\.\w{1,4}\Z")
_LINK = re.compile(r"https?://\S+")
_VERBAL = re.compile(r"(?:ly|n't|'m|’m|'s|'ll|'ve|'re|'d|’s|’t)\Z")
_SCRATCH = re.compile(r"(?i)\A(?:reproduc|repro_|verify_|check_|debug|tmp|temp|apply_|scratch|test_\w*\d)")

Weighted = tuple[str, float]


def trigger_phrases(texts: Sequence[Weighted], names: Iterable[str], whole: str) -> tuple[str, ...]:
    """Up to eight phrases of one to four words, those that say most first.

    `texts` are pieces of the session with their weight, `names` the stems of changed files and other identifiers,
    `whole` all that was said: a phrase that comes back counts more.
    """
    scores: dict[str, float] = defaultdict(float)
    for text, weight in texts:
        for phrase in dict.fromkeys(_candidate_phrases(text)):
            scores[phrase] += weight * _WORTH[min(MOST_WORDS, len(phrase.split()))]
    for name in filter(_is_name, names):
        scores[name] += 2.0
    best = sorted(scores, key=lambda phrase: (-scores[phrase], phrase.lower()))[:_WEIGHED]
    lower = whole.lower()
    weights = {phrase: scores[phrase] * (1 + math.log(max(1, lower.count(phrase.lower())))) for phrase in best}
    ranked = sorted(best, key=lambda phrase: (-weights[phrase], phrase.lower()))
    found: dict[str, set[str]] = {}  # a phrase of which more than half occurs in a better one is left out
    for phrase in [*ranked, *(_common_words(whole) if len(ranked) < _FEW else ())]:
        words = {word.rstrip("s") for word in re.findall(r"\w+", phrase.lower())}
        if not any(len(words & other) * 2 >= min(len(words), len(other)) for other in found.values()):
            found.setdefault(phrase, words)
    return tuple(found)[:MOST_PHRASES]


def topics(texts: Sequence[Weighted], paths: Sequence[str], whole: str) -> tuple[str, ...]:
    """Up to four words: the language of most changed files, then the nouns that come up most."""
    counts: dict[str, float] = defaultdict(float)
    for text, weight in texts:
        for word in chain.from_iterable(_subject_runs(text)):
            if len(word) > 3 and word.isalpha() and not _IDENTIFIER.match(word) and not _is_soft(word):
                counts[word.lower()] += weight
    for path in paths:
        for word in re.findall(r"[a-z]{4,}", path.lower()):
            if word not in WORDS["folders"] and not _is_empty(word) and not _is_soft(word):
                counts[word] += 1.0
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    solid = [word for word in ranked if counts[word] >= _SOLID] or ranked[:1]
    singular = {word.rstrip("s"): word for word in reversed(solid)}
    nouns = [word for word in solid if singular[word.rstrip("s")] == word]
    languages = [LANGUAGES[end] for path in paths if (end := path.rpartition(".")[2]) in LANGUAGES]
    first = [max(sorted(set(languages)), key=languages.count)] if languages else []
    return tuple(dict.fromkeys([*first, *nouns] or _common_words(whole)))[:MOST_TOPICS]


def describe_text(title: str, text: str) -> tuple[tuple[str, ...], tuple[str, ...], MemoryType]:
    """Trigger phrases, topics and type of a text that somebody wrote; headings say more than lines, code nothing."""
    prose = FENCE.sub("", text)
    lines = [(line.strip("#*- "), 1.5 if line.startswith("#") else 1.0) for line in prose.splitlines() if line.strip()]
    weighted, paths = [(title, 2.5), *lines], re.findall(r"[\w.-]+(?:/[\w.-]+)+\.\w+", prose)
    opening = "\n".join([title, *(line for line, _ in lines[:_OPENING_LINES])])
    kind = next((kind for kind, cue in PATTERNS["types"].items() if cue.search(opening)), MemoryType.GENERAL)
    found = trigger_phrases(weighted, file_stems(paths), prose), topics(weighted, paths, prose)
    return *found, MemoryType(kind)


def file_stems(paths: Iterable[str]) -> Iterator[str]:
    """The names of files without folder and extension, where they name something."""
    for path in paths:
        stem = path.replace("\\", "/").rpartition("/")[2].split(".")[0]
        if _is_name(stem) and stem.lower() not in WORDS["folders"] | WORDS["stems"]:
            yield stem


def count_subjects(text: str) -> int:
    """How many words of a text name a subject; the number of an issue counts twice."""
    words = [token.strip("`") for token in _TOKEN.findall(text)]
    return sum(2 if _ISSUE.match(word) else 1 for word in words if _names_subject(word) and not _is_soft(word))


def find_issue_numbers(text: str) -> list[str]:
    """The numbers of issues in a text: `SHOP-42`, `shop-a1b.2`."""
    return [word for token in _TOKEN.findall(text) if _ISSUE.match(word := token.strip("`."))]


def _common_words(whole: str) -> list[str]:
    """The words that come up most, for a session that names little."""
    words = Counter(word.lower() for word in chain.from_iterable(_subject_runs(whole)) if len(word) > _SHORTEST_WORD)
    return sorted(words, key=lambda word: (_is_soft(word), -words[word], word))[:_FEW]


def _candidate_phrases(text: str) -> Iterator[str]:
    """Runs of words that name a subject, at most four long, and every name on its own."""
    for run in _subject_runs(text):
        yield from (word for word in run if _IDENTIFIER.match(word) or _ISSUE.match(word))
        for start in range(len(run)):
            for length in range(2, min(MOST_WORDS, len(run) - start) + 1):
                words = run[start : start + length]
                phrase = " ".join(word if _IDENTIFIER.match(word) else word.lower() for word in words)
                is_distinct = len(set(words)) == length and not all(_is_soft(word) for word in words)
                if is_distinct and len(phrase) <= _LONGEST_PHRASE:
                    yield phrase


def _subject_runs(text: str) -> Iterator[list[str]]:
    words = [token.strip("`").rstrip("()") for token in _TOKEN.findall(_LINK.sub(" . ", text))]
    yield from (list(run) for names_subject, run in groupby(words, _names_subject) if names_subject)


@lru_cache(maxsize=4096)  # a text is read for phrases, for topics and for its usual words
def _names_subject(word: str) -> bool:
    fits = _SHORTEST_WORD <= len(word) <= _LONGEST_PHRASE and " " not in word and "/" not in word
    return fits and not (_NO_NAME.search(word) or _VERBAL.search(word) or _is_empty(word))


def _is_empty(word: str) -> bool:
    lower, empty = word.lower(), WORDS["empty"]
    return lower in empty or lower in STOP_WORDS or lower in WORDS["extensions"] or lower.rstrip("s") in empty


def _is_soft(word: str) -> bool:
    return word.lower() in WORDS["soft"]


def _is_name(word: str) -> bool:
    is_long = len(word) >= 5 or _IDENTIFIER.match(word)
    return bool(is_long) and _names_subject(word) and not _is_soft(word) and not _SCRATCH.match(word)
