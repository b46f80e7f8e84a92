"""Reading JSON lines that another program wrote: what is no object is passed over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from scrimshaw.ingest.payload import Json, decoded


def rows(lines: Iterable[str], *marks: str) -> Iterator[Json]:
    """The objects of the lines that hold one of `marks`; other lines are not decoded, broken ones are passed over."""
    for line in lines:
        if any(mark in line for mark in marks):
            row = decoded(line)
            if isinstance(row, Mapping):
                yield row


def all_rows(text: str) -> tuple[list[Json], int]:
    """The objects of all lines, and how many lines were none. Lines end at line feeds only: a text may hold others."""
    values = [decoded(line) for line in text.split("\n") if line.strip()]
    found = [value for value in values if isinstance(value, Mapping)]
    return found, len(values) - len(found)
