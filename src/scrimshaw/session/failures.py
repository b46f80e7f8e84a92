"""What was run and failed, what was done about it and whether that helped: for drafts, states and fixes. Pure.

An error is overcome when the next run of the same command or test passes, or fails with another error that cannot hide
this one. A cure is only given if little was changed before: the only change, or those that the error names.
"""

import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import filterfalse, pairwise, takewhile
from operator import attrgetter
from typing import NamedTuple, cast

from scrimshaw.ingest import extraction
from scrimshaw.ingest.events import CUT_MIDDLE
from scrimshaw.ingest.tables import load_lines
from scrimshaw.ingest.tool_calls import find_written_files, parse_command
from scrimshaw.models import EventKind, Item, ItemKind, RecordedEvent
from scrimshaw.search.tokens import STOP_WORDS
from scrimshaw.session.statements import PATTERNS, WORDS, LazyPattern, Sentence, Statement, cut_line

MOST_ACTS = 3  # for one failure: more changes had other reasons
LONGEST_ACT = 160  # characters of a command, and of a change
_FAMILY_WORDS, _FAR = 3, 30  # events from a failure to its next run: changes over a longer time had other reasons
_FAILURE, _CHANGE, _COMMAND = PATTERNS["failures"], PATTERNS["changes"], PATTERNS["commands"]
_TEST, _SELECTS = _COMMAND["test"], _COMMAND["selects"]
_NAMES = "\n".join(load_lines(extraction.__file__, "summaries", "failed_name"))
_FAILED_TEST = cast("re.Pattern[str]", LazyPattern(_NAMES))
_ERROR_LINES = [_FAILED_TEST if place == 1 else _FAILURE[f"error_line_{place + 1}"] for place in range(5)]
FIRM_ERRORS = _ERROR_LINES[:-1]
# Every report of a failure contains one of these; searching for them takes a twentieth of the pattern's time.
_SIGNS = ("ail", "FAIL", "rror", "ERROR=", "Traceback", "** (", " -1:")
LONGEST_SUBJECT = 110  # characters of a commit's first line; one and a half times what is customary
_COMMIT_ANSWER = re.compile(r"(?m)^\s*\[[^\]\n]{1,100} [0-9a-f]{7,40}\] (\S[^\n]*)")
_LISTED_COMMIT = re.compile(r"(?m)^[ *]*(?:\[[^\]\n]{1,100} )?([0-9a-f]{7,12})\]? (?:\([^()\n]*\) )?(\S[^\n]*)")
_FOLDER = re.compile(r"(?:\A|[;&] *)cd ([/~][^\s;&]*)")
_LOOK = re.compile(r" (?:--help|--version|-h|-V|--co(?:llect-only)?|--list(?:-?[tT]ests)?|show-(?:trace|report))\b")
_NO_SUBJECT = ("empty", "soft", "folders", "extensions")
_SHARED_WORDS = STOP_WORDS.union({"assert", "edited"}, *map(WORDS.__getitem__, _NO_SUBJECT))
MOST_TEST_RUNS, MOST_CHECKS, MOST_NAMES = 2, 3, 3
LONGEST_PRINTED = 100  # characters of a line that a script printed
_SUBSTITUTES, _SOON = 3, 8  # runs, and events, after a failed one
_OPERAND = re.compile(r"(?!\S*/activate)[\w.-]*[/.][\w./-]*[a-z]\w*\Z")  # a path, or a name with a dot
_SHORT_OUTPUT, _ANYTHING = 5, re.compile("")  # lines of an output that can only be the error
_WORD, _NUMBER = re.compile(r"[a-z]{4,}"), re.compile(r"\d+")  # numbers alone do not make another error

Edits = Mapping[str, Sequence[int]]  # the numbers of the events that changed a file, by path as the tool gave it


