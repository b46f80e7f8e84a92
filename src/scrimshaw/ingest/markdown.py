"""Markdown as tokens: blocks in one pass, the text inside a block only on demand."""

import math
import posixpath
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import filterfalse, pairwise
from operator import attrgetter
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.utils import EnvType

from scrimshaw.ingest.comparison import find_break
from scrimshaw.ingest.tables import load_table
from scrimshaw.models import Chunk, Edge, EdgeKind, Heading, Relation

# Maximum characters of a chunk, without outer blanks and headings above its text. Measured: 1,200 ranks alike but is
# cut by the 256 tokens that the bundled model reads; 700 is worse on short notes, 1,500 on long documents.
CHUNK_CHARS = 900
_HEADING_LINE = re.compile(r"(?m)^#+ .*$")

_LINE_END = re.compile(r"\r\n?|\n")
_MARKUP = re.compile(r"[\\`*_\[<&!\n]")
_WORTH_PARSING = re.compile(r"\]\(|\[\[|mem:")
# A link that needs no parser, in a text that has nothing else of the kind.
_PLAIN_LINK = re.compile(r"(?<!!)\[[^\[\]\\`<]*\]\((?!//)([A-Za-z0-9_./-]+)\)")
_NOT_PLAIN = re.compile(r"[\[\]\\`<]")
# Emphasis inside an alias ends the token before the closing brackets.
WIKI_LINK = re.compile(r"(?<![\[\\])!?\[\[([^\[\]|\n\"$=:*?<>\\]+)(?:\]\](?!\])|\|[^\[\]\n]*(?:\]\]|\Z))")
MEM_LINK = re.compile(r"(?<![\w/.:-])mem:([\w\-/]+(?:\.[\w\-/]+)*)")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|/|\\")
_RULE = r"[=\-`:.'\"~^_*+#]"
_UNDERLINED = re.compile(  # a title and the line below it: with the same line above, or after a blank line
    rf"^(?:(?P<above>({_RULE})\2{{2,}})[ \t]*\r?\n[ \t]*|(?<![^\r\n]\n)(?<![^\n]\r\n))(?P<text>\S(?:.*\S)?)[ \t]*\r?\n"
    rf"(?P<line>(?(above)(?P=above)|({_RULE})\5{{2,}}))[ \t]*\r?$",
    re.MULTILINE,
)
_MARKED = re.compile(r"^(?:(?P<marks>={1,6})[ \t]+(?P<text>\S.*)|(?P<fence>([-.*_+/])\4{3,})[ \t]*\r?)$", re.MULTILINE)
ASCIIDOC = (".adoc", ".asciidoc")
_ANCHOR = re.compile(
    r"^ {0,3}(?:(?P<fence>`{3,}|~{3,})|<!--[ \t]*(?P<end>/?)ANCHOR:(?P<name>[^\s>]+)[ \t]*-->[ \t]*\r?$)", re.MULTILINE
)
_WORK = load_table(__file__, "markdown", dict[str, tuple[Relation, str]])
_UNSTATED = 0.5  # strength of a relation that is only assumed
# The status line of a decision record that names another one as a whole: `Superseded by [ADR 2](0002-use-go.md)`.
_STATUS = re.compile(
    r"(?im)(?:^|[.:;,(|—–]|\s-)[\s*_]*(?:supersedes|replaces|ersetzt|(?P<by>(?:superseded|replaced) by|ersetzt durch))"
    r"[:\s*_]*\[[^\]\n]*\]\((?P<href>[^)\s]+)[^)]*\)(?!\W{0,3}(?:in part|part|teilweise))"
)
SUPERSEDED_BY = "superseded by"  # the relation as the older one states it
_FoundHeading = tuple[int, str, int]  # its level, text and place
# Without the table rule, a table followed by `---` would be one long heading.
_MARKDOWN = MarkdownIt("commonmark").enable("table").disable(["inline", "text_join"])
# The marks of blocks whose rules try every line: without them, texts that have no such mark take a fifth less time.
_MARKS = {"|": "table", "]:": "reference", "<": "html_block", ">": "blockquote"}
_PARSERS: dict[tuple[str, ...], MarkdownIt] = {}  # by the rules they do without


class MarkdownPage(NamedTuple):
    """The block tokens of a body and the link definitions found in it."""

    blocks: list[Token]
    env: EnvType


