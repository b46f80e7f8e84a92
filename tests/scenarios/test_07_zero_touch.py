"""Scenario 7: forty turns and sixty tool calls, nobody saves anything, and the next session knows what mattered."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import OpenMemory
from tests.scenarios.agent import Agent
from tests.scenarios.client import Client

from scrimshaw.app.background import Worker
from scrimshaw.engine import Engine, drafts
from scrimshaw.models import ItemKind

SPEC = "Uploads are resumable: a client may continue at the last acknowledged chunk."
CHOICE = "Use HMAC chunk tokens instead of server sessions, because nodes are stateless"
PATTERN = "upload.log:88: ERROR: chunk 7 acknowledged twice"
TOPICS = ("retries", "limits", "metrics", "headers", "cleanup", "naming", "docs", "timeouts", "quotas", "logging")


def works(client: Client) -> None:
    """Twenty prompts and twenty answers, sixty calls; three of the calls and one answer are what matters."""
    client.starts()
    client.asks("Make uploads resumable as the spec says, and keep the nodes stateless.")
    client.calls("Read", {"file_path": "specs/007-upload/spec.md"}, f"# Upload\n\n{SPEC}")
    client.calls("Grep", {"pattern": "ERROR", "path": "upload.log"}, PATTERN)
    client.calls("Bash", {"command": f"git commit -am '{CHOICE}'"}, f"[main 1a2b3c4] {CHOICE}\n 3 files changed")
    client.says("I decided to store the offset in the token rather than in a table, because tables need a migration.")
    for turn in range(19):
        client.asks(f"Now look at the {TOPICS[turn % len(TOPICS)]} of part {turn}.")
        for call in range(3):
            file = f"src/upload/{TOPICS[turn % len(TOPICS)]}_{call}.py"
            client.calls("Read", {"file_path": file, "offset": 10, "limit": 20}, f"10\tpass  # {turn}")
        client.says(f"The {TOPICS[turn % len(TOPICS)]} of part {turn} are fine as they are.")
    client.ends()


@pytest.fixture
def after(open_memory: OpenMemory, project: Path) -> Engine:
    """The memory when the session is over and the next server has run what was left to do."""
    engine = open_memory()
    works(Client(project, "first"))
    while Worker(engine).run_once():
        pass
    return engine


def test_the_session_is_as_the_scenario_says(after: Engine) -> None:
    kinds = [event.kind.value for event in after.sessions.events("first")]
    assert (kinds.count("prompt"), kinds.count("answer") + kinds.count("stop"), kinds.count("tool")) == (20, 20, 60)


def test_what_mattered_is_in_working_memory(after: Engine) -> None:
    items = after.sessions.items("first")
    told = {(item.kind, text) for item in items for text in (SPEC, CHOICE, PATTERN) if text in item.text}
    assert told == {(ItemKind.FILE, SPEC), (ItemKind.COMMIT, CHOICE), (ItemKind.ERROR, PATTERN)}


def test_resume_surfaces_it_in_the_first_five(after: Engine, project: Path) -> None:
    Client(project, "second").starts()
    reply = Agent(after, "second").context("where were we", mode="resume")
    first = " ".join(line["text"] for line in reply["state"][:5])
    assert all(text in first for text in (SPEC, CHOICE, PATTERN))


def test_the_session_became_a_memory_that_search_finds(after: Engine) -> None:
    drafted = drafts.find_draft(after, "first")
    assert drafted
    assert drafted.memory_id
    for query in ("why HMAC chunk tokens", "offset in the token rather than a table", "resumable uploads"):
        assert drafted.memory_id in Agent(after).found(query, limit=5)
    text = after.index.bodies([drafted.memory_id])[drafted.memory_id]
    assert "offset in the token" in text
    assert not drafts.list_rejected(after)


def test_nothing_was_saved_by_hand(after: Engine) -> None:
    rows = [row for memory in after.journal.last_hashes() for row in after.journal.history(memory, 100)]
    assert [row["actor"] for row in rows] == ["session"]


def test_with_capture_off_nothing_is_known(open_memory: OpenMemory, project: Path) -> None:
    engine = open_memory('[features]\nprofile = "baseline"\n')
    works(Client(project, "first"))
    while Worker(engine).run_once():
        pass
    assert engine.journal.last_hashes() == {}
    for query in ("HMAC chunk tokens", "acknowledged twice", "resumable"):
        assert Agent(engine, "second").found(query) == []
    assert SPEC not in (project / ".scrimshaw/journal.db").read_bytes().decode(errors="ignore")
