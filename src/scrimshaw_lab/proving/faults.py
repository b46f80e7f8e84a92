"""Faults inside a writer's process: kill points, failing disks, jumping clocks, a recorded power loss."""

import errno
import io
import os
import shutil
import stat
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from scrimshaw.config import Settings
from scrimshaw.engine import checkpoints, restore
from scrimshaw.engine.core import open_engine
from scrimshaw.storage.place import JOURNAL, find_place
from scrimshaw.storage.sqlite.database import Database, open_file
from scrimshaw_lab.proving.plan import AFTER_COMMIT, AFTER_RENAME, BEFORE_COMMIT, BEFORE_FSYNC, BEFORE_RENAME, Fault

Hook = Callable[..., None]


def stop_at(point: str, passage: int, stop: Callable[[str], None]) -> Hook:
    """A function that counts the passages of every point, and calls `stop` at this passage of the given point."""
    passed = Counter[str]()

    def reach(name: str, *_: object) -> None:
        passed[name] += 1
        if (name, passed[name]) == (point, passage):
            stop(name)

    return reach


def install_points(reach: Hook) -> None:
    """Make this process call `reach` with the name of every point that it passes from now on."""
    for name in ("replace", "rename"):
        wrap(os, name, before=partial(reach, BEFORE_RENAME), after=partial(reach, AFTER_RENAME))
    wrap(os, "fsync", before=partial(reach, BEFORE_FSYNC))
    original = Database.write

    @contextmanager
    def write(self: Database) -> Iterator[Any]:
        with original(self) as connection:
            yield connection
            reach(BEFORE_COMMIT)
        reach(AFTER_COMMIT)

    setattr(Database, "write", write)  # noqa: B010 - mypy takes no assignment to a method


def wrap(place: Any, name: str, *, before: Hook | None = None, after: Hook | None = None) -> None:
    """Make a function of a module call `before` and `after` with its positional arguments."""
    original = getattr(place, name)

    def wrapped(*arguments: Any, **options: Any) -> Any:
        if before:
            before(*arguments)
        result = original(*arguments, **options)
        if after:
            after(*arguments)
        return result

    setattr(place, name, wrapped)


# Called before every operation, as faults come and go.
Weather = Callable[[], None]

_DAY_S = 86_400.0
_JUMPS_S = tuple(days * _DAY_S for days in (-30.0, -1.0, 0.0, 0.0, 1.0, 400.0))
_SHARE = 0.25
_LIMITS = (4_096, 65_536)
_MOST_STEPS = 60  # of one operation; a restore has the most


def install_fault(fault: Fault, chance: Random, vault: Path) -> Weather:
    """Install a fault in this process; returns what to call before every operation."""
    makers: dict[Fault, Callable[[Random, Path], Weather]] = {
        Fault.DISK_FULL: _disk_full,
        Fault.FULL_AT_A_STEP: _full_at_a_step,
        Fault.FILE_LIMIT: _file_limit,
        Fault.READ_ONLY: _read_only,
        Fault.CLOCK_JUMPS: _clock_jumps,
    }
    if sys.platform == "win32" and fault in (Fault.FULL_AT_A_STEP, Fault.FILE_LIMIT):  # files have no limit there
        fault = Fault.DISK_FULL
    return makers[fault](chance, vault) if fault in makers else _fair


def hurt_index(fault: Fault, folder: Path, chance: Random) -> None:
    """Delete, damage or truncate the index of a project that no process has open."""
    database, log = folder / "index.db", folder / "index.db-wal"
    if fault == Fault.INDEX_DELETED:
        for path in [database] if chance.random() < 0.5 else sorted(folder.glob("index.db*")):
            path.unlink(missing_ok=True)
    elif fault == Fault.INDEX_DAMAGED and database.exists():
        data = bytearray(database.read_bytes())
        for _ in range(chance.randint(1, 200)):
            data[chance.randrange(len(data))] ^= chance.randint(1, 255)
        database.write_bytes(data)
    elif fault == Fault.INDEX_LOG_CUT and log.exists():
        os.truncate(log, chance.randrange(log.stat().st_size + 1))


