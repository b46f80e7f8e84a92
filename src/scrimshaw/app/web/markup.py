"""HTML built from calls: every text is escaped when it is inserted, except `Html`."""

import html
from collections.abc import Iterable, Sequence
from typing import TypeAlias
from urllib.parse import quote, urlencode

from scrimshaw.ingest.invisible_characters import replace_invisible

_VOID = frozenset({"input", "link", "meta"})


class Html(str):
    """Markup made by this module, or by the Markdown renderer; any other string is escaped."""


Child: TypeAlias = "str | float | Iterable[Child] | None"


def escape(text: str) -> str:
    """A text as HTML, with deceptive characters replaced."""
    return html.escape(replace_invisible(text))


def join(*children: Child) -> Html:
    """Children in their order; None and empty texts are left out."""
    parts = list[str]()
    for child in children:
        if isinstance(child, Html):
            parts.append(child)
        elif isinstance(child, str | int | float):
            parts.append(escape(str(child)))
        elif child is not None:
            parts.append(join(*child))
    return Html("".join(parts))


def tag(name: str, /, *children: Child, **attributes: str | float | bool | None) -> Html:
    """An element: `class_` means `class`, `aria_label` `aria-label`; attributes that are False or None are left out."""
    written = "".join(
        f" {key.rstrip('_').replace('_', '-')}" + ("" if value is True else f'="{escape(str(value))}"')
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Html(f"<{name}{written}>" if name in _VOID else f"<{name}{written}>{join(*children)}</{name}>")


def make_document(title: str, head: Sequence[Child], *body: Child) -> Html:
    """A whole page of this title, with what else its head contains."""
    encoding = tag("meta", charset="utf-8")
    width = tag("meta", name="viewport", content="width=device-width, initial-scale=1")
    parts = tag("head", encoding, width, tag("title", title), head), tag("body", body)
    return join(Html("<!doctype html>"), tag("html", parts, lang="en"))


def link(text: Child, href: str, **attributes: str | float | bool | None) -> Html:
    return tag("a", text, href=href, **attributes)


def make_url(path: str, name: str = "", **query: object) -> str:
    """The address of a page, about the thing with this name if there is one; empty values are left out of the query."""
    given = {key: value for key, value in query.items() if value not in ("", None, False)}
    return path + (f"/{quote(name)}" if name else "") + (f"?{urlencode(given)}" if given else "")


def make_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Child]]) -> Html:
    """A table whose first column names its rows; on a narrow screen each cell names its column."""
    columns, body = tag("tr", [tag("th", name, scope="col") for name in head]), list[Html]()
    for first, *cells in rows:
        named = (tag("td", cell, data_name=name or None) for name, cell in zip(head[1:], cells, strict=True))
        body.append(tag("tr", tag("th", first, scope="row"), named))
    table = tag("table", tag("caption", caption), tag("thead", columns), tag("tbody", body))
    return tag("div", table, class_="scroll", role="region", aria_label=caption, tabindex="0")


def make_bar(share: float, kind: str = "", label: str = "") -> Html:
    """A bar of a share 0..1 of its width, read out as `label`; without one the number is beside it."""
    width = round(100 * min(1.0, max(0.0, share)), 1)
    bar = tag("rect", width=f"{width}%", height="100%", rx="2")
    spoken = {"role": "img", "aria_label": label} if label else {"aria_hidden": "true"}
    return tag("svg", bar, class_=f"bar {kind}".strip(), **spoken)


def draw_lines(lines: Iterable[tuple[str, str, Sequence[tuple[float, float]]]], width: float, label: str) -> Html:
    """Curves of values 0..1 from left to right, each with a class and a name; `width` is the largest x."""
    shapes = []
    for kind, name, points in lines:
        course = " ".join(f"{x:g},{100 - 100 * y:g}" for x, y in points)
        shapes.append(tag("polyline", tag("title", name), points=course, class_=kind))
    frame = {"viewBox": f"0 0 {width:g} 100", "preserveAspectRatio": "none"}
    return tag("svg", shapes, class_="plot", role="img", aria_label=label, **frame)
