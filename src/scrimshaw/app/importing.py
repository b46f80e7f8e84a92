"""Which sources a project can start from, and what importing one of them has to do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from scrimshaw.app.clients import all_clients
from scrimshaw.app.clients.client import Client
from scrimshaw.app.rules import usable_rules
from scrimshaw.engine import Engine, importers
from scrimshaw.engine.importers import ImportResult
from scrimshaw.errors import InvalidRequest, NotFound, UnreadableFile
from scrimshaw.ingest.transcripts import StoredSession
from scrimshaw.models import Degradation
from scrimshaw.storage.scan import SERENA_MEMORIES

EVERYTHING, TRANSCRIPTS, SERENA = "all", "transcripts", "serena"
GRAPH_FILES = ("memory.jsonl", "memory.json")
_HEAD_BYTES = 64 * 1024
_MCP_CONFIG = ".mcp.json"


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


class Importer:
    """A source by name: what there is of it, and what importing it does."""

    name: str
    #: What to say where there is nothing of it.
    missing = ("There is nothing to import.", "Name a file.")

    def find_places(self, project: Path, home: Path) -> list[Path]:
        """Where it is looked for when no path is given."""
        raise NotImplementedError

    def find(self, project: Path, home: Path) -> Iterator[FoundSource]:
        """What there is of it, for people."""
        return (_count_files(self.name, place, [place]) for place in self.find_places(project, home))

    def plan(self, engine: Engine, request: ImportRequest) -> ImportPlan:
        """The work for a request; raises NotFound where there is nothing of it."""
        project = engine.settings.project
        places = [request.path] if request.path else self.find_places(project, request.home)
        if not places:
            raise NotFound(*self.missing)
        for place in places:
            if not place.exists():
                raise NotFound(f"There is no {place}.", "Check the path.")
        return self.plan_places(engine, places, request.dry_run)

    def plan_places(self, engine: Engine, places: list[Path], dry_run: bool) -> ImportPlan:
        """The work for places that exist."""
        raise NotImplementedError


class SessionImporter(Importer):
    """The transcripts of a client."""

    def __init__(self, client: Client) -> None:
        self.name = client.name
        self.client = client

    def find(self, project: Path, home: Path) -> Iterator[FoundSource]:
        try:
            found = _oldest_first(self.client.find_sessions(project, home))
        except UnreadableFile:
            return
        if found:
            size = sum(stored.size for stored in found)
            yield FoundSource(kind=self.name, place=found[0].folder, count=len(found), size=size)

    def plan(self, engine: Engine, request: ImportRequest) -> ImportPlan:
        if request.path is not None and not request.path.exists():
            raise NotFound(f"There is no {request.path}.", "Check the path.")
        try:
            if request.path is None:
                found = _oldest_first(self.client.find_sessions(engine.settings.project, request.home))
            else:
                found = _oldest_first(self.client.sessions_at(request.path))
        except UnreadableFile as error:
            place = str(request.path or request.home)
            result = ImportResult(source=self.name, place=place, status="left", reasons=(error.message,))
            return ImportPlan(total=1, work=iter([result]))
        if request.dry_run:
            listed = (ImportResult(source=self.name, place=stored.place, status="found") for stored in found)
            return ImportPlan(total=len(found), work=listed)
        rules = usable_rules(engine.settings)
        return ImportPlan(total=len(found), work=importers.import_sessions(engine, found, rules))


class GuidanceImporter(Importer):
    """The files in which a project guides agents."""

    name = "instructions"

    def find_places(self, project: Path, home: Path) -> list[Path]:
        """Of names for one file only the first."""
        names = reversed(_guidance_names())
        found = {os.path.realpath(project / name): project / name for name in names}
        return sorted(path for path in found.values() if path.is_file())

    def plan(self, engine: Engine, request: ImportRequest) -> ImportPlan:
        self.missing = (f"There is no {', '.join(_guidance_names())} in this project.", "Name a file.")
        return super().plan(engine, request)

    def plan_places(self, engine: Engine, places: list[Path], dry_run: bool) -> ImportPlan:
        return ImportPlan(total=len(places), work=importers.import_guidance(engine, places, dry_run=dry_run))


class GraphImporter(Importer):
    """The graph of the project's MCP memory server."""

    name = "memory-json"
    missing = ("This project has no file of an MCP memory server.", "Name the file, such as memory.jsonl.")

    def find_places(self, project: Path, home: Path) -> list[Path]:
        """As the server's configuration says, or by its usual name."""
        servers = _read_object(project / _MCP_CONFIG).get("mcpServers")
        configured = (_memory_path(server) for server in (servers.values() if isinstance(servers, dict) else ()))
        usual = (project / name for name in GRAPH_FILES if _is_graph(project / name))
        files = chain((project / path for path in configured if path), usual)
        return [file for file in files if file.is_file()][:1]

    def plan_places(self, engine: Engine, places: list[Path], dry_run: bool) -> ImportPlan:
        return ImportPlan(total=1, work=importers.import_graph(engine, places[0], dry_run=dry_run))


