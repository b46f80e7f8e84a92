"""What was decided: choices that were stated, made in a client's dialog, agreed to or approved. Pure."""

import re
from collections.abc import Container, Iterator, Sequence
from itertools import groupby, pairwise
from operator import attrgetter, itemgetter

from scrimshaw.ingest.dialogs import ANSWERED, APPROVED
from scrimshaw.models import EventKind, RecordedEvent
from scrimshaw.session import statements
from scrimshaw.session.keywords import count_subjects, find_stems, is_clear
from scrimshaw.session.record import LONG_WORD, SAME_CHOICE, Record
from scrimshaw.session.sections import FEWEST_WORDS, NO_CHOICES
from scrimshaw.session.selection import Scores, is_likely
from scrimshaw.session.statements import AGREED, CHOSEN, LONGEST_SENTENCE, PATTERNS, USER, Sentence, Statement, cut_line

MOST_DECISIONS, LEAST_DECISIONS, _CALLS_PER_DECISION = 12, 4, 20
_UNDER_HEADING = 5.0  # the weight of a line under a heading "Decisions", or with that label
_BY_PLACE = 2.0  # the weight of a reply without a cue
_WEAK, _WEAK_UP_TO = 1.5, 2  # a step with one cue is only added if few choices were stated
_DECISION, _CHANGE, _OPEN = PATTERNS["decisions"], PATTERNS["changes"], PATTERNS["open_points"]
_EXPLICIT = ("explicit", "weighed")
_SHORT_REPLY = 80  # characters that may only be understood after what they reply to
_FEW_WORDS, _ANSWERS_BACK = 4, 3  # words of a reply that only names what was offered, in one of so many answers
_REPLY_WORD = re.compile(r"\w+")
_COUNTS = {"both": 2, "2": 2, "two": 2, "3": 3, "three": 3, "4": 4, "four": 4, "5": 5, "five": 5}
_ORDINALS = {"first": 0, "second": 1, "third": 2, "fourth": 3, "last": -1}


