"""Exact answers about a memory: pages, counts and exports. Never by search."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from scrimshaw.engine import read
from scrimshaw.engine.core import Engine
from scrimshaw.engine.degradations import INDEX
from scrimshaw.engine.index import count_vectors, list_skipped_files
from scrimshaw.engine.usage import MOST_SESSIONS, measure_usage
from scrimshaw.errors import NotFound, find_nearest
from scrimshaw.ingest.memory_file import decode_text
from scrimshaw.ingest.redact import redact
from scrimshaw.models import EVERY, RECORD, UNFINISHED, Degradation, Filters, Injected, Memory, Skip
from scrimshaw.search.degradation import Degradations, IndexPart
from scrimshaw.storage.durable import storage_errors, write_file
from scrimshaw.storage.paths import locate

_MOST_MEASURED = 300  # sessions, the newest: computing what each used takes some 15 ms


class MemoryPage(Struct, frozen=True, kw_only=True):
    """A page of memories, with the trust of their lineage; `total` counts all that satisfy the filters."""

    memories: tuple[Memory, ...]
    total: int
    offset: int


class Folder(Struct, frozen=True, kw_only=True):
    """The memories directly below one top folder."""

    name: str
    count: int
    updated: str


class Stats(Struct, frozen=True, kw_only=True):
    total: int
    by_tier: Mapping[str, int]
    by_type: Mapping[str, int]
    by_artifact: Mapping[str, int]
    by_source: Mapping[str, int]
    folders: tuple[Folder, ...]
    oldest: str
    newest: str
    skipped: tuple[Skip, ...]  #: by the last scan
    vectors: tuple[int, int]  #: chunks with a vector, and all
    waiting_jobs: int
    job_lag_s: float  #: since the oldest of them was requested
    index_bytes: int  #: on disk
    journal_bytes: int
    degradations: tuple[Degradation, ...] = ()  #: what could not be counted as the index is damaged


class SessionTokens(Struct, frozen=True, kw_only=True):
    """What a session's model was given: texts, their tokens and content, in all and by occasion; and what it used."""

    session: str
    client: str
    started: float
    context_used: float | None  #: the share 0..1 in use, as last reported by the client
    times: int
    tokens: int  #: estimated by hooks from characters, never too few
    hits: int
    occasions: tuple[Injected, ...]
    unasked: int  #: lines and memories given unasked, as far as they are still known
    uses: int  #: how many of these it wrote again or read
    used_tokens: int
    rules: Mapping[str, int]  #: stored items, by extraction rule
    redactions: int  #: how many of these had something removed

    @property
    def unasked_tokens(self) -> int:
        return sum(each.tokens for each in self.occasions if not each.occasion.startswith("memory_"))


def demand_known(engine: Engine, filters: Filters) -> None:
    """Raise NotFound for an unknown source, or a folder while every file is indexed, naming the nearest."""
    sources = {RECORD, *(source.name for source in engine.sources)}
    if filters.source and filters.source not in sources:
        hint = find_nearest(filters.source, sources) or f"There are {', '.join(sorted(sources))}."
        raise NotFound(f"There is no source {filters.source!r}.", hint, parameter="source")
    is_sure = filters.folder and engine.index.count(EVERY)[""] and not engine.degradations.of(INDEX)
    if is_sure and not engine.index.count(Filters(folder=filters.folder, include_deprecated=True))[""]:
        ids = (Path(state.memory_id).parents for state in engine.index.manifest().values() if state.memory_id)
        folders = {folder.as_posix() for parents in ids for folder in parents if folder.name}
        hint = find_nearest(filters.folder, folders) or "`scrimshaw stats --by folder` lists them."
        raise NotFound(f"There is no memory below the folder {filters.folder!r}.", hint, parameter="folder")


def page(engine: Engine, filters: Filters, *, sort: str, limit: int, offset: int) -> MemoryPage:
    """A page of memories in a fixed order."""
    memories = engine.index.select(filters, sort=sort, limit=limit, offset=offset)
    known = read.with_trust(engine, {memory.id: memory for memory in memories})
    return MemoryPage(memories=tuple(known.values()), total=engine.index.count(filters)[""], offset=offset)


