"""The toolset `mutation`: removing memories and judging them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from msgspec import Meta, Struct

from scrimshaw.app.mcp.schema import tool
from scrimshaw.app.mcp.tools.acting import session_of
from scrimshaw.app.mcp.tools.core import Folder, MemoryId
from scrimshaw.engine import Engine, checkpoints, review, write
from scrimshaw.errors import InvalidRequest
from scrimshaw.models import Filters, Tier

Confirm = Annotated[Literal[True], Meta(description="Must be true.")]


class DeleteCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of memory_delete."""

    confirm: Confirm
    id: Annotated[str, Meta(max_length=400)] = ""
    spec_folder: Annotated[str, Meta(description="Instead: everything writable below this folder.")] = ""
    purge: Annotated[bool, Meta(description="Erase every copy, in checkpoints too: no undo.")] = False
    session_id: str = ""


class DeleteReply(Struct, frozen=True, kw_only=True):
    """The ids that went, or would go in a dry run; `checkpoint` was made before."""

    deleted: Sequence[str]
    count: int
    dry_run: bool = False
    checkpoint: str = ""


class BulkDeleteCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of memory_bulk_delete."""

    tier: Tier
    confirm: Confirm
    spec_folder: Folder = ""
    older_than_days: Annotated[int, Meta(ge=1, le=36_500, description="Only those not updated since.")] | None = None
    dry_run: bool = False
    skip_checkpoint: Annotated[bool, Meta(description="Make no checkpoint before.")] = False
    session_id: str = ""


class ValidateCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of memory_validate."""

    id: MemoryId
    was_useful: bool


class ValidateReply(Struct, frozen=True, kw_only=True):
    """The memory's confidence after this judgement, 0..1 from 0.5; `promotable` to tier critical."""

    id: str
    confidence: float
    validations: int
    promotable: bool


@tool(toolset="mutation", layer="L4", destructive=True)
def memory_delete(engine: Engine, call: DeleteCall) -> DeleteReply:
    """Retire a memory, or all below a folder. The last text is kept for undo unless purged."""
    if bool(call.id) == bool(call.spec_folder):
        raise InvalidRequest("A delete takes an id or a spec_folder.", "Give exactly one.", parameter="id")
    ids = [call.id] if call.id else _below(engine, call.spec_folder)
    deleted = write.delete(engine, ids, purge=call.purge, session=session_of(engine, call.session_id))
    return DeleteReply(deleted=deleted, count=len(deleted))


@tool(toolset="mutation", layer="L4", destructive=True)
def memory_bulk_delete(engine: Engine, call: BulkDeleteCall) -> DeleteReply:
    """Retire memories of a tier. A whole constitutional or critical tier is refused."""
    before = ""
    if call.older_than_days:
        before = (datetime.now(UTC) - timedelta(days=call.older_than_days)).strftime("%Y-%m-%d")
    chosen = [memory.id for memory in write.bulk_select(engine, call.tier, folder=call.spec_folder, before=before)]
    if call.dry_run or not chosen:
        return DeleteReply(deleted=chosen, count=len(chosen), dry_run=call.dry_run)
    checkpoint = "" if call.skip_checkpoint else checkpoints.before(engine, "bulk-delete").name
    deleted = write.delete(
        engine,
        chosen,
        reason=f"bulk delete of {call.tier}",
        session=session_of(engine, call.session_id),
        backup=False,
    )
    return DeleteReply(deleted=deleted, count=len(deleted), checkpoint=checkpoint)


@tool(toolset="mutation", layer="L4")
def memory_validate(engine: Engine, call: ValidateCall) -> ValidateReply:
    """Say whether a memory helped; memories that did not sink a little."""
    state = review.validate(engine, call.id, useful=call.was_useful)
    return ValidateReply(
        id=state.id, confidence=state.confidence, validations=state.reviews, promotable=state.promotable
    )


TOOLS = (memory_delete, memory_bulk_delete, memory_validate)


def _below(engine: Engine, folder: str) -> list[str]:
    filters = Filters(folder=folder, include_deprecated=True)
    every = engine.index.select(filters, sort="id", limit=-1, offset=0)
    return [memory.id for memory in every if memory.writable]
