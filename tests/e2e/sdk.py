"""The official SDK's client over real stdio: what no agent client does in one run."""

from __future__ import annotations

from typing import Any, Literal

import anyio
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.types import TextContent, TextResourceContents
from tests.e2e.model import QUERY, SAVED_TEXT, SAVED_TITLE
from tests.e2e.workspace import MEMORIES, PORT_MEMORY, SERVER_ENVIRONMENT, Workspace
from tests.samples import SECRET

READ_TIMEOUT_S = 30.0
FACT = "8443"
TOOLS = ("memory_search", "memory_save", "memory_get")

Mode = Literal["auto", "legacy"]
"""`auto` asks `server/discover` first, `legacy` shakes hands."""


def connection(workspace: Workspace, mode: Mode) -> Client:
    """A client of the workspace's recorded server, not yet connected."""
    command, *arguments = workspace.recorded_serve()
    environment = {**SERVER_ENVIRONMENT, "HOME": str(workspace.home)}
    server = StdioServerParameters(command=command, args=arguments, env=environment, cwd=workspace.project)
    return Client(server, mode=mode, read_timeout_seconds=READ_TIMEOUT_S)


def session(workspace: Workspace, mode: Mode) -> tuple[str, list[str]]:
    """Search, save, get, list and read resources, ask for the prompt; the saved id, and what was wrong."""
    return anyio.run(_session, connection(workspace, mode))


async def _session(client: Client) -> tuple[str, list[str]]:
    async with client:
        found = await _call(client, "memory_search", query=QUERY)
        saved = await _call(client, "memory_save", title=SAVED_TITLE, content=f"{SAVED_TEXT}\n\n{SECRET}\n")
        got = await _call(client, "memory_get", id=saved.get("id", "?"))
        listed = await _resources(client)
        text = _text((await client.read_resource(f"memory://{PORT_MEMORY}")).contents[0])
        asked = _text((await client.get_prompt("recall", {"topic": QUERY})).messages[0].content)
    content = got.get("content", "")
    checks = {
        f"the search did not find {PORT_MEMORY} first: {found}": [h["id"] for h in found.get("hits", [])[:1]]
        == [PORT_MEMORY],
        "the save was not acknowledged": saved.get("status") == "saved",
        "what was saved cannot be read back": SAVED_TEXT in content and SECRET not in content,
        "memories are missing among the resources": len(listed) == len(MEMORIES) + 1,
        "the resource does not hold the memory": FACT in text,
        "the prompt does not bring the memory": FACT in asked,
    }
    return saved.get("id", ""), [problem for problem, holds in checks.items() if not holds]


async def _resources(client: Client) -> set[str]:
    """The addresses on all pages."""
    page = await client.list_resources()
    listed = {resource.uri for resource in page.resources}
    while page.next_cursor:
        page = await client.list_resources(cursor=page.next_cursor)
        listed |= {resource.uri for resource in page.resources}
    return listed


async def _call(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    return result.structured_content or {}


def _text(content: object) -> str:
    return content.text if isinstance(content, TextContent | TextResourceContents) else ""
