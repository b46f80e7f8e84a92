"""What a process wrote that the disk need not have yet: recorded as it happens, undone as a power loss would.

A file's bytes are safe once the file was forced to disk, a name once its folder was. Databases write past Python and
are not seen here; their settings are looked at instead.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from scrimshaw_lab.proving.points import wrap

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


_DATABASE = ".db"


class Happened(Struct, frozen=True, omit_defaults=True):
    """One step: `written`, `renamed` (to `path`), `removed`, `made` or `emptied` (a folder, now gone), `forced` (bytes
    of a file) or `forced_names` (those in a folder). `held` are the bytes at `path` before, None for no file, `moved`
    those renamed.
    """

    what: str
    path: str
    source: str = ""
    held: bytes | None = None
    moved: bytes | None = None


class Recorder:
    """Writes what this process does below `root` to a log, unbuffered: a kill leaves it whole."""

    def __init__(self, root: Path, log: Path) -> None:
        self._root = os.path.join(os.path.realpath(root), "")  # noqa: PTH118 - a prefix of names, with its separator
        self._log = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._files: set[str] = set()
        self._folders: set[str] = set()
        self._before: tuple[bytes | None, bytes | None] = (None, None)

    def install(self) -> None:
        """Record from now on, for as long as this process lives."""
        wrap(os, "replace", before=self._saves, after=self._renamed)
        wrap(os, "rename", before=self._saves, after=self._renamed)
        wrap(os, "fsync", after=self._forced)
        sys.addaudithook(self._heard)

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES:
            self._touch("written", arguments[0])
        elif event == "os.remove":
            self._touch("removed", arguments[0])
        elif event == "os.mkdir":
            self._touch("made", arguments[0])
        elif event == "os.rmdir" and (path := self._inside(arguments[0])):
            self._note(Happened("emptied", path))

    def _touch(self, what: str, name: object) -> None:
        path = self._inside(name)
        if path:
            self._note(Happened(what, path, held=_bytes(path)))
            self._files.add(path)

    def _saves(self, source: object, target: object) -> None:
        held, moved = self._inside(target), self._inside(source)
        self._before = _bytes(held), _bytes(moved)

    def _renamed(self, source: object, target: object) -> None:
        path, old = self._inside(target), self._inside(source)
        if path:
            held, moved = self._before
            self._note(Happened("renamed", path, source=old, held=held, moved=moved))
            self._files.add(path)

    def _forced(self, handle: int) -> None:
        info = os.fstat(handle)
        is_folder = stat.S_ISDIR(info.st_mode)
        for path in list(self._folders if is_folder else self._files):
            if _is_same(path, info):
                self._note(Happened("forced_names" if is_folder else "forced", path))

    def _inside(self, name: object) -> str:
        """The real path of a name below the root, "" for any other and for databases."""
        if not isinstance(name, (str, os.PathLike)) or _DATABASE in os.fspath(name):
            return ""
        folder, base = os.path.split(os.fspath(name))
        path = os.path.join(os.path.realpath(folder), base)  # noqa: PTH118 - a linked file is not followed
        return path if path.startswith(self._root) else ""

    def _note(self, step: Happened) -> None:
        self._folders.add(os.path.dirname(step.path))  # noqa: PTH120 - names are strings here
        os.write(self._log, msgspec.json.encode(step) + b"\n")


@dataclass
class Unforced:
    """What a power loss would take: files whose bytes are not safe, names not safe with what they held, new folders."""

    files: set[str] = field(default_factory=set)
    names: dict[str, bytes | None] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    emptied: set[str] = field(default_factory=set)

    def follow(self, step: Happened) -> None:
        """Take a step into account."""
        match step.what:
            case "written":
                self._write(step)
            case "made":
                self.folders.add(step.path)
            case "emptied":
                self.emptied.add(step.path)
            case "removed":
                self.names.setdefault(step.path, step.held)
                self.files.discard(step.path)
            case "renamed":
                self._rename(step)
            case "forced":
                self.files.discard(step.path)
            case _:
                self._force_names(step.path)

    def _write(self, step: Happened) -> None:
        self.files.add(step.path)
        if step.held is None:
            self.names.setdefault(step.path, None)

    def _rename(self, step: Happened) -> None:
        """Neither name is as it was: a power loss may take back both."""
        self.names.setdefault(step.path, step.held)
        self.names.setdefault(step.source, b"" if step.source in self.files else step.moved)
        if step.source in self.files:
            self.files.remove(step.source)
            self.files.add(step.path)
        else:
            self.files.discard(step.path)

    def _force_names(self, folder: str) -> None:
        """A folder whose removal is safe takes the names that were in it along."""
        gone = {path for path in self.emptied if str(Path(path).parent) == folder}
        self.emptied -= gone
        safe = gone | {folder}
        self.names = {path: held for path, held in self.names.items() if str(Path(path).parent) not in safe}
        self.folders = {path for path in self.folders if str(Path(path).parent) != folder}


def unforced(steps: Iterable[Happened], *, names_are_safe: bool = os.name == "nt") -> Unforced:
    """What is not safe after these steps; on Windows a rename is written through."""
    found = Unforced()
    for step in steps:
        found.follow(step)
    if names_are_safe:
        found.names.clear()
        found.folders.clear()
    return found


def lose_power(log: Path) -> int:
    """Undo on the disk what a process had not forced there; how many files and folders that changed."""
    if not log.exists():
        return 0
    decoder = msgspec.json.Decoder(Happened)
    lost = unforced(decoder.decode(line) for line in log.read_bytes().splitlines())
    for path in lost.files - lost.names.keys():
        if Path(path).exists():
            Path(path).write_bytes(b"")
    for path, held in lost.names.items():
        _put_back(Path(path), held)
    for path in lost.folders:
        shutil.rmtree(path, ignore_errors=True)
    return len(lost.files | lost.names.keys() | lost.folders)


def _put_back(path: Path, held: bytes | None) -> None:
    if held is None:
        path.unlink(missing_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(held)


def _bytes(path: str) -> bytes | None:
    """The bytes of a file; None where there is none, as for a path of ""."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return None


def _is_same(path: str, info: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), info)  # noqa: PTH116 - names are strings here
    except OSError:
        return False
