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
writes: list[int] = []


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


def write(found: list[dict[str, Any]]) -> None:
    """Keep the notes; told to `die N`, the process ends behind its write number N, before it answers."""
    Path(f"{NOTES}.new").write_text(json.dumps(found))
    Path(f"{NOTES}.new").replace(NOTES)
    writes.append(1)
    word, _, value = (Path(CONTROL).read_text() if Path(CONTROL).exists() else "").partition(" ")
    if word == "die" and len(writes) >= int(value):
        os._exit(1)


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
async def read_graph() -> dict[str, Any]:
    """All notes."""
    await obey()
    return {"entities": notes(), "relations": []}


@server.tool()
async def create_entities(entities: list[dict[str, Any]]) -> dict[str, Any]:
    """Add the notes whose names are free."""
    await obey()
    found = notes()
    taken = {note["name"] for note in found}
    made = [entity for entity in entities if entity["name"] not in taken]
    write([*found, *made])
    return {"entities": made}


@server.tool(structured_output=False)
async def delete_entities(entityNames: list[str]) -> str:
    """Remove the notes of these names."""
    await obey()
    write([note for note in notes() if note["name"] not in entityNames])
    return "Entities deleted successfully"


@server.tool()
async def execute_forgetful_tool(tool_name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """As Forgetful answers."""
    await obey()
    found = notes()
    memories = [
        {**each, "id": number, "title": each["name"], "content": "\n".join(each["observations"])}
        for number, each in enumerate(found)
    ]
    if tool_name == "query_memory":
        assert {"query", "query_context", "k"} <= arguments.keys()
        return {"primary_memories": memories[: arguments["k"]]}
    if tool_name == "get_recent_memories":
        wanted = {*arguments["tags"]}
        listed = [each for each in memories if wanted & {*each.get("tags", ())} and not each.get("is_obsolete")]
        first = arguments["offset"]
        return {"memories": listed[first : first + min(arguments["limit"], 100)], "total_count": len(listed)}
    if tool_name == "get_memory":
        entry: dict[str, Any] = memories[arguments["memory_id"]]
        return entry
    content = arguments.get("content", "")
    if len(content) > 2000 or len(arguments.get("title", "")) > 200:
        raise ValueError("String should have at most 2000 characters")
    if tool_name == "create_memory":
        assert {"title", "content", "context", "keywords", "tags", "importance"} == arguments.keys()
        memory_id = len(found)
        found.append({**arguments, "observations": content.strip().split("\n"), "name": arguments["title"]})
    elif tool_name == "update_memory":
        memory_id = arguments.pop("memory_id")
        found[memory_id] |= {**arguments, "observations": content.strip().split("\n"), "name": arguments["title"]}
    else:
        assert tool_name == "mark_memory_obsolete"
        memory_id = arguments["memory_id"]
        found[memory_id] |= {"is_obsolete": True, "reason": arguments["reason"]}
    write(found)
    return {"id": memory_id}


if ADDRESS:
    server.run(transport="streamable-http", host="127.0.0.1", port=int(ADDRESS[0]))
else:
    server.run(transport="stdio")
