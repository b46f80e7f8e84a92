"""Pages in a file that needs nothing else: all figures of a memory, or the memories themselves."""

import base64
import hashlib
import re
from collections.abc import Container, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from scrimshaw.app.web.figures import show_health, show_quality, show_statistics
from scrimshaw.app.web.markdown import render_markdown
from scrimshaw.app.web.markup import Html, join, make_document, make_url, tag
from scrimshaw.app.web.page import Page, Site, describe_memory, link_memory, read_asset
from scrimshaw.app.web.search import render_newest, render_state
from scrimshaw.app.web.sessions import list_sessions
from scrimshaw.engine import Engine, read
from scrimshaw.models import EVERY, Edge, EdgeKind, Filters, Memory
from scrimshaw.storage.durable import write_file

# Outside of the dashboard links to its pages lead nowhere: mere navigation is removed, other links become text.
_ONWARD = re.compile(r'<p class="onward">.*?</p>', re.DOTALL)
_LINK = re.compile(r'<a href="(/[^"#]*)([^"]*)"[^>]*>(.*?)</a>', re.DOTALL)
_SECTION = re.compile(r'(id="|href="#)(?=s-)')


def render_report(engine: Engine) -> Html:
    """A whole document: what the next session is given, the newest memories but private ones, sessions, figures."""
    site = Site(engine, form_token="")
    # Those that stay are few; a statement cannot name tens of thousands.
    shown = Filters(exclude=tuple(each.id for each in engine.index.select(Filters()) if not read.may_leave(each)))
    now = Page("Now", join(render_state(site), render_newest(site, shown, {})), "")
    figures = show_health(site, {"thorough": "1"}), show_statistics(site, {}), show_quality(site, {})
    pages = (now, list_sessions(site, {}), *figures)
    sections = [tag("section", tag("h1", page.title), page.content) for page in pages]
    return _render_document(engine, Html(_LINK.sub(r"\3", _ONWARD.sub("", join(sections)))))


def export_html(engine: Engine, file: Path, *, with_private: bool) -> int:
    """Write memories into one document, which a script searches; returns how many. Raises StorageFailure."""
    memories = read.list_writable(engine, EVERY)
    memories = [each for each in memories if with_private or read.may_leave(each)]
    edges = {name: [*some] for name, some in groupby(engine.index.edges(), lambda each: each[0].source)}
    known = {make_url("/memory", each.id) for each in memories}
    entries = [render_entry(engine, each, edges.get(each.id, ()), known) for each in memories]
    field = [tag("label", "Search titles, phrases and texts", for_="q"), tag("input", type="search", id="q")]
    search = tag("form", field, tag("p", role="status"), role="search", hidden=True)
    page = _render_document(engine, join(search, tag("div", entries, id="memories")), read_asset("find.js"))
    write_file(file, page.encode())
    return len(memories)


def render_entry(engine: Engine, memory: Memory, edges: Sequence[tuple[Edge, str]], known: Container[str]) -> Html:
    """A memory that opens; links to memories in the same file work, other links are text."""
    place, phrases = make_url("/memory", memory.id)[1:], "; ".join((*memory.triggers, *memory.questions))
    body = engine.index.bodies([memory.id]).get(memory.id, "")
    related = [(f"{x.relation} ", link_memory(to), " ") for x, to in edges if to and x.kind != EdgeKind.LINK]
    text = render_markdown(body, memory.id, {edge.target: meant for edge, meant in edges if meant})
    parts = [describe_memory(memory, body), tag("p", phrases, class_="phrases dim"), tag("p", related, class_="dim")]

    def lead(found: re.Match[str]) -> str:
        return f'<a href="#{found[1][1:]}{found[2]}">{found[3]}</a>' if found[1] in known else found[3]

    content = _LINK.sub(lead, join(parts, tag("div", text, class_="markdown")))
    content = _SECTION.sub(rf"\g<0>{place}#", content)  # several memories have sections of the same name
    return tag("details", tag("summary", tag("h2", memory.title)), tag("div", Html(content), id=place), class_="memory")


def _render_document(engine: Engine, content: Html, script: str = "") -> Html:
    """A whole document under a policy that allows only this script, and no loading or sending."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    policy += f"; script-src 'sha256-{digest}'" if script else ""
    name, moment = engine.settings.project.name, datetime.fromtimestamp(engine.clock(), UTC)
    guard = tag("meta", http_equiv="Content-Security-Policy", content=policy)
    head = [guard, tag("style", Html(read_asset("style.css")))]
    title = [tag("h1", f"Memory of {name}"), tag("p", f"{moment:%Y-%m-%d %H:%M} UTC", class_="dim")]
    run = tag("script", Html(script)) if script else None
    return make_document(f"Memory of {name}", head, tag("main", title, content), run)
