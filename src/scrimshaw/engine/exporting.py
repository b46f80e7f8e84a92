"""Taking memories out: as plain Markdown files, or as JSON lines with every field."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from scrimshaw.engine.core import Engine
from scrimshaw.errors import UnreadableFile, describe_os_error
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Filters, Memory
from scrimshaw.storage.durable import replace_file, storage_errors
from scrimshaw.storage.paths import locate

_PAGE = 200


class Exported(Struct, frozen=True, kw_only=True):
    """What was written: how many memories, and to which folder or file."""

    memories: int
    format: str
    place: str


def export_markdown(engine: Engine, folder: Path, filters: Filters | None = None) -> Exported:
    """Write each memory to `folder` as it stands in its file, redacted once more, its id as its path.

    A name that no new memory may have is kept too: it stands in a file here. What stands there is replaced; raises
    StorageFailure, UnreadableFile.
    """
    count = 0
    for memory in _memories(engine, filters):
        path = locate(folder, memory.id)
        with storage_errors("write", path):
            replace_file(path, redact(_text(memory)).text.encode())
        count += 1
    return Exported(memories=count, format="markdown", place=str(folder))


def export_lines(engine: Engine, filters: Filters | None = None) -> Iterator[bytes]:
    """Each memory as a line of JSON: the fields of `Memory`, its text as `body`, its relations as `edges`."""
    for memory in _memories(engine, filters):
        body = engine.index.bodies([memory.id]).get(memory.id, "")
        edges = [msgspec.to_builtins(edge) | {"resolved": target} for edge, target in engine.index.edges(memory.id)]
        fields: dict[str, Any] = msgspec.to_builtins(memory) | {"body": body, "edges": edges}
        yield msgspec.json.encode(fields) + b"\n"


def export_jsonl(engine: Engine, file: Path, filters: Filters | None = None) -> Exported:
    """Write the lines of `export_lines` to a file; what stands there is replaced. Raises StorageFailure."""
    lines = list(export_lines(engine, filters))
    with storage_errors("write", file):
        replace_file(file, b"".join(lines))
    return Exported(memories=len(lines), format="jsonl", place=str(file))


def _memories(engine: Engine, filters: Filters | None) -> Iterator[Memory]:
    """The memories of the vaults in the order of their ids, deprecated ones as well; documents stay where they are."""
    wanted = filters or Filters(include_deprecated=True)
    offset = 0
    while page := engine.index.select(wanted, sort="id", limit=_PAGE, offset=offset):
        yield from (memory for memory in page if memory.writable)
        offset += len(page)


def _text(memory: Memory) -> str:
    try:
        return Path(memory.path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableFile(
            f"{memory.path} cannot be read: {describe_os_error(error)}.", "Run `scrimshaw scan`, then try again."
        ) from error
