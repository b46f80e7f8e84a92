"""eval quality judges labelled files, prints what it found, and records it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scrimshaw.app.cli.main import main
from scrimshaw_lab import calibration

FLAGS = {"has_contamination": False}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / ".scrimshaw").mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("SCRIMSHAW_HOME", str(tmp_path / "home"))
    return folder


@pytest.fixture
def arguments(tmp_path: Path) -> list[str]:
    files = tmp_path / "files"
    files.mkdir()
    (files / "kept.md").write_text("The port is 8443.\n", encoding="utf-8")
    (files / "beep.md").write_text("Beep boop. The port is 8443.\n", encoding="utf-8")
    labels = tmp_path / "labels.jsonl"
    lines = [
        {"file": "kept.md", "band": "A", "accept": True, "flags": FLAGS},
        {"file": "beep.md", "band": "D", "accept": False, "flags": {"has_contamination": True}, "ambiguous": ["x"]},
    ]
    labels.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return ["eval", "quality", "--files", str(files), "--labels", str(labels)]


def test_json_holds_the_rates_and_the_names(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["files"], found["agreement"], found["accept_recall"]) == (2, 0.5, 1.0)
    assert (found["false_accepts"], found["false_rejects"]) == (["beep.md"], [])
    assert found["flags"]["has_contamination"] == {
        "precision": None,
        "recall": 0.0,
        "found": 0,
        "wrong": 0,
        "missed": 1,
    }
    assert (found["unambiguous"]["files"], found["unambiguous"]["agreement"]) == (1, 1.0)
    assert found["bands"]["A"] == {"A": 1, "B": 0, "C": 0, "D": 0}


def test_the_projects_own_phrases_count(
    arguments: list[str], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / ".scrimshaw" / "config.toml").write_text('[quality]\nphrases = ["Beep"]\n', encoding="utf-8")
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agreement"] == 1.0


def test_a_person_reads_a_table_and_the_record(
    arguments: list[str], project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--record"]) == 0
    printed = capsys.readouterr().out
    assert "2 files: agreement 50.0%, acceptable files accepted 100.0%." in printed
    assert "Accepted wrongly: beep.md" in printed
    page = (project / calibration.PAGE).read_text(encoding="utf-8")
    assert "## Quality" in page
    assert "| has_contamination | 0 | 0 | 1 | - | 0.0% |" in page


def test_a_label_without_a_file_is_refused(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "files" / "beep.md").unlink()
    assert main(arguments) == 1
    assert "has no beep.md" in capsys.readouterr().err
