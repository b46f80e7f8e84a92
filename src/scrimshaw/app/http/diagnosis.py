"""`scrimshaw doctor --server`: what a client can find out about a server, with the requests of a client."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx2
import msgspec
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from scrimshaw import __version__
from scrimshaw.engine.health import Finding, Severity
from scrimshaw.errors import InvalidRequest
from scrimshaw.router.peers import explain_failure

PATIENCE_S = 20.0  # for one answer: the health of a large memory takes seconds
RENEWAL = timedelta(days=7)  # enough to ask for another token before this one ends
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_VERDICTS = {"healthy": Severity.OK, "degraded": Severity.WARNING}


def examine_server(url: str, secret: str) -> Iterator[Finding]:
    """The findings on a server, in the order in which a client meets problems; raises InvalidRequest."""
    if (place := urlsplit(url)).scheme not in ("http", "https") or not place.hostname:
        raise InvalidRequest(f"{url!r} is not the address of a server.", "Write https://HOST.", parameter="server")
    base = f"{place.scheme}://{place.netloc}{place.path.partition('/mcp')[0].rstrip('/')}"
    if place.scheme == "http" and place.hostname not in _LOOPBACK:
        detail = "tokens and memories cross the network in plain text"
        yield Finding("encryption", Severity.WARNING, detail, "Let a proxy end TLS, or use --tls-cert (docs/team.md).")
    headers = {"Authorization": f"Bearer {secret}"} if secret else {}
    with httpx2.Client(base_url=base, headers=headers, timeout=PATIENCE_S) as http:
        try:
            yield from _examine_process(http)
            yield from _examine_token(http)
        except* (httpx2.HTTPError, ValueError, MCPError) as group:  # ValueError: not a server of Scrimshaw
            detail = f"{base}: {explain_failure(group).message}"
            hint = "Check the address, that the server runs under this --name, and the proxy in front of it."
            yield Finding("answers", Severity.PROBLEM, detail, hint)


def _examine_process(http: httpx2.Client) -> Iterator[Finding]:
    """Whether it answers and is ready; raises ValueError if another server answers."""
    began = time.monotonic()
    health = http.get("/healthz")
    took = time.monotonic() - began
    if health.text != "ok\n":
        raise ValueError(f"it answers {health.status_code} to /healthz: {health.text[:100]}")
    yield Finding("answers", Severity.OK, f"{http.base_url} after {took * 1000:.0f} ms")
    if http.get("/readyz").status_code == 200:
        yield Finding("ready", Severity.OK, "every vault is open, and its files were seen")
    else:
        yield Finding("ready", Severity.WARNING, "it is still reading files", "Wait, or see the server's log.")


def _examine_token(http: httpx2.Client) -> Iterator[Finding]:
    """What the token permits, and until when; then each vault that it may enter."""
    hint = "On the server: `scrimshaw token list`, then `scrimshaw token create NAME`."
    if "authorization" not in http.headers:
        yield Finding("token", Severity.NOTE, "none was given, so no vault was examined", "Add --token-file.")
        return
    if (answer := http.get("/token")).status_code != 200:
        unknown = f"the server answers {answer.status_code}: {answer.text[:100]}"
        detail = "it is unknown, has expired or was revoked" if answer.status_code == 401 else unknown
        yield Finding("token", Severity.PROBLEM, detail, hint)
        return
    token = msgspec.json.decode(answer.content)
    may = ", ".join(f"{vault}: {scope}" for vault, scope in token["scopes"].items())
    detail = f"{token['name']}, {may or 'for no vault of this server'}, until {token['expires']}"
    if not may:
        yield Finding("token", Severity.PROBLEM, detail, hint)
    elif datetime.fromisoformat(token["expires"]) - datetime.now(UTC) < RENEWAL:
        yield Finding("token", Severity.WARNING, detail, f"It expires soon. {hint}")
    else:
        yield Finding("token", Severity.OK, detail)
    yield from _examine_vaults(http, token)


def _examine_vaults(http: httpx2.Client, token: Mapping[str, Any]) -> Iterator[Finding]:
    """Protocol and version, and the health of each vault that the token may enter."""
    for vault in (waiting := token.get("waiting", ())):
        hint = "See the server's log: its remote cannot be cloned, or has no memory."
        yield Finding(f"vault:{vault}", Severity.PROBLEM, "the server has not opened it", hint)
    if not (scopes := token["scopes"].keys() - waiting):
        return
    older, version, _ = asyncio.run(_connect(http, "", "legacy"))
    newer = {vault: asyncio.run(_connect(http, f"/{vault}", "auto")) for vault in sorted(scopes)}
    spoken = dict.fromkeys((*(protocol for protocol, _, _ in newer.values()), older))
    yield Finding("protocol", Severity.OK, f"it speaks {' and '.join(spoken)}")
    if version == __version__:
        yield Finding("version", Severity.OK, f"{version}, as here")
    else:
        hint = "Upgrade the older one (docs/operations.md)."
        yield Finding("version", Severity.NOTE, f"{version} there, {__version__} here", hint)
    for vault, (_, _, reply) in newer.items():
        if error := reply.get("error"):
            yield Finding(f"vault:{vault}", Severity.PROBLEM, error["message"], error.get("hint", ""))
            continue
        verdict = _VERDICTS.get(reply["status"], Severity.PROBLEM)
        lost = () if verdict == Severity.OK else reply.get("degraded", ())
        count = f"{reply['memories']} memories, {reply['vectors']['done']} of {reply['vectors']['total']} vectors"
        faults = (*reply.get("problems", ()), *(each["failure_mode"] for each in lost))
        fix = " ".join(dict.fromkeys(each["retry_recommendation"] for each in lost))
        yield Finding(f"vault:{vault}", verdict, "; ".join((reply["status"], count, *faults)), fix)


async def _connect(known: httpx2.Client, path: str, mode: Literal["auto", "legacy"]) -> tuple[str, str, dict[str, Any]]:
    """(version of the protocol, version of the server, answer of `memory_health`), in one era of the protocol."""
    async with httpx2.AsyncClient(headers=known.headers, timeout=PATIENCE_S) as http:
        transport = streamable_http_client(f"{str(known.base_url).rstrip('/')}/mcp{path}", http_client=http)
        async with Client(transport, mode=mode) as client:
            reply = await client.call_tool("memory_health", {})
            version = client.server_info.version if client.server_info else "an unknown version"
            return client.protocol_version, version, reply.structured_content or {}
