"""The measure of the quality gate counts what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scrimshaw.errors import InvalidRequest
from scrimshaw.ingest.quality import QualityVerdict
from scrimshaw_lab.metrics import DetectionScore
from scrimshaw_lab.quality import FileLabel, LabelledFile, evaluate_quality, labelled_files

GOOD, BAD = QualityVerdict(1.0), QualityVerdict(0.2, ("has_placeholders",), ("Quality gate failed: ...",))


def labelled(name: str, accept: bool, text: str, *ambiguous: str) -> LabelledFile:
    label = FileLabel(
        file=f"dev/{name}.md",
        band="B" if accept else "D",
        accept=accept,
        flags={"has_placeholders": not accept},
        ambiguous=ambiguous,
    )
    return LabelledFile(label, text)


def test_agreement_recall_flags_and_bands() -> None:
    files = [
        labelled("kept", True, "good"),
        labelled("lost", True, "bad", "has_placeholders"),
        labelled("gone", False, "bad"),
        labelled("slipped", False, "good"),
    ]
    report = evaluate_quality(files, lambda text, _: GOOD if text == "good" else BAD)
    assert (report.overall.agreement, report.overall.accept_recall) == (0.5, 0.5)
    assert report.overall.false_accepts == ("dev/slipped.md",)
    assert report.overall.false_rejects == ("dev/lost.md",)
    assert report.overall.flags == {"has_placeholders": DetectionScore(found=1, wrong=1, missed=1)}
    assert (report.overall.flags["has_placeholders"].precision, report.overall.flags["has_placeholders"].recall) == (
        0.5,
        0.5,
    )
    assert report.unambiguous.files == 3
    assert report.unambiguous.agreement == pytest.approx(2 / 3)
    assert report.unambiguous.accept_recall == 1.0
    assert report.bands["B"] == {"A": 1, "B": 0, "C": 0, "D": 1}


def test_nothing_to_judge_is_no_figure() -> None:
    report = evaluate_quality([], lambda *_: GOOD)
    assert report.overall.agreement is report.overall.accept_recall is DetectionScore().precision is None


@pytest.mark.parametrize("folder", ["memories", "memories/dev"])
def test_files_are_found_in_the_folder_and_beside_it(tmp_path: Path, folder: str) -> None:
    (tmp_path / "memories" / "dev").mkdir(parents=True)
    (tmp_path / "memories" / "dev" / "a.md").write_text("Text", encoding="utf-8")
    labels = tmp_path / "labels.jsonl"
    label = {"file": "dev/a.md", "band": "A", "accept": True, "flags": {}, "reason": "kept"}
    labels.write_text(json.dumps(label) + "\n", encoding="utf-8")
    assert [file.text for file in labelled_files(tmp_path / folder, labels)] == ["Text"]
    (tmp_path / "memories" / "dev" / "a.md").unlink()
    with pytest.raises(InvalidRequest, match=r"has no dev/a\.md"):
        labelled_files(tmp_path / folder, labels)
