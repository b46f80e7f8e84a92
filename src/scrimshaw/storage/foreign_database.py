"""Databases of other programs: read, never written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw

from scrimshaw.errors import UnreadableFile

_BUSY_MS = 3000


def read_foreign_rows(path: Path, sql: str, *arguments: str, hint: str) -> list[tuple[Any, ...]]:
    """The rows of a query on another program's SQLite database; raises UnreadableFile with `hint`."""
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(_BUSY_MS)
            return connection.execute(sql, arguments).fetchall()
        finally:
            connection.close()
    except apsw.Error as error:
        raise UnreadableFile(f"{path} cannot be read: {error}.", hint) from error
