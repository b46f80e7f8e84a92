"""The tool `memory_health` of the toolset `core`: every part measured when asked, nothing assumed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from scrimshaw.app.mcp.replies import public_skips
from scrimshaw.app.mcp.schema import tool
from scrimshaw.app.probes import probes
from scrimshaw.engine import Engine, inspecting
from scrimshaw.errors import StorageFailure
from scrimshaw.models import Capability, Degradation, Skip


class HealthCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of memory_health."""

    thorough: Annotated[bool, Meta(description="Read both databases whole.")] = False


class HealthReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
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
    found = inspecting.health(engine, thorough=call.thorough, more=probes(engine.settings.project))
    done, total = found.vectors
    return HealthReply(
        status=found.status,
        memories=found.memories,
        vectors={"done": done, "total": total},
        capabilities=found.capabilities,
        degraded=found.degradations,
        problems=found.problems,
        skipped=public_skips(_skips(engine)),
    )


TOOLS = (memory_health,)


def _skips(engine: Engine) -> Sequence[Skip]:
    """The files passed over; none where the index cannot tell, which `problems` says."""
    try:
        return engine.index.skips()
    except StorageFailure:
        return ()
