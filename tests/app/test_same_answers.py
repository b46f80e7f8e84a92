"""One query, three ways in: the engine, the command line, the MCP server. All must rank alike."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from tests.samples import vouch_for, write_memory

import scrimshaw
from scrimshaw.config import SearchSettings, load
from scrimshaw.engine import Engine, index, open_engine, read
from scrimshaw.models import Filters, Tier
from scrimshaw.search.results import SearchRequest

pytestmark = pytest.mark.slow

COMMAND = ("-c", "from scrimshaw.app.cli.main import run; run()")
QUERIES = {
    "question": "which port does the deployment listen on?",
    "error": "database is malformed after a copy",
    "one word": "release",
    "trigger": "the wal reset happened again",
    "foreign": "Wiederherstellung nach einem Absturz",
    "nothing known": "quaternion interpolation",
}
UNSURE = (QUERIES["foreign"], QUERIES["nothing known"])  # whose answers are not sure enough to be shown
MEMORIES = {
    "rules/safety": ("tier: constitutional", "Never push to the main branch by force."),
    "operations/deploy-port": ("topics: [deployment]", "The deploy port is 8443, because 8080 belongs to the proxy."),
    "operations/rollback": (
        "tier: important",
        "A rollback is `release undo`; it needs the tag of the last good release.",
    ),
    "operations/release": ("type: decision", "A release is cut on Tuesdays. The port of the release server is 9000."),
    "storage/wal": (
        "trigger_phrases: [wal reset]",
        "The database runs in WAL mode. Never copy it with cp while it is open.",
    ),
    "storage/crash": ("", "After a crash the database is restored from the last backup, or is malformed."),
    "style/commits": ("tier: deprecated", "Commit messages of a release say why; the diff says what."),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a project whose memories are indexed, vectors of the bundled model included."""
    home = tmp_path_factory.mktemp("home")
    for memory_id, (front_matter, text) in MEMORIES.items():
        write_memory(home / "project/.scrimshaw/memories", memory_id, text, front_matter)
    with _open(home) as engine:
        vouch_for(engine, "rules/safety")
        assert index.embed_pending(engine) == len(MEMORIES)
    return home


@pytest.fixture(scope="module")
def over_mcp(home: Path) -> dict[str, list[str]]:
    """The ids that a server gives for every query."""
    replies = anyio.run(_ask_server, home, [{"query": query} for query in QUERIES.values()])
    return dict(zip(QUERIES.values(), replies, strict=True))


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_the_same_query_gives_the_same_ranked_ids(home: Path, over_mcp: dict[str, list[str]], query: str) -> None:
    in_process = _ask_engine(home, SearchRequest(query=query, min_confidence=SearchSettings().min_confidence))
    assert in_process[0] == "rules/safety"
    assert (len(in_process) > 1) == (query not in UNSURE)
    assert _ask_command_line(home, query) == in_process
    assert over_mcp[query] == in_process


def test_filters_and_limits_mean_the_same(home: Path) -> None:
    filters = Filters(folder="operations", tiers=(Tier.IMPORTANT, Tier.NORMAL))
    found = _ask_engine(home, SearchRequest(query="release", filters=filters, limit=2))
    options = ("--folder", "operations", "--tier", "important", "--tier", "normal")
    assert _ask_command_line(home, "release", *options, "--limit", "2") == found
    assert len(found) == 3

    filters = Filters(folder="operations", tiers=(Tier.IMPORTANT,), include_deprecated=True)
    found = _ask_engine(home, SearchRequest(query="release", filters=filters, limit=1, constitutional=False))
    narrow = {"folder": "operations", "tier": "important", "include_deprecated": True, "limit": 1}
    asked = {"query": "release", "include_constitutional": False, **narrow}
    assert anyio.run(_ask_server, home, [asked]) == [found]
    assert found == ["operations/rollback"]


def _open(home: Path) -> Engine:
    return open_engine(load(home / "project", home=home / ".scrimshaw", environment={}))


def _ask_engine(home: Path, request: SearchRequest) -> list[str]:
    with _open(home) as engine:
        result = read.search(engine, request)
    assert not result.degradations
    return [hit.memory.id for hit in (*result.always_on, *result.hits)]


def _ask_command_line(home: Path, query: str, *options: str) -> list[str]:
    command = [sys.executable, *COMMAND, "search", query, *options, "--json"]
    printed = subprocess.run(
        command, env=_environment(home), cwd=home / "project", capture_output=True, check=True, timeout=60
    )
    assert printed.stderr == b""
    reply = json.loads(printed.stdout)
    return [hit["memory"]["id"] for hit in (*reply["always_on"], *reply["hits"])]


async def _ask_server(home: Path, calls: Sequence[dict[str, Any]]) -> list[list[str]]:
    arguments = [*COMMAND, "serve", "--project", str(home / "project")]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=_environment(home))
    async with Client(server, read_timeout_seconds=60) as client:
        replies = [(await client.call_tool("memory_search", call)).structured_content for call in calls]
    return [[hit["id"] for hit in (reply or {})["hits"]] for reply in replies]


def _environment(home: Path) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SCRIMSHAW", "SPECKIT"))}
    return {**inherited, "HOME": str(home), "PYTHONPATH": str(Path(scrimshaw.__file__).parents[1])}
