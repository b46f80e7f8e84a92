"""The state of a session's work, for the session that continues it: asked, next, open, decided, changed, tested.

Every line names the event or the item it comes from, and nothing is included that a later event contradicts.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from functools import partial
from itertools import chain, filterfalse, islice
from operator import attrgetter, itemgetter
from pathlib import Path

from msgspec.structs import replace

from scrimshaw.ingest.instructions import is_suspicious
from scrimshaw.ingest.redact import redact
from scrimshaw.ingest.tool_calls import is_own_tool
from scrimshaw.models import (
    RECORD,
    EventKind,
    Filters,
    Item,
    ItemKind,
    Memory,
    MemoryType,
    RecordedEvent,
    Session,
    SessionState,
    Trust,
    format_time,
)
from scrimshaw.search.periods import Period, find_period
from scrimshaw.search.results import StateLine
from scrimshaw.search.tokens import count_shared
from scrimshaw.session import sections, statements
from scrimshaw.session.arrivals import (
    MOST_ARRIVED,
    Arrival,
    find_rules,
    list_arrivals,
    name_place,
    read_arrivals,
    read_lines,
)
from scrimshaw.session.decisions import find_decisions
from scrimshaw.session.draft import find_task
from scrimshaw.session.failures import find_runs
from scrimshaw.session.keywords import LEAST_SUBJECTS, count_subjects, find_stems, find_topics
from scrimshaw.session.record import Record
from scrimshaw.session.resume import (
    WITHHELD,
    Occasion,
    asks_only_for_session,
    find_asked,
    find_asked_days,
    shorten_origins,
)
from scrimshaw.session.statements import Statement
from scrimshaw.storage.index import Index
from scrimshaw.storage.place import is_removed
from scrimshaw.storage.ports import Query, SessionRecord
from scrimshaw.storage.sessions import Sessions, is_running

# Characters of a line, of a decision's note, of the last words, and of the shortest useful line at a budget's end.
LONGEST_TEXT, LONGEST_NOTE, LONGEST_WORDS, SHORTEST_CUT = 400, 120, 650, 80
MOST_LAST_ANSWERS = 10  # last answers to look for telling ones in
LONGEST_HEARD = 4_000  # characters of a text in which the subjects of earlier points are looked for
MOST_HEARD = 120  # last events whose agent texts are read: a start must take only milliseconds
MOST_EMPTY, MOST_PARALLEL, MOST_EARLIER = 20, 2, 12  # sessions
MOST_PLANNED = 2  # sessions whose next step is told; what was to come before these is done by now, or given up
_TITLE_CHARACTERS = 76  # answers show 80 characters of a title
MOST_ABOUT, MOST_RULES = 8, 4  # memories, and passages of the record, that match a subject; lines of rules
MOST_DATED = 1_000  # sessions among which those of given days are
LONGEST_AGO_S, FEW_EVENTS, MOST_LEFT = 14 * 86_400, 12, 6  # of earlier sessions: age, events without a memory, lines
_RECENT = 0.85  # of the events of a session; an agent's earlier plans are mostly done
_TELLING, _FEW = 2, 4  # words that name a subject in a telling answer; words of "yes, do that", which only continues
_SPOKEN_OF = 0.35  # share of an open point's words that a text about it has (docs/evaluation.md)
_NAMED = 0.5  # share of the words of a memory's title with which a request says the same
_SAME = 20  # characters; a shorter text that occurs in another one may still be news

# The sections of a session's memory that are parts of its state.
_NOTED = {"Decisions": "decisions", "Learned": "learned", "Open": "open", "Next": "next", "Changed": "done"}
_NOTED |= {"Tests": "tests", "Problems": "learned"}  # the last as earlier versions called what failed
_NOTED_ELSEWHERE = {**_NOTED, "Task": "task", "Outcome": "said"}  # there are no events that say these better
_NOTED_COMMIT = re.compile(r"commit ?([0-9a-f]*): ")
Notes = Mapping[str, Sequence[StateLine]]
Heard = Set[str] | Arrival  # the words of a later text, or a later memory
Count = Callable[[str], int]  # tokens of a text

# The parts of a state, most useful first, each with its maximum of lines. A new session needs the outcome of the last
# one, a resumed one first what it was working with, a compacted one what a summary may lose, a cleared one the task.
_ATTENDED = {"noticed": 1, "files": 1, "results": 1}
_ENDING = {"broke off": 1, "next": 1, "said": 1, "failures": 2, "open": 5, "later task": 1}
_OUTCOME = {"decisions": 8, "done": 4, "tests": 1, "not committed": 1, "commits": 3, "last commit": 1, "learned": 6}
_PARTS: Mapping[Occasion, Mapping[str, int]] = {
    Occasion.START: {"task": 2, **_ENDING, **_OUTCOME, "also said": 1},
    Occasion.RESUME: {"task": 1, "next": 1, **_ATTENDED, "commits": 1, **_ENDING, **_OUTCOME},
    Occasion.COMPACT: {"task": 2, **_ENDING, **_OUTCOME, "also said": 1, **_ATTENDED},
    Occasion.CLEAR: {"task": 1},
}
_ENDS, _INTERRUPTED = {*_ENDING, *_OUTCOME}, {"task": 1, "broke off": 1}
_LEFT = {
    "beside it": {"next": 1, "open": 3, "decisions": 2, "commits": 1},
    "before": {"next": 1, "open": 4},
    "since": {"task": 2, "next": 1, "open": 4, "said": 1, "decisions": 2},
}
JOURNAL = "journal"  # the origin of a line about no session
_MORE = "{} more sessions; ask for fewer days"
_DID = {"decisions": 4, "done": 4, "commits": 2, "learned": 2, "next": 1}
_CLOSABLE = ("next", "task not finished", "open")  # by what a later text says
_UNFINISHED = ("task", "broke off", *_CLOSABLE, "failures")  # what a question for a subject is told first
_SAID = ("later task", "said", "also said")
# The parts of a session that changed nothing: its questions are no work that is to be continued.
_ASKING = {"task", "task not finished", "later task", "said", "also said", "next", "files", "results", "noticed"}
_STALE = ("?", "when last run")  # ends of what time has settled
_GIT_LOOKS = {f"git {each}" for each in ("status", "log", "diff", "show", "branch")}


def session_state(
    events: Sequence[RecordedEvent], items: Sequence[Item], occasion: Occasion, notes: Notes | None = None
) -> list[StateLine]:
    """The summary of a session for this occasion, most useful first, the newest lines of each part. Pure.

    Parts that the session's memory has, as `read_notes` returns them, are not looked for in the events. The title of
    the memory says what the session was about where its request does not: "go on with the list in TODO.md".
    """
    if not items and {EventKind.START}.issuperset(map(attrgetter("kind"), events)):
        return []
    record, chosen, known = Record(events, items, MOST_HEARD), dict[str, list[StateLine]](), list[str]()
    lines = {**_find_lines(record, _PARTS[occasion].keys() - (notes or {}).keys()), **(notes or {})}
    for part in sorted(_PARTS[occasion], key=_SAID.__contains__):  # the agent's words without what other lines quote
        chosen[part] = _choose_lines(lines.get(part, ()), _PARTS[occasion][part], known, is_said=part in _SAID)
    asked, told = find_stems(" ".join(map(attrgetter("text"), chosen["task"]))), "\n".join(known)
    for title in _choose_lines(lines.get("title", ()), 1, known):
        words = find_stems(title.text)
        if len(words & asked) < _NAMED * len(words) and title.text.casefold() not in told:
            chosen["task"].append(title)
    return [*chain.from_iterable(map(chosen.__getitem__, _PARTS[occasion]))]


def read_notes(body: str, events: Sequence[RecordedEvent], trust: str, origin: str) -> Notes:
    """The lines of a session's memory now, by part; one that quotes no event, such as a person's, cites the memory."""
    numbered, noted = {event.number: event for event in events}, _NOTED if events else _NOTED_ELSEWHERE
    notes = {part: list[StateLine]() for part in (*noted.values(), "commits")}
    for heading, text, number in read_lines(body, noted):
        event, commit = numbered.get(int(number or 0)), _NOTED_COMMIT.match(text)
        part = "commits" if commit else noted[heading]
        quoted, _, note = text[commit.end() if commit else 0 :].partition(" — ")
        is_proven = event is not None and statements.contains_text(event, quoted)
        if event and is_proven:
            said = Statement(quoted, event.number, note, commit and commit[1])
            notes[part].append(_quote_statement(part, said, event))
        elif part != "done" or not events:  # files among the changes are reported as git has them
            bare = f"{commit[1]} {text[commit.end() :]}".strip() if commit else text
            notes[part].append(StateLine(part=part, text=bare, origin=origin, trust=trust))
    return notes


def _choose_lines(lines: Sequence[StateLine], most: int, known: list[str], *, is_said: bool = False) -> list[StateLine]:
    """The last lines that add something to the `known` texts, those of one event as one line."""
    chosen, texts = list[StateLine](), list[str]()
    for line in reversed(lines):
        if len(texts) == most:
            break
        if is_said:
            others, pieces = "\n".join(known), re.split(r"(?<=[.!?;]) ", line.text)
            new = [piece for piece in pieces if piece.strip(";").casefold() not in others]
            is_rest = len(new) < len(pieces) and count_subjects(" ".join(new)) < _TELLING  # "As expected."
            line = replace(line, text="" if is_rest else " ".join(new))
        text = statements.flatten(line.text).casefold()
        is_known = f"\n{text}" in "\n".join(["", *known])  # or a longer line begins with it
        is_known = is_known or any(text in other or (len(other) > _SAME and other in text) for other in texts)
        if text and not is_known:
            if line.trust != Trust.HUMAN and is_suspicious(line.text):
                line = replace(line, text=WITHHELD)
            if chosen and chosen[-1].origin == line.origin:  # an id costs as much as a sentence
                line = replace(line, text=f"{line.text} | {chosen.pop().text}")
            chosen.append(line)
            texts.append(text)
    known += texts
    return chosen


def _find_lines(record: Record, parts: Container[str]) -> Mapping[str, list[StateLine]]:
    """All possible lines by part, the best last: by attention, otherwise the newest."""
    events = dict(zip(map(attrgetter("number"), record.events), record.events, strict=True))
    numbers = {**dict(map(attrgetter("call_id", "number"), record.events)), "": 0}
    found = defaultdict[str, list[tuple[float, int, StateLine]]](list)
    for part, find in _STATEMENTS.items():
        said = find(record) if part in parts else ()
        found[part] += [(0.0, each.event, _quote_statement(part, each, events[each.event])) for each in said]
    for item in record.items:
        number = numbers.get(item.source.source_call_id, 0)
        part, trust = _choose_part(item, events.get(number), record.last_event), item.source.trust
        text = f"{item.path}: {item.text}" if item.path and item.path not in item.text else item.text
        line = StateLine(part=part, text=text, origin=f"session:{item.session}/{item.number}", trust=trust)
        found[part].append((item.attention if part in _ATTENDED else 0.0, number or item.number, line))
    return {part: [*map(itemgetter(2), sorted(some, key=itemgetter(0, 1)))] for part, some in found.items()}


def _choose_part(item: Item, event: RecordedEvent | None, last: int) -> str:
    """The part of an item; none if its event says it better, if it was overcome, or for early plans."""
    if item.kind == ItemKind.PLAN and event and event.number < _RECENT * last:
        return ""
    if item.kind != ItemKind.ERROR:
        stated = ItemKind.COMMIT if event and event.tool else ItemKind.DECISION
        is_told = event and (item.kind == stated or event.tool in ("Ask", "Plan"))
        is_change = item.kind == ItemKind.FILE and item.text.startswith(("Edit ", "Write "))  # git tells these
        return "" if is_told or is_change else "open" if item.kind == ItemKind.PLAN else f"{item.kind}s"
    is_seen = event and event.failed is not True and event.tool != "Bash"
    return "failures" if event is None else "noticed" if is_seen else ""


def _quote_statement(part: str, statement: Statement, event: RecordedEvent) -> StateLine:
    # A person who sends a text, maybe one of others, does not vouch for it.
    trust = Trust.FILE if event.kind == EventKind.PROMPT else Trust.AGENT
    if event.kind == EventKind.TOOL:
        trust = Trust.WEB if event.tool == "Web" else Trust.TOOL
    elif part == "next" and event.kind == EventKind.PROMPT:
        part = "task not finished"
    longest = LONGEST_WORDS if part.startswith("said") else LONGEST_TEXT
    longest_note = LONGEST_NOTE if part == "decisions" else LONGEST_TEXT
    longest_note *= 1 + statement.note.endswith("?")  # "on (e7): ... Shall I commit?"
    note = statements.cut_line(f" — {statement.note}", longest_note) if statement.note else ""
    text = statements.cut_line(" ".join(f"{statement.commit or ''} {statement.text}".split()), longest) + note
    return StateLine(part=part, text=text, origin=f"session:{event.session}#e{event.number}", trust=trust)


def _find_tasks(record: Record) -> Iterator[Statement]:
    """The first prompt, and the prompt that states the task, if that is another one."""
    prompts, task = _list_prompts(record), find_task(record)
    is_listed = task and task.event in map(attrgetter("event"), prompts)
    if task and not is_listed and not asks_only_for_session(task.text):  # the one a summary names, or a few words
        yield task
    for each in prompts:
        if task and each.event == task.event:  # a draft quotes a shorter piece of it
            yield Statement(each.text[max(0, each.text.find(statements.flatten(task.text)[:_SAME])) :], each.event)
        elif each is prompts[0] and not (task and task.event < each.event):
            yield each


def _find_next_step(record: Record) -> Iterator[Statement]:
    """What the agent planned to do next."""
    step = sections.find_next_step(record)
    if step and step.event not in set[int]().union(*record.prompts_by_kind.values()):
        yield step


def _list_prompts(record: Record) -> list[Statement]:
    """The person's prompts without code and output, except "continue" and the like, and replies before the last."""
    heard = set[int]().union(*record.prompts_by_kind.values())
    spoken = [event for event in record.events if event.kind == EventKind.PROMPT and event.number in heard]
    return [
        Statement(text, event.number)
        for event in spoken
        for text in [statements.flatten(" ".join(statements.split_prose(event)))]
        if not (asks_only_for_session(text) or event.number in record.prompts_by_kind["leaves"])
        and (event is spoken[-1] or event.number not in record.replies)
        and (len(text.split()) > _FEW or count_subjects(text) or re.search(r"\w[/.]\w", text))  # a file says enough
    ]


