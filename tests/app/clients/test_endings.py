"""How a command ended, read from the text of its result."""

from __future__ import annotations

import pytest

from scrimshaw.app.clients.client import Ending, read_report
from scrimshaw.app.clients.codex import guess_failure
from scrimshaw.app.clients.copilot import read_shell_mark

_SHELL_MARK = "<shellId: 0 completed with exit code {}>"


@pytest.mark.parametrize(
    ("output", "failed"),
    [
        ("", None),
        ("261abd5 scripted commit\n", None),
        ("deploy port is 8443\nerrors are logged\n", None),
        ("12 tests, 0 failures\n", None),
        ("Exit code: 0\nOutput:\nfatal: in the text\n", False),
        ("Process exited with code 2\n", True),
        ("fatal: not a git repository\n", True),
        ("bash: line 1: foo: command not found\n", True),
        ("/bin/sh: 1: foo: not found\n", True),
        ("Traceback (most recent call last):\n  File 'x'\nValueError: bad port\n", True),
        ("src/a.c: In function\nmake: *** [all] Error 1\n", True),
        ("collected 3 items\n====== 1 failed, 2 passed in 0.12s ======\n", True),
        ("Compiling\n12 tests, 1 failure\n", True),
        ("ls: cannot access 'x': No such file or directory\n", True),
    ],
)
def test_the_text_of_a_command_tells(output: str, failed: bool | None) -> None:
    assert guess_failure(output) is failed


@pytest.mark.parametrize(
    ("report", "ending"),
    [
        ("Output: ok\nProcess Group PGID: 5", Ending("ok", None)),
        ("Output: a\nb\nExit Code: 3\nProcess Group PGID: 5", Ending("a\nb", 3)),
        ("Output: a\nExit Code: 7\nExit Code: 0", Ending("a\nExit Code: 7", 0)),
        (
            "Command: echo 'Output: x'\nDirectory: (root)\nOutput: x\nError: (none)\nExit Code: 0\nSignal: (none)",
            Ending("x", 0),
        ),
        ("Command: x\nDirectory: (root)\nOutput: \nError: boom\nExit Code: 1", Ending("\nError: boom", 1)),
        ("Command: x\nDirectory: (root)\nOutput: a\nExit Code: (none)\nSignal: 9", Ending("a", None)),
        ("just a text\nExit Code: 3", Ending("just a text\nExit Code: 3", None)),
    ],
)
def test_a_shell_report_is_read(report: str, ending: Ending) -> None:
    assert read_report(report) == ending


@pytest.mark.parametrize(
    ("output", "ending"),
    [
        ("a\nb\n" + _SHELL_MARK.format(3), Ending("a\nb", 3)),
        (_SHELL_MARK.format(0), Ending("", 0)),
        (_SHELL_MARK.format(0) + "\nmore", Ending(_SHELL_MARK.format(0) + "\nmore", None)),
        ("x" * 1000, Ending("x" * 1000, None)),
    ],
)
def test_a_shell_mark_is_read(output: str, ending: Ending) -> None:
    assert read_shell_mark(output) == ending


def test_failure_needs_a_code() -> None:
    assert (Ending("", None).is_failure, Ending("", 0).is_failure, Ending("", -1).is_failure) == (None, False, True)


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
    assert guess_failure(output) is expected


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
    assert ending.is_failure is (None if expected.code is None else expected.code != 0)