def find_decisions(record: Record, scores: Scores = ()) -> list[Statement]:
    """What a person chose in a dialog or agreed to, and the choices that were stated, in the order of events.

    A user's is a reply, a refusal, or a wish with an alternative ("use uv, not pip"); an agent's has an alternative or
    a reason ("I'll reuse the pool because ..."). At most 4 and one more per 20 calls count, 12 in all or of replies.
    A reply without a cue must be likely by the scores, if there are any: "Ciao for today!" is a reply as well.
    """
    most = min(MOST_DECISIONS, LEAST_DECISIONS + record.calls // _CALLS_PER_DECISION)
    chosen = _choose_places(record, most)
    agreed = [*_find_agreed(record)]
    told = set[int]()
    for each in agreed:  # an item names the prompt that agreed to it, a point of a reply is quoted from that
        told.update(map(int, re.findall(r" in e(\d+)", each.note)[:1] or [each.event]))
    found = list[Statement]()
    for place in chosen:
        each, by_place = _complete_choice(record, place, chosen), _weigh_decision(record, place) <= _BY_PLACE
        is_firm = record.sentences[place].by != USER or not by_place or is_likely(record, scores, each)
        found += [each] if is_firm and each.event not in told else []
    found = sorted(found, key=attrgetter("event"))[-2 * most :]
    return sorted([*_find_dialogs(record), *agreed, *found], key=attrgetter("event"))


def _choose_places(record: Record, most: int) -> list[int]:
    """The places of the sentences that look most like choices, in order; of similar ones the last counts."""
    chosen: dict[int, set[str]] = {}  # the words by the place of the sentence
    places = [place for place, each in enumerate(record.sentences) if not record.is_withdrawn(each)]
    weights = {place: _weigh_decision(record, place) for place in places}
    for place in sorted(filter(weights.__getitem__, places), key=lambda place: (-weights[place], -place)):
        sentence = record.sentences[place]
        room = MOST_DECISIONS if (is_reply := sentence.event in record.replies) else most  # few, short, quoted whole
        is_quoted = is_reply and any(record.sentences[at].event == sentence.event for at in chosen)
        if is_quoted or len(chosen) >= (room if weights[place] > _WEAK else min(room, _WEAK_UP_TO)):
            continue
        words = set(LONG_WORD.findall(sentence.text.lower()))
        similar = [at for at, x in chosen.items() if len(words & x) >= SAME_CHOICE * max(1, min(len(words), len(x)))]
        if place > max(similar, default=-1):
            chosen = {at: other for at, other in chosen.items() if at not in similar} | {place: words}
    return sorted(chosen)


def _complete_choice(record: Record, place: int, chosen: Container[int]) -> Statement:
    """A choice with what is said around it: by a person what fits, and what a few words reply to, by an agent why."""
    sentences, sentence = record.sentences, record.sentences[place]
    gives_reason = _DECISION["reason"].search(sentence.text) or place - 1 in chosen
    concludes = bool(_DECISION["concludes"].search(sentence.text))
    whole = ""
    if sentence.by == USER and sentence.turn > 1:  # the first prompt is the task
        wishes = _DECISION["asks_to_act"].match
        kinds = groupby(sentences, lambda each: (each.event, each.text.endswith("?") and not wishes(each.text)))
        runs = [tuple(run) for (event, is_question), run in kinds if event == sentence.event and not is_question]
        telling = [run for run in runs if sentence in run or any(is_clear(each.text, 1) for each in run)]
        around = telling[0] if sentence.event in record.replies else next(run for run in runs if sentence in run)
        while len(text := " ".join([each.text for each in around])) > LONGEST_SENTENCE and sentence in around[1:]:
            around = around[1:]
        events = (each for each in record.events if each.number == sentence.event)
        whole = text if any(statements.contains_text(each, text) for each in events) else ""
    elif concludes or not (gives_reason or sentence.by == USER):
        cause = _find_cause(sentences, place, whatever=concludes)
        whole = f"{cause.text} {sentence.text}" if cause else ""
    text = whole if 0 < len(whole) <= LONGEST_SENTENCE else sentence.text
    is_vague = len(text) < _SHORT_REPLY or _DECISION["points"].match(text)
    question = record.quote_offer(number := record.replies.get(sentence.event, 0) if is_vague else 0, text)
    options = record.quote_options(sentence.event, text) if sentence.by == USER else ""
    note = options or (f"on (e{number}): {question}" if question else "")
    taken = [each for each in sentences if each.turn == sentence.turn - 1 and each.turn in record.undoings]
    note = f"takes back (e{taken[0].event}): {cut_line(taken[0].text)}" if taken else note
    return Statement(text, sentence.event, note)


def _find_dialogs(record: Record) -> Iterator[Statement]:
    """What a person chose in a client's dialog, and the plan that was approved: its title and its approach."""
    for event in record.events:
        heading, _, text = event.text.partition("\n") if event.kind == EventKind.TOOL else ("", "", "")
        if heading == ANSWERED:
            yield from (Statement(line, event.number) for line in text.splitlines())
        elif heading == APPROVED and (plan := [*filter(None, map(statements.trim, text.splitlines()))]):
            approach = _DECISION["approach"].search(text)
            note = cut_line(" ".join(approach[1].split()) if approach else "; ".join(plan[1:]), LONGEST_SENTENCE)
            yield Statement(plan[0], event.number, f"plan approved: {note}".removesuffix(": "))


def _find_agreed(record: Record) -> Iterator[Statement]:
    """What the agent proposed or offered in an answer, if the person's next words agree or name one of several."""
    answers = list[RecordedEvent]()
    for answer, prompt in pairwise(record.events):
        said = record.sentences_by_answer.get(answer.number, ())
        answers = [*answers, answer][-_ANSWERS_BACK:] if said else answers
        if not (answers and statements.begins_turn(prompt)):
            continue
        listed = [*_find_listed(record, answers, prompt)]
        names_several = any(each.event == prompt.number and "; " in each.note for each in listed)
        found = [*_find_picks(answers, prompt, said)] if said and not names_several else []
        listed = [] if found else listed
        offered, answers = answers, [] if found or listed else answers  # what was chosen from is offered no more
        text = prompt.text.strip()
        reply = next(statements.split_paragraph(text, USER))
        asked = max((place for place, each in enumerate(said) if _DECISION["asks"].match(each.text)), default=-1)
        last = [each for each in said[max(0, asked - 1) : asked + 1] if is_clear(each.text, 1) and not each.is_item]
        echo = find_stems(reply.partition(" ")[2]) if len(reply.split()) < _FEW_WORDS else frozenset()  # "yes hide"
        if asked < 0 and echo and said and echo <= find_stems(said[-1].text):
            last = [each for each in said[-1:] if is_clear(each.text, 1)]
        elif asked < 0 and _DECISION["goes_ahead"].match(reply):
            cues = [_DECISION[cue].search for cue in ("proposes", "suggests", "alternative")]
            plain = (each for each in said if not each.is_item)
            proposals = (x for x in plain if statements.is_imperative(x.text) or any(cue(x.text) for cue in cues))
            last = [each for each in proposals if is_clear(each.text, 1)]
        if last and not listed and _DECISION["assent"].match(reply) and not _DECISION["routine"].search(last[-1].text):
            rest = text[reply.find(" but ") if " but " in reply else len(reply) :].strip()
            is_more = _DECISION["amends"].match(rest) or _DECISION["stance"].search(rest)
            added = f": {cut_line(' '.join(rest.split()), LONGEST_SENTENCE)}" if is_more else ""
            found.append(Statement(last[-1].text, answer.number, f"{AGREED}{prompt.number}{added}"))
        yield from found or listed or _find_named(record, offered, prompt)


def _find_picks(
    answers: Sequence[RecordedEvent], prompt: RecordedEvent, said: Sequence[Sentence]
) -> Iterator[Statement]:
    """The items of lists that a prompt replies to by number, or by letter also to an earlier answer; or a number."""
    answer = answers[-1]
    items = statements.list_options(answer.text)
    # "1. 404" answers a question, "1. add a test" begins a list
    points = [(x, at) for x, at, mark in _split_points(prompt.text, items) if mark != "." or items[at][-1][-1:] == "?"]
    if len(points) > 1:
        for text, number in points:
            if _DECISION["question"].search(text):
                continue
            offer = cut_line(statements.flatten(items[number][0]), LONGEST_SENTENCE)
            on = f"on (e{answer.number}): {offer}" if len(items[number]) == 1 else ""
            yield from [Statement(text, prompt.number, on)] if on or is_clear(text, 1) else ()
        return
    replies = [(_DECISION["pick"].match(each), each) for each in statements.split_paragraph(prompt.text.strip(), USER)]
    pick, words = min(filter(itemgetter(0), replies), key=lambda each: len(each[1]), default=(None, ""))
    number, _, _ = pick[1].lower().partition(" ") if pick else ("", "", "")
    if number in _ORDINALS:
        last = re.split(r" (?=[1a]\b)", " ".join(items))[-1].split()  # headings may be numbered as well
        number = "".join(last[_ORDINALS[number] :][:1])
    if number.isalpha() and number not in items:  # what was asked in between does not change what "B" names
        options = ((each, statements.list_options(each.text)) for each in reversed(answers))
        answer, items = next((each for each in options if number in each[1]), (answer, items))
    is_named = number.isdigit() and not (pick and pick[2] and pick[2].startswith(","))  # "23, that's a lot"
    named = [x.text for x in said if is_named and re.search(rf"(?<![\w.]){number}(?!\w|\.\d)", x.text)]
    if pick and (picked := items.get(number, ()) if items else named):
        more = " ".join(prompt.text.replace(words, (pick[2] or "").lstrip(" ,.)"), 1).strip(" ,.)\n").split())
        added = f": {cut_line(more, LONGEST_SENTENCE)}" if more else ""
        yield Statement(picked[-1].partition(":\n")[0], answer.number, f"{CHOSEN}{prompt.number}{added}")


def _find_listed(record: Record, answers: Sequence[RecordedEvent], prompt: RecordedEvent) -> Iterator[Statement]:
    """What a prompt begins with of a list that was offered, whatever it goes on to say: "B, but not before May"."""
    text = " ".join(prompt.text.split())
    if not (begin := _DECISION["begins_with"].match(text)):
        return
    count = _COUNTS.get((begin[2] or "").lower())  # "both", "all 4"
    names = [] if count else _DECISION["designator"].findall(begin[1].lower())
    for answer in reversed(answers if names and names[0].isalpha() and names[0] not in _ORDINALS else answers[-1:]):
        items, listed = statements.list_options(answer.text), _list_offers(record, answer)
        at_place = {name: listed[place:][:1] for name, place in _ORDINALS.items()}
        picked = (items.get(each) or at_place.get(each, ()) for each in names)
        found = statements.find_last_list(answer.text) if count else [x for each in picked for x in each[-1:]]
        if max(len(items), len(listed), len(found)) < 2 or len(found) != (count or len(names)):
            continue
        rest = text[begin.end() :]
        is_comment = rest.startswith((":", " is ", " are "))  # "1: not only those"
        if len(found) == 1 and not (is_comment or found[0].endswith("?")):
            rest = cut_line(rest.lstrip(" ,.;)!-"), LONGEST_SENTENCE)
            offered = cut_line(found[0], LONGEST_SENTENCE)
            yield Statement(offered, answer.number, f"{CHOSEN}{prompt.number}{rest and f': {rest}'}")
        elif len(text) <= LONGEST_SENTENCE:
            named = dict.fromkeys([*names, *(number for _, number, _ in _split_points(prompt.text, items))])
            whole = [f"{each.upper()}: {items[each][-1]}" for each in named if each in items and found[1:]] or found
            yield Statement(
                text, prompt.number, f"on (e{answer.number}): {cut_line('; '.join(whole), LONGEST_SENTENCE)}"
            )
        return


def _find_named(record: Record, answers: Sequence[RecordedEvent], prompt: RecordedEvent) -> Iterator[Statement]:
    """What a prompt of a few words names of what was offered: an item of the last list, or a side of an "or" before."""
    lines = prompt.text.strip().splitlines() or [""]
    reply, *rest = map(str.strip, (each for line in lines for each in statements.split_paragraph(line, USER)))
    words = {*_REPLY_WORD.findall(reply.casefold())}
    cues = (_DECISION[cue].match for cue in ("assent", "refusal", "question"))
    if not 0 < len(words) <= _FEW_WORDS or "?" in reply or any(cue(reply) for cue in cues):
        return
    items = [] if _DECISION["routine"].search(reply) else _list_offers(record, answers[-1])
    chosen = [each for each in items if words <= {*_REPLY_WORD.findall(each.casefold())}]
    if len(items) > 1 and len(chosen) == 1 and not chosen[0].endswith("?"):
        added = f": {cut_line(' '.join(rest), LONGEST_SENTENCE)}" if rest else ""
        yield Statement(cut_line(chosen[0], LONGEST_SENTENCE), answers[-1].number, f"{CHOSEN}{prompt.number}{added}")
        return
    asked = (x for y in answers for x in record.sentences if x.event == y.number and _DECISION["sides"].search(x.text))
    named = [each for each in asked if words <= {*_REPLY_WORD.findall(each.text.casefold())}]
    yield from (Statement(" ".join([reply, *rest]), prompt.number, f"on (e{x.event}): {x.text}") for x in named[-1:])


def _list_offers(record: Record, answer: RecordedEvent) -> Sequence[str]:
    """The items of an answer's last list, if it is one to choose from: a report lists what was done."""
    listed = [x.heading for x in record.sentences if x.event == answer.number and x.is_item]
    offers = statements.is_reply(answer.text, "") or any(map(_DECISION["asks_to_choose"].search, listed[-1:]))
    return statements.find_last_list(answer.text) if offers else ()


def _split_points(text: str, items: Container[str]) -> Iterator[tuple[str, str, str]]:
    """The parts of a reply that begin with an item's number, with that and the mark after it; "25 / min 5" is none."""
    found, last = dict[str, tuple[int, int, str]](), ""
    for each in _DECISION["point"].finditer(text):
        if each[2] in items and each[2] not in found:
            found[last := each[2]] = *each.span(), each[3]
        elif last and "\n" not in text[found[last][1] : each.start()]:
            found[last] = found[last][0], each.end(), found[last][2]
    return ((text[begin:end], number, mark) for number, (begin, end, mark) in found.items())


def _weigh_decision(record: Record, place: int) -> float:
    """How much a sentence looks like a choice; 0 if it does not."""
    sentence, text = record.sentences[place], record.sentences[place].text
    text = _DECISION["halt"].sub("", text) if sentence.by == USER else text
    takes_up = find_stems(text) if sentence.by == USER and _DECISION["takes_up"].match(text) else frozenset()
    takes_up &= find_stems(" ".join([x.text for x in record.answers if takes_up and x.turn == sentence.turn - 1]))
    fewest = 2 if takes_up else FEWEST_WORDS - (sentence.by == USER)  # "go with uv"
    kinds = record.prompts_by_kind
    is_refusal = record.replies.get(sentence.event) in record.refusals or sentence.event in kinds["declines"]
    concludes = sentence.place and _DECISION["stance"].search(text)  # from what is before: "so we pass to 5"
    tells = is_clear(text, 1) or (sentence.by == USER and (count_subjects(text) >= fewest or concludes or is_refusal))
    is_fit = len(text) <= LONGEST_SENTENCE and len(text.split()) >= fewest and tells
    vague = NO_CHOICES[:2] if _DECISION["weighed"].search(text) else NO_CHOICES
    asks = sentence.by == USER and _DECISION["question"].search(text)
    if not is_fit or asks or any(_DECISION[name].search(text) for name in vague):
        return 0.0
    if _DECISION["heading"].search(sentence.heading) or _DECISION["label"].match(text):
        return _UNDER_HEADING
    if sentence.by != USER:
        return _weigh_agents(record, place)
    wish, explicit = bool(_DECISION["wish"].search(text)), any(_DECISION[cue].search(text) for cue in _EXPLICIT)
    refuses = bool(sentence.place and _DECISION["refusal"].match(text))  # "... No, let's throw it away."
    objects = bool(refuses or record.withdrawn.get(sentence.turn - 1) or _DECISION["objection"].search(text))
    alternative = bool(_DECISION["alternative"].search(text)) or (wish and objects)
    changes_mind = sentence.turn - 1 in record.withdrawn and not _DECISION["refusal"].search(text)
    leaves = _OPEN["leaves"].search(text) or _OPEN["deferred"].search(text)
    is_reply = not leaves and sentence.event in record.replies.keys() - kinds["looks"] - kinds["undecided"]
    undoes = sentence is record.undoings.get(sentence.turn - 1) and _DECISION["withdrawal_of_all"].sub("", text)
    insists = bool(takes_up or _DECISION["stance"].search(text))
    is_choice = (
        explicit
        or (is_reply and not _DECISION["takes_back"].search(text))
        or (undoes and is_clear(undoes, 1))
        or ((wish or changes_mind) and alternative)
        or (objects and sentence.event in record.interruptions)
        or insists
    )
    is_sure = insists + (sentence.event in kinds["declines"]) + bool(_DECISION["reason"].search(text))
    return 2.0 + 2 * explicit + alternative + is_sure if is_choice else 0.0


def _weigh_agents(record: Record, place: int) -> float:
    sentence, text = record.sentences[place], record.sentences[place].text
    explicit = any(_DECISION[cue].search(text) for cue in _EXPLICIT)
    alternative = bool(_DECISION["alternative"].search(text))
    is_plan = _DECISION["planned"].search(text) and sentence.event not in record.carried_out
    is_report = _CHANGE["result"].search(text) and not explicit
    is_own = _DECISION["agency"].search(text) or _DECISION["weighed"].search(text)
    if is_plan or is_report or not is_own or _DECISION["explains"].search(sentence.heading):
        return 0.0
    acts = bool(_DECISION["act"].search(_DECISION["code"].sub(" ", text))) and not text.endswith(":")
    reason = bool(_DECISION["reason"].search(text)) or _find_cause(record.sentences, place) is not None
    chooses = (alternative and _DECISION["intent"].search(text)) or (acts and (alternative or reason))
    is_met = sentence.event in record.carried_out and _DECISION["takes"].match(text)
    chooses = chooses or bool(is_met and _DECISION["reason"].search(text))
    return 2 * explicit + 1.5 * alternative + reason if explicit or chooses else 0.0


def _find_cause(sentences: Sequence[Sentence], place: int, *, whatever: bool = False) -> Sentence | None:
    """The sentence just before, if it says what was wrong, or `whatever` it says."""
    before = sentences[max(0, place - 1)]
    is_near = place > 0 and before.event == sentences[place].event and not before.is_item
    is_trouble = is_near and is_clear(before.text, 1) and (whatever or _DECISION["trouble"].search(before.text))
    return before if is_trouble and not any(_DECISION[name].search(before.text) for name in NO_CHOICES) else None
