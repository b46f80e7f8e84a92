"""The processes this one runs under, nearest first: how a server knows whose session it serves."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_MOST = 16


@cache
def ancestors() -> tuple[int, ...]:
    """Process ids of the ancestors; only the parent where the system has no /proc."""
    found: list[int] = []
    process = os.getppid()
    while process > 1 and len(found) < _MOST:
        found.append(process)
        process = _parent(process)
    return tuple(found)


def _parent(process: int) -> int:
    """The parent of a process; 0 when it cannot be told."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])
