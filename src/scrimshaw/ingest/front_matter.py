"""The YAML block at the head of a memory file: where it lies and what it says."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from scrimshaw.errors import UnreadableFile

BOM = "\ufeff"
_OPENING = re.compile(r"---[ \t]*\r?\n")
_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?(?:\n|\Z)", re.MULTILINE)
_DEEP = re.compile(r"(?:[\[{]\s*){64}")  # ruamel.yaml spends seconds on a longer run before it gives up
# Twenty times the longest of real memories; a page of short keys takes ruamel.yaml 12 us a character.
_LONGEST = 32_768
_NULL = "tag:yaml.org,2002:null"


class FrontMatter(NamedTuple):
    """A file's text in four pieces that join back to it; without front matter only `body` (and a BOM) has text.

    `root` is the YAML mapping with its offsets into `yaml`, None where there is none or it is empty.
    """

    opening: str
    yaml: str
    closing: str
    body: str
    root: MappingNode | None = None

    @property
    def values(self) -> Mapping[str, object]:
        """Keys and values as plain mappings, lists, None and text; numbers and dates stay as they are written."""
        return {} if self.root is None else _mapping(self.root, {})

    @property
    def text(self) -> str:
        return self.opening + self.yaml + self.closing + self.body


def read(text: str, name: str = "front matter") -> FrontMatter:
    """Splits a file's text. A block between rules that is valid YAML but no mapping belongs to the body.

    Raises UnreadableFile, naming `name` and the line, where the block is not valid YAML.
    """
    bom = BOM if text.startswith(BOM) else ""
    start = _OPENING.match(text, len(bom))
    end = _CLOSING.search(text, start.end()) if start else None
    if start is None or end is None:
        return FrontMatter(bom, "", "", text[len(bom) :])
    yaml = text[start.end() : end.start()]
    root = compose(yaml, name)
    if root is not None and not isinstance(root, MappingNode):
        return FrontMatter(bom, "", "", text[len(bom) :])
    return FrontMatter(text[: start.end()], yaml, end[0], text[end.end() :], root)


def compose(yaml: str, name: str = "front matter") -> Node | None:
    """The node tree of a YAML text with marks into it, None when it holds nothing; never to be changed.

    Raises UnreadableFile, naming `name` and the line, where it is not valid YAML, too deep or too long.
    """
    if _DEEP.search(yaml):
        raise _broken(name, 1, "it is nested too deeply")
    if len(yaml) > _LONGEST:
        raise UnreadableFile(
            f"{name}, line 1: the front matter has {len(yaml)} characters; at most {_LONGEST} are read.",
            "Shorten it, or move what is not metadata into the text.",
            line=1,
        )
    try:
        root = _composed(yaml)
    except MarkedYAMLError as error:
        raise _broken(name, _line(error), error.problem or error.context or "unknown problem") from error
    except (YAMLError, ValueError, AssertionError) as error:  # the last for unknown %YAML versions
        raise _broken(name, 1, str(error).partition("\n")[0]) from error
    except RecursionError as error:
        raise _broken(name, 1, "it is nested too deeply") from error
    if root is not None and "*" in yaml and _holds_itself(root, {}):
        raise _broken(name, 1, "an alias stands inside of what it names")
    return root


def _holds_itself(node: Node, seen: dict[int, bool]) -> bool:
    """Whether an alias leads back to where it stands; `seen` says of each node whether it is still open."""
    if id(node) in seen or not isinstance(node, MappingNode | SequenceNode):
        return seen.get(id(node), False)
    seen[id(node)] = True
    parts = chain.from_iterable(node.value) if isinstance(node, MappingNode) else node.value
    if any(_holds_itself(part, seen) for part in parts):
        return True
    seen[id(node)] = False
    return False


@lru_cache(maxsize=16)  # a change reads the same block several times
def _composed(yaml: str) -> Node | None:
    reader = YAML(typ="base", pure=True)
    reader.composer.warn_double_anchors = False
    return reader.compose(yaml)  # type: ignore[no-any-return]  # untyped in ruamel.yaml


def plain(node: Node) -> object:
    """A node as plain mappings, lists, None and text."""
    return _plain(node, {})


def _plain(node: Node, seen: dict[int, object]) -> object:
    if id(node) in seen:  # an alias
        return seen[id(node)]
    if isinstance(node, MappingNode):
        return _mapping(node, seen)
    if isinstance(node, SequenceNode):
        items: list[object] = []
        seen[id(node)] = items
        items.extend(_plain(child, seen) for child in node.value)
        return items
    return None if str(node.tag) == _NULL else _whole(node.value)


def _mapping(node: MappingNode, seen: dict[int, object]) -> dict[str, object]:
    values: dict[str, object] = {}
    seen[id(node)] = values
    for key, value in node.value:
        values[_whole(str(key.value))] = _plain(value, seen)
    return values


def _whole(text: str) -> str:
    """Joins surrogate pairs that a JSON writer escaped, and replaces lone ones, which no UTF-8 file can hold."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _line(error: MarkedYAMLError) -> int:
    mark = error.problem_mark or error.context_mark
    return 2 + (mark.line if mark else 0)


def _broken(name: str, line: int, why: str) -> UnreadableFile:
    return UnreadableFile(
        f"{name}, line {line}: the front matter is not valid YAML: {why}.",
        "Correct that line, or quote a value that holds ': ' or starts with one of [ { * & ! | > @ `.",
        line=line,
    )
