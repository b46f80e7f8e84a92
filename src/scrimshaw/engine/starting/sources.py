"""What there is to start from: every place that holds something about this project, with a count."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from scrimshaw.engine.starting.memories import GUIDANCE, deleted_decisions
from scrimshaw.engine.starting.transcripts import stored_transcripts
from scrimshaw.errors import UnreadableFile
from scrimshaw.ingest.transcripts import PARSERS
from scrimshaw.models import Degradation
from scrimshaw.storage.discover import SERENA_MEMORIES

GRAPH_FILES = ("memory.jsonl", "memory.json")
_HEAD_BYTES = 64 * 1024
_MCP_CONFIG = ".mcp.json"


class Found(Struct, frozen=True, kw_only=True):
    """Something to start from: `count` sessions, notes, files or records in `place`, `size` bytes together.

    A source that is `live` is read in place by every scan, so that nothing has to be imported.
    """

    kind: str
    place: str
    count: int
    size: int
    live: bool = False


def find_sources(project: Path, home: Path) -> list[Found]:
    """All there is about this project, in the project and in the user's `home`; what cannot be read is left out."""
    return [*_transcripts(project, home), *_folders(project, home), *_files(project), *_history(project)]


def guidance_files(project: Path) -> list[Path]:
    """The guidance files of a project; of names for one file only the first."""
    found = {os.path.realpath(project / name): project / name for name in reversed(GUIDANCE)}
    return sorted(path for path in found.values() if path.is_file())


def graph_file(project: Path) -> Path | None:
    """Where the project's memory server keeps its graph: as its configuration says, or by its usual name."""
    told = (project / name for name in _configured(project))
    usual = (project / name for name in GRAPH_FILES if _is_graph(project / name))
    return next((path for path in (*told, *usual) if path.is_file()), None)


def note_folders(project: Path, home: Path) -> list[Path]:
    """The folders of basic-memory that lie in the project."""
    named = _object(home / ".basic-memory" / "config.json").get("projects")
    entries = named.values() if isinstance(named, dict) else ()
    paths = (entry.get("path") if isinstance(entry, dict) else entry for entry in entries)
    folders = [Path(path).expanduser() for path in paths if isinstance(path, str)]
    return [folder for folder in folders if folder.is_relative_to(project) and folder.is_dir()]


def _transcripts(project: Path, home: Path) -> Iterator[Found]:
    for client in PARSERS:
        try:
            found = stored_transcripts(project, home, [client])
        except UnreadableFile:
            continue
        if found:
            size = sum(stored.size for stored in found)
            yield Found(kind=client, place=str(found[0].files[0].parent), count=len(found), size=size)


def _folders(project: Path, home: Path) -> Iterator[Found]:
    serena = project / SERENA_MEMORIES
    if serena.is_dir():
        yield _counted("serena", serena, list(serena.rglob("*.md")), live=True)
    for folder in note_folders(project, home):
        yield _counted("basic-memory", folder, list(folder.rglob("*.md")))


def _files(project: Path) -> Iterator[Found]:
    for file in guidance_files(project):
        yield _counted("instructions", file, [file])
    graph = graph_file(project)
    if graph:
        yield _counted("memory-json", graph, [graph])


def _history(project: Path) -> Iterator[Found]:
    deleted = deleted_decisions(project)
    if not isinstance(deleted, Degradation) and deleted:
        yield Found(kind="decisions", place=str(project), count=len(deleted), size=0)


def _counted(kind: str, place: Path, files: list[Path], *, live: bool = False) -> Found:
    size = sum(file.stat().st_size for file in files if file.is_file())
    return Found(kind=kind, place=str(place), count=len(files), size=size, live=live)


def _configured(project: Path) -> Iterator[str]:
    """The paths that servers in the project's MCP configuration are given as `MEMORY_FILE_PATH`."""
    servers = _object(project / _MCP_CONFIG).get("mcpServers")
    for server in servers.values() if isinstance(servers, dict) else ():
        given = server.get("env") if isinstance(server, dict) else None
        path = given.get("MEMORY_FILE_PATH") if isinstance(given, dict) else None
        if isinstance(path, str):
            yield path


def _is_graph(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            return b'"entityType"' in stream.read(_HEAD_BYTES)
    except OSError:
        return False


def _object(file: Path) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(file.read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