class CommandRun(NamedTuple):
    """A command that was run; a family is the words of a step's program and purpose, without options and files."""

    event: RecordedEvent
    command: str
    families: Sequence[str]  #: of its steps
    failed: bool
    errors: Sequence[str] = ()  #: of a failed run the lines that say most about what went wrong; maybe an empty one
    tests: Sequence[str] = ()  #: the names of the tests that failed

    @property
    def suspect(self) -> str:
        """The step that may have failed: of tests if some are named, else the last after others, or else the first."""
        tests = [each for each in self.families if _TEST.search(each)] if self.tests else []
        return [*self.families[: None if "; " in self.command or self.is_past_tests else 1], *tests][-1]

    @property
    def is_past_tests(self) -> bool:
        """Whether the output counts tests of an earlier step, and none that failed."""
        is_last = _find_test_step(self) in (self.command, _split_steps(self.command)[-1])
        tallies = [] if is_last else [*filter(_FAILURE["tally"].search, self.event.text.splitlines()[1:])]
        return bool(tallies) and not any(map(_FAILURE["failing"].search, tallies))

    def repeats(self, other: "CommandRun") -> bool:
        """Whether this is a run of the same command or selection, or of more tests, or of one that failed."""
        folders = [_FOLDER.findall(each.command)[:1] for each in (self, other)]
        is_elsewhere = all(folders) and folders[0] != folders[1]
        is_look = _LOOK.search(self.command) and not _LOOK.search(other.command)
        family, tests = other.suspect, [*filter(_TEST.search, self.families)]
        is_whole = any(family.startswith(each if each.endswith("/") else f"{each} ") for each in tests)
        is_same = family in self.families or is_whole or any(_includes(each, family) for each in tests)
        chosen, before = (_SELECTS.findall(each.command) for each in (self, other))
        if chosen and chosen != before and any(map(_TEST.search, other.families)):
            names = " ".join([name.split()[0].rpartition("::")[2] for name in other.tests])
            is_same = any(word in names for word in re.findall(r"\w{3,}", f"{chosen}"))
        files = _find_test_step(self).split()[1:] if self.event.session != other.event.session else ()
        is_other = any(_OPERAND.match(each) and each not in other.event.text for each in files)  # did not fail there
        return is_same and not (is_elsewhere or is_look or is_other)


def _includes(tests: str, others: str) -> bool:
    """Whether a command runs the tests of another and more: each of its paths, or a folder above that."""
    named, wanted = ([word for word in each.split()[1:] if "/" in word] for each in (tests, others))
    programs = [[word for word in each.split() if word not in (*named, *wanted)] for each in (tests, others)]
    below = (any(f"{path}/".startswith(f"{each.rstrip('/')}/") for each in named) for path in wanted)
    return programs[0] == programs[1] and bool(wanted) and all(below)


class Failure(NamedTuple):
    """The last run of a command or test that failed in one way, before it passed."""

    run: CommandRun
    error: str  #: the first line of its error that the next run does not repeat, or of all
    following: CommandRun | None  #: its next run, which passed or failed differently
    passed: RecordedEvent | None  #: the later run that passed
    overcome: RecordedEvent | None  #: the first later run without the error
    is_open: bool  #: whether no command but git's succeeded since
    cure: Sequence[str]  #: what `following` had in addition, and what was run and changed before it


def find_edits(events: Sequence[RecordedEvent], items: Sequence[Item]) -> Edits:
    """The numbers of the events that changed each file and were not reverted later, by path, with slashes."""
    found, spans, committed = dict[str, list[int]](), dict[str, tuple[int, int]](), 0  # of commits by their text
    attempts = _find_attempts(events, items)
    for event in events:
        path = event.path.replace("\\", "/")  # tools of one session write both
        if event.number in attempts:
            # The answer to a patch names what it deleted; a file that it rewrote was deleted and added.
            deletes = f"\nD {event.path}" in event.text and f"\nA {event.path}" not in event.text
            found[path] = [] if deletes else [*found.get(path, ()), event.number]
        command = event.command
        writes = not event.path and not event.failed and _COMMAND["writes"].search(command)
        for old, new in find_written_files(command) if writes else ():
            found.setdefault(new, found.pop(old, [])).append(event.number)
        for taken in _COMMAND["takes_back"].finditer(command):
            if event.failed and not taken["removal"]:  # of several files `rm` removes those that exist
                continue
            first = 0 if taken["removal"] else committed  # a removed file is gone, committed or not
            found |= {path: [each for each in found[path] if each <= first] for path in _choose_paths(taken, found)}
        if _COMMAND["undoes"].search(command) and not event.failed:
            subject = "".join(_CHANGE["reverted"].findall(event.text)[:1])
            begin, end = spans.pop("".join([text for text in spans if subject in text][-1:]), (0, 0))
            found = {path: [each for each in numbers if not begin < each <= end] for path, numbers in found.items()}
        elif _COMMAND["commit"].search(command) and not _is_refused(event):
            spans[event.text], committed = (committed, event.number), event.number
    return {path: numbers for path, numbers in found.items() if numbers}


