"""The MCP SDK's side of the server: makes a server for both protocol eras from tools, resources and prompts.

The era is chosen by the client's first request (`server/discover` or `initialize`); nothing here depends on it.
Tools are synchronous and run in worker threads, so that a slow one does not hold up the others.
"""

import gc
import logging
import queue
import re
import signal
import threading
import traceback
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import Any, Protocol, TypeVar
from urllib.parse import quote, unquote
from uuid import uuid4

import anyio
import anyio.to_thread
import msgspec
from mcp import types as wire
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

import scrimshaw
from scrimshaw.app.mcp.schema import TOOLSETS, ToolSpec, choose_toolsets, decode, load_listing
from scrimshaw.app.mcp.stdio import Wire
from scrimshaw.errors import InvalidRequest, NotFound, ScrimshawError
from scrimshaw.ingest.invisible_characters import UNSEEN_IN_JSON, replace_invisible
from scrimshaw.storage.durable import failure_of

MEMORY_SCHEME = "memory://"
WORKER_THREADS = 4  # concurrent calls, others wait; a stdio server has one client, which sends a few at a time
OPEN_AFTER_S = 1.0  # then an idle server opens the memory, to make drafts: its start must be fast for the client
CALLBACK_DRAIN_SECONDS = 2.0  # how long a stopping server waits for callbacks after tools
ANSWER_FIRST_SECONDS = 0.01  # of a callback, so that the answer is sent first: both share the interpreter lock

_MARKDOWN = "text/markdown"
_WHAT, _ADDRESS = "One memory as Markdown; slashes in its id need no escaping.", MEMORY_SCHEME + "{id}"
_TEMPLATE = wire.ResourceTemplate(name="memory", uri_template=_ADDRESS, description=_WHAT, mime_type=_MARKDOWN)

_ESCAPE = re.compile(r"\\[bfru]")  # how JSON writes controls

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_Context = ServerRequestContext[Any, Any]
_Page = wire.PaginatedRequestParams | None


class ResourceReader(Protocol):
    """The source of `memory://` resources. Both methods may raise any ScrimshawError."""

    def page(self, cursor: str) -> tuple[Sequence[tuple[str, str]], str]:
        """Ids and titles of the page of a cursor, the first if it is empty, and the next cursor; InvalidRequest."""

    def read(self, memory_id: str) -> str:
        """One memory as Markdown."""


class FinishedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call and its answer: structured, and as compact JSON; `error` is the error's code."""

    call_id: str
    tool: str
    arguments: Mapping[str, Any]
    reply: Mapping[str, Any]
    text: str = ""
    error: str = ""


class InternalError(ScrimshawError, code="internal"):
    """A bug: an exception other than ScrimshawError. Its text is withheld, since it may quote anything."""


AfterTool = Callable[[FinishedCall], None]
Ready = Callable[[], object]  # called in the worker thread before a request is answered; it may wait


