"""The toolset `maintenance`: catching up with files, importing others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from scrimshaw.app.mcp.replies import skip_view
from scrimshaw.app.mcp.schema import tool
from scrimshaw.engine import Engine, importing, index
from scrimshaw.models import Job

JobId = Annotated[int, Meta(ge=1, description="job_id of memory_ingest_start.")]


class ScanCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of memory_index_scan."""

    force: Annotated[bool, Meta(description="Read every file again.")] = False


class ScanReply(Struct, frozen=True, kw_only=True):
    """What the scan did; `skipped` says why a file cannot be a memory."""

    files: int
    added: int
    updated: int
    removed: int
    unchanged: int
    skipped: Sequence[Mapping[str, str]]


class IngestCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of memory_ingest_start."""

    paths: Annotated[tuple[str, ...], Meta(min_length=1, max_length=50, description="Markdown files or folders.")]


class JobCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of memory_ingest_status and memory_ingest_cancel."""

    job_id: JobId


class JobReply(Struct, frozen=True, kw_only=True):
    """`state`: queued, running, done, failed or cancelled; `errors` name the files that failed."""

    job_id: int
    state: str
    done: int
    total: int
    progress: float
    errors: Sequence[str]


@tool(toolset="maintenance", layer="L7", idempotent=True)
def memory_index_scan(engine: Engine, call: ScanCall) -> ScanReply:
    """Catch up with files that changed on disk."""
    report = index.scan(engine, force=call.force)
    return ScanReply(
        files=report.files,
        added=report.added,
        updated=report.updated,
        removed=report.removed,
        unchanged=report.unchanged,
        skipped=skip_view(report.skipped),
    )


@tool(toolset="maintenance", layer="L7")
def memory_ingest_start(engine: Engine, call: IngestCall) -> JobReply:
    """Import Markdown files in the background; ask memory_ingest_status how far it is."""
    return _reply(importing.ingest_status(engine, importing.start_ingest(engine, call.paths)))


@tool(toolset="maintenance", layer="L7", read_only=True, idempotent=True)
def memory_ingest_status(engine: Engine, call: JobCall) -> JobReply:
    """How far an import is."""
    return _reply(importing.ingest_status(engine, call.job_id))


@tool(toolset="maintenance", layer="L7", idempotent=True)
def memory_ingest_cancel(engine: Engine, call: JobCall) -> JobReply:
    """Stop an import; files already saved stay."""
    importing.ingest_status(engine, call.job_id)
    engine.journal.cancel(call.job_id)
    return _reply(importing.ingest_status(engine, call.job_id))


TOOLS = (memory_index_scan, memory_ingest_start, memory_ingest_status, memory_ingest_cancel)


def _reply(job: Job) -> JobReply:
    return JobReply(
        job_id=job.id,
        state=job.state,
        done=job.done,
        total=job.total,
        progress=round(job.done / job.total, 3) if job.total else 0.0,
        errors=job.error.splitlines(),
    )
