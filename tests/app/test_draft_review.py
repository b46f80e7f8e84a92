"""With `drafts.review` what a session leaves waits for a person: seen as a difference, accepted, edited or rejected."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.app.command_line import Cli, command_line
from tests.app.hooks.events import bash, context_of, report
from tests.conftest import OpenMemory

from scrimshaw.app.cli.write import _render_drafts
from scrimshaw.engine import Engine
from scrimshaw.engine.drafts import expire_drafts, list_rejected, make_draft
from scrimshaw.engine.index import scan
from scrimshaw.search.results import SearchRequest


@pytest.fixture
def engine(open_memory: OpenMemory) -> Engine:
    return open_memory("[drafts]\nreview = true\n")


@pytest.fixture
def cli(project: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    run = command_line(capsys)
    return lambda *arguments: run(*arguments, "--project", str(project), "--json")


UNDECIDED = ["only questions and answers, nothing was changed, and no decision by a person was found"]


def work(project: Path, number: int, what: str) -> None:
    """A turn of a session that changes something and says why."""
    report(project, "UserPromptSubmit", prompt=f"Please mend the {what} of the harbour crane in the storage module")
    bash(project, "pytest tests", "3 passed", f"t{number}")
    bash(
        project,
        f"git commit -m 'fix: mend the {what} of the crane'",
        f"[main 1a2b3c{number}] fix: mend the {what}",
        f"c{number}",
    )


def test_a_draft_waits_until_it_is_accepted(engine: Engine, project: Path, vault: Path, cli: Cli) -> None:
    work(project, 1, "gate")
    assert make_draft(engine, "S1").status == "waiting"
    assert not [*vault.rglob("*.md")]
    (draft,) = (project / ".scrimshaw/drafts").glob("*.md")
    quotes = draft.read_text().partition("\n---\n")[0].removeprefix("---")
    (draft.parent / "rejected.md").write_text(f"---\ntitle: Crane\n---\nIt said:\n{quotes}\n")
    assert "Drafts of sessions that wait for review: 1" in context_of(
        report(project, "SessionStart", "S2", source="startup")
    )
    (draft.parent / "rejected.md").unlink()
    assert expire_drafts(engine)[0] == []
    (shown,) = cli("review").json
    assert (shown["status"], "+" in shown["diff"], "gate" in shown["diff"]) == ("waiting", True, True)
    assert cli("review", "--all", "--accept").json[0]["status"] == "saved"
    assert cli("review").json == []
    scan(engine)
    (memory,) = vault.rglob("*.md")
    assert "gate" in memory.read_text()
    assert "wait" not in report(project, "SessionStart", "S3", source="startup")
    work(project, 2, "lamp")
    assert make_draft(engine, "S1").status == "waiting"
    assert "lamp" not in memory.read_text()
    (again,) = cli("review").json
    assert "+" in again["diff"]
    assert "sessions/" in again["diff"].splitlines()[0]
    assert cli("review", again["name"], "--accept").json[0]["status"] == "updated"
    assert "lamp" in memory.read_text()
    assert engine.searcher.search(SearchRequest(query="lamp of the crane")).hits


def test_what_is_edited_is_accepted_as_edited(
    engine: Engine, project: Path, vault: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(project, 1, "gate")
    make_draft(engine, "S1")
    monkeypatch.setenv("EDITOR", "sed -i s/gate/quay/g")
    monkeypatch.delenv("VISUAL", raising=False)
    assert cli("review", "--all", "--edit").json[0]["status"] == "saved"
    (memory,) = vault.rglob("*.md")
    assert "quay" in memory.read_text()
    assert "gate" not in memory.read_text()


def test_what_is_rejected_is_gone(engine: Engine, project: Path, vault: Path, cli: Cli) -> None:
    work(project, 1, "gate")
    make_draft(engine, "S1")
    assert cli("review", "--reject").code == 2
    refused = cli("review", "--all", "--reject")
    assert (refused.code, "Remove 1 draft permanently?" in refused.err, "--yes" in refused.err) == (1, True, True)
    assert cli("review", "--all", "--reject", "--dry-run").json[0]["status"] == "would be rejected"
    assert cli("review", "--all", "--accept", "--dry-run").json[0]["status"] == "would be accepted"
    told = "\n".join(map(str, _render_drafts(list_rejected(engine))))
    assert ("waits for review" in told, "expires" in told) == (True, False)
    assert cli("review", "--all", "--reject", "--yes").json[0]["status"] == "rejected"
    assert list_rejected(engine) == []
    assert make_draft(engine, "S1").status == "unchanged"
    assert not [*vault.rglob("*.md")]


def test_a_session_of_mere_questions_is_named_with_the_reason(engine: Engine, project: Path, cli: Cli) -> None:
    work(project, 1, "gate")
    make_draft(engine, "S1")
    report(project, "UserPromptSubmit", "S2", prompt="Which database should the harbour journal use?")
    report(project, "Stop", "S2", last_assistant_message="We use PostgreSQL, because three offices write at once.")
    report(project, "SessionEnd", "S2", reason="exit")
    made = [cli("drafts", "make", "S2").json[0] for _ in range(2)]
    assert [(each["status"], each["reasons"]) for each in made] == [("empty", UNDECIDED), ("unchanged", UNDECIDED)]
    waits, talk = cli("drafts", "list").json
    assert (waits["session"], talk["session"], talk["reasons"]) == ("S1", "S2", UNDECIDED)
    assert "database" in talk["title"]
    assert cli("review").json[0]["name"] == waits["name"]
