"""Asks git, which runs as a process of its own, and may be missing."""

from __future__ import annotations

import subprocess
from collections.abc import Collection
from pathlib import Path

from scrimshaw.errors import StorageFailure, said

TIMEOUT_S = 30.0
# A question that reads no history: nothing that waits for an answer may hang on it.
PRESENT_S = 10.0


def ask_git(folder: Path, *arguments: str, answers: Collection[int] = (0,), patience_s: float | None = None) -> str:
    """What git prints in a folder; exit codes among `answers` are answers too.

    Raises StorageFailure where git is missing, refuses (no repository, no such commit) or takes longer than TIMEOUT_S
    or that many seconds.
    """
    command = ["git", "-c", "core.quotePath=false", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=patience_s or TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise _refused(f"it timed out after {error.timeout:g} s") from error
    except OSError as error:
        raise _refused(said(error)) from error
    if done.returncode not in answers:
        raise _refused(done.stderr.decode(errors="replace").strip().partition("\n")[0])
    return done.stdout.decode(errors="replace")


def work_tree(project: Path) -> str:
    """The top of the git work tree that holds the project, empty where none does; raises StorageFailure without git."""
    return ask_git(project, "rev-parse", "--show-toplevel", answers=(0, 128), patience_s=PRESENT_S).strip()


def _refused(why: str) -> StorageFailure:
    return StorageFailure(f"git could not be asked: {why}.", "Install git, or put it on the PATH.")