class CallQueue:
    """Runs a callback after each tool call, in order, on one background thread; no answer ever waits for it."""

    def __init__(self, after_tool: AfterTool) -> None:
        self._after_tool = after_tool
        self._finished: queue.SimpleQueue[FinishedCall | None] = queue.SimpleQueue()
        self.put = self._finished.put
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="after-tool", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End once the queued calls are processed, at the latest after CALLBACK_DRAIN_SECONDS."""
        self._stopping.set()
        self._finished.put(None)
        self._thread.join(CALLBACK_DRAIN_SECONDS)

    def _work(self) -> None:
        while (call := self._finished.get()) is not None:
            self._stopping.wait(ANSWER_FIRST_SECONDS)
            try:
                _contain_bugs(partial(self._after_tool, call), f"what follows a call of {call.tool}")
            except ScrimshawError as error:
                _log.warning("What follows a call of %s gave up: %s", call.tool, error.code)


class Dispatcher:
    """Runs tools by name: checks the arguments, calls the function, turns every failure into an answer."""

    def __init__(self, tools: Sequence[ToolSpec], engine: Any, after_tool: AfterTool | None = None) -> None:
        self._queue = CallQueue(after_tool) if after_tool else None
        self.tools, self.engine = {spec.name: spec for spec in tools}, engine

    def dispatch(self, name: str, arguments: Mapping[str, Any]) -> FinishedCall:
        """Run one call in the calling thread. A failure is an answer too; nothing is raised."""
        error = ""
        try:
            reply, text = _encode_reply(self.run(name, arguments))
        except Exception as failure:  # noqa: BLE001 - the edge of the process: a bug must not end the session
            refusal = _as_expected(failure, f"tool {name}")
            error = refusal.code
            reply, text = _encode_reply({"error": error_body(refusal)})
        tool = name if name in self.tools else ""  # stored names are not redacted, and this one may be any text
        call = FinishedCall(call_id=uuid4().hex, tool=tool, arguments=arguments, reply=reply, text=text, error=error)
        if self._queue:
            self._queue.put(call)
        return call

    def stop(self) -> None:
        """Wait until the finished calls are processed, but not for long."""
        if self._queue:
            self._queue.stop()

    def run(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """The answer of a tool; may raise anything."""
        if (spec := self.tools.get(name)) is None:
            listing = load_listing()
            toolset = next((each for each in TOOLSETS if name in {known["name"] for known in listing[each]}), "")
            tools = f"`scrimshaw serve --toolsets core,{toolset}` has it" if toolset else ""
            hint = tools or f"Tools: {', '.join(self.tools)}"
            raise NotFound(f"There is no tool `{name}` here.", f"{hint}.", parameter="name")
        return spec.run(self.engine, **decode(name, spec, arguments))


def error_body(error: ScrimshawError) -> dict[str, Any]:
    """An error as clients see it: `code` and `message`, and, if not empty, `parameter`, `hint`, `details`."""
    details = dict(error.details)
    parameter = details.pop("parameter", "")  # named by itself, and not among the details again
    body = {"code": error.code, "message": error.message, "parameter": parameter, "hint": error.hint}
    body["details"] = msgspec.to_builtins(details, str_keys=True, enc_hook=str)
    return {word: value for word, value in body.items() if value or word in ("code", "message")}


class Backend(msgspec.Struct, frozen=True):
    """The open memory and everything else that answers requests."""

    dispatcher: Dispatcher
    resources: ResourceReader
    prompts: Mapping[str, ToolSpec] = {}
    ready: Ready = bool
    is_outdated: Callable[[], bool] = bool  #: whether another one is to be opened


def read_listing(toolsets: str) -> tuple[list[wire.Tool], list[wire.Prompt]]:
    """The descriptions of toolsets and prompts, as written by `make docs`; raises InvalidRequest for unknown ones."""
    chosen, known = choose_toolsets(toolsets), load_listing()
    listed = [each for name in chosen for each in known[name]]
    bounds = ("maxLength", "minLength", "pattern")  # of texts; errors name them if they are exceeded
    for each in listed:
        rare, schema = each.pop("rare", ()), each["inputSchema"]
        if chosen != [*TOOLSETS]:
            del schema["additionalProperties"]  # a client may check a call by the schema before it sends it
            shown = [(name, kind) for name, kind in schema["properties"].items() if name not in rare]
            schema["properties"] = {name: {x: kind[x] for x in kind if x not in bounds} for name, kind in shown}
    return list(map(wire.Tool.model_validate, listed)), list(map(wire.Prompt.model_validate, known["prompts"]))


def build_server(
    tools: list[wire.Tool], prompts: list[wire.Prompt], provide: Callable[[], Backend], instructions: str = ""
) -> Server[Any]:
    """The SDK server for a listing; `provide` opens the backend, at the first question or a second after the start."""
    opening = _Opening(provide)
    return build_shared_server(
        lambda _: tools, prompts, lambda _: opening.open(), opening.open_soon, instructions, WORKER_THREADS
    )


def build_shared_server(
    list_tools: Callable[[Any], list[wire.Tool]],
    prompts: list[wire.Prompt],
    find_backend: Callable[[Any], Backend],
    lifespan: Callable[[Server[Any]], AbstractAsyncContextManager[None]],
    instructions: str,
    threads: int,
) -> Server[Any]:
    """The SDK server in which each HTTP request, None without HTTP, has its own tools and backend."""
    handlers = _Handlers(list_tools, find_backend, threads)
    templates = wire.ListResourceTemplatesResult(resource_templates=[_TEMPLATE])
    return Server(
        "scrimshaw",
        version=scrimshaw.__version__,
        title="Scrimshaw",
        instructions=instructions or None,
        lifespan=lifespan,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=partial(_return, templates),
        on_read_resource=handlers.read_resource,
        on_list_prompts=partial(_return, wire.ListPromptsResult(prompts=prompts)),
        on_get_prompt=handlers.get_prompt,
    )


def serve_stdio(server: Server[Any]) -> None:
    """Serve one client on standard input and output, in the main thread, until it hangs up and its calls are done."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # otherwise a stop would wait for another line on standard input
    gc.freeze()  # imported modules live forever; scanning them costs up to 60 ms during a call
    anyio.run(Wire().serve, server)


