"""The dashboard's server: for one browser on this machine, and only for requests with the token.

Another page in the same browser may try to read the memory or to change it. So every request must name this server
in its Host header (a foreign name that resolves to this machine fails) and have the token as a cookie; a form
must come from these pages, as its Origin header and a second token show; and pages run only our own script.
"""

import hmac
import logging
import secrets
import socket
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple
from urllib.parse import parse_qsl

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from scrimshaw.app.web.figures import show_health, show_quality, show_statistics
from scrimshaw.app.web.graph import show_graph, show_neighbourhoods
from scrimshaw.app.web.markup import join, tag
from scrimshaw.app.web.memory import show_memory
from scrimshaw.app.web.page import Page, Site, Values, read_asset, render_page
from scrimshaw.app.web.review import accept_draft, reject_draft, show_changes, show_drafts, take_back, undo_change
from scrimshaw.app.web.search import show_search
from scrimshaw.app.web.sessions import list_sessions, show_session
from scrimshaw.engine import Engine, index
from scrimshaw.errors import Conflict, InvalidRequest, NotFound, ScrimshawError, VaultBusy, describe_os_error
from scrimshaw.ingest.redact import redact

HOST = "127.0.0.1"
_STATUS = {NotFound: 404, InvalidRequest: 400, Conflict: 409, VaultBusy: 503}
_ASSETS = {"style.css": "text/css", "keys.js": "text/javascript", "icon.svg": "image/svg+xml"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # without any referrer a form would have no origin
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_SHUT_DOWN_S = 1  # browsers keep their connections open; Ctrl-C does not wait for them
_log = logging.getLogger(__name__)

View = Callable[[Site, Values], Page]
VIEWS: Mapping[str, View] = {
    "/": show_search,
    "/memory/{id:path}": show_memory,
    "/sessions": list_sessions,
    "/sessions/{id:path}": show_session,
    "/drafts": show_drafts,
    "/changes": show_changes,
    "/graph": show_neighbourhoods,
    "/graph/{id:path}": show_graph,
    "/health": show_health,
    "/stats": show_statistics,
    "/quality": show_quality,
}
Action = Callable[[Site, Values], str]  # performs a form's action; returns the address to go to
ACTIONS: Mapping[str, Action] = {
    "/drafts/accept": accept_draft,
    "/drafts/reject": reject_draft,
    "/undo": take_back,
    "/changes/undo": undo_change,
}


class Access(NamedTuple):
    """Who is admitted: requests that call the server by one of its own names and have the token."""

    port: int
    token: str

    @property
    def url(self) -> str:
        """The address that opens the dashboard."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    @property
    def cookie(self) -> str:
        """The cookie's name, with the port: browsers send a machine's cookies to all of its ports."""
        return f"scrimshaw-{self.port}"

    def check(self, request: Request) -> Response | None:
        """The refusal of a request; None if it is admitted."""
        host = request.headers.get("host", "")
        if host not in (f"{HOST}:{self.port}", f"localhost:{self.port}"):
            return PlainTextResponse("This server answers to no other name than its own.", 421)
        if request.method == "POST" and request.headers.get("origin") != f"http://{host}":
            return PlainTextResponse("This form was sent by another page.", 403)
        if request.method == "GET" and _is_same(request.query_params.get("token", ""), self.token):
            asked = request.url.remove_query_params("token")
            response = RedirectResponse(asked.path + (f"?{asked.query}" if asked.query else ""), 303)
            response.set_cookie(self.cookie, self.token, httponly=True, samesite="strict")
            return response
        has_key = _is_same(request.cookies.get(self.cookie, ""), self.token)
        if not has_key and not request.url.path.startswith("/assets/"):
            message = "Open the address that `scrimshaw ui` printed: it holds the key to this page."
            return PlainTextResponse(message, 403)
        return None


def build_app(engine: Engine, access: Access, *, can_edit: bool = False) -> ASGIApp:
    """The dashboard of an open memory; its pages only show, unless a person may edit on them."""
    site = Site(engine, secrets.token_urlsafe() if can_edit else "")
    routes = [Route(f"/assets/{name}", Response(read_asset(name), media_type=kind)) for name, kind in _ASSETS.items()]
    routes += (Route(path, partial(_send_page, site, view)) for path, view in VIEWS.items())
    for path, act in ACTIONS.items() if can_edit else ():
        routes.append(Route(path, partial(_perform_action, site, act), methods=["POST"]))
    handlers = dict.fromkeys((404, ScrimshawError, Exception), partial(_send_error, site))
    app = Starlette(routes=routes, exception_handlers=handlers)

    async def guard(request: Request, answer: RequestResponseEndpoint) -> Response:
        response = access.check(request) or await answer(request)
        response.headers.update(_HEADERS)
        return response

    return BaseHTTPMiddleware(app, guard)  # outermost, so that error pages have the headers too


def run_dashboard(engine: Engine, port: int, announce: Callable[[str], None], *, can_edit: bool = False) -> None:
    """Serve until interrupted; `announce` gets the address once browsers can connect. Port 0 is any free one."""
    try:
        listener = socket.create_server((HOST, port))
    except OSError as error:
        message = f"Port {port} of {HOST} cannot be used: {describe_os_error(error)}."
        raise InvalidRequest(message, "Choose another one, or none for any that is free.", parameter="port") from error
    with listener:
        access = Access(listener.getsockname()[1], secrets.token_urlsafe())
        announce(access.url)
        # Requests are not logged: their addresses contain the token and the queries.
        app = build_app(engine, access, can_edit=can_edit)
        settings = uvicorn.Config(
            app, log_level="critical", access_log=False, ws="none", timeout_graceful_shutdown=_SHUT_DOWN_S
        )
        with suppress(KeyboardInterrupt):  # the server raises it again after shutting down
            uvicorn.Server(settings).run([listener])


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


def _send_page(site: Site, view: View, request: Request) -> Response:
    index.catch_up(site.engine)
    page = view(site, {**request.query_params, **request.path_params})
    return HTMLResponse(render_page(site, page, request.query_params.get("done", "")))


async def _perform_action(site: Site, act: Action, request: Request) -> Response:
    values = dict(parse_qsl((await request.body()).decode(errors="replace")))
    if not _is_same(values.get("token", ""), site.form_token):
        return PlainTextResponse("This form is of an older page. Go back, reload it, and try again.", 403)
    return RedirectResponse(await run_in_threadpool(act, site, values), 303)


def _send_error(site: Site, _: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        error = NotFound("There is no such page.", "Search, or choose one above.")
    if isinstance(error, ScrimshawError):
        status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 500)
        message, hint = error.message, error.hint
    else:
        # An error may quote texts from anywhere.
        _log.error("%s", redact("".join(traceback.format_exception(error))).text)
        status, message = 500, "A bug in Scrimshaw stopped this page."
        hint = "The terminal of `scrimshaw ui` says where."
    page = Page("This did not work", join(tag("p", message, class_="note"), tag("p", hint)), "")
    return HTMLResponse(render_page(site, page), status)
