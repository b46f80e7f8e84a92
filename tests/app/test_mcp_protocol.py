"""The MCP layer, driven by the SDK's own client: in memory and over a real stdio process, in both protocol eras.

Run as a script, this file is the stdio server that the tests start.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import anyio
import msgspec
import pytest
from docs.tool_listing import input_schema, output_schema
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # ships no types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, TextContent, TextResourceContents
from tests.tool_server import build_server

import scrimshaw
import scrimshaw.app.mcp.protocol as protocol
from scrimshaw.app.mcp.protocol import (
    AfterTool,
    CallQueue,
    Dispatcher,
    FinishedCall,
    serve_stdio,
)
from scrimshaw.app.mcp.schema import decode, tool
from scrimshaw.app.mcp.tools import ALL_TOOLS
from scrimshaw.errors import Conflict, InvalidRequest, NotFound

pytestmark = pytest.mark.anyio

SECRET = "the content of a memory"
MODERN, LEGACY = "2026-07-28", "2025-11-25"
META = "io.modelcontextprotocol"


class Engine:
    """Stands in for the engine; the tools below only read its name."""

    name = "engine"


class Tier(StrEnum):
    NORMAL = "normal"
    CRITICAL = "critical"


class Span(msgspec.Struct, frozen=True, kw_only=True):
    start: int
    note: dict[str, str] = {}


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A class docstring, which is not for clients."""

    id: str
    score: float
    tier: Tier = Tier.NORMAL
    spans: tuple[Span, ...] = ()
    best: Span | None = None


