"""An MCP server of the same SDK without tools: the least that a start can cost. Run as a script."""

from __future__ import annotations

from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server


async def serve() -> None:
    """Serve until the client hangs up."""
    server: Server[Any] = Server("bare")
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(serve)
