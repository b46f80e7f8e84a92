"""Whether git answers here; it runs as a process of its own, and may be missing."""

from __future__ import annotations

import subprocess
from pathlib import Path

from scrimshaw.errors import StorageFailure

PATIENCE_S = 10.0


def work_tree(project: Path) -> str:
    """The top of the git work tree that holds the project, empty where none does; raises StorageFailure without git."""
    command = ["git", "-C", str(project), "rev-parse", "--show-toplevel"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StorageFailure(f"git could not be asked: {error}.", "Install git, or put it on the PATH.") from error
    return done.stdout.decode(errors="replace").strip()
