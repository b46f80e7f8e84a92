"""Which sources a project can start from, and what importing one of them has to do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.app.clients import all_clients
from scrimshaw.app.clients.client import Client
from scrimshaw.app.rules import usable_rules
from scrimshaw.engine import Engine, importers
from scrimshaw.engine.importers import DECISIONS, GRAPH, GUIDANCE, NOTES, ImportResult
from scrimshaw.errors import InvalidRequest, NotFound, UnreadableFile
from scrimshaw.ingest.transcripts import StoredSession
from scrimshaw.models import Degradation
from scrimshaw.storage.scan import SERENA_MEMORIES

EVERYTHING, TRANSCRIPTS, SERENA = "all", "transcripts", "serena"
GRAPH_FILES = ("memory.jsonl", "memory.json")
_HEAD_BYTES = 64 * 1024


class ImportRequest(Struct, frozen=True, kw_only=True):
    """What is to be imported."""

    source: str
    #: The user's folder.
    home: Path
    #: Overrides where a source is looked for.
    path: Path | None = None
    dry_run: bool = False


class ImportPlan(Struct, frozen=True, kw_only=True):
    """The work of an import, done as it is iterated; `total` is how many results are expected at least."""

    total: int
    work: Iterator[ImportResult]


class FoundSource(Struct, frozen=True, kw_only=True):
    """Something to start from: `count` sessions, notes, files or records in `place`, `size` bytes together."""

    kind: str
    place: str
    count: int
    size: int
    #: Whether every scan reads it in place, so that nothing has to be imported.
    live: bool = False


def find_sources(project: Path, home: Path) -> list[FoundSource]:
    """All there is about this project, in the project and in the user's `home`; what cannot be read is left out."""
    found: list[FoundSource] = []
    for client in _transcript_clients():
        try:
            sessions = _oldest_first(client.find_sessions(project, home))
        except UnreadableFile:
            continue
        if sessions:
            size = sum(stored.size for stored in sessions)
            found.append(FoundSource(kind=client.name, place=sessions[0].folder, count=len(sessions), size=size))
    serena = project / SERENA_MEMORIES
    found += [replace(_count_files(SERENA, serena), live=True)] if serena.is_dir() else []
    for name in (NOTES, GUIDANCE, GRAPH):
        found += (_count_files(name, place) for place in _FINDERS[name](project, home))
    deleted = importers.find_deleted_decisions(project)
    if deleted and not isinstance(deleted, Degradation):
        found.append(FoundSource(kind=DECISIONS, place=str(project), count=len(deleted), size=0))
    return found


def source_names() -> tuple[str, ...]:
    """What can be imported by name."""
    return (EVERYTHING, TRANSCRIPTS, *(client.name for client in _transcript_clients()), *_FINDERS)


def plan_import(engine: Engine, request: ImportRequest) -> ImportPlan:
    """The work for a source, or for a file or folder of Markdown.

    Raises NotFound where there is nothing of the kind, InvalidRequest for a source that cannot be imported.
    """
    clients = {client.name: client for client in _transcript_clients()}
    if request.source == EVERYTHING:
        project = engine.settings.project
        others = [name for name, find in _FINDERS.items() if find(project, request.home)]
        return _join_plans(plan_import(engine, replace(request, source=name)) for name in (*clients, *others))
    if request.source == TRANSCRIPTS and request.path is None:
        return _join_plans(_plan_sessions(engine, request, client) for client in clients.values())
    if request.source == TRANSCRIPTS:
        raise InvalidRequest(
            "A path needs a client, since each writes its own format.",
            f"Name one of {', '.join(clients)} instead of {TRANSCRIPTS}.",
            parameter="path",
        )
    if request.source in clients:
        return _plan_sessions(engine, request, clients[request.source])
    return _plan_places(engine, request) if request.source in _FINDERS else _plan_files(engine, request)


def _plan_sessions(engine: Engine, request: ImportRequest, client: Client) -> ImportPlan:
    try:
        if request.path:
            found = _oldest_first(client.sessions_at(_demand_existing(request.path)))
        else:
            found = _oldest_first(client.find_sessions(engine.settings.project, request.home))
    except UnreadableFile as error:
        place = str(request.path or request.home)
        left = ImportResult(source=client.name, place=place, status="left", reasons=(error.message,))
        return ImportPlan(total=1, work=iter([left]))
    if request.dry_run:
        listed = (ImportResult(source=client.name, place=stored.place, status="found") for stored in found)
        return ImportPlan(total=len(found), work=listed)
    rules = usable_rules(engine.settings)
    work = (importers.import_session(engine, stored, rules) for stored in found)
    return ImportPlan(total=len(found), work=work)


