"""All figures of a memory in one file that needs nothing else: for a colleague, or to compare with a later one."""

import re
from datetime import UTC, datetime

from scrimshaw.app.web.figures import show_health, show_statistics
from scrimshaw.app.web.markup import Html, join, tag
from scrimshaw.app.web.page import Page, Site, read_asset
from scrimshaw.app.web.search import render_newest, render_state
from scrimshaw.app.web.sessions import list_sessions
from scrimshaw.engine import Engine

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
# Outside of the dashboard links to its pages lead nowhere: those that only lead on go, others become text.
_ONWARD = re.compile(r'<p class="onward">.*?</p>', re.DOTALL)
_LINK = re.compile(r'<a href="/[^>]*>(.*?)</a>', re.DOTALL)


def render_report(engine: Engine) -> Html:
    """A whole document with what the next session is told, the newest memories, sessions, health and figures."""
    site = Site(engine, form_token="")
    pages = [
        Page("Now", join(render_state(site), render_newest(site)), ""),
        list_sessions(site, {}),
        show_health(site, {"thorough": "1"}),
        show_statistics(site, {"quality": "1"}),
    ]
    name, moment = engine.settings.project.name, datetime.fromtimestamp(engine.clock(), UTC)
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"Memory of {name}"),
        tag("style", Html(read_asset("style.css"))),
    )
    title = [tag("h1", f"Memory of {name}"), tag("p", f"{moment:%Y-%m-%d %H:%M} UTC", class_="dim")]
    sections = [tag("section", tag("h1", page.title), page.content) for page in pages]
    content = _LINK.sub(r"\1", _ONWARD.sub("", tag("main", title, sections)))
    return join(Html("<!doctype html>"), tag("html", head, tag("body", Html(content)), lang="en"))
