"""The processes this one runs under, nearest first: how a server knows whose session it serves."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_MOST = 16
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "fish", "ksh", "busybox"})


@cache
def ancestors() -> tuple[int, ...]:
    """Process ids of the ancestors; only the parent where the system has no /proc."""
    found: list[int] = []
    process = os.getppid()
    while process > 1 and len(found) < _MOST:
        found.append(process)
        process = _parent(process)
    return tuple(found)


def client() -> int:
    """The process that started this one, past the shells it may have used for that; 0 when it cannot be told."""
    return next((process for process in ancestors() if _name(process) not in _SHELLS), 0)


def _name(process: int) -> str:
    """The name of a process; empty when it cannot be told."""
    try:
        return Path(f"/proc/{process}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _parent(process: int) -> int:
    """The parent of a process; 0 when it cannot be told."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])
