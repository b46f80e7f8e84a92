"""mempalace as its users have it: a folder of files, mined, and searched by what its MCP server calls."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.peers.sides.worker import serve


class MemPalace:
    """A palace in Chroma, with MiniLM where Chroma looks for it."""

    def __init__(self, folder: Path) -> None:
        self._files, self._palace = folder / "files", str(folder / "palace")
        self._mine = import_module("mempalace.miner").mine
        self._find = import_module("mempalace.searcher").search_memories

    def add(self, notes: Mapping[str, str]) -> None:
        """Write the files and mine them, as `mempalace mine` does."""
        for name, text in notes.items():
            path = self._files / f"{name}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        (self._files / "mempalace.yaml").write_text("wing: notes\nrooms: []\n", encoding="utf-8")
        self._mine(str(self._files), self._palace)

    def search(self, query: str, count: int) -> Sequence[str]:
        """The files of the best drawers."""
        found = self._find(query, self._palace, n_results=3 * count)
        paths = (Path(hit["source_path"]).with_suffix("") for hit in found["results"])
        return [str(path.relative_to(self._files)) for path in paths]


serve(MemPalace)
