"""A small memory server that speaks real MCP over stdio or HTTP; a control file makes it slow, match or refuse."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import MCPServer

NOTES, CONTROL, *ADDRESS = sys.argv[1:]

Path(f"{CONTROL}.pid").write_text(str(os.getpid()))
server = MCPServer("notes")


async def obey() -> None:
    """What the control file says: `sleep N`, or `fail`."""
    word, _, value = (Path(CONTROL).read_text() if Path(CONTROL).exists() else "").partition(" ")
    if word == "sleep":
        await asyncio.sleep(float(value))
    if word == "fail":
        raise ValueError("the notes are on fire")
    with Path(f"{CONTROL}.calls").open("a") as calls:
        calls.write("call\n")


def notes() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(Path(NOTES).read_text())
    return found


@server.tool()
async def search_nodes(query: str) -> dict[str, Any]:
    """Every note; told to match, those that hold the query as it stands."""
    await obey()
    is_matching = Path(CONTROL).exists() and Path(CONTROL).read_text() == "match"
    wanted = query.casefold() if is_matching else ""
    return {"entities": [note for note in notes() if wanted in json.dumps(note).casefold()]}


@server.tool()
async def open_nodes(names: list[str]) -> dict[str, Any]:
    """The notes of these names."""
    return {"entities": [note for note in notes() if note["name"] in names]}


@server.tool()
async def execute_forgetful_tool(tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """As Forgetful answers."""
    found = [
        {"id": n, "title": each["name"], "content": "\n".join(each["observations"])} for n, each in enumerate(notes())
    ]
    if tool_name == "query_memory":
        assert {"query", "query_context", "k"} <= arguments.keys()
        return {"primary_memories": found[: arguments["k"]]}
    entry: dict[str, Any] = found[arguments["memory_id"]]
    return entry


if ADDRESS:
    server.run(transport="streamable-http", host="127.0.0.1", port=int(ADDRESS[0]))
else:
    server.run(transport="stdio")
