"""What failed in a session, what made it pass, and what the agent found to be the cause. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from scrimshaw.ingest.shell import parse_command
from scrimshaw.models import EventKind, Item, ItemKind, RecordedEvent
from scrimshaw.session.evidence import USER, Sentence, Statement, cut

MOST_PROBLEMS, LEAST_PROBLEMS, _CALLS_PER_PROBLEM = 9, 3, 20
MOST_UNSOLVED = 2
_LATE = 0.5  # a failure in the first half that was not tried again was given up, not left open
_FAMILY_WORDS = 3

_FAILING = re.compile(
    r"(?m)\b[1-9]\d* (?:failed|failures?|failing|errors?)\b|^FAILED\b|^(?:--- )?FAIL[: \t]|\btest result: FAILED"
    r"|\((?:failures|errors)=[1-9]|^Traceback \(most recent call last\)|^\*\* \(\w"
)
# Lines that say what went wrong, those that say most first.
_ERROR_LINES = tuple(
    re.compile(pattern)
    for pattern in (
        r"^.*\.{4,}\s*Failed|^\s*E\s{2,}\S|^\s*(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt)\b|^\s*\*\* \(\w",
        r"^\s*\d+\) (?:test )?\S|^(?:FAILED|ERROR|FAIL:?|--- FAIL:)\s\S|^not ok |^\s*[✗✕×]\s",
        r"(?i)^.*\b(?:fatal|error)(?:\[\w+\])?: |^.*\berror TS\d|^CONFLICT |^.*\berror\b",
        r".*\b[1-9]\d* (?:failed|failures?|errors?)\b",
        r"(?i)^.*(?:not found|no such|cannot|can't|denied|refused|unable to|undefined|invalid|unexpected|timed out)",
    )
)
_SAYS_NOTHING = re.compile(
    r"(?i)\.{4,}\(?(?:Passed|Skipped|no files)|^\s*[\w.]+ = |test session starts|was blocked\. For security"
    r"|\A\s*(?:Error: )?Exit code \d+\s*\Z|\A\s*Traceback|\A(?:Error:?\s*)+\Z|^\s*Found \d+ errors?|\A\W*\Z"
    r"|^\s*(?:if|return|raise|except|assert|#|//)(?:\s|\Z)"
)
_TRIVIAL_LIST = """
cat cd chmod cp diff echo file find grep head kill less ln ls mkdir mv open pwd rg rm sed set sleep source stat tail
test touch tree true type wc which export .
"""
_TRIVIAL = frozenset(_TRIVIAL_LIST.split())
_NO_WORD = re.compile(r"\A(?:\w+=\S*|\d?>\S*|\\)\Z")
_DIAGNOSIS = re.compile(
    r"(?i)\b(?:root cause|the (?:\w+ )?(?:issue|problem|bug|error|failure|cause) (?:is|was|seems|comes|came|lies)\b"
    r"|(?:fails?|failed|failing|crash(?:es|ed)?|broke|breaks) (?:because|since|as|due|when|with)\b|turns? out"
    r"|turned out|caused by|known (?:\w+ )?(?:bug|conflict|issue)|(?:doesn't|does not) support"
    r"|can't access|cannot access|the reason (?:is|was|for)|happens because|comes from the)"
)
_NO_CAUSE = re.compile(
    r"(?i)\A(?:now|next|let's|let me|I'll|I will|I need|I should|first|if|would|should|could|wait|regardless)\b"
    r"|[?:]\W*\Z|[✅❌]|\b(?:reproduced|resolved|fixed)\W*\Z|\bas expected\b"
    r"|\b(?:see|check) (?:if|whether)\b|\bnext step\b|\bfull (?:issue|error)\b"
)


class Run(Struct, frozen=True, kw_only=True):
    """A command that was run: `family` is its program and purpose without options and files."""

    event: RecordedEvent
    family: str
    failed: bool


def runs(events: Sequence[RecordedEvent], items: Sequence[Item]) -> list[Run]:
    """The commands that were run, in order; reading, searching and moving files are none."""
    wrong = {each.source.source_call_id for each in items if each.kind == ItemKind.ERROR}
    found = []
    for event in events:
        is_command = event.kind == EventKind.TOOL and event.tool == "Bash" and not event.path
        words = _program(event.text.partition("\n")[0]) if is_command else ()
        if words:
            failed = event.failed is True or event.call_id in wrong or bool(_FAILING.search(event.text))
            found.append(Run(event=event, family=_family(words), failed=failed))
    return found


def problems(
    ran: Sequence[Run], edits: Mapping[str, Sequence[int]], said: Sequence[Sentence], calls: int
) -> list[Statement]:
    """Failures that were overcome, and causes the agent named: the last ones, half of each where there are many."""
    most = min(MOST_PROBLEMS, LEAST_PROBLEMS + calls // _CALLS_PER_PROBLEM)
    causes = [
        Statement(text=each.text, event=each.event)
        for each in said
        if each.by != USER and _DIAGNOSIS.search(each.text) and not _NO_CAUSE.search(each.text)
    ]
    failures = list(_overcome(ran, edits))[-(max(1, most // 2) if causes else most) :]
    return sorted([*failures, *causes[-(most - len(failures)) :]], key=lambda each: each.event)


def unsolved(ran: Sequence[Run], last_event: int) -> list[Statement]:
    """What failed when it was last run, late in the session, with nothing passing of the same program after it."""
    last = {run.family: run for run in ran}
    passed = {_name(run): run.event.number for run in ran if not run.failed}
    return [
        Statement(text=line, event=run.event.number, note=f"`{run.family}` failed when last run")
        for run in sorted(last.values(), key=lambda run: run.event.number)
        if run.failed and run.event.number > max(_LATE * last_event, passed.get(_name(run), 0))
        if (line := _error_line(run.event))
    ][-MOST_UNSOLVED:]


def _overcome(ran: Sequence[Run], edits: Mapping[str, Sequence[int]]) -> Iterator[Statement]:
    """A statement for each stretch of failures of a command that ended in a success."""
    first: dict[str, Run] = {}
    for run in ran:
        if run.failed:
            first.setdefault(run.family, run)
        elif began := first.pop(run.family, None):
            line = _error_line(began.event)
            if line:
                yield Statement(text=line, event=began.event.number, note=_solution(began, run, edits))


def _solution(began: Run, passed: Run, edits: Mapping[str, Sequence[int]]) -> str:
    span = range(began.event.number, passed.event.number)
    between = [path.rpartition("/")[2] for path, numbers in edits.items() if any(each in span for each in numbers)]
    after = f" after edits to {', '.join(between[:3])}" if between else ""
    return f"`{began.family}` passed in e{passed.event.number}{after}"


def _error_line(event: RecordedEvent) -> str:
    """The line that says most about what went wrong, cut at a word; empty where no line does."""
    lines = [line for line in event.text.splitlines()[1:] if not _SAYS_NOTHING.search(line)]
    found = (line for pattern in _ERROR_LINES for line in lines if pattern.match(line))
    return cut(" ".join(next(found, "").split()))


def _name(run: Run) -> str:
    return run.family.partition(" ")[0]


def _program(command: str) -> tuple[str, ...]:
    """The words of the first telling step of a command line: `cd a && mix test 2>&1 | tail` runs `mix test`."""
    if parse_command(command).name != "Run":
        return ()
    for step in re.split(r"&&|;|\|\|", command):
        words = tuple(word for word in step.split("|")[0].split() if not _NO_WORD.match(word))
        if words and words[0] not in _TRIVIAL and not words[0].endswith("/"):
            return words
    return ()


def _family(words: Sequence[str]) -> str:
    options = next((place for place, word in enumerate(words) if word.startswith("-")), len(words))
    telling = [word for word in words[1 : max(2, options)] if re.match(r"[A-Za-z][\w.:/-]*\Z", word)]
    most = 1 if words[0] == "git" else _FAMILY_WORDS - 1
    return " ".join([words[0], *telling[:most]])
