"""The record of a session: what is derived from its events, and its passages for the index. Pure.

A passage has a few sentences of what was said, or a line per call.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import accumulate, chain, filterfalse, groupby, pairwise
from operator import attrgetter

from msgspec import Struct

from scrimshaw.ingest.comparison import find_break
from scrimshaw.ingest.tool_calls import LOOKS, parse_command
from scrimshaw.models import EventKind, Item, RecordedEvent, Trust
from scrimshaw.session import failures, statements
from scrimshaw.session.failures import Failure
from scrimshaw.session.keywords import LEAST_SUBJECTS, find_stems, is_clear
from scrimshaw.session.statements import AGENT, LONGEST_SENTENCE, PATTERNS, USER, Sentence, Statement, cut_line

ACTS = (EventKind.PROMPT, EventKind.TOOL, EventKind.ANSWER)
SAME_CHOICE = 0.6  # share of common words above which two sentences are about one choice
LONG_WORD = re.compile(r"\w{3,}")
_OF_CONTRADICTION = find_stems("wrong false incorrect nonsense true right correct falsch")
_SHORT = 8  # words of a request to undo everything
_DECISION, _CHANGE, _OPEN = PATTERNS["decisions"], PATTERNS["changes"], PATTERNS["open_points"]
_NEED, _REMEDY, _TEST = PATTERNS["requests"]["need"], PATTERNS["failures"]["remedy"], PATTERNS["commands"]["test"]
_NOT_PROSE = PATTERNS["statements"]["not_prose"]

# Measured on recorded sessions: 450 and 900 characters answer fewer questions for the same tokens.
PASSAGE_CHARACTERS = 600
PROMPT_CHARACTERS = 120  # of the prompt that a passage follows, embedded before it
LINE_CHARACTERS, ERROR_LINES = 200, 3  # of a call, its result line and each line of its error
_SILENT_TOOLS = ("Read", "Grep", "Glob", "TodoWrite", "TaskCreate", "TaskUpdate", "TaskOutput")
_TELLING_TOOLS = ("Ask", "Plan", "Agent", "ReportFindings")  # what they show or report is recorded whole
_ERROR = re.compile(r"(?i)\b(?:\w*(?:error|exception)|fail(?:ed|ure)?|fatal|cannot|denied|not found|traceback)\b")


class Record:
    """A session's events and items, in order, and what is derived from them, most of it on demand."""

    def __init__(self, events: Sequence[RecordedEvent], items: Sequence[Item], most: int | None = None) -> None:
        """Only the last `most` events are searched for the agent's words."""
        events = statements.leave_out_repeats(events, keeps_last=True)  # it tells that the turn ended
        self.events, self.items, self._most = events, items, most or len(events)
        self.edits = failures.find_edits(events, items)  #: the numbers of the events that changed each file
        self.runs = failures.find_runs(events, items)  #: the commands, in order
        self.commits = failures.find_commits(events)  #: by subject
        self.calls = [*map(attrgetter("kind"), events)].count(EventKind.TOOL)
        acts = (each.number for each in reversed(events) if each.kind in ACTS)
        self.last_event = next(acts, events[-1].number if events else 0)

    @cached_property
    def sentences(self) -> Sequence[Sentence]:
        """What was said."""
        asked = [event for event in self.events[: -self._most] if event.kind in (EventKind.PROMPT, EventKind.COMPACT)]
        return statements.split_sentences([*asked, *self.events[-self._most :]])

    @cached_property
    def user_words(self) -> frozenset[str]:
        """The longer words that users said."""
        said = " ".join([each.text for each in self.sentences if each.by == USER])
        return frozenset(LONG_WORD.findall(said.lower()))

    @cached_property
    def failures(self) -> Sequence[Failure]:
        """The failures, with what was done about them."""
        return [*failures.find_failures(self.events, self.items, self.runs, self.edits)]

    @cached_property
    def test_runs(self) -> Sequence[Statement]:
        """The last runs of tests."""
        return failures.find_test_runs(self.runs, self.edits, self.sentences)

    @cached_property
    def checks(self) -> Sequence[Statement]:
        """The last runs of scripts since the last lasting change, and whether code was changed without a test run."""
        found = failures.find_checks(self.runs, since=max(self.edit_events, default=0))
        is_tested = any(map(_TEST.search, chain.from_iterable(map(attrgetter("families"), self.runs))))
        edits = [each for each in self.events if each.number in self.edit_events and each.tool != "Write"]
        code = [each for each in edits if each.path.rpartition(".")[2] in statements.LANGUAGES and not is_tested]
        untried = [Statement(each.path.rpartition("/")[2], each.number, "no test run was seen") for each in code[-1:]]
        return [*found, *(each for each in untried if each.text not in "".join(map(attrgetter("text"), found)))]

    @cached_property
    def difference(self) -> RecordedEvent | None:
        """The last diff that git showed."""
        return next((event for event in reversed(self.events) if "\ndiff --git " in event.text), None)

    @cached_property
    def undoings(self) -> Mapping[int, Sentence]:
        """The turns of which a person wants to keep nothing, with what they said directly afterwards."""
        found, is_request = dict[int, Sentence](), _DECISION["asks_to_act"].match
        for each in (one for one in self.sentences if one.by == USER):
            if _DECISION["withdrawal_of_all"].search(each.text) and (each.text[-1] != "?" or is_request(each.text)):
                found[each.turn - 1] = each
        return found

    @cached_property
    def withdrawn(self) -> Mapping[int, frozenset[str]]:
        """The stems of what a person refused directly afterwards, by turn; none for a turn that was undone."""
        found, texts = dict[int, frozenset[str]](), {each.number: each.text for each in self.events}
        for each in (one for one in self.sentences if one.by == USER):
            if _DECISION["refusal"].search(texts[each.event]) and not each.place:  # "no." alone is no sentence
                found[each.turn - 1] = find_stems(each.text)
            elif _DECISION["contradicts"].search(each.text):
                found[each.turn - 1] = find_stems(texts[each.event]) - _OF_CONTRADICTION
            if len(each.text.split()) < _SHORT and _DECISION["withdrawal"].search(each.text):
                found[each.turn - 1] = frozenset()
        return found | dict.fromkeys(self.undoings, frozenset())

    def is_withdrawn(self, said: Sentence) -> bool:
        """Whether the other's next words take it back, a person all of a turn, or the agent's own words a guess."""
        for stems in (self.withdrawn.get(said.turn), self.corrections.get(said.event)):
            if stems is not None and (not stems or stems & find_stems(said.text)):
                return said.by == AGENT or said.turn in self.undoings
        return said in self.vetoes

    @cached_property
    def refusals(self) -> frozenset[int]:
        """The answers that end with what the person's next words refuse, or as the agent then concedes, correct."""
        refusing = {x.number for x in self.events if x.number in self.replies and _DECISION["refusal"].match(x.text)}
        return frozenset([at for prompt, at in self.replies.items() if at in self.corrections or prompt in refusing])

    @cached_property
    def vetoes(self) -> Sequence[Sentence]:
        """The proposals at the end of answers whose reply is no yes; one that names what it refuses is `withdrawn`."""
        heard = {number: [*said] for number, said in groupby(self.sentences, attrgetter("event"))}
        found = list[Sentence]()
        for reply in self.events:
            text, said = reply.text, heard.get(self.replies.get(reply.number, 0), [])
            accepts = _agrees(text) or _DECISION["ends_discussion"].match(text) or statements.is_imperative(text)
            names = any(self.withdrawn.get(each.turn, frozenset()) & find_stems(each.text) for each in said)
            if said and _DECISION["declines"].match(text):
                found += [*(x for x in said[:-1] if said[-1].is_item and x.heading == said[-1].heading), said[-1]]
            elif said and not (accepts or names) and _DECISION["proposes"].search(said[-1].text):
                found.append(said[-1])
        return found

    @cached_property
    def corrections(self) -> Mapping[int, frozenset[str]]:
        """The stems of an objection that the agent concedes, or of its guess that was wrong, by the answer it met."""
        found, answer, prompts = dict[int, frozenset[str]](), 0, list[str]()
        for event in self.events:
            if statements.begins_turn(event):
                prompts.append(event.text)
            elif event.kind == EventKind.ANSWER:
                begin = next(statements.split_paragraph(event.text))
                if answer and prompts and not _agrees(prompts[-1]) and _DECISION["concedes"].match(begin):
                    found[answer] = find_stems(" ".join([*prompts, begin]))
                answer, prompts = event.number, []
        return {**self.guesses, **found}

    @cached_property
    def guesses(self) -> Mapping[int, frozenset[str]]:
        """The stems of what the next answer begins by calling wrong ("that's not it"), by the number of the answer."""
        found = dict[int, frozenset[str]]()
        for before, after in pairwise([event for event in self.events if event.kind == EventKind.ANSWER]):
            begin, *more = statements.split_paragraph(after.text)
            is_answered = self.turns[before.number] == self.turns[after.number] and _DECISION["denies"].match(begin)
            if is_answered or _DECISION["retracts"].search(begin):
                found[before.number] = find_stems(" ".join([begin, *more[: len(begin.split()) < _SHORT]]))
        return found

    @cached_property
    def turns(self) -> Mapping[int, int]:
        """The turn of each event: how many prompts there were up to it."""
        turns = accumulate(map(statements.begins_turn, self.events))
        return dict(zip(map(attrgetter("number"), self.events), turns, strict=True))

    @cached_property
    def edit_events(self) -> frozenset[int]:
        """The events that changed a file, other than a scratch file, and were not reverted."""
        lasting = filterfalse(_CHANGE["scratch"].search, self.edits)
        return frozenset(chain.from_iterable(map(self.edits.__getitem__, lasting)))

    @cached_property
    def changes_by_turn(self) -> Mapping[int, str]:
        """The text of the edits in each turn that changed a file or ran a command that changes something."""
        found = defaultdict[int, str](str)
        for event in self.events:
            command = "" if event.failed else event.command
            attempts = event.tool in ("Edit", "Write") and not (event.failed or _CHANGE["scratch"].search(event.path))
            if event.number in self.edit_events or attempts or _CHANGE["act"].search(command):
                found[self.turns[event.number]] += f"{event.text}\n"
        return found

    @cached_property
    def last_work(self) -> int:
        """The last turn that changed something and not only committed or pushed it; -1 if none did."""
        last = max(map(self.turns.__getitem__, self.edit_events), default=-1)
        for turn, text in self.changes_by_turn.items():
            if not _OPEN["records"].match(text):
                last = max(last, turn)
        return last

    @cached_property
    def last_call(self) -> int:
        """The number of the last call; 0 if there is none."""
        return max((each.number for each in self.events if each.kind == EventKind.TOOL), default=0)

    @cached_property
    def carried_out(self) -> Mapping[int, RecordedEvent]:
        """The lasting change that follows each answer after at most some reading and a person's answer, by answer."""
        found, answers, proposals = dict[int, RecordedEvent](), list[RecordedEvent](), list[RecordedEvent]()
        for event in self.events:
            command = "" if event.failed else event.command
            if event.kind == EventKind.ANSWER:
                answers = [event]
            elif event.kind == EventKind.PROMPT:
                is_reply = event.number in self.replies
                proposals = [x for x in answers if (is_reply or "?" in x.text) and x.number not in self.refusals]
                answers = []
            elif event.number in self.edit_events or _REMEDY.search(command) or _CHANGE["act"].search(command):
                found |= {each.number: event for each in (*proposals, *answers)}
                answers, proposals = [], []
            elif not event.path:
                answers = []
        return found

    @cached_property
    def noted(self) -> frozenset[int]:
        """The answers that only take note: the short ones of turns without a call."""
        busy = {self.turns[each.number] for each in self.events if each.kind == EventKind.TOOL}
        said = [each for each in self.events if each.kind != EventKind.PROMPT and _OPEN["noted"].match(each.text)]
        return frozenset(each.number for each in said if self.turns[each.number] not in busy)

    @cached_property
    def prompts_by_kind(self) -> Mapping[str, Set[int]]:
        """The prompts with a sentence that asks, states, declines, wants to look, or only takes leave, or undecided."""
        found = defaultdict[str, set[int]](set)
        for each in self.sentences:
            text = each.text
            if each.by != USER:
                continue
            found["looks" if _DECISION["asks_to_look"].search(text) else "rest"].add(each.event)
            found["rest" if each.place or not _DECISION["declines"].match(text) else "declines"].add(each.event)
            settles = "settled" if not each.place and _DECISION["assent"].match(text) else "rest"
            found["undecided" if _DECISION["undecided"].search(text) else settles].add(each.event)
            asks = "?" in text or statements.is_imperative(text) or _NEED.search(text)
            puts_off = _OPEN["puts_off"].search(text) and not is_clear(text)
            leaves = puts_off or _OPEN["leaves"].search(text) or _OPEN["thanks"].match(text)
            found["asks" if asks else "leaves" if leaves else "states" if is_clear(text, 1) else "rest"].add(each.event)
        found["leaves"] -= found["asks"] | found["states"]
        found["undecided"] -= found["settled"]
        found["partings"] = found["leaves"] | (found["states"] - found["asks"])  # these expect nothing
        for event in filter(statements.begins_turn, self.events):
            if "?" not in event.text and _OPEN["thanking"].search(event.text):  # "plan B is good, thanks"
                found["partings"].add(event.number)
        return found

    def quote_offer(self, answer: int, reply: str = "") -> str:
        """The list or sentence that an answer last offers, asks or else says; not if a clear reply is about another."""
        said = [each for each in self.sentences if each.event == answer]
        cues = (_DECISION["asks_to_choose"], _DECISION["proposes"])
        offers = [place for place, each in enumerate(said, start=1) if any(cue.search(each.text) for cue in cues)]
        asked, words = [place for place in offers if said[place - 1].text.endswith("?")], find_stems(reply)
        if len(asked) > 1 and asked[-1] == offers[-1]:  # of several questions the one that the reply is about
            offers = [max(asked, key=lambda place: (len(words & find_stems(said[place - 1].text)), place))]
        said = said[: max(offers, default=len(said))]
        said = [each for each in said if each.is_item == said[-1].is_item]
        if said and said[-1].is_item:
            said = [each for each in said if each.heading == said[-1].heading]
            return cut_line(statements.join_sentences(said), LONGEST_SENTENCE)
        is_continued = said[:-1] and said[-2].place + 1 == said[-1].place and not is_clear(said[-1].text)
        quote = cut_line(" ".join([each.text for each in said[-2 if is_continued else -1 :]]), LONGEST_SENTENCE)
        # An answer that asks or offers something has any words as its reply.
        awaits = any(statements.is_reply(each.text, "") for each in self.events if each.number == answer)
        is_about = awaits or answer in self.refusals or find_stems(reply) & find_stems(quote)
        return quote if is_about or not is_clear(reply, LEAST_SUBJECTS + 1) else ""

    def quote_options(self, prompt: int, reply: str) -> str:
        """The options of the answer before a prompt that a reply names: "not A, so B", with its number, or nothing."""
        names = {(number or letter).lower() for number, letter in _DECISION["option"].findall(reply)}
        answers = (each for each in reversed(self.events) if each.number < prompt and each.kind == EventKind.ANSWER)
        answer = next(answers, None)
        items = statements.list_options(answer.text) if names and answer else {}
        found = statements.flatten("; ".join(f"{name.upper()}: {items[name][-1]}" for name in sorted(names & {*items})))
        return f"on (e{answer.number}): {cut_line(found, LONGEST_SENTENCE)}" if found and answer else ""

    @cached_property
    def interruptions(self) -> frozenset[int]:
        """The prompts that come while the agent works, right after a call."""
        return frozenset([y.number for x, y in pairwise(self.events) if x.tool and statements.begins_turn(y)])

    @cached_property
    def replies(self) -> Mapping[int, int]:
        """The answer before each short prompt that refuses, answers a choice or proposal, or concludes; 0 if none."""
        found, number, said, asked = dict[int, int](), 0, "", False
        for event in self.events:
            if event.kind == EventKind.ANSWER:
                number, said = event.number, event.text
            elif event.tool in ("Edit", "Write"):
                asked = False
            elif statements.begins_turn(event):
                discusses = asked or event.number in self.prompts_by_kind["states"]
                ends = said[-1:] not in ("", "?") and discusses and _DECISION["ends_discussion"].match(event.text)
                concludes = ends and event.number not in self.prompts_by_kind["leaves"]
                if len(event.text) <= LONGEST_SENTENCE and (concludes or statements.is_reply(said, event.text)):
                    found[event.number] = number
                number, said, asked = 0, "", "?" in event.text
        return found

    @cached_property
    def answers(self) -> Sequence[Sentence]:
        """What the agent said, and the person did not take back, except that it takes note."""
        return [x for x in self.sentences if x.by == AGENT and x.event not in self.noted and not self.is_withdrawn(x)]

    @cached_property
    def sentences_by_answer(self) -> Mapping[int, Sequence[Sentence]]:
        """The same by the number of the answer."""
        return {number: [*said] for number, said in groupby(self.answers, attrgetter("event"))}


