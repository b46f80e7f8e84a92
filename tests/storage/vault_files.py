"""A vault's files as the engine writes them: one at a time, each as an atomic change."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from scrimshaw.models import Redacted, content_hash
from scrimshaw.storage.paths import Vault, check_id, locate
from scrimshaw.storage.transaction import FileChange, atomic_file_changes, make_conflict


class VaultFiles(NamedTuple):
    """A folder of memories."""

    root: Path

    def read(self, memory_id: str) -> bytes:
        return Vault(self.root, "project").read(memory_id)

    def write(self, memory_id: str, text: str = "text", expected_hash: str | None = None) -> str:
        """Write a memory; the hash of its bytes."""
        self._change(check_id(memory_id), Redacted(text=text), expected_hash)
        return content_hash(text.encode())

    def remove(self, memory_id: str, expected_hash: str | None = None) -> None:
        self._change(memory_id, None, expected_hash)

    def _change(self, memory_id: str, text: Redacted | None, expected_hash: str | None) -> None:
        path = locate(self.root, memory_id)
        before = path.read_bytes() if path.is_file() else None
        current_hash = "" if before is None else content_hash(before)
        if expected_hash is not None and expected_hash != current_hash:
            raise make_conflict(memory_id, current_hash, expected_hash)
        change = FileChange(path, self.root.resolve(), before, text, memory_id)
        with atomic_file_changes(self.root, "", [change]):
            pass
