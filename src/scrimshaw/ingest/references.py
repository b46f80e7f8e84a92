"""References of a memory to files of its project: finding them, checking them, and following renames."""

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from operator import itemgetter

from msgspec import Struct

from scrimshaw.ingest.markdown import decode_url, join_path
from scrimshaw.ingest.tables import load_pattern

Exists = Callable[[str], bool]
Rename = tuple[str, str]
Paths = Collection[str]

_pattern = partial(load_pattern, __file__, "references")

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LINES = re.compile(r"[^\n]*\n|[^\n]+\Z")
_COMMENT = re.compile(r"\s#|\Z")
_ITEM = re.compile(r"[ \t]*-[ \t]+")

ReferenceKind = StrEnum("ReferenceKind", "CODE LINK WIKILINK FIELD")  # how a reference is written
# A reference in a line: how it is written, its path, where that begins, and whether its form makes it certain.
_Hit = tuple[ReferenceKind, str, int, bool]


class Reference(Struct, frozen=True, kw_only=True):
    """A path as it is written, without line number and anchor."""

    path: str
    kind: ReferenceKind
    line: int  #: Line, from 1, and offset into the text.
    start: int
    certain: bool = True  #: otherwise it is only a path if its first folder exists: `src/search`, but not `and/or`


def find_references(text: str) -> tuple[Reference, ...]:
    """Every reference of a file, in fenced code only fields; no URLs, globs, home paths, commands, placeholders."""
    found: list[Reference] = []
    # Line by line, since what a reference means depends on the fence around it, and offsets must be exact.
    offset, fence, in_list = 0, "", False
    for number, line in enumerate(_LINES.findall(text), start=1):
        after = fence
        if mark := _FENCE.match(line):
            closes = mark[1].startswith(fence) and not line[mark.end() :].strip()
            after = mark[1] if not fence else "" if closes else fence
        start = _pattern("field").match(line) or (_ITEM.match(line) if in_list else None)
        hits = _find_in_field(line, start.end()) if start else () if fence or after else _find_in_text(line)
        for kind, path, at, certain in sorted(hits, key=itemgetter(2)):
            found.append(Reference(path=path, kind=kind, line=number, start=offset + at, certain=certain))
        in_list = bool(start) or (in_list and not line.strip())
        offset, fence = offset + len(line), after
    return tuple(found)


def find_stale(
    references: Iterable[Reference], folder: str, exists: Exists, *, roots: Paths = ("",), names: Paths = ()
) -> tuple[Reference, ...]:
    """The references to nothing below `folder`, that of their file, or `roots`; `names` of wikilinks are lower case."""
    bases = tuple(dict.fromkeys((folder, *roots)))

    def is_stale(reference: Reference) -> bool:
        path, is_wikilink = decode_url(reference.path).strip("/"), reference.kind == ReferenceKind.WIKILINK
        if is_wikilink and path.removesuffix(".md").casefold() in names:
            return False
        ways = (path, f"{path}.md") if is_wikilink else (path,)
        places = [place for way in ways for base in bases if (place := join_path(base, way))]
        if not places or any(map(exists, places)):
            return False
        return reference.certain or any(exists(join_path(base, path.partition("/")[0])) for base in bases)

    return tuple(filter(is_stale, references))


def follow_renames(reference: Reference, folder: str, renames: Sequence[Rename]) -> str:
    """The path after renames of whole segments at its start; a path with dots is resolved first."""
    path = reference.path
    if (after := rename_path(path, renames)) != path or not path.startswith(("./", "../")):
        return after
    place = posixpath.normpath(posixpath.join(folder, path))
    target = rename_path(place, renames)
    return path if target == place else posixpath.relpath(target, folder or ".")


def rename_path(path: str, renames: Sequence[Rename]) -> str:
    """A path after the renames, in order; unchanged if it does not start with the old name, or has the new one."""
    for old, new in renames:
        if _is_below(path, old) and not (new and _is_below(path, new)):
            path = f"{new}{path[len(old) :]}" if new else path[len(old) :].lstrip("/")
    return path


def rewrite_references(text: str, changes: Iterable[tuple[Reference, str]]) -> str:
    """`text` with other paths in place of the references; every other byte stays."""
    for reference, path in sorted(changes, key=lambda change: change[0].start, reverse=True):
        text = text[: reference.start] + path + text[reference.start + len(reference.path) :]
    return text


def _find_in_field(line: str, start: int) -> Iterator[_Hit]:
    comment = _COMMENT.search(line, start)
    for value in _pattern("value").finditer(line, start, comment.start() if comment else len(line)):
        group = value.lastindex or 0
        path = value[group].rstrip(".")
        certain = _is_certain(path)
        if (certain or "/" in path.strip("/")) and _is_possible(path.replace(" ", "_")):
            yield ReferenceKind.FIELD, path, value.start(group), certain


def _find_in_text(line: str) -> Iterator[_Hit]:
    for code in _pattern("code").finditer(line):
        content = code[2].strip()
        path = _pattern("position").sub("", content)
        if "/" in path.strip("/") and _is_possible(path):
            yield ReferenceKind.CODE, path, code.start(2) + code[2].index(content), _is_certain(path)
    # A link with code removed from it is not a link.
    plain = _pattern("code").sub(lambda match: " " * len(match[0]), line)
    links = [link for pattern in (_pattern("link"), _pattern("wikilink")) for link in pattern.finditer(plain)]
    for link in filter(lambda link: line[slice(*link.span())] == link[0], links):
        if link.re is _pattern("link"):
            path = _pattern("position").sub("", link[1].partition("?")[0])
            if _is_possible(decode_url(path).replace(" ", "_"), rooted=True):
                yield ReferenceKind.LINK, path, link.start(1), not path.startswith("/")
        elif (path := link[1].strip()) and not _pattern("no_path").search(path.replace(" ", "_")):
            yield ReferenceKind.WIKILINK, path, link.start(1) + link[1].index(path), True


def _is_possible(path: str, *, rooted: bool = False) -> bool:
    if not path.strip("./") or _pattern("no_path").search(path) or _pattern("placeholder").search(path):
        return False
    return (rooted or not path.startswith("/")) and not _pattern("host").fullmatch(path.partition("/")[0])


def _is_certain(path: str) -> bool:
    """Whether the form alone identifies a path: a file's extension, a numbered folder, dots at the start."""
    form = _pattern("file").fullmatch(path.rpartition("/")[2]) or _pattern("numbered").search(path)
    return form is not None or path.startswith(("./", "../"))


def _is_below(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")