def _find_last_words(record: Record) -> Iterator[Statement]:
    """The agent's last telling answers, each cut from its end to the length of a line."""
    cues = statements.PATTERNS["changes"]
    for answer in [*record.sentences_by_answer.values()][-MOST_LAST_ANSWERS:]:
        sentences = [each for each in answer if not cues["ceremony"].search(each.text)]
        while len(text := statements.join_sentences(sentences)) > LONGEST_WORDS and len(sentences) > 1:
            sentences.pop(0)
        is_last = sentences[-1:] == record.answers[-1:]  # "it is `flags.toml` now" corrects what came before
        is_guess = not is_last and cues["musing"].search(text)
        if (count_subjects(text) >= _TELLING and not is_guess) or (is_last and (count_subjects(text) or "`" in text)):
            yield Statement(text, sentences[0].event)


def _find_break(record: Record) -> Iterator[Statement]:
    """The last call or prompt of a session whose turn did not end."""
    passed = record.prompts_by_kind["partings"]
    acts = [x for x in record.events if x.kind not in (EventKind.START, EventKind.END) and x.number not in passed]
    command = statements.cut_line(acts[-1].input) if acts else ""
    is_over = statements.PATTERNS["open_points"]["hands_in"].search(command)
    if acts and acts[-1].kind in (EventKind.TOOL, EventKind.PROMPT) and not is_over:
        last = f"after `{command}`" if acts[-1].kind == EventKind.TOOL else "before an answer"
        yield Statement(f"in the middle of a turn, {last}", acts[-1].number)


