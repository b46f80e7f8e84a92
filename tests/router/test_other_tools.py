"""A server with other tools is a peer by the configuration that docs/peers.md shows, in whatever form it answers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.router.conftest import Open, wait_until_it_listens

from scrimshaw.engine import Engine, index
from scrimshaw.errors import ConfigError
from scrimshaw.router import ask
from scrimshaw.router.peer_copies import compare_peer, sync_peer
from scrimshaw.router.sync import PeerSync
from scrimshaw.search.results import SearchRequest

SERVER = Path(__file__).with_name("note_server.py")
PAGE = Path(__file__).parents[2] / "docs/peers.md"
CRANE = {"id": 1, "title": "Crane", "body": "The crane on pier four lifts twelve tonnes.", "tag": "x"}
FORMS = ("object", "text", "list", "bare list")


def read_example(port: int) -> list[str]:
    """The example of the page in its two parts: how a server with other tools is asked, and how it keeps copies."""
    blocks = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    parts = [each.replace(":9000/", f":{port}/") for each in blocks if "_note" in each]
    assert len(parts) == 2
    return parts


@pytest.fixture
def serve_notes(tmp_path: Path, port: int) -> Iterator[Callable[[str], Path]]:
    """Starts the server that answers in a form, and waits until it listens; the file of its notes."""
    started, file = list[subprocess.Popen[bytes]](), tmp_path / "notes.json"

    def start(form: str) -> Path:
        file.write_text(json.dumps([CRANE]))
        command = [sys.executable, str(SERVER), str(file), form, str(port)]
        started.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        wait_until_it_listens(port)
        return file

    yield start
    for server in started:
        server.kill()
        server.wait()


def put(engine: Engine, name: str, text: str) -> Path:
    path = engine.settings.folder / f"memories/{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def sync(engine: Engine, **options: Any) -> list[tuple[str, str]]:
    index.scan(engine)
    result: PeerSync = sync_peer(engine, engine.settings.peers[0], **options)
    assert (result.fault, result.failed) == ("", ())
    return sorted((step.action, step.name) for step in result.steps)


def list_copies(file: Path) -> dict[str, str]:
    copies = [note for note in json.loads(file.read_text()) if note["tag"].startswith("scrimshaw-")]
    assert len({note["title"] for note in copies}) == len(copies), "a copy is there twice"
    return {note["title"]: note["body"].strip() for note in copies}


@pytest.mark.parametrize("form", FORMS)
def test_the_example_of_the_page_works_as_it_stands(
    open_with: Open, serve_notes: Callable[[str], Path], port: int, form: str
) -> None:
    engine, file = open_with("".join(read_example(port))), serve_notes(form)
    tide = put(engine, "tide", "The tide turns at nine.\n")
    buoy = put(engine, "harbour/buoy", "The buoy is lit at dusk.\n")
    assert sync(engine) == [("create", "harbour/buoy"), ("create", "tide")]
    there = {"harbour/buoy": "The buoy is lit at dusk.", "tide": "The tide turns at nine."}
    assert list_copies(file) == there
    assert sync(engine) == sync(engine, full=True) == []
    assert list_copies(file) == there
    assert compare_peer(engine, engine.settings.peers[0]).exit_code == 0
    tide.write_text("The tide turns at ten.\n")
    buoy.unlink()
    assert sync(engine) == [("retire", "harbour/buoy"), ("update", "tide")]
    assert list_copies(file) == {"tide": "The tide turns at ten."}
    found = ask.search(engine, SearchRequest(query="what does the crane lift"), wait_s=60)
    assert [(hit.id, hit.title, hit.text) for hit in found.peers] == [("peer:notes/1", CRANE["title"], CRANE["body"])]
    read = ask.get_from_peer(engine, "peer:notes/1")
    assert (read.memory.title, read.body) == (CRANE["title"], CRANE["body"])


def test_a_server_that_is_only_asked_needs_no_other_tools(
    open_with: Open, serve_notes: Callable[[str], Path], port: int
) -> None:
    asked, get = read_example(port)[0], re.compile(r"\[peers\.get\].*?(?=\n\[|\Z)", re.DOTALL)
    engine = open_with(get.sub("", asked))
    serve_notes("object")
    assert ask.search(engine, SearchRequest(query="what does the crane lift"), wait_s=60).peers
    with pytest.raises(ConfigError) as refused:
        ask.get_from_peer(engine, "peer:notes/1")
    assert str(refused.value) == (
        "The peer notes has no tool to get memories with. Name its tool in [peers.get] of your configuration."
    )
    with pytest.raises(ConfigError, match="no tool to list"):
        sync_peer(engine, engine.settings.peers[0])


def test_a_server_that_only_keeps_copies_is_named_where_it_cannot_be_asked(
    open_with: Open, serve_notes: Callable[[str], Path], port: int
) -> None:
    asked, kept = read_example(port)
    engine = open_with(asked.partition("[peers.")[0] + kept)
    put(engine, "tide", "The tide turns at nine.\n")
    assert list_copies(serve_notes("object")) == {}
    assert sync(engine) == [("create", "tide")]
    (lost,) = [
        each.failure_mode
        for each in ask.search(engine, SearchRequest(query="what does the crane lift"), wait_s=60).degradations
        if each.failure_mode.startswith("peer_")
    ]
    assert lost == "peer_silent (notes): The peer notes has no tool to search memories with."
