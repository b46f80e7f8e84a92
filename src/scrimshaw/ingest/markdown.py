"""Markdown as tokens: blocks in one pass, the text inside a block only when somebody asks for it.

On top of that: headings with their anchors and sections, the references from one memory to others, and the pieces of a
body that are small enough to embed and to rank on their own.
"""

from __future__ import annotations

import math
import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.utils import EnvType

from scrimshaw.models import Chunk, Edge, EdgeKind, Heading, Relation

# Without the table rule, a table that is followed by `---` would be one long heading.
_MARKDOWN = MarkdownIt("commonmark").enable("table").disable("inline")
_LINE_END = re.compile(r"\r\n?|\n")
_MARKUP = re.compile(r"[\\`*_\[<&!\n]")
_WORTH_PARSING = re.compile(r"\]\(|\[\[|mem:")
# Emphasis inside an alias ends the token before the closing brackets.
_WIKI = re.compile(r"(?<![!\[\\])\[\[([^\[\]|\n\"$=:*?<>\\]+)(?:\]\](?!\])|\|[^\[\]\n]*(?:\]\]|\Z))")
_MEM = re.compile(r"(?<![\w/.:-])mem:([\w\-/]+(?:\.[\w\-/]+)*)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|/|\\")

# Most characters of a piece, outer blanks apart. Measured: 1,200 ranks alike but is cut by the 256 tokens that the
# bundled model reads; 700 loses on short notes, 1,500 on long documents.
CHUNK_CHARS = 900
_BREAKS = ("\n\n", "\n", ". ", " ")


class Page(NamedTuple):
    """The block tokens of a body and the link definitions found in it."""

    blocks: list[Token]
    env: EnvType


def parse_page(body: str) -> Page:
    """The blocks of a body. Line numbers in the tokens count LF, CRLF and CR as line ends."""
    env: EnvType = {}
    return Page(_MARKDOWN.parse(body, env), env)


def parse_inline(page: Page, content: str) -> list[Token]:
    """The tokens of one block's text, with the page's link definitions."""
    tokens: list[Token] = []
    _MARKDOWN.inline.parse(content, _MARKDOWN, page.env, tokens)
    return tokens


def decode_url(url: str) -> str:
    """A link's address with its percent signs resolved."""
    return _MARKDOWN.normalizeLinkText(url) if "%" in url else url


# Headings


def parse_headings(body: str, page: Page | None = None) -> tuple[Heading, ...]:
    """Headings of a body, in order; those inside quotes, lists and code are not the document's own.

    `page` holds its tokens where the caller has them.

    Anchors are GitHub's; a second equal one gets `-1`, a third `-2`.
    """
    page = page or parse_page(body)
    tops = [pair for pair in pairwise(page.blocks) if pair[0].type == "heading_open" and pair[0].level == 0]
    if not tops:
        return ()
    starts = [0, *(match.end() for match in _LINE_END.finditer(body))]
    taken: dict[str, int] = {}
    return tuple(_heading(page, token, text.content, starts, taken) for token, text in tops)


def find_section(body: str, found: Sequence[Heading], anchor: str) -> str | None:
    """The heading with that anchor and all text up to the next heading of its level or above; None if there is none."""
    wanted = anchor.removeprefix("#")
    for number, heading in enumerate(found):
        if heading.anchor == wanted:
            ends = (later.start for later in found[number + 1 :] if later.level <= heading.level)
            return body[heading.start : next(ends, len(body))]
    return None


def make_anchor(text: str) -> str:
    """GitHub's anchor for a heading: lower case, letters, marks, digits, `_` and `-`, spaces as `-`."""
    kept = "".join(char for char in text.lower() if _stays(char))
    return kept.replace(" ", "-") or "section"


def _stays(char: str) -> bool:
    return char in " -_" or unicodedata.category(char)[0] in "LMN"


def _heading(page: Page, token: Token, content: str, starts: list[int], taken: dict[str, int]) -> Heading:
    text = _text(page, content)
    line = token.map[0] if token.map else 0
    return Heading(level=int(token.tag[1:]), text=text, anchor=_unique(make_anchor(text), taken), start=starts[line])


def _text(page: Page, content: str) -> str:
    if _MARKUP.search(content):
        content = "".join(_word(token) for token in parse_inline(page, content))
    return " ".join(content.split())


def _word(token: Token) -> str:
    return " " if token.type in ("softbreak", "hardbreak") else "" if token.type == "html_inline" else token.content


def _unique(anchor: str, taken: dict[str, int]) -> str:
    unique = anchor
    while unique in taken:
        taken[anchor] += 1
        unique = f"{anchor}-{taken[anchor]}"
    taken[unique] = 0
    return unique


# References to other memories


def parse_relations(values: Mapping[str, object], memory_id: str, clean: Callable[[str], str]) -> tuple[Edge, ...]:
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


def parse_links(page: Page, memory_id: str) -> tuple[Edge, ...]:
    """The edges that the text itself makes: `[[name]]`, `mem:name` and relative links to Markdown files.

    Code and images make none, but a code span that is nothing but `mem:name` does: agents write it so.
    """
    targets = (target for text in _texts(page) for target in _targets(text, posixpath.dirname(memory_id)))
    return _distinct(
        Edge(source=memory_id, target=target, relation="link", kind=EdgeKind.LINK)
        for target in targets
        if target not in ("", memory_id, posixpath.basename(memory_id))
    )


