"""From the recorded events of a session to the draft of a memory, each statement with the event that proves it. Pure.

A section without evidence is empty; nothing is filled in.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, filterfalse, groupby, pairwise
from operator import attrgetter

from msgspec import Struct

from scrimshaw.ingest.events import PRIVATE
from scrimshaw.models import EventKind, Item, RecordedEvent, Session
from scrimshaw.session import keywords, sections, statements
from scrimshaw.session.arrivals import is_rule
from scrimshaw.session.decisions import find_decisions
from scrimshaw.session.keywords import count_subjects
from scrimshaw.session.record import Record
from scrimshaw.session.selection import score_sentences, select_statements
from scrimshaw.session.statements import LONGEST_LINE, LONGEST_SENTENCE, PATTERNS, SUMMARY, USER, Sentence, Statement

LONGEST_BODY, MOST_BODY_LINES = 6_000, 40  # characters, about 1,500 tokens; lines with a statement
_FILES_PER_LINE, _FILE_LINES = 6, 4
# The weight of a phrase by where it occurs; tuned on real sessions.
_IN_TITLE, _IN_TASK, _IN_REQUEST, _IN_DECISION, _IN_COMMIT, _IN_RESULT = 2.5, 0.8, 1.0, 1.5, 2.0, 1.0
_A_SENTENCE = 4  # spaces; a shorter text may occur in a longer statement and still be news
_REPEATED = 0.6  # share of a sentence's words that an earlier statement has; a note or a commit is news all the same
_WORD, _NAME = re.compile(r"\w{3,}"), re.compile(r"\w+[_./(]\S")  # a name in code keeps its small letter

LONGEST_TITLE, LONGEST_TASK, _SHORT_TASK = 90, 700, 120  # characters
_SUBJECTS = 2  # a request that names fewer has no subject of its own: "go on", "commit"
MOST_REQUESTS, _FEWEST_WORDS, _ENOUGH_SUBJECTS = 8, 3, 6
_FIRST_PROMPTS = 6  # the task is among them; later ones redirect it
_REQUEST, _IS_SOON = PATTERNS["requests"], PATTERNS["open_points"]["soon"].search
# What a possible title counts, in proportion to a commit or the first sentence of the task: each further sentence of it
# so much of the one before, a later request, and what tells of somebody; values near these do as well.
_NEXT, _ASKED_LATER, _TOLD = 0.7, 0.5, 0.7
# An opening clause is a greeting if its words are mentioned so little in proportion to those that follow.
_GREETING, _OPENING_CLAUSE = 0.15, re.compile(r"[^()\[\]`]*?(?:[,;:!?]\s+|\s[-–—!?:]\s+)")
_TELLING_STEM = re.compile(r"\w{4}|\d")
_strip_opening = partial(_REQUEST["opening"].sub, "")
# A commit's subject without its kind: `x: ...` of `feat(x): ...`.
_strip_kind = partial(
    re.compile(r"\A(?:build|chore|ci|docs?|feat|fix|perf|refactor|style|tests?)(?:\(([^)]*)\))?!?(?=: )").sub, r"\1"
)


class Draft(Struct, frozen=True, kw_only=True):
    """What a session leaves behind; `ended` is in seconds since 1970."""

    session: str
    title: str
    task: Statement | None
    decisions: tuple[Statement, ...]
    changed: tuple[Statement, ...]
    uncommitted: tuple[Statement, ...] = ()  #: files changed after the last commit, if there is one
    tests: tuple[Statement, ...] = ()  #: how they ended in the last run
    problems: tuple[Statement, ...]  #: what failed, and how it was solved
    open: tuple[Statement, ...]
    next_step: Statement | None
    topics: tuple[str, ...]
    trigger_phrases: tuple[str, ...]
    tool_calls: int
    ended: float
    requests: tuple[Statement, ...] = ()  #: later requests of the user
    findings: tuple[Statement, ...] = ()  #: how the work ended, as an answer reports it
    push: Statement | None = None  #: the last commit's branch, and whether it was pushed
    is_worth_keeping: bool  #: False if only answers were wanted and nothing came of it, or nothing but talk


def build_draft(session: Session, events: Sequence[RecordedEvent], items: Sequence[Item]) -> Draft:
    """The draft of a session from its events, in order, and the items extracted from them."""
    record = Record(events, items)
    prove, scores = _Evidence(events).prove, score_sentences(record)
    # The task may be a choice as well, and what is left a cause or the next step: each of them has evidence of its own.
    task = next(iter(_Evidence(events).prove([find_task(record)])), None)
    decisions = prove(each for each in find_decisions(record, scores) if not (task and each.text in task.text))
    changes = prove(sections.find_changes(record))
    problems = prove(sections.find_problems(record))
    step = next(iter(prove([sections.find_next_step(record)])), None)
    step = None if step and task and step.event == task.event else step
    ruled = "\n".join(each.text for each in decisions)
    open_points = _Evidence(events).prove(x for x in sections.find_left(record, scores) if x.text not in ruled)
    step = None if step and any(x.note and x.text == step.text for x in open_points) else step  # it was not decided
    soon = [x for x in open_points if _IS_SOON(x.text) and record.turns[x.event] >= max(record.turns.values()) - 1]
    step = step or next(iter(prove(soon[-1:])), None)
    open_points = tuple(each for each in open_points if not (step and each.text in step.text))
    left = {each.text for each in open_points}
    findings = prove(each for each in sections.find_findings(record, changes, scores) if each.text not in left)
    requests = prove(find_later_requests(record, task, decisions))
    told = filter(None, [task, step, *decisions, *changes, *problems, *open_points, *findings, *requests])
    lines = "\n".join(map(_line, told))
    selected = select_statements(record, scores, lines, room=LONGEST_BODY - len(lines))
    more = {kind: prove(x for x in some if not sections.repeats_change(changes, x)) for kind, some in selected.items()}
    in_order = partial(sorted, key=attrgetter("event"))
    title = _make_title(task, record.sentences, requests, changes)
    whole = "\n".join(each.text for each in record.sentences)
    weighted = [
        (title, _IN_TITLE),
        *([(f"{task.text} {task.note}", _IN_TASK)] if task else []),
        *((each.text, _IN_REQUEST) for each in requests),
        *((each.text, _IN_DECISION) for each in decisions),
        *((x.text, _IN_RESULT) if x.commit is None else (_strip_kind(x.text), _IN_COMMIT) for x in changes),
    ]
    paths = sections.relative_paths(record.edits)
    phrases, topics = keywords.find_keywords(weighted, keywords.file_stems(record.edits), paths, whole)
    decided = tuple(in_order([*decisions, *more["decision"]]))
    prompts = _group_prompts(record.sentences).values()
    is_wanted = decisions or changes or problems or open_points or any(map(_is_task, prompts))
    is_ruled = any(each.by == USER and is_rule(each.text) for each in record.sentences)
    asked = {event.number for event in events if event.kind == EventKind.PROMPT}
    is_chosen = is_ruled or any(each.event in asked or each.note.startswith(statements.BY_REPLY) for each in decided)
    return Draft(
        session=session.id,
        title=title,
        task=task,
        decisions=decided,
        changed=changes,
        uncommitted=tuple(sections.find_uncommitted(record)) if record.commits or "commit" in whole else (),
        push=next(sections.find_push(record), None),
        tests=prove([*record.checks, *record.test_runs]),
        problems=tuple(in_order([*problems, *more["finding"]])),
        findings=tuple(in_order([*findings, *more["result"]])),
        open=(*more["open"], *open_points),  # the surer ones last, as a state tells the last ones first
        next_step=step,
        topics=topics,
        trigger_phrases=phrases,
        tool_calls=record.calls,
        ended=events[-1].at if events else session.last_event,
        requests=requests,
        is_worth_keeping=bool((is_wanted or is_ruled) and (record.calls or is_chosen)),
    )


class _Evidence:
    """Accepts statements whose text occurs in the event they name, and that no earlier one repeats."""

    def __init__(self, events: Sequence[RecordedEvent]) -> None:
        self._events = {event.number: event for event in events}
        self._known: dict[str, tuple[int, set[str]]] = {}  #: text -> its event, its words and those of its note
        self._notes = defaultdict[int, str](str)  #: by event

    def prove(self, claims: Iterable[Statement | None]) -> tuple[Statement, ...]:
        """The claims that are proven and new."""
        found = []
        for each in filter(None, claims):
            event, text = self._events.get(each.event), statements.flatten(each.text).casefold()
            words = set(_WORD.findall(f"{text} {each.note.casefold()}"))
            is_known = text in self._known
            if text.count(" ") >= _A_SENTENCE:
                # the items of one list differ in a word
                is_news = bool(each.note) or each.commit is not None
                others = [known for number, known in self._known.values() if number != each.event and not is_news]
                is_repeated = any(len(words & known) >= _REPEATED * len(words) for known in others)
                is_known = is_repeated or any(text in known for known in (*self._known, self._notes[each.event]))
            if event is not None and text and statements.contains_text(event, each.text) and not is_known:
                self._known[text] = each.event, words
                self._notes[each.event] += f"{statements.flatten(each.note).casefold()}\n"
                found.append(each)
        return tuple(found)


def find_task(record: Record) -> Statement | None:
    """The first prompt that wants something, as asked; in a continued conversation the task that its summary names."""
    prompts = [*_group_prompts(record.sentences).values()]
    first = prompts[: _FIRST_PROMPTS if record.calls else 1]  # in mere talk later ones decide what was asked
    telling = (each for each in prompts if any(count_subjects(said.text) for said in each))
    chosen = next(chain(filter(partial(_is_task, with_questions=True), first), telling, prompts), None)
    numbers = [*map(attrgetter("number"), record.events)]
    return _opening_statement(record.events[numbers.index(chosen[0].event)], chosen) if chosen else None


def find_later_requests(record: Record, task: Statement | None, told: Sequence[Statement]) -> list[Statement]:
    """The user's requests after the task that are not `told` otherwise; of many, those that say most."""
    found, events = [], dict(zip(map(attrgetter("number"), record.events), record.events, strict=True))
    known = defaultdict[int, set[str]](set)
    for each in told:
        known[each.event].update(_WORD.findall(each.text.casefold()))
    for event, prompt in _group_prompts(record.sentences).items():
        is_kept = prompt[0].turn in record.changes_by_turn and record.withdrawn.get(prompt[0].turn) != frozenset()
        # "The upload fails on Windows. Find out why and fix it."
        pairs = [pair for pair in pairwise(prompt) if keywords.is_clear(pair[0].text)]
        referring = [pair for pair in pairs if _REQUEST["refers"].search(pair[1].text) and _is_request(pair[1])]
        needs = ([x] for x in prompt if _REQUEST["need"].search(x.text) and keywords.is_clear(x.text))
        wished = (pair for pair in pairs if statements.is_imperative(pair[1].text))
        asked = next(chain(referring, zip(filter(_is_request, prompt), strict=True), wished, needs), ())
        if task and event > task.event and prompt[0].by == USER and is_kept and asked:
            rest = " ".join([each.text for each in prompt[prompt.index(asked[0]) :]])  # what follows may limit it
            is_whole = len(rest) <= LONGEST_LINE and statements.contains_text(events[event], rest)
            found.append(Statement(rest if is_whole else " ".join([each.text for each in asked]), event))
    ranked = sorted(found, key=lambda each: -min(_ENOUGH_SUBJECTS, count_subjects(each.text)))[:MOST_REQUESTS]
    words = {each: set(_WORD.findall(each.text.casefold())) for each in ranked}
    new = (each for each in ranked if len(words[each] & known[each.event]) < _REPEATED * len(words[each]))
    return sorted(new, key=attrgetter("event"))