def _agrees(reply: str) -> bool:
    begin = next(statements.split_paragraph(reply, USER))  # a question may follow
    return bool(any(_DECISION[cue].match(reply) for cue in ("assent", "pick")) or _DECISION["goes_ahead"].match(begin))


class Passage(Struct):
    """A part of a session's record: of events that follow each other, or a piece of a long one."""

    event: int  #: the number of the event where it begins
    part: int  #: counts from 1 among the passages that begin in this event
    events: list[int]
    text: str
    prompt: str  #: the head of the prompt that it answers; empty where it begins with one
    at: float  #: time of its last event, seconds since 1970
    trust: Trust

    @property
    def anchor(self) -> str:
        """Its name within the session: `e12`, and `e12.2` for the second that begins there."""
        return f"e{self.event}" if self.part == 1 else f"e{self.event}.{self.part}"


def make_passages(events: Iterable[RecordedEvent]) -> list[Passage]:
    """The passages of a session in order; a prompt, a start or another trust begins a new one, as a pasted log has."""
    made, last, prompt, answer = list[Passage](), dict[bool, Passage](), "", ""
    for event in statements.leave_out_repeats(events):
        trust, text = _describe_event(event)
        if event.kind is EventKind.ANSWER:
            answer = text
        prompt = prompt if event.kind is not EventKind.PROMPT else ""  # it may be about something else
        stream = event.kind is EventKind.TOOL
        if event.kind in (EventKind.PROMPT, EventKind.START, EventKind.COMPACT):  # no passage spans them
            said = last.get(False)
            if said and event.kind is EventKind.PROMPT and statements.is_reply(answer, event.text):
                # whoever finds what was proposed has to learn what was decided
                said.text += f"\n> {cut_line(' '.join(event.text.split()))}"
            last.clear()
        for number, piece in enumerate(_cut(text), start=1):
            lines = piece.splitlines() if event.kind is EventKind.PROMPT and number > 1 else ()
            own = Trust.TOOL if 2 * len([*filter(_NOT_PROSE.match, lines)]) > len(lines) else trust
            before = last.get(stream)
            if before and before.trust == own and len(before.text) + len(piece) < PASSAGE_CHARACTERS:
                before.text, before.at = f"{before.text}\n{piece}", event.at
                before.events.append(event.number)
                continue
            last[stream] = Passage(event.number, number, [event.number], piece, prompt, event.at, own)
            made.append(last[stream])
        prompt = " ".join(event.text.split())[:PROMPT_CHARACTERS] if event.kind is EventKind.PROMPT else prompt
    return made


