"""Sameness while others write."""

from __future__ import annotations

import pytest

from scrimshaw.engine import Engine
from scrimshaw.engine.write import NewText, find_similar_memories, save

PARAGRAPH = (
    "We chose apsw over the standard library because the interpreter links an old SQLite whose write-ahead log "
    "can be reset twice and then corrupts the database under two writers. "
)


def test_a_near_duplicate_that_is_deleted_meanwhile_is_not_told(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(engine, NewText(content=PARAGRAPH * 2, id="original"))
    assert [each.id for each in find_similar_memories(engine, PARAGRAPH * 2 + "So be it.")] == ["original"]
    monkeypatch.setattr(type(engine.index), "get", lambda index, ids: {})
    assert find_similar_memories(engine, PARAGRAPH * 2 + "So be it.") == ()
