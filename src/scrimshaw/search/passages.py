"""Cuts texts to the sentences that answer, and packs these passages into a budget.

Lengths are in characters; one outside of ASCII counts as four.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, pairwise, product
from zlib import crc32

from msgspec.structs import replace

from scrimshaw.ingest.comparison import TOKEN_CHARACTERS, count_characters
from scrimshaw.ingest.tables import load_table
from scrimshaw.models import Memory, MemoryType, Trust
from scrimshaw.search.results import Hit
from scrimshaw.search.tokens import STEM, STOP_WORDS

# Characters of a passage, cross-validated on questions about recorded sessions (docs/evaluation.md): longer ones leave
# no room for others, and shorter ones lose the sentence next to the query's words.
PASSAGE = 450
SENTENCE = 160  # most characters shown of a passage that is already in the context, or that does not fit
LEAST = 60  # less room than this holds no statement
_LONG_SENTENCE = 240
_LEAST_NEW = 30  # characters; "Done, all tests pass." says nothing new
_REPEATED = 0.7  # share of a sentence's pairs of words that were said before, above which it may say nothing
_WORD, _DIGIT = re.compile(r"\w+"), re.compile(r"\d")
_NOT_SAID = re.compile(r"(?m)^#{1,6} .*|^[^\W\d]\w*: |\(e\d+\)")  # headings, labels such as a tool's, marks of events
_HEADING, _HEADINGS = re.compile(r"#{1,6} +(.*\S)\s*"), re.compile(r"\A(?:#{1,6} .*\s+)+")
_ITEM = re.compile(r"(?:#{1,6} .*\s+)?(?:[-*+]|\d+\.) ")
_TABLE = load_table(__file__, "passages", dict[str, str])
_PATTERNS = {name: re.compile(lines.replace("\n", "")) for name, lines in _TABLE.items()}
CODES = _PATTERNS["codes"]
_TELLS = re.compile(r"(?!```)\W*\w")  # not a rule, a fence of code or the mark of a gap
_ONLY_ASKS = re.compile(r"> (?:(?![.!:;]\s)[^\n])*\?\W*")  # one sentence of a person, whose words are quoted
_CUES = ("orget", "ropped", "eplac", "nstead of", "o longer", "ed from", "away from", "is out", "ny more", "nymore")
_PART = re.compile(r"\.\d+\Z")
_MOST_DECIDED = 100  # sentences that are compared with each other
_SAME_MATTER, _LONGEST_DECISION = 0.6, 16  # share of the words of the shorter of two decisions, and words of one
_BLANK_LINES = re.compile(r"\n\s*\n")
_GAP = " ... "
_LIST_LINE = re.compile(r"(?m)^(?:##+ +(?P<heading>.*\S)|[ \t]*(?:[-*+]|\d+\.) \[(?P<mark>[ xX])\] .*\S)\s*?$")

# The characters left after sending these hits, negative if they are too many.
Spare = Callable[[tuple[Hit, ...]], int]
_Words = frozenset[str]  # by their beginnings


def cut_passage(text: str, terms: Iterable[str], room: int, said: str = "") -> str:
    """At most `room` characters of a text: the sentences with most terms in or next to them, in order.

    Without those that only repeat what was `said`; empty if all of them do.
    """
    text = text.strip()
    if said and (title := _HEADING.match(text)) and title[1] in said:
        text = text[title.end() :]
    fits = count_characters(text) <= room
    if fits and not said:
        return text
    places, heard = [*_split_sentences(text)], _pair_words(said)
    repeats = [
        _REPEATED * (end - start) < len(said)  # a much longer one says more, and so needs no comparison
        and len((own := _pair_words(text[start:end])) & heard) > _REPEATED * len(own)
        and min(map(len, own - heard), default=2) > 1  # no number is new
        for start, end in places
    ]
    if fits and True not in repeats:
        return text
    starts = "|".join(re.escape(term[:STEM].lower()) for term in terms) or "$^"
    # Ignoring case takes twice the time. Inside of a path or an address a word counts half.
    find, find_apart = (re.compile(rf"{before}(?:{starts})").findall for before in (r"\b", r"(?<![\w/.-])"))
    found = ((one, {*find(one)}) for one in (text[start:end].lower() for start, end in places))
    counts = [len(some) + (len({*find_apart(one)}) if some else 0) for one, some in found]
    apart = [True, *(bool(_ITEM.match(text, start)) for start, _ in places[1:]), True]  # an item stands for itself
    near = [max(counts[place - (not apart[place]) : place + 2 - apart[place + 1]]) for place in range(len(places))]
    chosen, size = set[int](), -len(_GAP)
    following = [*(start for start, _ in places[1:]), len(text)]  # the space between two kept sentences is kept
    lines = (text.rfind("\n", 0, start) + 1 for start, _ in places)
    asked = [text.startswith("> ", line) for line in lines]  # in a prompt, "let's ..." is the request
    spans = [place for place, (start, end) in enumerate(places) if near[place] or end - start >= _LEAST_NEW]
    telling = [x for x in spans if not repeats[x] and (asked[x] or not _PATTERNS["announces"].match(text, *places[x]))]
    for place in sorted(telling, key=lambda place: -2 * counts[place] - near[place]):
        start, end = places[place]
        cost = max(count_characters(text[start:end]) + len(_GAP), count_characters(text[start : following[place]]))
        if size + cost <= room:
            chosen.add(place)
            size += cost
        elif not chosen:
            return _clip_words(_HEADINGS.sub("", text[start:end]), room)
    if not chosen:
        return "" if said else _clip_words(text, room)
    begins = sorted(place for place in chosen if place - 1 not in chosen)
    ends = sorted(place for place in chosen if place + 1 not in chosen)
    return _GAP.join(text[places[begin][0] : places[end][1]] for begin, end in zip(begins, ends, strict=True))


def _pair_words(text: str) -> frozenset[tuple[str, ...]]:
    """The beginnings of each two words that follow each other in what a text says, and its numbers and ids."""
    words = _WORD.findall(_NOT_SAID.sub("", text.lower()))
    numbers = zip(filter(_DIGIT.search, words), strict=True)
    return frozenset([*pairwise([word[:STEM] for word in words]), *numbers])


def list_open_items(text: str, terms: Iterable[str]) -> str:
    """The unticked items of a list below their headings, and how many there are; empty for a text without a list.

    Only those below the headings that have most of the terms, if one has two of them, such as "phase" and "3".
    """
    wanted, sections, ticked = {*terms}, [("", list[str]())], 0
    for line in _LIST_LINE.finditer(text):
        if line["heading"]:
            sections.append((line[0].rstrip(), []))
        elif line["mark"] == " ":
            sections[-1][1].append(line[0].rstrip())
        else:
            ticked += 1
    left = [(heading, items) for heading, items in sections if items]
    total = sum(len(items) for _, items in left)
    named = [len(wanted & {*re.findall(r"\w+", heading.lower())}) for heading, _ in left]
    shown = [each for each, count in zip(left, named, strict=True) if max(named) < 2 or count == max(named)]
    parts = ["\n".join(filter(None, (heading, *items))) for heading, items in shown]
    return "\n".join([f"{total} of {total + ticked} open:", *parts]) if total or ticked else ""


def find_copies(passages: Sequence[tuple[Memory, str]], asked: str = "") -> Iterator[str]:
    """The ids of those that only ask, or of which hardly a line is not asked now or newer in another session.

    Of a long output, and of a log in a prompt, only the first stays.
    """
    outputs = [memory.id for memory, _ in passages if memory.provenance.trust != Trust.AGENT]
    first = {_PART.sub("", name): name for name in reversed(outputs)}
    yield from (name for name in outputs if first[_PART.sub("", name)] != name)
    sources = dict.fromkeys(asked.split("\n"), "")  # by line
    for memory, text in sorted(passages, key=lambda each: each[0].updated, reverse=True):
        session, lines = memory.provenance.session, [line.removeprefix("> ") for line in text.split("\n")]
        new = sum(len(line) for line in lines if sources.setdefault(line, session) == session)
        if (new < _LEAST_NEW and len(text) - new >= LEAST) or _ONLY_ASKS.fullmatch(text):
            yield memory.id


def find_revoked(passages: Sequence[tuple[Memory, str]], terms: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The ids of what says that something is over, or decides it anew, and of what was said of it before, best first.

    The query names it, or half of its words are in both. Two decisions differ in one word each, none of the query's.
    """
    asked, over = frozenset(term[:STEM] for term in terms), list[tuple[Memory, _Words, _Words, _Words]]()
    for new, text in passages:
        lines = text.split("\n") if any(cue in text for cue in _CUES) else ()
        said = (line for line in lines if any(cue in line for cue in _CUES))
        names = filter(None, chain(*chain(*map(_PATTERNS["revokes"].findall, said))))
        over += [(new, gone, _stem_words(text), asked) for gone in map(_stem_words, names) if gone]
    decided = [(new, told, down) for new, text in passages for told, down in list_decisions(new, text, asked)]
    over += [(new, down, told, asked) for new, told, down in decided if down]
    for (new, told, down), (old, before, _) in product(decided[:_MOST_DECIDED], repeat=2):
        if not _is_later(new, old):
            continue
        kept, shared, wanted = told - down, told & before, asked & before
        is_same = len(shared) >= max(2, _SAME_MATTER * min(len(told), len(before))) and wanted <= shared
        if is_same and len(before - kept) == len(kept - before) == 1:  # two other words are of another matter
            over.append((new, before - kept, told, wanted))
    find_words = cache(_stem_words)
    for (old, text), (new, gone, told, wanted) in product(passages, over):
        if _is_later(new, old) and gone <= (words := find_words(text)):
            is_asked = gone & asked or 2 * len(wanted & words & told) >= len(wanted)
            yield from [(new.id, old.id)] if is_asked else ()


