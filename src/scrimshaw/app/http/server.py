"""`scrimshaw serve --http`: MCP over streamable HTTP, behind tokens, limits and checks of a request's origin."""

import logging
import re
import signal
import socket
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from scrimshaw.app.cli.output import note
from scrimshaw.app.http.across import add_vault
from scrimshaw.app.http.tokens import TokenFile, TokenScope, find_vaults
from scrimshaw.app.http.vaults import Caller, Vaults, find_required_scope
from scrimshaw.app.mcp.protocol import Backend, build_shared_server, read_listing
from scrimshaw.app.mcp.tools import choose
from scrimshaw.app.serve import INSTRUCTIONS
from scrimshaw.config import Settings
from scrimshaw.errors import ConfigError, ScrimshawError, StorageFailure, describe_os_error
from scrimshaw.models import format_time

WORKER_THREADS = 16  # calls at once: Python computes one at a time, and the others wait for disk or database
MOST_CONNECTIONS = 512  # beyond these a client is asked to come back later
MOST_BYTES = 4 * 1024 * 1024  # of a request: twice the largest memory file, encoded as JSON
READ_S, IDLE_S, STOP_S = 10.0, 15, 10  # for the body of a request; between two of a connection; for running ones
RATE_PER_S, BURST = 50.0, 200.0  # agents send a few a second; a runaway program is slowed down before it slows others
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_CALLER = "scrimshaw.caller"

_log = logging.getLogger(__name__)


class Listener(NamedTuple):
    """Where a server listens, and how clients reach it."""

    host: str
    port: int
    names: tuple[str, ...] = ()  #: host names of the server, in addition to its address
    certificate: Path | None = None
    key: Path | None = None
    is_behind_proxy: bool = False  #: whether a proxy in front terminates TLS

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in _LOOPBACK or re.fullmatch(r"127(?:\.\d{1,3}){3}", self.host) is not None

    @property
    def hosts(self) -> frozenset[str]:
        """The names allowed in a request; with others a web page could reach servers that are not its own."""
        return frozenset({*map(str.lower, self.names), self.host.lower(), *(_LOOPBACK if self.is_local else ())})

    def demand_safe(self, has_tokens: bool) -> None:
        """Raise ConfigError if others could read the traffic or enter."""
        if bool(self.certificate) != bool(self.key):
            raise ConfigError("TLS takes a certificate and its key.", "Give --tls-cert and --tls-key.")
        if self.is_local:
            return
        if not has_tokens:
            message = f"There is no token, and others can reach {self.host}."
            raise ConfigError(message, "Create one: `scrimshaw token create NAME`.")
        if not (self.certificate or self.is_behind_proxy):
            hint = "Give --tls-cert and --tls-key, or --behind-proxy where a proxy in front ends TLS (docs/team.md)."
            raise ConfigError(f"On {self.host} tokens and memories would cross the network in plain text.", hint)
        if not self.names:
            raise ConfigError("A server for others needs a name.", "Name it as clients do: --name memory.example.org")


