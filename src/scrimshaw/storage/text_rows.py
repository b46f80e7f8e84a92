"""Rows of the full-text table as matches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from scrimshaw.storage.ports import Match


def whole_and_best_chunk(rows: Iterable[tuple[Any, ...]]) -> list[Match]:
    """Rows of (id, ordinal or None for the whole, score), best first, as one match per memory.

    The score is the mean of the whole's and of the best chunk's; a memory of a single chunk has no row for the whole.
    """
    whole: dict[str, float] = {}
    best: dict[str, tuple[float, int]] = {}
    for name, ordinal, score in rows:
        if ordinal is None:
            whole[name] = score
        else:
            best.setdefault(name, (score, ordinal))
    matches = []
    for name in whole.keys() | best.keys():
        chunk, ordinal = best.get(name, (0.0, -1))
        matches.append(Match(id=name, score=(whole.get(name, chunk) + chunk) / 2, chunk=ordinal))
    return sorted(matches, key=lambda match: (-match.score, match.id))
