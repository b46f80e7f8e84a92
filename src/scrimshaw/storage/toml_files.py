"""The TOML files next to a vault that are kept in git: relations of read-only documents, and golden queries."""

import json
from collections.abc import Callable, Iterable
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import asdict, replace

from scrimshaw.errors import InvalidRequest, UnreadableFile, describe_os_error
from scrimshaw.models import Edge, EdgeKind, Redacted, Relation
from scrimshaw.storage.durable import read_if_there, storage_errors, write_file
from scrimshaw.toml_text import parse_toml

LINKS_FILE = "links.toml"
GOLDEN_FILE = "golden.toml"
GOLDEN_HEAD = "# Questions whose answers are known: `scrimshaw doctor` and `scrimshaw eval golden` ask them.\n"

_HINT = "Correct the file."
_Name = Annotated[str, Meta(min_length=1)]


class _Link(Struct, frozen=True, forbid_unknown_fields=True):
    source: _Name
    target: _Name
    relation: Relation
    strength: Annotated[float, Meta(ge=0, le=1)] = 1.0
    evidence: str = ""


class _Links(Struct, frozen=True, forbid_unknown_fields=True):
    link: tuple[_Link, ...] = ()


class Golden(Struct, frozen=True, forbid_unknown_fields=True):
    """A question, the ids it must find, and among how many of the first hits."""

    text: Annotated[str, Meta(min_length=1, max_length=2000)]
    expect: Annotated[tuple[_Name, ...], Meta(min_length=1)]
    within: Annotated[int, Meta(ge=1, le=100)] = 5


class GoldenFile(Struct, frozen=True):
    """The queries of a file that can be asked, and a sentence on each other: file, number and what is wrong."""

    queries: tuple[Golden, ...]
    flaws: tuple[str, ...]


class _Queries(Struct, frozen=True, forbid_unknown_fields=True):
    query: tuple[dict[str, Any], ...] = ()


Accept = Callable[[str], object]  # raises InvalidRequest for a text that cannot be searched


def read_links(path: Path, clean: Callable[[str], str]) -> tuple[Edge, ...]:
    """The links of a file, redacted by `clean`, none without one; raises UnreadableFile, StorageFailure."""
    try:
        links = msgspec.convert(parse_toml(_read_text(path)), _Links).link
    except (ValueError, msgspec.ValidationError) as error:  # which names the line, or the link by its number from 0
        raise UnreadableFile(f"{path}: {describe_os_error(error)}.", _HINT, path=str(path)) from error
    edges = (Edge(**asdict(link), kind=EdgeKind.EXTERNAL) for link in links)
    return tuple(
        replace(edge, source=clean(edge.source), target=clean(edge.target), evidence=clean(edge.evidence))
        for edge in edges
    )


def render_links(links: Iterable[Edge]) -> str:
    """The text of a links file, in a fixed order so that two branches merge; comments are lost."""
    tables = ["# Relations from documents that Scrimshaw reads but never writes.\n"]
    for link in sorted(links, key=attrgetter("source", "relation", "target")):
        names = ("source", "target", "relation", "strength", *(["evidence"] if link.evidence else []))
        lines = [f"{name} = {_toml_value(getattr(link, name))}" for name in names]
        tables.append("\n".join(["[[link]]", *lines, ""]))
    return "\n".join(tables)


def _read_text(path: Path) -> str:
    """The text of the file, empty if there is none; raises StorageFailure, and ValueError if it is not UTF-8."""
    with storage_errors("read", path):
        return (read_if_there(path) or b"").decode("utf-8-sig").replace("\r\n", "\n")


def add_query(path: Path, golden: Golden, redact: Callable[[str, str], Redacted], accept: Accept) -> Golden:
    """Add a query at the end, under the vault's lock; returns it as read. Raises UnreadableFile, StorageFailure."""
    before = _read_text(path)
    head = before or GOLDEN_HEAD
    expect = ", ".join(map(_toml_value, golden.expect))
    table = f"\n[[query]]\ntext = {_toml_value(golden.text)}\nexpect = [{expect}]\nwithin = {golden.within}\n"
    text = redact(before, (head if head.endswith("\n") else head + "\n") + table).text
    found = read_golden(path, accept, text).queries[-1]
    write_file(path, text.encode())
    return found


def read_golden(path: Path, accept: Accept, text: str | None = None) -> GoldenFile:
    """The queries of a golden file, none without one, or of its new text; raises UnreadableFile, StorageFailure."""
    try:
        text = _read_text(path) if text is None else text
        tables = msgspec.convert(parse_toml(text), _Queries).query
    except (ValueError, msgspec.ValidationError) as error:
        raise UnreadableFile(f"{path}: {describe_os_error(error)}.", _HINT, path=str(path)) from error
    good, flaws = list[Golden](), list[str]()
    for number, table in enumerate(tables, start=1):
        try:
            golden = msgspec.convert(table, Golden)
            accept(golden.text)
        except (InvalidRequest, msgspec.ValidationError) as error:
            message = error.message if isinstance(error, InvalidRequest) else f"{error}."
            flaws.append(f"{path}, query {number}: {message} {_HINT}")
        else:
            good.append(golden)
    return GoldenFile(tuple(good), tuple(flaws))


def merge_queries(before: bytes, own: bytes, other: bytes) -> bytes:
    """A golden file with the queries that both sides added at its end; empty if a side did anything else."""
    first, ours, theirs = ([*map(bytes.rstrip, raw.split(b"\n[[query]]"))] for raw in (before, own, other))
    first = first if before else ours[:1]
    both = [*ours, *(each for each in theirs if each not in ours)]
    return b"\n\n[[query]]".join(both) + b"\n" if ours[: len(first)] == theirs[: len(first)] == first else b""


def _toml_value(value: str | float) -> str:
    # JSON strings are valid TOML, except for one control character that JSON leaves unescaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
