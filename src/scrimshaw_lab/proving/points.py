"""Kill points: the durable steps of a process, counted as they are passed, and the one where it stands still."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

from scrimshaw.storage.sqlite.database import Database

BEFORE_RENAME, AFTER_RENAME = "before rename", "after rename"
BEFORE_FSYNC = "before fsync"
BEFORE_COMMIT, AFTER_COMMIT = "before commit", "after commit"
# Each with about how often a process passes it in a round.
PASSAGES = {BEFORE_RENAME: 16, AFTER_RENAME: 16, BEFORE_FSYNC: 36, BEFORE_COMMIT: 50, AFTER_COMMIT: 50}

Hook = Callable[..., None]


class Points:
    """Counts the passages of every point, and calls `stop` at one passage of the chosen point."""

    def __init__(self, chosen: str, passage: int, stop: Callable[[str], None]) -> None:
        self._chosen = (chosen, passage)
        self._stop = stop
        self._passed: Counter[str] = Counter()

    def reach(self, name: str, *_: object) -> None:
        """Come to a point."""
        self._passed[name] += 1
        if (name, self._passed[name]) == self._chosen:
            self._stop(name)


def install(points: Points) -> None:
    """Make this process pass the points from now on."""
    for name in ("replace", "rename"):
        wrap(os, name, before=partial(points.reach, BEFORE_RENAME), after=partial(points.reach, AFTER_RENAME))
    wrap(os, "fsync", before=partial(points.reach, BEFORE_FSYNC))
    _wrap_commit(points)


def wrap(place: Any, name: str, *, before: Hook | None = None, after: Hook | None = None) -> None:
    """Have a function of a module call `before` and `after` with its positional arguments."""
    original = getattr(place, name)

    def wrapped(*arguments: Any, **options: Any) -> Any:
        if before:
            before(*arguments)
        result = original(*arguments, **options)
        if after:
            after(*arguments)
        return result

    setattr(place, name, wrapped)


def _wrap_commit(points: Points) -> None:
    original = Database.write

    @contextmanager
    def write(self: Database) -> Iterator[Any]:
        with _as_it_was(original, self) as connection:
            yield connection
            points.reach(BEFORE_COMMIT)
        points.reach(AFTER_COMMIT)

    name = "write"
    setattr(Database, name, write)


def _as_it_was(original: Callable[[Database], AbstractContextManager[Any]], database: Database) -> Any:
    return original(database)
