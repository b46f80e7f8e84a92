"""How a command ended, read from the text of its result."""

from __future__ import annotations

import pytest

from scrimshaw.app.clients.client import read_report
from scrimshaw.app.clients.codex import guess_failure
from scrimshaw.app.clients.copilot import read_shell_mark

CANCELLED = "Command was automatically cancelled because it exceeded the timeout of 5.0 minutes without output."
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
        ("Exit code 1\nTraceback", True),
        ("Exit code: 0\nerror: none of it matters", False),
        ("Error: Command failed with exit code 2", True),
        ("collecting\n3 passed, 1 failed in 2.1s", True),
        ("collecting\n3 passed, 0 failed in 2.1s", None),
        ("the error is handled", None),
    ],
)
def test_the_text_of_a_command_tells(output: str, failed: bool | None) -> None:
    assert guess_failure(output) is failed


@pytest.mark.parametrize(
    ("report", "ending"),
    [
        ("Output: ok\nProcess Group PGID: 5", ("ok", 0)),
        ("Output: a\nb\nExit Code: 3\nProcess Group PGID: 5", ("a\nb", 3)),
        ("Output: a\nExit Code: 7\nExit Code: 0", ("a\nExit Code: 7", 0)),
        (
            "Command: echo 'Output: x'\nDirectory: (root)\nOutput: x\nError: (none)\nExit Code: 0\nSignal: (none)",
            ("x", 0),
        ),
        ("Command: x\nDirectory: (root)\nOutput: \nError: boom\nExit Code: 1", ("\nError: boom", 1)),
        ("Command: x\nDirectory: (root)\nOutput: a\nExit Code: (none)\nSignal: 9", ("a", 1)),
        ("Output: a\nSignal: 0", ("a", 0)),
        ("Output: (empty)\nExit Code: 1\nProcess Group PGID: 5", ("", 1)),
        ("Output: (empty) is a word", ("(empty) is a word", 0)),
        (f"{CANCELLED}\nred", (f"{CANCELLED}\nred", 1)),
        ("Command injection detected: command substitution", ("Command injection detected: command substitution", 1)),
        ("just a text\nExit Code: 3", ("just a text\nExit Code: 3", 0)),
        ("Command: ls\nDirectory: (root)\nOutput: hi\nError: (none)\nExit Code: 0", ("hi", 0)),
        ("Output: one\ntwo\nExit Code: 2\nSignal: (none)", ("one\ntwo", 2)),
        ("Output: hi\nExit Code: (none)", ("hi", 0)),
    ],
)
def test_a_shell_report_is_read(report: str, ending: tuple[str, int]) -> None:
    assert read_report(report) == ending


@pytest.mark.parametrize(
    ("output", "ending"),
    [
        ("a\nb\n" + _SHELL_MARK.format(3), ("a\nb", True, "")),
        (_SHELL_MARK.format(0), ("", False, "")),
        (_SHELL_MARK.format(0) + "\nmore", (_SHELL_MARK.format(0) + "\nmore", False, "")),
        ("x" * 1000, ("x" * 1000, False, "")),
        ("ok\n<shellId: 3 completed with exit code 1>\n", ("ok", True, "")),
        ("ok\n<shellId: 3 completed with exit code -9>", ("ok", True, "")),
        (_SHELL_MARK.format(0) + " and more", (_SHELL_MARK.format(0) + " and more", False, "")),
        ("<command started in background with shellId: bg1>", ("", None, "bg1")),
        ("a\n<command with shellId: 0 is still running after 30 seconds. It still runs. Stop it.>", ("a", None, "0")),
    ],
)
def test_a_shell_mark_is_read(output: str, ending: tuple[str, bool | None, str]) -> None:
    assert read_shell_mark(output) == ending
