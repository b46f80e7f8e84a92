"""What failed, what was done about it and whether that helped: one rule for drafts, states and fixes. Pure.

A failure is overcome when a later run of the same command or test passed; the cure is what was run or changed between.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import NamedTuple

from scrimshaw.ingest.tool_calls import parse_command
from scrimshaw.models import EventKind, Item, ItemKind, RecordedEvent
from scrimshaw.session.statements import PATTERNS, WORDS, cut_line

MOST_ACTS = 3  # of each kind, the last ones
LONGEST_ACT = 160  # characters of a command, and of a change
# Events after a failure in which something is done about it where the command is not run again; and the most until it
# is: what was changed in a longer time had other reasons.
NEAR, _FAR = 12, 30
_FAMILY_WORDS = 3
_FAILURE = PATTERNS["failures"]
_ERROR_LINES = [pattern for name, pattern in _FAILURE.items() if name.startswith("error_line_")]
FIRM_ERRORS = _ERROR_LINES[:-1]
_REMOVAL = re.compile(r"(?:^|[;&|] *)(?:git )?rm ")
_REFUSAL = re.compile(r"\n\W*(?:Error\b|Your proposed edit has introduced|User rejected)")
_STEPS = re.compile(r"&&|;|\|\|")
_INTERPRETER = re.compile(r"(?:\S*/)?(?:python[\d.]*|node|ruby|perl|bash|sh)\Z")
_NO_WORD = re.compile(r"\A(?:\w+=\S*|\d?>\S*|\\)\Z")
TEST = re.compile(r"(?i)(?:\b|_)(?:py)?tests?(?:\b|_)|\b(?:specs?|rspec|jest|vitest|tox|nox|ctest|phpunit|unittest)\b")

Edits = Mapping[str, Sequence[int]]  # the numbers of the events that changed a file, by path as the tool had it


class CommandRun(NamedTuple):
    """A command that was run; a family is the words of a step's program and purpose, without options and files."""

    event: RecordedEvent
    families: Sequence[str]  #: of its steps
    failed: bool
    error: str = ""  #: the line that says most about what went wrong, where one does

    @property
    def family(self) -> str:
        """The family of the first step."""
        return self.families[0]

    @property
    def command(self) -> str:
        """What was run."""
        return self.event.text.partition("\n")[0]

    def repeats(self, other: CommandRun) -> bool:
        """Whether this is a run of the same command, or of all the tests that it ran a part of."""
        whole = (f"{each} " for each in self.families if TEST.search(each))
        return other.family in self.families or any(map(other.family.startswith, whole))


class Failure(NamedTuple):
    """The last run of a command or test that failed in one way."""

    run: CommandRun
    following: CommandRun | None  #: its next run, which passed or failed in another way
    passed: RecordedEvent | None  #: the later run that passed
    is_open: bool  #: whether nothing of its program and no tests passed since
    cure: Sequence[str]  #: what `following` had more, what was run and which files were changed before it


def find_edits(events: Sequence[RecordedEvent], items: Sequence[Item]) -> Edits:
    """The numbers of the events that changed each file that was not removed later, by path as the tool had it."""
    by_shell = {each.source.source_call_id for each in items if each.text.startswith(("Edit ", "Write "))}
    found: dict[str, list[int]] = {}
    for event in events:
        writes = event.tool in ("Edit", "Write") or (event.tool == "Bash" and event.call_id in by_shell)
        is_refused = event.failed is True or _REFUSAL.search(event.text)
        if event.kind == EventKind.TOOL and event.path and writes and not is_refused:
            found.setdefault(event.path, []).append(event.number)
    for event in events:
        command = event.text.partition("\n")[0] if event.tool == "Bash" else ""
        names = [word.rstrip("/").rpartition("/")[2] for word in command.split()] if _REMOVAL.search(command) else []
        for path in [path for path, numbers in found.items() if names and numbers[-1] < event.number]:
            if any(fnmatchcase(part, name) for name in names if len(name) > 2 for part in path.split("/")):
                del found[path]
    return found


def find_runs(events: Sequence[RecordedEvent], items: Sequence[Item]) -> list[CommandRun]:
    """The commands that were run, in order; reading, searching and moving files are none."""
    errors = {each.source.source_call_id for each in items if each.kind == ItemKind.ERROR}
    found = []
    for event in events:
        is_command = event.kind == EventKind.TOOL and event.tool == "Bash" and not event.path
        if is_command and (families := _find_families(event.text.partition("\n")[0])):
            failed = event.failed is True or event.call_id in errors or bool(_FAILURE["failing"].search(event.text))
            found.append(CommandRun(event, families, failed, find_error_line(event) if failed else ""))
    return found


