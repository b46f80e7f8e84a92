"""What a model does with the texts that hooks gave it, computed from the records of sessions on request.

A line of such a text is written again if the agent soon says or calls it and nothing in its context had it before; it
is read if a later call opens its memory. The texts are not stored: a state is rebuilt from the sessions as they were, a
memory from its passage. Texts that a search returned again, or from before a compaction, are lost. Sessions that were
given memories are compared with those that, by chance, were not.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from statistics import fmean, pvariance
from types import SimpleNamespace
from typing import cast

from msgspec import Struct
from msgspec.structs import replace as replace_fields

from scrimshaw.engine.context import resume_state
from scrimshaw.engine.core import GLOBAL, Engine
from scrimshaw.engine.read import get
from scrimshaw.errors import ScrimshawError
from scrimshaw.ingest.comparison import TOKEN_CHARACTERS, split_runs
from scrimshaw.models import EventKind, RecordedEvent, Session
from scrimshaw.search.passages import PASSAGE, cut_passage
from scrimshaw.search.tokens import query_terms
from scrimshaw.session.resume import Occasion
from scrimshaw.storage.sessions import Sessions

MOST_SESSIONS = 10_000  # among which is the one that a state was about
WITHIN = 10  # events after the one with which a text was given
# New names and runs of three words that make a use. In sessions that were given nothing, one new word alone would count
# 36 % of lines as used, three of these 2 to 3 % (docs/rollout.md).
LEAST = 3
_NAME = re.compile(r"\w+(?:[.:-]\w+)+|\w*_\w+|\w*\d\w*")
_SHORTEST_NAME = 4
_CHARACTERS = 3  # of a token, as hooks count; a state counts four
_ANSWERS = (EventKind.ANSWER, EventKind.STOP)
LEAST_CALLS = 3  # a shorter session has nothing that could have gone better
_DEVIATIONS = 1.96  # 95 % of the differences of two means are within it
_READS = ("Read", "ReadRange", "ReadPart")


class InjectedPiece(Struct, frozen=True, kw_only=True):
    """A line of a state, or a memory, that a session was given with an event."""

    event: int
    id: str  #: of the memory or passage, or of the source of a line
    text: str
    use: str = ""  #: written, read, or empty if there is no sign of use

    @property
    def tokens(self) -> int:
        """The tokens, as hooks count them."""
        return len(self.text) // _CHARACTERS + 1


def measure_usage(engine: Engine, session: Session, known: Sequence[Session]) -> tuple[InjectedPiece, ...]:
    """What a session was given unasked, and how it used that; `known` are all sessions, newest first."""
    events = engine.sessions.events(session.id)
    states = {row.at: row for row in engine.sessions.injections(session.id)}
    pieces = list[InjectedPiece]()
    for event in events if states else ():
        rest = 0.0
        for name in engine.sessions.hashes_shown(session.id, since=event.at, until=event.at):
            text = ""
            with suppress(ScrimshawError):  # it is deleted, and may have been useful all the same
                text = get(engine, name).body
            text = text if event.kind is EventKind.START else cut_passage(text, query_terms(event.text), PASSAGE)
            pieces.append(InjectedPiece(event=event.number, id=name, text=text))
            rest += len(text) / _CHARACTERS
        if (row := states.get(event.at)) and row.occasion in [*Occasion]:
            past = replace(engine, sessions=look_back(engine.sessions, known, event.at))
            budget = int((row.tokens / row.times - rest) * _CHARACTERS / TOKEN_CHARACTERS)
            lines, _, _ = resume_state(past, session, Occasion(row.occasion), budget)
            pieces += (InjectedPiece(event=event.number, id=each.origin, text=each.text) for each in lines)
    return find_uses(events, pieces)


def look_back(sessions: Sessions, known: Sequence[Session], at: float) -> Sessions:
    """The sessions as they were before a moment, as far as a state needs them."""
    earlier = [each for each in known if each.started < at]
    past = SimpleNamespace(
        get=sessions.get,
        latest=lambda before, limit=1, **_: [each for each in earlier if each.id != before][:limit],
        events=lambda session, *kinds, last=0: [x for x in sessions.events(session, *kinds) if x.at < at][-last:],
        items=lambda session: [each for each in sessions.items(session) if each.at < at],
        records=sessions.records,
    )
    return cast(Sessions, past)


def find_uses(events: Sequence[RecordedEvent], pieces: Sequence[InjectedPiece]) -> tuple[InjectedPiece, ...]:
    """The pieces, each with the use that the events after it show. Pure."""
    known, wanted, uses = set[object](), [_find_terms(piece.text) for piece in pieces], [""] * len(pieces)
    for event in events:
        call = event.input if event.kind is EventKind.TOOL else ""
        said = call or (event.text if event.kind in _ANSWERS else "")
        fresh = _find_terms(said) - known if said else set()
        for place, piece in enumerate(pieces):
            name = piece.id.removeprefix(GLOBAL)
            file = f"/{name}.md" if "/" in name else f"/memories/{name}.md"
            if event.number > piece.event and call and file in f"/{event.path}\n/{call}":
                uses[place] = "read"
            is_soon = piece.event < event.number <= piece.event + WITHIN
            if is_soon and not uses[place] and len(fresh & wanted[place]) >= LEAST:
                uses[place] = "written"
        if event.kind is EventKind.COMPACT:
            known.clear()
        known |= _find_terms(event.text)
    return tuple(replace_fields(piece, use=use) for piece, use in zip(pieces, uses, strict=True))


def _find_terms(text: str) -> set[object]:
    """The names in a text and its runs of three words."""
    names = (name for name in _NAME.findall(text.casefold()) if len(name) >= _SHORTEST_NAME)
    return {*names, *split_runs(text)}


class Difference(Struct, frozen=True, kw_only=True):
    """A measure of sessions: its mean with and without memories, and the 95 % interval of the difference."""

    name: str
    told: float
    untold: float
    low: float
    high: float

    @property
    def is_sure(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0


class Uplift(Struct, frozen=True, kw_only=True):
    """How many sessions got memories and how many did not, and the differences; none without both kinds."""

    percent: int
    told: int
    untold: int
    differences: tuple[Difference, ...] = ()


def measure_uplift(engine: Engine) -> Uplift:
    """Compare the recorded sessions that `rollout.injection` gave memories with those it did not."""
    rollout = engine.settings.rollout
    groups: Mapping[bool, list[Mapping[str, float]]] = {True: [], False: []}
    for record in engine.sessions.records():
        events = engine.sessions.events(record.session)
        if sum(each.kind is EventKind.TOOL for each in events) >= LEAST_CALLS:
            groups[rollout.includes("injection", record.session)].append(_measure(events))
    told, untold = groups[True], groups[False]
    differences = list[Difference]()
    for name in told[0] if told and untold else ():
        with_, without = ([each[name] for each in group] for group in (told, untold))
        gap = fmean(with_) - fmean(without)
        reach = _DEVIATIONS * math.sqrt(sum(pvariance(some) / max(1, len(some) - 1) for some in (with_, without)))
        means = {"told": round(fmean(with_), 3), "untold": round(fmean(without), 3)}
        differences.append(Difference(name=name, **means, low=round(gap - reach, 3), high=round(gap + reach, 3)))
    return Uplift(percent=rollout.injection, told=len(told), untold=len(untold), differences=tuple(differences))


def _measure(events: Sequence[RecordedEvent]) -> Mapping[str, float]:
    calls = [each for each in events if each.kind is EventKind.TOOL]
    failed = Counter((each.tool, each.input) for each in calls if each.failed)
    read = Counter(each.path for each in calls if each.tool in _READS and each.path)
    return {
        "prompts": sum(each.kind is EventKind.PROMPT for each in events),
        "calls": len(calls),
        "failures again": sum(times - 1 for times in failed.values()),
        "files read again": sum(times - 1 for times in read.values()),
        "characters": sum(len(each.text) for each in events),
    }
