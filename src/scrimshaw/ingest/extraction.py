"""Decides which tool calls are worth remembering, and what of them: rules in, one short text out.

Rules are data. The first that matches a call, in the order of trial, says how much it deserves attention and how it is
summarised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache, partial
from typing import Annotated, Any, Protocol

from msgspec import Meta, Struct
from msgspec.structs import replace

from scrimshaw.ingest.tables import load_pattern, load_table
from scrimshaw.ingest.tool_calls import Activity, ToolCall, describe_call
from scrimshaw.models import ItemKind

LONGEST_SCAN = 64_000  # characters of an output that are looked at, head and tail: keeps a hook within its 5 ms
_SCANNED_HEAD = 16_000

LONGEST_SUMMARY = 500  # characters; the seeds' firstLast500
LONGEST_HEAD = 180  # characters of the line that says what was done
LONGEST_LINE = 160  # characters of one kept line

_pattern = partial(load_pattern, __file__, "summaries")


# Rules


class Summarizer(StrEnum):
    """How the text of an item is made from a call."""

    FIRST_LAST = "first_last_500"
    MATCH_COUNT = "match_count"
    STDOUT = "stdout"
    ERRORS = "errors"
    TEST_RUN = "test_run"
    EDIT = "edit"
    COMMIT = "commit"
    OUTLINE = "outline"


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One extraction rule; patterns are RE2, searched anywhere, and an empty one matches everything."""

    id: str
    #: Searched in the activity's name and in the tool's own name.
    tool: str
    #: Searched in the activity's subject: path, search or command.
    argument: str = ""
    #: Searched in the output.
    content: str = ""
    failed: bool | None = None
    min_lines: Annotated[int, Meta(ge=0)] = 0
    #: 0 means: leave this call alone, whatever later rules say.
    attention: Annotated[float, Meta(ge=0.0, le=1.0)]
    kind: ItemKind = ItemKind.RESULT
    summarizer: Summarizer = Summarizer.STDOUT
    #: Rules are tried by rising priority, then in the order given; the default rules start at 10.
    priority: int = 0


class Pattern(Protocol):
    """The part of a compiled RE2 pattern that matching uses."""

    def search(self, text: str) -> Any:
        """The first match, or None."""


@cache
def default_rules() -> tuple[Rule, ...]:
    """The rules Scrimshaw comes with, in the order of trial."""
    return load_table(__file__, "rules", dict[str, tuple[Rule, ...]])["rules"]


def join_rules(own: Sequence[Rule], defaults: Sequence[Rule]) -> tuple[Rule, ...]:
    """Own rules and defaults in the order of trial; an own rule that bears the id of a default takes its place."""
    taken = {rule.id for rule in own}
    return order_rules([*own, *(rule for rule in defaults if rule.id not in taken)])