def count_memories(engine: Engine, filters: Filters, *, exclude: Sequence[str] = ()) -> Stats:
    """Counts of the memories that satisfy the filters; `exclude` has globs of ids to leave out."""
    every = engine.index.select(filters)
    memories = [memory for memory in every if not any(fnmatchcase(memory.id, glob) for glob in exclude)]
    by_folder = defaultdict[str, list[Memory]](list)
    for memory in memories:
        by_folder[memory.id.partition("/")[0] if "/" in memory.id else ""].append(memory)
    by_name = sorted(by_folder.items())
    folders = (Folder(name=name, count=len(some), updated=max(each.updated for each in some)) for name, some in by_name)
    dates = sorted(memory.updated for memory in memories if memory.updated)
    degradations, skips, vectors = Degradations(), list[Skip](), (0, 0)
    with degradations.tolerate(IndexPart.FILES):
        skips = list_skipped_files(engine)
    with degradations.tolerate(IndexPart.VECTORS):
        vectors = count_vectors(engine)
    fields = {f"by_{name}": Counter(map(attrgetter(name), memories)) for name in ("tier", "type", "artifact", "source")}
    return Stats(
        total=len(memories),
        **{name: {str(key): count for key, count in sorted(counts.items())} for name, counts in fields.items()},
        folders=tuple(folders),
        oldest=dates[0] if dates else "",
        newest=dates[-1] if dates else "",
        skipped=tuple(skips),
        vectors=vectors,
        waiting_jobs=len(jobs := engine.journal.jobs(UNFINISHED)),
        job_lag_s=round(max((engine.clock() - job.created for job in jobs), default=0.0), 3),
        index_bytes=engine.maintenance.size_bytes("index"),
        journal_bytes=engine.maintenance.size_bytes("journal"),
        degradations=degradations.as_tuple(),
    )


def list_tokens(engine: Engine, most: int | None = None) -> list[SessionTokens]:
    """What the model of each session, or of the newest, was given, newest first; without sessions that got nothing."""
    handed = defaultdict[str, list[Injected]](list)
    for row in engine.sessions.injections():
        handed[row.session].append(row)
    found = [session for session in map(engine.sessions.get, handed) if session]
    found.sort(key=lambda session: -session.last_event)
    measured, known = list[SessionTokens](), engine.sessions.latest(limit=MOST_SESSIONS, with_work=True)
    for session in found[:most]:
        rows, is_new = handed[session.id], len(measured) < _MOST_MEASURED
        pieces = measure_usage(engine, session, known) if is_new else ()
        used = [piece.tokens for piece in pieces if piece.use]
        sources = [item.source for item in engine.sessions.items(session.id)]
        same = {name: getattr(session, name) for name in ("client", "started", "context_used")}
        same |= {"unasked": len(pieces), "uses": len(used), "used_tokens": sum(used)}
        same |= {"redactions": sum(each.redaction_applied for each in sources)}
        same |= {"rules": Counter(each.extraction_rule_id for each in sources)}
        sums = {name: sum(map(attrgetter(name), rows)) for name in ("times", "tokens", "hits")}
        measured.append(SessionTokens(session=session.id, **same, **sums, occasions=tuple(rows)))
    return measured


def export_markdown(engine: Engine, folder: Path) -> int:
    """Write each memory to `folder`, redacted again; returns how many. Raises StorageFailure, UnreadableFile."""
    memories = read.list_writable(engine, EVERY)
    for memory in memories:
        file, path = Path(memory.path), locate(folder, memory.id)
        with storage_errors("read", file):
            text = decode_text(file.read_bytes(), memory.path)
        write_file(path, redact(text).text.encode())
    return len(memories)


def export_lines(engine: Engine) -> Iterator[bytes]:
    """Each memory as a line of JSON: the fields of `Memory`, its text as `body`, its relations as `edges`."""
    for memory in read.list_writable(engine, EVERY):
        body = engine.index.bodies([memory.id]).get(memory.id, "")
        edges = [msgspec.to_builtins(edge) | {"resolved": target} for edge, target in engine.index.edges(memory.id)]
        fields: dict[str, Any] = msgspec.to_builtins(memory) | {"body": body, "edges": edges}
        yield msgspec.json.encode(fields) + b"\n"


def export_jsonl(engine: Engine, file: Path) -> int:
    """Write the lines of `export_lines` to a file, replacing it; returns how many. Raises StorageFailure."""
    lines = list(export_lines(engine))
    write_file(file, b"".join(lines))
    return len(lines)
