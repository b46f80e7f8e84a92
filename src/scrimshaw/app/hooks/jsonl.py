"""Reading the tail of a client's transcript: one JSON object a line, the first line maybe cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from scrimshaw.app.hooks.payload import Json, decoded


def rows(lines: Iterable[str], *marks: str) -> Iterator[Json]:
    """The objects of the lines that hold one of `marks`; other lines are not decoded, broken ones are passed over."""
    for line in lines:
        if any(mark in line for mark in marks):
            row = decoded(line)
            if isinstance(row, Mapping):
                yield row
