"""The words by which a session will be searched for: trigger phrases and topics. Pure."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, filterfalse, groupby, islice
from operator import attrgetter
from typing import NamedTuple

from scrimshaw.ingest.chatter import remove_code
from scrimshaw.models import MemoryType
from scrimshaw.search.tokens import STEM, STOP_WORDS, query_terms
from scrimshaw.session.statements import LANGUAGES, PATTERNS, WORDS, cut_line

MOST_PHRASES, MOST_WORDS, MOST_TOPICS, MOST_FOLDERS = 8, 4, 4, 2
_LONGEST_PHRASE, _SHORTEST_WORD = 40, 3
_OPENING_LINES = 3  # of a text, after its title: they decide its type
_WEIGHED = 80  # phrases that are counted in the whole session
_FEW = 3
LEAST_SUBJECTS = 2  # words that name a subject, in a sentence that can be understood alone
_SOLID = 2  # occurrences that make an ordinary word a topic
# Weight by number of words: two or three say most, a name alone says as much as two.
_WORTH = {1: 1.3, 2: 1.5, 3: 1.5, 4: 1.2}

_TOKEN = re.compile(r"`[^`\n]{2,60}`|[^\W\d_][\w.'’/-]*[\w]|[^\w\s]|\d[\w.-]*|\w")
_IDENTIFIER = re.compile(
    r"\A(?:[a-z][a-z0-9]*(?:_[a-z0-9]+)+|[A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+|[a-z]+(?:[A-Z][a-z0-9]+)+"
    r"|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\Z"
)
_ISSUE = re.compile(r"\A[A-Za-z]{2,12}-(?=[\w.]*\d)?[a-z0-9]{2,6}(?:\.\d+)?\Z|\A[A-Z]{2,8}-\d{1,6}\Z")
_NO_NAME = re.compile(r"\A[0-9a-f]{7,40}\Z|\A\d|REDACTED|[<>{}()=$\\|]|\A\W|https?:|\.\w{1,4}\Z")
_LINK = re.compile(r"https?://\S+|\[REDACTED:[^]\n]*\]")
_PATH = re.compile(r"(?<![\w.-])[\w.-]++(?:/[\w.-]+)+\.\w+")  # possessive: no word without a slash is retried
_LONGEST_TITLE = 120  # characters
_TABLE_LINE = re.compile(r"(?m)^[ \t]*\|.*$")
_TITLE_LINE = re.compile(r"(?m)^(?![ \t]*(?:```|~~~|=+[ \t\r]*$))[ #*_|\t-]*([^\s#*_|-][^\r\n]*)")
_SENTENCES = re.compile(rf".{{20,{_LONGEST_TITLE - 1}}}[.!?](?=\s)")  # at least more than an abbreviation
_VERBAL = ("ly", "n't", "'m", "’m", "'s", "'ll", "'ve", "'re", "'d", "’s", "’t")  # ends of words
_FILE = re.compile(r"(?<![\w./-])(?:[\w.-]*/[\w./-]*\w|\w[\w-]*\.[a-z]\w{0,4}\b)")  # a path, or a name with an ending
_OF_ANY_WORK = {word[:STEM] for word in WORDS["any_work"]}
_EMPTY = WORDS["empty"] | STOP_WORDS
_SOFT = WORDS["soft"]  # words that say too little by themselves
_SCRATCH = re.compile(r"(?i)\A(?:reproduc|repro_|verify_|check_|debug|tmp|temp|apply_|scratch|test_\w*\d)")


class _Word(NamedTuple):
    """A word that names a subject."""

    text: str
    shown: str  #: In a phrase.
    is_name: bool  #: Whether it is a phrase by itself.
    noun: str  #: As a topic; empty if it is none.


def find_keywords(
    texts: Sequence[tuple[str, float]], names: Iterable[str], paths: Sequence[str], whole: str
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Up to eight trigger phrases of one to four words, the most telling first, and up to four topics.

    `texts` are pieces of the session with their weight, `names` the stems of changed files and other identifiers,
    `paths` those files, `whole` the whole text: a repeated phrase counts more.
    """
    phrases, nouns = defaultdict[str, float](float), defaultdict[str, float](float)
    for text, weight in texts:
        runs = _find_runs(text)
        for phrase in dict.fromkeys(chain.from_iterable(map(_combine_words, runs))):
            phrases[phrase] += weight * _WORTH[phrase.count(" ") + 1]
        for noun in filter(None, map(attrgetter("noun"), chain.from_iterable(runs))):
            nouns[noun] += weight
    for name in names:
        phrases[name] += 2.0
    topics = _choose_topics(nouns, paths)
    common: tuple[str, ...] = ()
    if len(phrases) < _FEW or not topics:  # few names
        words = Counter(word.text.lower() for word in chain.from_iterable(_find_runs(whole)))
        long = [word for word in words if len(word) > _SHORTEST_WORD]
        common = tuple(sorted(long, key=lambda word: (word in _SOFT, -words[word], word))[:_FEW])
    return _choose_phrases(phrases, whole, common if len(phrases) < _FEW else ()), topics or common


