"""Real memory servers for the tests of peers: their notes, what they do with a question, and how they are reached."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scrimshaw.config import load
from scrimshaw.engine import Engine, open_engine
from scrimshaw.router.peers import close_peers

SERVER = str(Path(__file__).with_name("peer_server.py"))
TIDE = "The tide turns at nine, and the ferry waits for it."


class Notes:
    """The peer's notes and what it does with a question."""

    def __init__(self, folder: Path) -> None:
        self.file, self.control = folder / "notes.json", folder / "control"
        self.put(tide=TIDE)

    def put(self, **notes: str) -> None:
        entries = [{"name": name, "observations": text.split("\n")} for name, text in notes.items()]
        self.file.write_text(json.dumps(entries))

    def tell(self, what: str) -> None:
        self.control.write_text(what)

    def calls(self) -> int:
        counted = Path(f"{self.control}.calls")
        return len(counted.read_text().splitlines()) if counted.exists() else 0

    def command(self, *address: str) -> list[str]:
        return [sys.executable, SERVER, str(self.file), str(self.control), *address]


@pytest.fixture
def notes(tmp_path: Path) -> Notes:
    return Notes(tmp_path)


Open = Callable[..., Engine]


@pytest.fixture
def open_with(project: Path) -> Iterator[Open]:
    """Opens the memory with what the user's own configuration says of peers."""
    opened: list[Engine] = []

    def open_it(peers: str, *, slots: int = 3, deadline_ms: int = 10_000) -> Engine:
        home = project.parent / "home"
        home.mkdir(exist_ok=True)
        limits = f"[router]\ncheck_s = 1\ndeadline_ms = {deadline_ms}\nslots = {slots}\n"
        (home / "config.toml").write_text(f'[embedding]\nprovider = "none"\n{limits}{peers}')
        opened.append(open_engine(load(project, home=home, environment={})))
        return opened[-1]

    yield open_it
    close_peers(10)
    for engine in opened:
        engine.close()


def over_stdio(notes: Notes, kind: str = "memory", name: str = "notes", *, by_word: bool = False) -> str:
    entry = f'[[peers]]\nname = "{name}"\nkind = "{kind}"\ncommand = {json.dumps(notes.command())}\n'
    return entry if kind == "forgetful" else f"{entry}search = {{ by_word = {str(by_word).lower()} }}\n"


def over_http(port: int, kind: str = "memory") -> str:
    return f'[[peers]]\nname = "notes"\nkind = "{kind}"\nurl = "http://127.0.0.1:{port}/mcp"\n'


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
    return number


def wait_until_it_listens(port: int) -> None:
    """Wait for a peer that was started at this port, for a minute at most."""
    for _ in range(1200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the peer does not start")


@pytest.fixture
def serve(notes: Notes, port: int) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """Starts the peer over HTTP, and waits until it listens."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        server = subprocess.Popen(notes.command(str(port)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        started.append(server)
        wait_until_it_listens(port)
        return server

    yield start
    for server in started:
        server.kill()
        server.wait()
