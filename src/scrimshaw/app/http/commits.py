"""Commits what a call over HTTP changed, under the name of whoever asked."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from scrimshaw.engine import Engine
from scrimshaw.engine.ledger import read_file
from scrimshaw.errors import StorageFailure
from scrimshaw.storage.git import commit_files

_MOST_ROWS = 1000  # of one call; a delete of many has a row for each
_lock = threading.Lock()  # git refuses two commits at a time

_log = logging.getLogger(__name__)


@contextmanager
def commit_changes(engine: Engine, what: str) -> Iterator[None]:
    """Commit the files that the ledger says this person changed in the block, and no others that differ.

    What cannot be committed stays changed: it was acknowledged, and the log says why it waits.
    """
    newest = engine.journal.history(limit=1)
    before = newest[0]["seq"] if newest else 0
    yield
    rows = [row for row in engine.journal.history(limit=_MOST_ROWS) if row["seq"] > before]
    names = dict.fromkeys(row["memory_id"] for row in rows if row["actor"].endswith(f":{engine.person}"))
    try:
        paths = [str(read_file(engine, name).path) for name in names if name]
        if paths:
            with _lock:
                title = f"{what}: {', '.join(names)}"
                commit_files(engine.settings.project, paths, engine.person, title if len(title) <= 72 else what)
    except StorageFailure as error:
        _log.warning("A change in %s is not committed: %s", engine.settings.project, error)
