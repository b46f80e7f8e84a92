"""Files for their owner alone: what sessions said and what is made from it. Imports next to nothing: hooks use it."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700


def make_private(path: Path) -> None:
    """Create an empty file that only its owner may read; one that is there, or cannot be made, is left to the caller.

    Windows knows no such modes: there a file has the rights of its folder.
    """
    with suppress(OSError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))