def lose_journal(settings: Settings, name: str, chance: Random) -> None:
    """Truncate or delete a project's journal after a checkpoint, and recover as `scrimshaw restore --newest` does."""
    with open_engine(settings) as engine:
        checkpoints.create(engine, name)
    path = find_place(settings.folder) / JOURNAL
    length = max(0, chance.randint(-path.stat().st_size // 4, path.stat().st_size // 2))
    os.truncate(path, length)
    if not length and chance.random() < 0.5:
        path.unlink()
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    aside = restore.set_aside(settings)
    with open_engine(settings, replace_lost_journal=aside is not None) as engine:
        restore.restore_newest(engine, aside=aside)


def move_ground(folder: Path, chance: Random, _point: str) -> None:
    """Move the journal's folder away, or delete or replace the databases, under the process that has them open."""
    if os.name == "nt":  # an open file cannot be moved there
        return
    way, place, away, copy = chance.randrange(3), find_place(folder), *_places_of_ground(folder)
    if way == 0:
        place.rename(away)
        return
    with closing(open_file(place / JOURNAL)) as journal:
        journal.execute("VACUUM INTO ?", (str(copy),))
    for path in [*place.glob(f"{JOURNAL}*"), *folder.glob("index.db*")]:
        path.unlink()
    if way == 1:
        copy.rename(place / JOURNAL)


def put_ground_back(folder: Path) -> list[Path]:
    """Undo `move_ground` when no process is left; returns the journal's files created in the old place."""
    place, away, copy = find_place(folder), *_places_of_ground(folder)
    found = list(place.glob(f"{JOURNAL}*")) if away.exists() or copy.exists() else []
    if away.exists():
        shutil.rmtree(place, ignore_errors=True)  # left by edits by hand
        away.rename(place)
    if copy.exists():
        copy.replace(place / JOURNAL)
    return found


def _places_of_ground(folder: Path) -> tuple[Path, Path]:
    return folder.with_name("moved"), folder.with_name("journal-copy.db")


def _fair() -> None:
    """Do nothing."""


def _disk_full(chance: Random, vault: Path) -> Weather:
    def refuse(*_: object) -> None:
        if chance.random() < _SHARE / 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    wrap(os, "fsync", before=refuse)
    _wrap_fdopen(chance)
    return _fair


def _wrap_fdopen(chance: Random) -> None:
    """Make files written through a handle sometimes fail after half of the data."""
    original, name = os.fdopen, "fdopen"

    def fdopen(handle: int, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if mode == "wb" and chance.random() < _SHARE:
            return io.BufferedWriter(_FullDisk(handle, mode))
        return original(handle, mode, *arguments, **options)

    setattr(os, name, fdopen)


class _FullDisk(io.FileIO):
    """A file on a disk that becomes full during a write."""

    def write(self, data: Any) -> int:
        whole = bytes(data)
        super().write(whole[: len(whole) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _file_limit(chance: Random, vault: Path) -> Weather:
    """Make the kernel refuse to let files grow, including databases."""
    import resource  # noqa: PLC0415 - only on POSIX

    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def weather() -> None:
        soft = chance.choice(_LIMITS) if chance.random() < _SHARE else hard
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return weather


def _full_at_a_step(chance: Random, vault: Path) -> Weather:
    """Make the kernel refuse to let files grow from some step of every operation to its end."""
    import resource  # noqa: PLC0415 - only on POSIX

    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    left = 0

    def reach(*_: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))

    def weather() -> None:
        nonlocal left
        left = int(_MOST_STEPS ** chance.random())  # most operations have few steps
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))

    install_points(reach)
    return weather


def _read_only(chance: Random, vault: Path) -> Weather:
    """Make the vault's folder read-only; for root, refuse to open files there instead."""
    if sys.platform == "win32" or os.geteuid() == 0:
        return _refuse_opening(chance, vault)

    def weather() -> None:
        vault.chmod(0o555 if chance.random() < _SHARE else 0o755)

    return weather


def _refuse_opening(chance: Random, vault: Path) -> Weather:
    refused = False

    def refuse(path: Any, flags: int, *_: object) -> None:
        if refused and flags & os.O_CREAT and os.fspath(path).startswith(str(vault)):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    def weather() -> None:
        nonlocal refused
        refused = chance.random() < _SHARE

    wrap(os, "open", before=refuse)
    return weather


def _clock_jumps(chance: Random, vault: Path) -> Weather:
    """Make the clock of this process jump forwards and backwards by days."""
    real, shift_s = time.time, 0.0

    def now() -> float:
        return real() + shift_s

    def weather() -> None:
        nonlocal shift_s
        shift_s = chance.choice(_JUMPS_S)

    setattr(time, "time", now)  # noqa: B010 - mypy takes no assignment to a module's function
    return weather


_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Happened(Struct, frozen=True, omit_defaults=True):
    """One step: `written`, `renamed` (to `path`), `removed`, `made` or `emptied` (a folder, now deleted), `forced` (the
    bytes of a file, synced) or `forced_names` (those in a folder). `held` are the bytes at `path` before, None for no
    file; `moved` are the renamed ones.
    """

    what: str
    path: str
    source: str = ""
    held: bytes | None = None
    moved: bytes | None = None


class Recorder:
    """Logs what this process does below `root`, unbuffered, so that the log survives a kill."""

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
        elif event == "os.mkdir" and not os.path.isdir(arguments[0]):  # noqa: PTH112 - it need not be a Path
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
        """The real path of a name below the root; "" for other names and for databases."""
        if not isinstance(name, (str, os.PathLike)) or ".db" in os.fspath(name):
            return ""
        folder, base = os.path.split(os.fspath(name))
        path = os.path.join(os.path.realpath(folder), base)  # noqa: PTH118 - a linked file is not followed
        return path if path.startswith(self._root) else ""

    def _note(self, step: Happened) -> None:
        self._folders.add(os.path.dirname(step.path))  # noqa: PTH120 - names are strings here
        os.write(self._log, msgspec.json.encode(step) + b"\n")


@dataclass
class Unforced:
    """What a power loss would undo: files with unsynced bytes, unsynced names with their former bytes, new folders."""

    files: set[str] = field(default_factory=set)
    names: dict[str, bytes | None] = field(default_factory=dict)
    folders: set[str] = field(default_factory=set)
    emptied: set[str] = field(default_factory=set)

    def follow(self, step: Happened) -> None:
        """Take a step into account."""
        match step.what:
            case "written":
                self.files.add(step.path)
                if step.held is None:
                    self.names.setdefault(step.path, None)
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

    def _rename(self, step: Happened) -> None:
        """Both names have changed, and a power loss may undo both."""
        self.names.setdefault(step.path, step.held)
        self.names.setdefault(step.source, b"" if step.source in self.files else step.moved)
        if step.source in self.files:
            self.files.remove(step.source)
            self.files.add(step.path)
        else:
            self.files.discard(step.path)

    def _force_names(self, folder: str) -> None:
        """If the removal of a folder is synced, so are the names that were in it."""
        gone = {path for path in self.emptied if str(Path(path).parent) == folder}
        self.emptied -= gone
        safe = gone | {folder}
        self.names = {path: held for path, held in self.names.items() if str(Path(path).parent) not in safe}
        self.folders = {path for path in self.folders if str(Path(path).parent) != folder}


def unforced(steps: Iterable[Happened], *, names_are_safe: bool = os.name == "nt") -> Unforced:
    """What is not synced after these steps; on Windows renames are written through."""
    found = Unforced()
    for step in steps:
        found.follow(step)
    if names_are_safe:
        found.names.clear()
        found.folders.clear()
    return found


def lose_power(log: Path) -> int:
    """Undo on disk what a process had not synced; returns how many files and folders that changed."""
    if not log.exists():
        return 0
    decoder = msgspec.json.Decoder(Happened)
    lost = unforced(decoder.decode(line) for line in log.read_bytes().splitlines())
    for path in lost.files - lost.names.keys():
        if Path(path).exists():
            Path(path).write_bytes(b"")
    for path, held in lost.names.items():
        if held is None:
            Path(path).unlink(missing_ok=True)
        else:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(held)
    for path in lost.folders:
        shutil.rmtree(path, ignore_errors=True)
    return len(lost.files | lost.names.keys() | lost.folders)


def _bytes(path: str) -> bytes | None:
    """The bytes of a file; None if there is none, as for a path of ""."""
    try:
        return Path(path).read_bytes()
    except OSError:
        return None


def _is_same(path: str, info: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), info)  # noqa: PTH116 - names are strings here
    except OSError:
        return False
