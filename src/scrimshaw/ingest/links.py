"""References from one memory to others: relations in front matter, and links in the text."""

from __future__ import annotations

import math
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping

from markdown_it.token import Token

from scrimshaw.ingest.markdown import Page, inline, readable_url
from scrimshaw.models import Edge, EdgeKind, Relation

_WORTH_PARSING = re.compile(r"\]\(|\[\[|mem:")
# Emphasis inside an alias ends the token before the closing brackets.
_WIKI = re.compile(r"(?<![!\[\\])\[\[([^\[\]|\n\"$=:*?<>\\]+)(?:\]\](?!\])|\|[^\[\]\n]*(?:\]\]|\Z))")
_MEM = re.compile(r"(?<![\w/.:-])mem:([\w\-/]+(?:\.[\w\-/]+)*)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|/|\\")


def relations(values: Mapping[str, object], memory_id: str, clean: Callable[[str], str]) -> tuple[Edge, ...]:
    """The causal edges that front matter states; unknown relations and edges to oneself are left out.

    `clean` passes every text through the redaction gate.
    """
    by_name = values.get("relations")
    if not isinstance(by_name, Mapping):
        return ()
    found = [
        edge
        for name in Relation
        for item in _listed(by_name.get(name))
        if (edge := _relation(item, name, memory_id, clean)) is not None
    ]
    return _distinct(found)


def links(page: Page, memory_id: str) -> tuple[Edge, ...]:
    """The edges that the text itself makes: `[[name]]`, `mem:name` and relative links to Markdown files.

    Code and images make none, but a code span that is nothing but `mem:name` does: agents write it so.
    """
    targets = (target for text in _texts(page) for target in _targets(text, posixpath.dirname(memory_id)))
    return _distinct(
        Edge(source=memory_id, target=target, relation="link", kind=EdgeKind.LINK)
        for target in targets
        if target not in ("", memory_id, posixpath.basename(memory_id))
    )


def reference(text: str) -> str:
    """A reference without what surrounds the name: `[[ ]]`, `mem:`, anchor, `.md`."""
    name = text.strip().removeprefix("[[").removesuffix("]]").partition("|")[0].partition("#")[0].strip()
    return name.removeprefix("mem:").removesuffix(".md").strip("/")


def stated(target: str, strength: float, evidence: str) -> object:
    """A relation as front matter states it: only the id, unless there is more to say."""
    if strength == 1.0 and not evidence:
        return target
    return {"id": target, "strength": strength, **({"evidence": evidence} if evidence else {})}


def strength_of(value: object) -> float:
    """A strength held within 0..1; 1 where none is stated or it is no number."""
    try:
        number = float(str(value))
    except ValueError:
        return 1.0
    return 1.0 if math.isnan(number) else min(max(number, 0.0), 1.0)


def _listed(value: object) -> list[object]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _relation(item: object, name: Relation, memory_id: str, clean: Callable[[str], str]) -> Edge | None:
    fields = item if isinstance(item, Mapping) else {"id": item}
    target = fields.get("id")
    named = clean(reference(target)) if isinstance(target, str) else ""
    if named in ("", memory_id):
        return None
    return Edge(
        source=memory_id,
        target=named,
        relation=name,
        strength=strength_of(fields.get("strength", 1.0)),
        evidence=clean(" ".join(str(fields.get("evidence") or "").split())),
    )


def _distinct(edges: Iterator[Edge] | list[Edge]) -> tuple[Edge, ...]:
    first: dict[tuple[str, str], Edge] = {}
    for edge in edges:
        first.setdefault((edge.relation, edge.target), edge)
    return tuple(first.values())


def _texts(page: Page) -> Iterator[list[Token]]:
    defined = bool(page.env.get("references"))
    for block in page.blocks:
        if block.type == "inline" and (_WORTH_PARSING.search(block.content) or (defined and "[" in block.content)):
            yield inline(page, block.content)


def _targets(tokens: list[Token], folder: str) -> Iterator[str]:
    for token in tokens:
        if token.type == "link_open":
            yield _linked(str(token.attrGet("href") or ""), folder)
        elif token.type == "text":
            yield from (_resolved(reference(match[1]), folder) for match in _WIKI.finditer(token.content))
            yield from (reference(match[1]) for match in _MEM.finditer(token.content))
        elif token.type == "code_inline" and (match := _MEM.fullmatch(token.content.strip())):
            yield reference(match[1])


def _linked(href: str, folder: str) -> str:
    """The memory that a link's address means, or nothing: other files, other sites, places above the source."""
    if href.startswith("mem:"):
        return reference(href)
    path = readable_url(href.partition("#")[0].partition("?")[0])
    if _SCHEME.match(path) or not path.lower().endswith(".md"):
        return ""
    return _resolved(posixpath.join(".", path[:-3]), folder)


def _resolved(name: str, folder: str) -> str:
    """A name that starts with a dot is a path from the folder; any other is left to the index."""
    if not name.startswith(("./", "../")):
        return name
    path = posixpath.normpath(posixpath.join(folder, name))
    return "" if path == "." or path.startswith("..") else path
