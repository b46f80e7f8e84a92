"""How a command ended, read from the text of its result."""

from __future__ import annotations

import pytest

from scrimshaw.ingest.outcome import Ending, read_report, read_shell_mark, seems_failed

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
    assert seems_failed(output) is failed


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
    assert (Ending("", None).failed, Ending("", 0).failed, Ending("", -1).failed) == (None, False, True)
