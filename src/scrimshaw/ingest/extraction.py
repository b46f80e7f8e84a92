"""Decides by rules which tool calls are worth remembering, and summarises each; and finds what was decided in words.

Words are read by a few patterns, as a hook reads every answer; a draft reads more closely.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache, partial
from typing import Annotated, Any

from msgspec import Meta, Struct

from scrimshaw.ingest.tables import load_pattern, load_table
from scrimshaw.ingest.tool_calls import Activity
from scrimshaw.models import ItemKind, format_count

LONGEST_SUMMARY = 500  # characters; the seeds' firstLast500
LONGEST_HEAD = 180  # characters of the line that says what was done
LONGEST_LINE = 160  # characters of one kept line
LONGEST_STATEMENT, MOST_SENTENCES = 480, 3  # characters and sentences of an item made of words
_SHORTEST, _LONGEST = 20, 400  # characters of a sentence

_pattern, _cue = partial(load_pattern, __file__, "summaries"), partial(load_pattern, __file__, "statements")

# How the text of an item is made from a call.
Summarizer = StrEnum("Summarizer", "FIRST_LAST_500 MATCH_COUNT STDOUT ERRORS TEST_RUN EDIT COMMIT OUTLINE")


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One extraction rule; patterns are RE2 and may match anywhere; an empty one matches everything."""

    id: str
    tool: str  #: matched against the activity's name and the tool's own name
    argument: str = ""  #: matched against the activity's subject: path, search or command
    content: str = ""  #: matched against the output
    failed: bool | None = None
    min_lines: Annotated[int, Meta(ge=0)] = 0
    attention: Annotated[float, Meta(ge=0.0, le=1.0)]  #: 0 means: ignore this call, whatever later rules say
    kind: ItemKind = ItemKind.RESULT
    summarizer: Summarizer = Summarizer.STDOUT
    priority: int = 0  #: rules are tried by ascending priority, then in the order given; the default rules start at 10


@cache
def default_rules() -> tuple[Rule, ...]:
    """The rules Scrimshaw comes with, in the order of trial."""
    return load_table(__file__, "rules", dict[str, tuple[Rule, ...]])["rules"]


def join_rules(own: Sequence[Rule], defaults: Sequence[Rule]) -> tuple[Rule, ...]:
    """Own rules and defaults in the order of trial; an own rule with the id of a default replaces it."""
    taken = {rule.id for rule in own}
    return order_rules([*own, *(rule for rule in defaults if rule.id not in taken)])


def order_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules in the order of trial: by ascending priority, then as given."""
    return tuple(sorted(rules, key=lambda rule: rule.priority))


@cache
def compile_pattern(pattern: str) -> Any:
    """`pattern` compiled by RE2, which matches in linear time; raises re2.error if RE2 rejects it."""
    import re2  # noqa: PLC0415 - native library, needed only where a call is matched

    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)


def extract(activity: Activity, rules: Iterable[Rule]) -> tuple[Rule, str] | None:
    """The first matching rule and the call's summary by it; None if none matches, or it says to ignore the call."""
    rule = find_rule(activity, rules)
    return (rule, summarize(activity, rule.summarizer)) if rule and rule.attention else None


def find_rule(activity: Activity, rules: Iterable[Rule]) -> Rule | None:
    """The first of `rules` that matches a call, even one that says to ignore it."""
    return next(filter(partial(_matches, activity), rules), None)


def _matches(activity: Activity, rule: Rule) -> bool:
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
    # Most patterns name tools, as `^(?:Edit|Write)$`: those words are compared, so that a hook need not compile them.
    if pattern[0] == "^":
        body = pattern[1:].removesuffix("$")
        words = body[3:-1].split("|") if body.startswith("(?:") and body.endswith(")") else [body]
        if all(map(str.isalnum, words)):
            return text in words if pattern.endswith("$") else text.startswith(tuple(words))
    return bool(compile_pattern(pattern).search(text))


def summarize(activity: Activity, summarizer: Summarizer) -> str:
    """The summary of `activity`: at most LONGEST_SUMMARY characters, never empty, the same for the same input."""
    head = _head(activity)
    plain = _pattern("harness_note").sub("", activity.output)
    lines = [*map(str.rstrip, filter(str.strip, plain.splitlines()))]
    match summarizer:
        case Summarizer.FIRST_LAST_500:
            text = _pattern("blanks").sub("\n", _pattern("numbering").sub("", plain)).strip()
            if len(text) > (room := LONGEST_SUMMARY - len(head) - 1):
                text = f"{text[: room - room // 6 - 3].rstrip()}\n…\n{text[-(room // 6) :].lstrip()}"
            text = f"{head}\n{text}"
        case Summarizer.MATCH_COUNT:
            text = _join(head, _rank_matches(lines))
        case Summarizer.EDIT:
            text = _join(head, _rank_changes(activity, lines))
        case Summarizer.OUTLINE:
            lines = [*map(str.rstrip, filter(str.strip, _pattern("numbering").sub("", plain).splitlines()))]
            outline = _select("definition", lines) or _select("heading", lines)
            text = _join(f"{head} ({format_count(len(lines), 'line')})", [*outline, *lines[:8]])
        case _:
            text = "\n".join([head, *lines])
            if len(text) > LONGEST_SUMMARY:
                text = _join(head, _RANKINGS[summarizer](lines), LONGEST_SUMMARY - len(head))
    return text[:LONGEST_SUMMARY].rstrip() or activity.name


