"""What became of what was found."""

from __future__ import annotations

from msgspec import Struct


class Taken(Struct, frozen=True, kw_only=True):
    """What became of one thing that was found.

    `status` is `taken`, `unchanged` (all of it was there), `left` (not taken, for `reasons`) or `found` (by a dry run).
    `events` counts what was recorded now of a session, `memories` are the ids that came of it; where a session was
    taken and became no memory, `reasons` say why. `skipped` counts lines that could not be read.
    """

    source: str
    place: str
    status: str
    events: int = 0
    memories: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    skipped: int = 0
