"""What was done about an error, in any session: where it occurred, what followed, and whether that helped."""

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import cache, partial
from itertools import chain, pairwise, takewhile
from operator import attrgetter, itemgetter

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.ingest.tool_calls import LOOKS, parse_command
from scrimshaw.models import Filters, MemoryType, RecordedEvent, Session
from scrimshaw.search.tokens import STOP_WORDS
from scrimshaw.session.arrivals import Arrival, list_arrivals
from scrimshaw.session.failures import LONGEST_ACT, MOST_ACTS, Failure, find_reports
from scrimshaw.session.record import Record
from scrimshaw.session.statements import AGENT, PATTERNS, begins_turn, cut_line, join_sentences, split_sentences
from scrimshaw.storage.index import Index
from scrimshaw.storage.sessions import Sessions

LONGEST_ERROR, MOST_WORDS, MOST_CALLS = 4_000, 6, 40  # characters; words looked for; calls compared
MOST_FIXES, MOST_RECALLED, MOST_NOTED, MOST_LATER, _SPAN = 5, 2, 300, 6, 10**6  # a span is of more events than one has
LEAST_SHARE = 0.6  # of an error's words that one or two lines of an output have: numbers, paths and names differ
_FIX_TOKENS, _WRAPPED = 200, 60  # at most of a fix; characters of a line that may continue in the next one
_WORD, _NUMBER = re.compile(r"[A-Za-z_]{2,}(?:-[A-Za-z_]+)*|\d[\d.]+"), re.compile(r"\d[\d.]+\Z")
_TEST, _RECORDS, _FETCHES = map(PATTERNS["commands"].__getitem__, ("test", "records", "fetches"))
_REMEDY, _SCRATCH = PATTERNS["failures"]["remedy"], PATTERNS["changes"]["scratch"]
_MADE, _FAINT = Filters(types=(MemoryType.SESSION,)), STOP_WORDS | {"found"}  # of what was not, which says no more
_DETAIL = re.compile(r"\s*\[?(?:INFO|DEBUG)\b")  # how a line of a log begins that is no error
_ERROR = re.compile(r"(?i)(?:error|exception)\b|\b(?:fatal|panic|failed|not found|no such|cannot)\b")