def _choose_phrases(scores: Mapping[str, float], whole: str, common: Sequence[str]) -> tuple[str, ...]:
    """The phrases with the highest scores, then `common`, except those contained by more than half in a better one."""
    text = whole.lower()
    best = sorted(scores, key=lambda phrase: (-scores[phrase], phrase.lower()))[:_WEIGHED]
    weights = {phrase: scores[phrase] * (1 + math.log(max(1, text.count(phrase.lower())))) for phrase in best}
    found, similar = dict[str, set[str]](), list[str]()
    for phrase in [*sorted(best, key=lambda phrase: (-weights[phrase], phrase.lower())), *common]:
        words = {word.rstrip("s") for word in re.findall(r"\w+", phrase.lower())}
        if any(len(words & other) * 2 >= min(len(words), len(other)) for other in found.values()):
            similar.append(phrase)
        else:
            found.setdefault(phrase, words)
            if len(found) == MOST_PHRASES:
                break
    return (*found, *similar[: max(0, _FEW - len(found))])  # a short session has few subjects


def _choose_topics(counts: dict[str, float], paths: Sequence[str]) -> tuple[str, ...]:
    """The folders of most changed files, then the most frequent nouns; a language or a tool is no subject."""
    names = filterfalse(_is_general, re.findall(r"[^\W\d_][\w-]{3,}(?=/[^/\n]+$)", "\n".join(paths).lower(), re.M))
    folders = [name for name, _ in Counter(names).most_common(MOST_FOLDERS)]
    for word in filterfalse(_is_general, re.findall(r"[a-z]{4,}", "\n".join(paths).lower())):
        counts[word] += 1.0
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    solid = [*folders, *([word for word in ranked if counts[word] >= _SOLID] or ranked[:1])]
    singular = {word.rstrip("s"): word for word in reversed(solid)}
    return tuple(dict.fromkeys(singular[word.rstrip("s")] for word in solid if word not in LANGUAGES.values()))[
        :MOST_TOPICS
    ]


def _is_general(word: str) -> bool:
    return word in WORDS["folders"] or word in _SOFT or _is_empty(word)


