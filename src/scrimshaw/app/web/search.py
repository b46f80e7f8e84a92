"""The search page, which begins with what is new and what the next session will be given."""

import re
from itertools import groupby

from scrimshaw.app.hooks.fencing import neutralise_state_lines
from scrimshaw.app.web.markup import Html, escape, join, link, make_bar, make_table, make_url, tag
from scrimshaw.app.web.page import Page, Site, Values, describe_memory, link_memory, parse_number, render_notes
from scrimshaw.engine import counts
from scrimshaw.engine.context import resume_state
from scrimshaw.models import Filters, Session, format_count
from scrimshaw.router import ask
from scrimshaw.search.passages import PASSAGE, cut_passage
from scrimshaw.search.results import Explanation, Hit, SearchRequest, SearchResult
from scrimshaw.search.tokens import query_terms
from scrimshaw.session.resume import Occasion

_MOST_HITS, _NEWEST = 10, 12


def show_search(site: Site, values: Values) -> Page:
    """The answer to `q`, or an overview if there is no query."""
    query, engine = values.get("q", "").strip(), site.engine
    field = tag("input", type="search", name="q", id="q", value=query, autofocus=not query, autocomplete="off")
    label = tag("label", "Search the memory", for_="q")
    form = tag("form", label, tag("div", field, tag("button", "Search"), class_="row"), role="search", action="/")
    if not query:
        return Page("Search", join(form, render_state(site), render_newest(site, Filters(), values)), "/")
    sure = engine.settings.search.min_confidence
    request = SearchRequest(query=query, limit=_MOST_HITS, min_confidence=sure, record=True)
    return Page("Search", join(form, render_answer(ask.search(engine, request), query_terms(query))), "/")


def render_answer(result: SearchResult, terms: tuple[str, ...]) -> Html:
    """The hits with their reasons, or that nothing is known, with the nearest memories."""
    if count := len(result.hits):
        words = f"{format_count(count, 'answer')}, {result.confidence:.0%} sure that one is right."
    else:
        words = "Nothing is known about this." if result.nearest else "No memory matches."
    took = f" {sum(stage.ms for stage in result.trace):.0f} ms."
    parts = [tag("p", words, tag("span", took, class_="dim"), role="status")]
    hits = [tag("li", _render_hit(hit, terms)) for hit in (*result.always_on, *result.hits)]
    parts.append(tag("ol", hits, class_="hits"))
    if result.nearest:
        near = [tag("li", link_memory(each.memory.id, each.memory.title)) for each in result.nearest]
        parts += [tag("h2", "What comes nearest"), tag("ul", near)]
    if result.peers:
        added = [tag("li", tag("b", each.title), f" {each.peer} ", tag("pre", each.text)) for each in result.peers]
        parts += [tag("h2", "From other memory servers"), tag("ul", added, class_="hits")]
    stages = ((each.stage, each.entered, each.left, f"{each.ms:.2f}") for each in result.trace)
    table = make_table("Stages of this search", ("stage", "entered", "left", "ms"), stages)
    return join(parts, render_notes(result.degradations), tag("details", tag("summary", "How it was searched"), table))


def mark_words(text: str, terms: tuple[str, ...]) -> Html:
    """A text with words highlighted that begin like a term of the query."""
    pattern = "|".join(re.escape(term) for term in terms) or "$^"
    parts, end = [], 0
    for found in re.finditer(rf"(?i)\b(?:{pattern})\w*", text):
        parts += [escape(text[end : found.start()]), tag("mark", found[0])]
        end = found.end()
    return Html("".join([*parts, escape(text[end:])]))


def _render_hit(hit: Hit, terms: tuple[str, ...]) -> Html:
    memory, why = hit.memory, hit.explanation
    title = tag("h2", link_memory(memory.id, memory.title, hit.anchor))
    heading = tag("p", "› ", hit.heading, class_="dim") if hit.heading else None
    question = tag("p", "Answers: ", tag("q", why.answers), class_="dim") if why.answers else None
    passage = tag("p", mark_words(cut_passage(hit.text, terms, PASSAGE), terms), class_="passage")
    if hit.always_on:
        return tag("article", title, describe_memory(memory, hit.text), heading, passage)
    sure = tag("p", make_bar(hit.confidence), f"{hit.confidence:.0%} sure", class_="sure")
    reasons = tag("details", tag("summary", "Why"), explain_score(why, hit.score))
    return tag("article", title, describe_memory(memory, hit.text), heading, sure, question, passage, reasons)


def explain_score(why: Explanation, score: float) -> Html:
    """How a score was computed: what found the memory, then each step from the fused score to the final one."""
    found = [f"{channel} rank {rank} ({why.raw.get(channel, 0):.3g})" for channel, rank in why.ranks.items()]
    found += [f"trigger phrase “{phrase}”" for phrase in why.phrases]
    base = max(0.0, why.fused + sum(why.terms.values()))
    steps = [("fused", f"{why.fused:.3f}", why.fused)]
    steps += [(name.replace("_", " "), f"{term:+.3f}", term) for name, term in why.terms.items()]
    for name, factor in why.factors.items():
        steps.append((name.replace("_", " "), f"× {factor:.3f}", base * (factor - 1)))
        base *= factor
    steps += [(f"{name} boost", f"+ {boost:.1%}", base * boost) for name, boost in why.boosts.items()]
    steps.append(("score", f"{score:.3f}", score))
    widest = max(abs(size) for _, _, size in steps) or 1.0
    kinds = ("whole", *("less" if size < 0 else "more" for _, _, size in steps[1:-1]), "whole")
    drawn = zip(steps, kinds, strict=True)
    rows = ((name, text, make_bar(abs(size) / widest, kind, f"{size:+.3f}")) for (name, text, size), kind in drawn)
    by = tag("p", "Found by ", "; ".join(found) or "its relations", ".")
    return join(by, make_table("From the fused score to the final one", ("part", "value", "effect"), rows))


def render_state(site: Site) -> Html | None:
    """What a session that starts now is given about the last one."""
    budget = site.engine.settings.context.resume_tokens
    lines, tokens, _ = resume_state(site.engine, Session(id=""), Occasion.START, budget)
    told = groupby(neutralise_state_lines(lines), lambda each: each.part)
    parts = [(tag("dt", part), [tag("dd", each.text) for each in some]) for part, some in told]
    title = tag("h2", "What the next session is shown ", tag("span", f"{tokens} tokens", class_="dim"), id="state")
    return tag("section", title, tag("dl", parts, class_="state"), aria_labelledby="state") if lines else None


def render_newest(site: Site, filters: Filters, values: Values) -> Html:
    """Some memories that satisfy the filters, those that changed last first, and a link to the next ones."""
    first = parse_number(values, "first")
    found = counts.page(site.engine, filters, sort="updated", limit=_NEWEST, offset=first)
    if not found.total:
        return tag("p", "There are no memories yet: `scrimshaw save` writes one, and sessions leave some.")
    items = [tag("li", link_memory(each.id, each.title), describe_memory(each)) for each in found.memories]
    title = tag("h2", "Changed last ", tag("span", f"of {found.total} memories", class_="dim"), id="newest")
    onward = tag("p", link("Earlier ones", make_url("/", first=first + _NEWEST)), class_="onward")
    parts = [tag("ul", items, class_="list"), onward if first + _NEWEST < found.total else None]
    return tag("section", title, parts, aria_labelledby="newest")
