"""What was done about an error, in any session: where it occurred, what followed, and whether that helped."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import chain, pairwise, takewhile
from operator import itemgetter

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.ingest.tool_calls import LOOKS, parse_command
from scrimshaw.models import RecordedEvent
from scrimshaw.search.tokens import STOP_WORDS
from scrimshaw.session import failures
from scrimshaw.session.failures import LONGEST_ACT, MOST_ACTS, Failure
from scrimshaw.session.statements import AGENT, begins_turn, cut_line, join_sentences, split_sentences
from scrimshaw.storage.sessions import Sessions

LONGEST_ERROR, MOST_WORDS, MOST_CALLS = 4_000, 6, 40  # characters; words looked for; calls compared
MOST_FIXES, MOST_RECALLED = 5, 2
# Share of an error's words that one or two lines of an output must contain: numbers, paths and names differ.
LEAST_SHARE = 0.6
_FIX_TOKENS = 200  # at most, of an error, a command, what was said and three acts
_WRAPPED = 60  # characters; a line at least this long may continue in the next one
_WORD, _NUMBER = re.compile(r"[A-Za-z_]{2,}(?:-[A-Za-z_]+)*|\d[\d.]+"), re.compile(r"\d[\d.]+\Z")
_FAINT = STOP_WORDS | {"found"}  # of what was not, which says no more
_DETAIL = re.compile(r"\s*\[?(?:INFO|DEBUG)\b")  # how a line of a log begins that is no error
_ERROR = re.compile(r"(?i)(?:error|exception)\b|\b(?:fatal|panic|failed|not found|no such|cannot)\b")


class Fix(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A like error that was met; `origin` is its event, `passed` that of the first later run without it."""

    origin: str
    date: str
    error: str
    command: str = ""  #: what failed; empty for an error that a person or a log reported
    said: str = ""  #: what the agent said of it: first of a failure, and last of a report
    done: tuple[str, ...] = ()  #: what cured it, if that is certain; otherwise the last changes and commands
    helped: bool | None = None  #: None if the command was not run again, or no tests after a report
    passed: str = ""


def find_fixes(sessions: Sessions, error: str, limit: int = MOST_FIXES, among: Sequence[str] = ()) -> list[Fix]:
    """Failures like this error `among` sessions, or all: most similar first, then the fixed ones, then the newest."""
    lines = error[:LONGEST_ERROR].splitlines()
    errors = [_find_words(line) for line in lines if _ERROR.search(line)]
    wanted = [*filter(None, errors)] or [*filter(None, map(_find_words, lines))]
    if not among:
        longest = sorted(set[str]().union(*wanted), key=len, reverse=True)[:MOST_WORDS]
        faults = {*map(str.lower, _ERROR.findall(error[:LONGEST_ERROR]))}.difference(longest)
        calls = sessions.find_calls([*longest, *faults], MOST_CALLS)
        shares = [(round(_compare_output(wanted, each.text)[0], 1), each.session) for each in calls]
        ranked = sorted((each for each in shares if each[0] >= LEAST_SHARE), key=itemgetter(0), reverse=True)
        among = [session for _, session in ranked]
    found = list[tuple[tuple[float, bool, float], tuple[str, str], Callable[[], Fix]]]()
    for session in [*dict.fromkeys(among)][: 2 * limit]:
        events, items = sessions.events(session), sessions.items(session)
        runs, edits = failures.find_runs(events, items), failures.find_edits(events, items)
        failed = failures.find_failures(events, items, runs, edits)
        for failure in chain(failed, failures.find_reports(events, runs, edits)):
            output = failure.run.event.text.partition("\n")[2] if failure.run.families else failure.error
            share, line = _compare_output(wanted, output)
            if share >= LEAST_SHARE:
                rank = (round(share, 1), failure.overcome is not None, failure.run.event.at)
                found.append((rank, (session, line), partial(_make_fix, failure, cut_line(line.strip()), events)))
    distinct = dict[tuple[str, str], Callable[[], Fix]]()
    for _, place, make_fix in sorted(found, key=itemgetter(0), reverse=True):
        distinct.setdefault(place, make_fix)  # a session often meets an error again and again
    return [make_fix() for make_fix in [*distinct.values()][:limit]]


def _compare_output(wanted: Sequence[set[str]], output: str) -> tuple[float, str]:
    """The share of the words of an error's lines that one or two lines of an output have, and the most similar line."""
    lines = [line for line in output.splitlines() if not _DETAIL.match(line)]
    lines += [f"{first} {second}" for first, second in pairwise(lines) if len(first) > _WRAPPED]
    found = {line: {*map(str.lower, _WORD.findall(line))} for line in lines}
    # (share of the line's words, how many words, the most similar line) for each line of the error
    counts = [[(len(words & found[line]), line) for line in found] for words in wanted if found]
    near = [max(each, key=lambda count: (count[0], bool(_ERROR.search(count[1])))) for each in counts]
    shares = [(count / max(1, len(words)), count, line) for (count, line), words in zip(near, wanted, strict=False)]
    _, _, best = max(shares, key=itemgetter(0), default=(0.0, 0, ""))
    return sum(map(itemgetter(1), shares)) / (sum(map(len, wanted)) or 1), best


def recall_fixes(sessions: Sessions, text: str, budget: int, among: Sequence[str] = ()) -> list[Fix]:
    """What helped against an error that a text quotes, in half of the tokens."""
    most = min(MOST_RECALLED, budget // (2 * _FIX_TOKENS))
    found = find_fixes(sessions, text, most, among) if most and _ERROR.search(text) else []
    return [replace(each, done=each.done[:MOST_ACTS]) for each in found if each.helped]


def _make_fix(failure: Failure, error: str, events: Sequence[RecordedEvent]) -> Fix:
    event, overcome, is_report = failure.run.event, failure.overcome, not failure.run.families
    later = [each for each in events if each.number > event.number]
    turn = [*takewhile(lambda each: not begins_turn(each), later)] if is_report else later[:1]
    end = overcome or (failure.following.event if failure.following else event)
    after = [each for each in later if each.number <= end.number] or turn
    answers = [each for each in split_sentences(turn if is_report else after) if each.by == AGENT]
    said = [each for each in answers if each.event == answers[-1 if is_report else 0].event]
    return Fix(
        origin=f"session:{event.session}#e{event.number}",
        date=datetime.fromtimestamp(event.at, UTC).date().isoformat(),
        error=error,
        command="" if is_report else cut_line(failure.run.command),
        said=cut_line(join_sentences(said)),
        done=tuple(failure.cure) or _list_acts((failure.following or failure.run).command, after),
        helped=overcome is not None if failure.following else None,
        passed=f"#e{overcome.number}" if overcome else "",
    )


def _list_acts(failed: str, events: Sequence[RecordedEvent]) -> tuple[str, ...]:
    """The last files changed and commands run, other than the one that failed, or proved the change."""
    acts = dict[str, None]()
    for each in events:
        command = "" if each.path else each.command
        if each.path and each.tool in ("Edit", "Write") and each.failed is not True:
            acts[f"edited {each.path.rpartition('/')[2]}"] = None
        elif command not in ("", failed) and not each.failed and parse_command(command).name not in LOOKS:
            acts[f"`{cut_line(command, LONGEST_ACT)}`"] = None
    return tuple(acts)[-MOST_ACTS:]


def _find_words(text: str) -> set[str]:
    found = {word.lower() for word in _WORD.findall(text)} - _FAINT
    return {word for word in found if not _NUMBER.match(word)} or found  # numbers differ from run to run