def describe_text(title: str, text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Trigger phrases and topics of a written text; headings count more than lines, code not at all."""
    prose = remove_code(text)
    lines = [(line, 1.5 if line.startswith("#") else 1.0) for line in prose.splitlines() if line]
    paths = [path for line, _ in lines if "/" in line for path in _PATH.findall(line)]
    return find_keywords([(title, 2.5), *lines], file_stems(paths), paths, prose)


def find_title(text: str) -> str:
    """The first line that is no code, table or rule, up to its last sentence or word within _LONGEST_TITLE."""
    found = _TITLE_LINE.search(_TABLE_LINE.sub("", remove_code(text))) or _TITLE_LINE.search(text)
    line = " ".join(found[1].rstrip(" #*_-|\t").split()) if found else ""
    sentences = _SENTENCES.match(line) if len(line) > _LONGEST_TITLE else None
    return sentences[0] if sentences else cut_line(line, _LONGEST_TITLE)


def find_type(title: str, text: str) -> MemoryType:
    """The type that a text's title and first lines suggest, otherwise general."""
    lines = filter(str.strip, remove_code(text).splitlines())
    opening = "\n".join([title, *islice(lines, _OPENING_LINES)]).lower()  # ignoring case takes twice as long
    for kind, cue in PATTERNS["types"].items():
        if cue.search(opening):
            return MemoryType(kind)
    return MemoryType.GENERAL


def file_stems(paths: Iterable[str]) -> Iterator[str]:
    """The names of files without folder and extension, if they are telling."""
    for path in paths:
        stem = path.replace("\\", "/").rpartition("/")[2].split(".")[0]
        is_name = (len(stem) >= 5 or _IDENTIFIER.match(stem)) and _names_subject(stem) and not _SCRATCH.match(stem)
        if is_name and stem.lower() not in WORDS["folders"] | WORDS["stems"] | WORDS["soft"]:
            yield stem


@lru_cache(maxsize=4096)  # each part of a draft asks about the same sentences
def count_subjects(text: str) -> int:
    """The number of words in a text that name a subject; an issue number counts twice."""
    words = [token.strip("`") for token in _TOKEN.findall(text)]
    return sum(2 if _ISSUE.match(word) else 1 for word in words if _names_subject(word) and word.lower() not in _SOFT)


def _combine_words(run: Sequence[_Word]) -> list[str]:
    """Every name in a run of words, and its combinations of two to four words, no word twice."""
    found = list[str]()
    for start, (text, phrase, is_name, _) in enumerate(run, start=1):
        found += [text] if is_name else []
        texts, is_soft = [text], phrase in _SOFT
        for other, shown, _, _ in run[start : start + MOST_WORDS - 1]:
            phrase, is_soft = f"{phrase} {shown}", is_soft and shown in _SOFT
            if other in texts or len(phrase) > _LONGEST_PHRASE:
                break  # nor does a longer one fit
            texts.append(other)
            found += [] if is_soft else [phrase]
    return found


def _find_runs(text: str) -> list[list[_Word]]:
    """The words of a text that name a subject; a run ends at any other word."""
    words = map(_read_word, _TOKEN.findall(_LINK.sub(" . ", text) if "://" in text or "[RED" in text else text))
    return [[*filter(None, run)] for is_subject, run in groupby(words, bool) if is_subject]


@lru_cache(maxsize=16_384)  # texts share most of their words
def _read_word(token: str) -> _Word | None:
    """The word of a token if it names a subject."""
    text = token.strip("`").rstrip("()")
    if not _names_subject(text):
        return None
    lower, is_identifier = text.lower(), bool(_IDENTIFIER.match(text))
    is_noun = len(text) > _SHORTEST_WORD and text.isalpha() and not is_identifier and lower not in _SOFT
    shown, is_name = text if is_identifier else lower, is_identifier or bool(_ISSUE.match(text))
    return _Word(text, shown, is_name, lower if is_noun else "")


@lru_cache(maxsize=4096)  # texts share most of their words
def _names_subject(word: str) -> bool:
    fits = _SHORTEST_WORD <= len(word) <= _LONGEST_PHRASE and " " not in word and "/" not in word
    return fits and not (_is_empty(word) or word.endswith(_VERBAL) or _NO_NAME.search(word))


def _is_empty(word: str) -> bool:
    lower = word.lower()
    return lower in WORDS["extensions"] or lower in _EMPTY or lower.rstrip("s") in _EMPTY


def is_clear(text: str, least: int = LEAST_SUBJECTS) -> bool:
    """Whether a sentence has so many words that name its subject, and does not only point at an earlier one."""
    return count_subjects(text) >= least and not PATTERNS["open_points"]["pointing"].match(text)


@lru_cache(maxsize=4096)  # each point is compared with the same texts
def find_stems(text: str) -> frozenset[str]:
    """The beginnings of the words that name the subject of a text."""
    return frozenset(word[:STEM] for word in query_terms(text, limit=len(text)))


def find_topics(text: str) -> frozenset[str]:
    """The words by which a later text is known to speak of the same: its files by their names, no words of any work."""
    names = (path.rpartition("/")[2].partition(".")[0].lower() for path in _FILE.findall(text))
    files = (name[:STEM] if name.isalnum() else name for name in names)
    return frozenset(word.rstrip("s") for word in chain(find_stems(_FILE.sub(" ", text)) - _OF_ANY_WORK, files))
