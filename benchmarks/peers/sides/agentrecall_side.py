"""agentrecall-db as a library, with passages and MiniLM; its own small model would have to be downloaded."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.peers.sides.worker import MiniLM, serve, split_note


class Embedder:
    """MiniLM as agentrecall takes it."""

    dim = 384

    def __init__(self) -> None:
        self._model = MiniLM()

    def embed(self, texts: list[str]) -> list[list[float]]:
        """A vector for each text."""
        return [self._model.embed(text).tolist() for text in texts]


class AgentRecall:
    """One SQLite file, searched by FTS5 and sqlite-vec."""

    def __init__(self, folder: Path) -> None:
        memory = import_module("agentrecall").Memory
        self._memory = memory(folder / "agent.db", embeddings=True, embedder=Embedder())

    def add(self, notes: Mapping[str, str]) -> None:
        """Each passage as a memory."""
        for name, text in notes.items():
            for passage in split_note(text):
                self._memory.add(passage, metadata={"note": name})

    def search(self, query: str, count: int) -> Sequence[str]:
        """The notes of the best passages."""
        return [hit.metadata["note"] for hit in self._memory.search(query, k=3 * count)]


serve(AgentRecall)