def _find_attempts(events: Sequence[RecordedEvent], items: Sequence[Item]) -> set[int]:
    """The numbers of the events that changed a file, even if it was reverted later."""
    by_shell = {each.source.source_call_id for each in items if each.text.startswith(("Edit ", "Write "))}
    writing = [x for x in events if x.tool in ("Edit", "Write") or (x.tool == "Bash" and x.call_id in by_shell)]
    return {x.number for x in writing if x.path and x.failed is not True and not _CHANGE["edit_refused"].search(x.text)}


def _choose_paths(taken: re.Match[str], paths: Iterable[str]) -> list[str]:
    """The paths that a command reverts: by the name of any part for a removal, otherwise by the end of the path."""
    words = [word.rstrip("/") for word in taken["files"].split()]
    if taken["removal"]:
        names = [name for word in words if len(name := word.rpartition("/")[2]) > 2]
        return [path for path in paths if any(fnmatchcase(part, name) for name in names for part in path.split("/"))]
    if "reset" in taken[0] or words[-1:] == ["."]:
        return [] if any(word.startswith("--") for word in words if word != "--") else [*paths]
    return match_paths(words, paths)


def match_paths(words: Iterable[str], paths: Iterable[str]) -> list[str]:
    """The paths that end with one of these words, or lie in a folder that does."""
    named = [f"/{word.removeprefix('./').rstrip('/')}/" for word in words]
    return [path for path in paths if any(f"/{path}/".endswith(name) or name in f"/{path}" for name in named)]


def find_runs(events: Sequence[RecordedEvent], items: Sequence[Item]) -> list[CommandRun]:
    """The commands that were run, in order, except those that read, search or move files."""
    reported = {each.source.source_call_id for each in items if each.kind == ItemKind.ERROR}
    found = []
    for event in events:
        command = event.command if event.kind == EventKind.TOOL and not event.path else ""
        if command and not _FAILURE["gives_up"].search(command) and (families := _find_families(command)):
            tells = any(sign in event.text for sign in _SIGNS) and _FAILURE["failing"].search(event.text)
            failed = event.failed is True or event.call_id in reported or bool(tells)
            errors = find_errors(event) if failed else []
            if failed and not errors:
                output = find_errors(event, [_ANYTHING])[:: -1 if families[1:] else 1]
                errors = [output[0] if event.failed and 0 < len(output) <= _SHORT_OUTPUT else ""]
            tests = _FAILED_TEST.findall(event.text) if failed else ()
            found.append(CommandRun(event, command, families, failed, errors, tests))
    return found


