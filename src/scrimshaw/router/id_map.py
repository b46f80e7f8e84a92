"""The id map, from memories to their copies at a peer: a file in the user's Scrimshaw folder, a line per change.

It has names and hashes, no text. A line is synced to disk right after the peer's answer; a copy that a
killed process did not note is found by its name in the peer's list.
"""

import os
import threading
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from scrimshaw.storage.durable import PRIVATE_FILE, read_if_there, replace_file, storage_errors


class CopyRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A copy as last sent: its id at the peer, and hashes of everything sent and of the text alone."""

    peer_id: str
    digest: str = ""  #: empty if the copy was found at the peer, and only its text compared
    text_hash: str


class _Line(Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str = ""
    copy: CopyRecord | None = None  #: None for a copy that is gone
    is_open: bool | None = None  #: whether changes are under way; with it a line has no name


class IdMap:
    """The copies at one peer by the names of their memories. Its methods may be called from any thread.

    `is_open` means that changes were begun and not completed, so the peer may have copies not noted here.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.copies, self.is_open = path, dict[str, CopyRecord](), True
        self._guard = threading.Lock()
        with storage_errors("read", path):
            lines = (read_if_there(path) or b"").splitlines()
        for raw in lines:
            try:
                line = msgspec.json.decode(raw, type=_Line)
            except msgspec.DecodeError:  # the torn last line of a killed process
                self.is_open = True
            else:
                self._apply(line)

    def begin(self, copies: Mapping[str, CopyRecord]) -> None:
        """Note that changes begin, and what the peer has at that time."""
        self.copies = dict(copies)
        lines = [_Line(name=name, copy=copy) for name, copy in self.copies.items()]
        data = b"".join(msgspec.json.encode(line) + b"\n" for line in [*lines, _Line(is_open=True)])
        with storage_errors("write", self.path):
            replace_file(self.path, data, private=True)
        self.is_open = True

    def end(self) -> None:
        """Note that all changes were made."""
        self._append(_Line(is_open=False))

    def put(self, name: str, copy: CopyRecord | None) -> None:
        """Note a copy that the peer has acknowledged, or that one is gone."""
        self._append(_Line(name=name, copy=copy))

    def _append(self, line: _Line) -> None:
        with self._guard, storage_errors("write", self.path):
            with os.fdopen(os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, PRIVATE_FILE), "ab", 0) as file:
                file.write(msgspec.json.encode(line) + b"\n")
                os.fsync(file.fileno())
            self._apply(line)

    def _apply(self, line: _Line) -> None:
        if line.is_open is not None:
            self.is_open = line.is_open
        elif line.copy:
            self.copies[line.name] = line.copy
        else:
            self.copies.pop(line.name, None)
