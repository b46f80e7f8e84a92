"""Connections to other memory servers over MCP: one thread of this process opens all of them and keeps them open.

A peer that failed is not asked for a while. One that is late is not asked again before it has answered, and its
answer is cached for the same question. So a dead or slow peer delays one search by its deadline, others not at all.
"""

import asyncio
import atexit
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, suppress
from typing import Any
from urllib.parse import urlsplit

import msgspec

from scrimshaw.config import PeerSettings, RouterSettings
from scrimshaw.errors import ConfigError, PeerDenied, PeerFailed, PeerRefused, describe_os_error
from scrimshaw.ingest.redact import redact
from scrimshaw.models import PeerTool
from scrimshaw.router.kinds import LARGEST_LIMIT, choose_tool, fill_in, read_hits
from scrimshaw.search.results import PeerHit
from scrimshaw.search.tokens import query_terms

ANSWER_S = 30.0  # a call or a start that takes longer has failed
LOG_S = 0.05  # how long the last line of a program that ended may take
CLOSE_S = 1.0  # how long the end of the process waits for connections to close
WORDS = 6  # of a query, the longest ones, if each is searched for separately
ANSWERS = 256  # cached answers of a peer

Answer = tuple[tuple[PeerHit, ...], float]  # the hits, and their age in seconds

_guard = threading.Lock()
_peers = dict[bytes, "Peer"]()
_loop: list[asyncio.AbstractEventLoop] = []


class Peer:
    """One peer. Its methods without `async` may be called from any thread."""

    def __init__(self, settings: PeerSettings, limits: RouterSettings, loop: asyncio.AbstractEventLoop) -> None:
        self.name = settings.name
        self._settings, self._limits, self._loop = settings, limits, loop
        self._fault, self._failed_at = "", 0.0
        self._last_words = ""  # what a command said last on standard error
        self._session: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[Any] = loop.create_future()
        self._late: Future[Answer] | None = None
        self._answers: dict[tuple[object, ...], tuple[float, tuple[PeerHit, ...]]] = {}

    @property
    def is_open(self) -> bool:
        """Whether the connection is open and nothing has failed since."""
        return self._opened.done() and not self._fault

    def begin(self, query: str, limit: int, generation: int) -> Future[Answer]:
        """Ask, unless the answer is cached; `generation` changes with every write to the own memory."""
        key, now, question = (query, limit, generation), time.monotonic(), Future[Answer]()
        if (cached := self._answers.get(key)) and now - cached[0] < self._limits.cache_s:
            question.set_result((cached[1], now - cached[0]))
            return question
        if self._fault and now - self._failed_at < self._limits.check_s:
            hint = f"It is asked again {self._limits.check_s:g} s after it failed."
            question.set_exception(PeerFailed(self._fault, hint))
        elif self._late and not self._late.done():
            fault = "it is still answering an earlier question"
            question.set_exception(PeerFailed(fault, "Ask again in a few seconds."))
        else:
            values = {"query": query, "limit": min(limit, LARGEST_LIMIT)}
            question = asyncio.run_coroutine_threadsafe(self.find(key, values), self._loop)
        return question

    def read(self, native_id: str, patience_s: float) -> PeerHit:
        """One entry of the peer, whole; raises PeerFailed."""
        tool = choose_tool(self._settings, "get")
        found = [*read_hits(self.name, tool, self.call(tool, {"id": parse_native_id(native_id)}, patience_s))]
        if not found:
            raise PeerFailed(f"it has no {native_id!r}.")
        return found[0]

    def probe(self) -> float:
        """Seconds until it has answered a question, including its start; raises PeerFailed."""
        began = time.monotonic()
        # The number makes the question new: a cached answer proves nothing.
        question = self.begin("whether it answers", 1, time.monotonic_ns())
        self.finish(question, self._limits.start_s + self._limits.deadline_ms / 1000)
        return time.monotonic() - began

    def call(self, tool: PeerTool, values: Mapping[str, Any], patience_s: float = ANSWER_S) -> Any:
        """The answer of a tool; raises PeerRefused if the peer refuses, PeerFailed if there is no answer."""
        future = asyncio.run_coroutine_threadsafe(self._call(tool, values), self._loop)
        try:
            return future.result(patience_s)
        except TimeoutError:
            raise PeerFailed(f"it did not answer in {patience_s:g} s.", "Ask again.") from None

    def finish(self, question: Future[Answer], patience_s: float) -> Answer:
        """The answer to a question; raises PeerFailed."""
        try:
            return question.result(patience_s)
        except TimeoutError:
            self._late, doing = question, "answered" if self.is_open else "started"
            fault = f"it has not {doing} in {patience_s * 1000:.0f} ms"
            raise PeerFailed(fault, "Ask again in a few seconds.") from None
        except ConfigError as error:
            raise PeerFailed(error.message, error.hint) from error

    def start(self) -> None:
        """Connect in advance, without waiting."""
        asyncio.run_coroutine_threadsafe(self.open(), self._loop)

    async def open(self) -> Any:
        """The client of the connection, opened if necessary; raises whatever the library does."""
        if self._session is None or self._session.done():
            self._opened, self._fault = self._loop.create_future(), ""
            self._session = self._loop.create_task(self.keep_open(self._opened))
        return await asyncio.shield(self._opened)

    async def close(self) -> None:
        if self._session:
            self._session.cancel()
            with suppress(asyncio.CancelledError):
                await self._session

    async def find(self, key: tuple[object, ...], values: Mapping[str, Any]) -> Answer:
        """Ask, and cache the answer; hits of more words of the query come first."""
        query, tool = values["query"], choose_tool(self._settings, "search")
        asked = sorted(query_terms(query), key=len)[-WORDS:] if tool.by_word else [query]
        answers = await asyncio.gather(*(self._call(tool, {**values, "query": each}) for each in asked))
        hits = Counter(hit for answer in answers for hit in read_hits(self.name, tool, answer) if hit.text)
        found = tuple(hit for hit, _ in hits.most_common())
        while len(self._answers) >= ANSWERS:
            del self._answers[next(iter(self._answers))]
        self._answers[key] = time.monotonic(), found
        return found, 0.0

    async def _call(self, tool: PeerTool, values: Mapping[str, Any]) -> Any:
        """The answer of a tool of the peer; opens the connection, and gives it up if the call fails."""
        try:
            async with asyncio.timeout(ANSWER_S):
                client = await self.open()
                result = await client.call_tool(tool.tool, fill_in(tool.arguments, values))
        except Exception as error:
            await asyncio.sleep(LOG_S if self._settings.command else 0)
            failure = explain_failure(error, self._settings.command[:1], self._last_words)
            self._fault, self._failed_at = failure.message, time.monotonic()
            if self._session:
                self._session.cancel()
                self._session = None
            raise failure from error
        texts = tuple(block.text for block in result.content if block.type == "text")
        if result.is_error:
            stated = (result.structured_content or {}).get("error")
            fault = stated if isinstance(stated, dict) else {}  # of another Scrimshaw
            text = " ".join(str(fault.get("message") or " ".join(texts)).split())[:200]
            raise PeerRefused(f"{tool.tool} refused: {text}", code=fault.get("code", ""))
        return texts if result.structured_content is None else result.structured_content

    def _listen(self, readable: int) -> None:
        with os.fdopen(readable, errors="replace") as log:
            while said := log.readline(1000):
                self._last_words = " ".join(said.split())[:200] or self._last_words

    async def keep_open(self, opened: asyncio.Future[Any]) -> None:
        """Keep a connection until cancelled: the library wants it closed by the task that opened it."""
        stated, limit_s, self._last_words = self._settings, self._limits.check_ms / 1000, ""
        try:
            if stated.url:  # far cheaper than importing the library for a server that is gone
                url = urlsplit(stated.url)
                port = url.port or (443 if url.scheme == "https" else 80)
                _, writer = await asyncio.wait_for(asyncio.open_connection(url.hostname, port), limit_s)
                writer.close()
            import httpx2  # noqa: PLC0415 - half a second for these, only where a peer is there
            from mcp.client import stdio  # noqa: PLC0415
            from mcp.client.client import Client  # noqa: PLC0415
            from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415

            async with AsyncExitStack() as stack:
                if stated.command:
                    program, *arguments = stated.command
                    # Two seconds in the library: this process would end before, and leave a server that hangs behind.
                    stdio.PROCESS_TERMINATION_TIMEOUT = CLOSE_S / 2
                    server = stdio.StdioServerParameters(command=program, args=arguments, env=dict(stated.env))
                    # What a server logs is not ours to print; the last line may say why it ended.
                    readable, writable = os.pipe()
                    threading.Thread(target=self._listen, args=(readable,), name="peer-log", daemon=True).start()
                    transport = stdio.stdio_client(server, stack.enter_context(os.fdopen(writable, "w")))
                else:
                    headers = {"Authorization": f"Bearer {stated.token}"} if stated.token else {}
                    patience = httpx2.Timeout(ANSWER_S, read=None)  # a stream may be silent
                    http = await stack.enter_async_context(httpx2.AsyncClient(headers=headers, timeout=patience))
                    transport = streamable_http_client(stated.url, http_client=http)
                opened.set_result(await stack.enter_async_context(Client(transport)))
                await asyncio.Event().wait()
        except Exception as error:  # noqa: BLE001 - a client library may raise anything, alone or in groups
            if not opened.done():
                opened.set_exception(error)
        finally:
            if not opened.done():
                opened.set_exception(PeerFailed("it was closed while it started"))