def _make_title(
    task: Statement | None, sentences: Sequence[Sentence], requests: Sequence[Statement], changes: Sequence[Statement]
) -> str:
    """The sentence of the task, the commit or the later request whose words the session mentions most."""
    mentions = Counter(chain.from_iterable(keywords.find_stems(each.text) for each in sentences))

    def weigh(text: str) -> float:
        stems = filter(_TELLING_STEM.search, keywords.find_stems(text))
        return math.fsum(math.log(max(1, mentions[stem]) + 0.2) for stem in stems)  # hardly anything for one mention

    def drop_greetings(text: str) -> str:
        clause = _OPENING_CLAUSE.match(text)
        is_greeting = clause and weigh(clause[0]) < _GREETING * weigh(text[clause.end() :])
        return drop_greetings(text[clause.end() :]) if clause and is_greeting else text

    def rate(title: str) -> float:  # "I have made ..." does not name the result
        return weigh(title) * shares[title] * (_TOLD if _REQUEST["told"].match(title) else 1.0)

    committed = [each.text for each in changes if each.commit is not None]
    reverted = "".join(each for each in committed if each.casefold().startswith("revert"))
    shares = {_headline(_strip_kind(each)): 1.0 for each in committed if each not in reverted}
    said = [each for each in sentences if task and each.event == task.event and each.by == USER]
    above = task.text[: max(0, task.text.find(said[0].text))].strip(" -:") if task and said else ""
    if said and not above and count_subjects(said[0].text) < _SUBJECTS:
        above = said[0].heading.rstrip(":")
    texts = [*([above] if count_subjects(above) >= _SUBJECTS else []), *(each.text for each in said)]
    telling = [text for text in texts if _strip_opening(f"{text} ").strip() and not text.endswith(":")]
    for place, each in enumerate(telling or ([task.text] if task else [])):
        shares.setdefault(_headline(drop_greetings(each)), _NEXT**place)
    for request in requests:
        shares.setdefault(_headline(request.text), _ASKED_LATER)
    return max(shares, key=rate, default="") or next((_headline(each.text) for each in changes), "")