class Range(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another one; what clients read is the parameter's description."""

    since: Annotated[str, msgspec.Meta(description="ISO date.")] = ""
    tiers: tuple[Tier, ...] = ()


class SearchCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    query: Annotated[str, msgspec.Meta(description="What to look for.", min_length=1, max_length=2000)]
    limit: Annotated[int, msgspec.Meta(description="Most hits to return.", ge=1, le=50)] = 8
    tier: Annotated[Tier | None, msgspec.Meta(description="Only this tier.")] = None
    range: Annotated[Range, msgspec.Meta(description="Only these.")] = Range()
    trace: bool = False


class SearchReply(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    hits: tuple[Hit, ...]
    session: Annotated[str | None, msgspec.Meta(description="Session the hits were weighed for.")] = None


class TextCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    text: str = ""


class TextReply(msgspec.Struct, frozen=True, kw_only=True):
    text: str


@tool(toolset="core", read_only=True)
def memory_search(engine: Engine, call: SearchCall) -> SearchReply:
    """Find memories.

    Best first.
    """
    hit = Hit(id=f"{engine.name}/{call.query}", score=0.5, best=Span(start=call.limit))
    return SearchReply(hits=(hit,) if call.limit > 1 else ())


@tool(toolset="core", destructive=True, idempotent=True)
def memory_edit(engine: Engine, call: TextCall) -> TextReply:
    """Always refused: somebody else was faster."""
    raise Conflict("The file changed.", "Read it again.", current_hash="abc", path=Path("a.md"))


@tool(toolset="core")
def memory_break(engine: Engine, call: TextCall) -> TextReply:
    """Has a bug that quotes content."""
    raise ValueError(SECRET)


@tool(toolset="core")
def memory_print(engine: Engine, call: TextCall) -> TextReply:
    """Prints where the wire would be."""
    sys.stdout.write("not JSON\n")
    sys.stdout.flush()
    return TextReply(text=call.text)


ANSWERED = threading.Event()


@tool(toolset="core")
def memory_wait(engine: Engine, call: TextCall) -> TextReply:
    """Waits until another call is answered."""
    return TextReply(text="late" if ANSWERED.wait(60) else "never")


TOOLS = (memory_search, memory_edit, memory_break, memory_print, memory_wait)


class RecallCall(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    topic: Annotated[str, msgspec.Meta(description="What to recall.")]
    limit: Annotated[int, msgspec.Meta(ge=1)] = 3


@tool()
def recall(engine: Engine, call: RecallCall) -> str:
    """Bring back what is known."""
    return f"Recall {call.limit} things about {call.topic} from {engine.name}."


class Reader:
    """Two pages of resources; any id can be read except `none` and `bug`."""

    def page(self, cursor: str) -> tuple[list[tuple[str, str]], str]:
        if cursor:
            return [("z", "Last")], ""
        return [("a b/ü#%20", "First")], "2"

    def read(self, memory_id: str) -> str:
        if memory_id == "none":
            raise NotFound("No memory `none`.", "Search first.")
        if memory_id == "bug":
            raise ValueError(SECRET)
        return f"# {memory_id}"


def make_server(after_tool: AfterTool | None = None) -> Server[Any]:
    return build_server(
        TOOLS,
        Engine(),
        resources=Reader(),
        prompts=(recall,),
        instructions="Search first.",
        after_tool=after_tool,
    )


def stdio_process() -> StdioServerParameters:
    path = os.pathsep.join(str(Path(each).parents[up]) for each, up in ((protocol.__file__, 3), (__file__, 2)))
    return StdioServerParameters(command=sys.executable, args=[__file__], env={**os.environ, "PYTHONPATH": path})


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["memory-modern", "memory-legacy", "stdio-modern", "stdio-legacy"])
def client(request: pytest.FixtureRequest) -> Client:
    """A client of each transport and era, not yet connected."""
    transport, era = request.param.split("-")
    server = make_server() if transport == "memory" else stdio_process()
    return Client(server, mode="auto" if era == "modern" else "legacy")


@pytest.fixture
def local() -> Client:
    return Client(make_server())


def error_of(result: CallToolResult) -> dict[str, Any]:
    """The structured error, checked to be the same in the text."""
    assert result.is_error
    assert text_of(result) == result.structured_content
    error: dict[str, Any] = result.structured_content["error"]
    return error


def text_of(result: CallToolResult) -> Any:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return json.loads(content.text)


# --- every transport, both eras


async def test_a_client_can_use_every_kind_of_request_in_one_session(client: Client) -> None:
    async with client:
        assert client.protocol_version == (LEGACY if client.mode == "legacy" else MODERN)
        assert client.instructions == "Search first."
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("scrimshaw", scrimshaw.__version__)
        assert [tool.name for tool in (await client.list_tools()).tools] == [spec.name for spec in TOOLS]
        found = await client.call_tool("memory_search", {"query": "wal"})
        refused = await client.call_tool("memory_search", {"query": "wal", "limit": 99})
        printed = await client.call_tool("memory_print", {"text": "wire is whole"})
        (memory,) = (await client.read_resource("memory://storage/wal")).contents
        (asked,) = (await client.get_prompt("recall", {"topic": "wal"})).messages
    hit = {"id": "engine/wal", "score": 0.5, "tier": "normal", "spans": [], "best": {"start": 8, "note": {}}}
    assert found.structured_content == text_of(found) == {"hits": [hit]}
    assert error_of(refused)["parameter"] == "limit"
    assert printed.structured_content == {"text": "wire is whole"}
    assert isinstance(memory, TextResourceContents)
    assert (memory.uri, memory.mime_type, memory.text) == ("memory://storage/wal", "text/markdown", "# storage/wal")
    assert isinstance(asked.content, TextContent)
    assert asked.content.text == "Recall 3 things about wal from engine."


async def test_text_copy_is_compact(client: Client) -> None:
    async with client:
        result = await client.call_tool("memory_search", {"query": "q", "limit": 1})
    assert [content.text for content in result.content if isinstance(content, TextContent)] == ['{"hits":[]}']


# --- errors


REFUSED = [
    ({"query": "q", "nope": 1}, "nope", "memory_search has no parameter `nope`."),
    ({}, "query", "memory_search needs the parameter `query`."),
    ({"query": 1}, "query", "memory_search cannot use `query`: Expected `str`, got `int`."),
    ({"query": ""}, "query", "memory_search cannot use `query`: Expected `str` of length >= 1."),
    ({"query": "q", "limit": "eight"}, "limit", "memory_search cannot use `limit`: Expected `int`, got `str`."),
    ({"query": "q", "limit": 0}, "limit", "memory_search cannot use `limit`: Expected `int` >= 1."),
    ({"query": "q", "tier": "x"}, "tier", "memory_search cannot use `tier`: Invalid enum value 'x'."),
    ({"query": "q", "range": {"tiers": ["normal", "x"]}}, "range.tiers[1]", None),
    ({"query": "q", "range": {"until": ""}}, "range.until", "memory_search has no parameter `range.until`."),
]


@pytest.mark.parametrize(("arguments", "parameter", "message"), REFUSED)
async def test_refused_arguments_are_named(
    local: Client, arguments: dict[str, Any], parameter: str, message: str | None
) -> None:
    async with local:
        error = error_of(await local.call_tool("memory_search", arguments))
    assert (error["code"], error["parameter"]) == ("invalid", parameter)
    assert message in (None, error["message"])


async def test_a_hint_names_the_parameters(local: Client) -> None:
    async with local:
        error = error_of(await local.call_tool("memory_search", {"query": "q", "nope": 1}))
    assert error["hint"] == "memory_search takes: query, limit, tier, range, trace."


async def test_null_is_accepted_for_an_optional_parameter(local: Client) -> None:
    async with local:
        assert not (await local.call_tool("memory_search", {"query": "q", "tier": None})).is_error


async def test_a_tool_that_is_not_there(local: Client) -> None:
    async with local:
        error = error_of(await local.call_tool("memory_forget", {}))
    assert (error["code"], error["parameter"]) == ("not_found", "name")
    assert "memory_search" in error["hint"]


async def test_an_engine_error_keeps_its_words(local: Client) -> None:
    async with local:
        error = error_of(await local.call_tool("memory_edit"))
    assert error == {
        "code": "conflict",
        "message": "The file changed.",
        "hint": "Read it again.",
        "details": {"current_hash": "abc", "path": "a.md"},
    }


async def test_a_bug_is_logged_by_place_and_tells_nothing(local: Client, caplog: pytest.LogCaptureFixture) -> None:
    async with local:
        result = await local.call_tool("memory_break")
        assert not (await local.call_tool("memory_search", {"query": "q"})).is_error
    assert error_of(result)["code"] == "internal"
    assert "memory_break failed with ValueError" in caplog.text
    assert "line" in caplog.text
    assert SECRET not in caplog.text + str(result)


async def test_a_reply_that_cannot_be_sent_is_a_bug_too() -> None:
    class Odd(msgspec.Struct):
        value: Any

    spec = msgspec.structs.replace(memory_search, run=lambda engine, call: Odd(object()))
    assert Dispatcher([spec], Engine()).dispatch("memory_search", {"query": "q"}).error == "internal"


def wire_call(number: int, arguments: Any) -> str:
    envelope = {f"{META}/protocolVersion": MODERN, f"{META}/clientCapabilities": {}}
    params = {"_meta": envelope, "name": "memory_search", "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})


def talk(lines: Sequence[str], answers: int, end: Callable[[subprocess.Popen[str]], None]) -> tuple[Any, int]:
    """Write lines to a server process, read its answers by id, end it; also its exit code."""
    process = stdio_process()
    with subprocess.Popen(
        [process.command, *process.args], env=process.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("\n".join(lines) + "\n")
        server.stdin.flush()
        received = [json.loads(server.stdout.readline()) for _ in range(answers)]
        end(server)
        return {answer["id"]: answer for answer in received}, server.wait(60)


def hang_up(server: subprocess.Popen[str]) -> None:
    assert server.stdin is not None
    server.stdin.close()


def test_nonsense_on_the_wire_ends_nothing() -> None:
    """A line that is no JSON and arguments that are no object are errors of the protocol, and the next call works."""
    lines = ["{nonsense", wire_call(1, [1]), wire_call(2, {"query": "q", "limit": 1})]
    answers, code = talk(lines, 3, hang_up)
    assert answers[None]["error"]["code"] == -32700
    assert answers[1]["error"]["code"] == -32602
    assert answers[2]["result"]["structuredContent"] == {"hits": []}
    assert code == 0


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_an_interrupt_ends_the_server_at_once() -> None:
    _, code = talk([wire_call(1, {"query": "q"})], 1, lambda server: server.send_signal(signal.SIGINT))
    assert code == -signal.SIGINT


# --- resources and prompts


@pytest.mark.parametrize(
    ("uri", "memory_id"),
    [
        ("memory://a/b/c", "a/b/c"),
        ("memory://a%2Fb%2Fc", "a/b/c"),
        ("memory://global/Mixed%20Case", "global/Mixed Case"),
        ("memory://%C3%BC/x%231", "ü/x#1"),
        ("memory://ü", "ü"),
    ],
)
async def test_a_resource_is_read_by_an_id_with_slashes(local: Client, uri: str, memory_id: str) -> None:
    async with local:
        (contents,) = (await local.read_resource(uri)).contents
    assert isinstance(contents, TextResourceContents)
    assert contents.text == f"# {memory_id}"


async def test_listed_resources_can_be_read(local: Client) -> None:
    async with local:
        first = await local.list_resources()
        second = await local.list_resources(cursor=first.next_cursor)
        (entry,) = first.resources
        (contents,) = (await local.read_resource(entry.uri)).contents
        (template,) = (await local.list_resource_templates()).resource_templates
    assert entry.uri == "memory://a%20b/%C3%BC%23%2520"
    assert (entry.name, entry.title) == ("a b/ü#%20", "First")
    assert isinstance(contents, TextResourceContents)
    assert contents.text == "# a b/ü#%20"
    assert ([last.name for last in second.resources], second.next_cursor) == (["z"], None)
    assert template.uri_template == "memory://{id}"


@pytest.mark.parametrize(
    ("uri", "number", "code"),
    [
        ("memory://none", -32602, "not_found"),
        ("file:///etc/passwd", -32602, "invalid"),
        ("memory://bug", -32603, "internal"),
    ],
)
async def test_resources_that_cannot_be_read(local: Client, uri: str, number: int, code: str) -> None:
    async with local:
        with pytest.raises(MCPError) as caught:
            await local.read_resource(uri)
    assert (caught.value.code, caught.value.data["error"]["code"]) == (number, code)
    assert SECRET not in str(caught.value)


async def test_the_prompt_and_its_arguments(local: Client) -> None:
    async with local:
        (listed,) = (await local.list_prompts()).prompts
        (message,) = (await local.get_prompt("recall", {"topic": "x", "limit": "5"})).messages
    assert (listed.name, listed.description) == ("recall", "Bring back what is known.")
    assert [(item.name, item.required) for item in listed.arguments or ()] == [("topic", True), ("limit", False)]
    assert isinstance(message.content, TextContent)
    assert message.content.text.startswith("Recall 5 things about x")


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("recall", {}, "needs the parameter `topic`"),
        ("recall", {"topic": "x", "limit": "0"}, "cannot use `limit`"),
        ("other", {}, "no prompt `other`"),
    ],
)
async def test_a_prompt_that_cannot_be_rendered_is_an_error_with_its_reason(
    local: Client, name: str, arguments: dict[str, str], words: str
) -> None:
    async with local:
        with pytest.raises(MCPError, match=words) as caught:
            await local.get_prompt(name, arguments)
    assert caught.value.code == -32602


# --- the loop stays free


async def test_a_slow_tool_does_not_hold_up_others(local: Client) -> None:
    order: list[str] = []

    async def call(name: str, arguments: dict[str, Any]) -> None:
        await local.call_tool(name, arguments)
        order.append(name)

    ANSWERED.clear()
    async with local, anyio.create_task_group() as group:
        group.start_soon(call, "memory_wait", {"text": ""})
        await call("memory_search", {"query": "q"})
        ANSWERED.set()
    assert order == ["memory_search", "memory_wait"]


# --- after-tool callbacks


async def test_the_callback_sees_every_call_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[FinishedCall] = []

    def fail(call: FinishedCall) -> None:
        seen.append(call)
        raise ValueError(SECRET) if call.error else InvalidRequest(SECRET)

    async with Client(make_server(fail)) as client:
        await client.call_tool("memory_search", {"query": "q", "limit": 1})
        await client.call_tool("memory_edit")
    found, refused = seen
    assert (found.tool, found.arguments, found.reply, found.error) == (
        "memory_search",
        {"query": "q", "limit": 1},
        {"hits": []},
        "",
    )
    assert (refused.tool, refused.error, refused.reply["error"]["code"]) == ("memory_edit", "conflict", "conflict")
    assert found.call_id != refused.call_id
    assert "What follows a call of memory_search gave up: invalid" in caplog.text
    assert "What follows a call of memory_edit gave up: internal" in caplog.text
    assert SECRET not in caplog.text


async def test_no_answer_waits_for_a_callback() -> None:
    release = threading.Event()
    done = threading.Event()

    def slow(call: FinishedCall) -> None:
        release.wait(60)
        done.set()

    async with Client(make_server(slow)) as client:
        assert not (await client.call_tool("memory_search", {"query": "q"})).is_error
        assert not done.is_set()
        release.set()
    assert done.is_set(), "a stopping server works off its queue"


def test_an_answer_goes_out_before_its_callbacks_run_and_a_stop_waits_for_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "ANSWER_FIRST_SECONDS", 60)
    done: list[str] = []
    calls = CallQueue(lambda call: done.append(call.call_id))
    for number in range(3):
        calls.put(FinishedCall(call_id=str(number), tool="t", arguments={}, reply={}))
    time.sleep(0.05)
    assert done == []
    calls.stop()
    assert done == ["0", "1", "2"]


def test_a_stuck_callback_does_not_hold_the_server_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "CALLBACK_DRAIN_SECONDS", 0.05)
    release = threading.Event()
    finished: list[str] = []

    def stuck(call: FinishedCall) -> None:
        release.wait(60)
        finished.append(call.call_id)

    calls = CallQueue(stuck)
    calls.put(FinishedCall(call_id="1", tool="t", arguments={}, reply={}))
    calls.stop()
    assert finished == []
    release.set()


