"""A real server process over HTTP, and what sends requests to it."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from tests.samples import write_memory

from scrimshaw.app.http.tokens import TokenFile, TokenScope

PROGRAM = (sys.executable, "-c", "from scrimshaw.app.cli import run; run()", "serve", "--http", "--port", "0")
_ADDRESS = re.compile(r"https?://\S+(?=/mcp)")
PATIENCE_S = 60.0
_T = TypeVar("_T")


class HttpServer(NamedTuple):
    """A server that answers; `home` is its user's Scrimshaw folder."""

    process: subprocess.Popen[bytes]
    url: str
    home: Path

    def token(self, name: str, scopes: Mapping[Path, TokenScope], days: float = 1.0) -> str:
        """The secret of a new token for these projects."""
        return TokenFile(self.home).create(name, {str(path.resolve()): scope for path, scope in scopes.items()}, days)[
            1
        ]

    def send(self, path: str = "/mcp", secret: str = "", **more: Any) -> httpx2.Response:
        """One request; with `json` a POST."""
        headers = {"Accept": "application/json, text/event-stream", **more.pop("headers", {})}
        if secret:
            headers["Authorization"] = f"Bearer {secret}"
        method = more.pop("method", "POST" if "json" in more or "content" in more else "GET")
        # The system's list of authorities takes 50 ms to read, and no test serves over TLS.
        return httpx2.request(method, self.url + path, headers=headers, timeout=PATIENCE_S, verify=False, **more)

    def call(self, secret: str, tool: str, *, path: str = "/mcp", **arguments: object) -> Any:
        """What a tool answers; an error as its code and words."""
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        return self.send(path, secret, json=message).json()["result"]["structuredContent"]

    def ask(
        self, secret: str, work: Callable[[Client], Awaitable[_T]], *, path: str = "/mcp", mode: str = "auto"
    ) -> _T:
        """What `work` gives with the SDK's own client."""

        async def run() -> _T:
            headers = {"Authorization": f"Bearer {secret}"}
            async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S, verify=False) as http:
                transport = streamable_http_client(self.url + path, http_client=http)
                async with Client(transport, mode=mode) as client:
                    return await work(client)

        return asyncio.run(run())


def write_shop(folder: Path) -> Path:
    """A project with a memory, below a folder."""
    write_memory(folder / "shop/.scrimshaw/memories", "gate", "# Gate\nThe harbour gate shuts at dusk.")
    return folder / "shop"


@contextmanager
def serve_http(
    project: Path,
    home: Path,
    *options: str,
    environment: Mapping[str, str] | None = None,
    program: Sequence[str] = PROGRAM,
) -> Iterator[HttpServer]:
    """A server of a project, by words alone, once it is ready."""
    known = {"SCRIMSHAW_HOME": str(home), "SCRIMSHAW_EMBEDDING_PROVIDER": "none", **(environment or {})}
    with tempfile.TemporaryFile() as log:
        command = [*program, *options]
        process = subprocess.Popen(
            command, env={**os.environ, **known}, cwd=project, stdin=subprocess.DEVNULL, stderr=log
        )
        try:
            server = HttpServer(process, _await_address(process, log), home)
            deadline = time.monotonic() + PATIENCE_S
            while server.send("/readyz").status_code != 200:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            yield server
        finally:
            process.kill()
            process.wait()


def _await_address(process: subprocess.Popen[bytes], log: Any) -> str:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        said = os.pread(log.fileno(), 65_536, 0).decode() if hasattr(os, "pread") else _read(log)
        if found := _ADDRESS.search(said):
            return found[0]
        assert process.poll() is None, said
        time.sleep(0.02)
    raise AssertionError("the server says no address")


def _read(log: Any) -> str:
    log.seek(0)
    said: str = log.read().decode()
    return said