def _head(activity: Activity) -> str:
    """What was done, in one line; of a long command its first and last words, which often say what is run."""
    if activity.name == "Run":
        steps = _pattern("heredoc_mark").sub("", activity.command).splitlines()
        line = "; ".join(filter(None, map(" ".join, map(str.split, steps))))
        half = LONGEST_HEAD // 2
        return f"$ {line if len(line) <= LONGEST_HEAD else f'{line[:half]} … {line[-half + 3 :]}'}"
    path, _, search = activity.subject.rpartition("\n")
    if activity.name == "Grep":
        about = f"{search} in {path}" if path else search
    elif activity.change or activity.name.startswith(("Read", "Edit", "Write")):
        about = activity.path or "a file"
    else:
        about = " ".join(activity.subject.split())
    return shorten(f"{activity.name} {about}", LONGEST_HEAD)


def _rank_matches(lines: Sequence[str]) -> list[str]:
    lines = [line for line in lines if line.strip() != "--" and not _pattern("tally").search(line)]
    files = dict.fromkeys(found[1] for line in lines if (found := _pattern("located").match(line)))
    where = f" in {format_count(len(files), 'file')}: {', '.join(list(files)[:3])}" if files else ""
    wrong = [line for line in lines if "error" in line.lower() or "fail" in line.lower()]
    return [format_count(len(lines), "line") + where, *wrong, *lines]


def _rank_changes(activity: Activity, lines: Sequence[str]) -> list[str]:
    """The tool's message, unless it just says success, then new lines before old, code before imports and comments."""
    changes = _select("letters", activity.change.splitlines())
    changes.sort(key=lambda line: (line.startswith("-"), line[1:].lstrip().startswith(("import ", "from ", "#"))))
    success = ("The file ", "File created", "File updated", "[File:")
    return [*(line for line in lines[:1] if not line.startswith(success)), *changes]


def _rank_output(lines: Sequence[str]) -> list[str]:
    lines = [line for line in lines if not _pattern("progress").match(line)]
    return [*lines[-2:], *lines[:2], *_select("outcome", lines), *reversed(lines)]


def _rank_errors(lines: Sequence[str]) -> Sequence[str]:
    wrong = [*_select("raised", lines)[-1:], *_select("wrong", lines)[:4], *_select("place", lines)[-2:]]
    return [*wrong, *lines[-3:]] if wrong else lines


def _rank_tests(lines: Sequence[str]) -> list[str]:
    lines = [line.strip("= ") for line in lines]
    counts, names = _select("count", lines), _select("failed_name", lines)
    failed = [line for line in names if line.startswith(("FAILED", "ERROR", "FAIL"))]
    wrong = _select("raised", lines) + _select("wrong", lines)
    return [*counts[-1:], *wrong[:1], *(failed or names)[:3], *wrong[1:4], *names[3:], *lines[-2:]]


def _rank_commit(lines: Sequence[str]) -> list[str]:
    telling = (line for line in lines if line.startswith(("[", "+", "-")) or "changed" in line or "->" in line)
    return [*telling, *lines]


# How lines are ranked if not all of them fit.
_RANKINGS: Mapping[Summarizer, Callable[[Sequence[str]], Sequence[str]]] = {
    Summarizer.STDOUT: _rank_output,
    Summarizer.ERRORS: _rank_errors,
    Summarizer.TEST_RUN: _rank_tests,
    Summarizer.COMMIT: _rank_commit,
}


def _select(pattern: str, lines: Iterable[str]) -> list[str]:
    return [line for line in lines if _pattern(pattern).search(line)]


def shorten(line: str, longest: int) -> str:
    """A line of at most so many characters; a cut one ends in an ellipsis."""
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _join(head: str, lines: Iterable[str], room: int = LONGEST_SUMMARY - LONGEST_HEAD) -> str:
    """The head, and the lines that fit into `room` characters, each once; one that is too long is skipped."""
    fitting = [head]
    for line in dict.fromkeys(shorten(line.strip(), LONGEST_LINE) for line in lines):
        if len(line) < room:
            room -= len(line) + 1
            fitting.append(line)
    return "\n".join(fitting)


def find_statement(text: str, *, by_person: bool = False) -> tuple[ItemKind, str] | None:
    """The decisions in a text, or else its next steps, in the speaker's words: the last sentences; usually none."""
    pieces = _cue("sentence_end").split(_cue("fenced").sub("\n", text))
    bare = (" ".join(_cue("marks").sub("", piece).split()) for piece in pieces)
    sentences = [each for each in bare if _SHORTEST <= len(each) <= _LONGEST and not _cue("unsettled").search(each)]
    choices = ("decided", "wished") if by_person else ("decided",)
    for kind, cues in ((ItemKind.DECISION, choices), (ItemKind.PLAN, ("planned",))):
        patterns = [*map(_cue, cues)]
        found = [each for each in sentences if any(cue.search(each) for cue in patterns)][-MOST_SENTENCES:]
        while len(" ".join(found)) > LONGEST_STATEMENT:
            del found[0]
        if found:
            return kind, " ".join(found)
    return None
