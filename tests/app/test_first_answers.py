"""A server answers from what it has while it still reads the files, also after a crash; and says so.

Run as a script, this file is a server whose file system is slow: the folders of memories open when a file is there.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import OpenMemory
from tests.engine.breaking import locked_by_another
from tests.raw_session import MODERN, RawSession, request
from tests.samples import write_memory

from scrimshaw.app.background import Background
from scrimshaw.app.cli.main import run
from scrimshaw.app.mcp.protocol import Dispatcher
from scrimshaw.app.mcp.tools import choose
from scrimshaw.engine import Engine
from scrimshaw.engine.core import LOCK_FILE
from scrimshaw.engine.index import scan

PENDING = "scan_pending"
PATIENCE_S = 60.0
LONG = "The harbour master's rule number {} says which ferry waits at the outer mooring when the tide turns."


class Client:
    """Asks a real server for tools."""

    def __init__(self, session: RawSession) -> None:
        self.session = session

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The answer of a tool."""
        self.session.send(request(tool, "tools/call", name=tool, arguments=arguments, **self.session.meta))
        answer = self.session.read()
        result: dict[str, Any] = answer["result"]["structuredContent"]
        return result

    def find(self, query: str) -> tuple[list[str], list[str]]:
        """The ids that a search brings, and the names of what it says it lacks."""
        found = self.call("memory_search", query=query)
        return [hit["id"] for hit in found["hits"]], lacks(found)


def lacks(answer: dict[str, Any]) -> list[str]:
    modes = (each["failure_mode"].split(":")[0] for each in answer.get("degraded", ()))
    return [mode for mode in modes if mode != "embedder_off"]


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """The file that opens the folders of memories."""
    return tmp_path / "gate"


@pytest.fixture
def serve(project: Path, gate: Path) -> Callable[[], Any]:
    @contextmanager
    def start() -> Iterator[Client]:
        root = Path(__file__).parents[2]
        known = {"SCRIMSHAW_HOME": str(project.parent / "home"), "SCRIMSHAW_EMBEDDING_PROVIDER": "none"}
        environment = {**os.environ, **known, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
        command = (
            sys.executable,
            str(Path(__file__).absolute()),
            str(gate),
            "--project",
            str(project),
            "serve",
            "--toolsets",
            "all",
        )
        with RawSession(command, MODERN, environment) as session:  # which ends with a SIGKILL
            yield Client(session)

    return start


def until(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def test_after_a_crash_answers_come_from_the_old_index_until_the_files_are_read(
    serve: Callable[[], Any], vault: Path, gate: Path
) -> None:
    for number in range(50):
        write_memory(vault, f"rule-{number}", f"# Rule {number}\n{LONG.format(number)}")
    gate.touch()
    with serve() as client:
        assert until(lambda: client.find("mooring")[1] == [])
        for number in range(50, 90):
            arguments = {"content": LONG.format(number), "id": f"rule-{number}", "force": True}
            line = request(number, "tools/call", name="memory_save", arguments=arguments, **client.session.meta)
            client.session.send(line)
        client.session.read()
    gate.unlink()
    write_memory(vault, "lantern", "# Lantern\nSomebody wrote of the lantern while no server ran.")
    with serve() as client:
        for _ in range(3):
            found, lack = client.find("rule 7 of the mooring")
            assert (found != [], lack) == (True, [PENDING])
        assert client.find("lantern") == ([], [PENDING])
        assert lacks(client.call("memory_list", limit=1)) == [PENDING]
        assert lacks(client.call("memory_stats")) == [PENDING]
        assert lacks(client.call("memory_match_triggers", prompt="mooring")) == [PENDING]
        saved = client.call("memory_save", content="The pilot's own log lies in the quay house.", id="log", force=True)
        assert (saved["status"], lacks(saved)) == ("saved", [PENDING])
        assert client.call("memory_get", id="log")["content"].startswith("The pilot's own log")
        gate.touch()
        assert until(lambda: client.find("lantern") == (["lantern"], []))
        assert client.find("pilot log quay house") == (["log"], [])


def test_a_first_index_is_waited_for(serve: Callable[[], Any], vault: Path, gate: Path) -> None:
    write_memory(vault, "tides", "# Tides\nThe tide turns at noon.")
    with serve() as client:
        opening = threading.Timer(1.0, gate.touch)
        opening.start()
        assert client.find("tide") == (["tides"], [])


def test_a_first_index_is_not_waited_for_without_end(
    open_memory: OpenMemory, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrimshaw.app.background.FIRST_INDEX_S", 0.1)
    engine, release = open_memory(), threading.Event()
    monkeypatch.setattr("scrimshaw.app.background.index.scan", lambda *_, **__: release.wait(PATIENCE_S))
    with beside(engine) as ask:
        assert (ask("tide")["hits"], lacks(ask("tide"))) == ([], [PENDING])
        release.set()


def test_reading_waits_for_no_writer(open_memory: OpenMemory, vault: Path) -> None:
    engine = open_memory()
    write_memory(vault, "tides", "# Tides\nThe tide turns at noon.")
    scan(engine)
    with locked_by_another(engine.folder / LOCK_FILE), beside(engine) as ask:
        assert until(lambda: lacks(ask("tide")) == [])
        assert [hit["id"] for hit in ask("tide")["hits"]] == ["tides"]


@contextmanager
def beside(engine: Engine) -> Iterator[Callable[[str], dict[str, Any]]]:
    """A search by a server's dispatcher, with what a server does besides answering."""
    background = Background(engine)
    dispatcher = Dispatcher(choose("all"), engine)

    def search(query: str) -> dict[str, Any]:
        background.wait_briefly()
        return dict(dispatcher.dispatch("memory_search", {"query": query}).reply)

    background.start()
    yield search
    background.stop()


def serve_slowly(gate: Path) -> None:
    """A server that can list no folder of memories before the gate is open."""
    list_folder = os.scandir

    def wait_and_list(folder: Any = ".") -> Any:
        while "memories" in str(folder) and not gate.exists():
            time.sleep(0.02)
        return list_folder(folder)

    os.scandir = wait_and_list  # type: ignore[assignment]
    run()


if __name__ == "__main__":
    gate_file = Path(sys.argv.pop(1))
    serve_slowly(gate_file)