_STATEMENTS: Mapping[str, Callable[[Record], Iterable[Statement]]] = {
    "task": _find_tasks,
    "broke off": _find_break,
    "next": _find_next_step,
    "said": _find_last_words,
    "also said": lambda record: chain.from_iterable(  # without what the last answers plan or suppose
        map(partial(sections.read_explanation, record), [*record.sentences_by_answer][-MOST_LAST_ANSWERS:])
    ),
    "failures": sections.find_unsolved,
    "open": sections.find_open_points,
    "decisions": find_decisions,
    "done": partial(sections.find_outcome, with_commits=False),
    "tests": attrgetter("test_runs"),
    "not committed": sections.find_uncommitted,
    "commits": attrgetter("commits"),
    "last commit": sections.find_push,
    "learned": sections.find_problems,
    "later task": lambda record: _list_prompts(record)[1:][-1:],
}


def tell_state(
    sessions: Sessions, index: Index | None, own: Session, occasion: Occasion, folder: Path, *, own_first: bool = True
) -> list[StateLine]:
    """The state of its own work, if `own_first` and it has some, or of the newest other session, here before elsewhere.

    A start skips and names sessions that only asked. A memory with all events of its session stands for them. Parallel
    tasks, news from elsewhere and what earlier ones left open are parts of their own; of these a compaction has rules.
    """
    earlier = sessions.latest(before=own.id, limit=MOST_EMPTY, with_work=True) if occasion != Occasion.COMPACT else []
    if len(earlier) == MOST_EMPTY:  # such as of a script that asks; the last work may be before all of them
        earlier += {*sessions.latest(before=own.id, with_changes=True)} - {*earlier}
    asking, has_state = list[tuple[Session, list[StateLine], list[RecordedEvent]]](), True
    for about in [*([own] if own_first else []), *sorted(earlier, key=_is_elsewhere)]:
        events, items = sessions.events(about.id), sessions.items(about.id)
        lines = session_state(events, items, occasion, _find_notes(sessions, index, about.id, events))
        has_work, only_asks = _judge_work(events, items, {*map(attrgetter("part"), lines)})
        if has_work and only_asks and occasion in (Occasion.START, Occasion.RESUME) and about is not own:
            asking.append((about, lines, events))
        elif has_work or occasion == Occasion.COMPACT:
            break
    else:
        about, lines, events = asking.pop(0) if asking else (own, [], [])
        has_state = False
    if about.process != own.process and is_running(about):
        lines = [replace(line, part="still running") if line.part == "broke off" else line for line in lines]
    lines = [*name_place(sessions, lines, about, folder.parent, asks=occasion == Occasion.START)]
    others, recent = _sort_others(earlier, own, about, [*map(itemgetter(0), asking)])
    for each, part in [*others.items()][: 2 * MOST_PARALLEL]:
        tasks = session_state(sessions.events(each.id), sessions.items(each.id), Occasion.CLEAR)
        lines[1:1] = [replace(line, part=part) for line in name_place(sessions, tasks, each, folder.parent)]
    left: Iterable[StateLine] = ()
    if occasion not in (Occasion.CLEAR, Occasion.COMPACT):
        known = {each.draft.memory_id for each in sessions.records() if each.draft}
        last = about if has_state else Session(id="")
        strange = (x for x in read_arrivals(folder, known, last.last_event) if not sessions.get(x.session))
        arrivals = sorted(strange, key=attrgetter("last_event"), reverse=True)
        since, heard = _tell_since(arrivals, last, "since" if lines else "") if arrivals else ([], [])
        left = _find_left_open(sessions, index, recent, events, arrivals[:MOST_ARRIVED]) if recent and lines else ()
        lines = [*lines[:1], *since, *filterfalse(partial(_is_closed, heard=heard), lines[1:])]
    rules = [*find_rules(sessions, index, "\n".join(map(attrgetter("text"), lines)), folder)]
    at = len(lines) if occasion == Occasion.START else 1  # a long state of its own must not push them out
    lines[at:at] = _choose_lines(rules[::-1], MOST_RULES, [])
    return [*lines, *islice(left, MOST_LEFT)]


