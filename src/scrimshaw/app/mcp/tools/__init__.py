"""The tools by toolset, and which toolsets a server offers."""

from __future__ import annotations

from scrimshaw.app.mcp.schema import ToolSpec
from scrimshaw.app.mcp.tools import browse, change, core, maintain
from scrimshaw.errors import InvalidRequest

DEFAULT_TOOLSETS = "core"
TOOLSETS = (DEFAULT_TOOLSETS, "discovery", "mutation", "analysis", "maintenance", "learning")
_FOUND = (value for module in (core, change, browse, maintain) for value in vars(module).values())
ALL_TOOLS: tuple[ToolSpec, ...] = tuple(
    sorted((each for each in _FOUND if isinstance(each, ToolSpec)), key=lambda spec: TOOLSETS.index(spec.toolset))
)


def choose(toolsets: str) -> list[ToolSpec]:
    """The tools of comma-separated toolsets, or of `all`; raises InvalidRequest for an unknown name."""
    wanted = [name.strip() for name in toolsets.split(",") if name.strip()] or [DEFAULT_TOOLSETS]
    unknown = [name for name in wanted if name not in (*TOOLSETS, "all")]
    if unknown:
        known = ", ".join((*TOOLSETS, "all"))
        raise InvalidRequest(f"There is no toolset {', '.join(unknown)}.", f"Toolsets: {known}.", parameter="toolsets")
    return [spec for spec in ALL_TOOLS if "all" in wanted or spec.toolset in wanted]
