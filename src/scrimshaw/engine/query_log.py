"""The log of searches, a file next to the journal: each question, what was shown, and what was read of it later.

It never leaves the machine, only has redacted text, and is bounded; `[search] log = false` switches it off.
"""

import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from scrimshaw.engine.core import Engine
from scrimshaw.ingest.redact import redact
from scrimshaw.ingest.tables import load_table
from scrimshaw.models import Session
from scrimshaw.search.candidates import DAY_S
from scrimshaw.search.results import SearchRequest, SearchResult
from scrimshaw.storage.durable import PRIVATE_FILE, read_if_there, replace_file

FILE, OLDER = "queries.jsonl", "queries.older.jsonl"
MOST_BYTES = 2 * 1024 * 1024  # of each of the two files: some 3,000 searches
READ_WITHIN_S = 1800.0  # a later read hardly comes from the search


class LoggedSearch(Struct, frozen=True, kw_only=True, tag="search", omit_defaults=True):
    """A search with its answer; `stages` are milliseconds, `shown` the ids and scores, best first."""

    at: float  #: seconds since 1970
    session: str
    query: str
    intent: str
    channels: tuple[str, ...]
    confidence: float
    shown: tuple[tuple[str, float], ...]
    dark: tuple[str, ...] | None = None  #: with `rollout.dark_launch`, the hits with the boosts that the session lacks
    lifted: int  #: hits that a session or a causal relation boosted
    stages: Mapping[str, float]
    failures: tuple[str, ...]

    @property
    def ms(self) -> float:
        """The duration of the whole search."""
        return sum(self.stages.values())


class LoggedRead(Struct, frozen=True, kw_only=True, tag="read"):
    """A memory that was read as a whole."""

    at: float
    id: str


_Line = LoggedSearch | LoggedRead


def append(engine: Engine, line: _Line) -> None:
    """Add a line, unless the log is switched off; a disk error is ignored."""
    if not engine.settings.search.log:
        return
    path = Path(engine.storage.place, FILE)
    data = msgspec.json.encode(line) + b"\n"
    with suppress(OSError):
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_FILE), "ab", 0) as file:
            file.write(data)  # one write, so that lines of several processes do not mix
            size = file.tell()
        if size > MOST_BYTES:
            path.replace(path.with_name(OLDER))


def log_search(
    engine: Engine, request: SearchRequest, session: Session | None, result: SearchResult, dark: SearchResult | None
) -> None:
    """Log a search with its answer, and that of a dark launch, unless the log is off or capture is paused."""
    if not engine.settings.is_capturing:
        return
    line = LoggedSearch(
        at=round(engine.clock(), 3),
        session=session.id if session else "",
        query=redact(request.query).text,
        intent=request.intent or "",
        channels=tuple(map(str, request.channels)),
        confidence=round(result.confidence, 3),
        shown=tuple((hit.memory.id, round(hit.score, 4)) for hit in result.hits),
        dark=tuple(hit.memory.id for hit in dark.hits) if dark else None,
        lifted=sum(bool(hit.explanation.boosts) for hit in result.hits),
        stages={str(each.stage): round(each.ms, 3) for each in result.trace},
        failures=tuple(each.failure_mode.partition(":")[0] for each in result.degradations),
    )
    append(engine, line)


def read_log(engine: Engine) -> list[_Line]:
    """The lines of the log, oldest first; a torn line or one of another version is skipped."""
    lines = list[_Line]()
    for name in (OLDER, FILE):
        with suppress(OSError):
            for line in (engine.storage.place / name).read_bytes().splitlines():
                with suppress(msgspec.DecodeError):
                    lines.append(msgspec.json.decode(line, type=_Line))
    return lines