def name_edited_files(events: Iterable[RecordedEvent]) -> tuple[str, ...]:
    """The files that a session edited, without scratch files, by folder and name: the same in all work trees."""
    edited = {each.path for each in events if each.path and each.tool in ("Edit", "Write")}
    return tuple(sorted({"/".join(path.split("/")[-2:]) for path in edited if not _CHANGE["scratch"].search(path)}))


def find_passage(passages: Sequence[Passage], anchor: str) -> int | None:
    """The index of the passage with this anchor, else of the one with its event, before it, or the first of all."""
    named = (place for place, each in enumerate(passages) if each.anchor == anchor)
    number = int(re.sub(r"\D.*", "", anchor[1:]) or 0)
    holding = (place for place, each in enumerate(passages) if number in each.events)
    before = (place for place in reversed(range(len(passages))) if passages[place].event <= number)
    return next(chain(named, holding, before), 0 if passages else None)  # a start is in no passage


def _describe_event(event: RecordedEvent) -> tuple[Trust, str]:
    """The trust and the text that an event adds to the record; the text is empty if it proves nothing."""
    match event.kind:
        case EventKind.PROMPT if not _OPEN["thanks"].match(event.text):  # they would be found by the prompt before
            return Trust.AGENT, f"> {event.text.strip()}" if event.text.strip() else ""
        case EventKind.ANSWER | EventKind.STOP | EventKind.COMPACT:
            return Trust.AGENT, event.text
        case EventKind.TOOL if event.tool not in _SILENT_TOOLS or event.failed:
            return Trust.WEB if event.tool == "Web" else Trust.TOOL, _describe_call(event)
    return Trust.TOOL, ""


def _describe_call(event: RecordedEvent) -> str:
    """A call and its result line; for a failed one its error."""
    if event.command and not event.failed and parse_command(event.command).name in LOOKS:
        return ""
    output = event.text.partition("\n")[2]
    lines = [" ".join(line.split())[:LINE_CHARACTERS] for line in output.splitlines() if line.strip()]
    if event.failed:
        errors = [line for line in lines if _ERROR.search(line)] or lines
        shown = [f"failed: {line}" for line in errors[-ERROR_LINES:]] or ["failed"]
    else:
        shown = [output.strip()] if event.tool in _TELLING_TOOLS else lines[-1:] if event.tool == "Bash" else []
    return "\n".join([f"{event.tool}: {event.input.strip()[: 2 * LINE_CHARACTERS]}", *shown])


def _cut(text: str) -> Iterator[str]:
    """The text in pieces of at most PASSAGE_CHARACTERS, cut between paragraphs, lines, sentences or words."""
    rest = text.strip()
    while len(rest) > PASSAGE_CHARACTERS:
        place = find_break(rest, PASSAGE_CHARACTERS // 2, PASSAGE_CHARACTERS)
        yield rest[:place].strip()
        rest = rest[place:].strip()
    if rest:
        yield rest
