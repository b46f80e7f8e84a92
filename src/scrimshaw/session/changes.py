"""What a session changed: results as told, commits, issues, files. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from scrimshaw.models import EventKind, Item, RecordedEvent
from scrimshaw.session.evidence import AGENT, Sentence, Statement, cut
from scrimshaw.session.phrases import says_something

MOST_FINDINGS, _ENOUGH_TOLD = 5, 2
MOST_RESULTS, MOST_COMMITS, MOST_FILES, MOST_TRACKED, MOST_LINES = 8, 12, 40, 4, 4
LEAST_RESULTS, _CALLS_PER_RESULT = 3, 25
LONGEST_SUBJECT = 110  # characters of a commit's first line; half as much again as is customary
COMMIT = "commit"  # the note of a statement that quotes a commit's subject

_COMMITTED = re.compile(r"(?m)^\s*\[[^\]\n]{1,100} [0-9a-f]{7,40}\] (\S[^\n]*)")
_MESSAGE = re.compile(r"\bgit\b[^;&|]{0,60} commit\b.*?-a?m\s+(?:\"\$\(cat )?[\"']([^\"'\n]{4,120})")
_BODY = re.compile(r" ?… ?| - (?=[A-Z])")  # where a message's subject ends once its lines are joined
_SETTLED = re.compile(r"(?i)\b(?:closed|created|merged|resolved|reopened)\b.* ")
_SCRATCH = re.compile(
    r"(?i)^(?:/private)?/(?:tmp|var/folders)/|\.(?:log|output|backup)\Z"
    r"|(?:\A|/)(?:reproduc|repro_|verify_|check_|debug|tmp|temp|apply_fix|scratch)[^/]*\Z"
)
_TELLING_LINE = re.compile(r"\+(?=[^\n]*[A-Za-z]{3})\s*(?!#|//|import |from |\"\"\"|\*)[^\n]{12,160}\Z")
_VERB = (
    r"(?:implemented|fixed|added|created|updated|removed|replaced|refactored|renamed|extracted|moved|wired|pushed"
    r"|published|committed|merged|resolved|closed|installed|configured|migrated|rewrote|rewritten|extended|introduced"
    r"|documented|verified|switched|set up|completed|reverted|deleted|rebased|built|enabled|disabled|consolidated"
    r"|simplified)"
)
_DONE = re.compile(
    rf"(?i)\A(?:\W*{_VERB}\b|`[^`]+` [—–-]+ )"
    rf"|\b(?:I|we)(?:'ve| have)?(?: also| now| just| successfully| already)* {_VERB}\b"
    rf"|\b(?:has|have|is|are|was|were)(?: now| been| also| fully| successfully)* {_VERB}\b"
    r"|\bsuccessfully\b|\bnow (?:works|passes|handles|returns|uses|shows)\b"
)
_TALLY = re.compile(
    r"(?i)\b\d+ (?:\w+ )?tests?\b.*\bpass|\b0 failures\b|\ball (?:\w+ )?tests pass|\bCI (?:is|now) (?:green|passing)"
)
_NO_FINDING = re.compile(
    r"(?i)[?:]\W*\Z|\A(?:let me|let's|I'll|I will|now|next|great|perfect|sorry|I apologi[sz]e"
    r"|you're (?:absolutely )?right)\b"
)
_FINDINGS = re.compile(
    r"(?i)\b(?:findings?|conclusions?|insights?|lessons? learned|learnings|what we (?:learned|know))\b"
)
_NOT_DONE = re.compile(
    r"(?i)\A(?:now|next|let's|let me|I'll|I will|I need|I should|first|we (?:should|need)|wait|if|would|should|could"
    r"|the user|that|this|it|they|you|there|I'm)\b|\bthat (?:we|I) \w+ed\b|[?:]\W*\Z"
    r"|\b(?:will|should|would|could|might|let me|let's|I'll|need to|what|when|where|how|why"
    r"|not|never|failed|fails|unable|however|but)\b|n't\b"
)


def changed(
    events: Sequence[RecordedEvent],
    items: Sequence[Item],
    edits: Mapping[str, Sequence[int]],
    said: Sequence[Sentence],
    calls: int,
) -> list[Statement]:
    """Results as the agent told them, issues, commits by subject (lines of the last difference where there are none),
    then changed files by path.
    """
    kept = commits(events)[-MOST_COMMITS:] or _added_lines(events, edits)
    return [*_results(said, calls), *_tracked(events, items), *kept, *_files(edits)]


def edited_files(events: Sequence[RecordedEvent], items: Sequence[Item]) -> Mapping[str, tuple[int, ...]]:
    """The numbers of the events that changed each file, by path as the tool had it."""
    by_shell = {each.source.source_call_id for each in items if each.text.startswith(("Edit ", "Write "))}
    found: dict[str, list[int]] = {}
    for event in events:
        writes = event.tool in ("Edit", "Write") or (event.tool == "Bash" and event.call_id in by_shell)
        if event.kind == EventKind.TOOL and event.path and writes and event.failed is not True:
            found.setdefault(event.path, []).append(event.number)
    return {path: tuple(numbers) for path, numbers in found.items()}


def relative(path: str, paths: Iterable[str]) -> str:
    """A path below the folder that all changed files lie in."""
    root = _shared_folder(paths)
    return path.removeprefix(root) or path


def findings(said: Sequence[Sentence], told: Sequence[Statement]) -> list[Statement]:
    """What stands under a heading of findings, and in a session that has little to tell what the last answer says."""
    answers = [each for each in said if each.by == AGENT]
    little = sum(" " in each.text for each in told) < _ENOUGH_TOLD
    found = [each for each in answers if _FINDINGS.search(each.heading)]
    found += [each for each in answers if little and each.event == answers[-1].event and each not in found]
    telling = [each for each in found if says_something(each.text) > 1 and not _NO_FINDING.search(each.text)]
    return [Statement(text=each.text, event=each.event) for each in telling[-MOST_FINDINGS:]]


def _results(said: Sequence[Sentence], calls: int) -> list[Statement]:
    """What the last answer to each request says was done, later ones first, and the last count of passing tests."""
    told = [each for each in said if each.by == AGENT]
    closing = {each.turn: each.event for each in told}
    done = [each for each in told if each.event == closing[each.turn] and _is_result(each)]
    latest = sorted(done, key=lambda each: (-each.turn, each.place))
    tallies = [each for each in told if _TALLY.search(each.text) and not _NOT_DONE.search(each.text)]
    most = min(MOST_RESULTS, LEAST_RESULTS + calls // _CALLS_PER_RESULT)
    chosen = {(each.event, each.place): each.text for each in [*latest[:most], *tallies[-1:]]}
    return [Statement(text=text, event=event) for (event, _), text in sorted(chosen.items())]


def _is_result(sentence: Sentence) -> bool:
    words = len(sentence.text.split())
    return words > 3 and bool(_DONE.search(sentence.text)) and not _NOT_DONE.search(sentence.text)


def _tracked(events: Sequence[RecordedEvent], items: Sequence[Item]) -> list[Statement]:
    """What an issue tracker answered when issues were opened or closed, the last few."""
    calls = {each.source.source_call_id for each in items if each.source.extraction_rule_id == "issue-changed"}
    answered = [(event, event.text.splitlines()[1:2]) for event in events if event.call_id in calls]
    found = [Statement(text=cut(lines[0].strip()), event=event.number) for event, lines in answered if lines]
    return [each for each in found if _SETTLED.search(each.text)][-MOST_TRACKED:]


def commits(events: Sequence[RecordedEvent]) -> list[Statement]:
    """Commits by subject, as git answered or else as the command said; one that was repeated counts once, at last."""
    found: dict[str, Statement] = {}
    for event in events:
        subject = _subject(event)
        if subject:
            found[subject] = Statement(text=subject, event=event.number, note=COMMIT)
    return sorted(found.values(), key=lambda each: each.event)


def _subject(event: RecordedEvent) -> str:
    if event.tool != "Bash" or event.failed is True or "commit" not in event.text:
        return ""
    found = _COMMITTED.search(event.text) or _MESSAGE.search(event.text.partition("\n")[0])
    return cut(_BODY.split(found[1].strip())[0].strip(), LONGEST_SUBJECT) if found else ""


def _added_lines(events: Sequence[RecordedEvent], edits: Iterable[str]) -> list[Statement]:
    """The first telling lines that the last shown difference adds to files that were edited."""
    shown = next((event for event in reversed(events) if "\ndiff --git " in event.text), None)
    if shown is None:
        return []
    lasting = {path for path in re.findall(r"(?m)^\+\+\+ (?:b/)?(\S+)", shown.text) if not _SCRATCH.search(path)}
    ours = {path for path in lasting if any(each.endswith(path) for each in edits)} or lasting
    path, found = "", list[Statement]()
    for line in shown.text.splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ ").removeprefix("b/")
        elif path in ours and _TELLING_LINE.match(line):
            text = " ".join(line[1:].split())
            found.append(Statement(text=text, event=shown.number, note=f"line added to {path}"))
    return found[:MOST_LINES]


def _files(edits: Mapping[str, Sequence[int]]) -> list[Statement]:
    """Changed files by path, those changed most where there are many; scratch files only where there are no others."""
    lasting = {path: numbers for path, numbers in edits.items() if not _SCRATCH.search(path)} or edits
    ranked = sorted(lasting, key=lambda path: (-len(lasting[path]), lasting[path][0]))[:MOST_FILES]
    return [_file(relative(path, edits), lasting[path]) for path in sorted(ranked)]


def _file(shown: str, numbers: Sequence[int]) -> Statement:
    return Statement(text=shown, event=numbers[0], note=f"{len(numbers)} edits" if len(numbers) > 1 else "")


def _shared_folder(paths: Iterable[str]) -> str:
    """The folder that all changed files of the project lie in, with a slash; of a single file the folder above."""
    ours = [path for path in paths if path.startswith("/") and "/." not in path and not _SCRATCH.search(path)]
    absolute = [path.split("/")[:-1] for path in ours]
    if not absolute:
        return ""
    shared = absolute[0]
    for folders in absolute[1:]:
        same = [a == b for a, b in zip(shared, folders, strict=False)]
        shared = shared[: same.index(False)] if False in same else shared[: len(same)]
    kept = shared if len(absolute) > 1 else shared[:-1]
    return "/".join(kept) + "/" if len(kept) > 1 else ""