def parse_page(body: str) -> MarkdownPage:
    """The blocks of a body. Line numbers in the tokens count LF, CRLF and CR as line ends."""
    env: EnvType = {}
    idle = tuple(map(_MARKS.__getitem__, filterfalse(body.__contains__, _MARKS)))
    if idle not in _PARSERS:
        _PARSERS[idle] = MarkdownIt("commonmark").enable("table").disable(["inline", "text_join", *idle])
    return MarkdownPage(_PARSERS[idle].parse(body, env), env)


def decode_url(url: str) -> str:
    """A link's address with its percent escapes decoded."""
    return _MARKDOWN.normalizeLinkText(url) if "%" in url else url


def _parse_inline(page: MarkdownPage, content: str) -> list[Token]:
    """The tokens of one block's text, with the page's link definitions."""
    tokens: list[Token] = []
    _MARKDOWN.inline.parse(content, _MARKDOWN, page.env, tokens)
    return tokens


def parse_headings(body: str, page: MarkdownPage | None = None, name: str = "") -> tuple[Heading, ...]:
    """Headings of a body, except inside quotes, lists and code; `page` holds its tokens if they are known.

    If the file's `name` has such a suffix, they are those of reStructuredText or AsciiDoc, found by their lines alone.
    """
    found, headings, counts = list[_FoundHeading](), list[Heading](), dict[str, int]()
    if name.endswith((".rst", *ASCIIDOC)):
        found.extend(find_marked(body) if name.endswith(ASCIIDOC) else find_underlined(body))
    else:
        page, starts = page or parse_page(body), list[int]()
        for token, inline in pairwise(page.blocks):
            if token.type != "heading_open" or token.level:
                continue
            starts = starts or [0, *(match.end() for match in _LINE_END.finditer(body))]
            text = inline.content
            if _MARKUP.search(text):
                parts = (part for part in _parse_inline(page, text) if part.type != "html_inline")
                text = "".join(" " if part.type in ("softbreak", "hardbreak") else part.content for part in parts)
            found.append((int(token.tag[1:]), " ".join(text.split()), starts[token.map[0] if token.map else 0]))
    for level, text, start in found:
        anchor = plain = make_anchor(text)
        while anchor in counts:
            counts[plain] += 1
            anchor = f"{plain}-{counts[plain]}"
        counts[anchor] = 0
        headings.append(Heading(level=level, text=text, anchor=anchor, start=start))
    return tuple(headings)


def find_underlined(body: str) -> Iterator[_FoundHeading]:
    """reStructuredText's headings: each style of underline, with or without a line above, is a level of its own."""
    ways = list[tuple[str, bool]]()
    for match in _UNDERLINED.finditer(body):
        way = match["line"][0], bool(match["above"])
        if len(match["line"]) >= len(match["text"]) and (way[1] or match["text"][0].isalnum()):
            ways += [] if way in ways else [way]
            yield ways.index(way) + 1, " ".join(match["text"].split()), match.start()


def find_marked(body: str) -> Iterator[_FoundHeading]:
    """AsciiDoc's headings: lines that begin with equals signs, outside of fenced blocks."""
    fence = ""
    for match in _MARKED.finditer(body):
        if match["fence"]:
            fence = "" if match["fence"] == fence else fence or match["fence"]
        elif not fence:
            yield len(match["marks"]), " ".join(match["text"].split()), match.start()


def find_section(body: str, headings: Sequence[Heading], anchor: str) -> str | None:
    """The text of a mark, or below the heading of an anchor or words to the next of its level or above; or None."""
    wanted, marked = anchor.removeprefix("#"), find_marked_sections(body)
    for number, heading in enumerate(headings):
        if heading.anchor == wanted not in marked:
            ends = (later.start for later in headings[number + 1 :] if later.level <= heading.level)
            return body[heading.start : next(ends, len(body))]
    # The beginning of a mark's name, up to a dash, is enough.
    found = marked.get(min((name for name in marked if f"{name}-".startswith(f"{wanted}-")), key=len, default=""))
    words = make_anchor(wanted.strip("# ")) if wanted else ""
    return find_section(body, headings, words) if found is None and words not in ("", wanted) else found


def find_marked_sections(body: str) -> dict[str, str]:
    """The texts between `<!-- ANCHOR:name -->` and the comment that ends it, outside of code, by name."""
    found, starts, fence = dict[str, str](), dict[str, int](), ""
    for match in _ANCHOR.finditer(body):
        if match["fence"]:
            fence = "" if match["fence"].startswith(fence) and fence else fence or match["fence"]
        elif not fence and not match["end"]:
            starts.setdefault(match["name"], match.end())
        elif not fence and match["name"] in starts:
            found.setdefault(match["name"], body[starts[match["name"]] : match.start()].strip())
    return found


