"""Bringing files in: one at a time, or many as a durable job."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

from scrimshaw.engine.core import Engine
from scrimshaw.engine.indexing import KeepGoing, scan
from scrimshaw.engine.writing import NewText, Saved, save
from scrimshaw.errors import InvalidRequest, NotFound, ScrimshawError, UnreadableFile
from scrimshaw.ingest.redact import redact
from scrimshaw.models import Job, SourceFile
from scrimshaw.storage.durable import storage_errors

INGEST = "ingest"
MOST_PATHS = 50
_KEPT_ERRORS = 50


def save_file(engine: Engine, path: Path, *, force: bool = False, dry_run: bool = False) -> Saved:
    """Index a file of a source, or save a copy of any other Markdown file as a memory.

    Raises NotFound for a missing file, UnreadableFile for one that cannot be a memory, and what `save` raises.
    """
    path = path if path.is_absolute() else engine.settings.project / path
    with storage_errors("read", path):
        is_there = path.is_file()
    if not is_there:
        raise NotFound(f"There is no file {path}.", "Check the path; it is taken from the project's folder.")
    path = path.resolve()
    known = _indexed(engine, path) if not dry_run else None
    return known or _save_copy(engine, path, force=force, dry_run=dry_run)


def start_ingest(engine: Engine, paths: Sequence[str]) -> int:
    """Queue the import of files and folders; the id of the job.

    Raises InvalidRequest for none or too many paths, and for one with a secret in it, since the queue is written down.
    """
    if not 1 <= len(paths) <= MOST_PATHS:
        raise InvalidRequest(f"An import takes 1 to {MOST_PATHS} paths.", "Name fewer, or a folder.", parameter="paths")
    if any(redact(path).spans for path in paths):
        raise InvalidRequest("A path holds a secret.", "Rename it, or name its folder.", parameter="paths")
    return engine.journal.enqueue(INGEST, uuid.uuid4().hex, {"paths": list(paths)}, total=len(paths))


def ingest_status(engine: Engine, job_id: int) -> Job:
    """An import job; raises NotFound."""
    job = engine.journal.job(job_id)
    if job is None or job.kind != INGEST:
        raise NotFound(f"There is no import {job_id}.", "Start one with memory_ingest_start.")
    return job


def run_ingest_job(engine: Engine, job: Job, keep_going: KeepGoing) -> str:
    """The work of an import job: every file is tried; returns what went wrong, one line per file.

    A job that is run again after a crash meets the texts it saved as duplicates and skips them.
    """
    files = [file for path in job.payload["paths"] for file in _markdown(engine.settings.project / str(path))]
    errors: list[str] = []
    for number, file in enumerate(files, start=1):
        try:
            save_file(engine, file)
        except ScrimshawError as error:
            errors.append(f"{file}: {error.message}")
        if not keep_going(number, len(files)):
            break
    if not files:
        errors.append("no Markdown file was found at these paths")
    return "\n".join(errors[:_KEPT_ERRORS])


def _indexed(engine: Engine, path: Path) -> Saved | None:
    """The memory read from this file, once the index has caught up with it; None if no source holds it."""
    if not any(path.is_relative_to(source.root.resolve()) for source in engine.sources):
        return None
    scan(engine)
    for source in engine.sources:
        state = engine.index.manifest(source.name).get(str(path))
        if state and state.reason:
            raise UnreadableFile(f"{path} cannot be a memory: {state.reason}.", "Correct the file.")
        if state:
            return Saved(id=state.memory_id, status="indexed", content_hash=state.content_hash, path=state.path)
    return None


def _save_copy(engine: Engine, path: Path, *, force: bool, dry_run: bool) -> Saved:
    size = path.stat().st_size
    if size > engine.limits().max_bytes:
        raise UnreadableFile(f"{path} has {size} bytes, more than {engine.limits().max_bytes}.", "Split it.")
    file = SourceFile(source=INGEST, memory_id=path.stem, path=str(path), size=size, mtime_ns=0)
    document = engine.parse(file, path.read_bytes())
    new = NewText(
        content=document.body.text,
        title=document.title,
        type=document.type,
        tier=document.tier,
        triggers=document.triggers,
        topics=document.topics,
        origin="import",
        reason=f"imported from {path.name}",
    )
    return save(engine, new, force=force, dry_run=dry_run)


def _markdown(path: Path) -> list[Path]:
    with storage_errors("read", path):
        return sorted(path.rglob("*.md")) if path.is_dir() else [path]