@lru_cache(maxsize=1024)  # one in four commands of a session was run before
def _find_families(command: str) -> Sequence[str]:
    """Program and purpose of each step that matters: `cd a && mix test 2>&1 | tail` runs `mix test`."""
    found = list[str]()
    command = _COMMAND["shell"].sub(r"\1\2", command)
    for step in _COMMAND["step"].findall(command) if parse_command(command).name == "Run" else ():
        bare = _COMMAND["wrapper"].sub("", step.split("|")[0].strip())
        bare = _COMMAND["global_options"].sub(r"\1", _COMMAND["build_options"].sub(r"\1", bare))
        words = [word for word in bare.split() if not _COMMAND["no_word"].match(word)]
        if len(words) > 1 and _COMMAND["interpreter"].match(words[0]) and words[1].startswith("-"):
            # a line of code is not a command to be run again, unless it runs tests
            words = words[2:] if words[1] == "-m" else [step.strip()] * bool(_TEST.search(step))
        words[:1] = filter(None, [re.sub(r"\A(?!\./bin/).*/bin/", "", word) for word in words[:1]])  # ./bin has its own
        if words and words[0] not in WORDS["trivial_programs"] and not words[0].endswith("/"):
            options = next((place for place, word in enumerate(words) if word.startswith("-")), len(words))
            # Where options come first all words count, and another query is another command.
            end = len(words) if options == 1 and not _TEST.search(words[0]) else max(2, options)
            purpose = [word for word in words[1:end] if re.match(r"[A-Za-z][\w.:/-]*\Z", word)]
            purpose = purpose[len(purpose) > 1 and purpose[0] == "clean" :]  # `mvn clean verify` verifies
            family = " ".join([words[0], *purpose[: 1 if words[0] == "git" else _FAMILY_WORDS - 1]])
            found.append(cut_line(" ".join(words)) if _COMMAND["queries"].match(words[0]) else family)
    return found


def find_commits(events: Sequence[RecordedEvent]) -> list[Statement]:
    """Commits by subject, from git's answer or else from the command, that were neither repeated nor reverted."""
    found, hashes = dict[str, int](), dict[str, str]()
    for event in events:
        answers = _COMMIT_ANSWER.findall(event.text)  # prove it even if a later step of the command failed
        if event.tool != "Bash" or (event.failed is True and not answers) or "git" not in event.text:
            continue
        command = event.command
        messages = answers or ([] if _is_refused(event) else _COMMAND["commit_message"].findall(command))
        if not messages and not event.failed and (file := _COMMAND["message_file"].search(command)):
            written = [each.text for each in events if each.number < event.number and each.path == file[1]]
            messages = _CHANGE["first_line"].findall(written[-1])[:1] if written else []
        subjects = [_CHANGE["message_body"].split(each.strip())[0] for each in messages]
        if found and _COMMAND["amends" if subjects else "uncommits"].search(command):
            found.popitem()
        for subject in (cut_line(each.strip(), LONGEST_SUBJECT) for each in subjects):
            reverted = _CHANGE["reverts"].match(subject)
            found.pop(reverted[1] if reverted else subject, None)
            found[subject] = event.number
        hashes |= {cut_line(subject, LONGEST_SUBJECT): name for name, subject in _LISTED_COMMIT.findall(event.text)}
    return [Statement(each, number, commit=hashes.get(each, "")) for each, number in found.items()]


def _is_refused(event: RecordedEvent) -> bool:
    """Whether a command that commits failed, or a hook stopped it, which not every client reports as a failure."""
    return bool((event.failed or _CHANGE["refused"].search(event.text)) and not _COMMIT_ANSWER.search(event.text))


def find_failures(
    events: Sequence[RecordedEvent], items: Sequence[Item], runs: Sequence[CommandRun], edits: Edits
) -> Iterator[Failure]:
    """The failures in order; of the runs of a command that failed in the same way before it passed the last."""
    attempts = _find_attempts(events, items)
    for place, run in enumerate(runs):
        if not run.failed:
            continue
        later = runs[place + 1 :]
        again = [each for each in later if each.repeats(run)]
        red = [*takewhile(attrgetter("failed"), again)]
        repeated = {_NUMBER.sub("", line) for each in red for line in each.errors}
        is_cut = any(CUT_MIDDLE in each.event.text for each in red)  # what was cut may repeat others than the first
        errors = [each for each in run.errors[: 1 if is_cut else None] if _NUMBER.sub("", each) not in repeated]
        if not errors:
            continue
        following, passed = next(iter(again), None), next((each.event for each in again[len(red) :]), None)
        is_past = following is not None and _is_past(run, following)
        end = following.event.number if following and (passed or is_past) else 0
        until = passed.number if passed else max((each.event.number for each in red), default=0)
        between = [each for each in events if run.event.number < each.number < end]
        is_lasting = all(
            each.number in edits.get(each.path.replace("\\", "/"), ()) for each in between if each.number in attempts
        )
        acts = [*_find_cure(run, errors[0], following, between, attempts)] if following and end and is_lasting else []
        own = {each.path for each in events if each.number in attempts and each.number < run.event.number}
        anew = [each for each in events if end < each.number < until and each.failed is not True]
        redone = {each.path if each.number in attempts else each.input for each in anew}
        cure = [act for act, done in acts if done not in own and not any(done in each for each in redone)]
        is_open = not any(not each.failed and not each.families[0].startswith("git ") for each in later)
        overcome = following.event if following and (is_past or cure) else passed
        if not again and (other := _find_substitute(run, later)):
            overcome, cure = other.event, [f"`{cut_line(other.command, LONGEST_ACT)}` instead"]
        yield Failure(run, errors[0], following, passed, overcome, is_open, cure)


