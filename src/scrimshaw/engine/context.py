"""What an agent should know now: for a task, with a full context, or when it resumes work."""

import logging
import re
from collections.abc import Callable
from functools import cache
from itertools import chain, compress
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.engine.core import Engine
from scrimshaw.engine.degradations import SESSION
from scrimshaw.engine.read import search
from scrimshaw.engine.sessions import find_shown
from scrimshaw.ingest.comparison import count_tokens
from scrimshaw.models import RECORD, Intent, MemoryType, Mode, Pressure, Session
from scrimshaw.search.results import SearchRequest, SearchResult, StateLine
from scrimshaw.search.routing import OPEN
from scrimshaw.search.tokens import query_terms
from scrimshaw.session import pressure, resume
from scrimshaw.session.arrivals import find_touched
from scrimshaw.session.resume import Asked, Occasion
from scrimshaw.session.state import JOURNAL, Count, find_about, fit_lines, tell_days, tell_state, tell_subject

_QUESTION = re.compile(r"(what|how|where|when|why|who|which)\b", re.IGNORECASE)
_SHORT_QUERY = 50  # characters
_DEEP_INTENTS = frozenset({Intent.ADD_FEATURE, Intent.REFACTOR, Intent.SECURITY_AUDIT, Intent.FIND_SPEC})
_STATE_SHARE = 0.7  # of a resume's budget, the share that the session's own state may take before memories get theirs
_OPEN_PARTS = ("next", "open", "task not finished")  # of a state
_LINE_TOKENS = 12  # of a line's names in an answer as JSON

Search = Callable[[Engine, SearchRequest, Session | None], SearchResult]

_warn_once = cache(logging.getLogger(__name__).warning)  # once per process, not once per call


class ContextRequest(SearchRequest, frozen=True, kw_only=True):
    """A search for a task; `token_usage` is the share of the client's context in use, 0..1."""

    mode: Mode = Mode.AUTO
    token_usage: float | None = None


class PressureView(Struct, frozen=True, kw_only=True):
    """The pressure that limited an answer, who reported it, and what it changed."""

    level: Pressure
    ratio: float | None
    source: str
    warning: str


class Context(Struct, frozen=True, kw_only=True):
    """What was found, for a resume also the session's state, how the search was narrowed, and the answer's budget."""

    mode: Mode
    requested_mode: Mode
    token_budget: int
    pressure: PressureView
    result: SearchResult
    state: tuple[StateLine, ...] = ()
    state_omitted: int = 0


def context(engine: Engine, asked: ContextRequest, session: Session | None = None, *, find: Search = search) -> Context:
    """What is known for a task, within the token budget of the mode and of the pressure; `find` searches."""
    settings, thresholds = engine.settings.context, engine.settings.session.pressure_thresholds
    view = PressureView(level=Pressure.UNKNOWN, ratio=None, source="off", warning="")
    if engine.settings.features.pressure_policy:
        share, source = asked.token_usage, "argument"
        if share is None:  # the client's last report
            share = session.context_used if session else None
            source = "unknown" if share is None else "client"
        if share is None:
            _warn_once("tokenUsage not provided and estimator unavailable; pressure policy inactive")
        level = pressure.pressure_level(share, thresholds)
        view = PressureView(level=level, ratio=share, source=source, warning=pressure.describe_pressure(share, level))
    mode, query = asked.mode, asked.query
    if mode == Mode.AUTO:  # deep for a long task or work that touches much; resume on words that ask for it
        is_task = len(query) >= _SHORT_QUERY and not _QUESTION.match(query)
        mode = Mode.DEEP if (asked.intent in _DEEP_INTENTS if asked.intent else is_task) else Mode.FOCUSED
        may_resume = session and engine.settings.features.auto_resume
        if may_resume and (resume.RECALL.search(query) or resume.find_asked(query)):
            mode = Mode.RESUME
        mode = pressure.narrow_mode(mode, view.level)
    shown = len(find_shown(engine, session)) if session else 0
    share, high = view.ratio or 0.0, thresholds[1]
    budget = pressure.token_budget(mode, view.level, settings, share=share, high=high, shown=shown)
    request = replace(asked, limit=asked.limit or getattr(settings, f"{mode}_limit"))
    result, occasion = find(engine, request, session), Occasion.RESUME if mode == Mode.RESUME else None
    room = int(budget * _STATE_SHARE)
    result, state, state_omitted = _find_state(engine, query, result, session, occasion, room, count_tokens)
    return Context(
        mode=mode,
        requested_mode=asked.mode,
        token_budget=budget,
        pressure=view,
        result=result,
        state=tuple(dict.fromkeys([*find_touched(engine.sessions, engine.index, asked.query), *state])),
        state_omitted=state_omitted,
    )