def forget_session(engine: Engine, session: str, *, dry_run: bool = False) -> int:
    """Remove a session's searches from the log; returns how many there are."""
    mark, count = b'"session":' + msgspec.json.encode(session), 0
    for path in (engine.storage.place / name for name in (OLDER, FILE)):
        lines = (read_if_there(path) or b"").splitlines(keepends=True)
        kept = [line for line in lines if mark not in line]
        count += len(lines) - len(kept)
        if len(kept) < len(lines) and not dry_run:
            replace_file(path, b"".join(kept))
    return count


def pair_reads(lines: Sequence[_Line]) -> Iterator[tuple[LoggedSearch, tuple[str, ...]]]:
    """Each search with the ids among those shown that were read within half an hour."""
    for number, line in enumerate(lines):
        if isinstance(line, LoggedSearch):
            shown = {name.partition("#")[0] for name, _ in line.shown}
            read = dict[str, None]()
            for later in lines[number + 1 :]:
                if later.at - line.at > READ_WITHIN_S:
                    break
                if isinstance(later, LoggedRead) and later.id in shown:
                    read[later.id] = None
            yield line, tuple(read)


SHARES = load_table(__file__, "query_log", dict[str, str])  # in words, by the field of the figures


class DarkFigures(Struct, frozen=True, kw_only=True):
    """Searches of sessions that lack a boost, and what it would have changed (`rollout.dark_launch`)."""

    searches: int
    changed: float | None  #: share of them with other hits, or in another order
    best_changed: float | None  #: share with another best hit


class SearchFigures(Struct, frozen=True, kw_only=True):
    """Statistics of the logged searches of some days; shares are of the searches, times are milliseconds."""

    days: float
    searches: int
    refused: float | None  #: share in which nothing was sure enough to be shown
    degraded: float | None
    lifted: float | None  #: share with a hit that a session or a causal relation boosted
    read: float | None  #: share of those with hits of which one was read within half an hour
    read_first: float | None  #: share of those read in which the best hit was read
    dark: DarkFigures
    failures: Mapping[str, int]
    stages: Mapping[str, tuple[float, float]]  #: median and 95th percentile of each stage, and of the whole


def search_figures(engine: Engine, days: float) -> SearchFigures:
    """Statistics of the searches of the last days, as far as they are logged."""
    since = engine.clock() - days * DAY_S
    paired = [(each, read) for each, read in pair_reads(read_log(engine)) if each.at >= since]
    searches = [each for each, _ in paired]
    with_hits = [(each, read) for each, read in paired if each.shown]
    found = [(each.shown[0][0].partition("#")[0], read) for each, read in with_hits if read]
    orders = [([name for name, _ in each.shown], [*each.dark]) for each in searches if each.dark is not None]
    times = defaultdict[str, list[float]](list)
    for each in searches:
        for stage, ms in (*each.stages.items(), ("all", each.ms)):
            times[stage].append(ms)
    return SearchFigures(
        days=days,
        searches=len(searches),
        refused=_mean(not each.shown for each in searches),
        degraded=_mean(bool(each.failures) for each in searches),
        lifted=_mean(bool(each.lifted) for each in searches),
        read=_mean(bool(read) for _, read in with_hits),
        read_first=_mean(best in read for best, read in found),
        dark=DarkFigures(
            searches=len(orders),
            changed=_mean(shown != dark for shown, dark in orders),
            best_changed=_mean(shown[:1] != dark[:1] for shown, dark in orders),
        ),
        failures=Counter(name for each in searches for name in each.failures),
        stages={stage: (_rank(values, 0.5), _rank(values, 0.95)) for stage, values in times.items()},
    )


def describe_dark(found: DarkFigures) -> Iterator[str]:
    """Sentences about them; none without such searches."""
    if found.searches:
        words = f"{found.searches} of the searches lacked a boost. It would have changed the hits of"
        yield f"{words} {found.changed:.1%} of these, and the best hit of {found.best_changed:.1%}."


def _mean(of: Iterable[float]) -> float | None:
    values = [*of]
    return round(sum(values) / len(values), 4) if values else None


def _rank(values: Sequence[float], share: float) -> float:
    return round(sorted(values)[math.ceil(share * len(values)) - 1], 3)
