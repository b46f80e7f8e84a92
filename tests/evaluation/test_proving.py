"""The proof of durability: clean for this build, and never for builds that are broken on purpose."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pytest
from tests.evaluation.broken_writer import BREAKS

from scrimshaw.evaluation.proving.proof import Report, prove

WRITER = Path(__file__).with_name("broken_writer.py")
FOUND_BY = {
    "file_not_forced": {"acknowledged_lost", "corrupt_files"},
    "names_not_forced": {"acknowledged_lost", "ledger_breaks"},
    "written_in_place": {"corrupt_files"},
    "journal_before_file": {"ledger_breaks"},
    "answer_before_commit": {"acknowledged_lost"},
}


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the proof makes its folders."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def broken(what: str) -> Report:
    return prove(rounds=25, seed=1, most_failures=1, command=(sys.executable, str(WRITER), what))


@pytest.mark.parametrize("what", BREAKS)
def test_a_broken_build_is_found_out(what: str) -> None:
    report = broken(what)
    counts = {name: getattr(report, name) for name in FOUND_BY[what]}
    assert any(counts.values()), report
