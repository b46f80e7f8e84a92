"""Finds the sources that a project can import, and plans an import of each."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from operator import attrgetter
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from scrimshaw.app.clients import all_clients
from scrimshaw.app.clients.client import Client, is_within
from scrimshaw.config import find_project
from scrimshaw.engine import Engine, importers
from scrimshaw.engine.spec_kit import import_workspace
from scrimshaw.errors import InvalidRequest, NotFound, StorageFailure, UnreadableFile
from scrimshaw.ingest.events import redact_id
from scrimshaw.ingest.payload import Json, read_object, section, sections
from scrimshaw.ingest.rule_checks import usable_rules
from scrimshaw.ingest.tables import load_table
from scrimshaw.models import Traces
from scrimshaw.storage.place import name_project
from scrimshaw.storage.scan import SERENA_MEMORIES
from scrimshaw.toml_text import read_regular_file

EVERYTHING, TRANSCRIPTS, SERENA = "all", "transcripts", "serena"
GRAPH_FILES = ("memory.jsonl", "memory.json")
_SHARED_DATABASES = load_table(__file__, "importing", dict[str, tuple[str, ...]])
_HEAD_BYTES = 64 * 1024
_AGE = attrgetter("began", "place")  # sorts sessions, oldest first
# The least number of results, and the work of an import, done while it is iterated.
ImportPlan = tuple[int, Iterator[importers.ImportResult]]


class FoundSource(Struct, frozen=True, kw_only=True):
    """Something to import: `count` sessions, notes, files or records in `place`, `size` bytes together."""

    kind: str
    place: str
    count: int
    size: int
    live: bool = False  #: whether every scan reads it in place, so that no import is needed


def find_sources(engine: Engine, home: Path) -> list[FoundSource]:
    """All sources for this project, in the project and in the user's `home`; unreadable ones are left out."""
    project, found = engine.settings.project, list[FoundSource]()
    for name, client in _transcript_clients().items():
        with suppress(UnreadableFile):
            if sessions := sorted(client.find_sessions(project, home), key=_AGE):
                size = sum(stored.size for stored in sessions)
                found.append(FoundSource(kind=name, place=sessions[0].folder, count=len(sessions), size=size))
    serena = project / SERENA_MEMORIES
    found += [replace(_count_files(SERENA, serena), live=True)] if serena.is_dir() else []
    for name in (importers.NOTES, importers.GUIDANCE, importers.GRAPH):
        for place in _FINDERS[name](project, home):
            is_live = name == importers.GUIDANCE and bool(importers.find_document(engine, place))
            found.append(replace(_count_files(name, place), live=is_live))
    with suppress(StorageFailure):
        if deleted := importers.find_deleted_decisions(project):
            found.append(FoundSource(kind=importers.DECISIONS, place=str(project), count=len(deleted), size=0))
    return found


def search_transcripts(project: Path, home: Path, traces: Traces) -> Iterator[tuple[Path, int, str]]:
    """(the place of a client's session of this project, how often it contains a text, why it cannot be searched)."""
    for client in _transcript_clients().values():
        try:
            for stored in client.find_sessions(project, home):
                if count := sum(traces.count(text.encode(errors="replace")) for text in stored.read_texts()):
                    yield Path(stored.place), count, ""
        except UnreadableFile as error:
            yield home, 0, error.message


def name_sources() -> tuple[str, ...]:
    """What can be imported by name."""
    return (EVERYTHING, TRANSCRIPTS, *_transcript_clients(), *_FINDERS, *_SHARED_DATABASES, importers.SPEC_KIT)


def plan_import(
    engine: Engine,
    source: str,
    home: Path,
    path: Path | None = None,
    *,
    dry_run: bool = False,
    all_projects: bool = False,
) -> ImportPlan:
    """The plan for a source, at `path` or in its usual place, or for Markdown; raises NotFound, InvalidRequest."""
    clients, source = _transcript_clients(), importers.GRAPH if source in GRAPH_FILES else source
    if source in clients:
        return _plan_sessions(engine, clients[source], home, path, dry_run, all_projects)
    if source == importers.SPEC_KIT:
        return 0, import_workspace(engine, _demand_existing(path or engine.settings.project), dry_run=dry_run)
    if source in _SHARED_DATABASES:
        return 0, _import_database(engine, source, home, path, dry_run, all_projects)
    if source in _FINDERS:
        return _plan_places(engine, source, home, path, dry_run)
    if source not in (EVERYTHING, TRANSCRIPTS):
        return _plan_files(engine, source, dry_run)
    parts = [*clients]
    if source == EVERYTHING:
        parts += (name for name, find in _FINDERS.items() if find(engine.settings.project, home))
    elif path:
        message = "A path needs a client, since each writes its own format."
        raise InvalidRequest(message, f"Name one of {', '.join(clients)} instead of {TRANSCRIPTS}.", parameter="path")
    plans = [plan_import(engine, name, home, path, dry_run=dry_run) for name in parts]
    return sum(total for total, _ in plans), chain.from_iterable(work for _, work in plans)


def _import_database(
    engine: Engine, source: str, home: Path, path: Path | None, dry_run: bool, all_projects: bool
) -> Iterator[importers.ImportResult]:
    places = [place for each in _SHARED_DATABASES[source] if (place := home / each).is_file()]
    if not (path or places):
        raise NotFound(f"{source} was not found in its usual place.", "Name its file.", parameter="path")
    place = _demand_existing(path or places[0])
    return importers.import_memories(engine, source, place, dry_run=dry_run, all_projects=all_projects)


