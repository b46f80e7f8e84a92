"""The vault: one memory, one Markdown file; written durably, never over somebody else's change."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock, Timeout

from scrimshaw.errors import InvalidRequest, NotFound, ReadOnly, VaultBusy
from scrimshaw.models import Redacted, content_hash
from scrimshaw.storage.durable import delete_leftovers, storage_errors
from scrimshaw.storage.paths import check_id, locate
from scrimshaw.storage.transaction import FileChange, atomic_file_changes, demand_hash

# Shorter than the pause between two saves of one writer, so that it does not take the lock again before who waits.
LOCK_POLL_S = 0.002
# For one file of a vault that other projects write too.
SHARED_TIMEOUT_S = 10.0

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL})


def is_text(data: bytes) -> bool:
    """Whether the bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@contextmanager
def lock(path: Path, timeout_s: float) -> Iterator[None]:
    """Hold the vault's writer lock, kept in the file `path`. Not re-entrant; a killed holder frees it.

    Raises VaultBusy after `timeout_s` seconds, StorageFailure.
    """
    guard = FileLock(path)
    with storage_errors("lock", path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            guard.acquire(timeout=timeout_s, poll_interval=LOCK_POLL_S)
        except Timeout as error:
            message = f"Another writer held {path} for {timeout_s:g} s."
            raise VaultBusy(message, "Try again in a moment.", path=str(path)) from error
    try:
        yield
    finally:
        guard.release()


class Vault(NamedTuple):
    """A folder of memories. Hold `lock` around `write` and `remove`: they check first and change after."""

    root: Path
    name: str
    writable: bool
    private: bool = False  #: its files are for their owner alone, not for whoever the system lets in
    shared: Path | None = None  #: the lock of a vault that several projects write

    def read(self, memory_id: str) -> bytes:
        """The bytes of a memory's file, whatever its name; NotFound, InvalidMemoryId, StorageFailure."""
        path = locate(self.root, memory_id)
        with storage_errors("read", path):
            data = _content(path)
        if data is None:
            message = f"No memory {memory_id!r} in the vault {self.name!r}."
            raise NotFound(message, "Search for it, or list the vault.", id=memory_id)
        return data

    def write(self, memory_id: str, content: Redacted, *, expected_hash: str | None) -> str:
        """Write a memory durably and answer the SHA-256 of its bytes.

        `expected_hash` is that of the file to replace, "" for a new memory, None for any. Raises Conflict.
        """
        self._demand_writable()
        memory_id = check_id(memory_id)
        path = locate(self.root, memory_id)
        try:
            data = content.text.encode()
        except UnicodeEncodeError as error:
            message = f"The text has a lone surrogate at character {error.start}."
            raise InvalidRequest(message, "Send text that can be written as UTF-8.", parameter="content") from error
        with storage_errors("write", path):
            before = _content(path)
        self._change(FileChange(path, self.root.resolve(), before, content, memory_id, self.private), expected_hash)
        return content_hash(data)

    def remove(self, memory_id: str, expected_hash: str | None) -> bytes:
        """Remove a memory's file durably, and the folders this empties; answers the removed bytes."""
        self._demand_writable()
        data = self.read(memory_id)
        path = locate(self.root, memory_id)
        self._change(FileChange(path, self.root.resolve(), data, None, memory_id), expected_hash)
        return data

    def _change(self, change: FileChange, expected_hash: str | None) -> None:
        demand_hash(change.name, change.before, expected_hash)
        with atomic_file_changes(self.root, "", [change]):
            pass

    def delete_leftovers(self) -> None:
        """Remove what killed writers left behind, once it is old enough to belong to nobody."""
        for folder, _, names in os.walk(self.root):
            delete_leftovers(Path(folder), names)

    def _demand_writable(self) -> None:
        if not self.writable:
            raise ReadOnly(f"The vault {self.name!r} is read-only.", "Save to a writable vault.", vault=self.name)


def _content(path: Path) -> bytes | None:
    """The bytes of a regular file; None where there is none, or where there can be none."""
    try:
        return path.read_bytes() if path.is_file() else None
    except OSError as error:
        if error.errno in _ABSENT:
            return None
        raise