def _group_prompts(sentences: Sequence[Sentence]) -> Mapping[int, Sequence[Sentence]]:
    """The sentences of users and summaries by event; of a summary only those that name the request."""
    requests = [x for x in sentences if x.by == USER or (x.by == SUMMARY and _REQUEST["summary_task"].search(x.text))]
    return {event: [*prompt] for event, prompt in groupby(requests, attrgetter("event"))}


def _is_task(prompt: Sequence[Sentence], *, with_questions: bool = False) -> bool:
    """Whether a prompt wants (or asks) something and says enough: two subjects, or a wish in a few more words."""
    whole = " ".join(each.text for each in prompt)
    wishes = [each for each in prompt if statements.is_imperative(each.text) or _REQUEST["goal"].search(each.text)]
    asks = any(_REQUEST["question_only"].search(statements.strip_courtesy(each.text)) for each in prompt)
    is_lone_question = len(prompt) == 1 and prompt[0].by == USER and not wishes and whole.rstrip().endswith("?")
    if is_lone_question or (asks and not wishes and not with_questions) or _REQUEST["orientation"].search(whole):
        return False
    subjects = sum(count_subjects(each.text) for each in prompt)
    return subjects >= _SUBJECTS or (prompt[0] in wishes and len(prompt[0].text.split()) > _SUBJECTS + 1)


