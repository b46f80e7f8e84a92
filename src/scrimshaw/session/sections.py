"""The sections of a draft, apart from the decisions: what changed, what failed, what is open. Pure.

Every function returns statements, each with the event that proves it.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, dropwhile, filterfalse, groupby, pairwise, takewhile
from operator import attrgetter
from os.path import commonprefix

from scrimshaw.ingest.dialogs import FINDINGS, TASK, TASK_LIST
from scrimshaw.ingest.events import CUT_MIDDLE
from scrimshaw.models import EventKind, RecordedEvent
from scrimshaw.session import statements
from scrimshaw.session.failures import FIRM_ERRORS, LONGEST_ACT, Failure, find_errors, match_paths
from scrimshaw.session.keywords import LEAST_SUBJECTS, count_subjects, find_stems, is_clear
from scrimshaw.session.record import ACTS, LONG_WORD, SAME_CHOICE, Record
from scrimshaw.session.selection import BRIEF, Scores, is_likely, is_settled
from scrimshaw.session.statements import AGENT, LONGEST_SENTENCE, PATTERNS, SUMMARY, USER, Sentence, Statement

FEWEST_WORDS, _FEWEST_NAMED = 4, 2  # of a sentence, and of an item below "Left:" or what a person puts off
_DECISION = PATTERNS["decisions"]
NO_CHOICES = ("not_a_decision", "exploring", "scaffold")
_NUMBER = re.compile(r"\b\d+(?:[.,]\d+)*\b")  # and no hash
QUOTED = re.compile(r"`[^`\n]+`")

# Changes
MOST_REPORTED, MOST_RESULTS, MOST_COMMITS, MOST_FILES, MOST_TRACKED, MOST_LINES, MOST_NAMED = 10, 8, 12, 40, 4, 4, 8
LEAST_RESULTS, _CALLS_PER_RESULT = 3, 25
LONGEST_CHANGE, _BREAK = 240, " ⏎ "  # characters of code, added and removed, and what is between its lines
_RETOLD = 0.45  # share of a result's words that a commit also has
_CHANGE = PATTERNS["changes"]
_VERB = re.compile(rf"(?i)\b(?:{'|'.join(sorted(statements.WORDS['verbs']))})(?:e?s)?\b")

# Failures
MOST_PROBLEMS, LEAST_PROBLEMS, MOST_UNSOLVED, _CALLS_PER_PROBLEM = 12, 3, 2, 7
_STILL_NEW = 8  # events from a failure without another try to the end; an earlier failure was given up
_NEAR = 6  # events after a cause in which an agent makes changes for it
_BEGIN = 60  # characters of a cure by which two are one
_FAILURE, _COMMAND = PATTERNS["failures"], PATTERNS["commands"]

# Open points
MOST_OPEN, MOST_STEPS, _LAST_CALLS = 6, 3, 2
# Of a session; what comes earlier does not count, as most open ends are finished later. Postponed ones stay open.
_RECENT_SHARE, _THEIR_SHARE, _LATER_SHARE = 0.85, 0.6, 0.3
_OPEN, _NEED = PATTERNS["open_points"], PATTERNS["requests"]["need"]
_LATE = 0.85  # share of the events after which a point is open though it looks unlikely
_TASK = re.compile(r"(?m)^\[(\w[\w-]*)\](.*)")
_UNFINISHED = ("pending", "in_progress", "in-progress", "todo", "open")


def find_changes(record: Record) -> list[Statement]:
    """What was done, then the changed files that it does not name."""
    done, files = find_outcome(record), list_changed_files(record.edits)
    texts = [each.text for each in done]
    names = [each for each in files if not any(each.text in text or each.text.endswith(text) for text in texts)]
    is_tested = any("test" in each.text for each in done)
    return [*done, *(each for each in names if not (is_tested and "test" in each.text))]


def find_outcome(record: Record, *, with_commits: bool = True) -> list[Statement]:
    """Results in the agent's words, answers of an issue tracker, and commits or else the effect of the last diff."""
    calls = {each.source.source_call_id for each in record.items if each.source.extraction_rule_id == "issue-changed"}
    answers = [
        Statement(statements.cut_line(line.strip()), event.number)
        for event in record.events
        for line in (event.text.splitlines()[1:2] if event.call_id in calls else ())
    ]
    tracked = [x for x in answers if _CHANGE["tracker_answer"].search(x.text) and not x.text.endswith(": Closed")]
    shown = record.commits[-MOST_COMMITS:] or _find_difference(record)
    done = [*_find_results(record), *tracked[-MOST_TRACKED:]]
    told = shown if with_commits or not record.commits else []
    return [*filterfalse(partial(repeats_change, shown), done), *told]