class Fix(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A like error that was met: its event or memory, and the first later run without it, with its day elsewhere."""

    origin: str
    date: str
    error: str
    command: str = ""  #: what failed; empty for an error that a person or a log reported
    said: str = ""  #: what the agent said of it: first of a failure, and last of a report
    done: tuple[str, ...] = ()  #: what cured it, if that is certain; otherwise the last changes and commands
    helped: bool | None = None  #: None if the command was not run again, or no tests after a report
    passed: str = ""


def find_fixes(
    sessions: Sessions, error: str, limit: int = MOST_FIXES, among: Sequence[str] = (), index: Index | None = None
) -> list[Fix]:
    """Failures like this `among` sessions, or all, and with an index elsewhere: most alike, then fixed, then newest."""
    lines = error[:LONGEST_ERROR].splitlines()
    wanted = [*filter(None, map(_find_words, filter(_ERROR.search, lines)))] or [*filter(None, map(_find_words, lines))]
    longest = sorted(set[str]().union(*wanted), key=len, reverse=True)[:MOST_WORDS]
    arrivals = [*list_arrivals(sessions, index, index.select(_MADE, sort="updated", limit=MOST_NOTED))] if index else []
    later = list[Session | Arrival]([] if among else (*arrivals, *sessions.latest(limit=MOST_NOTED, with_changes=True)))
    if not among:  # a prompt, which names one, does not wait until later ones are read either
        faults = {*map(str.lower, _ERROR.findall(error[:LONGEST_ERROR]))}.difference(longest)
        calls = sessions.find_calls([*longest, *faults], MOST_CALLS)
        shares = [(round(_compare_output(wanted, each.text)[0], 1), each.session) for each in calls]
        among = [session for share, session in sorted(shares, key=itemgetter(0), reverse=True) if share >= LEAST_SHARE]
    places: list[Session | Arrival] = [*filter(None, map(sessions.get, [*dict.fromkeys(among)][: 2 * limit]))]
    places += (each for each in arrivals if any(map(each.body.lower().__contains__, longest)))
    found = list[tuple[tuple[float, bool, float], tuple[str, str], Callable[[], Fix]]]()
    for record in map(read := cache(partial(_read_record, sessions)), places):
        for failure in chain(record.failures, find_reports(record.events, record.runs, record.edits)):
            output = failure.run.event.text.partition("\n")[2] if failure.run.families else failure.error
            share, line = _compare_output(wanted, output)
            for x, events in _follow(read, later, failure, record) if share >= LEAST_SHARE else ():
                rank = (round(share, 1), x.overcome is not None, x.run.event.at)
                found.append((rank, (x.run.event.session, line), partial(_make_fix, x, cut_line(line.strip()), events)))
    best = {place: (rank, make_fix) for rank, place, make_fix in sorted(found, key=itemgetter(0))}  # it may recur often
    return [make_fix() for _, make_fix in sorted(best.values(), key=itemgetter(0), reverse=True)[:limit]]


def _read_record(sessions: Sessions, place: Session | Arrival, begin: int = 0) -> Record:
    events = place.list_events() if isinstance(place, Arrival) else sessions.events(place.id)
    return Record([replace(each, number=begin + each.number) for each in events], sessions.items(place.id))


def _follow(
    read: Callable[..., Record], later: Iterable[Session | Arrival], failure: Failure, record: Record
) -> list[tuple[Failure, Sequence[RecordedEvent]]]:
    """A failure with its events, of one that was left to the next green run in a session; none if it recurs before."""
    run, at, is_over = failure.run, failure.run.event.at, failure.following or failure.overcome
    is_left = run.families and not (is_over or any(map(_SCRATCH.search, run.command.split())))
    after = [x for x in later if is_left and (x.started if isinstance(x, Session) else x.last_event) > at]
    told = events, items = record.events, record.items
    for place, each in enumerate(sorted(after, key=attrgetter("last_event"))[:MOST_LATER], start=1):
        more = read(each, place * _SPAN)
        likes = [other.failed for other in more.runs if other.repeats(run)]
        if likes[-1:] == [True] and isinstance(each, Arrival):
            continue  # it tells of that itself
        events, items = [*events, *more.events], [*items, *more.items]
        told = (events, items) if likes else told
        if likes[-1:] == [False]:
            break
    found = [failure] if told[0] is record.events else Record(*told).failures
    return [(x, told[0]) for x in found if x.run.event == run.event]


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


def recall_fixes(sessions: Sessions, index: Index | None, text: str, room: int, among: Sequence[str] = ()) -> list[Fix]:
    """What helped against an error that a text quotes, in half of the tokens."""
    most = min(MOST_RECALLED, room // (2 * _FIX_TOKENS))
    found = find_fixes(sessions, text, most, among, index) if most and _ERROR.search(text) else []
    return [each for each in found if each.helped]


def _make_fix(failure: Failure, error: str, events: Sequence[RecordedEvent]) -> Fix:
    event, overcome, is_report = failure.run.event, failure.overcome, not failure.run.families
    later = [each for each in events if each.number > event.number]
    end = overcome or (failure.following.event if failure.following else event)
    is_elsewhere, after = end.session != event.session, [each for each in later if each.number <= end.number]
    turn = [*takewhile(lambda each: not begins_turn(each), later if is_report else later[len(after) :])]
    heard = turn if is_report or is_elsewhere else after or later[:1]
    answers = [each for each in split_sentences(heard) if each.by == AGENT]
    said = [each for each in answers if each.event == answers[-1 if heard is turn else 0].event]
    ran, tried = (failure.following or failure.run).command, after or (turn if is_report else [])
    acts = [*filter(None, dict.fromkeys(map(partial(_describe_act, ran), tried)))]
    places = [x.session if "/" in x.session else f"session:{x.session}#e{x.number % _SPAN}" for x in (event, end)]
    days = [datetime.fromtimestamp(each.at, UTC).date().isoformat() for each in (event, end)]
    passed = f"{places[1]} on {days[1]}" if is_elsewhere else places[1].removeprefix(f"session:{event.session}")
    return Fix(
        origin=places[0],
        date=days[0],
        error=error,
        command="" if is_report else cut_line(failure.run.command),
        said=cut_line(join_sentences(said)),
        done=tuple(failure.cure or acts[-MOST_ACTS:]),
        helped=overcome is not None if failure.following else None,
        passed=passed if overcome else "",
    )


def _describe_act(failed: str, event: RecordedEvent) -> str:
    """A changed file, or a command that neither only looked nor proved or recorded a change; empty for other events."""
    command, name = "" if event.path else event.command, event.path.rpartition("/")[2]
    is_edit = event.path and event.tool in ("Edit", "Write") and event.failed is not True
    is_record = _RECORDS.search(command) and not ("git " in failed and "git add" in command)
    is_cure = _FETCHES.search(command) or _REMEDY.search(_RECORDS.sub("", command))
    is_proof = (is_record or _TEST.search(re.sub(r"\s[\w.-]*/\S*", "", command))) and not is_cure
    is_act = command not in ("", failed) and not (event.failed or is_proof) and parse_command(command).name not in LOOKS
    return f"edited {name}" if is_edit else f"`{cut_line(command, LONGEST_ACT)}`" if is_act else ""


def _find_words(text: str) -> set[str]:
    found = {word.lower() for word in _WORD.findall(text)} - _FAINT
    return {word for word in found if not _NUMBER.match(word)} or found  # numbers differ from run to run
