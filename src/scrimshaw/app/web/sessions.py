"""The pages of what agents did: all sessions, and one as a timeline."""

import textwrap
from collections import Counter
from collections.abc import Mapping

from scrimshaw.app.web.markup import Child, Html, draw_lines, join, link, make_bar, make_table, make_url, tag
from scrimshaw.app.web.page import EVENTS_SHOWN, Page, Site, Values, format_moment, link_memory, parse_number
from scrimshaw.engine.sessions import rank_working_memory
from scrimshaw.engine.usage import MOST_SESSIONS, measure_usage
from scrimshaw.errors import NotFound
from scrimshaw.ingest.tables import load_table
from scrimshaw.models import EventKind, RecordedEvent, Session
from scrimshaw.session.state import title_session
from scrimshaw.session.working_memory import trace_attention

_LISTED = 50  # per page
_MOST_CURVES = 100  # of a session's newest entries
_SHORT = 500  # characters of an event; the rest opens on demand
_LABELS = load_table(__file__, "sessions", dict[EventKind, str])


def list_sessions(site: Site, values: Values) -> Page:
    """The sessions of all work trees, newest first."""
    engine = site.engine
    offset = parse_number(values, "offset")
    found = engine.sessions.latest(limit=offset + _LISTED + 1, with_work=True)[offset:]
    sent = Counter[str]()
    for row in engine.sessions.injections():
        sent[row.session] += row.tokens
    records = {each.session: each for each in engine.sessions.records()}
    rows = (
        (
            link(title_session(engine.sessions, engine.index, records[each.id]), make_url("/sessions", each.id)),
            format_moment(each.last_event),
            each.client,
            each.state,
            str(sent[each.id] or ""),
            link_memory(records[each.id].memory_id, "memory") if records[each.id].memory_id else "",
        )
        for each in found[:_LISTED]
    )
    head = ("session", "last event", "client", "state", "tokens sent", "what it left")
    table = make_table("Sessions, newest first", head, rows) if found else tag("p", "No agent has worked here yet.")
    older = link("Older sessions", make_url("/sessions", offset=offset + _LISTED))
    more = tag("p", older, class_="onward") if len(found) > _LISTED else None
    return Page("Sessions", join(table, more), "/sessions")


def show_session(site: Site, values: Values) -> Page:
    """The events of one session, from the first one or from event `first`; raises NotFound."""
    engine, name = site.engine, values["id"]
    if (session := engine.sessions.get(name)) is None:
        raise NotFound(f"There is no session {name!r}.", "The list of sessions has those that are recorded.")
    events = engine.sessions.events(name)
    shown = events[max(0, parse_number(values, "first") - 1) :][:EVENTS_SHOWN]
    timeline = tag("ol", [_render_event(each) for each in shown], class_="timeline")
    pages = [
        link(f"events {at + 1} to {min(at + EVENTS_SHOWN, len(events))}", make_url("/sessions", name, first=at + 1))
        for at in range(0, len(events) if len(events) > EVENTS_SHOWN else 0, EVENTS_SHOWN)
    ]
    title = tag("h2", "What happened", id="course")
    course = tag("section", title, tag("p", [(page, " ") for page in pages]), timeline)
    record = next(iter(engine.sessions.records(name)), None)
    about = _render_about(session, len(events), record.memory_id if record else "")
    parts = [about, course, _render_attention(site, session), _render_sent(site, session)]
    return Page(title_session(engine.sessions, engine.index, record) if record else name, join(parts), "/sessions")


def _render_about(session: Session, events: int, memory_id: str) -> Html:
    used = session.context_used
    facts: Mapping[str, Child] = {
        "session": tag("code", session.id),
        "client": session.client,
        "state": session.state,
        "began": format_moment(session.started),
        "last event": format_moment(session.last_event),
        "events": events,
        "context in use": "" if used is None else f"{used:.0%}",
        "goes on from": link(session.continues, make_url("/sessions", session.continues)) if session.continues else "",
        "work tree": session.work_tree,
        "what it left": link_memory(memory_id) if memory_id else "",
    }
    return tag("dl", [(tag("dt", name), tag("dd", value)) for name, value in facts.items() if value])


def _render_event(event: RecordedEvent) -> Html:
    """An event with its outcome; long texts open on demand."""
    outcome = {True: "failed", False: "worked", None: ""}[event.failed]
    number = tag("a", f"e{event.number}", href=f"#e{event.number}", class_="dim")
    mark = tag("span", outcome, class_=f"mark {outcome}") if outcome else None
    head = [number, tag("b", event.tool or _LABELS.get(event.kind, event.kind)), mark, format_moment(event.at)]
    text = event.text.strip()
    is_said = event.kind in (EventKind.PROMPT, EventKind.ANSWER, EventKind.STOP)
    body = tag("p", text, class_="said") if is_said else tag("pre", text)
    if len(text) > _SHORT:
        body = tag("details", tag("summary", _shorten(text, 160)), body)
    kind = "failed" if event.failed else str(event.kind)
    return tag("li", [(part, " ") for part in head if part], body if text else None, id=f"e{event.number}", class_=kind)


def _render_attention(site: Site, session: Session) -> Html | None:
    """Working memory, with the value of each entry after the last event, and how these values fell."""
    ranked, engine = rank_working_memory(site.engine, session), site.engine
    rows = ((_shorten(it.text, 160), it.kind, (make_bar(worth), f" {worth:.2f}"), it.mentions) for it, worth in ranked)
    table = make_table("Working memory, most attended first", ("entry", "kind", "attention", "mentions"), rows)
    items, curves = engine.sessions.items(session.id)[-_MOST_CURVES:], Html("")
    if engine.settings.features.event_decay and session.counter > 1:  # otherwise attention falls by minutes
        traced = ((item, trace_attention(item, session.counter, engine.settings.session)) for item in items)
        lines = [("" if item.held else "left", _shorten(item.text, 80), points) for item, points in traced]
        label = f"Attention 0 to 1 of {len(items)} entries over {session.counter} events"
        words = f"{label}; dashed are those that others replaced since. Mentions count at the end."
        curves = join(draw_lines(lines, session.counter, label), tag("p", words, class_="dim"))
    return tag("section", tag("h2", "Working memory"), curves, table) if ranked else None


def _render_sent(site: Site, session: Session) -> Html | None:
    """What the model was sent, by occasion, its use of what was sent unasked, and the memories it was shown."""
    sessions = site.engine.sessions
    if not (sent := sessions.injections(session.id)):
        return None
    rows = ((each.occasion, each.times, each.tokens, each.hits, format_moment(each.at)) for each in sent)
    table = make_table("Texts sent to the model", ("occasion", "texts", "tokens", "hits", "last"), rows)
    pieces = measure_usage(site.engine, session, sessions.latest(limit=MOST_SESSIONS, with_work=True))
    uses = ((_shorten(each.text or each.id, 160), f"e{each.event}", each.tokens, each.use or "-") for each in pieces)
    used = make_table("How the agent used what it was shown unasked", ("shown", "with", "tokens", "use"), uses)
    shown = [tag("li", link_memory(name)) for name in sessions.hashes_shown(session.id)]
    lists = [used if pieces else None, tag("ul", shown) if shown else None]
    return tag("section", tag("h2", "Shown to the agent"), table, lists)


def _shorten(text: str, most: int) -> str:
    return textwrap.shorten(text, most, placeholder=" …") or text[:most]
