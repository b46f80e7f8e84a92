"""The hook's log: one line for what went wrong or was taken out, never its content."""

from __future__ import annotations

import time
from pathlib import Path

from scrimshaw.config import PROJECT_FOLDER, find_project
from scrimshaw.storage.private import make_private


def log(line: str) -> None:
    """Add a line; a log that cannot be written is no reason to fail."""
    try:
        folder = find_project(Path.cwd()) / PROJECT_FOLDER
        if folder.is_dir():
            make_private(folder / "hook.log")
            with (folder / "hook.log").open("a", encoding="utf-8") as log:
                log.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {line}\n")
    except OSError:
        return


def place(error: BaseException) -> str:
    """Where an error was raised; its text may hold what it was given, so it is not told."""
    frame = error.__traceback__
    while frame and frame.tb_next:
        frame = frame.tb_next
    return f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}" if frame else "an unknown place"
