"""basic-memory as its users have it: a project's files, indexed by its command line, searched over MCP.

It is under the AGPL, so nothing of it is imported: this process only speaks to its programs.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.sides.worker import serve

PROTOCOL = "2025-06-18"


class BasicMemory:
    """A project, and the MCP server of its program."""

    def __init__(self, folder: Path) -> None:
        self._files = folder / "files"
        self._files.mkdir(exist_ok=True)
        os.environ["BASIC_MEMORY_CONFIG_DIR"] = str(folder)
        settings = {
            "projects": {"main": {"path": str(self._files)}},
            "default_project": "main",
            "semantic_search_enabled": True,
            "semantic_embedding_model": "sentence-transformers/all-MiniLM-L6-v2",
            "semantic_embedding_cache_dir": os.environ["FASTEMBED_CACHE_PATH"],
            "semantic_embedding_threads": 1,
            "semantic_min_similarity": 0.0,  # the default suits another model; with MiniLM it lets nothing through
            "auto_update": False,
        }
        (folder / "config.json").write_text(json.dumps(settings), encoding="utf-8")
        self._server: subprocess.Popen[str] | None = None

    def add(self, notes: Mapping[str, str]) -> None:
        """Write the files and index them."""
        for name, text in notes.items():
            path = self._files / f"{name}.md"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        subprocess.run(["basic-memory", "reindex"], check=True)

    def search(self, query: str, count: int) -> Sequence[str]:
        """The files of its hybrid search."""
        asked = {
            "query": query,
            "page_size": count,
            "search_type": "hybrid",
            "output_format": "json",
            "project": "main",
        }
        answer = self._call("tools/call", {"name": "search_notes", "arguments": asked})
        found = json.loads(answer["content"][0]["text"])
        return [str(Path(hit["file_path"]).with_suffix("")) for hit in found["results"]]

    def _call(self, method: str, parameters: Mapping[str, Any]) -> Any:
        """The result of a request to the server, which the first one starts."""
        if self._server is None:
            self._server = subprocess.Popen(
                ["basic-memory", "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            client = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
            self._call("initialize", client)
            self._send({"method": "notifications/initialized"})
        assert self._server.stdout is not None
        self._send({"id": 1, "method": method, "params": parameters})
        for line in self._server.stdout:
            if "id" in (message := json.loads(line)) and "method" not in message:
                return message["result"]
        raise SystemExit("The server ended.")

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._server is not None
        assert self._server.stdin is not None
        self._server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._server.stdin.flush()


serve(BasicMemory)
