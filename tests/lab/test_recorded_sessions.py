"""What a memory tells of recorded sessions, measured through its commands on two tiny sessions made up here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from scrimshaw.app.cli.main import main
from scrimshaw.config import EmbeddingSettings, Settings
from scrimshaw.engine import open_engine
from scrimshaw_lab import recorded_sessions
from scrimshaw_lab.recorded_sessions import Fact, Needs, Question, average, find_intervals

FENCE = "We paint the fence green, because the neighbours asked for it."
PROMPTS = {"aaaa0001": "Paint the garden fence in the colour that we agreed on", "bbbb0002": "Repair the kitchen tap"}
ANSWERS = {"aaaa0001": f"Decision: {FENCE}", "bbbb0002": "The tap needs a new washer."}


def write_session(home: Path, number: int, session: str) -> None:
    """A transcript: a prompt, a test that fails and then passes, an answer."""
    call = {
        "type": "tool_use",
        "id": f"{session}-{{}}",
        "name": "Bash",
        "input": {"command": f"pytest tests/{session}.py"},
    }
    rows = [{"type": "user", "message": {"role": "user", "content": PROMPTS[session]}}]
    for turn, output in enumerate(("FAILED tests/test_it.py::test_one - AssertionError: 1 != 2\n1 failed", "1 passed")):
        made = {**call, "id": f"{session}-{turn}"}
        result = {"type": "tool_result", "tool_use_id": made["id"], "content": output, "is_error": turn == 0}
        rows.append({"type": "assistant", "message": {"role": "assistant", "content": [made]}})
        rows.append({"type": "user", "message": {"role": "user", "content": [result]}})
    rows.append(
        {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": ANSWERS[session]}]}}
    )
    folder = home / "projects"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{session}.jsonl").open("w") as file:
        for second, row in enumerate(rows):
            more = {"sessionId": session, "cwd": "/w", "timestamp": f"2026-05-0{number}T08:00:{second:02}.000Z"}
            file.write(json.dumps({**row, **more, "uuid": f"{session}{second}"}) + "\n")


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    home = tmp_path / "sessions"
    for number, session in enumerate(PROMPTS, start=1):
        write_session(home, number, session)
    names = {session: {"session": f"day-{number}"} for number, session in enumerate(PROMPTS, start=1)}
    (home / "sessions.json").write_text(json.dumps(names))
    return home


def write_lines(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def read_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_answers_are_counted_beside_those_of_plain_text(
    sessions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"session": "day-1", "query": "colour of the garden fence", "kind": "decision", "wording": "own"}
    file = write_lines(
        tmp_path / "q.jsonl",
        {**asked, "id": "q1", "keys": ["green", "neighbour"]},
        {**asked, "id": "q2", "keys": ["fence", "washer"], "kind": "why"},  # of two sessions, so of none
    )
    (found,) = read_json(
        capsys, "eval", "answers", "--sessions", str(sessions), "--questions", file, "--budget", "600",
        "--folder", str(tmp_path / "kept"),
    )  # fmt: skip

    table = found["table"]
    assert table["answered"] == {"count": 2, "memory": pytest.approx(table["decision"]["memory"] / 2), "plain": 0.5}
    assert (table["decision"]["plain"], table["why"]["plain"], table["why"]["memory"]) == (1, 0, 0)
    assert table["right session first"] == {"count": 2, "memory": 1, "plain": 1}
    assert 0 < table["tokens"]["plain"] < table["tokens"]["memory"]
    passages, tokens = found["answers"]["memory"]["q1"]
    assert {session for session, _ in passages} <= set(PROMPTS)
    assert tokens > sum(len(text) for _, text in passages) // 4
    # The import is kept and not made again, and a fold holds each session once.
    monkeypatch.setattr(recorded_sessions, "import_sessions", None)
    counts = []
    for fold in "01234":
        options = ["--sessions", str(sessions), "--questions", file, "--folder", str(tmp_path / "kept"), "--fold", fold]
        held = main(["eval", "answers", *options, "--held-out"])
        counts.append((held, main(["eval", "answers", *options])))
    assert sorted(counts) == [(0, 1), *[(1, 0)] * 4]


def test_a_start_is_judged_by_what_it_tells(sessions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_lines(
        tmp_path / "needs.jsonl",
        {
            "session": "day-1",
            "task": "Paint the garden fence",
            "decisions": [{"text": "green fence", "evidence": FENCE}],
        },
        {
            "session": "day-2",
            "task": "A kitchen tap to repair",
            "open": [{"text": "buy a washer of 12 mm"}],
            "next": None,
        },
    )
    found = read_json(capsys, "eval", "start", "--sessions", str(sessions), "--needs", file)

    assert PROMPTS["bbbb0002"] in found["texts"]["day-2"]
    table = found["table"]
    assert table["task"] == {"count": 2, "told": 1, "chance": 0}
    assert (table["next or open point"]["told"], table["latest decision"]["count"]) == (0, 1)
    # Whatever is told of the test that failed, it passed later.
    assert table["of them overcome"]["told"] == table["failures told"]["told"]
    assert table["lines of another session"]["told"] == 0
    assert table["tokens"]["told"] > 20


def test_a_question_is_answered_by_the_texts_of_one_session() -> None:
    question = Question(id="q", session="a", query="?", keys=("GREEN", r"fence\b"), kind="why")
    assert question.is_answered([("b", "the fence"), ("b", "is green")])
    assert not question.is_answered([("a", "the fence"), ("b", "is green")])
    measures = question.measure(([("b", "green fence")], 351), 350, {"b": "a"})
    assert (measures["answered"], measures["why"], measures["right session first"], measures["over budget"]) == (1,) * 4
    assert question.measure(([], 350), 350, {})["over budget"] == 0


def test_a_fact_is_told_by_its_evidence_or_half_of_its_words_in_one_line() -> None:
    fact = Fact(text="switch to uv before publishing the package", evidence="Let's switch")
    assert fact.is_told(["- so let's  SWITCH now"])
    assert fact.is_told(["- decisions: publish with uv after the switch of packages"])
    assert not fact.is_told(["- switch the light on", "- publish with uv"])


def test_a_failure_is_over_when_its_cure_was_seen(project: Path, tmp_path: Path) -> None:
    failure = Fact(what="pip install failed on the contributors field", cure="moved the entry into authors")
    needs = Needs(session="a", task="", failures=(failure, Fact(what="gh repo create failed without login")))
    settings = Settings(project=project, home=tmp_path / "home", embedding=EmbeddingSettings(provider="none"))
    with open_engine(settings) as engine:
        assert needs.is_overcome(engine, "- failures: pip install error: contributors field")
        assert not needs.is_overcome(engine, "- pip install failed on contributors field; moved the entry into authors")
        assert not needs.is_overcome(engine, "- failures: gh repo create failed: login")


def test_means_leave_out_what_a_row_does_not_have() -> None:
    table = average({"ours": [{"hit": 1, "why": 0}, {"hit": 0}], "theirs": [{"hit": 1}, {"hit": 1}]})
    assert table == {"hit": {"count": 2, "ours": 0.5, "theirs": 1}, "why": {"count": 1, "ours": 0}}


def test_intervals_draw_whole_sessions() -> None:
    questions = [Question(id="", session="ab"[number % 2], query="", keys=()) for number in range(20)]
    rows = [{"answered": float(each.session == "a")} for each in questions]
    found = find_intervals(questions, {"memory": rows, "plain": [{"answered": 0.5}] * 20})
    assert found == {"memory": (0, 1), "plain": (0.5, 0.5), "lead": (-0.5, 0.5)}