def repeats_change(changes: Sequence[Statement], said: Statement | Sentence) -> bool:
    """Whether one of the changes has most of the words of another statement, and so says the same."""
    words, numbers = find_stems(said.text), set(_NUMBER.findall(said.text))
    told = " ".join(f"{each.text} {each.note}" for each in changes)
    if numbers - set(_NUMBER.findall(told)):
        return False
    retold = (each for each in changes if "`" not in each.note)  # an account of code is not
    shared = (len(words & find_stems(f"{each.text} {each.note}")) for each in retold)
    is_handed_over = any(each.commit is not None for each in changes) and _CHANGE["handed_over"].match(said.text)
    return bool(is_handed_over) or max(shared, default=0) >= max(LEAST_SUBJECTS, _RETOLD * len(words))


def find_findings(record: Record, changes: Sequence[Statement], scores: Scores) -> list[Statement]:
    """What a person's last words report, and what a brief session found by its longest report."""
    closing = [*filter(None, [find_closing_report(record, scores)])]
    if len(record.sentences) >= BRIEF:  # longer ones leave it to selection
        return closing
    firm = [each for each in record.answers if not _CHANGE["not_a_finding"].search(each.text)]
    says = (_CHANGE["told"], _VERB)  # an item, unless it is left to do
    firm = [x for x in firm if not x.is_item or (any(s.search(x.text) for s in says) and not statements.is_left(x))]
    empty = (_CHANGE["status"], _CHANGE["ceremony"])
    worth = [each for each in firm if is_clear(each.text) and not any(cue.search(each.text) for cue in empty)]
    answers = record.sentences_by_answer.items()
    aloud = {event for event, said in answers if _CHANGE["musing"].search(" ".join([each.text for each in said]))}
    counts = Counter(each.event for each in worth if each.is_item or each.event not in aloud)
    longest = max(counts, key=lambda event: (counts[event], event), default=0)
    report = [x for x in worth if x.event == longest and (x.is_item or longest not in aloud)][:MOST_REPORTED]
    labels = (x.heading.rstrip(": ") if x.is_item and not _CHANGE["no_label"].match(x.heading) else "" for x in report)
    told = (Statement(x.text, x.event, label) for x, label in zip(report, labels, strict=True))
    return [*(each for each in told if not repeats_change(changes, each)), *closing]