def _find_substitute(run: CommandRun, later: Sequence[CommandRun]) -> CommandRun | None:
    """The other program that soon did what a failed one, not of tests, was to do: it names that or one of its files."""
    program = run.suspect.split()[0]
    words = "|".join(map(re.escape, {program, *filter(_OPERAND.match, run.command.split())}))
    names = re.compile(rf"(?:\A|[\s/])(?:{words})(?:\Z|[\s:@])").search
    soon = [each for each in later[:_SUBSTITUTES] if each.event.number < run.event.number + _SOON and not each.failed]
    others = (each for each in soon if each.suspect.split()[0] not in (program, "git") and names(each.command))
    return next(others, None) if not any(map(_TEST.search, run.families)) else None


def find_reports(events: Sequence[RecordedEvent], runs: Sequence[CommandRun], edits: Edits) -> Iterator[Failure]:
    """The errors last reported by a person or a log: failures of no command, overcome by tests after a change."""
    changed, turn, later = {number for numbers in edits.values() for number in numbers}, list[RecordedEvent](), ""
    for event in reversed(events):
        is_prompt = event.kind == EventKind.PROMPT
        if turn and (is_prompt or (event.kind == EventKind.TOOL and _FAILURE["log"].match(event.text))):
            text = event.text.splitlines()[not is_prompt :]
            lines = [line for line in text if _FAILURE["report"].match(line) and line not in later]
            end = turn[-1].number
            begin = next((each.number for each in turn if each.number in changed), end)
            green = (each for each in runs if begin < each.event.number <= end and not each.failed)
            tests = next((each for each in green if any(map(_TEST.search, each.families))), None)
            run, passed = CommandRun(event, event.input, (), failed=True), tests.event if tests else None
            yield from [Failure(run, "\n".join(lines), tests, passed, passed, is_open=False, cure=())] if lines else ()
        turn, later = ([], later + event.text) if is_prompt else ([event, *turn], later)


def _is_past(run: CommandRun, following: CommandRun) -> bool:
    """Whether the next run passed or got further: its error cannot hide that of the run, nor is it of the same test."""
    firm, is_cut = find_errors(following.event, FIRM_ERRORS[:-1])[:1], CUT_MIDDLE in following.event.text
    is_clear = bool(firm) and not is_cut and bool(following.tests or not _FAILURE["hides"].search(firm[0]))
    counts = map(_FAILURE["tally"].search, following.event.text.splitlines()[1:])
    begins = any(map(_FAILURE["hides"].search, run.errors)) and any(counts)  # before, the tests could not be run
    return not following.failed or begins or (is_clear and not set(run.tests[:1]).intersection(following.tests))