def _is_request(sentence: Sentence) -> bool:
    text, bare = sentence.text, statements.strip_courtesy(sentence.text)
    is_fit = len(text) <= LONGEST_SENTENCE and len(text.split()) >= _FEWEST_WORDS and keywords.is_clear(text, 1)
    if not is_fit or _REQUEST["question_only"].search(bare):
        return False
    if statements.is_imperative(text):
        return count_subjects(text) > bool(_REQUEST["dangling"].match(bare))
    wants = bare != text and not text.endswith("?") and bool(_REQUEST["goal"].search(text))
    return wants and count_subjects(text) >= _SUBJECTS


def _opening_statement(event: RecordedEvent, prompt: Sequence[Sentence]) -> Statement:
    """The beginning of a request up to the end of a sentence, and the paragraphs that continue it."""
    if prompt[0].by == SUMMARY:
        named = next((each for each in prompt if count_subjects(each.text) > _SUBJECTS), prompt[0])
        return Statement(_strip_opening(named.text), event.number)
    is_vague = count_subjects(prompt[0].text) < _SUBJECTS  # such as "Please fix it." below an error
    start = statements.flatten((is_vague and prompt[0].heading) or prompt[0].text)[:30]
    parts = statements.split_prose(event)
    place = next((place for place, part in enumerate(parts) if start in statements.flatten(part)), len(parts))
    text = _strip_opening(statements.flatten(parts[place] if parts[place:] else prompt[0].text))
    if len(text) > LONGEST_TASK:
        ends = [end.end() for end in re.finditer(r"[。！？](?=.)|(?<!\d)[.!?:][\"')`]*(?=\s)", text[:LONGEST_TASK])]
        text = text[: ends[-1]] if ends and ends[-1] > LONGEST_TASK // 4 else statements.cut_line(text, LONGEST_TASK)
        return Statement(_REQUEST["code_lead_in"].sub("", text), event.number)
    rest = statements.cut_line(" … ".join(_continue_sentence([text, *parts[place + 1 :]])), LONGEST_TASK - len(text))
    rest = rest[: max([0, *(end.end() for end in re.finditer(r"[.!?](?=\s|\Z)", rest))])]
    return Statement(text if rest else _REQUEST["code_lead_in"].sub("", text), event.number, rest)


def _continue_sentence(parts: Sequence[str]) -> Iterator[str]:
    """The first paragraphs of the parts that continue the first one, or follow a short one such as a title."""
    length = len(parts[0])
    for place, part in enumerate(parts[1:]):
        text = statements.flatten(part.strip().partition("\n\n")[0])
        if length > _SHORT_TASK and not text[:1].islower() and (place or not parts[0].endswith(":")):
            return
        length += len(text)
        yield text