def serve_http(settings: Settings, toolsets: str, listener: Listener) -> None:
    """Serve until a signal stops it; raises ConfigError, InvalidRequest and StorageFailure before the first request."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="scrimshaw: %(message)s")
    tokens, folders = TokenFile(settings.home), find_vaults(settings)
    known = tokens.tokens()
    listener.demand_safe(bool(known))
    vaults = Vaults(folders, toolsets, settings.vaults)
    app = Gate(_build_app(vaults, toolsets), tokens, vaults, listener.hosts)
    try:
        family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
        listening = socket.create_server((listener.host, listener.port), family=family, backlog=MOST_CONNECTIONS)
    except OSError as error:
        message = f"Cannot listen on {listener.host}:{listener.port}: {describe_os_error(error)}."
        raise StorageFailure(message, "Choose another --port or --host.") from error
    config = uvicorn.Config(
        app, log_config=None, log_level=logging.WARNING, access_log=False, server_header=False, proxy_headers=False,
        ws="none", lifespan="on", ssl_certfile=listener.certificate, ssl_keyfile=listener.key,
        limit_concurrency=MOST_CONNECTIONS, timeout_keep_alive=IDLE_S, timeout_graceful_shutdown=STOP_S,
    )  # fmt: skip
    # uvicorn raises the signal that stopped it again when all is closed; nothing is left to do by then.
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, lambda *_: None)
    scheme, host = "https" if listener.certificate else "http", listener.host
    host = f"[{host}]" if ":" in host else host
    with listening, vaults.open_all() as names:
        note(f"Serving {', '.join(names)} at {scheme}://{host}:{listening.getsockname()[1]}/mcp")
        if not known:
            note("Nobody can connect yet: create a token with `scrimshaw token create NAME`.")
        uvicorn.Server(config).run(sockets=[listening])


class Gate:
    """Admits requests from permitted places, with a token, within the limits of rate and size."""

    def __init__(self, app: ASGIApp, tokens: TokenFile, vaults: Vaults, hosts: frozenset[str]) -> None:
        self._app, self._tokens, self._vaults, self._hosts = app, tokens, vaults, hosts
        self._credit = dict[str, tuple[float, float]]()  #: by token: requests it may send at once, as of a time

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on with its caller and its whole body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        body = self._check_place(request) or self._check_caller(request) or await _read_body(receive)
        if isinstance(body, Response):
            await body(scope, receive, send)
            return
        waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return waiting.pop() if waiting else await receive()

        await self._app(scope, replay, send)

    def _check_place(self, request: Request) -> Response | None:
        """Refuse a request sent by a page of another site, under any name by which it reached this server."""
        places = [f"//{request.headers.get('host', '')}", *request.headers.getlist("origin")]
        try:
            is_own = all((urlsplit(place).hostname or "").lower() in self._hosts for place in places)
        except ValueError:  # an address with an unclosed bracket
            is_own = False
        return None if is_own else _refuse(421, "host", "This server has another name.")

    def _check_caller(self, request: Request) -> Response | None:
        """Refuse callers without a token or with too many requests; the caller is attached to the request."""
        if request.scope["path"] in ("/healthz", "/readyz"):  # probes have no token
            return None
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        try:
            found = self._tokens.find(secret.strip()) if kind.lower() == "bearer" else None
        except ScrimshawError as error:
            _log.error("Nobody can connect: %s", error)
            return _refuse(503, "tokens", "The server cannot read its tokens.")
        if found is None:
            return _refuse(401, "token", "A valid token is needed.", {"WWW-Authenticate": "Bearer"})
        now = time.monotonic()
        credit, since = self._credit.get(found.digest, (BURST, now))
        credit = min(BURST, credit + (now - since) * RATE_PER_S)
        is_over = credit < 1
        # A refusal costs nothing: otherwise one program that never waits would shut out all with its token.
        self._credit[found.digest] = (credit if is_over else credit - 1, now)
        if is_over:
            return _refuse(429, "rate", "Too many requests.", {"Retry-After": "1"})
        request.scope[_CALLER] = self._vaults.admit(found)
        return None


async def _read_body(receive: Receive) -> bytes | Response:
    """The whole body, or the refusal if it is too large or comes too slowly."""
    body = bytearray()
    with anyio.move_on_after(READ_S):
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return _refuse(400, "body", "The request was not finished.")
            body += message.get("body", b"")
            if len(body) > MOST_BYTES:
                return _refuse(413, "size", f"A request has at most {MOST_BYTES} bytes.")
            if not message.get("more_body"):
                return bytes(body)
    return _refuse(408, "slow", f"A request is sent within {READ_S:g} seconds.")


def _refuse(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": {"code": code, "message": message}}, status, headers)


def _build_app(vaults: Vaults, toolsets: str) -> ASGIApp:
    """The routes: MCP for all vaults and for each one, and those for a supervisor."""
    server = _build_server(vaults, toolsets)
    manager = StreamableHTTPSessionManager(server, json_response=True, stateless=True, max_request_body_size=MOST_BYTES)

    async def show_readiness(_: Request) -> Response:
        is_ready = await anyio.to_thread.run_sync(lambda: vaults.is_ready)
        return PlainTextResponse("ready\n" if is_ready else "not ready\n", 200 if is_ready else 503)

    async def show_metrics(request: Request) -> Response:
        names = [*request.scope[_CALLER].scopes]
        text = vaults.metrics.render(names, await anyio.to_thread.run_sync(vaults.measure, names))
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    async def show_token(request: Request) -> Response:
        token, scopes, waiting = request.scope[_CALLER]
        details = {"scopes": {**scopes, **waiting}, "waiting": [*waiting], "expires": format_time(token.expires)}
        return JSONResponse({"name": token.name, **details})

    answer = partial(_answer, manager)
    routes = [
        Route("/healthz", PlainTextResponse("ok\n"), methods=["GET"]),
        Route("/readyz", show_readiness, methods=["GET"]),
        Route("/metrics", show_metrics, methods=["GET"]),
        Route("/token", show_token, methods=["GET"]),
        Route("/pull/{vault}", partial(_request_pull, vaults), methods=["POST"]),
        Route("/mcp", answer, methods=["POST"]),
        Route("/mcp/{vault}", answer, methods=["POST"]),
    ]
    return Starlette(routes=routes, lifespan=lambda _: manager.run())


async def _answer(manager: StreamableHTTPSessionManager, request: Request) -> ASGIApp:
    """What answers a request: the SDK, or a refusal."""
    if _find_vaults(request):
        return manager.handle_request
    if request.path_params.get("vault") in request.scope[_CALLER].waiting:
        return _refuse(503, "waiting", "The server has not opened the vault yet; its log says why.")
    return _refuse(404, "vault", "There is no such vault for this token.")


async def _request_pull(vaults: Vaults, request: Request) -> Response:
    """Request a pull from a vault's remote now; the answer does not wait for it."""
    caller, name = request.scope[_CALLER], request.path_params["vault"]
    scope, exchange = {**caller.scopes, **caller.waiting}.get(name), vaults.exchanges.get(name)
    if scope is None or exchange is None:
        return _refuse(404, "vault", "There is no such vault for this token.")
    if not scope.includes(TokenScope.WRITE):
        return _refuse(403, "forbidden", "A pull needs the scope write.")
    exchange.request()
    return JSONResponse({"vault": name, "status": "requested"}, 202)


def _find_vaults(request: Request) -> list[str]:
    """The vault in a request's path, if the caller may enter it; without one in it, all that the caller may enter."""
    caller: Caller = request.scope[_CALLER]
    return [name for name in caller.scopes if request.path_params.get("vault", "") in ("", name)]


def _build_server(vaults: Vaults, toolsets: str) -> Server[Any]:
    """The SDK's server, which lists to each caller the tools that it may call."""
    tools, prompts = read_listing(toolsets)
    needed = {spec.name: find_required_scope(spec) for spec in choose(toolsets)}

    def list_tools(request: Request) -> list[Any]:
        names = _find_vaults(request)
        scopes = [request.scope[_CALLER].scopes[name] for name in names]
        mine = [tool for tool in tools if any(scope.includes(needed[tool.name]) for scope in scopes)]
        if len(names) == 1:
            return mine
        return [tool.model_copy(update={"input_schema": add_vault(tool.input_schema, names)}) for tool in mine]

    def find_backend(request: Request) -> Backend:
        return vaults.find_backend(request.scope[_CALLER], _find_vaults(request))

    return build_shared_server(list_tools, prompts, find_backend, lambda _: nullcontext(), INSTRUCTIONS, WORKER_THREADS)
