"""What a model does with the texts that hooks handed to it, found in the record of its session when somebody asks.

A piece of such a text is written again where the agent says or calls it soon, though it stood nowhere in its context
before, and it is read where a later call opens its memory. The texts are not kept: a state is told again from the
sessions as they were, a memory by its passage. What a search showed again, or came before a compaction, is lost.
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

from msgspec import Struct
from msgspec.structs import replace as replace_fields

from scrimshaw.engine.context import resume_state
from scrimshaw.engine.core import GLOBAL, Engine
from scrimshaw.engine.read import get
from scrimshaw.errors import ScrimshawError
from scrimshaw.ingest.comparison import split_runs
from scrimshaw.models import EventKind, RecordedEvent, Session
from scrimshaw.search.passages import PASSAGE, TOKEN_CHARACTERS, cut_passage
from scrimshaw.search.tokens import query_terms
from scrimshaw.session.resume import Occasion
from scrimshaw.storage.ports import Sessions

MOST_SESSIONS = 10_000  # among which is the one whose state another was told
WITHIN = 10  # events after the one that something was told with
# New names and runs of three words that make a use. In sessions that were told nothing, one new word alone would call
# 36 % of lines used, three of these 2 to 3 % (docs/rollout.md).
LEAST = 3
_NAME = re.compile(r"\w+(?:[.:-]\w+)+|\w*_\w+|\w*\d\w*")
_SHORTEST_NAME = 4
_CHARACTERS = 3  # of a token, as hooks count; a state counts four
_ANSWERS = (EventKind.ANSWER, EventKind.STOP)


class InjectedPiece(Struct, frozen=True, kw_only=True):
    """A line of a state, or a memory, that a session was told with an event."""

    event: int
    id: str  #: of the memory or passage, or of what a line comes from
    text: str
    use: str = ""  #: written, read, or nothing that shows

    @property
    def tokens(self) -> int:
        """As hooks count them."""
        return len(self.text) // _CHARACTERS + 1


def measure_usage(engine: Engine, session: Session, known: Sequence[Session]) -> tuple[InjectedPiece, ...]:
    """What a session was told unasked, with what it made of that; `known` are all sessions, newest first."""
    events = engine.sessions.events(session.id)
    states = {row.at: row for row in engine.sessions.injections(session.id)}
    pieces = list[InjectedPiece]()
    for event in events if states else ():
        rest = 0.0
        for name in engine.sessions.hashes_shown(session.id, since=event.at, until=event.at):
            text = ""
            with suppress(ScrimshawError):  # it is gone, and may have been of use all the same
                text = get(engine, name).body
            text = text if event.kind is EventKind.START else cut_passage(text, query_terms(event.text), PASSAGE)
            pieces.append(InjectedPiece(event=event.number, id=name, text=text))
            rest += len(text) / _CHARACTERS
        row = states.get(event.at)
        if row and row.occasion in [*Occasion]:
            past = replace(engine, sessions=look_back(engine.sessions, known, event.at))
            budget = int((row.tokens / row.times - rest) * _CHARACTERS / TOKEN_CHARACTERS)
            lines, _, _ = resume_state(past, session, Occasion(row.occasion), budget)
            pieces += (InjectedPiece(event=event.number, id=each.origin, text=each.text) for each in lines)
    return find_uses(events, pieces)


def look_back(sessions: Sessions, known: Sequence[Session], at: float) -> Sessions:
    """The sessions as they were before a moment, as far as a state asks for them."""
    earlier = [each for each in known if each.started < at]
    past = SimpleNamespace(
        latest=lambda before, limit, **_: [each for each in earlier if each.id != before][:limit],
        events=lambda session: [each for each in sessions.events(session) if each.at < at],
        items=lambda session: [each for each in sessions.items(session) if each.at < at],
        records=sessions.records,
    )
    return cast(Sessions, past)


def find_uses(events: Sequence[RecordedEvent], pieces: Sequence[InjectedPiece]) -> tuple[InjectedPiece, ...]:
    """The pieces with what the events after each show of its use. Pure."""
    context, wanted, uses = set[object](), [_find_terms(piece.text) for piece in pieces], [""] * len(pieces)
    for event in events:
        call = event.text.partition("\n")[0] if event.kind is EventKind.TOOL else ""
        said = call or (event.text if event.kind in _ANSWERS else "")
        fresh = _find_terms(said) - context if said else set()
        for place, piece in enumerate(pieces):
            name = piece.id.removeprefix(GLOBAL)
            file = f"/{name}.md" if "/" in name else f"/memories/{name}.md"
            if event.number > piece.event and call and file in f"/{event.path}\n/{call}":
                uses[place] = "read"
            is_soon = piece.event < event.number <= piece.event + WITHIN
            if is_soon and not uses[place] and len(fresh & wanted[place]) >= LEAST:
                uses[place] = "written"
        if event.kind is EventKind.COMPACT:
            context.clear()
        context |= _find_terms(event.text)
    return tuple(replace_fields(piece, use=use) for piece, use in zip(pieces, uses, strict=True))


def _find_terms(text: str) -> set[object]:
    """The names in a text and its runs of three words."""
    names = (name for name in _NAME.findall(text.casefold()) if len(name) >= _SHORTEST_NAME)
    return {*names, *split_runs(text)}
