"""The Markdown body of a draft: short headings where there is evidence, a line per statement with its event. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from scrimshaw.session.changes import COMMIT
from scrimshaw.session.draft import Draft
from scrimshaw.session.evidence import Statement

LONGEST_BODY, MOST_LINES = 4_500, 40  # characters, about 1,100 tokens; lines with a statement
_FILES_PER_LINE, _FILE_LINES = 6, 8


def body(draft: Draft) -> str:
    """The sections that have statements, in order of use; the longest lists give way where the body grows too long."""
    sections = {
        "Task": _lines([draft.task] if draft.task else []),
        "Asked later": _lines(draft.requests),
        "Decisions": _lines(draft.decisions),
        "Changed": [*_lines(_told(draft)), *_files(_touched(draft))],
        "Found": _lines(draft.findings),
        "Problems": _lines(draft.problems),
        "Open": _lines(draft.open),
        "Next": _lines([draft.next_step] if draft.next_step else []),
    }
    while _too_long(sections):
        longest = max(sections, key=lambda name: sum(map(len, sections[name])))
        sections[longest] = _without_middle(sections[longest])
    return "\n".join(_rendered(sections))


def _too_long(sections: Mapping[str, Sequence[str]]) -> bool:
    lines = [line for section in sections.values() for line in section]
    return sum(len(line) + 1 for line in lines) > LONGEST_BODY or len(lines) > MOST_LINES


def _rendered(sections: dict[str, list[str]]) -> Iterator[str]:
    for name, lines in sections.items():
        if lines:
            yield f"## {name}\n"
            yield from lines
            yield ""


def _without_middle(lines: list[str]) -> list[str]:
    middle = len(lines) // 2
    return lines[:middle] + lines[middle + 1 :]


def _lines(told: Sequence[Statement]) -> list[str]:
    return [_line(each) for each in told]


def _line(told: Statement) -> str:
    if told.note == COMMIT:
        return f"- commit: {told.text} (e{told.event})"
    if told.note:
        return f"- {told.text} — {told.note} (e{told.event})"
    return f"- {told.text} (e{told.event})"


def _touched(draft: Draft) -> list[Statement]:
    return [each for each in draft.changed if _is_file(each)]


def _told(draft: Draft) -> list[Statement]:
    return [each for each in draft.changed if not _is_file(each)]


def _is_file(told: Statement) -> bool:
    return told.note.endswith("edits") or (not told.note and " " not in told.text)


def _files(touched: Sequence[Statement]) -> list[str]:
    """A line per folder: `lib/a.ex`, `b.ex` and the events of their first changes."""
    folders: dict[str, list[Statement]] = {}
    for each in touched:
        folders.setdefault(each.text.rpartition("/")[0], []).append(each)
    lines = [_folder_line(folder, files) for folder, files in folders.items()]
    return lines[:_FILE_LINES]


def _folder_line(folder: str, files: Sequence[Statement]) -> str:
    shown = files[:_FILES_PER_LINE]
    names = ", ".join(_file(each, folder) for each in shown)
    more = f" and {len(files) - len(shown)} more" if len(files) > len(shown) else ""
    marks = ", ".join(f"e{number}" for number in sorted({each.event for each in shown}))
    return f"- {folder}/: {names}{more} ({marks})" if folder else f"- {names}{more} ({marks})"


def _file(each: Statement, folder: str) -> str:
    name = each.text.removeprefix(f"{folder}/") if folder else each.text
    return f"{name} ({each.note})" if each.note else name
