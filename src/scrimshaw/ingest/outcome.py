"""How a command ended, told from the text of its result where a client says it nowhere else."""

from __future__ import annotations

import re
from typing import NamedTuple

_REPORT_FIELDS = frozenset(("Exit Code", "Signal", "Background PIDs", "Process Group PGID"))
_REPORT_HEAD = re.compile(r"\A(?:Command: .*?\n)?(?:Directory: [^\n]*\n)?Output: ", re.DOTALL)
_SHELL_MARK = re.compile(r"\n?<shellId: [^>\n]{0,80}completed with exit code (-?\d{1,10})>\s*\Z")
_SHELL_MARK_LENGTH = 160
_CODE = re.compile(
    r"\A(?:Error: )?(?:Exit code:?|Process exited with code|Command failed with exit code) (-?\d{1,10})\b"
)
_CRY = re.compile(
    r"\A(?:fatal: |error(?:\[E\d+\])?: |npm (?:ERR!|error) |error Command failed|FAILED \(|test result: FAILED"
    r"|(?:/usr)?(?:/bin/)?(?:ba|z|da|k)?sh: |make(?:\[\d+\])?: \*\*\* "
    r"|[A-Za-z_][\w.]*(?:Error|Exception): "
    r"|[a-z][\w.-]*: .*: (?:No such file or directory|Permission denied|not found)\Z)"
)
_TALLY = re.compile(r"\b[1-9]\d{0,6} (?:failed|failures?|errors?)\b")
_LONGEST_LINE = 400


class Ending(NamedTuple):
    """The output without what the client wrapped around it, and the exit code; None where the text has none."""

    output: str
    code: int | None

    @property
    def failed(self) -> bool | None:
        """Whether the code means failure; None without a code."""
        return None if self.code is None else self.code != 0


def read_report(report: str) -> Ending:
    """Read the report that Gemini and Qwen make of a shell command; other text is its own output, without a code."""
    head = _REPORT_HEAD.match(report)
    if not head:
        return Ending(report, None)
    lines = report[head.end() :].split("\n")
    fields: dict[str, str] = {}
    while lines and (field := lines[-1].partition(": "))[0] in _REPORT_FIELDS - fields.keys():
        fields[field[0]] = field[2]
        lines.pop()
    if lines[-1:] == ["Error: (none)"]:
        lines.pop()
    return Ending("\n".join(lines), _whole(fields.get("Exit Code", "")))


def read_shell_mark(output: str) -> Ending:
    """Read the line with the exit code that Copilot adds to a shell's output."""
    start = max(0, len(output) - _SHELL_MARK_LENGTH)
    mark = _SHELL_MARK.search(output, start)
    return Ending(output[: mark.start()], int(mark[1])) if mark else Ending(output, None)


def seems_failed(output: str) -> bool | None:
    """True when the first or last line of a command's output reads like a failure, or the last one counts some.

    None otherwise: a quiet failure cannot be told from success, so only a printed exit code of 0 reads as success.
    """
    lines = output.strip().splitlines() or [""]
    code = _CODE.match(lines[0])
    if code:
        return int(code[1]) != 0
    first, last = lines[0][:_LONGEST_LINE], lines[-1][:_LONGEST_LINE]
    return True if _CRY.match(first) or _CRY.match(last) or _TALLY.search(last) else None


def _whole(value: str) -> int | None:
    return int(value) if re.fullmatch(r"-?\d{1,10}", value) else None
