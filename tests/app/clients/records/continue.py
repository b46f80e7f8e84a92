"""Continue; it sends no payloads, so there is only what set-up does."""

from __future__ import annotations

from tests.app.clients.record import Record

_FILES = (".continue/mcpServers/scrimshaw.yaml", ".continue/rules/scrimshaw.md")

RECORD = Record(
    events=[],
    unused=[],
    own_calls=[],
    prompt=({}, ""),
    next_turn={},
    replies={},
    files=([f"h/{file}" for file in _FILES], [f"p/{file}" for file in _FILES]),
)
