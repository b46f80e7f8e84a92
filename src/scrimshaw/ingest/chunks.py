"""Cut the body of a memory into pieces small enough to embed and to rank on their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from scrimshaw.models import Chunk, Heading

CHUNK_CHARS = 900
"""Most characters of a piece, outer blanks apart. Measured: 1,200 ranks alike but is cut by the 256 tokens that the
bundled model reads; 700 loses on short notes, 1,500 on long documents."""

_BREAKS = ("\n\n", "\n", ". ", " ")


class _Piece(NamedTuple):
    start: int
    end: int
    heading: int
    """Index of the heading the piece lies under; -1 before the first one."""


def chunk(title: str, body: str, headings: Sequence[Heading] = (), *, size: int = CHUNK_CHARS) -> tuple[Chunk, ...]:
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