@lru_cache(maxsize=1024)  # of the commands of a session one in four was run before
def _find_families(command: str) -> Sequence[str]:
    """Program and purpose of each step that matters: `cd a && mix test 2>&1 | tail` runs `mix test`."""
    found = list[str]()
    for step in _STEPS.split(command) if parse_command(command).name == "Run" else ():
        words = [word for word in step.split("|")[0].split() if not _NO_WORD.match(word)]
        if len(words) > 1 and _INTERPRETER.match(words[0]) and words[1].startswith("-"):
            words = words[2:] if words[1] == "-m" else []  # a line of code is no command that is run again
        words[:1] = filter(None, [re.sub(r".*/bin/", "", word) for word in words[:1]])
        if words and words[0] not in WORDS["trivial_programs"] and not words[0].endswith("/"):
            options = next((place for place, word in enumerate(words) if word.startswith("-")), len(words))
            purpose = [word for word in words[1 : max(2, options)] if re.match(r"[A-Za-z][\w.:/-]*\Z", word)]
            found.append(" ".join([words[0], *purpose[: 1 if words[0] == "git" else _FAMILY_WORDS - 1]]))
    return found


def find_failures(events: Sequence[RecordedEvent], runs: Sequence[CommandRun], edits: Edits) -> Iterator[Failure]:
    """What failed, in order; of runs of a command that failed in one way after each other the last."""
    for place, run in enumerate(runs):
        later = runs[place + 1 :]
        again = [each for each in later if each.repeats(run)] if run.failed else []
        following = again[0] if again else None
        if not run.failed or (following and following.failed and following.error == run.error):
            continue
        begin, program = run.event.number + 1, run.family.split()[0]
        end = following.event.number if following else begin + NEAR
        span = range(begin, end if end - begin < _FAR else begin)
        others = [each.command for each in later if each.event.number in span and not each.failed]
        others = [each for each in others if not _FAILURE["look"].search(each)]
        fine = (each for other in later if not other.failed for each in other.families)
        yield Failure(
            run=run,
            following=following,
            passed=next((each.event for each in again if not each.failed), None),
            is_open=not any(TEST.search(each) or each.split()[0] == program for each in fine),
            cure=[*_find_added(run, following), *find_acts(events, edits, span)]
            or [f"`{cut_line(each, LONGEST_ACT)}`" for each in others[-1:]],
        )


def _find_added(run: CommandRun, following: CommandRun | None) -> Iterator[str]:
    """The steps, options and variables that the next run of a command had and this one did not."""
    known, steps = run.command.split(), _STEPS.split(following.command) if following else ()
    found = list[str]()
    for step in steps:
        words = [word for word in step.split() if word not in known]
        if run.family in _find_families(step):
            # an option with its values; a word that stands alone is another subject, not another way
            options = re.findall(r"(?<!\S)(?:-[^\s'\"]+(?: [^-\s|<>][^\s]*)*|\w+=\S+)", " ".join(words))
            found += [step.split()[0]] if step.split()[0] in words and "/" in step.split()[0] else []
            found += [each for each in options if "'" not in each and '"' not in each]
        elif words and (_FAILURE["remedy"].search(step) or step.split()[0] in ("source", ".")):
            found.append(step.strip())
    yield from (f"with `{cut_line(each, LONGEST_ACT)}`" for each in found[:MOST_ACTS])


def find_acts(events: Sequence[RecordedEvent], edits: Edits, span: range) -> Iterator[str]:
    """The last commands and edits in a span of events that mend something."""
    near = [event for event in events if event.number in span and event.failed is not True]
    commands = [event.text.partition("\n")[0] for event in near if event.tool == "Bash" and not event.path]
    acts = dict.fromkeys(cut_line(each, LONGEST_ACT) for each in commands if _FAILURE["remedy"].search(each))
    yield from (f"`{each}`" for each in [*acts][-MOST_ACTS:])
    changes = {event.path: event.text for event in near if event.number in edits.get(event.path, ())}
    for path, text in [*changes.items()][-MOST_ACTS:]:
        change = read_change(text, path)
        if "DEBUG" not in change:
            yield f"edited {path.rpartition('/')[2]}{change and ': '}{cut_line(change, LONGEST_ACT)}"


def read_change(text: str, path: str) -> str:
    """What an edit of a file did to it, as its event begins."""
    return " ".join(text.partition("\n")[0].removeprefix(path).split())


def find_error_line(event: RecordedEvent, kinds: Sequence[re.Pattern[str]] = _ERROR_LINES) -> str:
    """The line that says most about what went wrong, cut at a word; empty where no line does."""
    lines = [line for line in event.text.splitlines()[1:] if not _FAILURE["noise"].search(line)]
    found = (line for pattern in kinds for line in lines if pattern.match(line))
    return cut_line(" ".join(next(found, "").split()))
