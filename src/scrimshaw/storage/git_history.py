"""What git remembers of files that are gone or moved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from scrimshaw.errors import StorageFailure
from scrimshaw.models import Degradation
from scrimshaw.storage.git import ask_git

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
    log = ("log", "-z", "-M", "--diff-filter=D", "--name-only", "--relative", f"--format={_MARK}%H %cI")
    try:
        told = ask_git(project, *log, "--", f"*{suffix}")
    except StorageFailure as error:
        return _without(error)
    found: dict[str, Deleted] = {}
    for block in told.split(_MARK)[1:]:
        head, *paths = block.split("\0")
        commit, _, at = head.strip().partition(" ")
        for path in filter(None, (each.strip("\n") for each in paths)):
            found.setdefault(path, Deleted(path=path, commit=commit, at=at))
    return [each for each in found.values() if not (project / each.path).exists()]


def last_text(project: Path, deleted: Deleted) -> str | Degradation:
    """The text of a file before the commit that deleted it."""
    try:
        return ask_git(project, "show", f"{deleted.commit}^:./{deleted.path}")
    except StorageFailure as error:
        return _without(error)


def moved_files(project: Path) -> Iterator[tuple[str, str]]:
    """(old name, new name) of the files that history moved, oldest first; raises StorageFailure where git refuses."""
    log = ("log", "--reverse", "--diff-filter=R", "--find-renames", "--name-status", "--format=", "--relative", "-z")
    fields = iter(ask_git(project, *log).split("\0"))
    for field in fields:  # `R097 NUL old NUL new NUL`
        if field.strip():
            yield next(fields, ""), next(fields, "")


def _without(error: StorageFailure) -> Degradation:
    return Degradation(
        failure_mode=error.message,
        fallback_mode="no deleted decision records were looked for",
        confidence_impact="none on what is in the working tree",
        retry_recommendation="Run it in a git repository with git installed.",
    )
