"""Golden queries: questions whose answers are known, in one TOML file that travels with git."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from scrimshaw.errors import InvalidRequest, UnreadableFile
from scrimshaw.models import Redacted
from scrimshaw.storage.durable import replace_file, storage_errors
from scrimshaw.toml_text import parse_toml

GOLDEN_FILE = "golden.toml"
HEAD = "# Questions whose answers are known: `scrimshaw doctor` and `scrimshaw eval golden` ask them.\n"

_Id = Annotated[str, Meta(min_length=1)]


class Golden(Struct, frozen=True, forbid_unknown_fields=True):
    """A question, the ids it must bring, and among how many first hits."""

    text: Annotated[str, Meta(min_length=1, max_length=2000)]
    expect: Annotated[tuple[_Id, ...], Meta(min_length=1)]
    within: Annotated[int, Meta(ge=1, le=100)] = 5


class GoldenFile(Struct, frozen=True):
    """The queries of a file that can be asked, and a sentence on each that cannot: file, line and what is wrong."""

    queries: tuple[Golden, ...]
    flaws: tuple[str, ...]


# Raises InvalidRequest for a text that cannot be searched.
Accept = Callable[[str], object]


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    query: tuple[dict[str, Any], ...] = ()


_TABLE = re.compile(r"""\s*\[\[\s*["']?query["']?\s*\]\]""")
_FIX = "Correct the file."
_BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"


def read_golden(path: Path, accept: Accept) -> GoldenFile:
    """The golden queries of a file, none where there is no file; raises StorageFailure.

    Raises UnreadableFile where the file as a whole is not what it should be.
    """
    return _parsed(path, golden_text(path), accept)


def golden_text(path: Path) -> str:
    """The file as it is, empty where there is none; raises UnreadableFile and StorageFailure."""
    with storage_errors("read", path):
        try:
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return ""
        except UnicodeDecodeError as error:
            raise UnreadableFile(f"{path} is no UTF-8 text.", "Save it as UTF-8.", path=str(path)) from error


def with_query(before: str, golden: Golden) -> str:
    """The text of a file with one more query at its end; what stands there is left as it is."""
    block = [
        "",
        "[[query]]",
        f"text = {_toml(golden.text)}",
        f"expect = [{', '.join(map(_toml, golden.expect))}]",
        f"within = {golden.within}",
        "",
    ]
    head = before or HEAD
    return (head if head.endswith("\n") else head + "\n") + "\n".join(block)


def write_golden(path: Path, text: Redacted, accept: Accept) -> GoldenFile:
    """Replace the file durably, hold the vault's lock; its queries. Raises UnreadableFile for a text that is none."""
    found = _parsed(path, text.text, accept)
    with storage_errors("write", path):
        replace_file(path, text.text.encode())
    return found


def _parsed(path: Path, text: str, accept: Accept) -> GoldenFile:
    try:
        tables = msgspec.convert(parse_toml(text.removeprefix(_BOM)), _File).query
    except (ValueError, msgspec.ValidationError) as error:
        raise UnreadableFile(f"{path}: {error}.", _FIX, path=str(path)) from error
    good: list[Golden] = []
    flaws: list[str] = []
    for place, table in zip(_places(text, len(tables)), tables, strict=True):
        try:
            golden = msgspec.convert(table, Golden)
            accept(golden.text)
        except (InvalidRequest, msgspec.ValidationError) as error:
            said = error.message if isinstance(error, InvalidRequest) else f"{error}."
            flaws.append(f"{path}, {place}: {said} {_FIX}")
        else:
            good.append(golden)
    return GoldenFile(tuple(good), tuple(flaws))


def _places(text: str, count: int) -> Iterator[str]:
    """Where each query stands: its line, or its number where lines do not tell, as in an inline list."""
    lines = [number for number, line in enumerate(text.split("\n"), start=1) if _TABLE.match(line)]
    known = len(lines) == count
    return (f"line {lines[number]}" if known else f"query {number + 1}" for number in range(count))


def _toml(text: str) -> str:
    # A JSON string is a TOML string, but for the one control character that JSON lets stand.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