async def _return(answer: _T, _: Any, _params: Any) -> _T:
    """A handler, once it is given its answer."""
    return answer


class _Opening:
    """Opens the backend once, for all requests."""

    def __init__(self, provide: Callable[[], Backend]) -> None:
        self._provide = provide
        self._backends: list[Backend] = []
        self._opening = threading.Lock()

    def open(self) -> Backend:
        """The backend, opened once, unless it is outdated; after a failure it is tried again."""
        with self._opening:
            if not self._backends or self._backends[-1].is_outdated():
                self._backends.append(_contain_bugs(self._provide, "opening the memory"))
            return self._backends[-1]

    @asynccontextmanager
    async def open_soon(self, _: Server[Any]) -> AsyncIterator[None]:
        """The server's lifespan, in which the backend is opened even if nothing is asked."""
        begin = threading.Timer(OPEN_AFTER_S, self._open_unasked)
        begin.daemon = True
        begin.start()
        try:
            yield
        finally:
            begin.cancel()
            with self._opening:  # so that it is not closed half open
                for backend in self._backends:
                    backend.dispatcher.stop()

    def _open_unasked(self) -> None:
        with suppress(ScrimshawError):  # every question gets this error
            self.open()


class _Handlers:
    """The SDK's request handlers; each one is translation around a single call."""

    def __init__(
        self, list_tools: Callable[[Any], list[wire.Tool]], find_backend: Callable[[Any], Backend], threads: int
    ) -> None:
        self._list_tools, self._find_backend = list_tools, find_backend
        self._workers = anyio.CapacityLimiter(threads)

    async def list_tools(self, context: _Context, _: _Page) -> wire.ListToolsResult:
        return wire.ListToolsResult(tools=self._list_tools(context.request))

    async def call_tool(self, context: _Context, params: wire.CallToolRequestParams) -> wire.CallToolResult:
        name, arguments = params.name, params.arguments or {}
        call = await self._in_worker(context, lambda it: it.dispatcher.dispatch(name, arguments), f"tool {name}")
        content = wire.TextContent(text=call.text)
        return wire.CallToolResult(content=[content], structured_content=dict(call.reply), is_error=bool(call.error))

    async def list_resources(self, context: _Context, params: _Page) -> wire.ListResourcesResult:
        cursor = (params.cursor if params else None) or ""
        entries, following = await self._in_worker(context, lambda it: it.resources.page(cursor), "resources/list")
        named = [(MEMORY_SCHEME + quote(name), *map(replace_invisible, (name, title))) for name, title in entries]
        resources = [wire.Resource(uri=uri, name=name, title=title, mime_type=_MARKDOWN) for uri, name, title in named]
        return wire.ListResourcesResult(resources=resources, next_cursor=following or None)

    async def read_resource(self, context: _Context, params: wire.ReadResourceRequestParams) -> wire.ReadResourceResult:
        def read(backend: Backend) -> str:
            if not params.uri.startswith(MEMORY_SCHEME):
                hint = f"Use {MEMORY_SCHEME} and a memory id."
                raise InvalidRequest(f"`{params.uri}` is not a memory.", hint, parameter="uri")
            return backend.resources.read(unquote(params.uri.removeprefix(MEMORY_SCHEME)))

        text = await self._in_worker(context, read, "resources/read")
        contents = wire.TextResourceContents(uri=params.uri, mime_type=_MARKDOWN, text=text)
        return wire.ReadResourceResult(contents=[contents])

    async def get_prompt(self, context: _Context, params: wire.GetPromptRequestParams) -> wire.GetPromptResult:
        def render(backend: Backend) -> wire.GetPromptResult:
            if (spec := backend.prompts.get(params.name)) is None:
                known = ", ".join(backend.prompts) or "none"
                raise NotFound(f"There is no prompt `{params.name}`.", f"Prompts: {known}.", parameter="name")
            text = spec.run(backend.dispatcher.engine, **decode(params.name, spec, params.arguments or {}))
            message = wire.PromptMessage(role="user", content=wire.TextContent(text=text))
            return wire.GetPromptResult(description=spec.description, messages=[message])

        return await self._in_worker(context, render, f"prompt {params.name}")

    async def _in_worker(self, context: _Context, work: Callable[[Backend], _T], doing: str) -> _T:
        """Run `work` in a worker thread once the server is ready; failures become protocol errors."""

        def run() -> _T:
            backend = self._find_backend(context.request)
            backend.ready()
            return work(backend)

        try:
            return await anyio.to_thread.run_sync(_contain_bugs, run, doing, limiter=self._workers)
        except ScrimshawError as error:
            code = wire.INVALID_PARAMS if isinstance(error, InvalidRequest | NotFound) else wire.INTERNAL_ERROR
            raise MCPError(code, str(error), {"error": error_body(error)}) from None


