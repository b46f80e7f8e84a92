"""From a session to a file: kept or set aside, renewed, promoted, expired; and never over somebody's edit."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import OpenMemory
from tests.git_folders import IDENTITY, run_git
from tests.samples import SECRET
from tests.scenarios.client import Client

from scrimshaw.app.background import Worker
from scrimshaw.engine import Engine, drafts, index, links, read, write
from scrimshaw.engine.context import resume_state
from scrimshaw.errors import NotFound
from scrimshaw.ingest.memory_file import parse_memory_file
from scrimshaw.models import DRAFT_JOB, WAITS, Filters, JobState, Relation, Tier, Trust
from scrimshaw.session.resume import Occasion

CHOICE = "I decided to use apsw instead of sqlite3, because it bundles a current SQLite."


def works(client: Client, *, last_word: str = CHOICE) -> None:
    """A short session with a task, a failure that is mended, a commit and a decision."""
    client.starts()
    client.asks("Fix the WAL reset bug in the storage layer: the database is malformed after a crash.")
    client.calls("Read", {"file_path": "src/storage/sqlite.py"}, "import sqlite3\n")
    client.calls("Bash", {"command": "pytest tests/storage"}, "FAILED test_crash - database is malformed\n1 failed")
    client.calls("Edit", {"file_path": "src/storage/sqlite.py", "old_string": "sqlite3", "new_string": "apsw"}, "ok")
    client.calls("Bash", {"command": "pytest tests/storage"}, "12 passed")
    client.calls("Bash", {"command": "git commit -am 'Use apsw for storage'"}, "[main 1a2b3c4] Use apsw for storage")
    client.says(last_word)


@pytest.fixture
def client(project: Path) -> Client:
    return Client(project, "0e24ab77-session")


def file_of(engine: Engine, memory_id: str) -> str:
    return Path(engine.memory(memory_id).path).read_text(encoding="utf-8")


def test_a_session_becomes_a_memory_with_its_evidence(engine: Engine, client: Client) -> None:
    works(client)
    made = drafts.make_draft(engine, client.session)
    assert made.status == "accepted", made.reasons
    memory, text = engine.memory(made.memory_id), file_of(engine, made.memory_id)
    assert (memory.type, memory.tier, memory.provenance.session) == ("session", Tier.NORMAL, client.session)
    assert CHOICE.removeprefix("I ") in text or CHOICE in text
    assert memory.quality
    assert memory.quality.score >= 0.3
    assert len(memory.triggers) >= 2
    assert memory.topics
    values = parse_memory_file(text).values
    assert (values["tool_calls"], values["decision_count"]) == ("5", "1")


def test_what_tools_said_lowers_the_trust(engine: Engine, client: Client) -> None:
    works(client)
    made = drafts.make_draft(engine, client.session)
    assert engine.memory(made.memory_id).provenance.trust == Trust.TOOL


def test_a_second_draft_without_news_changes_nothing(engine: Engine, client: Client) -> None:
    works(client)
    made = drafts.make_draft(engine, client.session)
    before = file_of(engine, made.memory_id)
    assert drafts.make_draft(engine, client.session).status == "unchanged"
    assert file_of(engine, made.memory_id) == before


def test_a_persons_change_of_a_sessions_memory_is_told_at_the_next_start(engine: Engine, client: Client) -> None:
    works(client)
    made = drafts.make_draft(engine, client.session)
    path = Path(engine.memory(made.memory_id).path)
    path.write_text(path.read_text(encoding="utf-8").replace("bundles a current SQLite", "is faster"), encoding="utf-8")
    index.scan(engine)
    session = engine.sessions.get(client.session)
    assert session is not None
    lines, _, _ = resume_state(engine, session, Occasion.START, 900)
    (decision,) = [
        line for line in lines if line.part == "decisions" and "apsw" in line.text and "instead" in line.text
    ]
    assert "is faster" in decision.text
    assert decision.origin == made.memory_id


def test_the_same_sessions_file_is_renewed_not_doubled(engine: Engine, client: Client, vault: Path) -> None:
    works(client)
    first = drafts.make_draft(engine, client.session)
    client.asks("Also decide on the journal mode.")
    client.says("We will keep journal_mode=WAL rather than DELETE, because readers must not wait.")
    client.calls("Bash", {"command": "git commit -am 'Keep WAL'"}, "[main 2b3c4d5] Keep WAL")
    second = drafts.make_draft(engine, client.session)
    assert (second.status, second.memory_id) == ("accepted", first.memory_id)
    assert "journal_mode=WAL" in file_of(engine, first.memory_id)
    assert len(list(vault.rglob("*.md"))) == 1


def test_what_was_stated_of_a_sessions_memory_outlasts_its_next_draft(open_memory: OpenMemory, client: Client) -> None:
    engine = open_memory("[drafts]\nreview = true\n")
    works(client)
    drafts.make_draft(engine, client.session)
    saved = drafts.promote_draft(engine, drafts.list_rejected(engine)[0].name)
    write.save(engine, write.NewText(content="# Cursors\n\nWe keep one cursor for each thread.\n", id="cursors"))
    write.update(engine, saved.id, {"tier": "critical", "visibility": "private"}, actor="human")
    links.link(engine, saved.id, "cursors", Relation.SUPERSEDES)
    client.calls("Bash", {"command": "git commit -am 'Keep WAL'"}, "[main 2b3c4d5] Keep WAL")
    drafts.make_draft(engine, client.session)
    drafts.promote_draft(engine, drafts.list_rejected(engine)[0].name)
    file = parse_memory_file(file_of(engine, saved.id))
    assert "Keep WAL" in file.body
    assert (file.values["tier"], file.values["visibility"]) == ("critical", "private")
    assert file.values["relations"] == {"supersedes": ["cursors"]}
    assert "\nquality: {score: 0." in file.text


def test_a_memory_that_somebody_changed_is_left_alone(engine: Engine, client: Client) -> None:
    works(client)
    made = drafts.make_draft(engine, client.session)
    path = Path(engine.memory(made.memory_id).path)
    path.write_text(path.read_text(encoding="utf-8") + "\nMy own remark.\n", encoding="utf-8")
    index.scan(engine)
    works(client, last_word="I decided to add more.")
    assert drafts.make_draft(engine, client.session).status == "unchanged"
    assert "My own remark." in path.read_text(encoding="utf-8")


def test_a_memory_that_somebody_deleted_does_not_come_back(engine: Engine, client: Client, vault: Path) -> None:
    works(client)
    write.delete(engine, [drafts.make_draft(engine, client.session).memory_id])
    works(client, last_word="I decided to add more.")
    assert drafts.make_draft(engine, client.session).status == "unchanged"
    assert not list(vault.rglob("*.md"))


@pytest.fixture
def branches(engine: Engine, client: Client, project: Path) -> str:
    """The memory of a session that goes on: it is committed on the checked-out branch, and `before` lacks it."""
    for arguments in (("init", "-q"), (*IDENTITY, "commit", "-qm", "x", "--allow-empty"), ("branch", "before")):
        run_git(project, *arguments)
    works(client)
    made = drafts.make_draft(engine, client.session)
    run_git(project, "add", ".scrimshaw/memories")
    run_git(project, *IDENTITY, "commit", "-qm", "y")
    return made.memory_id


def test_what_a_session_does_on_a_branch_without_its_memory_becomes_one_too(
    engine: Engine, client: Client, project: Path, branches: str
) -> None:
    run_git(project, "switch", "-q", "before")
    index.scan(engine)
    works(client, last_word="I decided to keep one cursor for each thread, because apsw locks them.")
    made = drafts.make_draft(engine, client.session)
    assert made.status == "accepted"
    assert made.memory_id != branches
    assert "one cursor for each thread" in file_of(engine, made.memory_id)
    run_git(project, "switch", "-q", "-")  # and nothing is in its way


def test_a_memory_that_a_branch_took_away_and_brought_back_goes_on(
    engine: Engine, client: Client, project: Path, branches: str
) -> None:
    for branch in ("before", "-"):
        run_git(project, "switch", "-q", branch)
        index.scan(engine)
    works(client, last_word="I decided to keep one cursor for each thread, because apsw locks them.")
    assert drafts.make_draft(engine, client.session).memory_id == branches
    assert "one cursor for each thread" in file_of(engine, branches)


def test_a_memory_that_somebody_removed_from_the_branch_does_not_come_back(
    engine: Engine, client: Client, project: Path, branches: str, vault: Path
) -> None:
    run_git(project, "rm", "-q", f".scrimshaw/memories/{branches}.md")
    index.scan(engine)
    works(client, last_word="I decided to add more.")
    assert drafts.make_draft(engine, client.session).status == "unchanged"
    assert not list(vault.rglob("*.md"))


CHOOSING = ("Which queue should we use for mails, rq or celery?", "RQ needs only Redis. I'd take RQ.")


@pytest.mark.parametrize(
    ("said", "decision"),
    [
        (("hello", "Hi."), ""),
        ((*CHOOSING, "ok, and what is a schedule in celery?", "A table of times."), ""),
        (("should I use a list or a tuple?", "Use a tuple instead of a list, because it is hashable."), ""),
        ((*CHOOSING, "ok let's go with rq, because nobody here knows celery", "Agreed: RQ."), "nobody here knows"),
        (("Where do we store the harbour events?", "1. SQLite: one writer.\n2. Postgres: a server.", "2", "Good."),
         "Postgres: a server"),
    ],
)  # fmt: skip
def test_of_mere_talk_only_a_persons_decision_is_kept(
    engine: Engine, client: Client, vault: Path, said: tuple[str, ...], decision: str
) -> None:
    for asked, answer in zip(said[::2], said[1::2], strict=True):
        client.asks(asked)
        client.says(answer)
    client.ends()
    assert drafts.queue_drafts(engine) == 1
    assert Worker(engine).run_once()
    assert drafts.queue_drafts(engine) == 0
    text = "".join(path.read_text(encoding="utf-8") for path in vault.rglob("*.md"))
    assert bool(text) is bool(decision)
    assert decision in text.partition("## Decisions")[2]
    assert said[0] in text or not decision


def test_a_draft_that_waits_goes_when_a_later_one_is_accepted(open_memory: OpenMemory, client: Client) -> None:
    works(client)
    made = drafts.make_draft(open_memory(), client.session)
    client.calls("Bash", {"command": "git commit -am 'Keep WAL'"}, "[main 2b3c4d5] Keep WAL")
    engine = open_memory("[drafts]\nreview = true\n")
    drafts.make_draft(engine, client.session)
    assert [each.reasons for each in drafts.list_rejected(engine)] == [(WAITS,)]
    client.calls("Bash", {"command": "git commit -am 'Close cursors'"}, "[main 3c4d5e6] Close cursors")
    engine = open_memory()
    assert drafts.make_draft(engine, client.session).memory_id == made.memory_id
    assert "Close cursors" in file_of(engine, made.memory_id)
    assert drafts.list_rejected(engine) == []


def test_an_unknown_session_is_named(engine: Engine) -> None:
    with pytest.raises(NotFound, match="nobody"):
        drafts.make_draft(engine, "nobody")


def test_no_secret_reaches_a_draft(engine: Engine, client: Client, project: Path) -> None:
    works(client, last_word=f"I decided to pass the token {SECRET} through the environment instead of a file.")
    drafts.make_draft(engine, client.session)
    assert not [path for path in project.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


# Set aside


@pytest.fixture
def rejected(engine: Engine, client: Client) -> str:
    """The name of a draft that the gate does not let through."""
    works(client, last_word="I decided to keep the cache in [TBD] instead of the index, because [TBD].")
    made = drafts.make_draft(engine, client.session)
    assert (made.status, made.memory_id) == ("rejected", "")
    assert any("placeholder" in reason for reason in made.reasons)
    return Path(made.path).stem


def test_a_rejected_draft_can_be_read_but_not_found(engine: Engine, rejected: str, vault: Path) -> None:
    (found,) = drafts.list_rejected(engine)
    assert (found.name, found.session) == (rejected, "0e24ab77-session")
    assert found.reasons
    assert "tier: temporary" in drafts.read_rejected(engine, rejected)
    index.scan(engine)
    assert not list(vault.rglob("*.md"))
    assert engine.index.count(Filters()) == {"": 0}


def test_promoting_makes_a_memory_of_it(engine: Engine, rejected: str) -> None:
    saved = drafts.promote_draft(engine, rejected)
    assert saved.status == "saved"
    assert engine.memory(saved.id).tier == Tier.NORMAL
    assert drafts.list_rejected(engine) == []
    assert read.get(engine, saved.id).body
    (row,) = engine.journal.history(saved.id)
    assert (row["actor"], row["session"], row["reason"]) == ("human", "0e24ab77-session", "promoted by hand")
    assert engine.memory(saved.id).provenance.source == write.DRAFTED


def test_an_accepted_draft_replaces_the_rejected_one(engine: Engine, client: Client) -> None:
    client.asks("Fix all of it at once.")
    client.calls("Bash", {"command": "make"}, "ok")
    assert drafts.make_draft(engine, client.session).status == "rejected"
    assert drafts.list_rejected(engine)
    works(client)
    assert drafts.make_draft(engine, client.session).status == "accepted"
    assert drafts.list_rejected(engine) == []


def test_discarding_removes_it(engine: Engine, rejected: str) -> None:
    drafts.discard_drafts(engine, [rejected])
    assert drafts.list_rejected(engine) == []
    with pytest.raises(NotFound):
        drafts.discard_drafts(engine, [rejected])


def test_a_rejected_draft_expires(engine: Engine, rejected: str) -> None:
    assert drafts.expire_drafts(engine) == ([], [])
    later = replace(engine, clock=lambda: time.time() + 8 * 86_400)
    assert drafts.expire_drafts(later) == ([rejected], [])


def test_a_temporary_memory_expires_unless_a_person_wrote_it(engine: Engine, vault: Path) -> None:
    text = "The staging host is called heron this week, and its queue is emptied by hand."
    saved = write.save(engine, write.NewText(content=text, tier=Tier.TEMPORARY))
    (vault / "mine.md").write_text("---\ntier: temporary\nupdated: 2020-01-01T00:00:00Z\n---\nMine.\n")
    index.scan(engine)
    assert drafts.expire_drafts(engine) == ([], [])
    later = replace(engine, clock=lambda: time.time() + 8 * 86_400)
    assert drafts.expire_drafts(later) == ([], [saved.id])
    assert (vault / "mine.md").exists()
    assert engine.journal.history(saved.id, 1)[0]["reason"] == "temporary, and its time is over"


def test_a_temporary_memory_that_was_edited_by_hand_meanwhile_does_not_expire(engine: Engine) -> None:
    texts = ("The staging host is called heron this week, and its queue is emptied by hand.",
             "The mirror in the harbour office is slow until the cable has been mended.")  # fmt: skip
    edited, removed = (write.save(engine, write.NewText(content=text, tier=Tier.TEMPORARY)) for text in texts)
    file = Path(edited.path)
    file.write_text(file.read_text().replace("tier: temporary", "tier: critical"))
    Path(removed.path).unlink()
    later = replace(engine, clock=lambda: time.time() + 8 * 86_400)
    assert drafts.expire_drafts(later) == ([], [])
    assert "tier: critical" in file.read_text()
    assert engine.journal.history(edited.id, 1)[0]["action"] == "create"


# Whoever runs jobs next


def test_the_end_of_a_session_asks_for_its_draft(engine: Engine, client: Client) -> None:
    works(client)
    assert engine.journal.jobs() == []
    client.ends()
    (job,) = engine.journal.jobs()
    assert (job.kind, job.key, job.state) == (DRAFT_JOB, client.session, JobState.QUEUED)
    assert Worker(engine).run_once()
    assert drafts.find_draft(engine, client.session)


def test_a_session_that_fell_silent_is_found(engine: Engine, client: Client) -> None:
    works(client)
    assert drafts.queue_drafts(engine) == 0
    later = replace(engine, clock=lambda: time.time() + 3_600)
    assert drafts.queue_drafts(later) == 1
    assert Worker(engine).run_once()
    assert drafts.queue_drafts(later) == 0


def test_switched_off_nothing_is_drafted(open_memory: OpenMemory, client: Client) -> None:
    engine = open_memory("[features]\ndrafts = false\n")
    works(client)
    client.ends()
    while Worker(engine).run_once():
        pass
    assert drafts.find_draft(engine, client.session) is None
