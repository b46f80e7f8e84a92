"""Processes of one run, told by the name of its folder in their command line."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

GRACE_S = 5.0
"""How long a server may take to end after its client."""
WORKERS, WORKER_GRACE_S = ("make_drafts", "make_vectors"), 60.0
"""What makes memories of sessions that have ended, and vectors: it waits behind all other processes."""
CLIENTS_OWN = ("--cline-hub-daemon",)
"""What a client leaves running of itself, with Scrimshaw or without: ended, and no fault."""


def end_left_behind(folder: Path) -> list[str]:
    """End what still runs with `folder` in its command line; the commands, but for clients' own, that had to be ended.

    The folder's name must be random, so that nothing else can carry it.
    """
    began = time.monotonic()
    while alive := _running(folder):
        only_workers = all(any(work in command for work in WORKERS) for command in alive.values())
        if time.monotonic() - began > (WORKER_GRACE_S if only_workers else GRACE_S):
            break
        time.sleep(0.1)
    for pid in alive:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return [command for command in alive.values() if not any(own in command for own in CLIENTS_OWN)]


def _running(folder: Path) -> dict[int, str]:
    listing = subprocess.run(["ps", "-axww", "-o", "pid=,args="], capture_output=True, text=True, check=True).stdout
    rows = (line.strip().partition(" ") for line in listing.splitlines())
    return {int(pid): command for pid, _, command in rows if str(folder) in command}