def _plan_places(engine: Engine, request: ImportRequest) -> ImportPlan:
    name, project = request.source, engine.settings.project
    if name == DECISIONS:
        return ImportPlan(total=0, work=importers.import_memories(engine, name, project, dry_run=request.dry_run))
    places = [request.path] if request.path else _FINDERS[name](project, request.home)
    if not places and name == NOTES:
        places = [request.home / NOTES]
    elif not places and name == GUIDANCE:
        raise NotFound(f"There is no {', '.join(_guidance_names())} in this project.", "Name a file.")
    elif not places:
        raise NotFound("This project has no file of an MCP memory server.", "Name the file, such as memory.jsonl.")
    total = sum(_count_files(name, _demand_existing(place)).count for place in places)
    works = (importers.import_memories(engine, name, each, dry_run=request.dry_run) for each in places)
    return ImportPlan(total=total, work=chain.from_iterable(works))


def _plan_files(engine: Engine, request: ImportRequest) -> ImportPlan:
    place = Path(request.source)
    if request.source == SERENA:
        raise InvalidRequest(
            "Serena's memories are read where they are, so there is nothing to import.",
            "Run `scrimshaw scan`; they are found by every search.",
            parameter="source",
        )
    if not place.exists():
        message = f"{request.source!r} is no source and no file."
        raise InvalidRequest(message, f"Sources are {', '.join(source_names())}.", parameter="source")
    files = sorted(place.rglob("*.md")) if place.is_dir() else [place]
    return ImportPlan(total=len(files), work=importers.import_files(engine, files, dry_run=request.dry_run))


def _transcript_clients() -> list[Client]:
    return [client for client in all_clients().values() if client.keeps_transcripts]


def _guidance_names() -> list[str]:
    return [client.guidance_file for client in all_clients().values() if client.guidance_file]


def _join_plans(plans: Iterable[ImportPlan]) -> ImportPlan:
    every = list(plans)
    return ImportPlan(total=sum(plan.total for plan in every), work=chain.from_iterable(plan.work for plan in every))


def _oldest_first(found: Sequence[StoredSession]) -> list[StoredSession]:
    return sorted(found, key=lambda stored: (stored.began, stored.place))


def _demand_existing(path: Path) -> Path:
    if not path.exists():
        raise NotFound(f"There is no {path}.", "Check the path.")
    return path


def _count_files(kind: str, place: Path) -> FoundSource:
    files = list(place.rglob("*.md")) if place.is_dir() else [place]
    size = sum(file.stat().st_size for file in files if file.is_file())
    return FoundSource(kind=kind, place=str(place), count=len(files), size=size)


def _find_guidance(project: Path, home: Path) -> list[Path]:
    """The files in which a project guides agents; of names for one file only the first."""
    found = {os.path.realpath(project / name): project / name for name in reversed(_guidance_names())}
    return sorted(path for path in found.values() if path.is_file())


def _find_graph(project: Path, home: Path) -> list[Path]:
    """Where the project's memory server keeps its graph: as `MEMORY_FILE_PATH` says, or by its usual name."""
    servers = _object(_read_object(project / ".mcp.json").get("mcpServers")).values()
    configured = (_object(_object(server).get("env")).get("MEMORY_FILE_PATH") for server in servers)
    usual = (project / name for name in GRAPH_FILES if _is_graph(project / name))
    files = chain((project / path for path in configured if isinstance(path, str)), usual)
    return [file for file in files if file.is_file()][:1]


def _find_notes(project: Path, home: Path) -> list[Path]:
    """The folders of basic-memory that lie in the project."""
    entries = _object(_read_object(home / ".basic-memory" / "config.json").get("projects")).values()
    paths = (entry.get("path") if isinstance(entry, dict) else entry for entry in entries)
    folders = [Path(path).expanduser() for path in paths if isinstance(path, str)]
    return [folder for folder in folders if folder.is_relative_to(project) and folder.is_dir()]


def _find_history(project: Path, home: Path) -> list[Path]:
    return [project] if (project / ".git").exists() else []


def _is_graph(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            return b'"entityType"' in stream.read(_HEAD_BYTES)
    except OSError:
        return False


def _read_object(file: Path) -> dict[str, Any]:
    try:
        return _object(msgspec.json.decode(file.read_bytes()))
    except (OSError, msgspec.DecodeError, UnicodeError, RecursionError):
        return {}


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


# In the order in which they are imported.
_FINDERS: dict[str, Callable[[Path, Path], list[Path]]] = {
    GUIDANCE: _find_guidance,
    GRAPH: _find_graph,
    NOTES: _find_notes,
    DECISIONS: _find_history,
}
