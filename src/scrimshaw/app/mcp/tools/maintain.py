"""The toolset `maintenance`: catching up with files, importing others, keeping checkpoints and bringing them back."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Struct

from scrimshaw.app.mcp.replies import copy_fields, public_words
from scrimshaw.app.mcp.schema import describe, tool
from scrimshaw.app.mcp.tools.core import DryRun
from scrimshaw.engine import Engine, checkpoints, importers, index, restore
from scrimshaw.engine.degradations import INDEX
from scrimshaw.models import Degradation, Job, JobState, format_time

CheckpointName = Annotated[str, describe("Letters, digits, dashes.", min_length=1, max_length=100)]
JobId = Annotated[int, describe("job_id of memory_ingest_start.", ge=1)]


class ScanReply(Struct, frozen=True):
    """The result of the scan; `skipped` says why a file cannot be a memory."""

    files: int
    added: int
    updated: int
    removed: int
    unchanged: int
    skipped: Sequence[Mapping[str, str]]


class JobReply(Struct, frozen=True):
    """`state`: queued, running, done, failed or cancelled; `errors` name the files that failed."""

    job_id: int
    state: str
    done: int
    total: int
    progress: float
    errors: Sequence[str]


class CheckpointReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A checkpoint; `created` is an ISO time, `made_as` its original name, `problem` why it is unusable."""

    name: str
    created: str
    bytes: int
    made_as: str = ""
    files: int = 0
    rows: Mapping[str, int] = {}
    metadata: Mapping[str, str] = {}
    left_out: Sequence[str]
    dropped: Sequence[str]
    problem: str = ""


class ListCheckpointsReply(Struct, frozen=True):
    """Newest first; those named auto-... were made before destructive changes, or once a day."""

    checkpoints: Sequence[CheckpointReply]


class RestoreReply(restore.Restored, frozen=True, kw_only=True, omit_defaults=True):
    """What changed, the checkpoint made before, and how many of a sample of restored memories a search finds."""

    degraded: Sequence[Degradation] = ()


class DeleteCheckpointReply(Struct, frozen=True):
    """The deleted checkpoint."""

    deleted: str


@tool(toolset="maintenance", idempotent=True)
def memory_index_scan(engine: Engine, force: Annotated[bool, describe("Read every file again.")] = False) -> ScanReply:
    """Index files that changed on disk."""
    report = index.scan(engine, force=force)
    return copy_fields(ScanReply, report, skipped=[*map(public_words, report.skipped)])


@tool(toolset="maintenance")
def memory_ingest_start(
    engine: Engine,
    paths: Annotated[tuple[str, ...], describe("Markdown files or folders.", min_length=1, max_length=50)],
) -> JobReply:
    """Import Markdown files in the background; memory_ingest_status reports progress."""
    return _job_reply(importers.find_ingest_job(engine, importers.start_ingest(engine, paths)))


@tool(toolset="maintenance", read_only=True, idempotent=True)
def memory_ingest_status(engine: Engine, job_id: JobId) -> JobReply:
    """Show the progress of an import."""
    return _job_reply(importers.find_ingest_job(engine, job_id))


@tool(toolset="maintenance", idempotent=True)
def memory_ingest_cancel(engine: Engine, job_id: JobId) -> JobReply:
    """Stop an import; already saved files stay."""
    importers.find_ingest_job(engine, job_id)
    engine.journal.change_job(job_id, JobState.CANCELLED)
    return _job_reply(importers.find_ingest_job(engine, job_id))


@tool(toolset="maintenance")
def checkpoint_create(
    engine: Engine,
    name: CheckpointName,
    metadata: Annotated[dict[str, str], describe("Notes to store with it.")] | None = None,
) -> CheckpointReply:
    """Save the whole memory as it is now: files, relations, sessions, ledger. The newest ten are kept."""
    return _checkpoint_reply(checkpoints.create(engine, name, metadata=metadata or {}))


@tool(toolset="maintenance", read_only=True, idempotent=True)
def checkpoint_list(
    engine: Engine, limit: Annotated[int, describe("Maximum checkpoints.", ge=1, le=100)] = checkpoints.KEPT
) -> ListCheckpointsReply:
    """List the checkpoints."""
    found = checkpoints.list_checkpoints(engine, limit)
    return ListCheckpointsReply(checkpoints=public_words([*map(_checkpoint_reply, found)]))


@tool(toolset="maintenance", destructive=True)
def checkpoint_restore(
    engine: Engine,
    name: CheckpointName,
    clear_existing: Annotated[bool, describe("Exactly that state; default: restore only what is missing.")] = False,
    dry_run: DryRun = False,
) -> RestoreReply:
    """Restore a checkpoint. A person's edits are never overwritten; a checkpoint is made first."""
    path = checkpoints.find_checkpoint(engine, name)
    restored = restore.restore(engine, path, clear_existing=clear_existing, dry_run=dry_run, actor="agent")
    return copy_fields(RestoreReply, restored, degraded=engine.degradations.of(INDEX))


@tool(toolset="maintenance", destructive=True)
def checkpoint_delete(
    engine: Engine, name: CheckpointName, confirm_name: Annotated[str, describe("The same name again.")]
) -> DeleteCheckpointReply:
    """Delete a checkpoint permanently."""
    checkpoints.delete(engine, name, confirm_name)
    return DeleteCheckpointReply(deleted=name)


def _checkpoint_reply(checkpoint: checkpoints.Checkpoint) -> CheckpointReply:
    return copy_fields(CheckpointReply, checkpoint, created=format_time(checkpoint.created))


def _job_reply(job: Job) -> JobReply:
    progress = round(job.done / job.total, 3) if job.total else 0.0
    return copy_fields(JobReply, job, job_id=job.id, progress=progress, errors=job.error.splitlines())
