"""Checkpoints in the toolset `maintenance`: the whole memory kept, and brought back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from scrimshaw.app.mcp.schema import tool
from scrimshaw.engine import Engine, checkpoints, restore

_Reply = TypeVar("_Reply")
Name = Annotated[str, Meta(min_length=1, max_length=100, description="Letters, digits, dashes.")]


class CreateCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of checkpoint_create."""

    name: Name
    metadata: Annotated[dict[str, str], Meta(description="Notes to keep with it.")] = {}


class CheckpointReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A checkpoint; `created` is seconds since 1970, `made_as` another name it was made under, `problem` its fault."""

    name: str
    created: float
    bytes: int
    made_as: str = ""
    files: int = 0
    rows: Mapping[str, int] = {}
    metadata: Mapping[str, str] = {}
    left_out: Sequence[str] = ()
    dropped: Sequence[str] = ()
    problem: str = ""


class ListCheckpointsCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of checkpoint_list."""

    limit: Annotated[int, Meta(ge=1, le=100)] = checkpoints.KEPT


class ListCheckpointsReply(Struct, frozen=True, kw_only=True):
    """Newest first; those named auto-... were made before something that destroys, or once a day."""

    checkpoints: Sequence[CheckpointReply]


class RestoreCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of checkpoint_restore."""

    name: Name
    clear_existing: Annotated[bool, Meta(description="Exactly that state; else only what is missing comes back.")] = (
        False
    )
    dry_run: bool = False


class RestoreReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What changed, the checkpoint made before, and how many of a sample of restored memories a search finds."""

    name: str
    written: Sequence[str]
    removed: Sequence[str]
    kept: int
    sampled: int
    found: int
    rows: Mapping[str, int] = {}
    backup: str = ""
    missing: Sequence[str] = ()
    purged: Sequence[str] = ()
    edits: Sequence[str] = ()
    dry_run: bool = False


class DeleteCheckpointCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of checkpoint_delete."""

    name: Name
    confirm_name: Annotated[str, Meta(description="The same name again.")]


class DeleteCheckpointReply(Struct, frozen=True, kw_only=True):
    """The checkpoint that went."""

    deleted: str


@tool(toolset="maintenance", layer="L5")
def checkpoint_create(engine: Engine, call: CreateCall) -> CheckpointReply:
    """Keep the whole memory as it is now: files, relations, sessions, ledger. The newest ten stay."""
    return _view(checkpoints.create(engine, call.name, metadata=call.metadata))


@tool(toolset="maintenance", layer="L5", read_only=True, idempotent=True)
def checkpoint_list(engine: Engine, call: ListCheckpointsCall) -> ListCheckpointsReply:
    """The checkpoints there are."""
    return ListCheckpointsReply(checkpoints=[_view(each) for each in checkpoints.listed(engine, call.limit)])


@tool(toolset="maintenance", layer="L5", destructive=True)
def checkpoint_restore(engine: Engine, call: RestoreCall) -> RestoreReply:
    """Bring a checkpoint back. A person's edits are never overwritten; a checkpoint is made before."""
    path = checkpoints.path_of(engine, call.name)
    restored = restore.restore(engine, path, clear_existing=call.clear_existing, dry_run=call.dry_run, actor="agent")
    return _as(RestoreReply, restored)


@tool(toolset="maintenance", layer="L5", destructive=True)
def checkpoint_delete(engine: Engine, call: DeleteCheckpointCall) -> DeleteCheckpointReply:
    """Delete a checkpoint for good."""
    checkpoints.delete(engine, call.name, call.confirm_name)
    return DeleteCheckpointReply(deleted=call.name)


TOOLS = (checkpoint_create, checkpoint_list, checkpoint_restore, checkpoint_delete)


def _view(made: checkpoints.Checkpoint) -> CheckpointReply:
    return _as(CheckpointReply, made)


def _as(kind: type[_Reply], value: Struct) -> _Reply:
    return msgspec.convert(value, kind, from_attributes=True)
