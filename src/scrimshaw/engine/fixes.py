"""What was done about an error, in any session: where it occurred, what followed, and whether that helped."""

import re
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.engine.core import Engine
from scrimshaw.engine.degradations import SESSION
from scrimshaw.search.tokens import STOP_WORDS
from scrimshaw.session.failures import MOST_ACTS, Failure, find_edits, find_failures, find_runs
from scrimshaw.session.statements import cut_line

LONGEST_ERROR, MOST_CALLS, MOST_FIXES, MOST_RECALLED = 4_000, 200, 5, 2  # characters; calls compared; answers
# Share of an error's words that an output must contain: numbers, paths and names differ from run to run.
LEAST_SHARE = 0.6
_FIX_TOKENS = 150  # at most, of an error, a command and three acts
_WORD = re.compile(r"[A-Za-z_]{3,}")
_ERROR = re.compile(r"(?i)\b(?:\w*(?:error|exception)|fatal|panic|failed|traceback|not found|no such|cannot)\b")


class Fix(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run that failed in the same way; `origin` is its event, `passed` that of the first run that passed after it."""

    origin: str
    date: str
    error: str
    command: str
    done: tuple[str, ...] = ()  #: options and variables added, other commands that succeeded, files changed afterwards
    helped: bool | None = None  #: None if the command was not run again
    passed: str = ""


def find_fixes(engine: Engine, error: str, limit: int = MOST_FIXES) -> list[Fix]:
    """Failures like this error: those that were fixed first, then the most similar, then the newest."""
    words = _find_words(error[:LONGEST_ERROR])
    longest = sorted(words, key=len, reverse=True)[:3]
    calls = engine.sessions.find_calls(longest, MOST_CALLS) if longest else []
    sessions = dict.fromkeys(each.session for each in calls if _share(words, each.text) >= LEAST_SHARE)
    found = []
    for session in sessions:
        events, items = engine.sessions.events(session), engine.sessions.items(session)
        for failure in find_failures(events, items, find_runs(events, items), find_edits(events, items)):
            output = failure.run.event.text.partition("\n")[2]
            if (share := _share(words, output)) >= LEAST_SHARE:
                line = cut_line(max(output.splitlines(), key=lambda line: _share(words, line)).strip())
                found.append((failure.passed is not None, share, failure.run.event.at, _make_fix(failure, line)))
    return [fix for *_, fix in sorted(found, key=lambda each: each[:3], reverse=True)[:limit]]


def recall_fixes(engine: Engine, query: str, budget: int) -> list[Fix]:
    """What helped against an error that a query quotes, in half of the tokens; nothing if the journal fails.

    Any question shares words with outputs; one that quotes an error shares most words of a line with a line there.
    """
    most = min(MOST_RECALLED, budget // (2 * _FIX_TOKENS))
    found: list[Fix] = []
    with engine.degradations.note_failure(SESSION):
        found = find_fixes(engine, query, most) if most and _ERROR.search(query) else []
    quoted = [_find_words(line) for line in query[:LONGEST_ERROR].splitlines()]
    return [
        replace(each, done=each.done[:MOST_ACTS])
        for each in found
        if each.helped and any(_share(words, each.error) >= LEAST_SHARE for words in quoted)
    ]


def _make_fix(failure: Failure, error: str) -> Fix:
    event, passed = failure.run.event, failure.passed
    return Fix(
        origin=f"session:{event.session}#e{event.number}",
        date=datetime.fromtimestamp(event.at, UTC).date().isoformat(),
        error=error,
        command=cut_line(failure.run.command),
        done=tuple(failure.cure),
        helped=passed is not None if failure.following else None,
        passed=f"#e{passed.number}" if passed else "",
    )


def _find_words(text: str) -> set[str]:
    return {word.lower() for word in _WORD.findall(text)} - STOP_WORDS


def _share(words: set[str], text: str) -> float:
    return len(words.intersection(map(str.lower, _WORD.findall(text)))) / max(1, len(words))