def _is_later(new: Memory, old: Memory) -> bool:
    """Whether it was said later, and does not retell the other's session."""
    return old.updated < new.updated and (old.provenance.session != new.provenance.session or old.source == new.source)


def list_decisions(memory: Memory, text: str, asked: _Words) -> Iterator[tuple[_Words, _Words]]:
    """The words of each thing that a memory decides with a word that is asked, and those of what it turns down."""
    likely = _PATTERNS["decides"].findall(text) if "ecision" in text or "ecided" in text else ()
    for part in [text] if memory.type == MemoryType.DECISION else map("".join, likely):
        for said in _PATTERNS["statement"].findall(part.lower()):
            if asked & (told := _stem_words(said)) and len(told) <= _LONGEST_DECISION:
                yield told, _stem_words(" ".join(_PATTERNS["turns_down"].findall(said)))


def _stem_words(text: str) -> _Words:
    return frozenset(word[:STEM] for word in _WORD.findall(text.lower()) if word not in STOP_WORDS)


def pack_hits(
    hits: Iterable[Hit], terms: Sequence[str], spare: Spare, *, known: Mapping[str, str] = {}, margin: int = 0
) -> list[Hit]:
    """The first hits that fit, as passages, or as sentences if `margin` characters are kept for whole texts.

    Remaining room is used to lengthen texts, best first. The first hit is always included, if only with a
    sentence; so is a passage in `known`, the digests by id of what the session was shown. What a hit's title or the
    others of its session say is not said again, except in whole texts.
    """
    packed, wholes, said = list[Hit](), list[str](), defaultdict[str, str](str)
    spare = cache(spare)  # the same hits are the same objects
    brief_spare = (lambda some: spare(some) - margin) if margin else spare
    for hit in hits:
        source, whole = hit.memory.provenance.session or hit.memory.id, hit.text
        if hit.always_on:  # which no budget cuts
            packed.append(shorten_known(hit, known))
            wholes.append(whole)
            continue
        whole, most = (whole, SENTENCE) if margin else (_BLANK_LINES.sub("\n", whole), PASSAGE)
        heard = "" if margin else f"{hit.memory.title}\n{said[source]}"
        text = cut_passage(whole, terms, most, heard) or cut_passage(whole, terms, most, said[source])
        if said[source] and len(text) < min(_LEAST_NEW, len(whole.strip())):
            continue
        brief = shorten_known(replace(hit, text=text), known)
        one = _fit_text(brief, terms, brief_spare, packed)
        if one is None and packed:
            break
        one = one or replace(brief, text=cut_passage(brief.text, terms, SENTENCE))
        packed.append(one if one.text == brief.text else replace(one, digest=""))
        wholes.append(whole)
        said[source] += f"{one.text}\n"
    for place, hit in enumerate(packed):
        room, least = spare((*packed,)), count_characters(hit.text)
        if room < LEAST:
            break
        if hit.digest:
            source = hit.memory.provenance.session or hit.memory.id
            heard = "" if margin else f"{hit.memory.title}\n{said[source].replace(hit.text, '')}"
            longer = replace(hit, text=cut_passage(wholes[place], terms, room + least, heard) or hit.text)
            packed[place] = _fit_text(longer, terms, spare, packed[:place], packed[place + 1 :], least=least) or hit
            said[source] += f"{packed[place].text}\n"
    return packed


