"""The MCP SDK's side of the server: tools, resources and prompts in, a server of both protocol eras out.

The era is chosen by the client's first request (`server/discover` or `initialize`); nothing here depends on it.
Tools are synchronous and run in worker threads, so that a slow one does not hold up the others.
"""

from __future__ import annotations

import gc
import logging
import queue
import re
import signal
import threading
import traceback
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, unquote

import anyio
import anyio.to_thread
import msgspec
from mcp import types as wire
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

import scrimshaw
from scrimshaw.app.mcp.schema import ToolSpec, decode, input_schema, output_schema
from scrimshaw.app.mcp.stdio import Wire
from scrimshaw.errors import InvalidRequest, NotFound, ScrimshawError
from scrimshaw.ingest.invisible_characters import replace_invisible
from scrimshaw.storage.durable import failure_of

MEMORY_SCHEME = "memory://"
# Calls worked on at once; further ones wait. A stdio server has one client, and clients send a few at a time.
WORKER_THREADS = 4
CALLBACK_DRAIN_SECONDS = 2.0  # how long a stopping server waits for after-tool callbacks
# What callbacks wait, so that the answer is sent first: both would share one interpreter lock.
ANSWER_FIRST_SECONDS = 0.01

_MARKDOWN = "text/markdown"
_NOT_READY = "afterToolCallbacks not available; ensure context-server Phase 0 hook pipeline is initialized first"
_TEMPLATE = wire.ResourceTemplate(
    name="memory",
    uri_template=MEMORY_SCHEME + "{id}",
    description="One memory as Markdown; the slashes of its id may stand as they are.",
    mime_type=_MARKDOWN,
)

# Bytes of JSON without which every character of an answer can be seen: no control, no escape of one, nothing but ASCII.
_MAYBE_UNSEEN = re.compile(rb"[\x7f-\xff]|\\[bfru]")

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_Context = ServerRequestContext[Any, Any]


class ResourceReader(Protocol):
    """Where `memory://` resources come from. Both methods may raise any ScrimshawError."""

    def page(self, cursor: str) -> tuple[Sequence[tuple[str, str]], str]:
        """Ids and titles of the page that a cursor names, the first for an empty one, and the cursor of the next."""
        ...

    def read(self, memory_id: str) -> str:
        """One memory as Markdown."""
        ...


class FinishedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call and its answer: structured, and as compact JSON; `error` is the error's code."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    reply: Mapping[str, Any]
    text: str = ""
    error: str = ""


class InternalError(ScrimshawError, code="internal"):
    """A bug: something was raised that is no ScrimshawError. Its text is withheld, since it may quote anything."""


AfterTool = Callable[[FinishedCall], None]
Ready = Callable[[], object]  # called in the worker thread before a request is answered; it may wait


