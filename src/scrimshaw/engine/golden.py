"""The project's golden queries: reading them and adding one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scrimshaw.engine.core import Engine
from scrimshaw.errors import AlreadyExists
from scrimshaw.ingest.redact import redact_edit
from scrimshaw.storage.golden import GOLDEN_FILE, Golden, GoldenFile, golden_text, read_golden, with_query, write_golden


def golden_path(engine: Engine) -> Path:
    """The file of the project's golden queries."""
    return engine.settings.folder / GOLDEN_FILE


def golden_file(engine: Engine) -> GoldenFile:
    """The project's golden queries, and what is wrong with those that cannot be asked; raises UnreadableFile."""
    return read_golden(golden_path(engine), engine.searcher.validate)


def add_golden(engine: Engine, text: str, expect: Sequence[str], within: int) -> Golden:
    """Add a query at the end of the file.

    Raises NotFound for an id that is no memory, InvalidRequest for a text that cannot be searched, AlreadyExists for
    a query that is there, UnreadableFile, VaultBusy, StorageFailure.
    """
    golden = Golden(engine.searcher.validate(text), tuple(dict.fromkeys(expect)), within)
    for memory_id in golden.expect:
        engine.memory(memory_id)
    path = golden_path(engine)
    with engine.write_lock():
        if any(known.text == golden.text for known in golden_file(engine).queries):
            raise AlreadyExists(f"{path} asks {golden.text!r} already.", "Change it there.", path=str(path))
        before = golden_text(path)
        after = redact_edit(before, with_query(before, golden))
        return write_golden(path, after, engine.searcher.validate).queries[-1]