def _tell_since(arrivals: Sequence[Arrival], about: Session, when: str) -> tuple[list[StateLine], list[Heard]]:
    """What sessions elsewhere did since that one ended here, and the words of what they did since it began.

    Without a session here the last of them is told as one, and the others as before it. Those left out are counted.
    """
    since, heard, oldest = list[StateLine](), list[Heard](), about.last_event - LONGEST_AGO_S
    news = [each for each in arrivals if each.arrived > about.last_event and each.last_event > oldest]
    for place, each in enumerate(news[:MOST_ARRIVED]):
        wanted = _LEFT["since"] if when else _PARTS[Occasion.START]
        told = _tell_arrival(each, heard, {**wanted, "next": int(place < MOST_PLANNED)})
        told[:1] = (replace(line, part=f"{line.part} of {_format_day(each.last_event)}") for line in told[:1])
        since += (replace(line, part=f"{line.part} {when}".strip()) for line in told)
        heard += each.find_subjects() if each.last_event > about.started else ()
        heard += [each] if each.last_event > about.last_event else []
        when = when or "before"
    more = f"and {len(news) - MOST_ARRIVED} more: `scrimshaw digest`"
    counted = [StateLine(part=when, text=more, origin=JOURNAL, trust=Trust.FILE)] * (len(news) > MOST_ARRIVED)
    return since + counted, heard


