"""The toolset `learning`: what a task taught, by its own account."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from scrimshaw.app.mcp.schema import tool
from scrimshaw.engine import Engine, learning
from scrimshaw.storage.ports import Learning

Score = Annotated[float, Meta(ge=0, le=100)]
Name = Annotated[str, Meta(min_length=1, max_length=240)]


class FlightCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of task_preflight and task_postflight; scores are 0..100."""

    spec_folder: Name
    task_id: Name
    knowledge_score: Score
    uncertainty_score: Score
    context_score: Score
    gaps: Annotated[tuple[str, ...], Meta(description="What is not known yet.")] = ()
    session_id: str = ""


class PreflightReply(Struct, frozen=True, kw_only=True):
    """The task that was opened."""

    task_id: str
    recorded: bool


class PostflightReply(Struct, frozen=True, kw_only=True):
    """What lies between the two records; `learning_index` is their weighted sum."""

    task_id: str
    knowledge_gain: float
    uncertainty_loss: float
    context_gain: float
    learning_index: float


class HistoryCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of memory_get_learning_history."""

    spec_folder: Name
    session_id: str = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 10
    only_complete: bool = False
    include_summary: bool = True


class HistoryReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Tasks, newest first."""

    tasks: Sequence[Mapping[str, Any]]
    summary: Mapping[str, Any] = {}


@tool(toolset="learning", layer="L6", idempotent=True)
def task_preflight(engine: Engine, call: FlightCall) -> PreflightReply:
    """Say what you know before a task begins."""
    learning.preflight(engine, _row(call, learning.PRE))
    return PreflightReply(task_id=call.task_id, recorded=True)


@tool(toolset="learning", layer="L6", idempotent=True)
def task_postflight(engine: Engine, call: FlightCall) -> PostflightReply:
    """Say what you know after a task; answers what it taught."""
    found = learning.postflight(engine, _row(call, learning.POST))
    return PostflightReply(
        task_id=found.task,
        knowledge_gain=found.knowledge or 0.0,
        uncertainty_loss=found.uncertainty or 0.0,
        context_gain=found.context or 0.0,
        learning_index=found.index or 0.0,
    )


@tool(toolset="learning", layer="L6", read_only=True, idempotent=True)
def memory_get_learning_history(engine: Engine, call: HistoryCall) -> HistoryReply:
    """What the tasks of a folder taught."""
    found = learning.history(
        engine, call.spec_folder, session=call.session_id, limit=call.limit, complete=call.only_complete
    )
    summary = {"tasks": len(found), "mean_learning_index": learning.mean_index(found)} if call.include_summary else {}
    return HistoryReply(tasks=[msgspec.to_builtins(each) for each in found], summary=summary)


TOOLS = (task_preflight, task_postflight, memory_get_learning_history)


def _row(call: FlightCall, phase: str) -> Learning:
    return Learning(
        folder=call.spec_folder,
        task=call.task_id,
        phase=phase,
        session=call.session_id,
        knowledge=call.knowledge_score,
        uncertainty=call.uncertainty_score,
        context=call.context_score,
        gaps=call.gaps,
    )
