"""Parent processes, nearest first, by which a server knows whose session it serves; and starting workers."""

import os
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from scrimshaw.config import Settings
from scrimshaw.errors import VaultBusy
from scrimshaw.models import DRAFTS_LOCK
from scrimshaw.storage.databases import Storage

# With less than the usual priority; Windows takes that from the flags of the start.
_WORKER = "import os; hasattr(os, 'nice') and os.nice(10); from scrimshaw.app.background import {0}; {0}()"
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "fish", "ksh", "busybox"})


@cache
def list_ancestors() -> tuple[int, ...]:
    """Process ids of the ancestors; only the parent on systems without /proc."""
    found: list[int] = []
    process = os.getppid()
    while process > 1:
        found.append(process)
        # The parent is the second field after the name, which may contain anything.
        process = int((_read_proc(process, "stat").rpartition(")")[2].split() or ["", "0"])[1])
    return tuple(found)


def find_client_process() -> int:
    """The process that started this one, not counting shells in between; 0 if unknown."""
    return next((each for each in list_ancestors() if _read_proc(each, "comm").strip() not in _SHELLS), 0)


def start_drafting(storage: Storage, settings: Settings) -> None:
    """Start the process that makes memories of finished sessions, unless none is pending or one runs already."""
    from scrimshaw.storage.transaction import lock  # noqa: PLC0415 - only the last hook of a session needs it

    silent_since = time.time() - settings.drafts.idle_minutes * 60.0
    if not any(each.waits_for_draft(silent_since) for each in storage.sessions.records()):
        return
    with suppress(VaultBusy):
        with lock(settings.folder / DRAFTS_LOCK, 0.0):
            pass
        start_worker("make_drafts", settings.project)


def start_worker(work: str, project: Path) -> None:
    """Run a function of `background` for a project in a silent process of lowest priority that outlives this one."""
    import subprocess  # noqa: PLC0415 - few hooks need it

    flags = ("DETACHED_PROCESS", "CREATE_NEW_PROCESS_GROUP", "IDLE_PRIORITY_CLASS")  # only on Windows
    process = subprocess.Popen(  # -P: modules come from the installation, never from the working folder
        [sys.executable, "-P", "-c", _WORKER.format(work), str(project)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        creationflags=sum(getattr(subprocess, flag, 0) for flag in flags),
    )
    process.returncode = 0  # otherwise Python warns that nobody waited for it


def _read_proc(process: int, name: str) -> str:
    try:
        return Path(f"/proc/{process}/{name}").read_bytes().decode(errors="replace")  # twice as fast as reading text
    except OSError:
        return ""
