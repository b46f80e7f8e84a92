"""What was done about an error, in any session: where it stood, what followed it, and whether that helped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.engine.core import Engine
from scrimshaw.engine.degradations import SESSION
from scrimshaw.models import Item, RecordedEvent
from scrimshaw.search.tokens import STOP_WORDS
from scrimshaw.session.sections import CommandRun, find_edits, find_runs
from scrimshaw.session.statements import cut_line

LONGEST_ERROR, MOST_CALLS, MOST_FIXES, MOST_RECALLED = 4_000, 200, 5, 2  # characters; calls compared; answers
# Of the words of an error so many must stand in an output: numbers, paths and names in it differ from run to run.
LEAST_SHARE = 0.6
MOST_ACTS = 3  # of each kind, the last ones before the run that ended it
_LONGEST_ACT, _FIX_TOKENS = 100, 150  # characters; at most, of an error, a command and three acts
_NEAR = 12  # events after a failure whose command was not run again
_WORD = re.compile(r"[A-Za-z_]{3,}")
_ERROR = re.compile(r"(?i)\b(?:\w*(?:error|exception)|fatal|panic|failed|traceback|not found|no such|cannot)\b")


class Fix(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run that failed in the same way; `origin` is its event, `passed` the one that ended it."""

    origin: str
    date: str
    error: str
    command: str
    done: tuple[str, ...] = ()  #: options and variables added, other commands that went well, files changed after it
    helped: bool | None = None  #: None where the command was not run again
    passed: str = ""


def find_fixes(engine: Engine, error: str, limit: int = MOST_FIXES) -> list[Fix]:
    """Failures like this error: first those that were overcome, of these the most alike, then the newest."""
    words = {word.lower() for word in _WORD.findall(error[:LONGEST_ERROR])} - STOP_WORDS
    longest = sorted(words, key=len, reverse=True)[:3]
    calls = engine.sessions.find_calls(longest, MOST_CALLS) if longest else []
    sessions = dict.fromkeys(each.session for each in calls if _share(words, each.text) >= LEAST_SHARE)
    found = []
    for session in sessions:
        for run, fix in _follow_failures(engine.sessions.events(session), engine.sessions.items(session)):
            output = run.event.text.partition("\n")[2]
            if (share := _share(words, output)) >= LEAST_SHARE:
                line = cut_line(max(output.splitlines(), key=lambda line: _share(words, line)).strip())
                found.append((fix.helped is True, share, run.event.at, replace(fix, error=line)))
    return [fix for *_, fix in sorted(found, key=lambda each: each[:3], reverse=True)[:limit]]


def recall_fixes(engine: Engine, query: str, budget: int) -> list[Fix]:
    """What helped against an error that a query quotes, in half of the tokens; nothing where the journal refuses."""
    most = min(MOST_RECALLED, budget // (2 * _FIX_TOKENS))
    found: list[Fix] = []
    with engine.degradations.note_failure(SESSION):
        found = find_fixes(engine, query, most) if most and _ERROR.search(query) else []
    return [replace(each, done=each.done[:MOST_ACTS]) for each in found if each.helped]


def _follow_failures(events: Sequence[RecordedEvent], items: Sequence[Item]) -> Iterator[tuple[CommandRun, Fix]]:
    """The first run of each stretch of failures of a command, with what followed it."""
    runs, edits, ended = find_runs(events, items), find_edits(events, items), dict[str, int]()
    for run in (run for run in runs if run.failed):
        event, number, family = run.event, run.event.number, run.family
        if number <= ended.get(family, 0):
            continue
        later = [each for each in runs if each.family == family and each.event.number > number]
        end = next((each for each in later if not each.failed), later[-1] if later else None)
        ended[family] = until = end.event.number if end else number + _NEAR
        command, helped = event.text.partition("\n")[0], not end.failed if end else None
        words = end.event.text.partition("\n")[0].split() if end and helped else []
        added = [word for word in words if word not in command.split() and re.match(r"-|\w+=", word)]
        between = [each.event for each in runs if number < each.event.number < until and not each.failed]
        acts = dict.fromkeys(cut_line(each.text.partition("\n")[0], _LONGEST_ACT) for each in between[-MOST_ACTS:])
        paths = [path for path, numbers in edits.items() if any(number < each < until for each in numbers)]
        with_words, edited = (f"with `{word}`" for word in added[:MOST_ACTS]), (f"edited {path}" for path in paths)
        yield (
            run,
            Fix(
                origin=f"session:{event.session}#e{number}",
                date=datetime.fromtimestamp(event.at, UTC).date().isoformat(),
                error="",
                command=cut_line(command),
                done=(*with_words, *(f"`{act}`" for act in acts), *[*edited][-MOST_ACTS:]),
                helped=helped,
                passed=f"#e{until}" if helped else "",
            ),
        )


def _share(words: set[str], text: str) -> float:
    return len(words.intersection(map(str.lower, _WORD.findall(text)))) / max(1, len(words))
