"""Letting a client work in a workspace, and what it says about its work."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp.shared.exceptions import MCPError
from tests.e2e import clients, sdk
from tests.e2e.model import FINAL_TEXT, SCENARIO, Model, running_model
from tests.e2e.traffic import read_traffic
from tests.e2e.workspace import PORT_MEMORY, Workspace
from tests.samples import SECRET


@dataclass(frozen=True)
class Driven:
    """Tools in the order of their results, the id of what was saved, and what was wrong."""

    client: str
    tools: Sequence[str] = ()
    saved_id: str = ""
    problems: Sequence[str] = ()


Drive = Callable[[Workspace], Driven]


def sdk_client(mode: sdk.Mode) -> Drive:
    """The official SDK's client in an era."""

    def drive(workspace: Workspace) -> Driven:
        try:
            saved_id, problems = sdk.session(workspace, mode)
        except (MCPError, ExceptionGroup) as error:
            return Driven("mcp-sdk", problems=[_cause(error)])
        if read_traffic(workspace.traffic).exit_code is None:
            problems.append("the server had to be killed: it did not end when its client hung up")
        return Driven("mcp-sdk", sdk.TOOLS, saved_id, problems)

    return drive


def _cause(error: Exception) -> str:
    """The first failure inside the groups that task groups wrap it in."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return repr(error)


def agent(client: clients.Client, npm: Path, model_program: Path) -> Drive:
    """An agent client under the scripted model."""

    def drive(workspace: Workspace) -> Driven:
        with running_model(model_program, workspace.root.parent, workspace.project, SCENARIO) as model:
            finished = clients.run(client, npm, workspace, model.url)
        (workspace.root / "output.txt").write_text(finished.output, encoding="utf-8")
        results = [
            (result.tool.removeprefix(f"mcp__{clients.SERVER}__"), result.text) for result in model.tool_results()
        ]
        replies = {tool: _reply(text) for tool, text in results}
        problems = [*_run_problems(finished), *_reply_problems(replies), *_echoes(model)]
        if client.told not in json.dumps(model.requests()[:1]):
            problems.append(f"the model was not told from the start: {client.told}")
        saved_id = str(replies.get("memory_save", {}).get("id", ""))
        return Driven(client.version(npm), [tool for tool, _ in results], saved_id, problems)

    return drive


def _reply(text: str) -> Mapping[str, Any]:
    """The reply of a tool; clients wrap it in words of their own, before and after."""
    start = text.find("{")
    try:
        reply, _ = json.JSONDecoder().raw_decode(text, max(0, start))
    except json.JSONDecodeError:
        return {}
    inner = reply.get("text") if isinstance(reply, dict) else None
    return _reply(inner) if isinstance(inner, str) else reply if isinstance(reply, dict) else {}


def _run_problems(finished: clients.Finished) -> Iterator[str]:
    if finished.exit_code is None:
        yield f"it did not end within {clients.TIMEOUT_S:g} s"
    elif finished.exit_code:
        yield f"it ended with exit code {finished.exit_code}"
    if FINAL_TEXT not in finished.output:
        yield "it did not reach the last step of the script"


def _reply_problems(replies: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    search, save = replies.get("memory_search", {}), replies.get("memory_save", {})
    if PORT_MEMORY not in [hit.get("id") for hit in search.get("hits", ())]:
        yield f"the model was not told of {PORT_MEMORY}: {search}"
    if save.get("status") != "saved" or not save.get("redacted"):
        yield f"the model was not told of a redacted save: {save}"


def _echoes(model: Model) -> Iterator[str]:
    for result in model.tool_results():
        if SECRET in result.text:
            yield f"{result.tool} gave the secret back"
