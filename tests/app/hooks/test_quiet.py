"""A person keeps words, a session or a while to themselves: nothing of it reaches a disk, and nobody speaks unasked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.app.command_line import command_line
from tests.app.hooks.events import bash, report
from tests.samples import write_memory

from scrimshaw.engine import Engine
from scrimshaw.engine.drafts import make_draft
from scrimshaw.engine.index import scan
from scrimshaw.engine.write import NewText, save
from scrimshaw.session.state import title_session

KEPT = "mend the harbour lights"
WORDS = "the plan of the quiet cove"


def find_words(folder: Path) -> Iterator[Path]:
    """The files below a folder that hold the words in any case."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return (path for path in files if WORDS.encode() in path.read_bytes().lower())


INNER = f" <private>x</private> {WORDS}"


@pytest.mark.parametrize(
    "end",
    ["</private> ", "</PRIVATE>\n", f"{INNER}</private> ", f"<private>{INNER}</Private>{INNER * 2}</private> ", ""],
)
@pytest.mark.parametrize("filler", ["", "tide " * 20_000])
def test_private_words_of_a_prompt_are_nowhere(engine: Engine, project: Path, end: str, filler: str) -> None:
    rest = "then go on" if end else ""
    report(project, "UserPromptSubmit", prompt=f"{KEPT} <Private>{filler}{WORDS}{filler}{end}{rest}")
    (event,) = engine.sessions.events("S1")
    assert event.text.split() == f"{KEPT} [REDACTED:private] {rest}".split()
    assert not [*find_words(project)]


@pytest.mark.parametrize(
    ("prompts", "title"),
    [
        ([f"<private>{WORDS}</private> Please mend the gate of the harbour."], "Mend the gate of the harbour"),
        ([f"<private>{WORDS}</private>", "Mend the gate of the harbour."], "Mend the gate of the harbour"),
        (["total() must take texts like '1.10'. Please mend it."], "total() must take texts like 1.10"),
    ],
)
def test_a_title_has_no_mark_of_a_private_passage(
    engine: Engine, project: Path, prompts: list[str], title: str
) -> None:
    for prompt in prompts:
        report(project, "UserPromptSubmit", prompt=prompt)
    shown = title_session(engine.sessions, engine.index, engine.sessions.records()[0])
    assert shown == prompts[-1].rpartition("</private> ")[2]
    bash(project, "git commit -m x", "[main 1a2b3c4] x\n 1 file changed", "t1")
    assert f"title: {title}\n" in Path(make_draft(engine, "S1").path).read_text()


def test_what_stands_between_two_private_passages_is_kept(engine: Engine, project: Path) -> None:
    report(project, "UserPromptSubmit", prompt=f"<private>{WORDS}</private> {KEPT} <private>{WORDS}</private> now")
    (event,) = engine.sessions.events("S1")
    assert event.text == f"[REDACTED:private] {KEPT} [REDACTED:private] now"


def test_private_words_of_a_memory_are_nowhere(engine: Engine, project: Path) -> None:
    private = f"<private>{INNER}<private>{INNER}</private>{INNER}</private>"
    saved = save(engine, NewText(content=f"{KEPT} {private} at dusk, and <private> stays."))
    text = Path(saved.path).read_text(encoding="utf-8")
    assert f"{KEPT} [REDACTED:private] at dusk, and <private> stays." in text
    assert not [*find_words(project)]


def test_capture_pauses_and_resumes(engine: Engine, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = command_line(capsys)
    report(project, "UserPromptSubmit", prompt=KEPT)
    assert "not recorded" in run("capture", "pause", "--project", str(project)).out
    report(project, "UserPromptSubmit", prompt=WORDS)
    report(project, "SessionStart", "S2", source="startup")
    assert [event.text for event in engine.sessions.events("S1")] == [KEPT]
    assert [session.id for session in engine.sessions.latest(limit=9)] == ["S1"]
    assert run("capture", "status", "--project", str(project), "--json").json is False
    assert run("capture", "resume", "--project", str(project), "--json").json is True
    bash(project, "git commit -m 'fix: port'", "[main 1a2b3c4] fix: port\n 1 file changed", "t1")
    assert len(engine.sessions.events("S1")) == 2


def test_a_variable_keeps_a_session_unrecorded_or_untold(
    engine: Engine, project: Path, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_memory(vault, "wal", "# Why apsw\n\nThe log is lost.", "trigger_phrases: [wal reset]")
    scan(engine)
    monkeypatch.setenv("SCRIMSHAW_SESSION_INJECTION", "off")
    assert report(project, "UserPromptSubmit", prompt="is the wal reset bug fixed?") == ""
    assert len(engine.sessions.events("S1")) == 1
    monkeypatch.setenv("SCRIMSHAW_SESSION_CAPTURE", "off")
    report(project, "UserPromptSubmit", prompt=WORDS)
    assert len(engine.sessions.events("S1")) == 1


def test_a_session_outside_of_the_share_is_recorded_and_told_nothing(
    engine: Engine, project: Path, vault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_memory(vault, "wal", "# Why apsw\n\nThe log is lost.", "trigger_phrases: [wal reset]")
    scan(engine)
    monkeypatch.setenv("SCRIMSHAW_ROLLOUT_INJECTION", "0")
    assert report(project, "UserPromptSubmit", prompt="is the wal reset bug fixed?") == ""
    assert len(engine.sessions.events("S1")) == 1
    monkeypatch.setenv("SCRIMSHAW_ROLLOUT_INJECTION", "100")
    assert "Why apsw" in report(project, "UserPromptSubmit", "S2", prompt="is the wal reset bug fixed?")