def find_about(index: Index, words: Sequence[str], own: str) -> list[Memory]:
    """Memories and records of other sessions with at least half of the words in one text, most first, then newest."""
    filters = (Filters(source=RECORD, exclude=(f"session:{own}",)), Filters(types=(MemoryType.SESSION,)))
    matches = [match for each in filters for match in index.match_text(Query((words,)), each, MOST_ABOUT)]
    memories, shared = index.get([match.id for match in matches]), Counter[str]()
    for (name, _), piece in index.pieces([(match.id, max(match.chunk, 0)) for match in matches]).items():
        shared[name] = max(shared[name], count_shared(f"{memories[name].title}\n{piece.text}", words))
    found = (each for each in memories.values() if each.provenance.session != own and 2 * shared[each.id] >= len(words))
    return sorted(found, key=lambda each: (shared[each.id], each.updated), reverse=True)


def tell_subject(sessions: Sessions, index: Index, about: Iterable[Memory], folder: Path) -> list[StateLine]:
    """The state of the work in the session that the first of these memories and passages is of, with its day.

    Sessions that only asked are passed over. What is open comes first, except points that a later session speaks of,
    then what the newest later session among them left open.
    """
    places = dict[str, Session | Arrival]()
    for each in about:
        if found := sessions.get(each.provenance.session) or next(list_arrivals(sessions, index, [each]), None):
            places.setdefault(each.provenance.session, found)
    told = ((place, _tell_place(sessions, index, place, folder)) for place in places.values())
    first, lines = next((each for each in told if each[1]), (None, []))
    if first is None:
        return []
    later = (each for each in places.values() if each.last_event > first.last_event)
    newer, heard = sorted(later, key=attrgetter("last_event"), reverse=True), list[Set[str]]()
    newest = next(filter(None, (_tell_place(sessions, index, place, folder) for place in newer)), [])
    since = [replace(each, part=f"{each.part} since") for each in newest if each.part in ("task", *_CLOSABLE)]
    for place in newer:
        if isinstance(place, Arrival):
            heard += place.find_subjects()
        else:
            events = sessions.events(place.id, EventKind.PROMPT, EventKind.TOOL)  # an answer may only mention a point
            heard += map(_find_subjects, events)
    lines = [line for line in lines if not _is_closed(line, heard)]
    lines[:1] = (replace(line, part=f"{line.part} of {_format_day(first.last_event)}") for line in lines[:1])
    rest = [line for line in lines[1:] if line.part not in _UNFINISHED]
    return [*lines[:1], *(line for line in lines[1:] if line.part in _UNFINISHED), *since, *rest]