def shorten_known(hit: Hit, known: Mapping[str, str]) -> Hit:
    """The hit with the digest of its text or, if the session has seen that text, with a sentence of it."""
    whole = hit.memory.content_hash  # for a memory that a start gave in full
    digest = f"{whole}:{crc32(hit.text.encode('utf-8', 'replace')):08x}"
    if known.get(hit.memory.id, "-") not in (digest, whole if hit.always_on else digest):
        return replace(hit, digest=digest)
    return replace(hit, text=cut_passage(hit.text, (), SENTENCE), is_known=True)


def _fit_text(hit: Hit, terms: Sequence[str], spare: Spare, *around: Sequence[Hit], least: int = LEAST) -> Hit | None:
    """The hit, `around` it those before and after, with as much of its text as fits; None if that is below `least`."""
    room = count_characters(hit.text)
    least = min(room, least)
    while room >= least:
        one = replace(hit, text=cut_passage(hit.text, terms, room))
        if (left := spare((*around[0], one, *chain(*around[1:])))) >= 0:
            return one
        room = count_characters(one.text) + left
    return None


def _split_sentences(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each sentence or line of a text that says something, with its heading; a long one is split."""
    start = line = 0
    for end, following in (*map(re.Match.span, _PATTERNS["sentence_end"].finditer(text)), (len(text), len(text))):
        if _HEADING.match(text, line, end):  # it only names what follows
            start, line = line, following
            continue
        while end - start > _LONG_SENTENCE:
            cut = text.rfind(" ", start + _LONG_SENTENCE // 2, start + _LONG_SENTENCE)
            cut = cut if cut > 0 else start + _LONG_SENTENCE
            yield start, cut
            start = cut
        if _TELLS.match(text, start, end):
            yield start, end
        start = line = following


def _clip_words(text: str, room: int) -> str:
    """The longest start of a text of at most `room` characters, cut between words if it has several."""
    if count_characters(text) <= room:
        return text
    while (over := count_characters(text) - max(room, 0)) > 0:
        text = text[: len(text) - max(1, over // TOKEN_CHARACTERS)]
    head, _, tail = text.rpartition(" ")
    return (head if head and len(tail) < _LONG_SENTENCE // 4 else text).rstrip()
