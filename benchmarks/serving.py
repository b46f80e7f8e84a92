"""The MCP server over standard input and output: start-up, memory, size of its schemas, and search."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from benchmarks.bare import LIMIT, BareHybrid
from benchmarks.figures import Figure, figure, milliseconds

STARTS = 5
WARM_UP = 3
# A server catches up with the files when it starts; a search measured meanwhile would measure that.
SETTLE_S = 5.0


def server_figures(
    executable: str, project: Path, bare: BareHybrid, count: int, queries: Sequence[str]
) -> list[Figure]:
    """Every figure of the server; its process is started anew for each."""
    ours, theirs = scrimshaw_server(executable, project), bare_server(executable)
    return [
        *start_up(ours, theirs),
        *anyio.run(_sizes, ours, theirs, count, queries[0]),
        anyio.run(_search, ours, bare, count, queries),
    ]


def scrimshaw_server(executable: str, project: Path) -> StdioServerParameters:
    """How the server of a project is started."""
    start = "from scrimshaw.app.cli import run; run()"
    environment = {**os.environ, "SCRIMSHAW_HOME": str(project / "home")}
    return StdioServerParameters(command=executable, args=["-c", start, "serve"], env=environment, cwd=project)


def bare_server(executable: str) -> StdioServerParameters:
    """A server of the same SDK without tools."""
    return StdioServerParameters(command=executable, args=["-m", "benchmarks.bare_server"], env=dict(os.environ))


def bare_search_server(executable: str, project: Path) -> StdioServerParameters:
    """A server of the same SDK with the plainest hybrid search over the project's index."""
    arguments = ["-m", "benchmarks.bare_search", str(project)]
    return StdioServerParameters(command=executable, args=arguments, env=dict(os.environ))


def start_up(ours: StdioServerParameters, theirs: StdioServerParameters) -> list[Figure]:
    """CPU milliseconds of a server process from start to the end of its first answer to tools/list."""
    if sys.platform == "win32":
        return []
    for parameters in (ours, theirs):
        anyio.run(_list_tools, parameters)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(STARTS):
        for parameters, found in zip((ours, theirs), times, strict=True):
            found.append(_children_cpu(lambda: anyio.run(_list_tools, parameters)))  # noqa: B023 - called at once
    return [figure("server start to tools/list", 0, "CPU ms", *times, note="SDK server without tools")]


def _children_cpu(work: Callable[[], object]) -> float:
    """CPU milliseconds of the child processes that the work starts and ends."""

    before = os.times()
    work()
    after = os.times()
    return (after.children_user - before.children_user + after.children_system - before.children_system) * 1000


async def _list_tools(parameters: StdioServerParameters) -> Any:
    async with Client(parameters) as client:
        return await client.list_tools() if client.server_capabilities.tools else None


async def _sizes(ours: StdioServerParameters, theirs: StdioServerParameters, count: int, query: str) -> list[Figure]:
    """Resident memory of the server before and after its first search by meaning, and the bytes of its schemas."""
    async with Client(theirs):
        least = _resident_mb()
    async with Client(ours) as client:
        listed = await client.list_tools()
        before = _resident_mb()
        await client.call_tool("memory_search", {"query": query, "limit": LIMIT})
        after = _resident_mb()
    tools = [tool.model_dump(by_alias=True, exclude_none=True, mode="json") for tool in listed.tools]
    schema = figure("tools/list", 0, "bytes", [len(msgspec.json.encode(tools))], note=f"{len(tools)} tools")
    if not (least and before and after):
        return [schema]
    return [
        figure("server RSS, model not loaded", count, "MB", [before], [least], note="SDK server without tools"),
        figure("server RSS, model loaded", count, "MB", [after], [least], note="SDK server without tools"),
        schema,
    ]


async def _search(ours: StdioServerParameters, bare: BareHybrid, count: int, queries: Sequence[str]) -> Figure:
    """Hybrid search through the protocol, taking turns with the bare one in process."""
    mine, others = [], []
    async with Client(ours) as client:
        for query in queries[:WARM_UP]:
            await client.call_tool("memory_search", {"query": query, "limit": LIMIT})
        await anyio.sleep(SETTLE_S)
        for query in queries[WARM_UP:]:
            start = time.perf_counter()
            answer = await client.call_tool("memory_search", {"query": query, "limit": LIMIT})
            mine.append((time.perf_counter() - start) * 1000)
            if answer.is_error:
                raise SystemExit(f"The server refused a search: {answer.content}")
            others.append(milliseconds(lambda: bare.search(query)))  # noqa: B023 - called at once
    note = "query embedding, numpy scan and FTS5, in process"
    return figure("search, hybrid over MCP stdio", count, "ms", mine, others, note=note)


def _resident_mb() -> float:
    """Resident megabytes of this process's one child; 0 where the system does not tell."""
    children = [pid for task in Path("/proc/self/task").glob("*/children") for pid in task.read_text().split()]
    if not children:
        return 0.0
    status = Path(f"/proc/{children[-1]}/status").read_text(encoding="utf-8")
    lines = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(lines[0].split()[1]) / 1000 if lines else 0.0