def make_anchor(text: str) -> str:
    """GitHub's anchor for a heading: lower case, letters, marks, digits, `_` and `-`, spaces as `-`."""
    allowed = (char for char in text.lower() if char.isalnum() or char in " -_" or unicodedata.category(char)[0] == "M")
    return "".join(allowed).replace(" ", "-") or "section"


def parse_relations(values: Mapping[str, object], memory_id: str, clean: Callable[[str], str]) -> tuple[Edge, ...]:
    """The causal edges in front matter, except unknown relations and edges to oneself; `clean` redacts."""
    by_name = values.get("relations")
    if not isinstance(by_name, Mapping):
        return ()
    edges: dict[tuple[str, str], Edge] = {}
    for relation in Relation:
        items = by_name.get(relation)
        for item in items if isinstance(items, list) else [] if items is None else [items]:
            fields = item if isinstance(item, Mapping) else {"id": item}
            target = fields.get("id")
            target = clean(parse_reference(target)) if isinstance(target, str) else ""
            if target not in ("", memory_id):
                strength = parse_strength(fields.get("strength", 1.0))
                evidence = clean(" ".join(str(fields.get("evidence") or "").split()))
                edge = Edge(source=memory_id, target=target, relation=relation, strength=strength, evidence=evidence)
                edges.setdefault((relation, target), edge)
    return tuple(edges.values())


def parse_links(page: MarkdownPage, memory_id: str) -> tuple[Edge, ...]:
    """The edges of `[[name]]`, `![[name]]`, `mem:name`, also alone in a code span, and relative links to Markdown."""
    has_definitions = bool(page.env.get("references"))
    targets, folder = list[str](), posixpath.dirname(memory_id)
    for block in page.blocks:
        is_worth_parsing = _WORTH_PARSING.search(block.content) or (has_definitions and "[" in block.content)
        if block.type != "inline" or not is_worth_parsing:
            continue
        if "mem:" in block.content or _NOT_PLAIN.search(_PLAIN_LINK.sub("", block.content)):
            for token in _parse_inline(page, block.content):
                targets += _find_targets(token, folder)
        else:
            targets += (resolve_link(href, folder) for href in _PLAIN_LINK.findall(block.content))
    edges = dict[str, Edge]()
    for target in targets:
        if target not in ("", memory_id, posixpath.basename(memory_id)):
            edges[target] = Edge(source=memory_id, target=target, relation="link", kind=EdgeKind.LINK)
    return tuple(edges.values())


def parse_status(page: MarkdownPage, memory_id: str) -> Iterator[Edge]:
    """Yield the edges of a decision record to those in its folder that it supersedes, or that supersede it."""
    folder = posixpath.dirname(memory_id)
    for match in _STATUS.finditer("\n\n".join(block.content for block in page.blocks if block.type == "inline")):
        target = resolve_link(match["href"], folder)
        if target != memory_id and posixpath.dirname(target) == folder:
            relation, kind = (SUPERSEDED_BY, EdgeKind.LINK) if match["by"] else (Relation.SUPERSEDES, EdgeKind.RELATION)
            yield Edge(source=memory_id, target=target, relation=relation, kind=kind)


def relate_neighbours(memory_id: str) -> tuple[Edge, ...]:
    """The edge from a document of a piece of work to another in its folder, whether or not that one exists."""
    folder, _, name = memory_id.rpartition("/")
    if not folder or name not in _WORK:
        return ()
    relation, target = _WORK[name]
    kind, target = EdgeKind.NEIGHBOURS, f"{folder}/{target}"
    return (Edge(source=memory_id, target=target, relation=relation, kind=kind, strength=_UNSTATED),)


def parse_reference(text: str) -> str:
    """A reference without the characters around the name: `[[ ]]`, `mem:`, anchor, `.md`."""
    name = text.strip().removeprefix("[[").removesuffix("]]").partition("|")[0].partition("#")[0].strip()
    return name.removeprefix("mem:").removesuffix(".md").strip("/")


def format_relation(target: str, strength: float, evidence: str) -> object:
    """A relation as written in front matter: only the id, unless there is more to say."""
    if strength == 1.0 and not evidence:
        return target
    return {"id": target, "strength": strength, **({"evidence": evidence} if evidence else {})}