def parse_reference(text: str) -> str:
    """A reference without what surrounds the name: `[[ ]]`, `mem:`, anchor, `.md`."""
    name = text.strip().removeprefix("[[").removesuffix("]]").partition("|")[0].partition("#")[0].strip()
    return name.removeprefix("mem:").removesuffix(".md").strip("/")


def format_relation(target: str, strength: float, evidence: str) -> object:
    """A relation as front matter states it: only the id, unless there is more to say."""
    if strength == 1.0 and not evidence:
        return target
    return {"id": target, "strength": strength, **({"evidence": evidence} if evidence else {})}


def parse_strength(value: object) -> float:
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
    named = clean(parse_reference(target)) if isinstance(target, str) else ""
    if named in ("", memory_id):
        return None
    return Edge(
        source=memory_id,
        target=named,
        relation=name,
        strength=parse_strength(fields.get("strength", 1.0)),
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
            yield parse_inline(page, block.content)


def _targets(tokens: list[Token], folder: str) -> Iterator[str]:
    for token in tokens:
        if token.type == "link_open":
            yield _linked(str(token.attrGet("href") or ""), folder)
        elif token.type == "text":
            yield from (_resolved(parse_reference(match[1]), folder) for match in _WIKI.finditer(token.content))
            yield from (parse_reference(match[1]) for match in _MEM.finditer(token.content))
        elif token.type == "code_inline" and (match := _MEM.fullmatch(token.content.strip())):
            yield parse_reference(match[1])


def _linked(href: str, folder: str) -> str:
    """The memory that a link's address means, or nothing: other files, other sites, places above the source."""
    if href.startswith("mem:"):
        return parse_reference(href)
    path = decode_url(href.partition("#")[0].partition("?")[0])
    if _SCHEME.match(path) or not path.lower().endswith(".md"):
        return ""
    return _resolved(posixpath.join(".", path[:-3]), folder)


def _resolved(name: str, folder: str) -> str:
    """A name that starts with a dot is a path from the folder; any other is left to the index."""
    if not name.startswith(("./", "../")):
        return name
    path = posixpath.normpath(posixpath.join(folder, name))
    return "" if path == "." or path.startswith("..") else path


# Chunks


class _Piece(NamedTuple):
    start: int
    end: int
    heading: int
    """Index of the heading the piece lies under; -1 before the first one."""


def split_chunks(
    title: str, body: str, headings: Sequence[Heading] = (), *, size: int = CHUNK_CHARS
) -> tuple[Chunk, ...]:
    """Pieces that cover `body` without gap or overlap, in order; never none, so that a bare title is found too.

    Pieces end where a section ends; small neighbouring sections share a piece, a section longer than `size`
    characters is cut at a paragraph, else a line, a sentence, a word. `headings` are those of `body`, by `start`.
    Raises ValueError if `size` is not positive.
    """
    if size < 1:
        raise ValueError(f"size must be positive, not {size}")
    pieces = _merged(body, _pieces(body, headings, size), size) or [_Piece(0, 0, -1)]
    paths = _paths(headings)
    return tuple(_chunk(n, piece, title, headings, paths) for n, piece in enumerate(pieces))


def _pieces(body: str, headings: Sequence[Heading], size: int) -> Iterator[_Piece]:
    starts = [0, *(heading.start for heading in headings)]
    ends = [*starts[1:], len(body)]
    for heading, (start, end) in enumerate(zip(starts, ends, strict=True), start=-1):
        while start < end:
            cut = _cut(body, start, end, size)
            yield _Piece(start, cut, heading)
            start = cut


def _cut(body: str, start: int, end: int, size: int) -> int:
    """Where to end the piece that begins at `start`: at the coarsest break in the last two thirds of the room."""
    limit = start + size
    if limit >= end:
        return end
    for mark in _BREAKS:
        at = body.rfind(mark, start + size // 3, limit)
        if at > start:
            return at + len(mark)
    return limit


def _merged(body: str, pieces: Iterator[_Piece], size: int) -> list[_Piece]:
    merged: list[_Piece] = []
    for piece in pieces:
        if merged and (piece.end - merged[-1].start <= size or _blank(body, piece) or _blank(body, merged[-1])):
            last = merged.pop()
            piece = _Piece(last.start, piece.end, piece.heading if _blank(body, last) else last.heading)
        merged.append(piece)
    return merged


def _blank(body: str, piece: _Piece) -> bool:
    return not body[piece.start : piece.end].strip()


def _paths(headings: Sequence[Heading]) -> list[tuple[str, ...]]:
    """For each heading the texts of those above it and its own, outermost first."""
    paths: list[tuple[str, ...]] = []
    above: list[Heading] = []
    for heading in headings:
        above = [outer for outer in above if outer.level < heading.level] + [heading]
        paths.append(tuple(outer.text for outer in above))
    return paths


def _chunk(
    ordinal: int, piece: _Piece, title: str, headings: Sequence[Heading], paths: Sequence[tuple[str, ...]]
) -> Chunk:
    anchor = text = ""
    path: tuple[str, ...] = ()
    if piece.heading >= 0:
        heading = headings[piece.heading]
        anchor, text = heading.anchor, heading.text
        inside = heading.start >= piece.start
        path = paths[piece.heading][: -1 if inside else None]
    context = _context(title, path)
    return Chunk(ordinal=ordinal, anchor=anchor, heading=text, start=piece.start, end=piece.end, context=context)


def _context(title: str, path: Sequence[str]) -> str:
    names = dict.fromkeys(name for name in (title, *path) if name)
    return " > ".join(names) + "\n" if names else ""
