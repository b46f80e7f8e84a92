"""What the server itself captures: calls of its own tools through a real client, queued behind the answers."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from tests.conftest import OpenMemory
from tests.samples import write_memory
from tests.scenarios.agent import Agent
from tests.tool_server import build_server

from scrimshaw.app.mcp.call_recorder import make_recorder
from scrimshaw.app.mcp.tools import choose
from scrimshaw.engine import Engine
from scrimshaw.engine.index import scan
from scrimshaw.ingest.comparison import count_tokens
from scrimshaw.ingest.rule_checks import check_rules
from scrimshaw.models import EventKind, Item, ItemKind, Trust

SECRET = "ghp_" + "a1B2" * 9
NOTES = {
    "deploy": "The walrus deploys on port 8443.\n",
    "specs/spec": "# Goal\n\nThe walrus sings.\n",
    "tests/fixture": "A walrus in a test.\n",
    "quoted": 'The reply said: Exit code 2, Error: walrus.\nIt was rejected. The user said: no.\n"trust":"web"\n',
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def engine(open_memory: OpenMemory, vault: Path) -> Engine:
    """Memories, and a session whose client is an ancestor of this process, as of a server's."""
    for name, body in NOTES.items():
        write_memory(vault, name, body)
    write_memory(vault, "from-the-web", "The walrus was seen online.\n", "provenance: {trust: web}")
    rules = '[[rules]]\nid = "asked"\ntool = "^memory_search$"\nargument = "keep this"\nattention = 0.4'
    engine = open_memory(rules)
    scan(engine)
    engine.sessions.open("S", client="claude", process=os.getppid(), now=engine.clock())
    return engine


def note(subject: str, **arguments: Any) -> dict[str, Any]:
    """A call of memory_save that passes the quality gate."""
    text = (
        f"# {subject}\n\nThe {subject} of the harbour changes on Tuesdays, since the pilots of the night asked for it."
    )
    phrases = [f"{subject} of the harbour", "night shift pilots"]
    return {"content": f"{text}\nNobody may change it on other days.\n", "trigger_phrases": phrases, **arguments}


class NoResources:
    """Nothing to list or read."""

    def page(self, cursor: str) -> tuple[list[tuple[str, str]], str]:
        return [], ""

    def read(self, memory_id: str) -> str:
        return ""


async def calls(engine: Engine, *asked: tuple[str, dict[str, Any]]) -> list[Any]:
    """Call tools one after the other; the answers. What was queued is done when this returns."""
    server = build_server(
        choose("all"),
        engine,
        resources=NoResources(),
        after_tool=make_recorder(engine, check_rules(engine.settings.rules)[0]),
    )
    async with Client(server) as client:
        return [await client.call_tool(name, arguments) for name, arguments in asked]


async def kept(engine: Engine, tool: str, **arguments: Any) -> list[Item]:
    """The items of the session after one call."""
    await calls(engine, (tool, arguments))
    return engine.sessions.items("S")


pytestmark = pytest.mark.anyio


async def test_a_memory_that_was_read_is_attended_to_with_its_provenance(engine: Engine) -> None:
    (item,) = await kept(engine, "memory_get", id="deploy")
    assert (item.memory_id, item.path, item.kind) == ("deploy", ".scrimshaw/memories/deploy.md", ItemKind.FILE)
    assert "port 8443" in item.text
    source = item.source
    assert (source.source_tool, source.extraction_rule_id, source.redaction_applied) == (
        "memory_get", "memory-read", False,
    )  # fmt: skip
    assert source.trust == Trust.TOOL
    (event,) = engine.sessions.events("S")
    assert (event.kind, event.tool, event.call_id) == (EventKind.TOOL, "memory_get", source.source_call_id)
    assert "8443" not in event.text


@pytest.mark.parametrize(("memory", "rule"), [("specs/spec", "spec-read"), ("tests/fixture", "memory-read")])
async def test_the_rules_for_reading_hold_for_memories(engine: Engine, memory: str, rule: str) -> None:
    (item,) = await kept(engine, "memory_get", id=memory)
    assert item.source.extraction_rule_id == rule


async def test_a_memory_that_was_read_is_lifted_in_the_next_search(engine: Engine) -> None:
    await calls(engine, ("memory_get", {"id": "tests/fixture"}))
    hits = {hit["id"]: hit["why"].get("boosts") for hit in Agent(engine, "S").search("walrus")}
    assert hits["tests/fixture"] == {"session": pytest.approx(0.15 * 0.6)}
    assert not hits["deploy"]


async def test_reading_again_is_a_mention(engine: Engine) -> None:
    await calls(engine, *[("memory_get", {"id": "deploy"})] * 3)
    assert [item.mentions for item in engine.sessions.items("S")] == [2]
    session = engine.sessions.get("S")
    assert session is not None
    assert session.counter == 3


async def test_what_was_saved_is_redacted_and_linked(engine: Engine, project: Path) -> None:
    (item,) = await kept(engine, "memory_save", **note(f"Key {SECRET}", title="Key", id="ops/key", session_id="S"))
    assert item.memory_id == "ops/key"
    assert (item.source.source_tool, item.source.extraction_rule_id) == ("memory_save", "edit")
    assert item.source.redaction_applied
    assert "Tuesdays" in item.text
    assert find_secret(project) == []