def _contain_bugs(work: Callable[[], _T], doing: str) -> _T:
    """Run `work`; turn any exception into a ScrimshawError."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - the edge of the process: a bug must not end the session
        raise _as_expected(error, doing) from None


def _as_expected(error: Exception, doing: str) -> ScrimshawError:
    """The error for clients; a bug is logged by type and place only: its text may quote memory content."""
    if expected := error if isinstance(error, ScrimshawError) else failure_of(error):
        return expected
    _log.error("%s failed with %s\n%s", doing, type(error).__name__, "".join(traceback.format_tb(error.__traceback__)))
    hint = "Try again; if it stays, run `scrimshaw doctor` and see the server's log on standard error."
    return InternalError(f"A bug in Scrimshaw stopped {doing}.", hint)


def _encode_reply(reply: Any) -> tuple[dict[str, Any], str]:
    """A reply as structured content and as compact JSON, with every character visible."""
    text = msgspec.json.encode(reply).decode()
    body: dict[str, Any] = msgspec.json.decode(text)
    if _ESCAPE.search(text) or UNSEEN_IN_JSON.search(text):
        body = _make_visible(body)
        text = msgspec.json.encode(body).decode()
    return body, text


def _make_visible(value: Any) -> Any:
    """An answer without invisible characters: ids, paths and messages may be as hostile as texts."""
    if isinstance(value, str):
        return replace_invisible(value)
    if isinstance(value, dict):
        return {_make_visible(name): _make_visible(each) for name, each in value.items()}
    return [_make_visible(each) for each in value] if isinstance(value, list) else value
