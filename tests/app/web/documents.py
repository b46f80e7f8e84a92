"""What a page holds, read as a browser reads it."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from typing import NamedTuple

BLOCKS = frozenset(("article", "div", "dt", "dd", "h1", "h2", "h3", "li", "p", "pre", "section", "summary", "td", "th"))


class Element(NamedTuple):
    """An element with its attributes, and the text inside of it."""

    name: str
    attributes: dict[str, str]
    texts: list[str]

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())


class Document(HTMLParser):
    """All elements of a page in their order."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.elements, self._open = list[Element](), list[Element]()
        self.feed(markup)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in BLOCKS:
            self.handle_data(" ")
        element = Element(tag, {name: value or "" for name, value in attrs}, [])
        self.elements.append(element)
        if tag not in ("input", "link", "meta", "br", "hr", "img"):
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().name == tag, f"</{tag}> closes another element"

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)  # `<hr />` has no end of its own

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.texts.append(data)

    def find(self, name: str, **attributes: str) -> Iterator[Element]:
        """The elements of this name with these attributes."""
        for element in self.elements:
            if element.name == name and attributes.items() <= element.attributes.items():
                yield element

    @property
    def text(self) -> str:
        return next(self.find("main")).text


def find_active_parts(document: Document) -> list[str]:
    """What of a page would run, load something, or lead to what is neither a page nor the web."""
    found = []
    for name, attributes, _ in document.elements:
        allowed = {"script": "/assets/keys.js", "link": "/assets/"}
        source = attributes.get("src", "") or attributes.get("href", "")
        if name in ("img", "iframe", "object", "embed", "base", "video", "audio", "style", "foreignobject", "use"):
            found.append(f"<{name}>")
        if name in allowed and not source.startswith(allowed[name]):
            found.append(f"<{name} {source}>")
        if name == "meta" and "http-equiv" in attributes:
            found.append("<meta http-equiv>")
        found += [f"{name} {key}" for key in attributes if key.startswith("on") or key in ("style", "srcdoc")]
        if (source and not source.startswith(("/", "#", "http://", "https://"))) or source.startswith("//"):
            found.append(f"{name} {source}")
    return found
