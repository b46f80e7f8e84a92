"""eval shadow and eval pressure on a project, as a user runs them; every figure can be made again from the rows."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from tests.app.command_line import Cli, command_line, enter_project
from tests.samples import write_memory

from scrimshaw_lab.shadow import Shadow, judge


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    vault = enter_project(tmp_path, monkeypatch) / ".scrimshaw/memories"
    for number in range(30):
        text = f"# Harbour number {number} of the coast\n\n" + "boat " * (number + 1) + "whale " * max(0, 12 - number)
        write_memory(vault, f"harbours/{number:02}", f"{text}\n\n## What {number} boats need\n\nRope.\n")
    return command_line(capsys)


def test_a_shadow_run_keeps_its_rows_and_its_bounds(cli: Cli, tmp_path: Path) -> None:
    cli("search", "whale", "boat")
    cli("get", "harbours/04")
    rows, review = tmp_path / "rows.jsonl", tmp_path / "review.jsonl"
    run = cli("eval", "shadow", "--total", "20", "--rows", str(rows), "--review", str(review), "--json")
    assert run.code == 0, run.err
    kept = msgspec.json.Decoder(Shadow).decode_lines(rows.read_bytes())
    assert {each.query.query for each in kept} >= {"whale boat"}
    assert json.loads(msgspec.json.encode(judge(kept))) == run.json
    assert len(review.read_bytes().splitlines()) == 4  # of 20 queries in two cases
    asked = next(each for each in kept if each.query.query == "whale boat")
    assert asked.query.relevant == {"harbours/04": 2}


def test_a_boost_without_its_cap_fails_and_other_settings_are_compared(cli: Cli) -> None:
    assert "missed" in cli("eval", "shadow", "--total", "40", "--uncapped").out
    assert cli("eval", "shadow", "--total", "40", "--uncapped").code == 1
    same = cli("eval", "shadow", "--total", "10", "--with", "search.limit=10")
    assert (same.code, "Spearman 1.000" in same.out) == (0, True)
    baseline = cli("eval", "shadow", "--total", "10", "--with", "features.profile=baseline", "--json").json
    assert baseline["cases"][0]["rank_correlation"] == 1.0
    assert "sets nothing" in cli("eval", "shadow", "--with", "search.speed=9").err


def test_pressure_is_replayed_over_recorded_sessions(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "transcripts/-project"
    folder.mkdir(parents=True)
    about = {"sessionId": "s1", "cwd": str(tmp_path / "project"), "timestamp": "2026-11-20T10:00:00Z"}
    lines = [{**about, "type": "user", "message": {"role": "user", "content": "Build the harbour"}}]
    for number in range(30):
        call = {"type": "tool_use", "id": f"c{number}", "name": "Bash", "input": {"command": f"make {number}"}}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "built " * 400}
        lines.append({**about, "type": "assistant", "message": {"role": "assistant", "content": [call]}})
        lines.append({**about, "type": "user", "message": {"role": "user", "content": [result]}})
    (folder / "s1.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    run = cli("eval", "pressure", "--sessions", str(tmp_path / "transcripts"), "--context", "40000", "--json")
    assert run.json["figures"]["sessions"] == 1
    assert run.json["figures"]["over_budget"] == 0
    assert run.code == (1 if run.json["missed"] else 0)
    assert cli("eval", "pressure", "--sessions", str(tmp_path / "project")).code == 1