def connect_peer(settings: PeerSettings, limits: RouterSettings) -> Peer:
    """The connection of this process to a peer, opened by the first question."""
    key = msgspec.json.encode([settings, limits])
    with _guard:
        if not _loop:
            _loop.append(asyncio.new_event_loop())
            # It reports every server that is gone on standard error; answers and health already name them.
            logging.getLogger("mcp.client").setLevel(logging.CRITICAL)
            threading.Thread(target=_loop[0].run_forever, name="peers", daemon=True).start()
            atexit.register(close_peers)
        if key not in _peers:
            _peers[key] = Peer(settings, limits, _loop[0])
        return _peers[key]


def close_peers(patience_s: float = CLOSE_S) -> None:
    """End all connections; servers that this process started end with them."""
    with _guard:
        closing = [asyncio.run_coroutine_threadsafe(peer.close(), _loop[0]) for peer in _peers.values()]
        _peers.clear()
        for each in closing:
            with suppress(TimeoutError):
                each.result(patience_s)


def parse_native_id(text: str) -> str | int:
    """An id in its peer's form: those of databases are numbers."""
    return int(text) if text.isdecimal() else text


def explain_failure(error: Exception, program: Sequence[str] = (), last_words: str = "") -> PeerFailed:
    """The failure of a peer in one line, of several errors the first; PeerDenied if it rejects the credentials."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    is_denied = getattr(getattr(error, "response", None), "status_code", 0) in (401, 403)
    text = "no answer in time" if isinstance(error, TimeoutError) else " ".join(describe_os_error(error).split())[:200]
    text = text or type(error).__name__
    said = f"it last said {redact(last_words).text!r}" if last_words and not isinstance(error, TimeoutError) else ""
    return (PeerDenied if is_denied else PeerFailed)("; ".join(filter(None, (": ".join((*program, text)), said))))
