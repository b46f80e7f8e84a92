"""Tools that change memories, other than saving: delete, validate, relate, and record what a task taught."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from scrimshaw.app.mcp.replies import copy_fields
from scrimshaw.app.mcp.schema import Call, describe, tool
from scrimshaw.app.mcp.tools.core import DryRun, Folder, MemoryId, SessionId, session_id_of
from scrimshaw.engine import Engine, checkpoints, learning, links, read, write
from scrimshaw.engine.degradations import INDEX
from scrimshaw.errors import InvalidRequest
from scrimshaw.models import Degradation, Filters, Relation, Tier, format_time
from scrimshaw.search.candidates import DAY_S
from scrimshaw.storage.ports import Learning

Confirm = Annotated[Literal[True], describe("Must be true.")]
Score = Annotated[float, Meta(ge=0, le=100)]
TaskName = Annotated[str, Meta(min_length=1, max_length=240)]


class DeleteReply(Struct, frozen=True):
    """The deleted ids, or in a dry run those to delete; `checkpoint` was made before."""

    deleted: Sequence[str]
    count: int
    dry_run: bool = False
    checkpoint: str = ""
    degraded: Sequence[Degradation] = ()


class CausalLinkReply(Struct, frozen=True, omit_defaults=True):
    """`status`: linked, updated or unlinked. `path` is the file with the relation."""

    source_id: str
    target_id: str
    relation: str
    status: str
    path: str
    strength: float = 1.0
    evidence: str = ""


class FlightCall(Call, frozen=True):
    """Parameters of task_preflight and task_postflight; scores are 0..100."""

    folder: Annotated[TaskName, describe("The folder of the task.")]
    task_id: Annotated[TaskName, describe("Use the same name before and after.")]
    knowledge_score: Annotated[Score, describe("How much you know, 0..100.")]
    uncertainty_score: Annotated[Score, describe("How unsure you are.")]
    context_score: Annotated[Score, describe("How complete your context is.")]
    gaps: Annotated[tuple[str, ...], describe("What you do not know yet.")] = ()
    session_id: SessionId = ""


class PreflightReply(Struct, frozen=True):
    """The task that was opened."""

    task_id: str
    recorded: bool


class PostflightReply(Struct, frozen=True):
    """The differences between the two records; `learning_index` is their weighted sum."""

    task_id: str
    knowledge_gain: float
    uncertainty_loss: float
    context_gain: float
    learning_index: float


@tool(toolset="mutation", destructive=True)
def memory_delete(
    engine: Engine,
    confirm: Confirm,
    id: Annotated[str, describe("Id of a memory.", max_length=400)] = "",
    folder: Annotated[str, describe("Instead: everything writable below this folder.")] = "",
    purge: Annotated[bool, describe("Erase every copy, even in checkpoints: no undo.")] = False,
    session_id: SessionId = "",
) -> DeleteReply:
    """Retire a memory, or all below a folder. Undo can restore them unless they are purged."""
    if bool(id) == bool(folder):
        raise InvalidRequest("A delete takes an id or a folder.", "Give exactly one.", parameter="id")
    below = Filters(folder=folder, include_deprecated=True)
    ids = [memory.id for memory in read.list_writable(engine, below)] if folder else [id]
    deleted = write.delete(engine, ids, purge=purge, session=session_id_of(engine, session_id))
    return DeleteReply(deleted=deleted, count=len(deleted), degraded=engine.degradations.of(INDEX))


@tool(toolset="mutation", destructive=True)
def memory_bulk_delete(
    engine: Engine,
    tier: Annotated[Tier, describe("All of this tier.")],
    confirm: Confirm,
    folder: Folder = "",
    older_than_days: Annotated[int, describe("Only those not updated since.", ge=1, le=36_500)] | None = None,
    dry_run: DryRun = False,
    skip_checkpoint: Annotated[bool, describe("Do not make a checkpoint first.")] = False,
    session_id: SessionId = "",
) -> DeleteReply:
    """Retire memories of a tier. A whole constitutional or critical tier is refused."""
    before = format_time(engine.clock() - older_than_days * DAY_S) if older_than_days else ""
    chosen = [memory.id for memory in read.bulk_select(engine, tier, folder=folder, before=before)]
    if dry_run or not chosen:
        return DeleteReply(deleted=chosen, count=len(chosen), dry_run=dry_run)
    checkpoint = "" if skip_checkpoint else checkpoints.checkpoint_before(engine, "bulk-delete").name
    session = session_id_of(engine, session_id)
    deleted = write.delete(engine, chosen, reason=f"bulk delete of {tier}", session=session, backup=False)
    degraded = engine.degradations.of(INDEX)
    return DeleteReply(deleted=deleted, count=len(deleted), checkpoint=checkpoint, degraded=degraded)


@tool(toolset="mutation")
def memory_validate(
    engine: Engine, id: MemoryId, was_useful: Annotated[bool, describe("Whether it helped.")]
) -> read.Validated:
    """Report whether a memory helped; one that did not ranks a little lower."""
    return read.validate(engine, id, useful=was_useful)


@tool(toolset="analysis", idempotent=True)
def memory_causal_link(
    engine: Engine,
    source_id: MemoryId,
    target_id: MemoryId,
    relation: Annotated[Relation, describe("Read from source to target: the new one supersedes the old.")],
    strength: Annotated[float, describe("How certain it is; default 1.", ge=0, le=1)] | None = None,
    evidence: Annotated[str, describe("The reason for it.", max_length=2000)] | None = None,
    session_id: SessionId = "",
) -> CausalLinkReply:
    """State that one memory caused, enabled, supersedes, contradicts, is derived from or supports another."""
    session = session_id_of(engine, session_id)
    linked = links.link(engine, source_id, target_id, relation, strength, evidence, session=session)
    return copy_fields(CausalLinkReply, linked, source_id=linked.source, target_id=linked.target)


@tool(toolset="analysis")
def memory_causal_unlink(
    engine: Engine,
    source_id: MemoryId,
    target_id: MemoryId,
    relation: Annotated[Relation, describe("The relation to remove.")],
    session_id: SessionId = "",
) -> CausalLinkReply:
    """Remove a relation."""
    linked = links.unlink(engine, source_id, target_id, relation, session=session_id_of(engine, session_id))
    return copy_fields(CausalLinkReply, linked, source_id=linked.source, target_id=linked.target)


@tool(toolset="learning", idempotent=True)
def task_preflight(engine: Engine, call: FlightCall) -> PreflightReply:
    """Record what you know before a task begins."""
    learning.record(engine, _make_record(call, learning.PRE))
    return PreflightReply(task_id=call.task_id, recorded=True)


@tool(toolset="learning", idempotent=True)
def task_postflight(engine: Engine, call: FlightCall) -> PostflightReply:
    """Record what you know after a task; returns what it taught."""
    found = learning.record(engine, _make_record(call, learning.POST))
    gains = (found.knowledge, found.uncertainty, found.context, found.index)
    return PostflightReply(found.task, *(gain or 0.0 for gain in gains))


def _make_record(call: FlightCall, phase: str) -> Learning:
    named: dict[str, Any] = {"folder": call.folder, "task": call.task_id, "session": call.session_id}
    scores = {name: getattr(call, f"{name}_score") for name in ("knowledge", "uncertainty", "context")}
    return Learning(phase=phase, gaps=call.gaps, **named, **scores)
