"""Ways to switch off a part of a real memory, for the tests that look at what then still works."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

_HOLD_LOCK = "from filelock import FileLock; lock = FileLock({path!r}); lock.acquire()"
_HOLD_DATABASE = "import apsw; base = apsw.Connection({path!r}); base.execute({sql!r}).fetchall()"


def tamper(database: Path, sql: str) -> None:
    """Change a database with its own tools, behind our back."""
    connection = apsw.Connection(str(database))
    try:
        connection.execute(sql)
    finally:
        connection.close()


@contextmanager
def locked_by_another(path: Path) -> Iterator[None]:
    """A process of its own holds the file lock."""
    with _held(_HOLD_LOCK.format(path=str(path))):
        yield


@contextmanager
def written_by_another(database: Path) -> Iterator[None]:
    """A process of its own is in the midst of a write to the database."""
    with _held(_HOLD_DATABASE.format(path=str(database), sql="BEGIN IMMEDIATE")):
        yield


@contextmanager
def owned_by_another(database: Path) -> Iterator[None]:
    """A process of its own lets nobody else read the database."""
    sql = "PRAGMA journal_mode = delete; BEGIN EXCLUSIVE"
    with _held(_HOLD_DATABASE.format(path=str(database), sql=sql)):
        yield


@contextmanager
def _held(code: str) -> Iterator[None]:
    script = f"{code}\nprint('held', flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "held\n"
        try:
            yield
        finally:
            holder.stdin.write("\n")
            holder.stdin.close()
            holder.wait(60)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[bool]:
    """A file system of its own, so many bytes large, over a folder; False where this user may not mount one."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=True)


def make_read_only(folder: Path) -> None:
    """Let nobody write to a small disk any more."""
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], capture_output=True, check=True)