def order_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules as they are tried: by rising priority, then as given."""
    return tuple(sorted(rules, key=lambda rule: rule.priority))


@cache
def compile_pattern(pattern: str) -> Pattern:
    """`pattern` on RE2, whose matching takes linear time; raises re2.error where RE2 refuses it."""
    import re2  # noqa: PLC0415 - native library, needed only where a call is matched

    options = re2.Options()
    options.log_errors = False
    compiled: Pattern = re2.compile(pattern, options)
    return compiled


# Extraction


class Extraction(Struct, frozen=True, kw_only=True):
    """What is kept of a call: `attention` 0..1, `text` of at most 500 characters, `path` of the file it is about."""

    kind: ItemKind
    attention: float
    text: str
    rule_id: str
    path: str = ""


def extract(call: ToolCall, rules: Iterable[Rule]) -> Extraction | None:
    """What the first matching rule keeps of a call; None where none matches, or it says to leave the call alone."""
    activity = _describe_within_scan(call)
    rule = next((rule for rule in rules if _matches(rule, activity)), None)
    if not rule or not rule.attention:
        return None
    text = summarize(activity, rule.summarizer)
    return Extraction(kind=rule.kind, attention=rule.attention, text=text, rule_id=rule.id, path=activity.path)


def find_rule(call: ToolCall, rules: Iterable[Rule]) -> Rule | None:
    """The first of `rules` that matches `call`, one that says to leave it alone included."""
    activity = _describe_within_scan(call)
    return next((rule for rule in rules if _matches(rule, activity)), None)


def _describe_within_scan(call: ToolCall) -> Activity:
    if len(call.output) > LONGEST_SCAN:
        head, tail = call.output[:_SCANNED_HEAD], call.output[-(LONGEST_SCAN - _SCANNED_HEAD) :]
        call = replace(call, output=f"{head}\n{tail}")
    return describe_call(call)


def _matches(rule: Rule, activity: Activity) -> bool:
    return (
        rule.failed in (None, activity.failed)
        and (_finds(rule.tool, activity.name) or _finds(rule.tool, activity.tool))
        and _finds(rule.argument, activity.subject)
        and (not rule.min_lines or activity.output.count("\n") + 1 >= rule.min_lines)
        and _finds(rule.content, activity.output)
    )


def _finds(pattern: str, text: str) -> bool:
    if not pattern:
        return True
    # Most patterns name tools, as `^(?:Edit|Write)$`: those words are compared, which spares a hook to compile them.
    if pattern[0] == "^":
        body = pattern[1:].removesuffix("$")
        words = body[3:-1].split("|") if body.startswith("(?:") and body.endswith(")") else [body]
        if all(map(str.isalnum, words)):
            return text in words if pattern.endswith("$") else text.startswith(tuple(words))
    return bool(compile_pattern(pattern).search(text))


# Summaries


def summarize(activity: Activity, summarizer: Summarizer) -> str:
    """The summary of `activity`: at most LONGEST_SUMMARY characters, never empty, the same for the same input."""
    text = _SUMMARIZERS[summarizer](activity)
    return text[:LONGEST_SUMMARY].rstrip() or activity.name


def _summarize_ends(activity: Activity) -> str:
    head = _head(activity)
    text = _pattern("blanks").sub("\n", _pattern("numbering").sub("", _plain_output(activity))).strip()
    room = LONGEST_SUMMARY - len(head) - 1
    if len(text) <= room:
        return f"{head}\n{text}"
    tail = room // 6
    return f"{head}\n{text[: room - tail - 3].rstrip()}\n…\n{text[-tail:].lstrip()}"


def _summarize_matches(activity: Activity) -> str:
    lines = [line for line in _lines(activity) if line.strip() != "--" and not _pattern("tally").search(line)]
    files = dict.fromkeys(found[1] for line in lines if (found := _pattern("located").match(line)))
    counts = f"{len(lines)} lines" + (f" in {len(files)} files: {', '.join(list(files)[:3])}" if files else "")
    wrong = [line for line in lines if "error" in line.lower() or "fail" in line.lower()]
    return _join(_head(activity), [counts, *wrong, *lines])


def _summarize_output(activity: Activity) -> str:
    lines = [line for line in _lines(activity) if not _pattern("progress").match(line)]
    return _whole_or(activity, [*lines[-2:], *lines[:2], *_matching("outcome", lines), *reversed(lines)])


def _summarize_errors(activity: Activity) -> str:
    lines = _lines(activity)
    wrong = [*_matching("raised", lines)[-1:], *_matching("wrong", lines)[:4], *_matching("place", lines)[-2:]]
    return _whole_or(activity, [*wrong, *lines[-3:]] if wrong else lines)


def _summarize_tests(activity: Activity) -> str:
    lines = [line.strip("= ") for line in _lines(activity)]
    counts, names = _matching("count", lines), _matching("failed_name", lines)
    failed = [line for line in names if line.startswith(("FAILED", "ERROR", "FAIL"))]
    wrong = _matching("raised", lines) + _matching("wrong", lines)
    return _whole_or(activity, [*counts[-1:], *wrong[:1], *(failed or names)[:3], *wrong[1:4], *names[3:], *lines[-2:]])


def _summarize_edit(activity: Activity) -> str:
    """New lines before old ones, and code before imports and comments."""
    changes = _matching("letters", activity.change.splitlines())
    changes.sort(key=lambda line: (line.startswith("-"), line[1:].lstrip().startswith(("import ", "from ", "#"))))
    success = ("The file ", "File created", "File updated", "[File:")
    return _join(_head(activity), [*(line for line in _lines(activity)[:1] if not line.startswith(success)), *changes])


def _summarize_commit(activity: Activity) -> str:
    lines = _lines(activity)
    telling = [line for line in lines if line.startswith(("[", "+", "-")) or "changed" in line or "->" in line]
    return _whole_or(activity, [*telling, *lines])


def _summarize_outline(activity: Activity) -> str:
    """Definitions of code, headings of prose, then the first lines."""
    text = _pattern("numbering").sub("", _plain_output(activity))
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    outline = _matching("definition", lines) or _matching("heading", lines)
    return _join(f"{_head(activity)} ({len(lines)} lines)", [*outline, *lines[:8]])


_SUMMARIZERS: Mapping[Summarizer, Callable[[Activity], str]] = {
    Summarizer.FIRST_LAST: _summarize_ends,
    Summarizer.MATCH_COUNT: _summarize_matches,
    Summarizer.STDOUT: _summarize_output,
    Summarizer.ERRORS: _summarize_errors,
    Summarizer.TEST_RUN: _summarize_tests,
    Summarizer.EDIT: _summarize_edit,
    Summarizer.COMMIT: _summarize_commit,
    Summarizer.OUTLINE: _summarize_outline,
}


def _head(activity: Activity) -> str:
    """What was done, in one line; of a long command the first and the last words, which often say what is run."""
    if activity.name == "Run":
        steps = (" ".join(step.split()) for step in _pattern("heredoc_mark").sub("", activity.command).splitlines())
        line = "; ".join(filter(None, steps))
        half = LONGEST_HEAD // 2
        return f"$ {line if len(line) <= LONGEST_HEAD else f'{line[:half]} … {line[-half + 3 :]}'}"
    path, _, search = activity.subject.rpartition("\n")
    if activity.name == "Grep":
        about = f"{search} in {path}" if path else search
    elif activity.change or activity.name.startswith(("Read", "Edit", "Write")):
        about = activity.path or "a file"
    else:
        about = " ".join(activity.subject.split())
    return _clip(f"{activity.name} {about}", LONGEST_HEAD)


def _plain_output(activity: Activity) -> str:
    return _pattern("harness_note").sub("", _pattern("escapes").sub("", activity.output))


def _lines(activity: Activity) -> list[str]:
    return [line.rstrip() for line in _plain_output(activity).splitlines() if line.strip()]


def _matching(pattern: str, lines: Iterable[str]) -> list[str]:
    return [line for line in lines if _pattern(pattern).search(line)]


def _clip(line: str, longest: int) -> str:
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _whole_or(activity: Activity, ranked: Iterable[str]) -> str:
    """Head and whole output where both fit, else the head and the best lines in the order of rank."""
    head, lines = _head(activity), _lines(activity)
    if len(head) + sum(len(line) + 1 for line in lines) <= LONGEST_SUMMARY:
        return "\n".join([head, *lines])
    return _join(head, ranked, LONGEST_SUMMARY - len(head))


def _join(head: str, lines: Iterable[str], room: int = LONGEST_SUMMARY - LONGEST_HEAD) -> str:
    """The head, and the lines that fit into `room` characters, each once; one that is too long is passed over."""
    fitting = [head]
    for line in dict.fromkeys(_clip(line.strip(), LONGEST_LINE) for line in lines):
        if len(line) < room:
            room -= len(line) + 1
            fitting.append(line)
    return "\n".join(fitting)
