"""The sentences of a session that a successor needs, found by a linear classifier over words and place. Pure.

Its weights are in `selection.json`, fitted by `benchmarks/selection.py`.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import takewhile
from operator import attrgetter
from pathlib import Path

import msgspec

from scrimshaw.models import EventKind
from scrimshaw.session import statements
from scrimshaw.session.keywords import LEAST_SUBJECTS, find_topics
from scrimshaw.session.record import ACTS, LONG_WORD, SAME_CHOICE, Passage, Record
from scrimshaw.session.statements import AGENT, LONGEST_SENTENCE, PATTERNS, SUMMARY, USER, Sentence, Statement, flatten

KINDS = ("decision", "finding", "result", "open")
# The probability above which a sentence is told, above which it is told beside one, and below which a reply without
# a cue is no decision; chosen on sessions that the weights were not fitted on.
LEAST_WORTH, LEAST_BESIDE, LEAST_LIKELY = 0.5, 0.25, 0.25
LEAST_LATE = 0.4  # of what a person says in the last two turns: how it went, and who does what
LEAST_BRIEF = 0.05  # in the last answers of a brief session; not measured, since few labelled ones are so brief
# Sentences that are told above LEAST_BESIDE, one of so many: of an agent that thinks aloud few are sure.
MOST_BEST, SENTENCES_PER_BEST = 3, 60
LONGEST_SELECTION, _LINE = 1_600, 30  # characters of all that is selected, and what a line costs beside its text
Scores = Sequence[tuple[float, str]]  # of each sentence the probability that it is needed, and its kind
BRIEF = 12  # sentences; of the 250 sessions that the weights are fitted on only four are so short
_NEAR_END, _FEWEST_ITEMS = 0.8, 3  # share of the events, and items, of the answer that tells how it ended
_NAMES, _TOKEN = PATTERNS["names"], PATTERNS["statements"]["token"]
_FEW_TOPICS, _SETTLED = 3, 0.35  # words that name a subject; share of them in the report that a point is done
_FEWEST_SPACES = 2  # in a sentence; with fewer it is a caption
_FEW = 5  # words; fewer, such as the names of changed files, do not say what a sentence with them says
_OPENING, _HEADING = 2, 8  # first words of a sentence, and of its heading
_BEGIN = 60  # characters that have the first word
_CUES = [(f"{table} {name}", cue) for table in ("decisions", "open_points") for name, cue in PATTERNS[table].items()]


def select_statements(record: Record, scores: Scores, told: str, room: int) -> Mapping[str, Sequence[Statement]]:
    """By kind, in order, the sentences most worth telling that add to the lines told; at most `room` characters."""
    chosen, joined, room = list[tuple[int, str, Statement]](), set[int](), min(room, LONGEST_SELECTION)
    known = [set(LONG_WORD.findall(line)) for line in told.lower().splitlines()]
    best, accounts = min(MOST_BEST, len(scores) // SENTENCES_PER_BEST), _find_accounts(record)
    late = max(record.turns.values(), default=0) - 1
    for rank, (place, (worth, kind)) in enumerate(sorted(enumerate(scores), key=lambda each: -each[1][0])):
        sentence = record.sentences[place]
        is_caption = sentence.by == AGENT and sentence.text.count(" ") < _FEWEST_SPACES  # or "Committed."
        least = LEAST_LATE if sentence.by == USER and sentence.turn >= late else LEAST_WORTH
        least = LEAST_BESIDE if rank < best else accounts.get(sentence.event, least)
        least = max(least, LEAST_BESIDE) if sentence.is_item else least
        if is_caption or place in joined or worth < least or not is_telling(record, place, kind):
            continue
        places = {place}
        if sentence.is_item and sentence.event in accounts and kind != "open":
            places = _join_items(record, scores, place, told) - joined  # a list is read whole
        said = add_context(record, place, scores, told)
        if others := "; ".join(record.sentences[at].text for at in sorted(places - {place})):
            said = Statement(said.text, said.event, ": ".join(filter(None, [said.note, others])))
        words = set(LONG_WORD.findall(said.text.lower()))
        least_shared = (SAME_CHOICE * max(_FEW, len(words) / 2, min(len(words), len(other))) for other in known)
        is_known = said.text in told or any(len(words & x) >= y for x, y in zip(known, least_shared, strict=True))
        if not is_known and len(said.text) <= min(room, LONGEST_SENTENCE):
            room -= len(said.text) + _LINE
            known.append(words)
            chosen.append((place, kind, said))
            joined.update(places)
    return {kind: [said for _, each, said in sorted(chosen) if each == kind] for kind in KINDS}


def _join_items(record: Record, scores: Scores, place: int, told: str) -> set[int]:
    """The places of the items that share a line with one of the account of the work: the likeliest of its list."""
    seed, room, joined = record.sentences[place], LONGEST_SENTENCE, {place}
    for at, (_, kind) in sorted(enumerate(scores), key=lambda each: -each[1][0]):
        item = record.sentences[at]
        is_beside = item.is_item and (item.event, item.heading) == (seed.event, seed.heading)
        is_new = item.text not in told and is_telling(record, at, kind)
        if is_beside and is_new and at != place and len(item.text) <= room:
            joined.add(at)
            room -= len(item.text)
    return joined


def _find_accounts(record: Record) -> Mapping[int, float]:
    """The answers that are accounts of the work, with the probability above which their sentences are told."""
    near = (each for each in record.sentences if each.by == AGENT and each.event >= _NEAR_END * record.last_event)
    items = Counter(each.event for each in near if each.is_item)
    lists = sorted(event for event, count in items.items() if count >= _FEWEST_ITEMS)
    acts = [each for each in record.events if each.kind in ACTS and len(record.sentences) < BRIEF]
    ends = zip(acts, [*acts[1:], None], strict=False)
    said = [x for x, after in ends if x.kind == EventKind.ANSWER and (after is None or after.kind == EventKind.PROMPT)]
    busy = (x for x in said if record.turns[x.number] in record.changes_by_turn and x.text.strip()[-1:] != "?")
    cues = PATTERNS["changes"]["musing"], PATTERNS["decisions"]["exploring"]
    brief = [each.number for each in busy if not any(cue.search(each.text) for cue in cues)]
    return dict.fromkeys(lists[-1:], LEAST_BESIDE) | dict.fromkeys(brief, LEAST_BRIEF)


def is_telling(record: Record, place: int, kind: str) -> bool:
    """Whether a sentence may be told: it was not taken back, and is no option, ceremony or step that is done."""
    sentence = record.sentences[place]
    may_be_done = kind == "open" and not statements.is_left(sentence)
    table, cues = ("open_points", ("done", "argument")) if may_be_done else ("decisions", ("asks_to_choose",))
    is_empty = sentence.is_item and any(PATTERNS[table][each].search(sentence.heading) for each in cues)
    is_empty |= any(PATTERNS["changes"][each].search(sentence.text) for each in ("status", "ceremony"))
    is_empty |= kind == "open" and is_settled(record, sentence)
    return not (is_empty or sentence.by == SUMMARY or sentence.event in record.noted or record.is_withdrawn(sentence))


def is_settled(record: Record, point: Statement | Sentence) -> bool:
    """Whether a person later reports that an open point is done: "not deployed" by "deployed at two"."""
    cues, subjects = PATTERNS["open_points"], find_topics(point.text)
    undone = set(cues["undone"].findall(point.text.lower()))
    for said in record.sentences:
        is_work = said.by == AGENT and said.turn in record.changes_by_turn and cues["achieved"].match(said.text)
        if said.event <= point.event or not (said.by == USER or is_work) or said.text.endswith("?"):
            continue
        # After the last call a person tells how it went: "Charlotte ran the reversals".
        is_past = said.event > record.last_call and cues["past"].search(said.text)
        is_report = is_work or cues["over"].search(said.text) or (is_past and not statements.is_imperative(said.text))
        is_ahead = any(cues[each].search(said.text) for each in ("ahead", "lacks", "trouble", "puts_off", "theirs"))
        if is_report and not is_ahead:
            shared = len(subjects & find_topics(said.text))
            is_same = shared >= max(1 if len(subjects) <= _FEW_TOPICS else LEAST_SUBJECTS, _SETTLED * len(subjects))
            if is_same or undone & set(LONG_WORD.findall(said.text.lower())):
                return True
    return False


def add_context(record: Record, place: int, scores: Scores, told: str) -> Statement:
    """An item with its heading; or a sentence with those beside it that are worth telling or that it points to.

    None that is `told`. Of a person's reply these are all but questions, and it comes with what it replies to.
    """
    sentences, seed = record.sentences, record.sentences[place]
    if seed.is_item:
        label = seed.heading.rstrip(": ")
        return Statement(seed.text, seed.event, "" if PATTERNS["changes"]["no_label"].match(label) else label)
    is_reply = seed.by == USER and seed.turn > 1  # the first prompt is the task
    least = LEAST_BRIEF if len(sentences) < BRIEF else LEAST_BESIDE

    def belongs(at: int) -> bool:
        said, points = sentences[at], at < place and PATTERNS["open_points"]["pointing"].match(sentences[at + 1].text)
        is_worth = not said.text.endswith("?") if is_reply else scores[at][0] >= least
        return said.event == seed.event and not said.is_item and bool(points or (is_worth and said.text not in told))

    event, text = next(each for each in record.events if each.number == seed.event), seed.text
    for places, join in ((range(place + 1, len(sentences)), "{0} {1}"), (range(place - 1, -1, -1), "{1} {0}")):
        for at in takewhile(belongs, places):
            longer = join.format(text, sentences[at].text)
            if len(longer) > LONGEST_SENTENCE or not statements.contains_text(event, longer):  # a list may part them
                break
            text = longer
    answer = record.replies.get(seed.event, 0) if seed.by == USER else 0
    offer = record.quote_offer(answer, text) if answer else ""
    return Statement(text, seed.event, f"on (e{answer}): {offer}" if offer else "")


@cache
def load_weights() -> Mapping[str, Sequence[int]]:
    """What each feature, and `""` always, adds to the log odds, times 100, of being worth it and then of each kind."""
    return msgspec.json.decode(Path(__file__).with_suffix(".json").read_bytes(), type=dict[str, tuple[int, ...]])


def score_sentences(record: Record) -> Scores:
    """Of each sentence, in order, the probability that a successor needs it, and its likeliest kind: one for a list."""
    weights, lists = load_weights(), defaultdict[tuple[int, str], Counter[str]](Counter)
    worths, kinds = list[float](), list[Counter[str]]()
    for sentence, features in zip(record.sentences, describe_sentences(record), strict=True):
        worth, *odds = map(sum, zip(*filter(None, map(weights.get, ["", *features])), strict=True))
        worths.append(1 / (1 + math.exp(-worth / 100)))
        kinds.append(Counter(dict(zip(KINDS, odds, strict=True))))
        if sentence.is_item and sentence.heading:
            lists[sentence.event, sentence.heading].update(kinds[-1])
            kinds[-1] = lists[sentence.event, sentence.heading]
    found = list[tuple[float, str]]()
    for sentence, share, votes in zip(record.sentences, worths, kinds, strict=True):
        whole = f"{sentence.heading} {sentence.text}" if sentence.is_item else sentence.text
        # Open is only what is listed as such, or says what is not yet as it will be.
        is_open = any(PATTERNS["open_points"][each].search(whole) for each in ("lacks", "ahead"))
        is_left = sentence.by == AGENT and statements.is_left(sentence)
        likely = next(kind for kind, _ in votes.most_common() if is_open or kind != "open")
        found.append((share, "open" if is_left else likely))
    return found


def is_likely(record: Record, scores: Scores, claim: Statement) -> bool:
    """Whether a statement quotes a sentence that a successor may need; also if it quotes none, or none is scored."""
    said = ((x.text, worth) for x, (worth, _) in zip(record.sentences, scores, strict=False) if x.event == claim.event)
    quoted = (worth for text, worth in said if text in claim.text or claim.text in text)
    return max(quoted, default=1.0) >= LEAST_LIKELY


def rate_passages(record: Record, passages: Iterable[Passage]) -> Iterator[float]:
    """How much of what each passage quotes a successor needs: the mean probability of a character; 0 for calls."""
    said = defaultdict[int, list[tuple[str, float]]](list)
    for sentence, (worth, _) in zip(record.sentences, score_sentences(record), strict=True):
        said[sentence.event].append((sentence.text, worth))
    for each in passages:
        text = flatten(each.text)
        quoted = [(len(words), worth) for event in each.events for words, worth in said[event] if words in text]
        yield sum(length * worth for length, worth in quoted) / max(1, sum(length for length, _ in quoted))


def describe_sentences(record: Record) -> Iterator[set[str]]:
    """The features of each sentence: its words, how it begins, its heading, and where it stands."""
    acts = [each for each in record.events if each.kind in ACTS]
    numbers = [*map(attrgetter("number"), acts)]
    kinds = ("edit" if each.number in record.edit_events else each.tool or each.kind for each in acts)
    names = ["", *(f"{kind}{'!' * bool(each.failed)}" for kind, each in zip(kinds, acts, strict=True)), ""]
    lengths = Counter(map(attrgetter("event"), record.sentences))
    closing = {record.turns[each.number]: each.number for each in acts if each.kind == EventKind.ANSWER}
    last, edits = max(record.turns.values(), default=0), sorted(record.edit_events)
    near = zip([None, *record.sentences], record.sentences, [*record.sentences[1:], None], strict=False)
    for before, each, after in near:
        by, text = each.by[0], each.text[:LONGEST_SENTENCE]
        words = _split_words(text)
        following = _split_words(after.text[:_BEGIN])[:1] if after and after.event == each.event else []
        found = {f"{by}^{' '.join(words[:length])}" for length in range(1, _OPENING + 1)}
        found.update(words)
        found.update(map("#{}".format, _split_words(each.heading)[:_HEADING]))
        found |= {
            f"{by} after {names[bisect_left(numbers, each.event)]}",
            f"{by} before {names[bisect_right(numbers, each.event) + 1]}",
            f"{by} of {min(lengths[each.event], 12) // 3}",
            f"{by} long {min(len(words) // 6, 6)}",
            f"{by} ends {each.text[-1:]}",
            f"{by} in {int(math.log2(len(record.sentences) + 1))}",
            f"{by} edits {(each.event > edits[0]) + (each.event > edits[-1]) if edits else ''}",
            f"{by} at {min(int(5 * each.event / max(1, record.last_event)), 4)}",
            f"{by} then {''.join(following)}",
            f"{by} since {before.text[-1:] if before and before.event == each.event else ''}",
        }
        found |= {f"{by} {name}" for name, cue in _CUES if cue.search(text)}
        traits = {"closing": each.event == closing.get(each.turn), "item": each.is_item}
        traits |= {f"{by} busy": each.turn in record.changes_by_turn, f"{by} last": each.turn == last}
        yield found | {name for name, holds in traits.items() if holds}


def _split_words(text: str) -> list[str]:
    for name, pattern in _NAMES.items():  # every name in code counts as the same word
        text = pattern.sub(f" §{name} ", text)
    return _TOKEN.findall(text.replace("’", "'").lower())
