"""What git remembers of files that are gone; git runs as a process of its own, and may be missing."""

from __future__ import annotations

import subprocess
from pathlib import Path

from msgspec import Struct

from scrimshaw.models import Degradation

TIMEOUT_S = 20.0
_MARK = "\x01"


class Deleted(Struct, frozen=True, kw_only=True):
    """A file that a commit deleted; `at` is the ISO time of the commit."""

    path: str
    commit: str
    at: str


def deleted_files(project: Path, suffix: str) -> list[Deleted] | Degradation:
    """The files with this suffix that history deleted and the working tree has not got back, newest deletion first.

    A renamed file is not deleted. Where there is no git or no repository, a Degradation says so.
    """
    log = ("log", "-z", "-M", "--diff-filter=D", "--name-only", f"--format={_MARK}%H %cI", "--", f"*{suffix}")
    told = _git(project, *log)
    if isinstance(told, Degradation):
        return told
    found: dict[str, Deleted] = {}
    for block in told.split(_MARK)[1:]:
        head, *paths = block.split("\0")
        commit, _, at = head.strip().partition(" ")
        for path in filter(None, (each.strip("\n") for each in paths)):
            found.setdefault(path, Deleted(path=path, commit=commit, at=at))
    return [each for each in found.values() if not (project / each.path).exists()]


def last_text(project: Path, deleted: Deleted) -> str | Degradation:
    """The text of a file before the commit that deleted it."""
    return _git(project, "show", f"{deleted.commit}^:./{deleted.path}")


def _git(project: Path, *arguments: str) -> str | Degradation:
    command = ["git", "-c", "core.quotePath=false", *arguments]
    try:
        done = subprocess.run(command, cwd=project, capture_output=True, timeout=TIMEOUT_S, check=True)
    except subprocess.CalledProcessError as error:
        return _without(error.stderr.decode(errors="replace").strip().partition("\n")[0])
    except (OSError, subprocess.TimeoutExpired) as error:
        return _without(str(error))
    return done.stdout.decode(errors="replace")


def _without(why: str) -> Degradation:
    return Degradation(
        failure_mode=f"git could not be asked: {why}.",
        fallback_mode="no deleted decision records were looked for",
        confidence_impact="none on what is in the working tree",
        retry_recommendation="Run it in a git repository with git installed.",
    )
