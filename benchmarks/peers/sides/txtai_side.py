"""txtai as its documentation shows a hybrid index, over passages, with MiniLM in PyTorch."""

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.peers.sides.worker import serve, split_note


class Txtai:
    """An index in memory, saved after it was built."""

    def __init__(self, folder: Path) -> None:
        self._place = str(folder / "index")
        self._index = import_module("txtai").Embeddings(path=os.environ["MINILM"], hybrid=True)
        if self._index.exists(self._place):
            self._index.load(self._place)

    def add(self, notes: Mapping[str, str]) -> None:
        """Index the passages, named by their note and place."""
        passages = [
            (f"{name}\n{place}", passage)
            for name, text in notes.items()
            for place, passage in enumerate(split_note(text))
        ]
        self._index.index(passages)
        self._index.save(self._place)

    def search(self, query: str, count: int) -> Sequence[str]:
        """The notes of the best passages."""
        return [name.partition("\n")[0] for name, _ in self._index.search(query, 3 * count)]


serve(Txtai)
