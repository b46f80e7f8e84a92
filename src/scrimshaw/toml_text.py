"""Reads untrusted files and TOML."""

import errno
import os
import stat
from pathlib import Path
from typing import Any

# Levels of tables and lists; no file of ours needs more than five.
DEEPEST = 50
_FLAGS = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_TOO_DEEP = "it is nested too deeply"


def read_regular_file(path: Path) -> bytes:
    """The bytes of a file; raises OSError, also for a pipe or a device, which might never end."""
    with os.fdopen(os.open(path, _FLAGS), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EISDIR, "It is not a regular file", str(path))
        return file.read()


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a text; raises ValueError if it is not TOML, or nested deeper than DEEPEST levels."""
    import tomllib  # noqa: PLC0415 - costs a hook 2 ms, and most of them read no TOML

    try:
        found = tomllib.loads(text)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    except tomllib.TOMLDecodeError as error:
        before, mark, _ = f"\n{text}".partition("\n<<<<<<< ")
        line = before.count("\n") + 1
        if mark:
            raise ValueError(f"git left both sides of a merge in it, from line {line} on") from error
        raise
    level: list[Any] = [found]
    for _ in range(DEEPEST):
        values = (each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list))
        level = [inner for each in values for inner in each]
    if level:
        raise ValueError(_TOO_DEEP)
    return found