# --- schemas


def test_input_schema_says_what_a_caller_needs() -> None:
    tiers = {"type": "string", "enum": ["critical", "normal"]}
    assert input_schema(SearchCall) == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for.", "minLength": 1, "maxLength": 2000},
            "limit": {
                "type": "integer",
                "description": "Most hits to return.",
                "minimum": 1,
                "maximum": 50,
                "default": 8,
            },
            "tier": {"description": "Only this tier.", **tiers},
            "range": {
                "description": "Only these.",
                "type": "object",
                "properties": {
                    "since": {"type": "string", "description": "ISO date."},
                    "tiers": {"type": "array", "items": tiers},
                },
                "additionalProperties": False,
            },
            "trace": {"type": "boolean"},
        },
        "required": ["query"],
        "additionalProperties": False,
    }


def test_output_schema_names_the_fields_of_the_reply_and_no_more() -> None:
    assert output_schema(SearchReply) == {
        "type": "object",
        "properties": {
            "hits": {"type": "array"},
            "session": {"type": ["string", "null"], "description": "Session the hits were weighed for."},
        },
    }


def test_odd_shapes_keep_their_meaning() -> None:
    class Odd(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        pair: tuple[int, str] = (0, "")
        either: int | str | None = None
        free: Any = None
        counts: dict[str, int] = {}

    sent = json.loads(msgspec.json.encode(Odd(pair=(1, "x"), counts={"a": 1})))
    for schema in (output_schema(Odd), input_schema(Odd)):
        Draft202012Validator.check_schema(schema)
        assert not list(Draft202012Validator(schema["properties"]["pair"]).iter_errors([1, "x"]))
    asked = input_schema(Odd)["properties"]
    assert list(Draft202012Validator(asked["pair"]).iter_errors(["x", "x"]))
    assert list(Draft202012Validator(asked["counts"]).iter_errors({"a": "b"}))
    assert not list(Draft202012Validator(output_schema(Odd)).iter_errors(sent))


def test_a_tool_without_parameters_still_has_an_object_for_them() -> None:
    class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
        pass

    assert input_schema(Nothing) == {"type": "object", "properties": {}, "additionalProperties": False}


ARGUMENT = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 60),
    st.sampled_from(["", "8", "normal", "critical", "ü"]),
    st.floats(0.1, 0.9),
    st.lists(st.sampled_from(["normal", "x"]), max_size=2),
    st.fixed_dictionaries({}, optional={"tiers": st.lists(st.sampled_from(["normal", "x"])), "z": st.none()}),
)
ARGUMENTS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("query", "limit", "tier", "range", "trace", "other"), ARGUMENT)
)


