"""Summaries of tool calls: the few lines worth keeping, never longer than LONGEST_SUMMARY characters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from scrimshaw.ingest.rules import Summarizer
from scrimshaw.ingest.tool_calls import Activity

LONGEST_SUMMARY = 500  # characters; the seeds' firstLast500
LONGEST_HEAD = 180  # characters of the line that says what was done
LONGEST_LINE = 160  # characters of one kept line

# Patterns are compiled when first used: a hook that keeps nothing must not pay for them.
_ESCAPES = r"\x1b\[[0-9;?]*[A-Za-z]"
_NUMBERING = r"(?m)^[ \t]*\d+(?:→|\t|[ \t]?:|[ \t]*\|)"
_BLANKS = r"\n\s*\n"
_HARNESS_NOTE = r"(?s)\A\s*<warning>.*?</warning>\s*(?:<output_head>)?"
_HEREDOC_MARK = r"<<-?\s*['\"]?\w+['\"]?"
_LETTERS = r"[^\W\d_]{2}"
_TALLY = r"^(?:Found \d+|\d+ match)"
_LOCATED = r"^([^\s:][^:\n]*?\.\w+)(?::\d+|-\d+-|:|$)"

_COUNT = (
    r"\b\d+ (?:passed|failed|failures?|errors?|passing|failing)\b|\btest result:"
    r"|^Ran \d+ tests?\b|^(?:FAILED|OK) ?\(|^OK$"
)
_FAILED_NAME = r"^(?:FAILED|ERROR|FAIL:|ERROR:|--- FAIL:|not ok|[✗✕×●])\s?\S|^\s{0,4}\d+\) \S|\.\.\. FAILED$"
_RAISED = r"^(?:E\s+)?[\w.]+(?:Error|Exception|Interrupt|Failure)\b(?::|$)|^\s*\*\* \(\w|^panic: |' panicked at "
_WRONG = (
    r"(?i)\b(?:error|fatal|exception)\b(?:\[\w+\])?:|Error: |\bAssertion|\berror TS\d|^CONFLICT "
    r"|\b(?:broken|cannot|undefined|denied|refused|rejected|missing)\b"
    r"|\b(?:no such|not found|not defined|failed to|unable to)\b"
)
_PLACE = r"^\s*(?:File \"[^\"]+\", line \d+|[\w./-]+\.\w{1,5}:\d+)"
_DEFINITION = (
    r"^\s*(?:(?:export|default|pub|pub\([a-z]+\)|public|private|protected|static|abstract|final|async) )*"
    r"(?:def|defp|defmodule|defmacro|class|func|fn|function|interface|type|struct|enum|trait|impl|module|record)\s"
    r"|^(?:const|let|var) \w+ = (?:async )?(?:function|\()|^\w[\w-]*\(\) ?\{"
)
_HEADING = r"^#{1,4} \S"
_PROGRESS = (
    r"^(?:[.\s\dFEsx%\[\]]+|(?:Requirement already|Collecting|Downloading|Using cached|Compiling|Obtaining|Get:\d"
    r"|Hit:\d|\(?Reading|Unpacking|Preparing)\b.*)$"
)
_OUTCOME = r"^(?:Successfully|Installed|[Aa]dded|Removed|Updated|Created|Saved|Generated|✓|✔|\+ )|->|\.\.|done|complete"

Summarize = Callable[[Activity], str]


def summarize(activity: Activity, summarizer: Summarizer) -> str:
    """The summary of `activity`: at most LONGEST_SUMMARY characters, never empty, the same for the same input."""
    text = SUMMARIZERS[summarizer](activity)
    return text[:LONGEST_SUMMARY].rstrip() or activity.name


def _first_last(activity: Activity) -> str:
    head = _head(activity)
    text = re.sub(_BLANKS, "\n", _clean(activity.output)).strip()
    room = LONGEST_SUMMARY - len(head) - 1
    if len(text) <= room:
        return f"{head}\n{text}"
    tail = room // 6
    return f"{head}\n{text[: room - tail - 3].rstrip()}\n…\n{text[-tail:].lstrip()}"


def _match_count(activity: Activity) -> str:
    lines = [line for line in _lines(activity) if line.strip() != "--" and not re.search(_TALLY, line)]
    files = dict.fromkeys(found[1] for line in lines if (found := re.match(_LOCATED, line)))
    counts = f"{len(lines)} lines" + (f" in {len(files)} files: {', '.join(list(files)[:3])}" if files else "")
    wrong = [line for line in lines if "error" in line.lower() or "fail" in line.lower()]
    return _join(_head(activity), _fitting([counts, *wrong, *lines]))


def _stdout(activity: Activity) -> str:
    lines = [line for line in _lines(activity) if not re.match(_PROGRESS, line)]
    telling = [line for line in lines if re.search(_OUTCOME, line)]
    return _whole_or(activity, [*lines[-2:], *lines[:2], *telling, *reversed(lines)])


def _errors(activity: Activity) -> str:
    lines = _lines(activity)
    wrong = [*_those_with(_RAISED, lines)[-1:], *_those_with(_WRONG, lines)[:4], *_those_with(_PLACE, lines)[-2:]]
    return _whole_or(activity, [*wrong, *lines[-3:]] if wrong else lines)


def _test_run(activity: Activity) -> str:
    lines = [line.strip("= ") for line in _lines(activity)]
    counts = _those_with(_COUNT, lines)
    names = _those_with(_FAILED_NAME, lines)
    listed = [line for line in names if line.startswith(("FAILED", "ERROR", "FAIL"))]
    wrong = _those_with(_RAISED, lines) + _those_with(_WRONG, lines)
    ranked = [*counts[-1:], *wrong[:1], *(listed or names)[:3], *wrong[1:4], *names[3:], *lines[-2:]]
    return _whole_or(activity, ranked)


def _edit(activity: Activity) -> str:
    changed = _those_with(_LETTERS, activity.change.splitlines())
    said = [line for line in _lines(activity)[:1] if not _tells_only_success(line)]
    return _join(_head(activity), _fitting([*said, *sorted(changed, key=_news)]))


def _commit(activity: Activity) -> str:
    lines = _lines(activity)
    telling = [line for line in lines if line.startswith(("[", "+", "-")) or "changed" in line or "->" in line]
    return _whole_or(activity, [*telling, *lines])


def _outline(activity: Activity) -> str:
    """Definitions of code, headings of prose, then the first lines."""
    lines = [line.rstrip() for line in _clean(activity.output).splitlines() if line.strip()]
    outline = _those_with(_DEFINITION, lines) or _those_with(_HEADING, lines)
    return _join(f"{_head(activity)} ({len(lines)} lines)", _fitting([*outline, *lines[:8]]))


SUMMARIZERS: Mapping[Summarizer, Summarize] = {
    Summarizer.FIRST_LAST: _first_last,
    Summarizer.MATCH_COUNT: _match_count,
    Summarizer.STDOUT: _stdout,
    Summarizer.ERRORS: _errors,
    Summarizer.TEST_RUN: _test_run,
    Summarizer.EDIT: _edit,
    Summarizer.COMMIT: _commit,
    Summarizer.OUTLINE: _outline,
}


def _head(activity: Activity) -> str:
    """What was done, in one line."""
    if activity.name == "Run":
        return f"$ {_shortened(activity.command)}"
    return _clip(f"{activity.name} {_about(activity)}", LONGEST_HEAD)


def _about(activity: Activity) -> str:
    path, _, search = activity.subject.rpartition("\n")
    if activity.name == "Grep":
        return f"{search} in {path}" if path else search
    if activity.change or activity.name.startswith(("Read", "Edit", "Write")):
        return activity.path or "a file"
    return " ".join(activity.subject.split())


def _shortened(command: str) -> str:
    """The first and the last words of a long command: the last often says what is run or which file it is about."""
    steps = (" ".join(step.split()) for step in re.sub(_HEREDOC_MARK, "", command).splitlines())
    line = "; ".join(step for step in steps if step)
    if len(line) <= LONGEST_HEAD:
        return line
    half = LONGEST_HEAD // 2
    return f"{line[:half]} … {line[-half + 3 :]}"


def _clean(output: str) -> str:
    return re.sub(_NUMBERING, "", _plain(output))


def _plain(output: str) -> str:
    return re.sub(_HARNESS_NOTE, "", re.sub(_ESCAPES, "", output))


def _lines(activity: Activity) -> list[str]:
    return [line.rstrip() for line in _plain(activity.output).splitlines() if line.strip()]


def _those_with(pattern: str, lines: Iterable[str]) -> list[str]:
    return [line for line in lines if re.search(pattern, line)]


def _clip(line: str, longest: int) -> str:
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _join(head: str, lines: Iterable[str]) -> str:
    return "\n".join([head, *lines])


def _whole_or(activity: Activity, ranked: Iterable[str]) -> str:
    """Head and whole output where both fit, else the head and the best lines in the order of rank."""
    head, lines = _head(activity), _lines(activity)
    if len(head) + sum(len(line) + 1 for line in lines) <= LONGEST_SUMMARY:
        return _join(head, lines)
    return _join(head, _fitting(ranked, LONGEST_SUMMARY - len(head)))


def _fitting(lines: Iterable[str], room: int = LONGEST_SUMMARY - LONGEST_HEAD) -> Iterator[str]:
    """The lines that fit into `room` characters, each once, in order; one that is too long is passed over."""
    for line in dict.fromkeys(_clip(line.strip(), LONGEST_LINE) for line in lines):
        if len(line) < room:
            room -= len(line) + 1
            yield line


def _news(line: str) -> tuple[bool, bool]:
    """Sorts new lines before old ones, and code before imports and comments."""
    return line.startswith("-"), line[1:].lstrip().startswith(("import ", "from ", "#"))


def _tells_only_success(line: str) -> bool:
    return line.startswith(("The file ", "File created", "File updated", "[File:"))
