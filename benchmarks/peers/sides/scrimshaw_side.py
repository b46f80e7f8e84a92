"""Scrimshaw as its users have it: files in a project, indexed, and searched by the library with its usual settings."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import scrimshaw
from benchmarks.peers.sides.worker import serve
from scrimshaw.engine import index


class Scrimshaw:
    """A project's memory."""

    def __init__(self, folder: Path) -> None:
        self._vault = folder / ".scrimshaw/memories"
        self._vault.mkdir(parents=True, exist_ok=True)
        self._memory = scrimshaw.open(folder)

    def add(self, notes: Mapping[str, str]) -> None:
        """Write the files, as an editor or git would, and let them be indexed."""
        for name, text in notes.items():
            path = self._vault / f"{name}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        index.scan(self._memory.engine)
        index.embed_pending(self._memory.engine)

    def search(self, query: str, count: int) -> Sequence[str]:
        """None where no note is likely to answer, as for any user."""
        return [hit.memory.id for hit in self._memory.search(query, limit=count)]


serve(Scrimshaw)