@given(ARGUMENTS)
def test_the_schema_and_the_check_agree(arguments: dict[str, Any]) -> None:
    """What the schema allows is taken; all else is refused by name, or stands for what it allows (null tier aside)."""
    schema, unset = Draft202012Validator(input_schema(SearchCall)), ("tier", None)
    is_allowed = schema.is_valid({name: value for name, value in arguments.items() if (name, value) != unset})
    try:
        taken = json.loads(msgspec.json.encode(decode("memory_search", memory_search, arguments)["call"]))
    except InvalidRequest as error:
        refusal = error
    else:
        assert schema.is_valid({name: value for name, value in taken.items() if (name, value) != unset})
        return
    assert not is_allowed
    assert refusal.details["parameter"]


async def test_the_tool_list_stays_small(local: Client) -> None:
    """Seven tools the size of a search with five parameters and two levels of reply: under 10 KB on the wire."""
    seven = [msgspec.structs.replace(memory_search, name=f"memory_search_{number}") for number in range(7)]
    server = build_server(seven, Engine(), resources=Reader())
    async with Client(server) as client:
        listed = (await client.list_tools()).model_dump_json(by_alias=True, exclude_none=True)
    assert len(listed) < 10_240
    assert "$ref" not in listed
    assert '"title":"SearchCall"' not in listed


