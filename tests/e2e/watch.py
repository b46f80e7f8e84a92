"""Every file below a folder while others work there, and which secrets it ever held."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from pathlib import Path

PERIOD_S = 0.05
"""Shorter than any process of a run lives, so that its temporary files are met."""

# Ids, dates and counters, which differ from run to run: OpenCode's, then hexadecimal and decimal ones.
_CHANGING = re.compile(r"(?<=_)[0-9A-Za-z]{20,}|(?<=\d_)[0-9a-z]{5}(?![0-9a-z])|[0-9a-f]{4,}|\d+")
# SQLite's companions come and go with their database.
_COMPANION = re.compile(r"-(?:wal|shm|journal)$")


class Sightings:
    """The files and folders that were seen, by their path below `root`; what was removed stays seen."""

    def __init__(self, root: Path, secrets: Sequence[str]) -> None:
        self._root = root
        self._secrets = [secret.encode() for secret in secrets]
        self._states: dict[str, tuple[int, int]] = {}
        self._files: dict[str, frozenset[str]] = {}
        self._folders: set[str] = set()

    @property
    def files(self) -> Mapping[str, frozenset[str]]:
        """The secrets that each file ever held."""
        return self._files

    @property
    def folders(self) -> Set[str]:
        """The folders that ever were."""
        return self._folders

    def look(self, *, again: bool = False) -> None:
        """Read what is new or changed since the last look; `again` reads all, whatever their dates say."""
        for folder, _, names in os.walk(self._root):
            self._folders.add(Path(folder).relative_to(self._root).as_posix())
            for name in names:
                self._read(Path(folder) / name, again)

    def _read(self, path: Path, again: bool) -> None:
        name = path.relative_to(self._root).as_posix()
        try:
            state = path.lstat()
            if not again and self._states.get(name) == (state.st_mtime_ns, state.st_size):
                return
            content = path.read_bytes() if path.is_file() else b""
        except OSError:  # it is gone already, or nobody's to read
            return
        self._states[name] = (state.st_mtime_ns, state.st_size)
        held = {secret.decode() for secret in self._secrets if secret in content}
        self._files[name] = self._files.get(name, frozenset()) | held


@contextmanager
def watched(root: Path, secrets: Sequence[str]) -> Iterator[Sightings]:
    """Look again and again while the block runs, and once after it."""
    sightings = Sightings(root, secrets)
    ended = threading.Event()
    watcher = threading.Thread(target=_keep_looking, args=(sightings, ended), daemon=True)
    watcher.start()
    try:
        yield sightings
    finally:
        ended.set()
        watcher.join()
        sightings.look(again=True)


def shape(path: str) -> str:
    """A path without what differs from run to run."""
    return _CHANGING.sub("#", _COMPANION.sub("", path))


def _keep_looking(sightings: Sightings, ended: threading.Event) -> None:
    while not ended.wait(PERIOD_S):
        sightings.look()