def _find_cure(
    run: CommandRun, error: str, following: CommandRun, between: Sequence[RecordedEvent], attempts: Container[int]
) -> Iterator[tuple[str, str]]:
    """What changed between a failed run and the next: what the error names, or the only change if that got further."""
    edits = [each for each in between if each.number in attempts]
    paths = dict.fromkeys(map(attrgetter("path"), edits))
    if len(between) > _FAR or any(map(_CHANGE["scratch"].search, paths)):
        return  # much else was done, or the failing script itself was fixed
    acts, done = dict[str, str](), dict[str, str]()
    named, is_past = {*_WORD.findall(error.lower())} - _SHARED_WORDS, _is_past(run, following)
    for path in paths:
        heads = (each.input.removeprefix(path) for each in edits if each.path == path)
        change = "; ".join(" ".join(head.split()) for head in heads)  # how it was changed
        is_whole = change and len(change) <= LONGEST_ACT and "..." not in change
        act = f"edited {path.rpartition('/')[2]}{f': {change}' if is_whole else ''}"
        # the next error may have hidden this one, so the file in its output says too little
        is_told = is_past and path.rpartition("/")[2] in run.event.text.partition("\n")[2]
        acts[act], done[act] = error.lower() if is_told else f"{path} {change}", path
    added = {f"with `{cut_line(each, LONGEST_ACT)}`": each for each in _find_added(run, following)}
    ran = [x.command for x in between if x.tool == "Bash" and not (x.path or x.failed)]
    ran = [*filterfalse(_LOOK.search, ran)]
    remedies = [*filter(_FAILURE["remedy"].search, ran)]
    if not (remedies or added or acts):  # any but git's and tests may have set something up
        remedies = [x for x in ran if not all(y.startswith("git ") or _TEST.search(y) for y in _find_families(x))]
    for command in remedies:
        takes_back = _COMMAND["takes_back"].search(command)  # what it reverts is no subject
        act = f"`{cut_line(command, LONGEST_ACT)}`"
        acts[act], done[act] = "" if takes_back else command, command
    is_single = len(acts) + bool(added) == 1 and (is_past or any(map(_FAILURE["remedy"].search, added.values())))
    acts |= added
    related = [act for act in acts if is_single or named.intersection(_WORD.findall(acts[act].lower()))]
    yield from [(act, done.get(act, act)) for act in related] if len(related) <= MOST_ACTS else ()


def _find_added(run: CommandRun, following: CommandRun) -> Iterator[str]:
    """The steps, options and variables that the next run of a command has in addition."""
    known = " ".join(_COMMAND["step"].findall(run.command)).split()
    for step in filterfalse(_COMMAND["stash"].search, _COMMAND["step"].findall(following.command)):
        words = [word for word in step.split() if word not in known]
        if run.families[0] in _find_families(step):
            yield from [step.split()[0]] if words[:1] == step.split()[:1] and "/" in words[0] else []
            # an option with its values; a word on its own is another subject, not another way
            options = re.findall(r"(?<!\S)(?:--[^\s'\"]+(?: [^-\s|<>][^\s]*)*|-?\w+=(?:'[^']*'|\S+))", " ".join(words))
            yield from (each for each in options if not _FAILURE["no_cure"].search(each))
        elif words and (_FAILURE["remedy"].search(step) or step.split()[0] in ("source", ".")):
            yield step.strip()


def find_errors(event: RecordedEvent, kinds: Sequence[re.Pattern[str]] = _ERROR_LINES) -> list[str]:
    """The lines that say most about what went wrong, all of one kind, cut at a word: of a message only the first."""
    whole = _FAILURE["goes_on"].sub(r"\1 ", event.text)
    lines = [line for line in whole.splitlines()[1:] if not _FAILURE["noise"].search(line)]
    first = [line for before, line in pairwise(["", *lines]) if not (before[:2] == line[:2] == "E ")]
    found = ([cut_line(" ".join(line.split())) for line in first if pattern.match(line)] for pattern in kinds)
    return next(filter(None, found), [])


