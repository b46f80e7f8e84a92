"""Standard input and output as the messages of a session; an invalid line gets an error, it is never dropped."""

import asyncio
import json
import math
import os
import threading
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
from mcp import types as wire
from mcp.os.win32.utilities import rebind_std_handle_to_fd
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from pydantic import ValidationError

from scrimshaw.ingest.payload import read_object, replace_half_characters

_BAD_ID = "id: Input should be a string or an integer that no unanswered request has"

# A key in every request of the newer protocol era, and the first method of the older one.
_ENVELOPE, _HANDSHAKE = "io.modelcontextprotocol/protocolVersion", "initialize"


class Wire:
    """Both directions of the process's only connection, in both protocol eras.

    A client that waits too long for an answer in one era may try the other; both are answered.
    """

    def __init__(self) -> None:
        # Incoming messages of the older and the newer era; which of the two the client has used.
        self._incoming = [anyio.create_memory_object_stream[SessionMessage | Exception]() for _ in (False, True)]
        self._used = set[bool]()
        self._answers, self._outgoing = anyio.create_memory_object_stream[SessionMessage | bytes](math.inf)
        # Ids of the requests that wait for an answer; None for those that the client may still send.
        self._requests: set[object] = {None}

    async def serve(self, server: Server[Any]) -> None:
        """Serve until the client hangs up and every request is answered, or until it no longer reads answers.

        From now on descriptor 0 is empty and 1 is standard error, so that a stray print cannot break the protocol.
        """
        stdin, stdout, lines = os.dup(0), os.dup(1), asyncio.Queue[bytes]()
        for descriptor, replacement in ((0, os.open(os.devnull, os.O_RDONLY)), (1, 2)):
            os.dup2(replacement, descriptor)
            rebind_std_handle_to_fd(descriptor)
        arguments = (stdin, lines, asyncio.get_running_loop())
        threading.Thread(target=_read_lines, args=arguments, name="stdin", daemon=True).start()
        options = server.create_initialization_options()
        async with server.lifespan(server) as state, anyio.create_task_group() as group:
            for _, messages in self._incoming:
                run = partial(serve_dual_era_loop, server, lifespan_state=state, init_options=options)
                group.start_soon(run, messages, self._answers.clone())
            group.start_soon(self._receive, lines)
            group.start_soon(self._send, stdout, group.cancel_scope)

    async def _receive(self, lines: asyncio.Queue[bytes]) -> None:
        while line := await lines.get():
            message, code, reason = _parse(line)
            metadata = None
            if isinstance(message, wire.JSONRPCRequest) and message.id not in self._requests:
                self._requests.add(message.id)
                metadata = ServerMessageMetadata(on_request_unanswered=partial(self._settle, message.id))
            elif refusal := _refuse(line, code, reason):
                self._answers.send_nowait(refusal)
                message = None
            if message:  # of the newer era; an ambiguous one too, if only that was ever used
                meta = (getattr(message, "params", None) or {}).get("_meta")
                is_said = isinstance(meta, dict) and _ENVELOPE in meta
                is_new = getattr(message, "method", "") != _HANDSHAKE and (is_said or self._used == {True})
                self._used.add(is_new)
                await self._incoming[is_new][0].send(SessionMessage(message, metadata))
        await self._settle(None)

    async def _send(self, stdout: int, session: anyio.CancelScope) -> None:
        async for item in self._outgoing:
            if isinstance(item, SessionMessage):
                await self._settle(getattr(item.message, "id", ...))
                item = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
            rest = memoryview(item + b"\n")
            try:
                while rest:
                    rest = rest[await anyio.to_thread.run_sync(os.write, stdout, rest) :]
            except OSError:
                session.cancel()
                return

    async def _settle(self, request: object) -> None:
        self._requests.discard(request)
        if not self._requests:
            self._answers.close()
            for stream, _ in self._incoming:
                stream.close()


def _parse(line: bytes) -> tuple[wire.JSONRPCMessage | None, int, str]:
    """The message of a line, or an error's code and text; half characters and invalid UTF-8 read as U+FFFD."""
    try:
        return wire.jsonrpc_message_adapter.validate_json(line, by_name=False), wire.INVALID_REQUEST, _BAD_ID
    except ValidationError as error:
        whole = replace_half_characters(line.decode("utf-8", "replace").lstrip("\ufeff")).encode()
        if whole != line:
            return _parse(whole)
        problem = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = problem["loc"][1:2]
        code = wire.INVALID_PARAMS if field == ("params",) else wire.INVALID_REQUEST
        code = wire.PARSE_ERROR if problem["type"] == "json_invalid" else code
        return None, code, ": ".join((*map(str, field), problem["msg"]))


def _refuse(line: bytes, code: int, reason: str) -> bytes:
    """The error for a request that cannot be read, with its id if that can be; none for a response or notification."""
    text = line.decode("utf-8", "replace").strip("\ufeff \t\r\n")
    message = read_object(text)
    is_response = "method" not in message and not message.keys().isdisjoint(("result", "error"))
    if not text or is_response or ("method" in message and "id" not in message):
        return b""
    number = message["id"] if type(message.get("id")) in (str, int) else None
    return json.dumps({"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": reason}}).encode()


def _read_lines(stdin: int, lines: asyncio.Queue[bytes], loop: asyncio.AbstractEventLoop) -> None:
    """Queue each line, then an empty one. Runs in a daemon thread, since a read cannot be interrupted."""
    with suppress(RuntimeError), os.fdopen(stdin, "rb") as reader:  # RuntimeError: the loop is closed
        with suppress(OSError):
            for line in reader:
                loop.call_soon_threadsafe(lines.put_nowait, line)
        loop.call_soon_threadsafe(lines.put_nowait, b"")