# --- declaring tools


def test_a_tool_is_read_off_its_function() -> None:
    assert memory_search.name == "memory_search"
    assert memory_search.description == "Find memories.\n\nBest first."
    assert (memory_search.call, memory_search.reply) == (SearchCall, SearchReply)
    assert memory_search.toolset == "core"
    assert memory_search.run(Engine(), SearchCall(query="q", limit=1)) == SearchReply(hits=())


async def test_hints_on_the_wire(local: Client) -> None:
    async with local:
        search, edit, *_ = (await local.list_tools()).tools
    assert search.annotations is not None
    assert search.annotations.model_dump(exclude_none=True) == {"read_only_hint": True, "open_world_hint": False}
    assert edit.annotations is not None
    assert edit.annotations.model_dump(exclude_none=True) == {
        "read_only_hint": False,
        "destructive_hint": True,
        "idempotent_hint": True,
        "open_world_hint": False,
    }


def test_every_tool_says_what_it_does_and_takes_nothing_unknown() -> None:
    for spec in ALL_TOOLS:
        assert spec.description
        assert issubclass(spec.reply, msgspec.Struct)
        assert (spec.call.__struct_config__.frozen, spec.call.__struct_config__.forbid_unknown_fields) == (True, True)


def test_parameters_may_stand_in_the_signature() -> None:
    @tool(toolset="core")
    def repeat(engine: Engine, text: str, times: Annotated[int, msgspec.Meta(ge=1)] = 2) -> TextReply:
        """Repeat a text."""
        return TextReply(text=text * times)

    assert repeat.run(Engine(), **decode("repeat", repeat, {"text": "a"})) == TextReply(text="aa")
    assert input_schema(repeat.call)["required"] == ["text"]
    with pytest.raises(InvalidRequest, match="has no parameter `engine`"):
        decode("repeat", repeat, {"text": "a", "engine": 1})
    with pytest.raises(InvalidRequest, match="cannot use `times`"):
        decode("repeat", repeat, {"text": "a", "times": 0})


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    serve_stdio(
        build_server(
            TOOLS,
            Engine(),
            resources=Reader(),
            prompts=(recall,),
            instructions="Search first.",
        )
    )