def _tell_place(sessions: Sessions, index: Index, place: Session | Arrival, folder: Path) -> list[StateLine]:
    """The state of a session, here or elsewhere, as a start tells it; nothing of one here that only asked."""
    if isinstance(place, Arrival):
        return _tell_arrival(place, (), _PARTS[Occasion.START])
    return [*name_place(sessions, _read_work(sessions, index, place), place, folder.parent)]


def _read_work(sessions: Sessions, index: Index, session: Session) -> list[StateLine]:
    """The state of a session as a start tells it; nothing of one that only asked."""
    events, items = sessions.events(session.id), sessions.items(session.id)
    lines = session_state(events, items, Occasion.START, _find_notes(sessions, index, session.id, events))
    has_work, only_asks = _judge_work(events, items, {*map(attrgetter("part"), lines)})
    return lines if has_work and not only_asks else []


def tell_days(sessions: Sessions, index: Index, period: Period, own: str, budget: int, count: Count) -> list[StateLine]:
    """What the sessions of these days but the own one did, in so many tokens: their titles, newest first, then more.

    Sessions that only asked are left out. A line from the JOURNAL says how many more there are, or that there is none.
    """
    begin, found, lines = datetime.fromisoformat(period.start).timestamp(), list[Session](), list[StateLine]()
    for each in sessions.latest(before=own, limit=MOST_DATED, with_work=True):
        if format_time(each.started) >= period.end or format_time(each.last_event) < period.start:
            continue
        task = each.task
        is_asked = asks_only_for_session(task) or find_asked(task) or find_asked_days(task, find_period(task, begin))
        if not is_asked or _read_work(sessions, index, each):
            found.append(each)
    if not found:
        last = datetime.fromisoformat(period.end).timestamp() - 1
        days = " to ".join(dict.fromkeys(map(_format_day, (begin, last))))
        return [StateLine(part=days, text="no session was recorded here", origin=JOURNAL, trust=Trust.FILE)]
    told, room, records = list[Notes](), budget - count(_MORE), {each.session: each for each in sessions.records()}
    for place, each in enumerate(found):
        notes = _find_notes(sessions, index, each.id, ()) or {}
        untold = StateLine(part="", text="", origin=f"session:{each.id}", trust=Trust.FILE)
        day, title = _format_day(max(each.started, begin)), title_session(sessions, index, records[each.id])
        (line,) = _choose_lines([replace(notes.get("title", [untold])[0], part=day, text=title)], 1, [])
        room -= count(f"{line.part} {line.text} {line.origin}")
        if room < 0:
            more = _MORE.format(len(found) - place)
            return [*lines, StateLine(part="before", text=more, origin=JOURNAL, trust=Trust.FILE)]
        lines.append(line)
        told.append(notes)
    details = (_choose_lines(notes.get(part, ()), most, []) for notes in told for part, most in _DID.items())
    return [*lines, *fit_lines([*chain.from_iterable(details)], room, count)[0]]