def _find_results(record: Record) -> list[Statement]:
    """What the last answer to each request says was done."""
    busy = record.changes_by_turn
    answers = [each for each in record.answers if each.turn in busy]
    vague = (_CHANGE["whole"], _CHANGE["not_a_result"], _CHANGE["status"], _DECISION["scaffold"])
    # only in the last turn the whole may be finished
    firm = [each for each in answers if not any(cue.search(each.text) for cue in vague[each.turn == max(busy) :])]
    least = LEAST_SUBJECTS if record.commits or record.difference else 1  # these say more than a vague word
    done = [each for each in firm if _CHANGE["result"].search(each.text) and is_clear(each.text, least)]
    closing = {each.turn: each.event for each in firm}
    last = [each for each in done if each.event == closing[each.turn]]
    latest = sorted(last, key=lambda each: (-each.turn, each.place))
    most = min(MOST_RESULTS, LEAST_RESULTS + record.calls // _CALLS_PER_RESULT)
    return [Statement(x.text, x.event) for x in sorted(latest[:most], key=attrgetter("event", "place"))]


def _find_difference(record: Record) -> list[Statement]:
    """The effect of the last diff on each source file: its code if that is short, otherwise definitions by name."""
    difference = record.difference
    found = list[Statement]()
    for part in difference.text.split("\ndiff --git ")[1:] if difference else ():
        path, _, body = part.partition(CUT_MIDDLE)[0].partition("\n+++ ")[2].partition("\n")
        path = path.removeprefix("b/").strip()
        lines = {sign: [" ".join(line[1:].split()) for line in body.splitlines() if line[:1] == sign] for sign in "+-"}
        codes = (groupby(filter(_CHANGE["code"].match, lines[sign])) for sign in "+-")
        added, removed = (_BREAK.join(line for line, _ in code) for code in codes)
        names = ", ".join([f"`{name}`" for name in dict.fromkeys(_name_definitions(body))][:MOST_LINES])
        change = f"in {names}" if names else ""
        if len(added) + len(removed) <= LONGEST_CHANGE:
            change = f"`{added}`{f' for `{removed}`' if removed else ''}" if added else f"without `{removed}`"
        elif added:  # a name alone says little
            change = f"{change}: `{statements.cut_line(added, LONGEST_CHANGE).rstrip(_BREAK)}`".removeprefix(": ")
        if change and difference and added != removed and not _CHANGE["scratch"].search(path) and "test" not in path:
            found.append(Statement(path, difference.number, change))
    ours = [each for each in found if not record.edits or any(path.endswith(each.text) for path in record.edits)]
    return ours[:MOST_LINES]


def _name_definitions(body: str) -> Iterator[str]:
    """The function or class of each line that a file's part of a diff changes."""
    name = ""
    for line in body.splitlines():
        if definition := _CHANGE["definition"].match(line):
            name = definition[1]
        if name and line[:1] in "+-" and line[1:].strip():
            yield name


def list_changed_files(edits: Mapping[str, Sequence[int]]) -> list[Statement]:
    """Changed files by path, the most changed of many; scratch files only if there are no others."""
    lasting = {path: numbers for path, numbers in edits.items() if not _CHANGE["scratch"].search(path)} or edits
    named = {path.rpartition("/")[2] for path in lasting if "/" in path}  # a tool may leave out the folder
    lasting = {path: numbers for path, numbers in lasting.items() if path not in named}
    ranked = sorted(lasting, key=lambda path: (-len(lasting[path]), lasting[path][0]))[:MOST_FILES]
    paths = dict(zip(edits, relative_paths(edits), strict=True))
    return [Statement(paths[path], lasting[path][0]) for path in sorted(ranked)]


def find_uncommitted(record: Record) -> Iterator[Statement]:
    """The files changed since the last commit, or left out of it by `git add`, and since git reported a clean tree."""
    commits, added, cleared = [*map(attrgetter("event"), record.commits)], "", list[tuple[int, list[str]]]()
    for event in record.events:
        command = event.command
        added += "".join(map(" {} ".format, _COMMAND["adds"].findall(command)))
        is_clean = command and _CHANGE["clean"].search(event.text)
        if is_clean or event.number in commits or (_COMMAND["amends"].search(command) and not event.failed):
            is_all = is_clean or _COMMAND["adds_all"].search(f"{added}\n{command}")
            cleared, added = [*cleared, (event.number, [] if is_all else added.split())], ""  # none means all
    later = dict[str, list[int]]()
    for path, numbers in record.edits.items():
        last = max([number for number, some in cleared if not some or match_paths(some, [path])], default=0)
        if numbers[-1] > last and not path.startswith(("/tmp/", "~")):  # these are in no repository
            later[path] = [each for each in numbers if each > last]
    if changed := list_changed_files(later):
        names = ", ".join(each.text for each in changed[:MOST_NAMED])
        more = f" and {len(changed) - MOST_NAMED} more" if len(changed) > MOST_NAMED else ""
        yield Statement(f"{names}{more}, unless by hand since then", changed[-1].event)


def find_push(record: Record) -> Iterator[Statement]:
    """The branch of the last commit if git named it, that it was pushed, by whomever since, and what was opened."""
    told, branch, opened, last = "committed", "", "", max(map(attrgetter("event"), record.commits), default=0)
    for run in record.runs:
        if run.event.number == last:
            branch = "".join(map(" on `{}`".format, _CHANGE["branch"].findall(run.event.text)[-1:]))
        if run.event.number >= last and "git push" in run.families and not run.failed:
            told, last = "pushed", run.event.number
        urls = _CHANGE["opened"].findall(run.event.text) if _COMMAND["opens"].search(run.command) else ()
        if urls and not run.failed:
            opened, last = f"{opened}, opened {urls[-1]}", run.event.number
    done = f"{told}{branch}" if record.commits and (branch or told == "pushed") else ""
    yield from [Statement(f"{done}{opened}".removeprefix(", "), last)] if done or opened else ()


def relative_paths(paths: Iterable[str]) -> list[str]:
    """Paths below the common folder of all changed files of the project; a single file keeps its folder's name."""
    scratch = _CHANGE["scratch"]
    ours = [path for path in paths if path.startswith("/") and "/." not in path and not scratch.search(path)]
    folders = [path.split("/")[:-1] for path in ours]
    shared = commonprefix(folders) if len(folders) > 1 else [*folders, [""]][0]  # noqa: RUF071 - of lists
    shared = shared[: max(2, len(shared) - (len(folders) == 1))]
    root = "/".join([*shared, ""]) if len(shared) > 1 else ""
    return [path.removeprefix(root) or path for path in paths]


def find_problems(record: Record) -> list[Statement]:
    """Failures with the cure that a later run shows, and causes that the agent acted on."""
    most = min(MOST_PROBLEMS, LEAST_PROBLEMS + record.calls // _CALLS_PER_PROBLEM)
    causes, solved = find_causes(record), dict[str, Statement]()  # of the same error the last cure counts
    for each in record.failures:
        number, end = each.run.event.number, each.following.event.number if each.following else 0
        near = [cause for cause in causes if number < cause.event < min(number + _NEAR, end)]
        why = near or (_find_explanation(record, each) if each.overcome else [])
        said = [f"(e{x.event}) {x.text} {x.note if x.note not in each.cure else ''}".rstrip() for x in why[-1:]]
        cure = "; ".join([*said, *each.cure])
        if each.overcome and each.error and cure and not _FAILURE["files_alone"].fullmatch(cure):
            causes = [cause for cause in causes if cause not in near]
            how = "passed" if each.overcome == each.passed else "got further" if each.following else "was replaced"
            ran = f"`{each.run.suspect.partition('::')[0]}` {how} in e{each.overcome.number}"
            note = f"{ran} after: {cure}" if each.following else f"{ran}: {cure}"
            if not any(x.note.startswith(note[: len(ran) + _BEGIN]) for x in solved.values()):
                solved[each.error] = Statement(each.error, number, note)
    return sorted([*causes[-most:], *[*solved.values()][-most:]], key=attrgetter("event"))


def _find_explanation(record: Record, failure: Failure) -> list[Statement]:
    """What the agent said soon after a failure, before what it did about it."""
    begin, end = failure.run.event.number, failure.overcome.number if failure.overcome else 0
    if failure.run.families[0].startswith("git ") or any(map(_CHANGE["scratch"].search, failure.run.command.split())):
        return []
    later = [x.number for x in record.events if begin < x.number < end and statements.begins_turn(x)]
    spoken = {record.turns[x] + 1 for x in record.corrections} | {record.turns[x] for x in record.replies}
    end = next((number for number in later if record.turns[number] not in spoken), end)
    acted = [number for number in record.carried_out if begin < number < end]
    near = min(end, begin + _NEAR, *later)
    soon = [each.event for each in record.answers if begin < each.event < near]
    tried = [[number for number in soon if number in acted] or soon, acted]
    told = next(filter(None, (read_explanation(record, max(numbers)) for numbers in tried if numbers)), [])
    if told or any(each.startswith("edited ") for each in failure.cure):
        return told
    replies = [x for x in record.sentences if x.event in later[:1] and x.event <= begin + _NEAR]
    explains = all("?" not in each.text for each in replies)
    return [Statement(x.text, x.event) for x in replies if is_clear(x.text, 1) and explains][:1]


def _read_facts(record: Record, number: int) -> Iterator[Statement]:
    """What an answer says of the code, if it names some and leads not on from something else."""
    for each in read_explanation(record, number):
        whole = f"{each.text} {each.note}".rstrip(": ")
        is_vague = any(cue.search(whole) for cue in (_FAILURE["not_a_cause"], _OPEN["aside"]))
        if not is_vague and QUOTED.search(whole) and count_subjects(whole) > LEAST_SUBJECTS:
            yield each


def read_explanation(record: Record, number: int) -> list[Statement]:
    """What an answer states, unless it thinks aloud, first of all with code or a reason; the rest is the note."""
    said = record.sentences_by_answer.get(number, ())
    said = [each for each in said if not (each.is_item and _DECISION["asks_to_choose"].search(each.heading))]
    said = said[:-1] if number in record.refusals else said
    cues = [_FAILURE["no_trouble"], _CHANGE["result"], _CHANGE["ceremony"], *map(_DECISION.__getitem__, NO_CHOICES[1:])]
    firm = [each for each in said if not any(cue.search(each.text) for cue in cues)]
    kept, room = set[int](), LONGEST_SENTENCE + 1
    for each in sorted(firm, key=lambda x: -bool(QUOTED.search(x.text)) - bool(_DECISION["reason"].search(x.text))):
        if len(each.text) < room:
            kept.add(each.place)
            room -= len(each.text) + 1
    told = [each for each in firm if each.place in kept]
    is_guess = number in record.guesses or _CHANGE["musing"].search(" ".join([each.text for each in said]))
    if is_guess or not any(is_clear(each.text) for each in told):
        return []
    ends = (place for place, (each, after) in enumerate(pairwise(told), start=1) if each.place + 1 != after.place)
    end = 1 if any(each.is_item for each in told) else next(ends, len(told))
    return [Statement(" ".join([each.text for each in told[:end]]), number, statements.join_sentences(told[end:]))]


def find_causes(record: Record) -> list[Statement]:
    """Causes that the agent named and acted on at once, except those that the task already states."""
    changed = sorted(chain.from_iterable(record.edits.values()))
    found, musings, heard = _find_reactions(record), set[int](), record.sentences[::-1]
    for each, after in zip(heard, [*heard[:1], *heard], strict=False):
        if _DECISION["doubt"].match(each.text):  # the earlier statement does not hold
            musings.add(each.event)
        if each.by == AGENT and each.place <= 1 and not each.is_item and _FAILURE["found_out"].search(each.text):
            found |= {fact.event: fact for fact in read_explanation(record, each.event)}
        is_cause = _FAILURE["diagnosis"].search(each.text) and not _FAILURE["not_a_cause"].search(each.text)
        following = changed[bisect_right(changed, each.event) :][:1]
        is_near = bool(following) and (following[0] < each.event + _NEAR or record.turns[following[0]] <= each.turn + 1)
        is_met = each.by == SUMMARY or (each.by == AGENT and is_near)
        text = after.text if not is_clear(each.text) and after.event == each.event else each.text  # "Found the cause."
        is_firm = is_clear(text) and each.event not in musings and not _FAILURE["not_a_cause"].search(text)
        words = set(LONG_WORD.findall(text.lower()))
        is_news = len(words & record.user_words) < SAME_CHOICE * len(words)  # users did not say most of it themselves
        if is_cause and is_met and is_firm and is_news:
            found.setdefault(each.event, Statement(text, each.event))
    for before, answer, prompt in zip(record.events, record.events[1:], record.events[2:], strict=False):
        looked = before.kind == EventKind.TOOL and record.turns[answer.number] not in record.changes_by_turn
        asks_why = statements.begins_turn(before) and _FAILURE["asks_why"].search(before.text)
        is_found = (looked and statements.begins_turn(prompt)) or asks_why  # what such a turn found
        if is_found and answer.kind == EventKind.ANSWER:
            found = {fact.event: fact for fact in _read_facts(record, answer.number)} | found
    return sorted(found.values(), key=attrgetter("event"))


def _find_reactions(record: Record) -> dict[int, Statement]:
    """What was said before a lasting change: facts, and after a failed call or as a cause the fault, and the act."""
    failed = set(map(attrgetter("event.number"), filter(attrgetter("failed"), record.runs)))
    found = dict[int, Statement]()
    for before, said in pairwise(record.events):
        if said.number not in record.carried_out or _CHANGE["musing"].search(said.text):
            continue
        has_failed = before.failed or before.number in failed
        texts = [each.text for each in record.sentences_by_answer.get(said.number, ())]
        after = record.carried_out[said.number]
        command = "" if after.path else after.input
        is_soon = before.kind != EventKind.PROMPT and after.number < said.number + _NEAR
        facts = _read_facts(record, said.number) if is_soon else ()
        found |= {fact.event: fact for fact in facts}  # right after a prompt an answer repeats what was asked
        if not (has_failed or _FAILURE["diagnosis"].search(said.text)):
            continue
        note = f"`{statements.cut_line(command, LONGEST_ACT)}`" if _FAILURE["remedy"].search(command) else ""
        for what, act in zip(texts, [*texts[1:], ""], strict=False):
            is_vague = not count_subjects(what) or _DECISION["scaffold"].search(what)
            is_named = not is_vague and not _FAILURE["no_trouble"].search(what)
            acts = _FAILURE["repair"].search(act) and not _DECISION["scaffold"].search(act)
            if is_named and acts and len(what) + len(act) < LONGEST_SENTENCE and _FAILURE["wrong"].search(what):
                found[said.number] = Statement(f"{what} {act}", said.number, note)
            elif is_named and has_failed and _FAILURE["diagnosis"].search(what):
                found.setdefault(said.number, Statement(what, said.number, note))
    return found


def find_unsolved(record: Record) -> list[Statement]:
    """The last failures without a change or a pass after them, except those that are said to have failed before."""
    known = [each.event for each in record.sentences if _FAILURE["known_before"].search(each.text)]
    later = max(sum(map(list, record.edits.values()), [*known, record.last_event - _STILL_NEW]))
    found = list[Statement]()
    for run, _, following, *_, is_open, _ in record.failures:
        line = "".join(find_errors(run.event, FIRM_ERRORS)[:1])
        if line and is_open and not following and run.event.number > later:
            command = run.families[0] if len(run.families) == 1 else statements.cut_line(run.command)
            found.append(Statement(line, run.event.number, f"`{command}` failed when last run"))
    return found[-MOST_UNSOLVED:]


def find_left(record: Record, scores: Scores) -> list[Statement]:
    """The open points that nobody reports as done; early ones must be likely, as most are done in the end."""
    late = _LATE * record.last_event if len(record.sentences) >= BRIEF else 0
    found = find_open_points(record, find_unsolved(record))
    likely = (each for each in found if each.event >= late or is_likely(record, scores, each))
    return [*filterfalse(partial(is_settled, record), likely)]


def find_open_points(record: Record, unsolved: Sequence[Statement] = ()) -> list[Statement]:
    """The last failures, unfinished tasks of a task list, and what was said to be left."""
    left, changed = _find_unfinished_tasks(record), max(chain([0], *record.edits.values()))
    heard = [*filterfalse(record.is_withdrawn, record.sentences)]
    # What is asked after the last work, or a commit of it, does not settle what its answer left.
    closing = dict(map(attrgetter("turn", "event"), record.answers)).get(record.last_work, 0)
    for before, each in zip([None, *heard], heard, strict=False):
        is_known, is_closing = bool(_FAILURE["known_before"].search(each.text)), each.event == closing > changed
        if not _says_what_is_left(each, each.event / max(1, record.last_event), is_known, is_closing):
            continue
        defers = _defers(each, "puts_off") or _defers(each, "theirs")
        is_vague = _OPEN["pointing"].match(each.text) or (defers and not is_clear(each.text))
        is_part = before and before.event == each.event and is_vague and not statements.is_imperative(before.text)
        text = f"{before.text} {each.text}" if before and is_part else each.text
        is_listed = each.by == AGENT and statements.is_left(each)
        least = 1 if is_known or is_closing or is_listed else LEAST_SUBJECTS
        is_short = len(text.split()) < (_FEWEST_NAMED if is_listed or defers else FEWEST_WORDS)
        is_telling = is_clear(text, least) and not is_short
        if _defers(each, "theirs") or (is_telling and (is_listed or not _OPEN["not_open"].search(text))):
            left = [one for one in left if one.event != each.event or one.text not in text]
            left.append(Statement(text, each.event))
    for prompt in sorted(record.prompts_by_kind["undecided"]):
        question = record.quote_offer(answer := record.replies.get(prompt, 0))
        if prompt >= _LATER_SHARE * record.last_event and question:
            left.append(Statement(question, answer, f"not decided in e{prompt}"))
    return [*unsolved, *left[-(MOST_OPEN - len(unsolved)) :]]


def _says_what_is_left(said: Sentence, share: float, is_known: bool, is_closing: bool) -> bool:
    """Whether a sentence, after this share of all events, says what is left to do, or fails for an older reason."""
    is_argued = said.is_item and said.by == AGENT and not _OPEN["label"].match(said.text)
    if is_argued and any(_OPEN[cue].search(said.heading) for cue in ("argument", "done")):
        return False
    is_unfinished = is_known or statements.is_left(said) or _OPEN["unfinished"].search(said.text)
    is_theirs = share >= _THEIR_SHARE and _defers(said, "theirs")
    is_postponed = share >= _LATER_SHARE and (_OPEN["deferred"].search(said.text) or _defers(said, "puts_off"))
    return bool(is_theirs or is_postponed or (is_unfinished and (share >= _RECENT_SHARE or is_closing)))


def _defers(said: Sentence, cue: str) -> bool:
    """Whether a person puts something off (`puts_off`), or will do it themselves (`theirs`)."""
    return said.by == USER and bool(_OPEN[cue].search(said.text))


def _find_unfinished_tasks(record: Record) -> list[Statement]:
    """What is unfinished of the agent's tasks and of what a review found, without what a later commit names."""
    tasks, last = dict[tuple[str, str], tuple[str, Statement]](), 0
    for event in record.events:
        heading, _, lines = event.text.partition("\n") if event.kind == EventKind.TOOL else ("", "", "")
        is_list = heading in (TASK_LIST, FINDINGS)
        if is_list:  # it replaces the one before
            tasks = {name: task for name, task in tasks.items() if name[0] != heading}
        elif not heading.startswith(TASK):
            continue
        for status, text in _TASK.findall(lines):
            name, last = (heading, text if is_list else ""), event.number
            told = Statement(text.strip(), last)  # a new status alone does not repeat the text
            tasks[name] = (status, told if told.text or name not in tasks else tasks[name][1])
    left = [task for status, task in tasks.values() if status in _UNFINISHED and task.text]
    return [*filterfalse(partial(repeats_change, [x for x in record.commits if x.event > last]), left)]


def find_next_step(record: Record) -> Statement | None:
    """A request without an answer or only noted, or else what the last answer names, asks or announces as next."""
    heard, away = record.events, _OPEN["bookkeeping"]
    passed = record.noted | record.prompts_by_kind["leaves"]
    kept = [x for x in heard if x.number not in passed and not (x.kind == EventKind.TOOL and away.match(x.text))]
    acts = [each for each in kept if each.kind in ACTS]
    after = kept[kept.index(acts[-1]) :] if acts else kept
    is_answered = EventKind.STOP in map(attrgetter("kind"), after)  # maybe in words said before, such as "Done."
    if not is_answered and (asked := _find_open_request(record, acts)):
        is_noted = max(record.noted, default=0) > acts[-1].number
        breaks_off = acts[-1].kind == EventKind.TOOL
        first = 0 if breaks_off else _find_first_ahead(record, asked, is_noted=is_noted)
        asked = asked[first:] if first is not None else []
        text = _join_said(record, asked)
        is_put_off = any(_OPEN[cue].search(x.text) for cue in ("deferred", "puts_off") for x in asked)  # an open point
        is_nothing = not asked or (is_noted and (is_put_off or not is_clear(text)))
        return None if is_nothing else Statement(statements.cut_line(text, LONGEST_SENTENCE), asked[0].event)
    last = acts[-1] if acts else None
    if last and last.kind == EventKind.TOOL and not _OPEN["hands_in"].search(last.text):  # it broke off
        said = [each for each in record.answers if record.turns[each.event] == record.turns[last.number]][-1:]
        return next((Statement(x.text, x.event) for x in said if _OPEN["announces"].search(x.text)), None)
    # otherwise a later call did it, or something else
    return _find_announced_step(record, last) if last and last.kind == EventKind.ANSWER else None


def find_closing_report(record: Record, scores: Scores) -> Statement | None:
    """What a person tells in a last prompt that leads to no call, up to what they ask or plan: how it ended."""
    acts = [*dropwhile(lambda x: record.turns[x.number] < max(record.turns.values()), record.events)]
    kinds = {each.kind for each in acts}
    if EventKind.TOOL in kinds or not acts or acts[0].kind != EventKind.PROMPT or record.turns[acts[0].number] == 1:
        return None
    number, answer = acts[0].number, record.replies.get(acts[0].number, 0)
    said = [each for each in record.sentences if each.event == number]
    text = _join_said(record, said[: _find_first_ahead(record, said)])
    question = record.quote_offer(answer, text) if answer else ""
    told = Statement(text, number, f"on (e{answer}): {question}" if question else "")
    is_asked = EventKind.ANSWER in kinds and any("?" in x.text or statements.is_imperative(x.text) for x in said)
    is_news = not is_asked and (EventKind.ANSWER not in kinds or is_likely(record, scores, told))
    return told if (is_news and len(text.split()) >= FEWEST_WORDS) or _OPEN["over"].search(text) else None


def _find_first_ahead(record: Record, said: Sequence[Sentence], *, is_noted: bool = False) -> int | None:
    """The place of the first sentence that asks for something, plans or complains; of a first prompt the first."""
    cues = [_OPEN["ahead"], *([] if is_noted else [_OPEN["trouble"]])]
    for place, each in enumerate(said):
        asks = "?" in each.text or statements.is_imperative(each.text) or _NEED.search(each.text)
        plans = any(cue.search(each.text) for cue in cues) or _defers(each, "puts_off") or _defers(each, "theirs")
        if (asks or plans or each.turn == 1) and not (_is_farewell(each) or _OPEN["refuses"].search(each.text)):
            return place
    return None


def _is_farewell(said: Sentence) -> bool:
    """Whether a sentence of a person's last words takes leave, thanks or praises, and tells nothing."""
    is_brief = len(said.text.split()) < FEWEST_WORDS or any(_OPEN[x].search(said.text) for x in ("thanking", "leaves"))
    tells = any(_OPEN[cue].search(said.text) for cue in ("ahead", "over")) or statements.is_imperative(said.text)
    return bool(_OPEN["thanks"].match(said.text)) or (is_brief and not tells)


def _join_said(record: Record, said: Sequence[Sentence]) -> str:
    """What sentences of one prompt tell that follow each other, without praise and farewell around it."""
    kept = [*said]
    for end in (0, -1):
        while kept and _is_farewell(kept[end]):
            kept.pop(end)
    event = next((each for each in record.events if kept and each.number == kept[0].event), None)
    text = " ".join([each.text for each in kept])
    is_whole = event and len(text) <= LONGEST_SENTENCE and statements.contains_text(event, text)
    return text if is_whole or not kept else kept[0].text


def _find_announced_step(record: Record, answer: RecordedEvent) -> Statement | None:
    """What an answer names as next, or asks or announces at its end; of a list some of the rest is its note."""
    tools = [event.input.lower() for event in record.events if event.kind == EventKind.TOOL]
    closing = record.sentences_by_answer.get(answer.number, ())
    named = [each.text for each in closing if _OPEN["next"].search(each.text) or _OPEN["next"].search(each.heading)]
    lines = [line.strip() for line in answer.text.splitlines() if line.strip()]
    last = [*statements.split_paragraph(lines[-1])][-1].strip() if lines else ""
    begins = _OPEN["lead_in"].match(last)
    announces = begins and (_OPEN["intends"].search(begins[0]) or statements.is_imperative(last[begins.end() :]))
    named += [last] if last.endswith("?") or announces else []
    named = [each for each in named if not _CHANGE["ceremony"].search(each)]
    step = next((each for each in named if count_subjects(each) and len(each) <= LONGEST_SENTENCE), "")
    words = [*_OPEN["ready_to"].findall(step), *_OPEN["lead_in"].sub("", step).split()[:1]]
    is_done = any(re.search(rf"\b{re.escape(word.lower())}", each) for word in words for each in tools[-_LAST_CALLS:])
    items = takewhile(lambda line: line.endswith("?") and statements.trim(line) != line, reversed(lines))
    questions = [statements.trim(line) for line in items][::-1]
    steps = [each.text for each in closing if each.is_item and _OPEN["next"].search(each.heading)]
    listed = questions if statements.trim(step) in questions else steps if step in steps[:1] else []
    more = "; ".join([each.rstrip(".") for each in listed[1:MOST_STEPS]])
    step = listed[0] if more else step
    return Statement(step, answer.number, f"then: {more}" if more else "") if step and not is_done else None


def _find_open_request(record: Record, acts: Sequence[RecordedEvent]) -> Sequence[Sentence]:
    """The last request, if only calls, announcements and prompts such as "retry" follow it."""
    asked, breaks_off = list[Sentence](), acts and acts[-1].kind == EventKind.TOOL
    for act in reversed(acts):
        if act.kind == EventKind.TOOL:
            continue
        said = [each for each in record.sentences if each.event == act.number]
        words = " ".join([each.text for each in said])
        begins = said[0].text if said else ""  # "it is `pg_dump`. I'll keep the old name" answers
        announces = _DECISION["intent"].search(begins) or (breaks_off and _DECISION["exploring"].search(act.text))
        if act.kind == EventKind.ANSWER and (not announces or words.endswith("?") or _CHANGE["result"].search(words)):
            break
        asked = [each for each in said if each.by == USER] or asked
        if act.kind == EventKind.PROMPT and len(words.split()) >= FEWEST_WORDS:
            break
    return asked