def group_relations(edges: Iterable[Edge]) -> Mapping[str, list[object]]:
    """Relations as written in front matter, with target, strength and evidence, but without the source."""
    relations: dict[str, list[object]] = {}
    for edge in edges:
        relations.setdefault(str(edge.relation), []).append(format_relation(edge.target, edge.strength, edge.evidence))
    return relations


def parse_strength(value: object) -> float:
    """A strength limited to 0..1; 1 if none is given or it is not a number."""
    try:
        number = float(str(value))
    except ValueError:
        return 1.0
    return 1.0 if math.isnan(number) else min(max(number, 0.0), 1.0)


def _find_targets(token: Token, folder: str) -> Iterator[str]:
    if token.type == "link_open":
        yield resolve_link(str(token.attrGet("href") or ""), folder)
    elif token.type == "text":
        for link in WIKI_LINK.finditer(token.content):
            if link[0][0] != "!" or posixpath.splitext(link[1].partition("#")[0])[1] in ("", ".md"):  # no picture
                yield resolve_name(parse_reference(link[1]), folder)
        yield from (parse_reference(match[1]) for match in MEM_LINK.finditer(token.content))
    elif token.type == "code_inline" and (match := MEM_LINK.fullmatch(token.content.strip())):
        yield parse_reference(match[1])


def resolve_link(href: str, folder: str) -> str:
    """The memory that a link's address refers to; empty for other files, other sites, and places above the source."""
    if href.startswith("mem:"):
        return parse_reference(href)
    path = decode_url(href.partition("#")[0].partition("?")[0])
    if _SCHEME.match(path) or not path.lower().endswith(".md"):
        return ""
    return resolve_name(posixpath.join(".", path[:-3]), folder)


def resolve_name(name: str, folder: str) -> str:
    """A name that starts with a dot is a path from the folder; the index resolves any other."""
    return join_path(folder, name) if name.startswith(("./", "../")) else name


def join_path(folder: str, path: str) -> str:
    """The path from a folder, normalised; empty for the root itself and anything above it."""
    place = posixpath.normpath(posixpath.join(folder, path))
    return "" if place == "." or place.startswith("..") else place


def split_chunks(
    title: str, body: str, headings: Sequence[Heading] = (), *, size: int = CHUNK_CHARS
) -> tuple[Chunk, ...]:
    """Chunks that cover `body` without gap or overlap, in order; at least one, so that a bare title is found too."""
    paths: list[tuple[str, ...]] = []  # for each heading its text and those of the headings above it, outermost first
    above: list[Heading] = []
    for heading in headings:
        above = [outer for outer in above if outer.level < heading.level] + [heading]
        paths.append(tuple(outer.text for outer in above))
    chunks = []
    for ordinal, (start, end, number) in enumerate(_merge_pieces(body, headings, size)):
        own = headings[number] if number >= 0 else Heading(level=1, text="", anchor="", start=0)
        path = paths[number][: -1 if own.start >= start else None] if number >= 0 else ()
        names = dict.fromkeys(filter(None, (title, *path)))
        context = " > ".join(names) + "\n" if names else ""
        chunk = Chunk(ordinal=ordinal, anchor=own.anchor, heading=own.text, start=start, end=end, context=context)
        chunks.append(chunk)
    return tuple(chunks)


def _merge_pieces(body: str, headings: Sequence[Heading], size: int) -> list[tuple[int, int, int]]:
    """Start, end and heading's index (-1 before the first) of sections: long ones cut, small and blank ones joined.

    A heading goes with what is below it, since it says nothing alone.
    """
    merged: list[tuple[int, int, int]] = []
    last_is_bare = False
    starts = [0, *map(attrgetter("start"), headings), len(body)]
    for number, (start, stop) in enumerate(pairwise(starts), start=-1):
        while start < stop:
            end = min(start + size, stop)
            if end < stop:  # in the last two thirds of the room
                end = find_break(body, start + size // 3, end)
            piece, text = (start, end, number), body[start:end]
            is_bare = not _HEADING_LINE.sub("", text).strip()
            if merged and (end - merged[-1][0] <= size or not text.strip() or last_is_bare):
                first, _, above = merged.pop()
                piece = first, end, number if last_is_bare else above
                is_bare = is_bare and last_is_bare
            merged.append(piece)
            start, last_is_bare = end, is_bare
    return merged or [(0, 0, -1)]
