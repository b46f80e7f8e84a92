"""Bringing files in: one at a time, or many as a durable job."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from scrimshaw.engine.core import Engine
from scrimshaw.engine.index import KeepGoing, scan
from scrimshaw.engine.trust import notice
from scrimshaw.engine.write import NewText, Saved, save
from scrimshaw.errors import InvalidRequest, NotFound, ScrimshawError, UnreadableFile
from scrimshaw.ingest.redact import redact
from scrimshaw.models import EdgeKind, Job, Relation, SourceFile, Trust
from scrimshaw.search.lineage import lowest_trust
from scrimshaw.storage.durable import storage_errors

INGEST = "ingest"
MOST_PATHS = 50
SUFFIXES = (".md", ".markdown")
_KEPT_LINES = 50


def save_file(engine: Engine, path: Path, *, force: bool = False, dry_run: bool = False, session: str = "") -> Saved:
    """Index a file of a source, or save a copy of any other Markdown file as a memory, in a session.

    Raises NotFound for a missing file, InvalidRequest for one that is not Markdown, UnreadableFile for one that cannot
    be a memory, and what `save` raises.
    """
    path = _existing(engine, path)
    if any(path.is_relative_to(source.root.resolve()) for source in engine.sources):
        scan(engine)
    return _indexed(engine, path) or _save_copy(engine, path, session, force=force, dry_run=dry_run)


def start_ingest(engine: Engine, paths: Sequence[str]) -> int:
    """Queue the import of files and folders; the id of the job, or of the one that waits for the same paths already.

    Raises InvalidRequest for none, too many or empty paths, and for one with a secret in it: the queue is written down.
    """
    if not 1 <= len(paths) <= MOST_PATHS:
        raise InvalidRequest(f"An import takes 1 to {MOST_PATHS} paths.", "Name fewer, or a folder.", parameter="paths")
    if not all(path.strip() for path in paths):
        raise InvalidRequest("A path is empty.", "Name a file or a folder; `.` is the project.", parameter="paths")
    if any(redact(path).spans for path in paths):
        raise InvalidRequest("A path holds a secret.", "Rename it, or name its folder.", parameter="paths")
    key = hashlib.sha256("\0".join(sorted(paths)).encode()).hexdigest()[:16]
    return engine.journal.enqueue(INGEST, key, {"paths": list(paths)}, total=len(paths))


def ingest_status(engine: Engine, job_id: int) -> Job:
    """An import job; raises NotFound."""
    job = engine.journal.job(job_id)
    if job is None or job.kind != INGEST:
        raise NotFound(f"There is no import {job_id}.", "Start one with memory_ingest_start.")
    return job


def run_ingest_job(engine: Engine, job: Job, keep_going: KeepGoing) -> str:
    """The work of an import job: every file is tried; returns what became of those that are no new memory, by line.

    A job that is run again goes on where it was; files that a crash left uncounted are met as duplicates.
    """
    files = [file for path in job.payload["paths"] for file in _markdown(engine.settings.project / str(path))]
    start = job.done if job.total == len(files) else 0
    scan(engine)
    counts, lines = Counter[str](), list[str]()
    for number, file in enumerate(files[start:], start=start + 1):
        status, trouble = _tried(engine, file)
        counts[status] += 1
        lines += [f"{redact(_shown(file)).text}: {trouble}"] if trouble else []
        if not keep_going(number, len(files)):
            break
    return "\n".join(_told(files, counts, lines))


def _tried(engine: Engine, file: Path) -> tuple[str, str]:
    """What became of a file, and what is to be said of it."""
    try:
        path = _existing(engine, file)
        saved = _indexed(engine, path) or _save_copy(engine, path, "", force=False, dry_run=False)
    except ScrimshawError as error:
        return "failed", error.message
    return saved.status, f"rejected: {'; '.join(saved.reasons)}" if saved.reasons else ""


def _told(files: Sequence[Path], counts: Counter[str], lines: Sequence[str]) -> Iterable[str]:
    if not files:
        yield "no Markdown file was found at these paths"
    yield from lines[:_KEPT_LINES]
    if len(lines) > _KEPT_LINES:
        yield f"and {len(lines) - _KEPT_LINES} more"
    if counts["duplicate"]:
        yield f"{counts['duplicate']} of {counts.total()} files say what a memory says already"


def _existing(engine: Engine, path: Path) -> Path:
    """The file itself; raises NotFound where there is none, InvalidRequest where it is not Markdown.

    UnreadableFile for a name that is not UTF-8, which no database takes.
    """
    path = path if path.is_absolute() else engine.settings.project / path
    if _shown(path) != str(path):
        raise UnreadableFile(f"{_shown(path)} cannot be read in: its name is not UTF-8.", "Rename the file.")
    with storage_errors("read", path):
        is_there = path.is_file()
    if not is_there:
        raise NotFound(f"There is no file {path}.", "Check the path; it is taken from the project's folder.")
    if path.suffix.lower() not in SUFFIXES:
        raise InvalidRequest(f"{path} is no Markdown file.", f"Files that end in {' or '.join(SUFFIXES)} are read.")
    return path.resolve()


def _shown(path: Path) -> str:
    """The path with bytes that are not UTF-8 replaced."""
    return str(path).encode(errors="replace").decode()


def _indexed(engine: Engine, path: Path) -> Saved | None:
    """The memory that was read from this file; None if no source holds it."""
    for source in engine.sources:
        state = engine.index.manifest(source.name).get(str(path))
        if state and state.reason:
            raise UnreadableFile(f"{path} cannot be a memory: {state.reason}.", "Correct the file.")
        if state:
            told = notice(engine.memory(state.memory_id))
            return Saved(
                id=state.memory_id,
                status="indexed",
                content_hash=state.content_hash,
                path=state.path,
                notices=(told,) if told else (),
            )
    return None


def _save_copy(engine: Engine, path: Path, session: str, *, force: bool, dry_run: bool) -> Saved:
    with storage_errors("read", path):
        size = path.stat().st_size
        if size > engine.limits().max_bytes:
            raise UnreadableFile(f"{path} has {size} bytes, more than {engine.limits().max_bytes}.", "Split it.")
        raw = path.read_bytes()
    file = SourceFile(source=INGEST, memory_id=path.stem, path=str(path), size=size, mtime_ns=0, writable=True)
    document = engine.parse(file, raw)
    sources = [edge for edge in document.edges if edge.relation == Relation.DERIVED_FROM]
    new = NewText(
        content=document.body.text,
        title=document.title,
        type=document.type,
        tier=document.tier,
        triggers=document.triggers,
        topics=document.topics,
        origin="import",
        trust=lowest_trust((Trust.AGENT, document.provenance.trust)),
        relations=tuple(edge for edge in sources if edge.kind == EdgeKind.RELATION),
        reason=f"imported from {redact(path.name).text}",
        session=session,
    )
    return save(engine, new, force=force, dry_run=dry_run)


def _markdown(path: Path) -> list[Path]:
    with storage_errors("read", path):
        found = path.rglob("*") if path.is_dir() else [path]
        return sorted(file for file in found if file == path or file.suffix.lower() in SUFFIXES)
