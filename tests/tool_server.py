"""A server of tools as tests make them: what answers is there from the start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from docs.tool_listing import list_prompts, list_tools
from mcp.server.lowlevel import Server

from scrimshaw.app.mcp import protocol
from scrimshaw.app.mcp.protocol import AfterTool, Backend, Dispatcher, Ready, ResourceReader
from scrimshaw.app.mcp.schema import ToolSpec


def build_server(
    tools: Sequence[ToolSpec],
    engine: Any,
    *,
    resources: ResourceReader,
    prompts: Sequence[ToolSpec] = (),
    instructions: str = "",
    after_tool: AfterTool | None = None,
    ready: Ready = bool,
) -> Server[Any]:
    """The SDK server that serves these tools."""
    named = {each.name: each for each in prompts}
    backend = Backend(Dispatcher(tools, engine, after_tool), resources, named, ready)
    return protocol.build_server(list_tools(tools), list_prompts(prompts), lambda: backend, instructions)
