"""One name per thing in tools, on the command line and in front matter; what other tools call it is accepted too."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from tests.samples import write_memory

from scrimshaw.app.cli.main import app
from scrimshaw.app.mcp.protocol import Dispatcher, read_listing
from scrimshaw.app.mcp.schema import OTHER_NAMES, decode
from scrimshaw.app.mcp.tools import choose
from scrimshaw.engine import Engine
from scrimshaw.ingest import front_matter

MOST_SCHEMA_BYTES = 8192
MOST_SEARCH_PARAMETERS = 10
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


@pytest.fixture
def call(engine: Engine) -> Callable[..., dict[str, Any]]:
    """Call a tool by its name: the answer, which is no error."""
    dispatcher = Dispatcher(choose("all"), engine)

    def call(tool: str, **arguments: Any) -> dict[str, Any]:
        finished = dispatcher.dispatch(tool, arguments)
        assert not finished.error, finished.text
        return dict(finished.reply)

    return call


def listed(toolsets: str) -> dict[str, dict[str, Any]]:
    """The tools as a client is told of them."""
    return {tool.name: tool.model_dump(by_alias=True, exclude_none=True) for tool in read_listing(toolsets)[0]}


def option_names(command: Any) -> Iterator[str]:
    """The options of a command and of those below it, without their dashes."""
    for parameter in (each for each in command.params if each.param_type_name == "option"):
        yield from (name.lstrip("-").replace("-", "_") for name in parameter.opts)
    for below in getattr(command, "commands", {}).values():
        yield from option_names(below)


def test_the_tools_of_a_usual_server_cost_little() -> None:
    tools = listed("core")
    assert len(json.dumps({"tools": [*tools.values()]}, separators=(",", ":")).encode()) <= MOST_SCHEMA_BYTES
    assert len(tools["memory_search"]["inputSchema"]["properties"]) <= MOST_SEARCH_PARAMETERS


def test_all_toolsets_list_what_a_usual_server_accepts_unseen(call: Callable[..., dict[str, Any]]) -> None:
    core, everything = listed("core"), listed("all")
    for name, tool in core.items():
        shown, there = (each["inputSchema"]["properties"].keys() for each in (tool, everything[name]))
        assert shown <= there
        if hidden := there - shown:
            assert "additionalProperties" not in tool["inputSchema"], f"a client may refuse {hidden} of {name}"
    assert "trace" in call("memory_search", query="wax", include_trace=True)


def test_a_refusal_says_what_the_parameter_takes(engine: Engine) -> None:
    error = Dispatcher(choose("core"), engine).dispatch("memory_search", {"query": "wax", "tier": "x"}).reply["error"]
    assert error["hint"].startswith("`tier` takes {")
    assert '"enum":["constitutional",' in error["hint"]


def test_every_parameter_is_described() -> None:
    properties = {name: tool["inputSchema"]["properties"] for name, tool in listed("all").items()}
    assert not [(tool, name) for tool, each in properties.items() for name in each if not each[name].get("description")]


def test_no_tool_no_command_and_no_file_has_a_second_name() -> None:
    tools = listed("all").values()
    named = {name for tool in tools for side in ("inputSchema", "outputSchema") for name in tool[side]["properties"]}
    named |= {*option_names(typer.main.get_command(app)), *front_matter.SPELLINGS}
    second = {*OTHER_NAMES} | {spelling for others in front_matter.SPELLINGS.values() for spelling in others}
    assert not named & second
    assert not [name for name in named if re.search("[A-Z]", name)]


def test_other_spellings_are_accepted(engine: Engine, call: Callable[..., dict[str, Any]]) -> None:
    words = "We sign every login token with a rotating key, since a stolen one then dies within the hour."
    saved = call("memory_save", content=words, id="auth/login", contextType="decision", importance_tier="important")
    assert (saved["id"], saved["status"]) == ("auth/login", "saved")
    memory = call("memory_get", memoryId="auth/login")["memory"]
    assert (memory["type"], memory["tier"]) == ("decision", "important")
    assert call("memory_search", query="login token", specFolder="auth", includeTrace=True)["count"] == 1
    assert call("memory_list", spec_folder="auth")["total"] == 1
    assert call("memory_drift_why", memory_id="auth/login")["id"] == "auth/login"


@pytest.mark.parametrize(
    ("tool", "given", "taken"),
    [
        ("memory_search", {"query": "wax", "limit": "5"}, {"limit": 5}),
        ("memory_search", {"query": "wax", "include_content": "true"}, {"include_content": True}),
        ("memory_search", {"query": "wax", "channels": "text"}, {"channels": ["text"]}),
        ("memory_save", {"content": "wax", "topics": '["uv", "pip"]'}, {"topics": ["uv", "pip"]}),
        ("memory_save", {"content": "wax", "tags": "uv, pip,"}, {"topics": ["uv", "pip"]}),
        ("memory_save", {"content": "wax", "trigger_phrases": ""}, {"trigger_phrases": []}),
        ("memory_save", {"content": "wax", "questions": "In May, or?\nWho?"}, {"questions": ["In May, or?", "Who?"]}),
    ],
)
def test_a_value_in_quotes_is_taken_for_what_it_says(tool: str, given: dict[str, Any], taken: dict[str, Any]) -> None:
    (spec,) = (each for each in choose("all") if each.name == tool)
    decoded = json.loads(msgspec.json.encode(decode(tool, spec, given)))
    decoded = decoded.get("call", decoded)
    assert {name: decoded[name] for name in taken} == taken


@pytest.mark.parametrize("name", ["since", "until"])
@pytest.mark.parametrize("tool", ["memory_search", "memory_list", "memory_stats"])
def test_a_date_that_is_none_is_answered_with_one_that_is(engine: Engine, tool: str, name: str) -> None:
    arguments = {"query": "wax"} if tool == "memory_search" else {}
    for date in ("yesterday", "2026-13-45"):
        finished = Dispatcher(choose("all"), engine).dispatch(tool, {**arguments, name: date})
        assert finished.reply["error"]["message"] == f"'{date}' is not an ISO date."
        assert "2026-11-21" in finished.reply["error"]["hint"]


def test_a_thing_named_twice_is_refused(engine: Engine) -> None:
    finished = Dispatcher(choose("all"), engine).dispatch("memory_list", {"folder": "a", "spec_folder": "b"})
    assert (finished.error, finished.reply["error"]["parameter"]) == ("invalid", "spec_folder")


def test_times_are_iso_times(engine: Engine, vault: Path, call: Callable[..., dict[str, Any]]) -> None:
    write_memory(vault, "note", "Sealing wax keeps the water out.")
    call("memory_index_scan")
    call("memory_update", id="note", title="Wax")
    call("checkpoint_create", name="one")
    entry = call("memory_history", id="note")["entries"][0]
    assert (entry["id"], bool(ISO.fullmatch(entry["at"]))) == ("note", True)
    assert ISO.fullmatch(call("checkpoint_list")["checkpoints"][0]["created"])