class NotesImporter(Importer):
    """The folders of basic-memory."""

    name = "basic-memory"

    def find_places(self, project: Path, home: Path) -> list[Path]:
        """Those that lie in the project."""
        named = _read_object(home / ".basic-memory" / "config.json").get("projects")
        entries = named.values() if isinstance(named, dict) else ()
        paths = (entry.get("path") if isinstance(entry, dict) else entry for entry in entries)
        folders = [Path(path).expanduser() for path in paths if isinstance(path, str)]
        return [folder for folder in folders if folder.is_relative_to(project) and folder.is_dir()]

    def find(self, project: Path, home: Path) -> Iterator[FoundSource]:
        folders = self.find_places(project, home)
        return (_count_files(self.name, folder, list(folder.rglob("*.md"))) for folder in folders)

    def plan(self, engine: Engine, request: ImportRequest) -> ImportPlan:
        project, home = engine.settings.project, request.home
        is_elsewhere = request.path is None and not self.find_places(project, home)
        usual = msgspec.structs.replace(request, path=home / self.name)
        return super().plan(engine, usual if is_elsewhere else request)

    def plan_places(self, engine: Engine, places: list[Path], dry_run: bool) -> ImportPlan:
        total = sum(len(list(folder.rglob("*.md"))) for folder in places)
        work = (importers.import_notes(engine, folder, dry_run=dry_run) for folder in places)
        return ImportPlan(total=total, work=chain.from_iterable(work))


class DecisionImporter(Importer):
    """The decision records that the project deleted."""

    name = "decisions"

    def find_places(self, project: Path, home: Path) -> list[Path]:
        return [project] if (project / ".git").exists() else []

    def find(self, project: Path, home: Path) -> Iterator[FoundSource]:
        deleted = importers.deleted_decisions(project)
        if not isinstance(deleted, Degradation) and deleted:
            yield FoundSource(kind=self.name, place=str(project), count=len(deleted), size=0)

    def plan(self, engine: Engine, request: ImportRequest) -> ImportPlan:
        return ImportPlan(total=0, work=importers.import_decisions(engine, dry_run=request.dry_run))


_OTHERS = (GuidanceImporter(), GraphImporter(), NotesImporter(), DecisionImporter())


def find_sources(project: Path, home: Path) -> list[FoundSource]:
    """All there is about this project, in the project and in the user's `home`; what cannot be read is left out."""
    guidance, graph, notes, decisions = (partial(importer.find, project, home) for importer in _OTHERS)
    sessions = (importer.find(project, home) for importer in _session_importers())
    serena = project / SERENA_MEMORIES
    live = [_count_files(SERENA, serena, list(serena.rglob("*.md")), live=True)] if serena.is_dir() else []
    return [*chain.from_iterable(sessions), *live, *notes(), *guidance(), *graph(), *decisions()]


def source_names() -> tuple[str, ...]:
    """What can be imported by name."""
    return (EVERYTHING, TRANSCRIPTS, *(importer.name for importer in (*_session_importers(), *_OTHERS)))


def plan_import(engine: Engine, request: ImportRequest) -> ImportPlan:
    """The work for a source, or for a file or folder of Markdown.

    Raises NotFound where there is nothing of the kind, InvalidRequest for a source that cannot be imported.
    """
    sessions = _session_importers()
    if request.source == EVERYTHING:
        project, home = engine.settings.project, request.home
        others = [importer for importer in _OTHERS if importer.find_places(project, home)]
        return _join_plans([importer.plan(engine, request) for importer in (*sessions, *others)])
    if request.source == TRANSCRIPTS:
        if request.path is not None:
            names = ", ".join(importer.name for importer in sessions)
            raise InvalidRequest(
                "A path needs a client, since each writes its own format.",
                f"Name one of {names} instead of {TRANSCRIPTS}.",
                parameter="path",
            )
        return _join_plans([importer.plan(engine, request) for importer in sessions])
    for importer in (*sessions, *_OTHERS):
        if importer.name == request.source:
            return importer.plan(engine, request)
    return _plan_files(engine, request)


def _plan_files(engine: Engine, request: ImportRequest) -> ImportPlan:
    if request.source == SERENA:
        raise InvalidRequest(
            "Serena's memories are read where they are, so there is nothing to import.",
            "Run `scrimshaw scan`; they are found by every search.",
            parameter="source",
        )
    place = Path(request.source)
    if not place.exists():
        message = f"{request.source!r} is no source and no file."
        raise InvalidRequest(message, f"Sources are {', '.join(source_names())}.", parameter="source")
    files = sorted(place.rglob("*.md")) if place.is_dir() else [place]
    return ImportPlan(total=len(files), work=importers.import_files(engine, files, dry_run=request.dry_run))


def _session_importers() -> list[SessionImporter]:
    return [SessionImporter(client) for client in all_clients().values() if client.keeps_transcripts]


def _guidance_names() -> list[str]:
    return [client.guidance_file for client in all_clients().values() if client.guidance_file]


def _join_plans(plans: list[ImportPlan]) -> ImportPlan:
    work = chain.from_iterable(plan.work for plan in plans)
    return ImportPlan(total=sum(plan.total for plan in plans), work=work)


def _oldest_first(found: list[StoredSession]) -> list[StoredSession]:
    return sorted(found, key=lambda stored: (stored.began, stored.place))


def _count_files(kind: str, place: Path, files: list[Path], *, live: bool = False) -> FoundSource:
    size = sum(file.stat().st_size for file in files if file.is_file())
    return FoundSource(kind=kind, place=str(place), count=len(files), size=size, live=live)


def _memory_path(server: object) -> str:
    """The path that a server in the project's MCP configuration is given as `MEMORY_FILE_PATH`."""
    environment = server.get("env") if isinstance(server, dict) else None
    path = environment.get("MEMORY_FILE_PATH") if isinstance(environment, dict) else None
    return path if isinstance(path, str) else ""


def _is_graph(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            return b'"entityType"' in stream.read(_HEAD_BYTES)
    except OSError:
        return False


def _read_object(file: Path) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(file.read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
