"""What hinders a writer from inside its process, and what is done to databases while nobody has them open."""

from __future__ import annotations

import errno
import io
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from scrimshaw.config import Settings
from scrimshaw.engine import checkpoints, restore, write
from scrimshaw.engine.core import open_engine
from scrimshaw_lab.proving.points import wrap
from scrimshaw_lab.proving.protocol import Fault

# Called before every operation: the fault comes and goes.
Weather = Callable[[], None]

_DAY_S = 86_400.0
_JUMPS_S = tuple(days * _DAY_S for days in (-30.0, -1.0, 0.0, 0.0, 1.0, 400.0))
_SHARE = 0.25
_LIMITS = (4_096, 65_536)


def install(fault: Fault, chance: Random, vault: Path) -> Weather:
    """Hinder this process."""
    makers: dict[Fault, Callable[[Random, Path], Weather]] = {
        Fault.DISK_FULL: _disk_full,
        Fault.FILE_LIMIT: _file_limit,
        Fault.READ_ONLY: _read_only,
        Fault.CLOCK_JUMPS: _clock_jumps,
    }
    return makers[fault](chance, vault) if fault in makers else _fair


def make_writable(vault: Path) -> None:
    """Undo what a killed process with a read-only folder left."""
    vault.chmod(0o755)


def hurt_index(fault: Fault, folder: Path, chance: Random) -> None:
    """Delete, damage or cut the index of a project that nobody has open."""
    database, log = folder / "index.db", folder / "index.db-wal"
    if fault == Fault.INDEX_DELETED:
        for path in [database] if chance.random() < 0.5 else sorted(folder.glob("index.db*")):
            path.unlink(missing_ok=True)
    elif fault == Fault.INDEX_DAMAGED and database.exists():
        _flip(database, chance)
    elif fault == Fault.INDEX_LOG_CUT and log.exists():
        os.truncate(log, chance.randrange(log.stat().st_size + 1))


def lose_journal(settings: Settings, name: str, chance: Random) -> None:
    """Cut off or take a project's journal after a checkpoint; bring it back as `scrimshaw restore --newest` does."""
    with open_engine(settings) as engine:
        checkpoints.create(engine, name)
    path = settings.folder / "journal.db"
    _cut(path, chance)
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    aside = restore.set_aside(settings)
    with open_engine(settings, anew=aside is not None) as engine:
        restore.restore_newest(engine, aside=aside)


def _cut(path: Path, chance: Random) -> None:
    """Leave less than half of it, nothing of it, or no file."""
    length = max(0, chance.randint(-path.stat().st_size // 4, path.stat().st_size // 2))
    os.truncate(path, length)
    if not length and chance.random() < 0.5:
        path.unlink()


def _flip(path: Path, chance: Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, 200)):
        data[chance.randrange(len(data))] ^= chance.randint(1, 255)
    path.write_bytes(data)


def _fair() -> None:
    """Nothing happens."""


def _disk_full(chance: Random, vault: Path) -> Weather:
    def refuse(*_: object) -> None:
        if chance.random() < _SHARE / 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    wrap(os, "fsync", before=refuse)
    _wrap_fdopen(chance)
    return _fair


def _wrap_fdopen(chance: Random) -> None:
    """Files written through a handle may take only half of what they are given."""
    original, name = os.fdopen, "fdopen"

    def fdopen(handle: int, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        if mode == "wb" and chance.random() < _SHARE:
            return io.BufferedWriter(_FullDisk(handle, mode))
        return original(handle, mode, *arguments, **options)

    setattr(os, name, fdopen)


class _FullDisk(io.FileIO):
    """A file on a disk that fills up while it is written."""

    def write(self, data: Any) -> int:
        whole = bytes(data)
        super().write(whole[: len(whole) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _file_limit(chance: Random, vault: Path) -> Weather:
    """The kernel itself refuses to let files grow, databases too; nothing of the kind exists on Windows."""
    if sys.platform == "win32":
        return _disk_full(chance, vault)
    import resource  # noqa: PLC0415 - only on POSIX

    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    def weather() -> None:
        soft = chance.choice(_LIMITS) if chance.random() < _SHARE else hard
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return weather


def _read_only(chance: Random, vault: Path) -> Weather:
    """The vault's folder takes no new file; who may write anywhere is refused by hand."""
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
    """The clock of this process goes forwards and backwards by days."""
    real, shift_s = time.time, 0.0

    def now() -> float:
        return real() + shift_s

    def stamp() -> str:
        return datetime.fromtimestamp(now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def weather() -> None:
        nonlocal shift_s
        shift_s = chance.choice(_JUMPS_S)

    for place, name, clock in ((time, "time", now), (write, "now", stamp)):
        setattr(place, name, clock)
    return weather
