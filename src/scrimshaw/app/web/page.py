"""The common parts of the pages: their frame, the memory behind them, and elements of several pages."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib.resources import files
from typing import NamedTuple

from scrimshaw.app.hooks.fencing import is_withheld
from scrimshaw.app.hooks.injection import count_waiting_drafts
from scrimshaw.app.web.markup import Html, join, link, make_document, make_url, tag
from scrimshaw.engine import Engine
from scrimshaw.models import Degradation, Memory, MemoryType, Tier, Trust

EVENTS_SHOWN = 200  # of a session on a page
Values = Mapping[str, str]  # from the path, the query or a form
NAVIGATION = {
    "/": "Search", "/graph": "Graph", "/sessions": "Sessions", "/drafts": "Review",
    "/changes": "Changes", "/health": "Health", "/stats": "Statistics",
}  # fmt: skip
_MOST_DIGITS = 10


def read_asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


class Page(NamedTuple):
    """The content of a page below the navigation, and the navigation entry that it belongs to."""

    title: str
    content: Html
    current: str


@dataclass
class Site:
    """The open memory and what its pages need: a token for forms, and recent actions of a person, by name."""

    engine: Engine
    form_token: str  #: empty if pages only show
    done: dict[str, tuple[Html, Callable[[], None]]] = field(default_factory=dict)  #: what was done, and its undo


def render_page(site: Site, page: Page, done: str = "") -> Html:
    """A whole document; `done` names the last action, which its banner offers to undo."""
    engine = site.engine
    waiting = count_waiting_drafts(engine.settings)
    entries = []
    for path, name in NAVIGATION.items():
        badge = tag("span", waiting, class_="badge", title="drafts wait") if path == "/drafts" and waiting else None
        entries.append(tag("li", link([name, badge], path, aria_current="page" if path == page.current else None)))
    icon = tag("link", rel="icon", href="/assets/icon.svg", type="image/svg+xml")
    style = tag("link", rel="stylesheet", href="/assets/style.css")
    script = tag("script", src="/assets/keys.js", defer=True)
    head = [tag("meta", name="color-scheme", content="light dark"), icon, style, script]
    project = tag("span", engine.settings.project.name, class_="project", title=str(engine.settings.project))
    pages = tag("nav", tag("ul", entries), aria_label="Pages")
    header = tag("header", link("Scrimshaw", "/", class_="brand"), project, pages)
    command = tag("code", "scrimshaw ui --edit")
    is_short = not site.form_token and page.current in ("/drafts", "/changes")
    hint = tag("p", command, " has buttons here, each with an undo.", class_="dim") if is_short else None
    banner = None
    if done in site.done:
        form = make_form(site, "/undo", "Undo", done=done)
        banner = tag("div", tag("p", site.done[done][0]), form, class_="done", role="status")
    content = tag("main", banner, tag("h1", page.title), hint, page.content, id="main", tabindex="-1")
    keys = [(tag("kbd", key), f" {what} ") for key, what in (("/", "search"), ("j", "next"), ("k", "previous"))]
    skip = link("Skip to the content", "#main", class_="skip")
    title = f"{page.title} · {engine.settings.project.name}"
    return make_document(title, head, skip, header, content, tag("footer", keys))


def make_form(site: Site, action: str, label: str, kind: str = "", **values: str) -> Html | None:
    """A button that posts, unless pages only show; its token shows that the form is from one of these pages."""
    if not site.form_token:
        return None
    fields = {"token": site.form_token, **values}
    hidden = [tag("input", type="hidden", name=key, value=text) for key, text in fields.items()]
    return tag("form", hidden, tag("button", label, class_=kind or None), method="post", action=action)


def describe_memory(memory: Memory, text: str = "") -> Html:
    """A line about a memory: its id, what is unusual about it, its date, and warnings."""
    trust = memory.provenance.trust
    unusual = {memory.type: MemoryType.GENERAL, memory.source: "vault"}
    facts = [name for name, usual in unusual.items() if name != usual]
    facts += [f"trust {trust}"] if trust not in (Trust.HUMAN, Trust.FILE) else []
    facts.append((memory.updated or memory.created)[:10])
    parts = [tag("code", memory.id, class_="place")]
    parts += [tag("span", memory.tier, class_=f"mark {memory.tier}")] if memory.tier != Tier.NORMAL else []
    parts += [tag("span", fact) for fact in facts if fact]
    warnings = ["speaks like an instruction"] if is_withheld(f"{memory.title}\n{text}", trust) else []
    warnings += [fault.replace("_", " ") for fault in memory.faults]
    parts += [tag("span", warning, class_="mark warning") for warning in warnings]
    return tag("p", [(part, " ") for part in parts], class_="facts")


def link_memory(memory_id: str, text: str = "", anchor: str = "") -> Html:
    return link(text or memory_id, make_url("/memory", memory_id) + (f"#s-{anchor}" if anchor else ""))


def link_event(session: str, number: int, text: str) -> Html:
    first = (number - 1) // EVENTS_SHOWN * EVENTS_SHOWN + 1
    return link(text, make_url("/sessions", session, first=first if first > 1 else "") + f"#e{number}")


def parse_number(values: Values, name: str) -> int:
    """A whole number from an address, 0 if it has none."""
    text = values.get(name, "")
    return int(text) if text.isdecimal() and len(text) < _MOST_DIGITS else 0


def format_moment(at: float) -> Html:
    """Seconds since 1970 as local day and time."""
    moment = datetime.fromtimestamp(at).astimezone()
    return tag("time", moment.strftime("%Y-%m-%d %H:%M"), datetime=moment.isoformat(timespec="seconds"))


def render_notes(degradations: Iterable[Degradation]) -> Html:
    """What could not be done, and what to do about it."""
    return join(tag("p", f"{each.failure_mode} {each.retry_recommendation}", class_="note") for each in degradations)