def resume_state(engine: Engine, session: Session, occasion: Occasion, budget: int) -> tuple[list[StateLine], int, int]:
    """The summary of a session for this occasion within a budget: lines, their tokens, how many were left out."""
    return fit_lines(tell_state(engine.sessions, engine.index, session, occasion, engine.folder), budget, count_tokens)


def add_state(engine: Engine, query: str, found: SearchResult, session: Session | None, budget: int) -> SearchResult:
    """The result; of a query that asks where the work stands, or what was done when, with that for `nearest`."""
    if found.offset:
        return found
    days, state = resume.find_asked_days(query, found.period), list[StateLine]()
    occasion = Occasion.START if resume.asks_only_for_session(query) else None
    with engine.degradations.note_failure(SESSION):
        found, state, _ = _find_state(engine, query, found, session, occasion, int(budget * _STATE_SHARE), _count_line)
    if days and state and state[0].origin != JOURNAL:
        # The sessions are the answer, and beside them only what has the date in its text, such as a daily note.
        words = {*query_terms(query)} - {*query_terms(days.rest)}
        is_date = any(map(str.isdecimal, words))
        texts = [f"{hit.memory.id} {hit.memory.title} {hit.text}".lower() for hit in found.hits]
        has_date = (is_date and words.issubset(re.findall(r"\w+", text)) for text in texts)
        hits = tuple(compress(found.hits, has_date))
        sure = max(map(attrgetter("confidence"), hits), default=0.0)
        found = replace(found, hits=hits, next_offset=None, confidence=sure)
    return replace(found, state=tuple(state), nearest=()) if state else found


def _find_state(
    engine: Engine,
    query: str,
    found: SearchResult,
    session: Session | None,
    occasion: Occasion | None,
    budget: int,
    count: Count,
) -> tuple[SearchResult, list[StateLine], int]:
    """What a query asks of sessions, or for an occasion the last one's state, and how many lines are left out.

    With the result, for who asks what is left without what sessions say: later ones may have done it.
    """
    own, lines = session.id if session else "", list[StateLine]()
    if days := resume.find_asked_days(query, found.period):
        return found, tell_days(engine.sessions, engine.index, days, own, budget, count), 0
    if resume.find_asked(query) == Asked.SUBJECT:
        hits = (each.memory for each in found.hits if each.memory.provenance.session != own)
        found_about = chain(hits, find_about(engine.index, resume.find_subject(query), own))  # all hits may only ask
        lines = tell_subject(engine.sessions, engine.index, found_about, engine.folder)
    if occasion and not lines:
        about = session or next(iter(engine.sessions.latest()), Session(id=""))
        lines = tell_state(engine.sessions, engine.index, about, occasion, engine.folder)
        is_open, rest = OPEN.search(query.lower()), OPEN.sub(" ", resume.RECALL.sub(" ", query).lower())
        if lines and is_open and resume.DEEDS.issuperset(query_terms(rest)):  # "what is still open?"
            lines.sort(key=lambda line: not line.part.startswith(_OPEN_PARTS))
            kept = [x for x in found.hits if x.memory.source != RECORD and x.memory.type != MemoryType.SESSION]
            sure = max(map(attrgetter("confidence"), kept), default=0.0)
            found = replace(found, hits=tuple(kept), next_offset=None, confidence=sure)
    state, _, omitted = fit_lines(lines, budget, count)
    return found, state, omitted


def _count_line(text: str) -> int:
    return count_tokens(text) + _LINE_TOKENS
