"""HTML built from calls: every text is escaped when it is inserted, except `Html`."""

import html
from collections.abc import Iterable
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


def link(text: Child, href: str, **attributes: str | float | bool | None) -> Html:
    """A link to a page of the dashboard."""
    return tag("a", text, href=href, **attributes)


def make_url(path: str, name: str = "", **query: object) -> str:
    """The address of a page, about the thing with this name if there is one; empty values are left out of the query."""
    given = {key: value for key, value in query.items() if value not in ("", None, False)}
    return path + (f"/{quote(name)}" if name else "") + (f"?{urlencode(given)}" if given else "")
