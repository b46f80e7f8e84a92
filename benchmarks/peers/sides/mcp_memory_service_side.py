"""mcp-memory-service by the storage that its MCP server calls, with its hybrid search, over passages, with MiniLM."""

import asyncio
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.peers.sides.worker import serve, split_note


class MemoryService:
    """One SQLite file with sqlite-vec and FTS5."""

    def __init__(self, folder: Path) -> None:
        storage = import_module("mcp_memory_service.storage.sqlite_vec").SqliteVecMemoryStorage
        self._memory = import_module("mcp_memory_service.models.memory").Memory
        self._hash = import_module("mcp_memory_service.utils.hashing").generate_content_hash
        self._loop = asyncio.new_event_loop()
        self._storage = storage(str(folder / "memory.db"))
        self._loop.run_until_complete(self._storage.initialize())

    def add(self, notes: Mapping[str, str]) -> None:
        """Each passage as a memory."""
        for name, text in notes.items():
            for passage in split_note(text):
                memory = self._memory(
                    content=passage, content_hash=self._hash(passage), tags=[], metadata={"note": name}
                )
                self._loop.run_until_complete(self._storage.store(memory, skip_semantic_dedup=True))

    def search(self, query: str, count: int) -> Sequence[str]:
        """The notes of the best passages."""
        found = self._loop.run_until_complete(self._storage.retrieve_hybrid(query, n_results=3 * count))
        return [str(hit.memory.metadata["note"]) for hit in found]


serve(MemoryService)
