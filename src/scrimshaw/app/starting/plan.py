"""Which sources there are to import, and what importing one of them has to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from scrimshaw.app.starting.sessions import import_transcripts
from scrimshaw.engine import Engine
from scrimshaw.engine.starting import memories
from scrimshaw.engine.starting.sources import graph_file, guidance_files, note_folders
from scrimshaw.engine.starting.taken import Taken
from scrimshaw.engine.starting.transcripts import Stored, stored_at, stored_transcripts
from scrimshaw.errors import InvalidRequest, NotFound, UnreadableFile
from scrimshaw.ingest.transcripts import PARSERS

EVERYTHING = "all"
TRANSCRIPTS = "transcripts"
SERENA = "serena"
NOTES = "basic-memory"


class Request(Struct, frozen=True, kw_only=True):
    """What is to be imported: `path` overrides where a source is looked for, `home` is the user's folder."""

    source: str
    home: Path
    path: Path | None = None
    dry_run: bool = False


class Plan(Struct, frozen=True, kw_only=True):
    """The work of an import, done as it is iterated; `total` is how many results are expected at least."""

    total: int
    work: Iterator[Taken]


_Planner = Callable[[Engine, Request], Plan]


def plan(engine: Engine, request: Request) -> Plan:
    """The work for a source, or for a file or folder of Markdown.

    Raises NotFound where there is nothing of the kind, InvalidRequest for a source that cannot be imported.
    """
    planner = _PLANNERS.get(request.source)
    if planner:
        return planner(engine, request)
    if request.source == SERENA:
        raise InvalidRequest(
            "Serena's memories are read where they are, so there is nothing to import.",
            "Run `scrimshaw scan`; they are found by every search.",
            parameter="source",
        )
    return _files(engine, request)


def _everything(engine: Engine, request: Request) -> Plan:
    """Every source that has something; one that cannot be read is left, with the reason."""
    project = engine.settings.project
    plans = [_transcripts(engine, request, client) for client in PARSERS]
    if guidance_files(project):
        plans.append(_instructions(engine, request))
    if graph_file(project):
        plans.append(_graph(engine, request))
    plans += [_notes_in(engine, folder, request) for folder in note_folders(project, request.home)]
    if (project / ".git").exists():
        plans.append(_decisions(engine, request))
    return _together(plans)


def _every_client(engine: Engine, request: Request) -> Plan:
    if request.path is not None:
        raise InvalidRequest(
            "A path needs a client, since each writes its own format.",
            f"Name one of {', '.join(PARSERS)} instead of {TRANSCRIPTS}.",
            parameter="path",
        )
    return _together([_transcripts(engine, request, client) for client in PARSERS])


def _client(engine: Engine, request: Request) -> Plan:
    return _transcripts(engine, request, request.source)


def _transcripts(engine: Engine, request: Request, client: str) -> Plan:
    try:
        found = _stored(engine, request, client)
    except UnreadableFile as error:
        left = Taken(source=client, place=str(request.path or request.home), status="left", reasons=(error.message,))
        return Plan(total=1, work=iter([left]))
    return Plan(total=len(found), work=_listed(found) if request.dry_run else import_transcripts(engine, found))


def _stored(engine: Engine, request: Request, client: str) -> list[Stored]:
    if request.path is None:
        return stored_transcripts(engine.settings.project, request.home, [client])
    return stored_at(client, _existing(request.path))


def _listed(found: Iterable[Stored]) -> Iterator[Taken]:
    return (Taken(source=each.client, place=each.place, status="found") for each in found)


def _notes(engine: Engine, request: Request) -> Plan:
    project, usual = engine.settings.project, request.home / NOTES
    folders = [request.path] if request.path else note_folders(project, request.home) or [usual]
    return _together([_notes_in(engine, _existing(folder), request) for folder in folders])


def _notes_in(engine: Engine, folder: Path, request: Request) -> Plan:
    total = len(list(folder.rglob("*.md")))
    return Plan(total=total, work=memories.import_notes(engine, folder, dry_run=request.dry_run))


def _instructions(engine: Engine, request: Request) -> Plan:
    files = [_existing(request.path)] if request.path else guidance_files(engine.settings.project)
    if not files:
        raise NotFound(f"There is no {', '.join(memories.GUIDANCE)} in this project.", "Name a file.")
    return Plan(total=len(files), work=memories.import_guidance(engine, files, dry_run=request.dry_run))


def _graph(engine: Engine, request: Request) -> Plan:
    file = _existing(request.path) if request.path else graph_file(engine.settings.project)
    if file is None:
        raise NotFound("This project has no file of an MCP memory server.", "Name the file, such as memory.jsonl.")
    return Plan(total=1, work=memories.import_graph(engine, file, dry_run=request.dry_run))


def _decisions(engine: Engine, request: Request) -> Plan:
    return Plan(total=0, work=memories.import_decisions(engine, dry_run=request.dry_run))


def _files(engine: Engine, request: Request) -> Plan:
    place = Path(request.source)
    if not place.exists():
        names = ", ".join(_PLANNERS)
        raise InvalidRequest(
            f"{request.source!r} is no source and no file.", f"Sources are {names}.", parameter="source"
        )
    files = sorted(place.rglob("*.md")) if place.is_dir() else [place]
    return Plan(total=len(files), work=memories.import_files(engine, files, dry_run=request.dry_run))


_PLANNERS: Mapping[str, _Planner] = MappingProxyType(
    {
        EVERYTHING: _everything,
        TRANSCRIPTS: _every_client,
        **dict.fromkeys(PARSERS, _client),
        NOTES: _notes,
        "instructions": _instructions,
        "memory-json": _graph,
        "decisions": _decisions,
    }
)
SOURCES: tuple[str, ...] = tuple(_PLANNERS)


def _together(plans: Iterable[Plan]) -> Plan:
    every = list(plans)
    return Plan(total=sum(each.total for each in every), work=chain.from_iterable(each.work for each in every))


def _existing(path: Path) -> Path:
    if not path.exists():
        raise NotFound(f"There is no {path}.", "Check the path.")
    return path
