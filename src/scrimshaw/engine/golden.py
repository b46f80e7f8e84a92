"""The project's golden queries: reading them and adding one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scrimshaw.engine.core import Engine
from scrimshaw.errors import AlreadyExists
from scrimshaw.ingest.redact import redact_edit
from scrimshaw.storage.golden import GOLDEN_FILE, Golden, golden_text, read_golden, with_query, write_golden


def golden_path(engine: Engine) -> Path:
    """The file of the project's golden queries."""
    return engine.settings.folder / GOLDEN_FILE


def golden_queries(engine: Engine) -> tuple[Golden, ...]:
    """The project's golden queries; raises UnreadableFile naming what is wrong with the file."""
    return read_golden(golden_path(engine))


def add_golden(engine: Engine, text: str, expect: Sequence[str], within: int) -> Golden:
    """Add a query at the end of the file.

    Raises NotFound for an id that is no memory, InvalidRequest for a text that cannot be searched, AlreadyExists for
    a query that is there, UnreadableFile, VaultBusy, StorageFailure.
    """
    golden = Golden(engine.searcher.validate(text), tuple(dict.fromkeys(expect)), within)
    for memory_id in golden.expect:
        engine.memory(memory_id)
    path = golden_path(engine)
    with engine.exclusive():
        if any(known.text == golden.text for known in read_golden(path)):
            raise AlreadyExists(f"{path} asks {golden.text!r} already.", "Change it there.", path=str(path))
        before = golden_text(path)
        return write_golden(path, redact_edit(before, with_query(before, golden)))[-1]