class AfterToolCallbacks:
    """Callbacks run after each tool call, in order, on one background thread; no answer ever waits for them."""

    def __init__(self) -> None:
        self._callbacks: tuple[AfterTool, ...] = ()
        self._finished: queue.SimpleQueue[FinishedCall | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def start(self) -> None:
        """Begin to work; from now on callbacks can be registered."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._work, name="after-tool", daemon=True)
        self._thread.start()

    def register(self, callback: AfterTool) -> None:
        """Add a callback for every later call; raises RuntimeError before `start` and after `stop`."""
        if self._thread is None:
            raise RuntimeError(_NOT_READY)
        self._callbacks = (*self._callbacks, callback)

    def fire(self, call: FinishedCall) -> None:
        """Queue a finished call and return at once."""
        if self._callbacks:
            self._finished.put(call)

    def stop(self) -> None:
        """Forget the callbacks once the queued calls are worked off, at the latest after CALLBACK_DRAIN_SECONDS."""
        if self._thread is not None:
            self._stopping.set()
            self._finished.put(None)
            self._thread.join(CALLBACK_DRAIN_SECONDS)
        self._thread, self._callbacks = None, ()

    def _work(self) -> None:
        while (call := self._finished.get()) is not None:
            self._stopping.wait(ANSWER_FIRST_SECONDS)
            for callback in self._callbacks:
                try:
                    _contain_bugs(partial(callback, call), f"after-tool callback of {call.tool}")
                except ScrimshawError as error:
                    _log.warning("An after-tool callback of %s gave up: %s", call.tool, error.code)


class Dispatcher:
    """Runs tools by name: checks the arguments, calls the function, turns every failure into an answer."""

    def __init__(self, tools: Sequence[ToolSpec], engine: Any, ready: Ready = bool) -> None:
        self.after_tool = AfterToolCallbacks()
        self.tools = {spec.name: spec for spec in tools}
        self.engine = engine
        self.ready = ready

    def dispatch(self, name: str, arguments: Mapping[str, Any]) -> FinishedCall:
        """Run one call in the calling thread. A failure is an answer too; nothing is raised."""
        self.ready()
        spec, error = self.tools.get(name), ""
        try:
            if spec is None:
                raise NotFound(f"There is no tool `{name}`.", f"Tools: {', '.join(self.tools)}.", parameter="name")
            reply, text = _encode_reply(spec.run(self.engine, **decode(name, spec, arguments)))
        except Exception as failure:  # noqa: BLE001 - the edge of the process: a bug must not end the session
            refusal = _as_expected(failure, f"tool {name}")
            error = refusal.code
            reply, text = _encode_reply({"error": error_body(refusal)})
        tool = name if spec else ""  # names are stored as they are, and this one may be any text
        finished = FinishedCall(
            call_id=uuid.uuid4().hex, tool=tool, arguments=arguments, reply=reply, text=text, error=error
        )
        self.after_tool.fire(finished)
        return finished


def error_body(error: ScrimshawError) -> dict[str, Any]:
    """An error as clients see it: `code` and `message`, and where they say anything `parameter`, `hint`, `details`."""
    details = dict(error.details)
    parameter = details.pop("parameter", "")
    body = {"code": error.code, "message": error.message, "parameter": parameter, "hint": error.hint}
    body["details"] = msgspec.to_builtins(details, str_keys=True, enc_hook=str)
    return {word: value for word, value in body.items() if value or word in ("code", "message")}


def build_server(
    tools: Sequence[ToolSpec],
    engine: Any,
    *,
    resources: ResourceReader,
    prompts: Sequence[ToolSpec] = (),
    instructions: str = "",
    after_tool: Sequence[AfterTool] = (),
    ready: Ready = bool,
) -> Server[Any]:
    """The SDK server that serves these tools; each connection starts the after-tool callbacks and stops them."""
    named, workers = {spec.name: spec for spec in prompts}, anyio.CapacityLimiter(WORKER_THREADS)
    handlers = _Handlers(Dispatcher(tools, engine, ready), resources, named, after_tool, workers)
    templates = wire.ListResourceTemplatesResult(resource_templates=[_TEMPLATE])
    return Server(
        "scrimshaw",
        version=scrimshaw.__version__,
        title="Scrimshaw",
        instructions=instructions or None,
        lifespan=handlers.run_callbacks,
        on_list_tools=_always(wire.ListToolsResult(tools=list(map(_wire_tool, tools)))),
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=_always(templates),
        on_read_resource=handlers.read_resource,
        on_list_prompts=_always(wire.ListPromptsResult(prompts=list(map(_wire_prompt, prompts)))),
        on_get_prompt=handlers.get_prompt,
    )


def serve_stdio(server: Server[Any]) -> None:
    """Serve one client on standard input and output, in the main thread, until it hangs up and its calls are done."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # else the stop would wait for a last line on standard input
    gc.freeze()  # what is imported by now lives forever; walking it again costs up to 60 ms in the midst of a call
    anyio.run(Wire().serve, server)


def _always(answer: _T) -> Callable[[Any, Any], Awaitable[_T]]:
    """A handler for what never changes."""

    async def handle(_: Any, _params: Any) -> _T:
        return answer

    return handle


class _Handlers(msgspec.Struct, frozen=True):
    """The SDK's request handlers; each one is translation around a single call."""

    dispatcher: Dispatcher
    resources: ResourceReader
    prompts: Mapping[str, ToolSpec]
    after_tool: Sequence[AfterTool]
    workers: anyio.CapacityLimiter

    @asynccontextmanager
    async def run_callbacks(self, _: Server[Any]) -> AsyncIterator[None]:
        """The server's life: the callbacks are ready before the first request and done after the last."""
        pipeline = self.dispatcher.after_tool
        pipeline.start()
        for callback in self.after_tool:
            pipeline.register(callback)
        try:
            yield
        finally:
            pipeline.stop()

    async def call_tool(self, _: _Context, params: wire.CallToolRequestParams) -> wire.CallToolResult:
        work = partial(self.dispatcher.dispatch, params.name, params.arguments or {})
        call = await anyio.to_thread.run_sync(work, limiter=self.workers)
        content = wire.TextContent(text=call.text)
        return wire.CallToolResult(content=[content], structured_content=call.reply, is_error=bool(call.error))

    async def list_resources(self, _: _Context, params: wire.PaginatedRequestParams | None) -> wire.ListResourcesResult:
        cursor = (params.cursor if params else None) or ""
        entries, following = await self._in_worker(partial(self.resources.page, cursor), "resources/list")
        resources = [
            wire.Resource(
                uri=MEMORY_SCHEME + quote(memory_id),
                name=replace_invisible(memory_id),
                title=replace_invisible(title),
                mime_type=_MARKDOWN,
            )
            for memory_id, title in entries
        ]
        return wire.ListResourcesResult(resources=resources, next_cursor=following or None)

    async def read_resource(self, _: _Context, params: wire.ReadResourceRequestParams) -> wire.ReadResourceResult:
        def read() -> str:
            if not params.uri.startswith(MEMORY_SCHEME):
                hint = f"Use {MEMORY_SCHEME} and a memory id."
                raise InvalidRequest(f"`{params.uri}` is no memory.", hint, parameter="uri")
            return self.resources.read(unquote(params.uri.removeprefix(MEMORY_SCHEME)))

        text = await self._in_worker(read, "resources/read")
        contents = wire.TextResourceContents(uri=params.uri, mime_type=_MARKDOWN, text=text)
        return wire.ReadResourceResult(contents=[contents])

    async def get_prompt(self, _: _Context, params: wire.GetPromptRequestParams) -> wire.GetPromptResult:
        def render() -> wire.GetPromptResult:
            spec = self.prompts.get(params.name)
            if spec is None:
                known = ", ".join(self.prompts) or "none"
                raise NotFound(f"There is no prompt `{params.name}`.", f"Prompts: {known}.", parameter="name")
            text = spec.run(self.dispatcher.engine, **decode(params.name, spec, params.arguments or {}, strict=False))
            message = wire.PromptMessage(role="user", content=wire.TextContent(text=text))
            return wire.GetPromptResult(description=spec.description, messages=[message])

        return await self._in_worker(render, f"prompt {params.name}")

    async def _in_worker(self, work: Callable[[], _T], doing: str) -> _T:
        """Run `work` in a worker thread once the server is ready; its failure becomes the protocol's own error."""

        def run() -> _T:
            self.dispatcher.ready()
            return _contain_bugs(work, doing)

        try:
            return await anyio.to_thread.run_sync(run, limiter=self.workers)
        except ScrimshawError as error:
            code = wire.INVALID_PARAMS if isinstance(error, InvalidRequest | NotFound) else wire.INTERNAL_ERROR
            raise MCPError(code, str(error), {"error": error_body(error)}) from None


def _contain_bugs(work: Callable[[], _T], doing: str) -> _T:
    """Run `work`; whatever it raises is a ScrimshawError afterwards."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - the edge of the process: a bug must not end the session
        raise _as_expected(error, doing) from None


def _as_expected(error: Exception, doing: str) -> ScrimshawError:
    """The error as clients may see it; a bug is logged by type and place only: its text may quote memory content."""
    if expected := error if isinstance(error, ScrimshawError) else failure_of(error):
        return expected
    frames = "".join(traceback.format_tb(error.__traceback__))
    _log.error("%s failed with %s\n%s", doing, type(error).__name__, frames)
    hint = "Try again; if it stays, run `scrimshaw doctor` and see the server's log on standard error."
    return InternalError(f"A bug in Scrimshaw stopped {doing}.", hint)


def _encode_reply(reply: Any) -> tuple[dict[str, Any], str]:
    """A reply as structured content and as compact JSON, every character of it visible."""
    encoded = msgspec.json.encode(reply)
    body: dict[str, Any] = msgspec.json.decode(encoded)
    if _MAYBE_UNSEEN.search(encoded):
        body = _make_visible(body)
        encoded = msgspec.json.encode(body)
    return body, encoded.decode()


def _make_visible(value: Any) -> Any:
    """An answer with nothing unseen in any of its words: ids, paths and messages may be as hostile as texts."""
    if isinstance(value, str):
        return replace_invisible(value)
    if isinstance(value, dict):
        return {_make_visible(name): _make_visible(each) for name, each in value.items()}
    return [_make_visible(each) for each in value] if isinstance(value, list) else value


def _wire_tool(spec: ToolSpec) -> wire.Tool:
    # The protocol ignores the other two hints for a tool that only reads.
    hints: dict[str, Any] = {"destructive_hint": spec.destructive, "idempotent_hint": spec.idempotent}
    return wire.Tool(
        name=spec.name,
        description=spec.description,
        input_schema=input_schema(spec.call),
        output_schema=output_schema(spec.reply),
        annotations=wire.ToolAnnotations(
            read_only_hint=spec.read_only, open_world_hint=False, **({} if spec.read_only else hints)
        ),
    )


def _wire_prompt(spec: ToolSpec) -> wire.Prompt:
    schema = input_schema(spec.call)
    required = schema.get("required", ())
    arguments = [
        wire.PromptArgument(name=name, description=parameter.get("description"), required=name in required)
        for name, parameter in schema["properties"].items()
    ]
    return wire.Prompt(name=spec.name, description=spec.description, arguments=arguments)
