"""The tool `memory_health` of the toolset `core`: every part measured when asked, nothing assumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated

from msgspec import Meta

from scrimshaw.app.checks import process_checks
from scrimshaw.app.mcp.replies import public_skips
from scrimshaw.app.mcp.schema import Call, Reply, tool
from scrimshaw.engine import Engine
from scrimshaw.engine.health import check_health
from scrimshaw.engine.index import skipped_files
from scrimshaw.errors import StorageFailure
from scrimshaw.models import Capability, Degradation, Skip


class HealthCall(Call, frozen=True):
    thorough: Annotated[bool, Meta(description="Read both databases whole.")] = False


class HealthReply(Reply, frozen=True, kw_only=True, omit_defaults=True):
    """`status`: healthy, degraded or broken. A capability is on, degraded or off, and `was` so until `since`."""

    status: str
    memories: int
    vectors: Mapping[str, int]
    capabilities: Sequence[Capability]
    degraded: Sequence[Degradation] = ()
    problems: Sequence[str] = ()
    skipped: Sequence[Mapping[str, str]] = ()


@tool(toolset="core", layer="L3", read_only=True, idempotent=True)
def memory_health(engine: Engine, call: HealthCall) -> HealthReply:
    """What works, what does not, and what to do about it."""
    found = check_health(engine, thorough=call.thorough, more=process_checks(engine.settings.project))
    done, total = found.vectors
    skips: Sequence[Skip] = ()
    with suppress(StorageFailure):  # `problems` says so
        skips = skipped_files(engine)
    return HealthReply(
        status=found.status,
        memories=found.memories,
        vectors={"done": done, "total": total},
        capabilities=found.capabilities,
        degraded=found.degradations,
        problems=found.problems,
        skipped=public_skips(skips),
    )


TOOLS = (memory_health,)