def _plan_sessions(
    engine: Engine, client: Client, home: Path, path: Path | None, dry_run: bool, all_projects: bool
) -> ImportPlan:
    project = engine.settings.project
    try:
        stored = client.sessions_at(_demand_existing(path)) if path else client.find_sessions(project, home)
        found = sorted((replace(each, session=redact_id(each.session)) for each in stored), key=_AGE)
    except UnreadableFile as error:
        return 1, iter([importers.leave_out(client.name, str(path or home), error)])
    is_mixed = path and path.is_dir() and not all_projects  # a client's usual folder has those of all projects
    ours = [each for each in found if not is_mixed or is_of_repository(each.cwd, project)]
    reason = f"sessions of other projects (--all-projects takes them too): {len(found) - len(ours)}"
    left = [importers.leave_out(client.name, str(path), reason)] if ours != found else []
    rules = usable_rules(engine.settings.rules)
    return len(ours), chain(left, (importers.import_session(engine, each, rules, dry_run=dry_run) for each in ours))


def is_of_repository(cwd: str, project: Path) -> bool:
    """Whether a session in this folder, empty if unknown, is one of the project, also in another work tree of it."""
    if not cwd or is_within(cwd, project):
        return True
    folder = Path(cwd)
    with suppress(OSError, ValueError):  # an impossible name
        return folder.is_absolute() and name_project(find_project(folder)) == name_project(project)
    return False


def _plan_places(engine: Engine, name: str, home: Path, path: Path | None, dry_run: bool) -> ImportPlan:
    project = engine.settings.project
    if name == importers.DECISIONS:
        return 0, importers.import_memories(engine, name, project, dry_run=dry_run)
    places = [path] if path else _FINDERS[name](project, home)
    if not places and name == importers.GUIDANCE:
        raise NotFound(f"There is no {', '.join(name_guidance())} in this project.", "Name a file.")
    if not places and name == importers.GRAPH:
        raise NotFound("This project has no file of an MCP memory server.", "Name the file, such as memory.jsonl.")
    places = [_demand_existing(place) for place in places or [home / importers.NOTES]]
    work = chain.from_iterable(importers.import_memories(engine, name, each, dry_run=dry_run) for each in places)
    return sum(_count_files(name, place).count for place in places), work


def _plan_files(engine: Engine, source: str, dry_run: bool) -> ImportPlan:
    if source == SERENA:
        message = "Serena's memories are read where they are, so there is nothing to import."
        raise InvalidRequest(message, "Run `scrimshaw scan`; they are found by every search.", parameter="source")
    if not (place := Path(source).absolute()).exists():
        message = f"{source!r} is neither a source nor a file."
        raise InvalidRequest(message, f"Sources are {', '.join(name_sources())}.", parameter="source")
    files = importers.list_markdown_files(place)
    return len(files), importers.import_files(engine, files, dry_run=dry_run)


def _transcript_clients() -> dict[str, Client]:
    return {name: client for name, client in all_clients().items() if client.keeps_transcripts}


def name_guidance() -> list[str]:
    """The guidance files of clients in a project."""
    return [client.guidance_file for client in all_clients().values() if client.guidance_file]


def _demand_existing(path: Path) -> Path:
    if not path.exists():
        raise NotFound(f"There is no {path}.", "Check the path.")
    return path


def _count_files(kind: str, place: Path) -> FoundSource:
    files = importers.list_markdown_files(place)
    size = sum(file.stat().st_size for file in files if file.is_file())
    return FoundSource(kind=kind, place=str(place), count=len(files), size=size)


def _find_guidance(project: Path, home: Path) -> list[Path]:
    """The files in which a project guides agents; of names for one file only the first."""
    found = {os.path.realpath(project / name): project / name for name in reversed(name_guidance())}
    return sorted(path for path in found.values() if path.is_file())


def _find_graph(project: Path, home: Path) -> list[Path]:
    """The graph file of the project's memory server: from `MEMORY_FILE_PATH`, or by its usual name."""
    servers = sections([*_read_section(project / ".mcp.json", "mcpServers").values()])
    named = [section(server, "env").get("MEMORY_FILE_PATH") for server in servers]
    files = [project / path for path in named if isinstance(path, str)]
    for file in (project / name for name in GRAPH_FILES):
        with suppress(OSError), file.open("rb") as stream:
            files += [file] if b'"entityType"' in stream.read(_HEAD_BYTES) else []
    return [file for file in files if file.is_file()][:1]


def _find_notes(project: Path, home: Path) -> list[Path]:
    """The folders of basic-memory in the project."""
    entries = _read_section(home / ".basic-memory" / "config.json", "projects").values()
    paths = (entry.get("path") if isinstance(entry, dict) else entry for entry in entries)
    folders = [Path(path).expanduser() for path in paths if isinstance(path, str)]
    return [folder for folder in folders if folder.is_relative_to(project) and folder.is_dir()]


def _read_section(file: Path, name: str) -> Json:
    """An object in the top-level object of a JSON file; empty if there is none."""
    with suppress(OSError):
        return section(read_object(read_regular_file(file).decode(errors="replace")), name)
    return {}


_FINDERS: dict[str, Callable[[Path, Path], list[Path]]] = {  # in the order of import
    importers.GUIDANCE: _find_guidance,
    importers.GRAPH: _find_graph,
    importers.NOTES: _find_notes,
    importers.DECISIONS: lambda project, home: [project] if (project / ".git").exists() else [],
}
