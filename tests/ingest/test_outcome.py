"""How a command ended, as different clients print it."""

from __future__ import annotations

import pytest

from scrimshaw.ingest.outcome import Ending, read_report, read_shell_mark, seems_failed


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("Exit code 1\nTraceback", True),
        ("Exit code: 0\nerror: none of it matters", False),
        ("Error: Command failed with exit code 2", True),
        ("fatal: not a git repository", True),
        ("collecting\n3 passed, 1 failed in 2.1s", True),
        ("collecting\n3 passed, 0 failed in 2.1s", None),
        ("the error is handled", None),
        ("", None),
    ],
)
def test_only_what_reads_like_a_failure_is_one(output: str, expected: bool | None) -> None:
    assert seems_failed(output) is expected


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        ("Command: ls\nDirectory: (root)\nOutput: hi\nError: (none)\nExit Code: 0", Ending("hi", 0)),
        ("Output: one\ntwo\nExit Code: 2\nSignal: (none)", Ending("one\ntwo", 2)),
        ("Output: hi\nExit Code: (none)", Ending("hi", None)),
        ("plain output\nExit Code: 1", Ending("plain output\nExit Code: 1", None)),
    ],
)
def test_a_report_is_read_and_other_text_is_its_own_output(report: str, expected: Ending) -> None:
    assert read_report(report) == expected


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("ok\n<shellId: 3 completed with exit code 1>\n", Ending("ok", 1)),
        ("ok\n<shellId: 3 completed with exit code -9>", Ending("ok", -9)),
        (
            "<shellId: 3 completed with exit code 0> and more",
            Ending("<shellId: 3 completed with exit code 0> and more", None),
        ),
    ],
)
def test_the_mark_of_a_shell_is_taken_off(output: str, expected: Ending) -> None:
    ending = read_shell_mark(output)
    assert ending == expected
    assert ending.failed is (None if expected.code is None else expected.code != 0)
