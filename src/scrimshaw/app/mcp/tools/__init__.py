"""The tools by toolset, and which toolsets a server offers."""

from scrimshaw.app.mcp.schema import TOOLSETS, ToolSpec, choose_toolsets
from scrimshaw.app.mcp.tools import browse, change, core, maintain

_FOUND = (value for module in (core, change, browse, maintain) for value in vars(module).values())
ALL_TOOLS: tuple[ToolSpec, ...] = tuple(
    sorted((each for each in _FOUND if isinstance(each, ToolSpec)), key=lambda spec: TOOLSETS.index(spec.toolset))
)


def choose(toolsets: str) -> list[ToolSpec]:
    """The tools of comma-separated toolsets, or of `all`; raises InvalidRequest for an unknown name."""
    chosen = choose_toolsets(toolsets)
    return [spec for spec in ALL_TOOLS if spec.toolset in chosen]