def find_test_runs(runs: Sequence[CommandRun], edits: Edits, sentences: Sequence[Sentence]) -> list[Statement]:
    """The last runs that counted tests, unless repeated: how each ended, what was said of it, what changed since."""
    found, kept, before = list[Statement](), dict[str, CommandRun](), set[str]()
    tests = [each for each in runs if any(map(_TEST.search, each.families)) and not _LOOK.search(_find_test_step(each))]
    for run in reversed(tests):
        tallies = [line.strip(" =ℹ#") for line in run.event.text.splitlines()[1:] if _FAILURE["tally"].search(line)]
        later = sum(number > run.event.number for numbers in edits.values() for number in numbers)
        step = _find_test_step(run)
        run = run._replace(failed=False, errors=()) if run.is_past_tests else run  # a later step failed
        if not tallies and run.failed and not kept and not later:  # the last one could not begin
            tallies = [run.errors[0]] * bool(run.errors[0])
        shown = _choose_tally(run, tallies) if tallies else ""
        counts = _FAILURE["duration"].sub("", shown)
        wider = [each for each in kept.values() if _find_test_step(each) == step or not _SELECTS.search(each.command)]
        said = [each.text for each in sentences if each.event == run.event.number + 1]
        if "git stash" in run.families or _FAILURE["baseline"].search("".join(said)):
            before.add(counts)
        elif counts and counts not in kept and not any(_find_test_step(x) == step or x.repeats(run) for x in wider):
            kept[counts if re.search(r"\d", counts) else run.command] = run
            edited = f"; {later} {'edit' if later == 1 else 'edits'} since" if later else ""
            since = "; the same without the change" if counts in before else edited
            state = "red" if run.failed else "green"
            about = [each for each in said if _FAILURE["of_tests"].search(each)] if state == "red" else []
            since += f"; (e{run.event.number + 1}) {about[0]}" if about else ""
            named = dict.fromkeys(name.rpartition("::")[2].split(" (")[0] for name in run.tests)
            names = [each for each in named if each and each not in f"{step}{shown}{since}"][:MOST_NAMES]
            shown = ": ".join([cut_line(shown), *[", ".join(names)] * bool(names)])
            found.append(Statement(step, run.event.number, f"{state}, {shown}{since}"))
    whole_first = sorted(found, key=lambda each: bool(_SELECTS.search(each.text)))  # a selection says less
    return sorted(whole_first[:MOST_TEST_RUNS], key=attrgetter("event"))


def find_checks(runs: Sequence[CommandRun], since: int) -> list[Statement]:
    """The last scripts run after the event `since` and what each printed last; none that failed or counted tests."""
    found, kept = list[tuple[str, str]](), list[CommandRun]()
    for run in reversed([each for each in runs if each.event.number > since and not each.failed]):
        lines = [line.strip() for line in run.event.text.splitlines()[1:] if re.search(r"\w", line)]
        scripts = [each for each in _split_steps(run.command) if _COMMAND["script"].match(each)]
        is_check = scripts and lines and not any(map(_FAILURE["tally"].search, lines))
        if is_check and not any(each.repeats(run) for each in kept):
            kept.append(run)
            found.append((cut_line(scripts[-1]), f"printed: {cut_line(lines[-1], LONGEST_PRINTED)}"))
    notes = [found[0][1], *map(" ".join, found[1:MOST_CHECKS])] if found else []
    return [Statement(found[0][0], kept[0].event.number, "; ".join(notes))] if found else []


def _choose_tally(run: CommandRun, lines: Sequence[str]) -> str:
    """The last line that counts failures, or the error; of a green run the last, or one that counts more tests."""
    red = [line for line in lines if _FAILURE["failing"].search(line)]
    if red or any(run.errors):
        return red[-1] if red else run.errors[0]
    counts = {line: max(map(int, _FAILURE["count"].findall(line)), default=-1) for line in reversed(lines)}
    most = max(counts, key=counts.__getitem__)
    return most if counts[lines[-1]] >= 0 or counts[most] < 0 else f"{most}; {lines[-1]}"  # "Ran 4 tests in 1s; OK"


def _find_test_step(run: CommandRun) -> str:
    """The last step of a command that runs tests."""
    return next((each for each in reversed(_split_steps(run.command)) if _TEST.search(each)), run.command)


def _split_steps(command: str) -> list[str]:
    """The steps of a command, without what their output is sent to."""
    return [each.split("|")[0].split(" 2>")[0].strip() for each in _COMMAND["step"].findall(command)]