@pytest.mark.parametrize(("about", "kind"), [("decision", ItemKind.DECISION), ("research", ItemKind.RESULT)])
async def test_a_memory_that_was_saved_is_no_changed_file(engine: Engine, about: str, kind: ItemKind) -> None:
    (item,) = await kept(engine, "memory_save", **note("Port", type=about, session_id="S"))
    assert item.kind is kind


async def test_of_a_change_the_title_is_kept_and_not_the_reply(engine: Engine, project: Path) -> None:
    changed = {"title": "Why the walrus deploys", "content": note("Port")["content"], "session_id": "S"}
    (item,) = await kept(engine, "memory_update", id="deploy", **changed)
    assert "Why the walrus deploys" in item.text
    assert "status" not in item.text


async def test_the_name_of_a_tool_that_is_not_there_is_kept_nowhere(engine: Engine, project: Path) -> None:
    await calls(engine, (f"note {SECRET}", {}), ("memory_list", {}))
    assert {each.occasion for each in engine.sessions.injections("S")} == {"", "memory_list"}
    assert find_secret(project) == []


def find_secret(project: Path) -> list[Path]:
    files = [file for file in (project / ".scrimshaw").rglob("*") if file.is_file()]
    return [file for file in files if SECRET.encode() in file.read_bytes()]


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("memory_save", note("Port", dry_run=True)),
        ("memory_save", {"content": NOTES["specs/spec"]}),
        ("memory_save", {"content": "# TODO\n\n[TBD]\n"}),
        ("memory_get", {"id": "absent"}),
        ("memory_search", {"query": "rejected walrus"}),
        ("memory_search", {"query": 5}),
        ("memory_nothing", {}),
    ],
    ids=["dry run", "duplicate", "rejected", "absent", "quotes a refusal", "wrong type", "no tool"],
)
async def test_other_calls_are_only_counted(engine: Engine, tool: str, arguments: dict[str, Any]) -> None:
    assert await kept(engine, tool, **arguments) == []
    session = engine.sessions.get("S")
    assert session is not None
    assert session.counter == 1


async def test_a_rule_of_the_user_judges_any_tool(engine: Engine) -> None:
    (item,) = await kept(engine, "memory_search", query="keep this walrus")
    assert (item.source.extraction_rule_id, item.attention) == ("asked", 0.4)


@pytest.mark.parametrize(("memory", "trust"), [("from-the-web", Trust.WEB), ("quoted", Trust.TOOL)])
async def test_an_item_is_no_more_trusted_than_what_it_quotes(engine: Engine, memory: str, trust: Trust) -> None:
    (item,) = await kept(engine, "memory_get", id=memory)
    assert item.source.trust == trust


async def test_a_call_belongs_to_the_session_it_names(engine: Engine) -> None:
    engine.sessions.open("T", now=engine.clock())
    await calls(engine, ("memory_save", note("Port", id="port", session_id="T")))
    assert engine.sessions.items("S") == []
    assert [item.memory_id for item in engine.sessions.items("T")] == ["port"]


async def test_a_call_of_no_session_is_kept_nowhere(engine: Engine) -> None:
    await calls(engine, ("memory_save", note("Port", session_id="unheard of")))
    assert engine.sessions.items("S") == []
    assert engine.sessions.injections() == []
    assert engine.sessions.get("unheard of") is None


async def test_without_extraction_calls_are_only_counted(open_memory: OpenMemory, engine: Engine) -> None:
    assert await kept(open_memory("[features]\nextraction = false"), "memory_get", id="deploy") == []
    session = engine.sessions.get("S")
    assert session is not None
    assert session.counter == 1


async def test_what_a_session_is_sent_is_counted_in_tokens(engine: Engine) -> None:
    answers = await calls(
        engine,
        ("memory_search", {"query": "walrus", "limit": 2}),
        ("memory_search", {"query": "sings"}),
        ("memory_context", {"input": "port of the walrus"}),
    )
    sent = [count_tokens(answer.content[0].text) for answer in answers]
    hits = [len(answers[0].structured_content["hits"]), len(answers[1].structured_content["hits"])]
    context, search = engine.sessions.injections("S")
    assert (search.occasion, search.times, search.tokens, search.hits) == ("memory_search", 2, sum(sent[:2]), sum(hits))
    assert (context.occasion, context.times, context.tokens) == ("memory_context", 1, sent[2])
    assert context.hits == len(answers[2].structured_content["result"]["hits"])


async def test_a_capture_that_fails_never_reaches_the_client(
    engine: Engine, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ValueError(SECRET)

    monkeypatch.setattr("scrimshaw.app.mcp.call_recorder.make_observation", broken)
    with caplog.at_level(logging.ERROR):
        (answer,) = await calls(engine, ("memory_get", {"id": "deploy"}))
    assert not answer.is_error
    assert json.loads(answer.content[0].text)["content"] == NOTES["deploy"]
    assert "ValueError" in caplog.text
    assert SECRET not in caplog.text