def title_session(sessions: Sessions, index: Index, record: SessionRecord) -> str:
    """The title of the session's memory, its first prompt or its id; and the other work tree in which it ran."""
    found, memory = sessions.get(record.session), index.get([record.memory_id]).get(record.memory_id)
    title = memory.title if memory else " ".join(found.task.split()) if found and found.task else record.session
    if len(title) > _TITLE_CHARACTERS:
        title = f"{statements.cut_line(title, _TITLE_CHARACTERS)} ..."
    return redact(f"{title} ({found.work_tree})" if found and found.work_tree else title).text


def _format_day(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d")


def _judge_work(events: Sequence[RecordedEvent], items: Sequence[Item], parts: Set[str]) -> tuple[bool, bool]:
    """Whether a session did more than ask this server, or decided something; and whether it only asked or looked."""
    calls = {x.call_id for x in events if x.kind == EventKind.TOOL} | {*map(attrgetter("source.source_call_id"), items)}
    own = {item.source.source_call_id for item in items if is_own_tool(item.source.source_tool)}
    commands = chain.from_iterable(map(attrgetter("families"), find_runs(events, items)))
    only_asks = parts <= _ASKING and _GIT_LOOKS.issuperset(commands)
    return bool(calls - own) or parts >= {"task", "decisions"}, only_asks


def _is_elsewhere(session: Session) -> bool:
    """Whether it ran in another work tree, where somebody can go on; in a removed one nobody can."""
    return bool(session.work_tree) and not is_removed(session.work_tree)


def _sort_others(
    earlier: Sequence[Session], own: Session, about: Session, asking: Container[Session]
) -> tuple[dict[Session, str], dict[Session, str]]:
    """The sessions beside the one told about or that only asked since, and those that may have left something open."""
    others, recent = dict[Session, str](), dict[Session, str]()
    for each in earlier:
        is_on = each.state == SessionState.ACTIVE and each.process != own.process and is_running(each)
        overlaps = each.started < about.last_event and (is_on or about.started < each.last_event)
        overlaps |= _is_elsewhere(each) and each.last_event > about.last_event
        if each in asking:
            others[each] = "asked since"
        elif each != about:
            if overlaps and about != own:
                others[each] = "beside it"
            if not is_on and each.last_event > about.last_event - LONGEST_AGO_S:
                recent[each] = others.get(each, "before")
    return others, recent


def _find_left_open(
    sessions: Sessions,
    index: Index | None,
    earlier: Mapping[Session, str],
    later: Sequence[RecordedEvent],
    arrivals: Sequence[Arrival],
) -> Iterator[StateLine]:
    """What these sessions, the newest first, left open, except what a later one speaks of; `later` are its events.

    After a brief session the work before it is what goes on, so its task is told too, and whether it broke off.
    """
    is_brief, subjects = len(later) <= FEW_EVENTS, [*map(_find_subjects, later)]
    for place, (each, when) in enumerate(islice(earlier.items(), MOST_EARLIER)):
        events, wanted = sessions.events(each.id), {**_LEFT[when], "next": int(place < MOST_PLANNED)}
        told = dict(_find_notes(sessions, index, each.id, ()) or _find_lines(Record(events[-FEW_EVENTS:], ()), _ENDS))
        if is_brief and when == "before" and len(events) > FEW_EVENTS:
            found = _find_lines(Record(events, (), MOST_HEARD), _INTERRUPTED)
            told |= {part: found[part] for part in _INTERRUPTED}
            wanted, is_brief = {**_INTERRUPTED, **wanted}, False
        heard = [*chain.from_iterable(x.find_subjects() for x in arrivals if x.last_event > each.last_event)]
        for part, most in wanted.items():
            named = (max(count_subjects(x.text), len(find_topics(x.text)) - 1) >= _TELLING for x in told[part])
            said = [x for x, is_named in zip(told[part], named, strict=True) if x.part not in _CLOSABLE or is_named]
            new = (x for x in said if part == "commits" or not _is_spoken_of(x, [*subjects, *heard]))
            fresh = [x for x in new if part == "commits" or not x.text.endswith(_STALE)]
            yield from (replace(x, part=f"{part} {when}") for x in _choose_lines(fresh, most, []))
        subjects += map(_find_subjects, events)


def _tell_arrival(arrival: Arrival, heard: Sequence[Heard], wanted: Mapping[str, int]) -> list[StateLine]:
    """These parts of a memory of a session elsewhere, each with its maximum of lines, without what is closed."""
    title = StateLine(part="task", text=arrival.title, origin=arrival.id, trust=arrival.trust)
    notes = read_notes(arrival.body, (), arrival.trust, arrival.id)
    notes = {**notes, "task": [title, *(replace(x, text=statements.cut_line(x.text)) for x in notes.get("task", ()))]}
    said = [(line, *line.text.partition(" Next: ")) for line in notes.get("said", ())]
    steps = [replace(line, part="next", text=step) for line, _, _, step in said if step]
    notes |= {"said": [replace(line, text=text) for line, text, *_ in said], "next": [*steps, *notes.get("next", ())]}
    fresh = {part: [line for line in lines if not _is_closed(line, heard)] for part, lines in notes.items()}
    return [*chain.from_iterable(_choose_lines(fresh.get(part, ()), most, []) for part, most in wanted.items())]


def _is_closed(line: StateLine, heard: Iterable[Heard]) -> bool:
    """Whether a line is a next step or an open point of which a later text speaks, or a failure that passed later."""
    if line.text.endswith(_STALE[1]) and any(x.has_passed(line.text) for x in heard if isinstance(x, Arrival)):
        return True
    return line.part in _CLOSABLE and _is_spoken_of(line, heard)


def _is_spoken_of(line: StateLine, heard: Iterable[Heard]) -> bool:
    """Whether a later text has the subjects of a line: it is closed, or that session tells it itself."""
    words = find_topics(statements.PATTERNS["open_points"]["label"].sub("", line.text))
    return any(isinstance(x, Set) and len(words & x) >= max(LEAST_SUBJECTS, _SPOKEN_OF * len(words)) for x in heard)


def _find_subjects(event: RecordedEvent) -> frozenset[str]:
    """The words of a prompt, an answer or a commit that name its subjects."""
    is_said = event.kind in (EventKind.PROMPT, EventKind.ANSWER) or "git commit" in event.command
    return find_topics(event.text[:LONGEST_HEARD]) if is_said else frozenset()


def _find_notes(sessions: Sessions, index: Index | None, session: str, events: Sequence[RecordedEvent]) -> Notes | None:
    """The lines of a session's memory, unless something happened since it was made."""
    record = next(iter(sessions.records(session)), None)
    if index is None or record is None or record.draft is None or record.draft.events < record.last:
        return None
    name = record.draft.memory_id
    memory, body = index.get([name]).get(name), index.bodies([name]).get(name, "")
    if memory is None:
        return None
    trust = memory.provenance.trust
    title = StateLine(part="task", text=memory.title, origin=name, trust=trust)
    return {"title": [title], **read_notes(body, events, trust, name)}


def fit_lines(lines: Sequence[StateLine], budget: int, count: Count) -> tuple[list[StateLine], int, int]:
    """The lines that fit a budget in tokens, the last one cut, their tokens, and how many are left out."""
    fitting, room = list[StateLine](), budget
    for line, sent in zip(lines, shorten_origins(lines), strict=True):
        while (cost := count(f"{line.part} {line.text} {sent.origin}")) > room and len(line.text) > SHORTEST_CUT:
            line = replace(line, text=statements.cut_line(line.text, len(line.text) * 3 // 4))
        if cost <= room:
            fitting.append(line)
            room -= cost
    return fitting, budget - room, len(lines) - len(fitting)
