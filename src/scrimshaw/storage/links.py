"""Relations whose source is a document that is never written. They live in one TOML file, so they travel with git."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from scrimshaw.errors import UnreadableFile, describe_os_error
from scrimshaw.models import Edge, EdgeKind, Relation
from scrimshaw.storage.durable import storage_errors
from scrimshaw.toml_text import parse_toml

LINKS_FILE = "links.toml"

_HEAD = "# Relations from documents that Scrimshaw reads but never writes.\n"
_PLACE, _BEGIN = re.compile(r"\$\.link\[(\d+)\]"), re.compile(r"\s*\[\[\s*link\s*\]\]")
_Name = Annotated[str, Meta(min_length=1)]


class _Link(Struct, frozen=True, forbid_unknown_fields=True):
    source: _Name
    target: _Name
    relation: Relation
    strength: Annotated[float, Meta(ge=0, le=1)] = 1.0
    evidence: str = ""


class _Links(Struct, frozen=True, forbid_unknown_fields=True):
    link: tuple[_Link, ...] = ()


def read_links(path: Path, clean: Callable[[str], str]) -> tuple[Edge, ...]:
    """The links of a file, none where there is no file; `clean` redacts what a person may have written.

    Raises UnreadableFile, naming what is wrong, and StorageFailure.
    """
    with storage_errors("read", path):
        text = ""
        try:
            text = path.read_text(encoding="utf-8")
            found = msgspec.convert(parse_toml(text), _Links).link
        except FileNotFoundError:
            return ()
        except (ValueError, msgspec.ValidationError) as error:
            told = f"{path}: {describe_os_error(error)}{_line(text, str(error))}."
            raise UnreadableFile(told, "Correct the file.", path=str(path)) from error
    return tuple(_edge(link, clean) for link in found)


def render_links(links: Iterable[Edge]) -> str:
    """The text of a links file, in a fixed order so that two branches merge; comments are not kept."""
    ordered = sorted(links, key=lambda link: (link.source, link.relation, link.target))
    return "\n".join([_HEAD, *map(_table, ordered)])


def _line(text: str, fault: str) -> str:
    """Where the link begins that a fault is in; the fault of a file that is no TOML says so itself."""
    place = _PLACE.search(fault)
    begins = [number for number, line in enumerate(text.splitlines(), start=1) if _BEGIN.match(line)]
    found = begins[int(place[1]) :] if place else []
    return f" (the link at line {found[0]})" if found else ""


def _edge(link: _Link, clean: Callable[[str], str]) -> Edge:
    return Edge(
        source=clean(link.source),
        target=clean(link.target),
        relation=link.relation,
        kind=EdgeKind.EXTERNAL,
        strength=link.strength,
        evidence=clean(link.evidence) if link.evidence else "",
    )


def _table(link: Edge) -> str:
    values = {"source": link.source, "target": link.target, "relation": str(link.relation), "strength": link.strength}
    if link.evidence:
        values["evidence"] = link.evidence
    # A JSON string is a TOML string, but for the one control character that JSON lets stand.
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in values.items()]
    return "\n".join(["[[link]]", *lines, ""]).replace("\x7f", "\\u007f")
