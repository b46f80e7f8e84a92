"""What git remembers of files that moved."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from scrimshaw.engine.moving_paths import folder_rename
from scrimshaw.errors import InvalidRequest
from scrimshaw.ingest.references import Rename

TIMEOUT_S = 30.0
_LOG = ("log", "--reverse", "--diff-filter=R", "--find-renames", "--name-status", "--format=", "--relative", "-z")


def renames(project: Path) -> list[Rename]:
    """The renames of folders and files in the history of a project, oldest first, each once.

    Raises InvalidRequest where git is missing, the project is in no repository, or git takes too long.
    """
    try:
        done = subprocess.run(["git", *_LOG], cwd=project, capture_output=True, timeout=TIMEOUT_S, check=True)
    except (OSError, subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise InvalidRequest(
            f"The history of {project} cannot be read by git: {error}.", "Name the renames: --fix-paths OLD=NEW."
        ) from error
    return list(dict.fromkeys(folder_rename(old, new) for old, new in _pairs(done.stdout.decode(errors="replace"))))


def _pairs(output: str) -> Iterator[Rename]:
    """Old and new name of each entry `R097 NUL old NUL new NUL`."""
    fields = iter(output.split("\0"))
    for field in fields:
        if field.strip():
            yield next(fields, ""), next(fields, "")
