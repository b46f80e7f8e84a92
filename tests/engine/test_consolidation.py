"""Sessions of one topic as one memory: proposed, derived from them, once; and nothing of theirs is touched."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.app.command_line import command_line

from scrimshaw.engine import Engine, drafts, write
from scrimshaw.engine.write import NewText
from scrimshaw.models import MemoryType, Trust


def session(engine: Engine, name: str, topics: tuple[str, ...], lines: str, trust: Trust = Trust.AGENT) -> str:
    new = NewText(
        content=f"## Decisions\n\n{lines}\n",
        id=f"sessions/{name}",
        title=f"Session {name}",
        type=MemoryType.SESSION,
        topics=topics,
        triggers=(f"trigger {name}", "wal mode"),
        session=name,
        origin="session",
        trust=trust,
    )
    return write.save(engine, new).id


@pytest.fixture
def sessions(engine: Engine) -> list[str]:
    return [
        session(engine, "one", ("sqlite", "hooks"), "- Use WAL rather than DELETE. (e4)\n- Keep one writer. (e7)"),
        session(
            engine,
            "two",
            ("sqlite",),
            "- Use WAL rather than DELETE. (e2)\n- Copy with the backup API. (e9)",
            Trust.TOOL,
        ),
        session(engine, "three", ("router",), "- Ask Serena through the official client. (e3)"),
    ]


def test_one_proposal_for_each_shared_topic(engine: Engine, sessions: list[str]) -> None:
    (proposal,) = drafts.propose(engine)
    assert (proposal.topic, set(proposal.sources)) == ("sqlite", {*sessions[:2]})
    assert proposal.content.count("Use WAL") == 1
    assert "Copy with the backup API. (e9)" in proposal.content
    assert all(f"[[{source}]]" in proposal.content for source in proposal.sources)
    assert proposal.trust == Trust.TOOL
    assert "wal mode" in proposal.triggers


def test_a_language_is_no_subject_of_sessions(engine: Engine, sessions: list[str]) -> None:
    session(engine, "four", ("python",), "- Prepare the release with the old script. (e3)")
    session(engine, "five", ("python",), "- Ask for a reason with each refund. (e3)")
    assert [proposal.topic for proposal in drafts.propose(engine)] == ["sqlite"]


def test_a_topic_can_be_named(engine: Engine, sessions: list[str]) -> None:
    assert drafts.propose(engine, topic="router") == []
    assert drafts.propose(engine, topic="SQLite")
    assert drafts.propose(engine, topic="sqlite")


def test_a_dry_run_has_a_line_for_each_group_and_texts_on_request(
    sessions: list[str], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("drafts", "consolidate", "--dry-run", "--project", str(project))
    run = command_line(capsys)
    assert re.fullmatch(r"sqlite: 2 sessions, [\d-]+ to [\d-]+\n", run(*command).out)
    told = run(*command, "--content").out
    assert "Use WAL rather than DELETE." in told
    assert sessions[0] in told


def test_sessions_of_long_ago_are_left(engine: Engine, sessions: list[str]) -> None:
    later = replace(engine, clock=lambda: time.time() + 8 * 86_400)
    assert drafts.propose(later) == []
    assert drafts.propose(later, days=9)


def test_consolidating_derives_and_keeps(engine: Engine, sessions: list[str], vault: Path) -> None:
    before = {path: path.read_bytes() for path in vault.rglob("*.md")}
    (proposal,) = drafts.propose(engine)
    done = drafts.consolidate(engine, proposal)
    assert done.status == "saved", done.reasons
    edges = engine.index.neighbors([done.id], hops=1, direction="outgoing", relations=("derived_from",))
    assert {edge.target for edge in edges} == {*sessions[:2]}
    assert all(path.read_bytes() == content for path, content in before.items())
    assert drafts.propose(engine) == []


def test_what_is_deleted_meanwhile_is_in_no_proposal(
    engine: Engine, sessions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    session(engine, "four", ("sqlite",), "- Keep the log on the same disk as the file. (e1)\n- Never copy it. (e3)")
    read = type(engine.index).bodies
    gone = {sessions[0]}
    monkeypatch.setattr(type(engine.index), "bodies", lambda index, ids: read(index, [i for i in ids if i not in gone]))
    (proposal,) = drafts.propose(engine)
    assert set(proposal.sources) == {sessions[1], "sessions/four"}
    gone.add(sessions[1])
    assert drafts.propose(engine) == []
