"""Queueing a job inside a transaction of someone else: a ledger entry and its jobs, an event and its draft."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import apsw
import msgspec


def enqueue(
    write: apsw.Connection, kind: str, key: str, *, now: float, payload: Mapping[str, Any] | None = None, total: int = 0
) -> int:
    """Add a job and return its id; while one of the same kind and key waits, that one's id."""
    waiting = write.execute("SELECT id FROM jobs WHERE kind = ? AND key = ? AND state = 'queued'", (kind, key)).get
    if waiting is not None:
        return int(waiting)
    write.execute(
        "INSERT INTO jobs (kind, key, payload, state, total, due, created) VALUES (?,?,?,'queued',?,?,?)",
        (kind, key, msgspec.json.encode(payload or {}).decode(), total, now, now),
    )
    return int(write.last_insert_rowid())
