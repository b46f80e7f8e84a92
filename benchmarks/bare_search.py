"""An MCP server of the same SDK with one tool, the plainest hybrid search over a project's index. Run as a script:

python -m benchmarks.bare_search PROJECT
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import msgspec
from mcp import types as wire
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from benchmarks.bare import LIMIT, BareVectors, SameText
from benchmarks.corpus import open_project
from scrimshaw.engine import Engine

OFFSET, TEXT = 60, 600  # what reciprocal ranks add to each rank; characters of a hit's text

Search = Callable[[str], list[dict[str, str]]]


def make_search(engine: Engine) -> Search:
    """A search by FTS5 and by an exact scan of vectors, joined by reciprocal ranks."""
    text, vectors = SameText(engine), BareVectors(engine)

    def search(query: str) -> list[dict[str, str]]:
        by_words = dict.fromkeys(number >> 20 for number, _ in text.search(query))
        sums = defaultdict[int, float](float)
        for ranking in (by_words, vectors.search(query)):
            for rank, row in enumerate(ranking, start=1):
                sums[row] += 1 / (OFFSET + rank)
        return [text.read(row, TEXT) for row in sorted(sums, key=sums.__getitem__, reverse=True)[:LIMIT]]

    return search


def make_server(search: Search) -> Server[Any]:
    """A server with this search as its tool."""

    async def list_tools(_: Any, _params: Any) -> wire.ListToolsResult:
        schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
        return wire.ListToolsResult(tools=[wire.Tool(name="search", input_schema=schema)])

    async def call_tool(_: Any, params: wire.CallToolRequestParams) -> wire.CallToolResult:
        hits = search(str((params.arguments or {})["query"]))
        content = wire.TextContent(text=msgspec.json.encode(hits).decode())
        return wire.CallToolResult(content=[content], structured_content={"hits": hits})

    return Server("bare", on_list_tools=list_tools, on_call_tool=call_tool)


async def serve(project: Path) -> None:
    """Serve until the client hangs up."""
    with open_project(project) as engine:
        server = make_server(make_search(engine))
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(serve, Path(sys.argv[1]))