def _headline(text: str) -> str:
    """A sentence as a title: without greeting and courtesy, at most LONGEST_TITLE characters."""
    opened = _strip_opening(statements.flatten(text.replace(PRIVATE, "")))
    opened = re.split(r" #{2,6} ", opened)[0]  # headings below the first one
    wish = _REQUEST["wish"].search(opened)
    bare = statements.strip_courtesy(wish[1] if wish and count_subjects(wish[1]) else opened).strip(" .!,:;?-\"'")
    for mark in ('"', "`"):
        bare = bare if bare.count(mark) % 2 == 0 else bare.replace(mark, "")
    bare = re.sub(r"(?<!\w)'(?=[^']*\Z)", "", bare)  # of a quotation that is cut
    title = bare if _NAME.match(bare) else bare[:1].upper() + bare[1:]
    if len(title) <= LONGEST_TITLE:
        return title
    head = title[:LONGEST_TITLE]
    clause = max(head.rfind(mark) for mark in (", ", "; ", ": ", " - ", " -- ", " — ", " ("))
    short = head[:clause] if clause > LONGEST_TITLE // 2 else head.rpartition(" ")[0] or head
    return _REQUEST["loose_end"].sub("", short).rstrip(" ,;:-—(")


def render_body(draft: Draft) -> str:
    """The Markdown body, a line per statement with its event; if it is too long, the longest sections shrink."""
    changed = filter(None, [*filterfalse(_is_file, draft.changed), draft.push])
    uncommitted = [*map("- not committed: {0.text} (e{0.event})".format, draft.uncommitted)]
    named = set(chain.from_iterable(each.text.split(", ") for each in draft.uncommitted))
    files = [each for each in draft.changed if _is_file(each) and each.text not in named]
    folders = defaultdict[str, list[Statement]](list)
    for each in files:
        folders[each.text.rpartition("/")[0]].append(each)
    ranked = sorted(folders.items(), key=lambda each: -len(each[1]))
    folder_lines = [_list_files(f"{folder}/: " if folder else "", some) for folder, some in ranked[:_FILE_LINES]]
    others = [*chain.from_iterable(some for _, some in ranked[_FILE_LINES:])]
    bodies = {
        "Task": [*map(_line, filter(None, [draft.task]))],
        "Asked later": [*map(_line, draft.requests)],
        "Decisions": [*map(_line, draft.decisions)],
        "Changed": [*map(_line, changed), *folder_lines, *uncommitted],
        "Tests": [*map(_line, draft.tests)],
        "Learned": [*map(_line, draft.problems)],
        "Outcome": [*map(_line, draft.findings)],
        "Open": [*map(_line, draft.open)],
        "Next": [*map(_line, filter(None, [draft.next_step]))],
    }
    while _is_too_long(bodies):
        longest = max(bodies, key=lambda name: sum(map(len, bodies[name])))
        # files are last, and commits and reported results say more than any of them; the last commit says most
        ends_with_files = longest == "Changed" and not bodies[longest][-1].startswith("- commit")
        del bodies[longest][-1 if ends_with_files else len(bodies[longest]) // 2]
    complete = bodies | {"Changed": [*bodies["Changed"], _list_files("also ", others)]}
    bodies = complete if others and not _is_too_long(complete) else bodies
    return "\n".join("\n".join([f"## {name}\n", *lines, ""]) for name, lines in bodies.items() if lines)


def _line(statement: Statement) -> str:
    lead = "" if statement.commit is None else f"{f'commit {statement.commit}'.strip()}: "
    note = f" — {statement.note}" if statement.note else ""
    return f"- {lead}{statement.text}{note} (e{statement.event})"


def _is_file(statement: Statement) -> bool:
    return not statement.note and " " not in statement.text


def _is_too_long(bodies: Mapping[str, Sequence[str]]) -> bool:
    lines = [*chain(*bodies.values())]
    return len(lines) > MOST_BODY_LINES or len("\n".join(lines)) >= LONGEST_BODY


def _list_files(lead: str, files: Sequence[Statement]) -> str:
    """A line of some files, `lib/: a.ex, b.ex`, with the events of their first changes."""
    first = files[:_FILES_PER_LINE]
    marks = ", ".join(f"e{number}" for number in sorted({each.event for each in first}))
    names = ", ".join(each.text.removeprefix(lead.removesuffix(": ")) for each in first)
    more = f" and {len(files) - len(first)} more" if len(files) > len(first) else ""
    return f"- {lead}{names}{more} ({marks})"
