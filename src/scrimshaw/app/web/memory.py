"""The page of one memory: its text, its front matter, its relations, and its history."""

from scrimshaw.app.web.markdown import render_markdown
from scrimshaw.app.web.markup import Html, join, link, make_table, make_url, tag
from scrimshaw.app.web.page import Page, Site, Values, describe_memory, link_memory, render_notes
from scrimshaw.engine import links, query_log, read
from scrimshaw.engine.revisions import read_log
from scrimshaw.engine.sessions import ITEM_PREFIX
from scrimshaw.errors import NotFound
from scrimshaw.models import Memory, Neighbor

_MOST_CHANGES, _MOST_EDGES = 30, 100
_PLAIN = (".rst", ".adoc", ".asciidoc", ".txt")  # documents that are not Markdown


def show_memory(site: Site, values: Values) -> Page:
    """The memory of an id, or a passage of a session; raises NotFound."""
    engine, memory_id = site.engine, values["id"]
    found = read.get(engine, memory_id)
    memory = found.memory
    read.touch(engine, [memory])
    query_log.append(engine, query_log.LoggedRead(at=engine.clock(), id=memory.id))
    if memory.id.startswith(ITEM_PREFIX) or memory.path.endswith(_PLAIN):
        body = tag("pre", found.body, class_="text")
    else:
        meant = {edge.target: name for edge, name in engine.index.edges(memory.id) if name}
        body = render_markdown(found.body, memory.id, meant, memory.provenance.session)
    article = tag("article", body, class_="markdown")
    parts: list[Html | None] = [article, render_notes(found.degradations), _render_facts(found)]
    if not memory.id.startswith(ITEM_PREFIX):
        if edges := links.list_dependencies(engine, memory.id, hops=1, direction="both"):
            walk = tag("p", link("Walk the graph from here", make_url("/graph", memory.id)))
            related = tag("h2", "Relations", id="relations"), walk, make_edge_table(edges[:_MOST_EDGES])
            parts.append(tag("section", *related, aria_labelledby="relations"))
        parts.append(_render_changes(site, memory))
    return Page(memory.title, join(describe_memory(memory, found.body), parts), "/")


def _render_facts(found: read.MemoryText) -> Html:
    memory = found.memory
    session = memory.provenance.session
    facts = {
        "brought up by": ", ".join(memory.triggers),
        "answers": "; ".join(memory.questions),
        "topics": ", ".join(memory.topics),
        "comes from": memory.provenance.source,
        "session": link(session, make_url("/sessions", session)) if session else "",
        "quality": f"{memory.quality.score:.2f} {' '.join(memory.quality.flags)}" if memory.quality else "",
        "redacted": ", ".join(found.redacted),
        "created": memory.created,
        "updated": memory.updated,
        "file": memory.path,
        "size": f"{memory.length} characters, {memory.tokens} tokens",
    }
    rows = [(tag("dt", name), tag("dd", value)) for name, value in facts.items() if value]
    return tag("section", tag("h2", "About it", id="about"), tag("dl", rows), aria_labelledby="about")


def make_edge_table(edges: list[Neighbor]) -> Html:
    """The relations as sentences of three words, with their evidence."""
    lost = tag("span", "leads nowhere", class_="mark warning")
    rows = []
    for edge in edges:
        other = join(edge.target, " ", lost) if edge.unresolved else link_memory(edge.target)
        rows.append((link_memory(edge.source), edge.relation.replace("_", " "), other, edge.evidence))
    return make_table("Relations", ("memory", "relation", "other", "evidence"), rows)


def _render_changes(site: Site, memory: Memory) -> Html | None:
    try:
        log = read_log(site.engine, memory.id, patches=True)
    except NotFound:  # a document outside of git
        return None
    items = []
    for each in log.changes[:_MOST_CHANGES]:
        when = tag("time", each.at[:16].replace("T", " "), datetime=each.at)
        source = tag("code", each.commit[:10]) if each.commit else f"ledger {each.entry}"
        patch = tag("details", tag("summary", "Changed lines"), render_diff(each.patch)) if each.patch else None
        items.append(tag("li", when, " ", each.what, " ", tag("span", each.by, ", ", source, class_="dim"), patch))
    title = tag("h2", "History", id="history")
    rest = len(log.changes) - len(items)
    more = tag("p", f"and {rest} earlier changes; `scrimshaw log` shows all", class_="dim") if rest > 0 else None
    notes = render_notes([log.degradation] if log.degradation else [])
    return tag("section", title, tag("ol", items, class_="timeline"), more, notes, aria_labelledby="history")


def render_diff(diff: str) -> Html:
    """A unified diff; colour and the first character distinguish its lines."""
    kinds = {"+": "added", "-": "removed", "@": "dim"}
    lines = [tag("span", line, "\n", class_=kinds.get(line[:1])) for line in diff.splitlines()]
    return tag("pre", lines, class_="diff")
