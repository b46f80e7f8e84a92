"""The tools by toolset, and which toolsets a server offers."""

from __future__ import annotations

from scrimshaw.app.mcp.schema import ToolSpec
from scrimshaw.app.mcp.tools import analysis, checkpoints, core, discovery, health, learning, maintenance, mutation
from scrimshaw.errors import InvalidRequest

ALL_TOOLS: tuple[ToolSpec, ...] = (
    *core.TOOLS,
    *health.TOOLS,
    *discovery.TOOLS,
    *mutation.TOOLS,
    *analysis.TOOLS,
    *maintenance.TOOLS,
    *checkpoints.TOOLS,
    *learning.TOOLS,
)
TOOLSETS: tuple[str, ...] = tuple(dict.fromkeys(spec.toolset for spec in ALL_TOOLS))
DEFAULT_TOOLSETS = "core"


def choose(toolsets: str) -> list[ToolSpec]:
    """The tools of comma-separated toolsets, or of `all`; raises InvalidRequest for an unknown name."""
    wanted = [name.strip() for name in toolsets.split(",") if name.strip()] or [DEFAULT_TOOLSETS]
    unknown = [name for name in wanted if name not in (*TOOLSETS, "all")]
    if unknown:
        known = ", ".join((*TOOLSETS, "all"))
        raise InvalidRequest(f"There is no toolset {', '.join(unknown)}.", f"Toolsets: {known}.", parameter="toolsets")
    return [spec for spec in ALL_TOOLS if "all" in wanted or spec.toolset in wanted]
