"""A server for a team that loses its database, or dies: what was acknowledged over HTTP stays, refusals are typed."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from tests.http_server import HttpServer, serve_http, write_shop
from tests.storage import postgres_server

from scrimshaw.app.http.tokens import TokenScope

pytestmark = pytest.mark.slow


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project with a memory."""
    return write_shop(tmp_path)


class Writers:
    """Clients that save without end: the titles that were acknowledged, and the codes of what was refused."""

    def __init__(self, server: HttpServer, secret: str) -> None:
        self._server, self._secret = server, secret
        self.saved, self.refused, self.is_over = dict[str, str](), Counter[str](), threading.Event()

    def save(self, writer: int) -> None:
        number = 0
        while not self.is_over.is_set():
            number += 1
            title = f"Harbour {writer} pier {number}"
            try:
                answer = self._server.call(
                    self._secret, "memory_save", title=title, content=f"Pier {number} of harbour {writer} is free."
                )
            except httpx2.TransportError:
                self.refused["no server"] += 1
                time.sleep(0.05)
                continue
            if "error" in answer:
                self.refused[answer["error"]["code"]] += 1
                time.sleep(0.01)
            else:
                self.saved[answer["id"]] = title


@contextmanager
def writing(server: HttpServer, project: Path, clients: int = 4) -> Iterator[Writers]:
    """So many clients that save; an answer without a type fails the test at the end."""
    writers = Writers(server, server.token("ana", {project: TokenScope.WRITE}))
    with ThreadPoolExecutor(clients) as pool:
        busy = [pool.submit(writers.save, number) for number in range(clients)]
        try:
            yield writers
        finally:
            writers.is_over.set()
        for each in busy:
            each.result()


def wait_until(is_so: Callable[[], bool], writers: Writers) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, (len(writers.saved), writers.refused)
        time.sleep(0.02)


def wait_for_more(writers: Writers, count: int = 5) -> None:
    """Until so many more saves were acknowledged."""
    wanted = len(writers.saved) + count
    wait_until(lambda: len(writers.saved) >= wanted, writers)


def wait_for_refusal(writers: Writers) -> None:
    """Until one more save was refused."""
    known = writers.refused.total()
    wait_until(lambda: writers.refused.total() > known, writers)


def assert_kept(server: HttpServer, project: Path, saved: Mapping[str, str]) -> None:
    """Each acknowledged memory is a file, and is told by a server."""
    secret = server.token("reader", {project: TokenScope.READ})
    for memory_id, title in saved.items():
        assert title in (project / f".scrimshaw/memories/{memory_id}.md").read_text()
    for memory_id in [*saved][:: max(1, len(saved) // 10)]:
        assert server.call(secret, "memory_get", id=memory_id)["memory"]["title"] == saved[memory_id]


@pytest.mark.skipif(not postgres_server.IS_HERE, reason="there is no PostgreSQL")
def test_a_database_that_is_killed_twice_loses_no_acknowledged_save(shop: Path, tmp_path: Path) -> None:
    database = postgres_server.begin()
    environment = {
        "SCRIMSHAW_STORAGE_ENGINE": "postgres",
        "SCRIMSHAW_STORAGE_URL": database.get_uri(),
        "SCRIMSHAW_STORAGE_VAULT": "chaos",
    }
    with serve_http(shop, tmp_path / "home", environment=environment) as server:
        with writing(server, shop) as writers:
            for _ in range(2):
                wait_for_more(writers)
                postgres_server.kill(database)
                wait_for_refusal(writers)
                postgres_server.begin_again(database)
            wait_for_more(writers)
        assert server.send("/healthz").status_code == 200
        assert writers.refused.keys() <= {"storage", "busy"}, writers.refused
        assert_kept(server, shop, writers.saved)


def test_a_server_that_is_killed_loses_no_acknowledged_save(shop: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with serve_http(shop, home) as server, writing(server, shop) as writers:
        wait_for_more(writers, 20)
        server.process.kill()
        server.process.wait()
    assert writers.refused.keys() <= {"no server"}, writers.refused
    with serve_http(shop, home) as again:
        assert_kept(again, shop, writers.saved)
